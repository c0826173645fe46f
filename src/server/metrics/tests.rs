//! Counted and timed: what a turn, a plan, an evaluation and a request add to the figures that dashboards read.

use super::*;
use crate::effects::{Effect, Input};
use crate::testing::Alone;
use model::scheduling::SchedulerSettings;
use model::time::Now;
use state::samples::{info, node_id, spec};
use wire::command::NodeUpdateRequest;

fn registration(token: u64) -> Input {
    let action = WriteRequest::RegisterJob {
        spec: Box::new(spec("web", 1)),
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        submission: None,
    };
    Input::Request { token, action }
}

/// A turn that takes so long; then what is measured up to its end.
fn turn_of(alone: &mut Alone, took: Span, inputs: Vec<Input>) -> (MetricsSnapshot, Vec<Effect>) {
    alone.now = alone.now.after(Span::millis(100));
    let now = Now { mono: alone.now, wall: Some(alone.wall) };
    let effects = alone.server.turn(now, inputs).effects;
    alone.server.end_turn(alone.now.after(took));
    (alone.server.metrics.snapshot(), effects)
}

fn longest(measured: &MetricsSnapshot, name: &str) -> Span {
    let max = measured.samples.get(name).map_or(0, |sample| sample.series.total.max);
    Span(i64::try_from(max).expect("is short"))
}

#[test]
fn a_duration_is_measured_to_the_end_of_its_turn() {
    let mut alone = Alone::new(SchedulerSettings::default());
    let (measured, effects) = turn_of(&mut alone, Span::millis(7), vec![registration(1)]);
    for name in ["nomad.job.register", "raft.commitTime", "raft.leader.dispatchLog", "nomad.fsm.register_job"]
    {
        assert_eq!(longest(&measured, name), Span::millis(7), "{name}");
    }
    let given = effects.into_iter().find_map(|e| match e {
        Effect::Schedule(task) => Some(task),
        _ => None,
    });
    let task = given.expect("a worker is free");
    assert_eq!(longest(&measured, "nomad.worker.dequeue_eval"), Span::millis(7));
    assert_eq!(longest(&measured, "nomad.worker.invoke_scheduler.service"), Span::ZERO, "not answered yet");
    let decided = crate::worker::decide(&task, &alone.server.reader(), || alone.reservations.borrow_mut());
    let planned = Input::Planned { eval: task.eval.id, token: task.token, result: decided };
    let (measured, _) = turn_of(&mut alone, Span::millis(9), vec![planned]);
    assert_eq!(longest(&measured, "nomad.worker.invoke_scheduler.service"), Span::millis(100));
    assert_eq!(longest(&measured, "nomad.plan.evaluate"), Span::millis(9));
    assert!(measured.counters["nomad.rpc.request"].total.sum >= 1);
}

#[test]
fn a_batch_is_what_a_turn_has_proposed() {
    let mut alone = Alone::new(SchedulerSettings::default());
    for (asked, batch) in [(3, 3), (1, 1), (0, 1)] {
        turn_of(&mut alone, Span::millis(7), (0..asked).map(registration).collect());
        // published after a second; no worker answers meanwhile
        alone.turns(20);
        assert_eq!(alone.server.metrics.published().gauges["raft.leader.dispatchNumLogs"], batch, "{asked}");
    }
}

#[test]
fn a_refusal_is_an_error_and_a_lost_turn_measures_nothing() {
    let mut alone = Alone::new(SchedulerSettings::default());
    let errors = |m: &MetricsSnapshot| m.counters["nomad.rpc.request_error"].total.sum;
    let before = errors(&alone.server.metrics.snapshot());
    let action = WriteRequest::DeleteNodePool { name: "nowhere".into() };
    let (measured, _) = turn_of(&mut alone, Span::millis(1), vec![Input::Request { token: 2, action }]);
    assert_eq!(errors(&measured), before + 1);
    alone.turn(vec![registration(3)]);
    alone.turn(vec![]);
    alone.server.end_turn(alone.now);
    assert_eq!(longest(&alone.server.metrics.snapshot(), "nomad.job.register"), Span::ZERO);
}

#[test]
fn each_refused_part_of_a_plan_is_counted() {
    let mut alone = Alone::new(SchedulerSettings::default());
    for n in 1..=2 {
        let mut info = info(n);
        info.capacity.cpu_mhz = 150;
        alone.add_node(info);
    }
    let rejected =
        |alone: &Alone| alone.server.metrics.snapshot().counters["nomad.plan.node_rejected"].total.sum;
    let action = WriteRequest::RegisterJob {
        spec: Box::new(spec("web", 2)),
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        submission: None,
    };
    let task = alone.tasks(vec![Input::Request { token: 1, action }]).remove(0);
    assert_eq!(rejected(&alone), 0);
    let request = NodeUpdateRequest::Eligible(false);
    let closes = WriteRequest::UpdateNode { node: node_id(2), request };
    let planned = alone.planned(&task);
    alone.tasks(vec![Input::Request { token: 2, action: closes }, planned]);
    assert_eq!((alone.allocs("web").len(), rejected(&alone)), (1, 1), "one of two nodes");
}

#[test]
fn names_of_metrics_are_distinct() {
    let mut names: Vec<&str> = Counter::NAMES.iter().chain(Timed::NAMES).copied().collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
