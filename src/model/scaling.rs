//! How far groups, and what their tasks are given, may be scaled, and what became of attempts to: the policies that autoscalers
//! read, and the events that they leave (server.md 13).
//!
//! Refuses to know: when to scale. A policy's own text is for autoscalers.

pub mod policies;

use super::id::{EvalId, JobKey, ScalingPolicyId};
use super::schema::{DecodeHook, ValueKind, block, maybe, named, nullable, plain};
use super::time::Wall;
use super::value::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a policy lets grow and shrink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ScalingType {
    /// A group's count.
    #[default]
    Horizontal,
    /// MHz of a task.
    VerticalCpu,
    /// MiB of a task.
    VerticalMem,
}

impl ScalingType {
    /// Those of tasks.
    pub const VERTICAL: [ScalingType; 2] = [ScalingType::VerticalCpu, ScalingType::VerticalMem];

    pub fn as_str(self) -> &'static str {
        match self {
            ScalingType::Horizontal => "horizontal",
            ScalingType::VerticalCpu => "vertical_cpu",
            ScalingType::VerticalMem => "vertical_mem",
        }
    }
}

block! {
    /// A `scaling` block.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Scaling in named("scaling", "Scaling").hooked(DecodeHook::GroupScaling) => {
        pub min: i64 => nullable("min", "Min");
        pub max: i64 = Scaling::NO_MAX => nullable("max", "Max");
        pub enabled: bool = true => nullable("enabled", "Enabled");
        /// Not looked at here.
        pub policy: BTreeMap<String, Value> => nullable("policy", "Policy");
    }
    and [
        plain("type", "Type", ValueKind::Text),
        maybe("", "Target", ValueKind::TextMap),
        plain("", "ID", ValueKind::Text),
        plain("", "Namespace", ValueKind::Text),
        plain("", "CreateIndex", ValueKind::Int),
        plain("", "ModifyIndex", ValueKind::Int),
    ]
}

impl Scaling {
    /// The maximum where none was given.
    pub const NO_MAX: i64 = -1;

    /// Why there cannot be so many, if there cannot.
    pub fn refuses(&self, count: i64) -> Option<String> {
        let beyond = |end: &str, sign, limit| {
            format!("group count was {end} than scaling policy {}: {count} {sign} {limit}", limit_of(sign))
        };
        if count < self.min {
            return Some(beyond("less", '<', self.min));
        }
        (count > self.max).then(|| beyond("greater", '>', self.max))
    }
}

fn limit_of(sign: char) -> &'static str {
    if sign == '<' { "minimum" } else { "maximum" }
}

/// A task's `scaling` block. Nothing here acts on it: it is for whoever advises on sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskScaling {
    pub kind: ScalingType,
    pub scaling: Scaling,
}

/// The policy of one group, or of one task, as a region keeps it, while its job is not stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingPolicy {
    pub job: JobKey,
    pub group: String,
    pub scaling: Scaling,
    pub create_index: u64,
    /// Moves when the block is another one, and not with the count.
    pub modify_index: u64,
    pub kind: ScalingType,
    /// Empty: it is the group's.
    pub task: String,
}

impl ScalingPolicy {
    pub fn id(&self) -> ScalingPolicyId {
        self.target().id()
    }

    pub fn target(&self) -> ScalingTarget<'_> {
        let (namespace, job) = (&self.job.namespace, &self.job.id);
        ScalingTarget { namespace, job, group: &self.group, task: &self.task, kind: self.kind }
    }
}

/// What a policy is for.
#[derive(Clone, Copy, Debug)]
pub struct ScalingTarget<'a> {
    pub namespace: &'a str,
    pub job: &'a str,
    pub group: &'a str,
    /// Empty: the group.
    pub task: &'a str,
    pub kind: ScalingType,
}

impl ScalingTarget<'_> {
    /// Follows from what the policy is for, so it is the same in every version, and on every server.
    pub fn id(self) -> ScalingPolicyId {
        let parts = [self.namespace, self.job, self.group, self.task, self.kind.as_str()];
        let parts = if self.kind == ScalingType::Horizontal { &parts[..3] } else { &parts[..] };
        let name: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
        let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes());
        ScalingPolicyId::from_random(u128::from_be_bytes(id.into_bytes()))
    }
}

#[cfg(any(test, feature = "testing"))]
pub fn policy_id(namespace: &str, job: &str, group: &str) -> ScalingPolicyId {
    ScalingTarget { namespace, job, group, task: "", kind: ScalingType::Horizontal }.id()
}

/// Somebody scaled a group, or says why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingEvent {
    pub at: Wall,
    /// `None`: only this was said.
    pub count: Option<i64>,
    pub previous_count: i64,
    pub message: String,
    pub error: bool,
    pub meta: BTreeMap<String, Value>,
    pub eval: Option<EvalId>,
    pub create_index: u64,
}

/// The newest ones of a group, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingEvents(pub Vec<ScalingEvent>);

impl ScalingEvents {
    pub const MOST: usize = 20;

    pub fn add(&mut self, event: ScalingEvent) {
        self.0.truncate(Self::MOST - 1);
        self.0.insert(0, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_a_limit_are_refused_and_others_are_not() {
        let scaling = Scaling { min: 1, max: 3, ..Scaling::default() };
        for (count, refusal) in [
            (0, Some("group count was less than scaling policy minimum: 0 < 1")),
            (1, None),
            (3, None),
            (4, Some("group count was greater than scaling policy maximum: 4 > 3")),
        ] {
            assert_eq!(scaling.refuses(count).as_deref(), refusal, "{count}");
        }
    }

    #[test]
    fn ids_are_those_of_their_targets() {
        let id = |job, group| policy_id("default", job, group);
        assert_eq!(id("web", "a").to_string(), "ab576f4e-12c0-4964-ae68-d55aee108427");
        assert_ne!(id("web", "a"), id("web", "b"));
        assert_ne!(id("web", "1:a"), id("web1:", "a"));
        let of_task =
            |task, kind| ScalingTarget { namespace: "default", job: "web", group: "a", task, kind }.id();
        let (cpu, mem) = (ScalingType::VerticalCpu, ScalingType::VerticalMem);
        assert_eq!(of_task("", ScalingType::Horizontal), id("web", "a"));
        assert_ne!(of_task("t", cpu), of_task("t", mem));
        assert_ne!(of_task("t", cpu), of_task("u", cpu));
        assert_ne!(of_task("t", cpu), id("web", "a"));
    }

    #[test]
    fn so_many_events_are_kept_and_the_newest_is_the_first() {
        let mut events = ScalingEvents::default();
        for n in 0..30 {
            events.add(ScalingEvent {
                at: Wall(n),
                count: None,
                previous_count: 1,
                message: String::new(),
                error: false,
                meta: BTreeMap::new(),
                eval: None,
                create_index: n as u64,
            });
        }
        let kept: Vec<u64> = events.0.iter().map(|e| e.create_index).collect();
        assert_eq!(kept, (10..30).rev().collect::<Vec<_>>());
    }
}
