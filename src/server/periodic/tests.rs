//! Launches by the clock of one server: in time, once, and after it was away.

use super::super::effects::Input;
use super::super::testing::Alone;
use super::*;
use model::job::JobSpec;
use model::periodic::Periodic;
use model::scheduling::SchedulerSettings;
use model::time::Span;
use state::samples::{key, spec};
use wire::request::{WriteReply, WriteRequest};

/// A minute begins there, the fourteenth of its hour; not before `samples::AT`, for stamps do not go back.
const START: Wall = Wall(1_700_003_580_000_000_000);

fn clock(cron: &str) -> JobSpec {
    let periodic = Periodic {
        enabled: true,
        spec: cron.into(),
        specs: vec![],
        prohibit_overlap: false,
        time_zone: Periodic::UTC.into(),
    };
    JobSpec { job_type: JobType::Batch, periodic: Some(periodic), ..spec("clock", 1) }
}

fn timed(cron: &str) -> Alone {
    let mut alone = Alone::new(SchedulerSettings::default());
    alone.wall = START;
    alone.submit(clock(cron));
    alone
}

impl Alone {
    fn wait(&mut self, seconds: i64) {
        self.wall = self.wall + Span::seconds(seconds);
        (0..10).for_each(|_| drop(self.turn(vec![])));
    }

    /// In seconds from the start, with how often each was launched.
    fn launches(&self) -> Vec<(i64, usize)> {
        let view = self.server.reader().view().unwrap();
        let children = view.jobs(None, "clock/periodic-", None, usize::MAX).unwrap();
        let told = |job: &std::sync::Arc<Job>| {
            let moment: i64 = job.spec.id.rsplit_once('-').unwrap().1.parse().unwrap();
            (moment - START.unix_seconds(), view.evals_of_job(&job.spec.key()).unwrap().len())
        };
        children.iter().map(told).collect()
    }

    /// When the next launch is due.
    fn next_launch(&mut self) -> Option<Mono> {
        let clock = self.server.clocks.own;
        self.leader().periodic.next_deadline(clock)
    }
}

#[test]
fn each_time_of_the_schedule_launches_once() {
    let mut alone = timed("* * * * *");
    for minute in 1..=5 {
        alone.wait(59);
        assert_eq!(alone.launches().len() as i64, minute - 1, "it is not due");
        alone.wait(1);
        assert_eq!(alone.launches().last(), Some(&(60 * minute, 1)));
    }
    let triggers: Vec<Trigger> =
        alone.server.reader().view().unwrap().evals(None, 9).unwrap().iter().map(|e| e.trigger).collect();
    assert_eq!(triggers, [Trigger::PeriodicJob; 5]);
}

#[test]
fn the_next_turn_is_due_when_a_launch_is() {
    let mut alone = timed("*/30 * * * *");
    alone.wait(0);
    // the start lies 13 minutes after the hour
    let mono = alone.now;
    let due = alone.next_launch().map(|due| due.since(mono));
    assert_eq!(due, Some(Span::minutes(17)));
}

#[test]
fn the_newest_missed_launch_happens_and_no_leader_repeats_it() {
    let mut alone = timed("* * * * *");
    alone.wait(60);
    alone.change_leader();
    alone.wait(0);
    assert_eq!(alone.launches(), [(60, 1)]);
    alone.wall = START + Span::seconds(605);
    alone.change_leader();
    alone.wait(0);
    assert_eq!(alone.launches(), [(60, 1), (600, 1)]);
    alone.change_leader();
    alone.wait(1);
    assert_eq!(alone.launches(), [(60, 1), (600, 1)]);
}

#[test]
fn a_clock_that_steps_back_repeats_nothing() {
    let mut alone = timed("* * * * *");
    alone.wait(125);
    assert_eq!(alone.launches(), [(120, 1)]);
    alone.wait(-100);
    alone.wait(60);
    assert_eq!(alone.launches(), [(120, 1)]);
    alone.wait(120);
    assert_eq!(alone.launches(), [(120, 1), (180, 1)]);
}

#[test]
fn stopped_or_disabled_periodic_jobs_launch_nothing() {
    let mut alone = timed("* * * * *");
    alone.wait(30);
    let job = key("clock");
    alone
        .ask(WriteRequest::DeregisterJob { job, purge: false, eval_priority: None, no_shutdown_delay: false })
        .0
        .unwrap();
    alone.wait(600);
    assert_eq!(alone.launches(), []);
    assert_eq!(alone.server.timed_jobs().map(|jobs| jobs.len()), Some(0));
    alone.submit(clock("0 * * * *"));
    // 13 minutes after the hour, and 10.5 more
    alone.wait(60 * 36);
    assert_eq!(alone.launches(), []);
    alone.wait(60);
    assert_eq!(alone.launches(), [(60 * 47, 1)]);
    let mut off = clock("* * * * *");
    off.periodic.iter_mut().for_each(|p| p.enabled = false);
    alone.submit(off);
    alone.wait(600);
    assert_eq!(alone.launches().len(), 1);
}

#[test]
fn a_forced_launch_leaves_the_schedule_unchanged() {
    let mut alone = timed("* * * * *");
    alone.wait(10);
    let (answer, given) = alone.ask(WriteRequest::ForceLaunch { job: key("clock") });
    assert!(matches!(answer, Ok(WriteReply::Job { eval: Some(_), .. })), "{answer:?}");
    assert_eq!((alone.launches(), given.len()), (vec![(10, 1)], 1));
    alone.wait(50);
    assert_eq!(alone.launches(), [(10, 1), (60, 1)]);
    let (answer, _) = alone.ask(WriteRequest::EvaluateJob { job: key("clock"), force_reschedule: false });
    assert_eq!(answer.unwrap_err().message, "can't evaluate periodic job");
}

#[test]
fn on_a_full_disk_nothing_is_launched_until_there_is_room() {
    let mut alone = timed("* * * * *");
    alone.turn(vec![Input::Space { free: false }]);
    alone.wait(60);
    assert_eq!(alone.launches(), vec![]);
    let (clock, due) = (alone.server.clocks.own, alone.next_launch());
    assert!(due.is_some_and(|due| due <= alone.now), "{due:?}");
    assert_eq!(alone.leader().next_deadline(false, clock), None, "it is not waited for");
    alone.turn(vec![Input::Space { free: true }]);
    alone.wait(0);
    assert_eq!(alone.launches(), [(60, 1)]);
}
