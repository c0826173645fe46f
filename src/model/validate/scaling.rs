//! Whether what groups and tasks say of their scaling makes sense (jobspec.md 8).

use crate::job::{JobSpec, JobType, Task, TaskGroup};
use crate::scaling::Scaling;

/// Jobs of this type have one of a group on each node, or none.
pub const OF_SYSTEM_JOB: &str = "Task groups with job type system do not support scaling blocks";

pub fn of_system_job(spec: &JobSpec) -> bool {
    spec.job_type == JobType::System && spec.groups.iter().any(|g| g.scaling.is_some())
}

pub fn group(g: &TaskGroup) -> Vec<String> {
    let Some(scaling) = &g.scaling else { return Vec::new() };
    let mut errors = limits(scaling, "count");
    if scaling.max < g.count {
        errors.push(invalid("task group count must not be greater than maximum count in scaling policy"));
    }
    if g.count < scaling.min {
        errors.push(invalid("task group count must not be less than minimum count in scaling policy"));
    }
    errors
}

pub fn task(t: &Task) -> Vec<String> {
    let mut errors = Vec::new();
    for (i, policy) in t.scaling.iter().enumerate() {
        let kind = policy.kind.as_str();
        errors.extend(limits(&policy.scaling, kind));
        if t.scaling[..i].iter().any(|other| other.kind == policy.kind) {
            errors.push(invalid(&format!("there is another one of type {kind}")));
        }
    }
    errors
}

fn limits(s: &Scaling, of: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut check = |bad: bool, text: String| {
        if bad {
            errors.push(invalid(&text));
        }
    };
    check(s.max < 0, format!("maximum {of} must be specified and non-negative"));
    check(s.max >= 0 && s.max < s.min, format!("maximum {of} must not be less than minimum {of}"));
    check(s.min < 0, format!("minimum {of} must be specified and non-negative"));
    errors
}

fn invalid(text: &str) -> String {
    format!("Scaling policy invalid: {text}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::super::{Limits, validate};
    use super::*;
    use crate::scaling::{ScalingType, TaskScaling};

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
    fn a_task_has_one_policy_of_each_type_with_limits() {
        let (cpu, mem) = (ScalingType::VerticalCpu, ScalingType::VerticalMem);
        for (policies, expected) in [
            (&[][..], None),
            (&[(cpu, 0, 10), (mem, 64, 64)], None),
            (&[(cpu, 0, -1)], Some("maximum vertical_cpu must be specified and non-negative")),
            (&[(mem, 5, 4)], Some("maximum vertical_mem must not be less than minimum vertical_mem")),
            (&[(mem, -1, 4)], Some("minimum vertical_mem must be specified and non-negative")),
            (&[(cpu, 0, 1), (cpu, 0, 2)], Some("there is another one of type vertical_cpu")),
        ] {
            let mut spec = job(JobType::Service);
            let scaling = |min, max| Scaling { min, max, enabled: true, ..Scaling::default() };
            let one = |&(kind, min, max): &(ScalingType, i64, i64)| TaskScaling {
                kind,
                scaling: scaling(min, max),
            };
            spec.groups[0].tasks[0].scaling = policies.iter().map(one).collect();
            let told = validate(&spec, &Limits::default()).error_text();
            match expected {
                None => assert_eq!(told, "", "{policies:?}"),
                Some(text) => {
                    assert!(told.contains("Task scaling policy validation failed: "), "{told}");
                    assert!(told.contains(text), "{policies:?}: {told}");
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
