//! Rounds of a server without a world.

use super::super::testing::Alone;
use super::*;
use model::alloc::{Allocation, ClientStatus};
use model::eval::{EvalStatus, Evaluation};
use model::job::{JobSpec, JobType};
use model::scheduling::SchedulerSettings;
use state::check;
use state::samples::{AT, alloc, eval, eval_id, key, node_id, place, register, report, spec};
use wire::request::WriteRequest;

impl Alone {
    /// Evaluation `n` has placed these of the job, and is complete.
    fn placed(&mut self, n: u128, spec: JobSpec, ids: std::ops::Range<u128>) {
        let key = spec.key();
        self.propose(&register(spec, None));
        let job = Allocation::clone(&{
            let job = self.view().job(&key).unwrap().unwrap();
            alloc(0, &job, node_id(1), eval_id(n))
        });
        let mut done = Evaluation { status: EvalStatus::Complete, ..eval(n, &key.id) };
        done.job_type = self.view().holder(&key).unwrap().unwrap().job_type;
        let allocs: Vec<Allocation> =
            ids.map(|id| Allocation { id: state::samples::alloc_id(id), ..job.clone() }).collect();
        let nodes = place(allocs);
        self.propose(&Command::ApplyPlan {
            eval: eval_id(n),
            nodes,
            deployment: None,
            updates: vec![],
            evals: vec![done],
            at: AT,
        });
    }

    fn report(&mut self, ids: std::ops::Range<u128>, client: ClientStatus) {
        let updates = ids.map(|id| report(id, client)).collect();
        self.propose(&Command::UpdateAllocs {
            seen: u64::MAX,
            node: node_id(1),
            updates,
            verdicts: vec![],
            evals: vec![],
            at: AT,
        });
    }

    fn collect(&mut self) {
        self.ask(WriteRequest::CollectGarbage).0.expect("is taken");
        self.turns(200);
        assert!(self.leader().collector.round.is_none(), "the round is over");
        check::consistent(&self.view()).unwrap();
    }
}

fn batch(id: &str) -> JobSpec {
    JobSpec { job_type: JobType::Batch, ..spec(id, 1) }
}

#[test]
fn one_round_takes_what_has_ended_and_leaves_what_is_needed() {
    let mut alone = Alone::new(SchedulerSettings::default());
    alone.placed(1, spec("web", 2), 1..3);
    alone.placed(2, batch("done"), 3..4);
    alone.placed(3, batch("runs"), 4..6);
    alone.report(1..2, ClientStatus::Running);
    alone.report(2..5, ClientStatus::Complete);
    alone.report(5..6, ClientStatus::Running);
    alone.collect();
    let view = alone.view();
    let left: Vec<_> = view.allocs(None, 9).unwrap().into_iter().map(|a| a.name).collect();
    assert_eq!(left.len(), 3, "of the service the live one, of work that goes on all: {left:?}");
    assert_eq!(view.job(&key("done")).unwrap(), None, "it was done");
    let evals: Vec<_> = view.evals(None, 9).unwrap().into_iter().map(|e| e.id).collect();
    assert_eq!(evals, [eval_id(1), eval_id(3)], "they have placed what is left");
}

#[test]
fn a_large_job_is_stopped_first_and_goes_in_parts() {
    let mut alone = Alone::new(SchedulerSettings::default());
    alone.placed(1, batch("large"), 1..201);
    alone.report(1..201, ClientStatus::Complete);
    let began = alone.server.replica.applied();
    alone.ask(WriteRequest::CollectGarbage).0.expect("is taken");
    alone.turns(4);
    let job = alone.view().job(&key("large")).unwrap().expect("cannot go at once");
    assert_eq!((job.spec.stop, job.version), (true, 1));
    alone.turns(200);
    assert_eq!(
        (alone.view().jobs(None, "", None, 9).unwrap(), alone.view().evals(None, 9).unwrap()),
        (vec![], vec![])
    );
    let entries = alone.server.replica.applied() - began;
    assert_eq!(entries, 1 + 5 + 1 + 1, "a stop, 200 allocations by 48, an evaluation, the job");
    check::consistent(&alone.view()).unwrap();
}

#[test]
fn gc_runs_by_itself_with_its_thresholds() {
    let mut alone = Alone::new(SchedulerSettings::default());
    alone.placed(1, batch("done"), 1..2);
    alone.report(1..2, ClientStatus::Complete);
    let before = alone.server.replica.applied();
    let rules = GarbageRules::default();
    let interval = |alone: &mut Alone| {
        alone.now = alone.now.after(rules.interval);
        alone.turns(20);
    };
    interval(&mut alone);
    assert_eq!(alone.server.replica.applied(), before, "nothing is old");
    alone.leader().collector.rules.jobs = Span(-1);
    interval(&mut alone);
    assert_eq!(alone.view().job(&key("done")).unwrap(), None);
    let after = alone.server.replica.applied();
    interval(&mut alone);
    assert_eq!(alone.server.replica.applied(), after, "nothing is left");
}

#[test]
fn after_a_leap_of_the_clock_nothing_is_old_for_an_hour() {
    let mut alone = Alone::new(SchedulerSettings::default());
    alone.placed(1, batch("done"), 1..2);
    alone.report(1..2, ClientStatus::Complete);
    let rules = GarbageRules::default();
    let is_there = |alone: &Alone| alone.view().job(&key("done")).unwrap().is_some();
    // as if somebody had set the clock by ten years
    alone.wall = alone.wall + Span::hours(87_600);
    for _ in 0..10 {
        (alone.now, alone.wall) = (alone.now.after(rules.interval), alone.wall + rules.interval);
        alone.turns(20);
        assert!(is_there(&alone), "only its age is new");
    }
    (alone.now, alone.wall) = (alone.now.after(rules.after_leap), alone.wall + rules.after_leap);
    alone.turns(20);
    assert!(!is_there(&alone), "nobody has set it right");
}

#[test]
fn forced_collection_works_after_a_leap_too() {
    let mut alone = Alone::new(SchedulerSettings::default());
    alone.placed(1, batch("done"), 1..2);
    alone.report(1..2, ClientStatus::Complete);
    alone.wall = alone.wall + Span::hours(87_600);
    alone.turns(1);
    alone.collect();
    assert_eq!(alone.view().job(&key("done")).unwrap(), None);
}

#[test]
fn a_job_that_came_alive_meanwhile_is_not_collected() {
    let mut alone = Alone::new(SchedulerSettings::default());
    alone.placed(1, batch("done"), 1..2);
    alone.report(1..2, ClientStatus::Complete);
    let found = find(&alone.view(), FIRST, &Cutoffs::FORCED).unwrap();
    assert_eq!(found.garbage, Some(Garbage::Jobs(vec![key("done")])));
    alone.register("done-not");
    alone.propose(&register(JobSpec { priority: 60, ..batch("done") }, Some(eval(7, "done"))));
    for garbage in [
        Garbage::Jobs(vec![key("done")]),
        Garbage::Stop(key("done")),
        Garbage::Evals(vec![eval_id(7)]),
        Garbage::Nodes(vec![node_id(1)]),
    ] {
        let digest = alone.server.replica.reader().view().unwrap().digest();
        let order = CollectGarbageCommand { garbage, before: Cutoffs::FORCED, tracked_versions: 6, at: AT };
        alone.propose(&Command::CollectGarbage(Box::new(order)));
        assert_eq!(alone.view().digest(), digest, "nothing is gone");
    }
}

#[test]
fn a_parent_stays_while_what_it_launched_lives() {
    let mut alone = Alone::new(SchedulerSettings::default());
    let periodic = model::periodic::Periodic {
        enabled: true,
        spec: "@yearly".into(),
        specs: vec![],
        prohibit_overlap: false,
        time_zone: "UTC".into(),
    };
    alone.propose(&register(JobSpec { periodic: Some(periodic), ..batch("nightly") }, None));
    alone.ask(WriteRequest::ForceLaunch { job: key("nightly") }).0.expect("is launched");
    let child = alone.view().job_keys(Some(&key("nightly")), 9).unwrap().remove(0);
    alone.collect();
    let stop = |alone: &mut Alone, job| {
        alone
            .ask(WriteRequest::DeregisterJob {
                job,
                purge: false,
                eval_priority: None,
                no_shutdown_delay: false,
            })
            .0
            .expect("stops");
    };
    stop(&mut alone, key("nightly"));
    alone.collect();
    assert_eq!(alone.view().job_keys(None, 9).unwrap(), [key("nightly"), child.clone()]);
    for eval in alone.view().evals_of_job(&child).unwrap() {
        let done = Evaluation { status: EvalStatus::Complete, ..eval };
        alone.propose(&Command::UpdateEvals { evals: vec![done], at: AT });
    }
    alone.placed(2, batch("nightly/periodic-1"), 2..3);
    alone.collect();
    assert_eq!(
        alone.view().job_keys(None, 9).unwrap(),
        [key("nightly/periodic-1")],
        "what only has such a name holds nothing"
    );
}
