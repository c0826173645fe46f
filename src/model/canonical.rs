//! The defaults of a job, by its type (jobspec.md 6), and the constraints that its contents imply (jobspec.md 7). Making a
//! job complete twice changes nothing the second time.

use super::constraint::Constraint;
use super::eval::DEFAULT_PRIORITY;
use super::job::{
    DEFAULT_KILL_TIMEOUT, DelayFunction, JobSpec, JobType, ReschedulePolicy, RestartPolicy, TaskGroup,
};
use super::time::Span;
use std::collections::BTreeSet;

pub const DEFAULT_NAMESPACE: &str = "default";
pub const DEFAULT_NODE_POOL: &str = "default";
/// Stands for the region of whoever takes the job.
pub const GLOBAL_REGION: &str = "global";

impl RestartPolicy {
    pub fn default_for(job_type: JobType) -> Self {
        match job_type {
            JobType::Service | JobType::System => RestartPolicy::default(),
            JobType::Batch | JobType::Sysbatch => {
                RestartPolicy { attempts: 3, interval: Span::hours(24), ..RestartPolicy::default() }
            }
        }
    }
}

impl ReschedulePolicy {
    pub fn default_for(job_type: JobType) -> Option<Self> {
        match job_type {
            JobType::Service => Some(ReschedulePolicy::default()),
            JobType::Batch => Some(ReschedulePolicy {
                attempts: 1,
                interval: Span::hours(24),
                delay: Span::seconds(5),
                delay_function: DelayFunction::Constant,
                max_delay: Span::ZERO,
                unlimited: false,
            }),
            JobType::System | JobType::Sysbatch => None,
        }
    }
}

/// What a region fills in where a job is silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    pub priority: i64,
    pub node_pool: String,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults { priority: DEFAULT_PRIORITY, node_pool: DEFAULT_NODE_POOL.into() }
    }
}

/// Fills in what is empty and adds the implied constraints.
pub fn complete(spec: &mut JobSpec, defaults: &Defaults) {
    let fill = |text: &mut String, with: &str| {
        if text.is_empty() {
            text.push_str(with);
        }
    };
    fill(&mut spec.namespace, DEFAULT_NAMESPACE);
    fill(&mut spec.region, GLOBAL_REGION);
    fill(&mut spec.node_pool, &defaults.node_pool);
    let id = spec.id.clone();
    fill(&mut spec.name, &id);
    if spec.datacenters.is_empty() {
        spec.datacenters.push("*".into());
    }
    if spec.priority == 0 {
        spec.priority = defaults.priority;
    }
    for group in &mut spec.groups {
        for task in &mut group.tasks {
            if task.kill_timeout == Span::ZERO {
                task.kill_timeout = DEFAULT_KILL_TIMEOUT;
            }
        }
        imply(group);
    }
}

/// A group whose tasks are stopped with given signals needs a node that can send them.
fn imply(group: &mut TaskGroup) {
    let signals: BTreeSet<&str> =
        group.tasks.iter().map(|t| t.kill_signal.as_str()).filter(|s| !s.is_empty()).collect();
    if signals.is_empty() {
        return;
    }
    let implied = Constraint {
        left: "${attr.os.signals}".into(),
        operand: "set_contains".into(),
        right: signals.into_iter().collect::<Vec<_>>().join(","),
    };
    if !group.constraints.contains(&implied) {
        group.constraints.push(implied);
    }
}

#[cfg(test)]
mod tests {
    use super::super::validate::tests::job;
    use super::*;

    #[test]
    fn an_empty_job_gets_its_defaults_and_keeps_them() {
        let mut spec = job(JobType::Service);
        spec.namespace.clear();
        spec.region.clear();
        spec.node_pool.clear();
        spec.name.clear();
        spec.datacenters.clear();
        spec.priority = 0;
        spec.groups[0].tasks[0].kill_timeout = Span::ZERO;
        complete(&mut spec, &Defaults { priority: 30, node_pool: "edge".into() });
        assert_eq!(
            (spec.namespace.as_str(), spec.region.as_str(), spec.name.as_str()),
            ("default", "global", "a")
        );
        assert_eq!((spec.node_pool.as_str(), spec.priority), ("edge", 30));
        assert_eq!(spec.datacenters, ["*"]);
        assert_eq!(spec.groups[0].tasks[0].kill_timeout, Span::seconds(5));
        let once = spec.clone();
        complete(&mut spec, &Defaults::default());
        assert_eq!(spec, once);
    }

    #[test]
    fn kill_signals_imply_one_constraint_per_group() {
        let mut spec = job(JobType::Service);
        let mut second = spec.groups[0].tasks[0].clone();
        second.name = "second".into();
        second.kill_signal = "SIGINT".into();
        spec.groups[0].tasks[0].kill_signal = "SIGTERM".into();
        spec.groups[0].tasks.push(second);
        for _ in 0..2 {
            complete(&mut spec, &Defaults::default());
            assert_eq!(spec.groups[0].constraints.len(), 1);
            assert_eq!(
                spec.groups[0].constraints[0].to_string(),
                "${attr.os.signals} set_contains SIGINT,SIGTERM"
            );
        }
    }
}
