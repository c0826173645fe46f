//! Events of the event stream: the objects that an entry of the log changed, as they are afterwards. Derived from the state alone, on every
//! server; kept in memory only, so it has no version and no bytes of its own.

use model::alloc::Allocation;
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::Job;
use model::node::Node;
use model::pool::NodePool;
use std::sync::Arc;

/// The events of one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Events {
    pub index: u64,
    /// The kind of change, in the words of the field's API: of every event here.
    pub kind: &'static str,
    pub objects: Vec<Object>,
}

/// An object as the entry left it, or, if it is deleted, as the entry found it.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    Job { job: Arc<Job>, deleted: bool },
    Eval(Arc<Evaluation>),
    Alloc(Arc<Allocation>),
    Node(Arc<Node>),
    Deployment(Arc<Deployment>),
    NodePool(Arc<NodePool>),
}
