//! Which evaluation comes next, and what becomes of those that come back.

use super::*;
use model::eval::Trigger;
use model::time::Wall;

const T0: Mono = Mono(1_000);

fn eval(n: u128, job: &str, priority: i64, index: u64) -> Evaluation {
    let key = JobKey::new("default", job);
    let id = EvalId::from_random(n);
    let mut e = Evaluation::pending(id, key, JobType::Service, priority, Trigger::JobRegister, Wall(1));
    (e.create_index, e.modify_index) = (index, index);
    e
}

fn token(n: u128) -> EvalToken {
    EvalToken::from_random(n)
}

fn take(b: &mut Broker, n: u128, now: Mono) -> Option<EvalId> {
    b.dequeue(&JobType::ALL, token(n), now).map(|e| e.id)
}

#[test]
fn priority_first_then_age() {
    let mut b = Broker::new(1);
    let (low, high, old) = (eval(1, "a", 10, 1), eval(2, "b", 90, 9), eval(3, "c", 90, 5));
    for e in [&low, &high, &old] {
        b.enqueue(e.clone(), T0);
    }
    let order: Vec<_> = (0..4).map(|n| take(&mut b, n, T0)).collect();
    assert_eq!(order, [Some(old.id), Some(high.id), Some(low.id), None]);
}

/// The entry that ends the worker's evaluation also cancels the one that takes its place, as a plan does with blocked ones.
#[test]
fn canceling_a_pending_eval_restores_those_it_superseded() {
    let mut b = Broker::new(1);
    let (first, canceled, newest) = (eval(1, "a", 50, 1), eval(2, "a", 90, 2), eval(3, "a", 10, 3));
    for e in [&first, &canceled, &newest] {
        b.enqueue(e.clone(), T0);
    }
    assert_eq!(take(&mut b, 1, T0), Some(first.id));
    assert_eq!(b.ack(first.id, token(1), T0), Ok(()));
    b.forget(&canceled);
    assert_eq!(b.take_superseded(728), []);
    assert_eq!(take(&mut b, 2, T0), Some(newest.id));
}

#[test]
fn one_evaluation_of_a_job_at_a_time_and_the_rest_is_superseded() {
    let mut b = Broker::new(1);
    let evals: Vec<_> = (1..=4).map(|n| eval(n, "a", 50, n as u64)).collect();
    for e in &evals {
        b.enqueue(e.clone(), T0);
    }
    assert_eq!(take(&mut b, 1, T0), Some(evals[0].id));
    assert_eq!(take(&mut b, 2, T0), None);
    assert_eq!(b.ack(evals[0].id, token(2), T0), Err(StaleToken));
    assert_eq!(b.ack(evals[0].id, token(1), T0), Ok(()));
    assert_eq!(take(&mut b, 3, T0), Some(evals[3].id), "the newest pending one");
    let superseded: Vec<_> = b.take_superseded(728).into_iter().map(|e| e.id).collect();
    assert_eq!(superseded, [evals[2].id, evals[1].id]);
    assert_eq!(b.contents(), [evals[3].id].into());
}

#[test]
fn nacks_delay_by_1_then_20_seconds_and_the_third_fails() {
    let mut b = Broker::new(1);
    let e = eval(1, "a", 50, 1);
    b.enqueue(e.clone(), T0);
    let mut now = T0;
    for (n, delay) in [(1, Span::seconds(1)), (2, Span::seconds(20))] {
        assert_eq!(take(&mut b, n, now), Some(e.id));
        b.nack(e.id, token(n), now).unwrap();
        assert_eq!(b.next_deadline(), Some(now.after(delay)));
        b.expire(Mono(now.after(delay).0 - 1));
        assert!(!b.has_ready());
        now = now.after(delay);
        b.expire(now);
    }
    assert_eq!(take(&mut b, 3, now), Some(e.id));
    b.nack(e.id, token(3), now).unwrap();
    assert_eq!(b.take_failed().map(|f| f.id), Some(e.id));
    let next = eval(2, "a", 50, 2);
    b.enqueue(next.clone(), now);
    assert!(!b.has_ready(), "the failed one still holds the job");
    b.resolve_failed(&e);
    assert_eq!(take(&mut b, 4, now), Some(next.id));
}

#[test]
fn a_silent_worker_is_nacked_unless_its_plan_is_queued() {
    let mut b = Broker::new(1);
    let e = eval(1, "a", 50, 1);
    b.enqueue(e.clone(), T0);
    take(&mut b, 1, T0);
    let late = T0.after(NACK_TIMEOUT);
    b.pause(e.id);
    b.expire(late);
    assert!(b.is_delivered(e.id, token(1)));
    b.resume(e.id, late);
    b.expire(late.after(NACK_TIMEOUT));
    assert!(!b.is_delivered(e.id, token(1)));
    assert_eq!(b.nack(e.id, token(1), late), Err(StaleToken));
}

#[test]
fn an_evaluation_that_ended_elsewhere_is_not_delivered() {
    let mut b = Broker::new(1);
    let (first, second, third) = (eval(1, "a", 50, 1), eval(2, "a", 50, 2), eval(3, "a", 50, 3));
    for e in [&first, &second, &third] {
        b.enqueue(e.clone(), T0);
    }
    b.forget(&second);
    b.forget(&first);
    assert_eq!(b.contents(), [third.id].into());
    assert_eq!(take(&mut b, 1, T0), Some(third.id), "the slot went to the next");
    b.forget(&third);
    assert!(b.is_delivered(third.id, token(1)), "its worker's answer ends it");
    b.ack(third.id, token(1), T0).unwrap();
    assert!(b.contents().is_empty());
}

#[test]
fn an_evaluation_that_waits_has_no_slot_until_it_is_due() {
    let mut b = Broker::new(1);
    let (later, other) = (eval(1, "a", 50, 1), eval(2, "a", 50, 2));
    let due = T0.after(Span::seconds(30));
    b.enqueue_at(later.clone(), due);
    b.enqueue_at(later.clone(), T0.after(Span::hours(1)));
    b.enqueue(other.clone(), T0);
    assert_eq!((take(&mut b, 1, T0), b.next_deadline()), (Some(other.id), Some(due)));
    b.ack(other.id, token(1), T0).unwrap();
    b.expire(Mono(due.0 - 1));
    assert_eq!(take(&mut b, 2, T0), None);
    b.expire(due);
    assert_eq!(take(&mut b, 3, due), Some(later.id));
    b.enqueue_at(later.clone(), due.after(Span::seconds(1)));
    b.ack(later.id, token(3), due).unwrap();
    assert!(b.contents().is_empty(), "not taken in twice");
}

#[test]
fn delayed_evals_keep_their_time_and_are_enqueued_once() {
    let mut b = Broker::new(1);
    let mut e = eval(1, "a", 50, 1);
    e.wait = Span::seconds(60);
    b.enqueue(e.clone(), T0);
    b.enqueue(e.clone(), T0);
    assert_eq!(take(&mut b, 1, T0), None);
    b.expire(T0.after(e.wait));
    assert_eq!(take(&mut b, 2, T0), Some(e.id));
    b.requeue(e.clone(), T0);
    assert_eq!(take(&mut b, 3, T0), None);
    b.ack(e.id, token(2), T0).unwrap();
    b.expire(T0.after(e.wait));
    assert_eq!(take(&mut b, 4, T0), Some(e.id), "requeued behind its ack");
}
