//! One task: waits for its gate, is started, runs, ends, is started again or stays dead (client.md 7 to client.md 10).
//! The run's id is stored before the start is asked for; everything else follows from what the keeper says.

use super::config::Config;
use super::driver::{self, Unfit};
use super::effects::{Held, LivingRun};
use super::events;
use super::lifecycle::Role;
use super::restart::{AFTER_REBOOT, Decision, Outcome, Tracker, WITHIN_POLICY};
use super::signals;
use model::id::{RunId, Uuid};
use model::job::Task;
use model::node::NodeInfo;
use model::random::Stream;
use model::task::{Exit, ExitStatus, TaskEvent, TaskPhase};
use model::time::{Mono, Now, Span, Wall};
use state::local::{LocalRun, LocalTask, WantedRestart};
use wire::keeper::{Command, RunState};
use wire::rpc::Assignment;

/// What a turn lends to each task.
pub struct Turn<'a> {
    pub now: Now,
    pub config: &'a Config,
    /// Nothing starts before the machine is known: its names may stand in a task's config.
    pub info: Option<&'a NodeInfo>,
    /// The keeper's boot, while it is there.
    pub boot: Option<Uuid>,
    /// The disk takes writes. Without, nothing starts: a start has to be stored first.
    pub room: bool,
    pub random: &'a mut Stream,
    pub held: &'a mut Held,
    /// Runs to be forgotten once their end is durably stored.
    pub forget: &'a mut Vec<RunId>,
}

#[derive(Clone, Copy)]
pub struct Spec<'a> {
    pub assignment: &'a Assignment,
    pub task: &'a Task,
    /// It is to stay dead once it has ended: from the moment in which its allocation has a plan to stop it, whoever's
    /// doing the end is and however it comes, it is no failure.
    pub to_end: bool,
}

/// How well a change has to be stored. Lazy changes ride along with the next durable ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dirty {
    Clean,
    Lazy,
    Durable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    No,
    /// The task's shutdown delay.
    Delayed {
        until: Mono,
    },
    /// `ask_at`: when the keeper is asked (again) to stop it. For good, unless a restart is wanted.
    Stopping {
        attempt: u32,
        ask_at: Mono,
    },
}

impl Kill {
    /// The keeper is asked at once.
    const STOP: Kill = Kill::Stopping { attempt: 0, ask_at: Mono(0) };
}

#[derive(Debug)]
pub struct Runner {
    pub name: String,
    pub role: Role,
    pub leader: bool,
    pub local: LocalTask,
    /// Of the run, as the keeper told it last.
    pid: Option<u32>,
    pub dirty: Dirty,
    /// Counts what a report would show.
    pub moves: u64,
    not_before: Mono,
    /// When an unanswered start is asked for again.
    ask_start_at: Mono,
    kill: Kill,
    /// However it ends, it has not done what it was to do.
    given_up: bool,
    tracker: Tracker,
}

/// A start that the keeper left unanswered is asked for again after this long.
const START_PATIENCE: Span = Span::seconds(60);
/// The same for a stop, on top of the task's own time to end.
const STOP_PATIENCE: Span = Span::seconds(20);
const REBOOTED: &str = "the machine was restarted";

impl Runner {
    pub fn new(task: &Task, local: Option<LocalTask>, now: Now) -> Runner {
        let fresh = local.is_none();
        let restart = local.as_ref().is_some_and(|l| l.restart.is_some());
        let mut runner = Runner {
            name: task.name.clone(),
            role: Role::of(task.lifecycle),
            leader: task.leader,
            local: local.unwrap_or_default(),
            pid: None,
            dirty: Dirty::Clean,
            moves: 0,
            not_before: Mono(0),
            ask_start_at: Mono(0),
            kill: if restart { Kill::STOP } else { Kill::No },
            given_up: false,
            tracker: Tracker::new(now.mono),
        };
        if fresh {
            runner.tell(events::received(now.stamp()));
        }
        runner
    }

    pub fn is_dead(&self) -> bool {
        self.local.state.phase == TaskPhase::Dead
    }

    pub fn has_run(&self) -> bool {
        self.local.run.is_some()
    }

    /// What runs at present.
    pub fn living(&self, label: String) -> Option<LivingRun> {
        let run = self.local.run.as_ref().filter(|r| r.confirmed)?.id;
        Some(LivingRun { task: self.name.clone(), run, label, pid: self.pid? })
    }

    pub fn run_id(&self) -> Option<RunId> {
        self.local.run.as_ref().map(|r| r.id)
    }

    pub fn tell(&mut self, event: TaskEvent) {
        self.local.state.push_event(event);
        self.touch(Dirty::Lazy);
        self.moves += 1;
    }

    fn touch(&mut self, dirty: Dirty) {
        self.dirty = self.dirty.max(dirty);
    }

    /// Does what is due. `gate`: the task may start now.
    pub fn advance(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>, gate: bool) {
        if self.is_dead() {
            return;
        }
        let now = turn.now.mono;
        if matches!(self.kill, Kill::Delayed { until } if until <= now) {
            self.kill = Kill::STOP;
        }
        if turn.boot.is_none() {
            return;
        }
        let Some(run) = &self.local.run else {
            if gate && self.not_before <= now {
                self.start(turn, spec);
            }
            return;
        };
        match self.kill {
            Kill::Stopping { attempt, ask_at } if ask_at <= now => {
                let timeout = kill_timeout(turn.config, spec.task);
                let signal = signals::number(&spec.task.kill_signal).unwrap_or(signals::DEFAULT);
                turn.held.keeper(Command::Stop { run: run.id, signal, timeout });
                self.kill = Kill::Stopping { attempt, ask_at: now.after(timeout + STOP_PATIENCE) };
            }
            Kill::No | Kill::Delayed { .. } if !run.confirmed && self.ask_start_at <= now => {
                self.ask_start(turn, spec, run.id);
            }
            _ => {}
        }
    }

    fn start(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>) {
        if turn.info.is_none() {
            return;
        }
        if !self.local.set_up {
            self.local.set_up = true;
            self.tell(events::task_setup(turn.now.stamp()));
        }
        let Some(boot) = turn.boot else { return };
        let run = RunId::from_random(turn.random.next_u128());
        self.local.run = Some(LocalRun { id: run, boot, confirmed: false });
        self.touch(Dirty::Durable);
        self.ask_start(turn, spec, run);
    }

    /// Asking twice for one run starts it once.
    fn ask_start(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>, run: RunId) {
        let Some(info) = turn.info else { return };
        match driver::run_spec(turn.config, info, spec.assignment, spec.task) {
            Ok(made) => {
                turn.held.keeper(Command::Start { run, spec: Box::new(made) });
                self.ask_start_at = turn.now.mono.after(START_PATIENCE);
            }
            Err(unfit) => {
                let at = turn.now.stamp();
                self.tell(match unfit {
                    Unfit::Invalid(why) => events::failed_validation(at, &why),
                    Unfit::Driver(why) => events::driver_failure(at, &why),
                });
                self.local.run = None;
                self.after_end(turn, spec, Outcome::StartFailed { retryable: false }, at);
            }
        }
    }

    /// Stops the task for good. Without `delay` its shutdown delay is left out.
    pub fn kill(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>, delay: bool) {
        if !self.is_dead() && self.local.restart.take().is_some() {
            // The end overtakes it.
            self.kill = Kill::No;
        }
        if self.is_dead() || (self.kill != Kill::No && (delay || !matches!(self.kill, Kill::Delayed { .. })))
        {
            return;
        }
        let (at, now) = (turn.now.stamp(), turn.now.mono);
        if self.kill == Kill::No {
            self.tell(events::killing(at, kill_timeout(turn.config, spec.task)));
        }
        if self.local.run.is_none() {
            self.tell(events::killed(at));
            self.die(at);
        } else if delay && spec.task.shutdown_delay > Span::ZERO {
            self.tell(events::shutdown_delay(at, spec.task.shutdown_delay));
            self.kill = Kill::Delayed { until: now.after(spec.task.shutdown_delay) };
        } else {
            self.kill = Kill::STOP;
        }
    }

    /// What ends it now counts as its failure.
    pub fn give_up(&mut self, event: TaskEvent) {
        if !self.is_dead() {
            self.tell(event);
            self.given_up = true;
        }
    }

    /// Ends the run, and starts the task again whatever its policy says. False when there is no run, or it is being ended.
    pub fn restart(&mut self, at: Wall, wanted: WantedRestart, why: &str) -> bool {
        if self.local.restart.is_none() && (self.local.run.is_none() || self.kill != Kill::No) {
            return false;
        }
        if self.local.restart.is_none() {
            self.tell(events::restart_signaled(at, why));
            self.kill = Kill::STOP;
        }
        if self.local.restart != Some(WantedRestart::WithAll) {
            self.local.restart = Some(wanted);
            self.touch(Dirty::Durable);
        }
        true
    }

    /// A dead task begins anew.
    pub fn revive(&mut self, at: Wall, why: &str) {
        self.tell(events::restart_signaled(at, why));
        (self.local.state.failed, self.local.state.finished_at) = (false, Wall::NEVER);
        self.begin_again(at, Mono(0));
        self.touch(Dirty::Durable);
    }

    pub fn restarts_with_all(&self) -> bool {
        self.local.restart == Some(WantedRestart::WithAll)
    }

    /// False when it does not run.
    pub fn signal(&mut self, turn: &mut Turn<'_>, name: &str, signal: i32) -> bool {
        let Some(run) = self.local.run.as_ref().filter(|r| r.confirmed).map(|r| r.id) else { return false };
        turn.held.keeper(Command::Signal { run, signal });
        self.tell(events::signaling(turn.now.stamp(), name));
        true
    }

    /// `pid`: `None` when it has ended since.
    pub fn started(&mut self, turn: &Turn<'_>, pid: Option<u32>, at: Wall) {
        self.pid = pid;
        let Some(run) = self.local.run.as_mut().filter(|r| !r.confirmed) else { return };
        run.confirmed = true;
        let at = known(at, turn.now);
        self.local.state.phase = TaskPhase::Running;
        self.local.state.started_at = at;
        self.tell(events::started(at));
    }

    pub fn start_failed(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>, message: &str, retryable: bool) {
        let at = turn.now.stamp();
        self.tell(events::driver_failure(at, message));
        self.drop_run(turn);
        self.after_end(turn, spec, Outcome::StartFailed { retryable }, at);
    }

    pub fn exited(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>, exit: Exit, at: Wall) {
        let at = known(at, turn.now);
        self.started_unseen(turn, at);
        let rebooted = self.is_of_another_boot(turn) && exit.status == ExitStatus::Unknown;
        let outcome = if rebooted { Outcome::Lost } else { Outcome::Exited { success: exit.successful() } };
        self.tell(match rebooted {
            true => events::failed_restoring(at, REBOOTED),
            false => events::terminated(at, exit),
        });
        self.drop_run(turn);
        self.after_end(turn, spec, outcome, at);
    }

    /// What ended was started: whoever did not see it (the agent died before that was stored) knows only that it was between
    /// the last event and the end.
    fn started_unseen(&mut self, turn: &Turn<'_>, ended: Wall) {
        let last = self.local.state.events.last().map_or(ended, |event| event.at);
        self.started(turn, None, last.min(ended));
    }

    /// The keeper refused what it was asked about this task's run.
    pub fn refused(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>, message: &str) {
        let Some(run) = &self.local.run else { return };
        if !run.confirmed && self.kill != Kill::No {
            self.local.run = None;
            self.after_end(turn, spec, Outcome::Lost, turn.now.stamp());
        } else if !run.confirmed {
            self.start_failed(turn, spec, message, true);
        } else if let Kill::Stopping { attempt, .. } = self.kill {
            let ask_at = turn.now.mono.after(stop_backoff(attempt));
            self.kill = Kill::Stopping { attempt: attempt.saturating_add(1), ask_at };
        }
    }

    /// What the keeper says of the run on a new connection; `None`: it does not know it.
    pub fn reconcile(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>, found: Option<&RunState>) {
        let Some(run) = &self.local.run else { return };
        self.ask_start_at = Mono(0);
        if let Kill::Stopping { attempt, .. } = self.kill {
            self.kill = Kill::Stopping { attempt, ask_at: turn.now.mono };
        }
        let gone = run.confirmed || Some(run.boot) != turn.boot;
        match found {
            Some(RunState::Running { since, pid }) => self.started(turn, Some(*pid), *since),
            Some(RunState::Exited { exit, at }) => self.exited(turn, spec, *exit, *at),
            Some(RunState::StartFailed { message, retryable }) => {
                self.start_failed(turn, spec, message, *retryable);
            }
            None if gone => self.lost(turn, spec),
            // Never arrived, or just being started: `advance` asks again under the same id.
            None => {}
        }
    }

    fn lost(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>) {
        let at = turn.now.stamp();
        let rebooted = self.is_of_another_boot(turn);
        let why = if rebooted { REBOOTED } else { "its process is no longer known" };
        self.tell(events::failed_restoring(at, why));
        self.local.run = None;
        let outcome = if rebooted { Outcome::Lost } else { Outcome::Exited { success: false } };
        self.after_end(turn, spec, outcome, at);
    }

    fn is_of_another_boot(&self, turn: &Turn<'_>) -> bool {
        self.local.run.as_ref().is_some_and(|run| Some(run.boot) != turn.boot)
    }

    fn drop_run(&mut self, turn: &mut Turn<'_>) {
        turn.forget.extend(self.local.run.take().map(|run| run.id));
        self.touch(Dirty::Lazy);
    }

    fn after_end(&mut self, turn: &mut Turn<'_>, spec: Spec<'_>, outcome: Outcome, at: Wall) {
        let restarts = self.local.restart.take().is_some();
        if spec.to_end {
            self.tell(events::killed(at));
            return self.die(at);
        }
        if restarts {
            self.kill = Kill::No;
            self.begin_again(at, Mono(0));
            return self.tell(events::restarting(at, Span::ZERO, "", true));
        }
        let on_success = self.role.restarts_on_success(spec.assignment.job_type);
        let (now, dice) = (turn.now.mono, turn.random.next_u64());
        match self.tracker.decide(&spec.task.restart, on_success, outcome, now, dice) {
            Decision::Done => self.die(at),
            Decision::Fail { reason } => self.fail(events::not_restarting(at, &reason), at),
            Decision::Restart { delay, reason } => {
                let expected = reason == WITHIN_POLICY || reason == AFTER_REBOOT;
                self.begin_again(turn.now.stamp(), now.after(delay));
                self.tell(events::restarting(at, delay, reason, expected));
            }
        }
    }

    fn begin_again(&mut self, at: Wall, not_before: Mono) {
        self.local.state.phase = TaskPhase::Pending;
        self.local.state.restarts += 1;
        self.local.state.last_restart = at;
        self.not_before = not_before;
    }

    /// Ends the task as failed, with the event that says why. Only for a task without a run.
    pub fn fail(&mut self, why: TaskEvent, at: Wall) {
        self.local.state.failed = true;
        self.tell(why);
        self.die(at);
    }

    fn die(&mut self, at: Wall) {
        self.local.state.phase = TaskPhase::Dead;
        self.local.state.failed |= self.given_up;
        self.kill = Kill::No;
        if self.local.state.finished_at.is_never() {
            self.local.state.finished_at = at;
        }
        self.touch(Dirty::Durable);
        self.moves += 1;
    }

    /// When something becomes due that no event will announce.
    pub fn next_deadline(&self, now: Mono) -> Option<Mono> {
        let at = match (&self.local.run, self.kill) {
            _ if self.is_dead() => return None,
            (_, Kill::Delayed { until }) => until,
            (None, _) => self.not_before,
            (Some(_), Kill::Stopping { ask_at, .. }) => ask_at,
            (Some(run), Kill::No) if !run.confirmed => self.ask_start_at,
            (Some(_), Kill::No) => return None,
        };
        (at > now).then_some(at)
    }
}

fn known(at: Wall, now: Now) -> Wall {
    if at.is_never() { now.stamp() } else { at }
}

fn kill_timeout(config: &Config, task: &Task) -> Span {
    task.kill_timeout.max(Span::ZERO).min(config.max_kill_timeout)
}

/// 5 s, 20 s, 80 s, then 120 s (client.md 10.4).
fn stop_backoff(attempt: u32) -> Span {
    Span::seconds(4i64.saturating_pow(attempt.min(8)).saturating_mul(5).min(120))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_stop_is_asked_for_ever_more_slowly() {
        let seconds: Vec<_> = (0..5).map(|i| stop_backoff(i).as_nanos() / 1_000_000_000).collect();
        assert_eq!(seconds, [5, 20, 80, 120, 120]);
        assert_eq!(stop_backoff(u32::MAX), Span::seconds(120));
    }
}
