//! What users want of nodes, and how drains go on, one rule at a time.

use super::{plan, running};
use crate::check;
use crate::samples::*;
use model::alloc::{ClientStatus, Leave};
use model::drain::{Drain, DrainStatus};
use model::id::NodeId;
use model::node::Node;
use model::plan::{AllocStop, NodePlan};
use model::time::Span;
use std::collections::BTreeMap;
use wire::change::Change;
use wire::command::{Command, DrainProgress, NodeUpdateRequest};
use wire::request::{Refusal, RefusalKind, WriteReply};

fn request(r: &mut Region, request: NodeUpdateRequest) -> Result<WriteReply, Refusal> {
    r.run(&Command::UpdateNode { node: node_id(1), request, evals: vec![], at: AT }).reply
}

fn drain(r: &mut Region, deadline: Span) -> Drain {
    request(r, NodeUpdateRequest::Drain { deadline, ignore_system: false, meta: BTreeMap::new() })
        .expect("is drained");
    node(r).drain.expect("drains")
}

fn end_drain(mark_eligible: bool) -> NodeUpdateRequest {
    NodeUpdateRequest::EndDrain { mark_eligible, meta: BTreeMap::new() }
}

fn node(r: &Region) -> Node {
    Node::clone(&r.view().node(node_id(1)).unwrap().unwrap())
}

fn step(r: &mut Region, drain: &Drain, at_once: bool, complete: bool) {
    let leaving = vec![alloc_id(1)];
    let step = DrainProgress { node: node_id(1), drain: drain.clone(), leaving, at_once, complete };
    r.run(&Command::AdvanceDrains { steps: vec![step], evals: vec![], at: AT });
}

fn newest_event(r: &Region) -> String {
    node(r).events.last().map(|e| e.message.clone()).unwrap_or_default()
}

#[test]
fn eligibility_is_a_switch_with_an_event_and_opens_the_node() {
    let mut r = running();
    let before = node(&r).modify_index;
    request(&mut r, NodeUpdateRequest::Eligible(true)).unwrap();
    assert_eq!(node(&r).modify_index, before, "it was eligible");
    request(&mut r, NodeUpdateRequest::Eligible(false)).unwrap();
    assert!(!node(&r).eligible && !r.view().fleet().ready(node_id(1)));
    assert_eq!(newest_event(&r), "Node marked as ineligible for scheduling");
    assert!(!r.alloc(1).terminal(), "what runs there stays");
    let eligible = NodeUpdateRequest::Eligible(true);
    let out = r.run(&Command::UpdateNode { node: node_id(1), request: eligible, evals: vec![], at: AT });
    assert!(out.changes.iter().any(|c| matches!(c, Change::Node(n) if n.opened)), "{:?}", out.changes);
    let missing =
        Command::UpdateNode { node: node_id(9), request: NodeUpdateRequest::Purge, evals: vec![], at: AT };
    assert_eq!(r.run(&missing).reply.unwrap_err().kind, RefusalKind::Validation);
}

#[test]
fn a_draining_node_is_not_eligible_and_cannot_be_made_so() {
    let mut r = running();
    let first = drain(&mut r, Span::hours(1));
    assert_eq!((first.started, first.force_at), (AT, Some(AT + Span::hours(1))));
    assert!(!node(&r).eligible);
    assert_eq!(newest_event(&r), "Node drain strategy set");
    let refusal = request(&mut r, NodeUpdateRequest::Eligible(true)).unwrap_err();
    assert!(refusal.message.contains("while it is draining"), "{refusal}");
    assert_eq!(drain(&mut r, Span::ZERO).force_at, None);
    assert_eq!(newest_event(&r), "Node drain strategy updated");
    request(&mut r, end_drain(false)).unwrap();
    let after = node(&r);
    assert_eq!((after.drain, after.eligible), (None, false));
    assert_eq!(after.last_drain.unwrap().status, DrainStatus::Canceled);
    request(&mut r, end_drain(true)).unwrap();
    assert!(node(&r).eligible, "no drain is needed to be made eligible");
    drain(&mut r, Span::ZERO);
    request(&mut r, end_drain(true)).unwrap();
    assert!(node(&r).eligible);
}

#[test]
fn a_cancelled_drain_keeps_what_has_not_left() {
    for (at_once, then) in [(false, Leave::No), (true, Leave::AtOnce)] {
        let mut r = running();
        let drained = drain(&mut r, Span::hours(1));
        step(&mut r, &drained, at_once, false);
        let asked = if at_once { Leave::AtOnce } else { Leave::WhenPlaced };
        assert_eq!(r.alloc(1).transition.migrate, Some(asked));
        request(&mut r, end_drain(true)).unwrap();
        assert_eq!(r.alloc(1).transition.migrate, Some(then));
    }
}

#[test]
fn a_changed_drain_ignores_older_decisions() {
    let mut r = running();
    let first = drain(&mut r, Span::hours(1));
    let second = drain(&mut r, Span::ZERO);
    step(&mut r, &first, true, true);
    assert_eq!((r.alloc(1).transition.migrate, node(&r).drain.is_some()), (None, true));
    step(&mut r, &second, false, false);
    step(&mut r, &second, true, false);
    assert_eq!(r.alloc(1).transition.migrate, Some(Leave::AtOnce));
    step(&mut r, &second, false, true);
    assert_eq!(r.alloc(1).transition.migrate, Some(Leave::AtOnce), "nothing is taken back");
    let after = node(&r);
    assert_eq!((after.drain, after.eligible), (None, false));
    assert_eq!(after.last_drain.unwrap().status, DrainStatus::Complete);
    assert_eq!(after.events.last().unwrap().message, "Node drain complete");
}

#[test]
fn a_plan_keeps_a_newer_desired_transition() {
    let mut r = running();
    let known = r.alloc(1);
    let drained = drain(&mut r, Span::hours(1));
    step(&mut r, &drained, false, false);
    r.run(&plan(1, place(vec![known])));
    assert_eq!(r.alloc(1).transition.migrate, Some(Leave::WhenPlaced));
}

#[test]
fn a_purged_node_is_gone_and_its_allocs_are_evaluated() {
    let mut r = running();
    let purge = NodeUpdateRequest::Purge;
    let evals = vec![model::eval::Evaluation { node_id: Some(node_id(1)), ..eval(7, "web") }];
    let out = r.run(&Command::UpdateNode { node: node_id(1), request: purge, evals, at: AT });
    assert_eq!(r.view().node(node_id(1)).unwrap(), None);
    assert_eq!(r.view().fleet().status(node_id(1)), None);
    assert_eq!(r.view().eval(eval_id(7)).unwrap().unwrap().node_modify_index, out.index);
    check::consistent(&r.view()).unwrap();
    let stop = AllocStop { id: alloc_id(1), description: String::new(), client: Some(ClientStatus::Lost) };
    let stops = vec![NodePlan { node_id: node_id(1), stops: vec![stop], places: vec![] }];
    r.run(&plan(7, stops));
    assert_eq!(r.alloc(1).client, ClientStatus::Lost);
    let again: NodeId = r.ready_node(1);
    assert!(r.view().fleet().ready(again));
    check::consistent(&r.view()).unwrap();
}
