//! Events as JSON: a line for each entry of the log, an object in each event (http-api.md 11.2, 11.3).

use super::alloc::AllocShape;
use super::deployment::DeploymentShape;
use super::eval::EvalShape;
use super::job::JobShape;
use super::node::NodeShape;
use super::pool::NodePoolShape;
use crate::events::identity::{Identity, identity};
use serde::Serialize;
use wire::event::{Events, Object};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EventLine<'a> {
    pub index: u64,
    pub events: Vec<EventShape<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EventShape<'a> {
    topic: &'static str,
    #[serde(rename = "Type")]
    kind: &'static str,
    key: String,
    namespace: &'a str,
    filter_keys: Option<Vec<&'a str>>,
    index: u64,
    payload: Payload<'a>,
}

/// The object below its name.
#[derive(Serialize)]
enum Payload<'a> {
    Evaluation(Box<EvalShape<'a>>),
    Allocation(Box<AllocShape<'a>>),
    Node(Box<NodeShape<'a>>),
    Deployment(Box<DeploymentShape<'a>>),
    NodePool(Box<NodePoolShape<'a>>),
    #[serde(untagged)]
    Job(JobPayload<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct JobPayload<'a> {
    job: Box<JobShape<'a>>,
    deleted: bool,
}

pub fn shape<'a>(object: &'a Object, events: &Events) -> EventShape<'a> {
    let Identity { topic, key, namespace, filter_keys } = identity(object);
    EventShape {
        topic,
        kind: events.kind,
        key,
        namespace: namespace.unwrap_or_default(),
        filter_keys: Some(filter_keys).filter(|keys| !keys.is_empty()),
        index: events.index,
        payload: payload(object),
    }
}

fn payload(object: &Object) -> Payload<'_> {
    match object {
        Object::Job { job, deleted } => {
            Payload::Job(JobPayload { job: Box::new(JobShape::new(job)), deleted: *deleted })
        }
        // the pool belongs to the job, which is no part of the event
        Object::Eval(eval) => Payload::Evaluation(Box::new(EvalShape::new(eval, ""))),
        Object::Alloc(alloc) => Payload::Allocation(Box::new(AllocShape::new(alloc, None))),
        Object::Deployment(deployment) => Payload::Deployment(Box::new(DeploymentShape::new(deployment))),
        Object::NodePool(pool) => Payload::NodePool(Box::new(NodePoolShape::new(pool))),
        Object::Node(node) => Payload::Node(Box::new(NodeShape::new(node))),
    }
}
