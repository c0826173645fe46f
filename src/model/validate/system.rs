//! Validation of system and sysbatch jobs: what they cannot ask for.

use super::names;
use crate::job::{JobType, TaskGroup, UpdatePolicy};
use crate::preference::{Affinity, Spread};

/// System jobs go to every node, so they prefer none.
pub fn preferences(job_type: JobType, affinities: &[Affinity], spreads: &[Spread], errors: &mut Vec<String>) {
    if job_type != JobType::System {
        return;
    }
    if !affinities.is_empty() {
        errors.push("System jobs may not have an affinity block".to_string());
    }
    if !spreads.is_empty() {
        errors.push("System jobs may not have a spread block".to_string());
    }
}

pub fn count(job_type: JobType, g: &TaskGroup, errors: &mut Vec<String>) {
    if job_type == JobType::System && g.count > 1 {
        let (name, count) = (names::shown(&g.name), g.count);
        errors.push(format!(
            "Job task group {name} has count {count}. Count cannot exceed 1 with system scheduler"
        ));
    }
}

/// A system job's canaries are a share of its nodes.
pub fn update(u: &UpdatePolicy, errors: &mut Vec<String>) {
    if u.canary > 100 {
        errors.push(format!(
            "Canary of a system job is a percentage of its nodes, and {} is more than 100",
            u.canary
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::super::{Limits, validate};
    use super::*;
    use crate::job::{JobSpec, MigratePolicy, ReschedulePolicy};

    #[test]
    fn a_system_job_prefers_no_node_and_has_one_of_each_group() {
        type Change = fn(&mut JobSpec);
        let cases: &[(Change, &str)] = &[
            (|j| j.affinities = vec![Affinity::default()], "System jobs may not have an affinity block"),
            (|j| j.spreads = vec![Spread::default()], "System jobs may not have a spread block"),
            (|j| j.groups[0].affinities = vec![Affinity::default()], "System jobs may not have an affinity"),
            (|j| j.groups[0].spreads = vec![Spread::default()], "System jobs may not have a spread"),
            (
                |j| j.groups[0].tasks[0].affinities = vec![Affinity::default()],
                "System jobs may not have an affinity",
            ),
            (
                |j| j.groups[0].count = 2,
                "Job task group g has count 2. Count cannot exceed 1 with system scheduler",
            ),
            (
                |j| j.groups[0].reschedule = ReschedulePolicy::default_for(JobType::Batch),
                "System jobs should not have a reschedule policy",
            ),
            (|j| j.groups[0].migrate = Some(MigratePolicy::default()), "does not allow migrate block"),
            (|j| j.groups[0].update.as_mut().unwrap().max_parallel = -1, "Max parallel"),
            (|j| j.groups[0].update.as_mut().unwrap().canary = 101, "101 is more than 100"),
            (|j| j.groups[0].update.as_mut().unwrap().canary = -1, "Canary count can not be less than zero"),
            (
                |j| j.groups[0].update.as_mut().unwrap().auto_promote = true,
                "Auto Promote requires a Canary count greater than zero",
            ),
        ];
        for (change, part) in cases {
            let mut spec = job(JobType::System);
            spec.groups[0].update = Some(UpdatePolicy::default());
            change(&mut spec);
            let text = validate(&spec, &Limits::default()).error_text();
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_system_job_may_have_canaries_and_go_back() {
        let mut spec = job(JobType::System);
        let update =
            UpdatePolicy { canary: 100, auto_promote: true, auto_revert: true, ..UpdatePolicy::default() };
        spec.groups[0].update = Some(update);
        let text = validate(&spec, &Limits::default()).error_text();
        assert_eq!(text, "");
    }

    #[test]
    fn sysbatch_takes_a_count_but_no_service_policies() {
        let mut spec = job(JobType::Sysbatch);
        spec.groups[0].count = 2;
        assert!(validate(&spec, &Limits::default()).is_ok());
        spec.groups[0].reschedule = ReschedulePolicy::default_for(JobType::Batch);
        spec.groups[0].update = Some(UpdatePolicy::default());
        let text = validate(&spec, &Limits::default()).error_text();
        let parts = ["Sysbatch jobs should not have a reschedule policy", "does not allow update block"];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
