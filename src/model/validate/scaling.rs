//! Whether what a group says of its scaling makes sense (reference: jobspec 8).

use crate::model::job::{JobSpec, JobType, TaskGroup};
use crate::model::scaling::Scaling;

/// Jobs of this type have one of a group on each node, or none.
pub const OF_SYSTEM_JOB: &str = "Task groups with job type system do not support scaling blocks";

pub fn of_system_job(spec: &JobSpec) -> bool {
    spec.job_type == JobType::System && spec.groups.iter().any(|g| g.scaling.is_some())
}

pub fn group(g: &TaskGroup) -> Vec<String> {
    let Some(Scaling { min, max, .. }) = &g.scaling else { return Vec::new() };
    let mut errors = Vec::new();
    let mut check = |bad: bool, text: &str| {
        if bad {
            errors.push(format!("Scaling policy invalid: {text}"));
        }
    };
    check(*max < 0, "maximum count must be specified and non-negative");
    check(*max >= 0 && max < min, "maximum count must not be less than minimum count");
    check(*min < 0, "minimum count must be specified and non-negative");
    check(*max < g.count, "task group count must not be greater than maximum count in scaling policy");
    check(g.count < *min, "task group count must not be less than minimum count in scaling policy");
    errors
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::super::{Limits, validate};
    use super::*;

    fn told(job_type: JobType, (min, count, max): (i64, i64, i64)) -> String {
        let mut spec = job(job_type);
        spec.groups[0].count = count;
        spec.groups[0].scaling = Some(Scaling { min, max, enabled: true, ..Scaling::default() });
        validate(&spec, &Limits::default()).error_text()
    }

    #[test]
    fn a_count_is_within_its_limits_and_those_are_limits() {
        for (limits, expected) in [
            ((0, 0, 0), None),
            ((1, 2, 3), None),
            ((2, 2, 2), None),
            ((1, 4, 3), Some("count must not be greater than maximum count in scaling policy")),
            ((2, 1, 3), Some("count must not be less than minimum count in scaling policy")),
            ((3, 3, 2), Some("maximum count must not be less than minimum count")),
            ((1, 1, -1), Some("maximum count must be specified and non-negative")),
            ((-1, 1, 1), Some("minimum count must be specified and non-negative")),
        ] {
            let told = told(JobType::Service, limits);
            match expected {
                None => assert_eq!(told, "", "{limits:?}"),
                Some(text) => {
                    assert!(told.contains("Task group scaling policy validation failed: "), "{told}");
                    assert!(told.contains(text), "{limits:?}: {told}");
                }
            }
        }
    }

    #[test]
    fn a_system_job_has_no_policies() {
        assert!(told(JobType::System, (0, 1, 1)).contains(OF_SYSTEM_JOB));
        assert_eq!(told(JobType::Sysbatch, (0, 1, 1)), "");
    }
}
