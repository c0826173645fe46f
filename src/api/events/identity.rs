//! The identity of an event in the stream: its topic, its keys and its namespace (http-api.md 11.3).
//!
//! Refuses to know: who reads it, and how it is shown.

use wire::event::Object;

/// What an event is found by.
pub struct Identity<'a> {
    pub topic: &'static str,
    pub key: String,
    /// `None`: the object is the cluster's.
    pub namespace: Option<&'a str>,
    pub filter_keys: Vec<&'a str>,
}

pub fn identity(object: &Object) -> Identity<'_> {
    let (topic, key, namespace, filter_keys) = match object {
        Object::Job { job, .. } => ("Job", job.spec.id.clone(), Some(job.spec.namespace.as_str()), vec![]),
        Object::Eval(e) => {
            ("Evaluation", e.id.to_string(), Some(e.job.namespace.as_str()), vec![e.job.id.as_str()])
        }
        Object::Alloc(a) => {
            ("Allocation", a.id.to_string(), Some(a.job.namespace.as_str()), vec![a.job.id.as_str()])
        }
        Object::Deployment(d) => {
            ("Deployment", d.id.to_string(), Some(d.job.namespace.as_str()), vec![d.job.id.as_str()])
        }
        Object::NodePool(p) => ("NodePool", p.spec.name.clone(), None, vec![]),
        Object::Node(n) => ("Node", n.info.id.to_string(), None, vec![]),
    };
    Identity { topic, key, namespace, filter_keys }
}
