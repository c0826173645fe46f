//! What a child has of its parent.

use super::*;
use crate::dispatch::PayloadRule;
use crate::dispatch::tests::{map, rules};
use crate::job::JobType;
use crate::validate::tests::job;

fn parent() -> JobSpec {
    JobSpec {
        meta: map(&[("who", "nobody"), ("kept", "yes")]),
        parameterized: Some(rules(PayloadRule::Optional)),
        ..job(JobType::Batch)
    }
}

fn request() -> DispatchRequest {
    DispatchRequest {
        job: parent().key(),
        payload: vec![1, 2],
        meta: map(&[("who", "me"), ("why", "")]),
        prefix: String::new(),
        token: "once".into(),
        priority: 70,
    }
}

#[test]
fn a_child_is_its_parent_with_what_was_brought_along() {
    let child = dispatched(&parent(), "a/dispatch-1-2".into(), request(), (9, 3));
    assert_eq!(child.meta, map(&[("who", "me"), ("why", ""), ("kept", "yes")]));
    assert_eq!((child.name.as_str(), child.parent.as_str(), child.priority), (child.id.as_str(), "a", 70));
    let own = Dispatch { payload: vec![1, 2], token: "once".into(), made_of: Some((9, 3)) };
    assert_eq!(child.dispatch, Some(own));
    assert_eq!(child.parameterized, parent().parameterized, "it says what it was dispatched from");
    assert!(!child.is_parameterized() && parent().is_parameterized());
    let unsaid = dispatched(&parent(), "a/x".into(), DispatchRequest { priority: 0, ..request() }, (9, 3));
    assert_eq!(unsaid.priority, parent().priority);
    let grandchild = launched(&child, Wall(0));
    let handed_on = Dispatch { payload: vec![1, 2], token: String::new(), made_of: None };
    assert_eq!((grandchild.dispatch, grandchild.parent), (Some(handed_on), child.id));
}

#[test]
fn a_child_is_stored_without_what_its_parent_has() {
    let child = dispatched(&parent(), "a/dispatch-1-2".into(), request(), (9, 3));
    let thin = without_parent(&child, &parent()).expect("is its parent's");
    assert!(thin.groups.is_empty() && thin.parameterized.is_none());
    assert_eq!(thin.meta, map(&[("who", "me"), ("why", "")]), "what it was dispatched with is its own");
    assert_eq!(whole(thin, parent()), child);
    let stopped = JobSpec { stop: true, ..child.clone() };
    let thin = without_parent(&stopped, &parent()).expect("the same but for its end");
    assert_eq!(whole(thin, parent()), stopped);
    let mut other = child.clone();
    other.groups[0].count = 2;
    assert_eq!(without_parent(&other, &parent()), None, "what it does not share stays");
    let mut poorer = child;
    poorer.meta.remove("kept");
    assert_eq!(without_parent(&poorer, &parent()), None);
}
