//! One server without a world: what a pause does to its queues, and deletions in parts.

use super::super::effects::Input;
use super::super::testing::Alone;
use super::*;
use model::eval::{EvalStatus, Evaluation};
use model::scheduling::{Algorithm, SchedulerSettings};
use model::time::Mono;
use state::samples::{AT, eval};
use wire::request::WriteRequest;

#[test]
fn a_paused_broker_hands_out_nothing_until_resumed() {
    let mut alone = Alone::new(SchedulerSettings::default());
    assert_eq!(alone.register("a").len(), 1, "the only worker has it");
    alone.register("b");
    assert_eq!(alone.leader().evals.broker().contents().len(), 2);
    assert_eq!(alone.pause(true), []);
    assert_eq!(alone.register("c"), []);
    assert_eq!(
        (alone.server.queued_while_paused(), alone.server.next_deadline() == Some(Mono(0))),
        (0, false)
    );
    let late = alone.open()[0];
    let lost = Input::Planned {
        eval: late,
        token: model::id::EvalToken::from_random(99),
        result: Err("late".into()),
    };
    alone.turn(vec![lost]);
    assert_eq!(alone.server.queued_while_paused(), 0, "what a worker says too late is nothing");
    let given = alone.pause(false);
    assert_eq!(given.len(), 1);
    let all: std::collections::BTreeSet<EvalId> = alone.open().into_iter().collect();
    assert_eq!((all.len(), alone.leader().evals.broker().contents()), (3, all));
}

#[test]
fn a_new_leader_keeps_the_pause() {
    let mut alone = Alone::new(SchedulerSettings { pause_eval_broker: true, ..SchedulerSettings::default() });
    assert!(alone.leader().evals.is_paused(), "a new region begins as its first server is configured");
    alone.register("a");
    alone.change_leader();
    assert_eq!((alone.leader().evals.is_paused(), alone.server.queued_while_paused()), (true, 0));
    alone.pause(false);
    assert_eq!(alone.leader().evals.broker().contents().len(), 1);
}

#[test]
fn scheduler_settings_of_an_existing_region_stay() {
    let mut alone = Alone::new(SchedulerSettings::default());
    alone.server.config.scheduler.algorithm = Algorithm::Spread;
    alone.change_leader();
    (0..9).for_each(|_| drop(alone.turn(vec![])));
    let config = alone.server.reader().view().unwrap().scheduler_config().unwrap();
    assert_eq!((config.settings.algorithm, config.modify_index), (Algorithm::Binpack, 0));
}

#[test]
fn many_are_deleted_in_parts_and_counted_together() {
    let mut alone = Alone::new(SchedulerSettings::default());
    let (refused, _) = alone.ask(WriteRequest::DeleteEvals { ids: vec![], skip_needed: true });
    let why = refused.unwrap_err().message;
    assert_eq!(why, "eval broker is enabled; eval broker must be paused to delete evals");
    alone.pause(true);
    let count = EVALS_PER_ENTRY * 2 + 5;
    let done = |n: usize| Evaluation { status: EvalStatus::Complete, ..eval(n as u128 + 1, "gone") };
    let evals: Vec<Evaluation> = (0..count).map(done).collect();
    let ids: Vec<EvalId> = evals.iter().map(|e| e.id).collect();
    alone.append(&Command::UpdateEvals { evals, at: AT });
    (0..3).for_each(|_| drop(alone.turn(vec![])));
    let mut strange = ids.clone();
    strange.push(eval(9_999, "gone").id);
    let (refused, _) = alone.ask(WriteRequest::DeleteEvals { ids: strange, skip_needed: false });
    assert_eq!(refused.unwrap_err().message, "eval not found");
    let before = alone.server.replica.applied();
    let (answer, _) = alone.ask(WriteRequest::DeleteEvals { ids, skip_needed: false });
    let index = before + 3;
    assert_eq!(answer, Ok(WriteReply::Deleted { count: count as u64, index }), "three entries");
    assert_eq!(alone.server.reader().view().unwrap().evals(None, 9).unwrap(), []);
}
