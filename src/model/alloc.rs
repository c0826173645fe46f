//! An allocation: one placement of one task group on one node. It names its job's version; it does not carry the job.

use super::counts::Counts;
use super::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId};
use super::reschedule::Reschedule;
use super::resources::AllocResources;
use super::short_float;
use super::task::{TaskPhase, TaskState};
use super::time::{Span, Wall};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the servers want. Owned by the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DesiredStatus {
    #[default]
    Run,
    Stop,
    Evict,
}

impl DesiredStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            DesiredStatus::Run => "run",
            DesiredStatus::Stop => "stop",
            DesiredStatus::Evict => "evict",
        }
    }
}

/// What is so. Owned by the client, except `Lost` and `Unknown`, which servers set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ClientStatus {
    #[default]
    Pending,
    Running,
    Complete,
    Failed,
    Lost,
    Unknown,
}

impl ClientStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            ClientStatus::Pending => "pending",
            ClientStatus::Running => "running",
            ClientStatus::Complete => "complete",
            ClientStatus::Failed => "failed",
            ClientStatus::Lost => "lost",
            ClientStatus::Unknown => "unknown",
        }
    }

    /// `Unknown` is not terminal: the node may come back with the tasks running.
    pub fn is_terminal(self) -> bool {
        matches!(self, ClientStatus::Complete | ClientStatus::Failed | ClientStatus::Lost)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    pub id: AllocId,
    pub job: JobKey,
    /// With `job_version`, names the exact spec: a purged and registered-again job has another create index.
    pub job_create_index: u64,
    pub job_version: u64,
    /// `job_modify_index` of that version: equal to the job's current one when the allocation is up to date.
    pub job_modify_index: u64,
    pub group: String,
    /// `<job id>.<group>[<index>]`.
    pub name: String,
    pub eval_id: EvalId,
    pub node_id: NodeId,
    pub node_name: String,
    pub resources: AllocResources,
    pub desired: DesiredStatus,
    pub desired_description: String,
    pub client: ClientStatus,
    pub client_description: String,
    pub task_states: BTreeMap<String, TaskState>,
    pub previous: Option<AllocId>,
    pub next: Option<AllocId>,
    pub metrics: AllocMetric,
    pub create_time: Wall,
    pub modify_time: Wall,
    /// 0: only planned so far.
    pub create_index: u64,
    pub modify_index: u64,
    /// Moves with server-side changes only: what a client compares to know whether to fetch the allocation again.
    pub alloc_modify_index: u64,
    /// How often what it replaces was replaced before, oldest first; the last one led to this allocation.
    pub reschedules: Vec<Reschedule>,
    /// The evaluation that will look at it again when its time has come.
    pub followup_eval: Option<EvalId>,
    pub transition: Transition,
    pub deployment: Option<DeploymentId>,
    /// What the deployment knows of it.
    pub health: Option<Health>,
    /// When servers found it lost or unknown, and when it came back; oldest first.
    pub states: Vec<StateChange>,
    /// Those that were told to leave the node for it.
    pub preempted: Vec<AllocId>,
    /// The one that it was told to leave for.
    pub preempted_by: Option<AllocId>,
}

/// Whether an allocation is to leave its node. The first two are encoded as `false` and `true`, which they once were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leave {
    No,
    AtOnce,
    /// Only when its successor has found a node: nothing is lost while there is no room.
    WhenPlaced,
}

/// What servers ask of an allocation beyond running or stopping. None: never asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// To another node.
    pub migrate: Option<Leave>,
    /// May be replaced although its deployment is under way.
    pub reschedule: Option<bool>,
    /// Is to be replaced, whatever the policy says.
    pub force_reschedule: Option<bool>,
    /// The allocation's end does not wait for anybody's `shutdown_delay`.
    pub no_shutdown_delay: Option<bool>,
}

impl Transition {
    /// Whether the allocation is to leave its node, now or when there is room elsewhere.
    pub fn leaves(self) -> bool {
        matches!(self.migrate, Some(Leave::AtOnce | Leave::WhenPlaced))
    }

    /// With what `newer` says in place of what was said before.
    pub fn updated(self, newer: Transition) -> Transition {
        Transition {
            migrate: newer.migrate.or(self.migrate),
            reschedule: newer.reschedule.or(self.reschedule),
            force_reschedule: newer.force_reschedule.or(self.force_reschedule),
            no_shutdown_delay: newer.no_shutdown_delay.or(self.no_shutdown_delay),
        }
    }
}

/// An allocation as part of a deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// None: not decided yet.
    pub healthy: Option<bool>,
    pub at: Wall,
    pub canary: bool,
    pub modify_index: u64,
}

/// A change of the client status by servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateChange {
    pub status: ClientStatus,
    pub at: Wall,
}

impl Allocation {
    pub fn server_terminal(&self) -> bool {
        matches!(self.desired, DesiredStatus::Stop | DesiredStatus::Evict)
    }

    pub fn client_terminal(&self) -> bool {
        self.client.is_terminal()
    }

    /// Whether the node has reported the allocation as live; it may be between two runs.
    pub fn is_known_to_live(&self) -> bool {
        matches!(self.client, ClientStatus::Running | ClientStatus::Pending)
    }

    pub fn terminal(&self) -> bool {
        self.server_terminal() || self.client_terminal()
    }

    /// At least one task, and every task ended well.
    pub fn ran_successfully(&self) -> bool {
        !self.task_states.is_empty() && self.task_states.values().all(TaskState::successful)
    }

    /// Some task was told to end, and not because of how another task of the allocation had ended: its work may not be
    /// done, however quietly it went. (When an allocation is stopped, only its leader does not hear of the leader's end.)
    pub fn was_cut_short(&self) -> bool {
        let own_ends = ["Leader Task Dead", "Main Tasks Dead", "Max Run Duration Exceeded"];
        let cut_short = |task: &TaskState| {
            let killed = task.events.iter().any(|e| e.kind == "Killed");
            killed && !task.events.iter().any(|e| own_ends.contains(&e.kind.as_str()))
        };
        self.task_states.values().any(cut_short)
    }

    pub fn is_canary(&self) -> bool {
        self.health.is_some_and(|h| h.canary)
    }

    /// When it failed: what its tasks say, if that can be; the node's clock may show anything.
    pub fn failed_at(&self) -> Wall {
        let told = self.task_states.values().map(|t| t.finished_at).max().filter(|at| !at.is_never());
        told.unwrap_or(self.modify_time).min(self.modify_time).max(self.create_time)
    }

    /// The number in the name's brackets; 0 when the name has none.
    pub fn index(&self) -> u64 {
        name_index(&self.name)
    }
}

/// `<job>.<group>[<index>]`.
pub fn alloc_name(job_id: &str, group: &str, index: u64) -> String {
    let number = index.to_string();
    let mut name = String::with_capacity(job_id.len() + group.len() + number.len() + 3);
    [job_id, ".", group, "[", &number, "]"].iter().for_each(|part| name.push_str(part));
    name
}

/// The number in an allocation name's brackets; 0 when it has none.
pub fn name_index(name: &str) -> u64 {
    name.strip_suffix(']').and_then(|n| n.rsplit_once('[')).and_then(|(_, i)| i.parse().ok()).unwrap_or(0)
}

/// An allocation's client status and its sentence, from its tasks' states (client.md 5.4). It is terminal only when every task
/// has ended: servers may start a replacement as soon as they hear of it.
pub fn client_status_of(tasks: &BTreeMap<String, TaskState>) -> (ClientStatus, &'static str) {
    let any = |p: TaskPhase| tasks.values().any(|t| t.phase == p);
    if any(TaskPhase::Running) {
        (ClientStatus::Running, "Tasks are running")
    } else if tasks.is_empty() || any(TaskPhase::Pending) {
        (ClientStatus::Pending, "No tasks have started")
    } else if tasks.values().any(|t| t.failed) {
        (ClientStatus::Failed, "Failed tasks")
    } else {
        (ClientStatus::Complete, "All tasks have completed")
    }
}

/// How a placement was searched for: kept with the allocation, and with an evaluation for each group that failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocMetric {
    pub nodes_evaluated: u64,
    pub nodes_filtered: u64,
    pub nodes_in_pool: u64,
    /// Ready nodes per datacenter.
    pub nodes_available: Counts,
    pub class_filtered: Counts,
    pub constraint_filtered: Counts,
    pub nodes_exhausted: u64,
    pub class_exhausted: Counts,
    pub dimension_exhausted: Counts,
    /// Best first; at most 5.
    pub scores: Vec<NodeScore>,
    pub allocation_time: Span,
    /// Further allocations of the same group that failed for the same reason.
    pub coalesced_failures: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeScore {
    pub node_id: NodeId,
    pub scores: Scores,
    /// The mean of those that apply, `preemption` included.
    #[serde(with = "short_float")]
    pub normalized: f64,
    /// How good it is that others make way there; 0: nobody has to.
    #[serde(with = "short_float")]
    pub preemption: f64,
}

impl NodeScore {
    /// As metrics show them.
    pub fn by_name(&self) -> BTreeMap<&'static str, f64> {
        let mut scores = self.scores.by_name();
        if self.preemption != 0.0 {
            scores.insert("preemption", self.preemption);
        }
        scores
    }
}

/// How good a node is for one allocation, by each measure (scheduler.md 16). All but the first do not apply where
/// they are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    #[serde(with = "short_float")]
    pub binpack: f64,
    #[serde(with = "short_float")]
    pub job_anti_affinity: f64,
    #[serde(with = "short_float")]
    pub reschedule_penalty: f64,
    #[serde(with = "short_float")]
    pub node_affinity: f64,
    /// None: nothing is spread, or it makes no difference.
    pub spread: Option<f64>,
    #[serde(with = "short_float")]
    pub devices: f64,
}

impl Scores {
    pub fn by_name(&self) -> BTreeMap<&'static str, f64> {
        let always = [
            ("binpack", self.binpack),
            ("job-anti-affinity", self.job_anti_affinity),
            ("node-affinity", self.node_affinity),
            ("node-reschedule-penalty", self.reschedule_penalty),
        ];
        let devices = (self.devices != 0.0).then_some(("devices", self.devices));
        always.into_iter().chain(self.spread.map(|s| ("allocation-spread", s))).chain(devices).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_their_index() {
        assert_eq!(alloc_name("a", "g", 7), "a.g[7]");
        for (name, index) in [("a.g[7]", 7), ("a.g", 0), ("", 0), ("a[1].g[12]", 12), ("a.g[x]", 0)] {
            assert_eq!(name_index(name), index, "{name}");
        }
    }

    #[test]
    fn client_status_follows_the_tasks() {
        use TaskPhase::{Dead, Pending, Running};
        let cases: [(&[(TaskPhase, bool)], ClientStatus); 8] = [
            (&[], ClientStatus::Pending),
            (&[(Running, false), (Dead, false), (Pending, false)], ClientStatus::Running),
            (&[(Dead, false), (Pending, false)], ClientStatus::Pending),
            (&[(Dead, false), (Dead, false)], ClientStatus::Complete),
            (&[(Running, false), (Dead, true)], ClientStatus::Running),
            (&[(Pending, false), (Dead, true)], ClientStatus::Pending),
            (&[(Dead, false), (Dead, true)], ClientStatus::Failed),
            (&[(Pending, false)], ClientStatus::Pending),
        ];
        for (tasks, status) in cases {
            let tasks = tasks.iter().enumerate().map(|(i, &(phase, failed))| {
                (i.to_string(), TaskState { phase, failed, ..TaskState::default() })
            });
            assert_eq!(client_status_of(&tasks.collect()).0, status);
        }
    }
}
