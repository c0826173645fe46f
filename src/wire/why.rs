//! Why something is as it is: the question, and the answer. Nothing is written.

use model::alloc::NodeScore;
use model::id::{AllocId, EvalId, JobKey, NodeId};
use model::time::Wall;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Job(JobKey),
    Alloc(AllocId),
    Eval(EvalId),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    pub job: JobKey,
    /// What it is and does, in a sentence.
    pub summary: String,
    /// As in the job's file.
    pub groups: Vec<GroupWhy>,
    /// For an allocation that was placed: the best nodes as they were then, best first.
    pub then: Vec<(NodeScore, String)>,
    /// How it came to be so, oldest first.
    pub history: Vec<HistoryEntry>,
    /// The index of the state that was read.
    pub index: u64,
}

/// What one more allocation of a group would find.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupWhy {
    pub name: String,
    pub count: i64,
    /// So many are wanted on each node: `nodes` are those that do not have them.
    pub each_node: bool,
    /// Neither stopped nor ended.
    pub live: u64,
    pub nodes: u64,
    /// On which there is a place for one more.
    pub feasible: u64,
    /// Those that exclude most nodes first.
    pub reasons: Vec<Reason>,
    /// Only what it asks for is missing there, and less of it than elsewhere.
    pub nearest: Option<Nearest>,
    /// On so many of the full nodes that were looked at less urgent work could make way for one more. Looked at only where no
    /// node has a place.
    pub preemptable_nodes: u64,
    pub looked_at: u64,
    /// Whether such jobs may send it away.
    pub preempts: bool,
    /// The best nodes for one more, best first, with their names.
    pub best: Vec<(NodeScore, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub text: String,
    /// That it excludes.
    pub nodes: u64,
    /// That nothing else excludes: they would do if this alone were otherwise.
    pub alone: u64,
    pub amount: Option<Wanted>,
}

/// For an amount that a group asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub asked: i64,
    /// With no more than this, some node would do.
    pub would_do: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    pub node: NodeId,
    pub name: String,
    pub missing: Vec<Missing>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub what: &'static str,
    pub missing: i64,
    pub asked: i64,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    pub at: Wall,
    /// `job`, `evaluation`, `plan`, `deployment`, `node`, `allocation` or `task`.
    pub kind: &'static str,
    /// The id of the object, if it has one; it may have been collected by now.
    pub id: String,
    pub text: String,
}
