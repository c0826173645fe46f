//! The task runner: a task waits for its lifecycle stage, starts, runs, exits, and restarts or stays dead (client.md 7 to
//! client.md 10). The run's id is stored before the start is asked for, the first one's with its allocation; everything else
//! follows from the keeper's events.

use super::config::Config;
use super::driver::{self, StartError};
use super::effects::{PendingEffects, RunningTask};
use super::events;
use super::kill_order::{KillState, stop_backoff};
use super::lifecycle::Role;
use super::restart_tracker::{AFTER_REBOOT, RestartDecision, RestartTracker, TaskOutcome, WITHIN_POLICY};
use super::signals;
use model::id::{AllocId, RunId, Uuid};
use model::job::Task;
use model::node::NodeInfo;
use model::random::Stream;
use model::task::{Exit, ExitStatus, TaskEvent, TaskPhase};
use model::time::{Mono, Now, Span, Wall};
use state::client_store::{RunRecord, TaskRecord, WantedRestart};
use wire::keeper::{KeeperCommand, RunState};
use wire::rpc::Assignment;

/// What allocation and task runners may use during a turn of the client.
pub struct TurnContext<'a> {
    pub now: Now,
    pub config: &'a Config,
    /// Nothing starts before the machine is known: its names may stand in a task's config.
    pub info: Option<&'a NodeInfo>,
    /// The keeper's boot, while it is there.
    pub boot: Option<Uuid>,
    /// The disk takes writes. Without, nothing starts: a start has to be stored first.
    pub disk_has_space: bool,
    pub random: &'a mut Stream,
    pub effects: &'a mut PendingEffects,
    /// Runs to be forgotten once their end is durably stored.
    pub forget: &'a mut Vec<RunId>,
}

#[derive(Clone, Copy)]
pub struct TaskSpec<'a> {
    pub assignment: &'a Assignment,
    pub task: &'a Task,
    /// The task is being killed: once its allocation has a kill plan that includes it, no exit of the task is a failure, and no
    /// restart follows.
    pub to_end: bool,
}

/// Whether a change has to be durable at the end of the turn. A lazy one is stored with the next durable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dirty {
    Clean,
    Lazy,
    Durable,
}

#[derive(Debug)]
pub struct TaskRunner {
    alloc: AllocId,
    pub name: String,
    pub role: Role,
    pub leader: bool,
    pub local: TaskRecord,
    /// A run to be started once the directory is there. Stored as if its start had been sent to the keeper: after a restart the agent
    /// cannot know that it was not.
    planned_run: Option<RunRecord>,
    /// The main process, as the keeper reported it last.
    pid: Option<u32>,
    pub dirty: Dirty,
    /// Counts changes that the servers are to hear of.
    pub revision: u64,
    not_before: Mono,
    /// When an unanswered start is asked for again.
    resend_start_at: Mono,
    kill: KillState,
    /// The task is stopped because the servers were out of reach, and counts as failed.
    disconnected: bool,
    tracker: RestartTracker,
    /// Counted since the agent was started.
    pub starts: u64,
    pub oom_kills: u64,
}

/// A start that the keeper left unanswered is asked for again after this long.
const START_TIMEOUT: Span = Span::seconds(60);
/// The same for a stop, on top of the task's own time to end.
const STOP_TIMEOUT: Span = Span::seconds(20);
const REBOOTED: &str = "the machine was restarted";

impl TaskRunner {
    pub fn new(alloc: AllocId, task: &Task, local: Option<TaskRecord>, now: Now) -> TaskRunner {
        let fresh = local.is_none();
        let restart = local.as_ref().is_some_and(|l| l.restart.is_some());
        let mut runner = TaskRunner {
            alloc,
            name: task.name.clone(),
            role: Role::of(task.lifecycle),
            leader: task.leader,
            local: local.unwrap_or_default(),
            planned_run: None,
            pid: None,
            dirty: Dirty::Clean,
            revision: 0,
            not_before: Mono(0),
            resend_start_at: Mono(0),
            kill: if restart { KillState::STOP } else { KillState::No },
            disconnected: false,
            tracker: RestartTracker::new(now.mono),
            starts: 0,
            oom_kills: 0,
        };
        if fresh {
            runner.add_event(events::received(now.stamp()));
        }
        runner
    }

    pub fn is_dead(&self) -> bool {
        self.local.state.phase == TaskPhase::Dead
    }

    pub fn has_run(&self) -> bool {
        self.local.run.is_some()
    }

    /// The running process, if there is one.
    pub fn running_task(&self, label: String) -> Option<RunningTask> {
        let run = self.local.run.as_ref().filter(|r| r.confirmed)?.id;
        Some(RunningTask { task: self.name.clone(), run, label, pid: self.pid? })
    }

    pub fn run_id(&self) -> Option<RunId> {
        self.local.run.as_ref().map(|r| r.id)
    }

    pub fn add_event(&mut self, event: TaskEvent) {
        let (task, failed) = (&self.name, self.local.state.failed);
        tracing::debug!(
            target: "client.alloc_runner.task_runner",
            alloc_id = %self.alloc, task, r#type = event.kind, msg = event.message, failed, "Task event"
        );
        self.local.state.push_event(event);
        self.touch(Dirty::Lazy);
        self.revision += 1;
    }

    pub fn has_event(&self, kind: &str) -> bool {
        self.local.state.events.iter().any(|event| event.kind == kind)
    }

    /// Draws the id of a run that will be started soon, so that it is stored together with the allocation.
    pub fn plan_run(&mut self, ctx: &mut TurnContext<'_>) {
        let Some(boot) = ctx.boot.filter(|_| !self.is_dead() && !self.has_run()) else { return };
        self.planned_run = Some(RunRecord::new(ctx.random.next_u128(), boot));
        self.touch(Dirty::Durable);
    }

    /// The record as the store is to have it.
    pub fn record(&self) -> TaskRecord {
        TaskRecord { run: self.local.run.clone().or(self.planned_run.clone()), ..self.local.clone() }
    }

    fn touch(&mut self, dirty: Dirty) {
        self.dirty = self.dirty.max(dirty);
    }

    /// Does what is due. `gate`: the lifecycle allows a start.
    pub fn advance(&mut self, ctx: &mut TurnContext<'_>, spec: TaskSpec<'_>, gate: bool) {
        if self.is_dead() {
            return;
        }
        let now = ctx.now.mono;
        if matches!(self.kill, KillState::Delayed { until } if until <= now) {
            self.kill = KillState::STOP;
        }
        if ctx.boot.is_none() {
            return;
        }
        let Some(run) = &self.local.run else {
            if gate && self.not_before <= now {
                self.start(ctx, spec);
            }
            return;
        };
        match self.kill {
            KillState::Stopping { attempt, send_stop_at } if send_stop_at <= now => {
                let timeout = kill_timeout(ctx.config, spec.task);
                let signal = signals::number(&spec.task.kill_signal).unwrap_or(signals::DEFAULT);
                ctx.effects.keeper(KeeperCommand::Stop { run: run.id, signal, timeout });
                self.kill = KillState::Stopping { attempt, send_stop_at: now.after(timeout + STOP_TIMEOUT) };
            }
            KillState::No | KillState::Delayed { .. }
                if gate && !run.confirmed && self.resend_start_at <= now =>
            {
                self.send_start(ctx, spec, run.id);
            }
            _ => {}
        }
    }

    fn start(&mut self, ctx: &mut TurnContext<'_>, spec: TaskSpec<'_>) {
        if ctx.info.is_none() {
            return;
        }
        if !self.local.set_up {
            self.local.set_up = true;
            self.add_event(events::task_setup(ctx.now.stamp()));
        }
        let Some(boot) = ctx.boot else { return };
        assert!(self.local.run.is_none(), "a task has one run at a time");
        assert!(ctx.disk_has_space, "a start is stored before it is asked for, which takes room on the disk");
        let planned = self.planned_run.take().filter(|run| run.boot == boot);
        // what was planned is stored already
        self.touch(if planned.is_some() { Dirty::Lazy } else { Dirty::Durable });
        let run = planned.unwrap_or_else(|| RunRecord::new(ctx.random.next_u128(), boot));
        let id = self.local.run.insert(run).id;
        self.send_start(ctx, spec, id);
    }

    /// Asking twice for one run starts it once, in this boot: the keeper need not know runs of another one.
    fn send_start(&mut self, ctx: &mut TurnContext<'_>, spec: TaskSpec<'_>, run: RunId) {
        assert!(!self.is_of_another_boot(ctx), "no run is asked for after a reboot");
        let Some(info) = ctx.info else { return };
        match driver::run_spec(ctx.config, info, spec.assignment, spec.task) {
            Ok(made) => {
                ctx.effects.keeper(KeeperCommand::Start { run, spec: Box::new(made) });
                self.resend_start_at = ctx.now.mono.after(START_TIMEOUT);
            }
            Err(error) => {
                let at = ctx.now.stamp();
                self.add_event(match error {
                    StartError::Invalid(why) => events::failed_validation(at, &why),
                    StartError::Driver(why) => events::driver_failure(at, &why),
                });
                self.local.run = None;
                self.after_end(ctx, spec, TaskOutcome::StartFailed { retryable: false }, at);
            }
        }
    }

    /// Stops the task for good. Without `delay` its shutdown delay is left out.
    pub fn kill(&mut self, ctx: &mut TurnContext<'_>, spec: TaskSpec<'_>, delay: bool) {
        if !self.is_dead() && self.local.restart.take().is_some() {
            // being killed overrides the restart
            self.kill = KillState::No;
        }
        if self.is_dead()
            || (self.kill != KillState::No && (delay || !matches!(self.kill, KillState::Delayed { .. })))
        {
            return;
        }
        let (at, now) = (ctx.now.stamp(), ctx.now.mono);
        if self.kill == KillState::No {
            self.add_event(events::killing(at, kill_timeout(ctx.config, spec.task)));
        }
        if self.local.run.is_none() {
            self.add_event(events::killed(at));
            self.mark_dead(at);
        } else if spec.task.shutdown_delay <= Span::ZERO {
            self.kill = KillState::STOP;
        } else if delay {
            self.add_event(events::shutdown_delay(at, spec.task.shutdown_delay));
            self.kill = KillState::Delayed { until: now.after(spec.task.shutdown_delay) };
        } else {
            self.add_event(events::skipped_shutdown_delay(at, spec.task.shutdown_delay));
            self.kill = KillState::STOP;
        }
    }

    /// Marks the task as failed, whatever its exit status will be.
    pub fn fail_disconnected(&mut self, event: TaskEvent) {
        if !self.is_dead() {
            self.add_event(event);
            self.disconnected = true;
        }
    }

    /// Ends the run, and starts the task again whatever its policy says. False when there is no run, or it is being ended.
    pub fn restart(&mut self, at: Wall, wanted: WantedRestart, why: &str) -> bool {
        if self.local.restart.is_none() && (self.local.run.is_none() || self.kill != KillState::No) {
            return false;
        }
        if self.local.restart.is_none() {
            self.add_event(events::restart_signaled(at, why));
            self.kill = KillState::STOP;
        }
        if self.local.restart != Some(WantedRestart::WithAll) {
            self.local.restart = Some(wanted);
            self.touch(Dirty::Durable);
        }
        true
    }

    /// Starts a dead task again.
    pub fn revive(&mut self, at: Wall, why: &str) {
        self.add_event(events::restart_signaled(at, why));
        (self.local.state.failed, self.local.state.finished_at) = (false, Wall::NEVER);
        self.prepare_restart(at, Mono(0));
        self.touch(Dirty::Durable);
    }

    pub fn restarts_with_all(&self) -> bool {
        self.local.restart == Some(WantedRestart::WithAll)
    }

    /// False when the task does not run.
    pub fn signal(&mut self, ctx: &mut TurnContext<'_>, name: &str, signal: i32) -> bool {
        let Some(run) = self.local.run.as_ref().filter(|r| r.confirmed).map(|r| r.id) else { return false };
        ctx.effects.keeper(KeeperCommand::Signal { run, signal });
        self.add_event(events::signaling(ctx.now.stamp(), name));
        true
    }

    /// `pid`: `None` when it has ended since.
    pub fn started(&mut self, ctx: &TurnContext<'_>, pid: Option<u32>, at: Wall) {
        self.pid = pid;
        let is_dead = self.is_dead();
        let Some(run) = self.local.run.as_mut().filter(|r| !r.confirmed) else { return };
        assert!(!is_dead, "a dead task does not start");
        run.confirmed = true;
        self.starts += 1;
        let at = known(at, ctx.now);
        self.local.state.phase = TaskPhase::Running;
        self.local.state.started_at = at;
        self.add_event(events::started(at));
    }

    pub fn start_failed(
        &mut self,
        ctx: &mut TurnContext<'_>,
        spec: TaskSpec<'_>,
        message: &str,
        retryable: bool,
    ) {
        let at = ctx.now.stamp();
        self.add_event(events::driver_failure(at, message));
        self.drop_run(ctx);
        self.after_end(ctx, spec, TaskOutcome::StartFailed { retryable }, at);
    }

    pub fn exited(&mut self, ctx: &mut TurnContext<'_>, spec: TaskSpec<'_>, exit: Exit, at: Wall) {
        let at = known(at, ctx.now);
        self.started_unseen(ctx, at);
        self.oom_kills += u64::from(exit.oom_killed);
        let rebooted = self.is_of_another_boot(ctx) && exit.status == ExitStatus::Unknown;
        let outcome =
            if rebooted { TaskOutcome::Lost } else { TaskOutcome::Exited { success: exit.successful() } };
        self.add_event(match rebooted {
            true => events::failed_restoring(at, REBOOTED),
            false => events::terminated(at, exit),
        });
        self.drop_run(ctx);
        self.after_end(ctx, spec, outcome, at);
    }

    /// A task that exited had started. If the agent died before that was stored, the start was some time between the last
    /// event and the exit.
    fn started_unseen(&mut self, ctx: &TurnContext<'_>, ended: Wall) {
        let last = self.local.state.events.last().map_or(ended, |event| event.at);
        self.started(ctx, None, last.min(ended));
    }

    /// The keeper refused what it was asked about this task's run.
    pub fn refused(&mut self, ctx: &mut TurnContext<'_>, spec: TaskSpec<'_>, message: &str) {
        let Some(run) = &self.local.run else { return };
        if !run.confirmed && self.kill != KillState::No {
            self.local.run = None;
            self.after_end(ctx, spec, TaskOutcome::Lost, ctx.now.stamp());
        } else if !run.confirmed {
            self.start_failed(ctx, spec, message, true);
        } else if let KillState::Stopping { attempt, .. } = self.kill {
            let send_stop_at = ctx.now.mono.after(stop_backoff(attempt));
            self.kill = KillState::Stopping { attempt: attempt.saturating_add(1), send_stop_at };
        }
    }

    /// Reattaches to the run as the keeper lists it on a new connection; `None`: the keeper does not know it.
    pub fn reconcile(&mut self, ctx: &mut TurnContext<'_>, spec: TaskSpec<'_>, found: Option<&RunState>) {
        let Some(run) = &self.local.run else { return };
        self.resend_start_at = Mono(0);
        if let KillState::Stopping { attempt, .. } = self.kill {
            self.kill = KillState::Stopping { attempt, send_stop_at: ctx.now.mono };
        }
        let gone = run.confirmed || Some(run.boot) != ctx.boot;
        match found {
            Some(RunState::Running { since, pid }) => self.started(ctx, Some(*pid), *since),
            Some(RunState::Exited { exit, at }) => self.exited(ctx, spec, *exit, *at),
            Some(RunState::StartFailed { message, retryable }) => {
                self.start_failed(ctx, spec, message, *retryable);
            }
            None if gone => self.lost(ctx, spec),
            // Never arrived, or just being started: `advance` asks again under the same id.
            None => {}
        }
    }

    fn lost(&mut self, ctx: &mut TurnContext<'_>, spec: TaskSpec<'_>) {
        let at = ctx.now.stamp();
        let rebooted = self.is_of_another_boot(ctx);
        let why = if rebooted { REBOOTED } else { "its process is no longer known" };
        self.add_event(events::failed_restoring(at, why));
        self.local.run = None;
        let outcome = if rebooted { TaskOutcome::Lost } else { TaskOutcome::Exited { success: false } };
        self.after_end(ctx, spec, outcome, at);
    }

    fn is_of_another_boot(&self, ctx: &TurnContext<'_>) -> bool {
        self.local.run.as_ref().is_some_and(|run| Some(run.boot) != ctx.boot)
    }

    fn drop_run(&mut self, ctx: &mut TurnContext<'_>) {
        ctx.forget.extend(self.local.run.take().map(|run| run.id));
        self.touch(Dirty::Lazy);
    }

    fn after_end(&mut self, ctx: &mut TurnContext<'_>, spec: TaskSpec<'_>, outcome: TaskOutcome, at: Wall) {
        assert!(self.local.run.is_none(), "what follows a run begins when it is over");
        let restarts = self.local.restart.take().is_some();
        if spec.to_end {
            self.add_event(events::killed(at));
            return self.mark_dead(at);
        }
        if restarts {
            self.kill = KillState::No;
            self.prepare_restart(at, Mono(0));
            return self.add_event(events::restarting(at, Span::ZERO, "", true));
        }
        let on_success = self.role.restarts_on_success(spec.assignment.job_type);
        let (now, jitter) = (ctx.now.mono, ctx.random.next_u64());
        match self.tracker.decide(&spec.task.restart, on_success, outcome, now, jitter) {
            RestartDecision::Done => self.mark_dead(at),
            RestartDecision::Fail { reason } => self.fail(events::not_restarting(at, &reason), at),
            RestartDecision::Restart { delay, reason } => {
                let expected = reason == WITHIN_POLICY || reason == AFTER_REBOOT;
                self.prepare_restart(ctx.now.stamp(), now.after(delay));
                self.add_event(events::restarting(at, delay, reason, expected));
            }
        }
    }

    fn prepare_restart(&mut self, at: Wall, not_before: Mono) {
        assert!(self.local.run.is_none(), "a task starts again when its run is over");
        self.local.state.phase = TaskPhase::Pending;
        self.local.state.restarts += 1;
        self.local.state.last_restart = at;
        self.not_before = not_before;
    }

    /// Ends the task as failed, with the event that says why. Only for a task without a run.
    pub fn fail(&mut self, why: TaskEvent, at: Wall) {
        self.local.state.failed = true;
        self.add_event(why);
        self.mark_dead(at);
    }

    fn mark_dead(&mut self, at: Wall) {
        assert!(self.local.run.is_none(), "a task with a run is not dead");
        self.planned_run = None;
        self.local.state.phase = TaskPhase::Dead;
        self.local.state.failed |= self.disconnected;
        self.kill = KillState::No;
        if self.local.state.finished_at.is_never() {
            self.local.state.finished_at = at;
        }
        self.touch(Dirty::Durable);
        self.revision += 1;
    }

    /// When something becomes due that no event will announce.
    pub fn next_deadline(&self, now: Mono) -> Option<Mono> {
        let at = match (&self.local.run, self.kill) {
            _ if self.is_dead() => return None,
            (_, KillState::Delayed { until }) => until,
            (None, _) => self.not_before,
            (Some(_), KillState::Stopping { send_stop_at, .. }) => send_stop_at,
            (Some(run), KillState::No) if !run.confirmed => self.resend_start_at,
            (Some(_), KillState::No) => return None,
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
