//! The policies that the `scaling` blocks of a job make, and the counts that its policies, its type and its region allow (server.md 13).
//!
//! Refuses to know: who scales, and where policies are kept.

use super::{Scaling, ScalingPolicy, ScalingType};
use crate::job::{JobSpec, JobType, TaskGroup};

/// All policies of a job that is registered at `index`, unless it is stopped.
pub fn of_job(spec: &JobSpec, index: u64) -> Vec<ScalingPolicy> {
    let mut found = Vec::new();
    for group in spec.groups.iter().filter(|_| !spec.stop) {
        let mut add = |task: &str, kind, scaling: &Scaling| {
            found.push(ScalingPolicy {
                job: spec.key(),
                group: group.name.clone(),
                scaling: scaling.clone(),
                create_index: index,
                modify_index: index,
                kind,
                task: task.to_string(),
            });
        };
        if let Some(scaling) = &group.scaling {
            add("", ScalingType::Horizontal, scaling);
        }
        for task in &group.tasks {
            task.scaling.iter().for_each(|s| add(&task.name, s.kind, &s.scaling));
        }
    }
    found
}

/// Why `group` of the job cannot have that count, if it cannot.
pub fn refuses_count(spec: &JobSpec, group: &TaskGroup, count: i64, max_count: i64) -> Option<String> {
    if let Some(refusal) = group.scaling.as_ref().and_then(|s| s.refuses(count)) {
        return Some(refusal);
    }
    if spec.job_type == JobType::System && count > 1 {
        return Some(format!("cannot scale jobs of type \"system\" to {count}: only to 0 or 1 on each node"));
    }
    let others = spec.groups.iter().filter(|g| g.name != group.name);
    let total = others.fold(count, |sum, g| sum.saturating_add(g.count));
    (total > max_count).then(|| format!("total count was {total}, which exceeds the maximum of {max_count}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::tests::job;

    #[test]
    fn counts_are_limited_without_a_scaling_policy_too() {
        let spec = job(JobType::Service);
        assert_eq!(refuses_count(&spec, &spec.groups[0], 7, 7), None);
        let beyond = refuses_count(&spec, &spec.groups[0], 8, 7);
        assert_eq!(beyond.as_deref(), Some("total count was 8, which exceeds the maximum of 7"));
        let spec = job(JobType::System);
        assert_eq!(refuses_count(&spec, &spec.groups[0], 1, 7), None);
        assert!(refuses_count(&spec, &spec.groups[0], 2, 7).is_some_and(|r| r.contains("0 or 1")));
    }
}
