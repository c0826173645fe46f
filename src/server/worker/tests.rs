//! Workers that look at the same state, one after the other.

use super::*;
use crate::reservations::{DeliveryKey, ReservationChange};
use model::eval::EvalStatus;
use model::id::{EvalToken, NodeId};
use model::resources::Amount;
use scheduler::Attempt;
use state::samples::{AT, Region, eval, info, node_id, register, spec};
use std::cell::RefCell;
use wire::command::Command;

/// A region of `nodes` nodes, each with room for one allocation of each of the jobs `a`, `b` and `c` at a time.
fn narrow(nodes: u128) -> Region {
    let mut region = Region::default();
    for n in 1..=nodes {
        let node = region.ready_node(n);
        let mut info = info(n);
        info.capacity = Amount { cpu_mhz: 150, memory_mb: 1024, disk_mb: 10_000, ..Amount::ZERO };
        assert_eq!(info.id, node);
        region.run(&Command::RegisterNode { info: Box::new(info), evals: vec![], at: AT });
    }
    for (n, id) in (1..).zip(["a", "b", "c"]) {
        region.run(&register(spec(id, 1), Some(eval(n, id)))).reply.expect("is registered");
    }
    region
}

type SharedReservations = RefCell<Reservations>;

fn task(n: u128, job: &str) -> ScheduleTask {
    ScheduleTask {
        eval: eval(n, job),
        token: EvalToken::from_random(n),
        attempt: Attempt::first(1),
        min_index: 1,
        at: AT,
        seed: 7,
    }
}

fn key(task: &ScheduleTask) -> DeliveryKey {
    (task.eval.id, task.token)
}

fn decided(region: &Region, task: &ScheduleTask, reservations: &SharedReservations) -> Box<Decision> {
    decide(task, &region.store.reader(), || reservations.borrow_mut()).expect("the state can be read")
}

fn chosen(decision: &Decision) -> Vec<NodeId> {
    decision.plan.nodes.iter().filter(|part| !part.places.is_empty()).map(|part| part.node_id).collect()
}

#[test]
fn workers_on_one_state_do_not_choose_the_same_room() {
    let (region, reservations) = (narrow(2), SharedReservations::default());
    let first = chosen(&decided(&region, &task(1, "a"), &reservations));
    let second = chosen(&decided(&region, &task(2, "b"), &reservations));
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
    let alone = chosen(&decided(&region, &task(2, "b"), &SharedReservations::default()));
    assert_eq!(alone, first, "without reservations both want the same");
}

#[test]
fn reservations_alone_block_no_evaluation() {
    let (region, reservations) = (narrow(1), SharedReservations::default());
    let first = decided(&region, &task(1, "a"), &reservations);
    let second = decided(&region, &task(2, "b"), &reservations);
    assert_eq!(chosen(&second), chosen(&first), "whether the first is carried out is not known yet");
    assert_eq!(second.eval.status, EvalStatus::Complete);
    assert!(second.created.is_empty(), "nothing is blocked");
}

#[test]
fn a_released_reservation_frees_its_room() {
    let (region, reservations) = (narrow(2), SharedReservations::default());
    let first = task(1, "a");
    let wanted = chosen(&decided(&region, &first, &reservations));
    let (eval, token) = key(&first);
    reservations.borrow_mut().apply(&[ReservationChange::Release { eval, token }]);
    assert_eq!(chosen(&decided(&region, &task(2, "b"), &reservations)), wanted);
}

#[test]
fn a_visible_reservation_is_not_counted_twice() {
    let (mut region, reservations) = (narrow(1), SharedReservations::default());
    let first = task(1, "a");
    let decision = decided(&region, &first, &reservations);
    let index = region.view().index() + 1;
    let (eval, token) = key(&first);
    reservations.borrow_mut().apply(&[ReservationChange::Visible { eval, token, index }]);
    let other = key(&task(2, "b"));
    let fleet_with =
        |view: &state::view::View| reservations.borrow_mut().fleet_with(other, view.index(), view.fleet());
    let view = region.view();
    assert!(fleet_with(&view).is_some(), "not before it is there");
    let (nodes, evals) = (decision.plan.nodes.clone(), vec![decision.eval.clone()]);
    region
        .run(&Command::ApplyPlan {
            eval: first.eval.id,
            nodes,
            deployment: None,
            updates: vec![],
            evals,
            at: AT,
        })
        .reply
        .expect("is applied");
    let view = region.view();
    assert!(fleet_with(&view).is_none());
    assert!(reservations.borrow().is_empty(), "nobody looks at an older state");
}

#[test]
fn room_that_another_worker_took_is_not_reserved_again() {
    let (region, reservations) = (narrow(2), SharedReservations::default());
    let view = region.view();
    let (early, late) = (task(1, "a"), task(2, "b"));
    assert!(reservations.borrow_mut().fleet_with(key(&early), view.index(), view.fleet()).is_none());
    let quick = decided(&region, &late, &reservations);
    let mut same = decided(&region, &task(3, "a"), &SharedReservations::default());
    assert_eq!(chosen(&same), chosen(&quick));
    assert!(!reservations.borrow_mut().reserve(key(&early), view.index(), &same.plan, view.fleet()));
    let other = if chosen(&quick) == [node_id(1)] { node_id(2) } else { node_id(1) };
    same.plan.nodes[0].node_id = other;
    assert!(reservations.borrow_mut().reserve(key(&early), view.index(), &same.plan, view.fleet()));
}
