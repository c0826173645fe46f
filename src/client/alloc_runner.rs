//! The allocation runner: its directory, its task runners in the order of their lifecycle, and how they are killed
//! (client.md 5, client.md 6, client.md 10).

mod directory;
mod health;
mod time_limits;
mod updates;

use super::driver;
use super::effects::RunningTask;
use super::events;
use super::health::HealthWatcher;
use super::kill_order::{KillPhase, KillPlan};
use super::lifecycle::{LifecycleStage, Role, TaskView};
use super::run_limit::{Age, EXCEEDED};
use super::task_runner::{Dirty, TaskRunner, TaskSpec, TurnContext};
use directory::AllocDirState;
use model::alloc::{ClientStatus, DesiredStatus, client_status_of};
use model::id::AllocId;
use model::job::Task;
use model::task::TaskEvent;
use model::time::{Mono, Now, Span, Wall};
use state::client_store::{AllocRecord, HealthResult, RecoveredAlloc, Retention, WriteBatch};
use std::collections::BTreeMap;
use wire::rpc::Assignment;

/// What the servers have acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcknowledgedReport {
    revision: u64,
    status: ClientStatus,
    pub(super) health: Option<HealthResult>,
}

#[derive(Debug)]
pub struct AllocRunner {
    pub record: AllocRecord,
    pub(super) tasks: Vec<TaskRunner>,
    pub(super) record_dirty: Dirty,
    age: Age,
    dir: AllocDirState,
    pub(super) stage: LifecycleStage,
    pub(super) plan: Option<KillPlan>,
    /// When the directory's removal is asked for (again); `None`: not yet asked for.
    remove_at: Option<Mono>,
    status: (ClientStatus, &'static str),
    status_revision: u64,
    pub(super) acknowledged: Option<AcknowledgedReport>,
    reporting: Option<AcknowledgedReport>,
    pub(super) health_watcher: HealthWatcher,
    /// When its health is checked again.
    pub(super) health_check_at: Option<Mono>,
    /// When the allocation ended here: the oldest is collected first.
    pub ended: Option<Wall>,
}

impl AllocRunner {
    pub fn new(assignment: Assignment, now: Now) -> AllocRunner {
        let record = AllocRecord {
            assignment,
            dir_built: false,
            retention: Retention::Kept,
            health: None,
            received: now.stamp(),
        };
        let mut alloc = AllocRunner::restore(RecoveredAlloc { record, tasks: BTreeMap::new() }, now);
        alloc.record_dirty = Dirty::Durable;
        // the servers made it pending, so only another status is urgent
        alloc.acknowledged =
            Some(AcknowledgedReport { revision: 0, status: ClientStatus::Pending, health: None });
        alloc
    }

    pub fn restore(local: RecoveredAlloc, now: Now) -> AllocRunner {
        let RecoveredAlloc { mut record, mut tasks } = local;
        // a first run is stored before its directory is built, and that it was built may not have been stored: the run may have started
        let built_unseen = !record.dir_built && tasks.values().any(|task| task.run.is_some());
        record.dir_built |= built_unseen;
        let id = record.assignment.id;
        let runner = |t: &Task| TaskRunner::new(id, t, tasks.remove(&t.name), now);
        let tasks: Vec<_> = record.assignment.group.tasks.iter().map(runner).collect();
        let mut alloc = AllocRunner {
            dir: if record.dir_built { AllocDirState::Stale } else { AllocDirState::Absent },
            age: Age::new(record.received, now),
            record,
            tasks,
            record_dirty: if built_unseen { Dirty::Lazy } else { Dirty::Clean },
            stage: LifecycleStage::Prestart,
            plan: None,
            remove_at: None,
            status: (ClientStatus::Pending, ""),
            status_revision: u64::MAX,
            acknowledged: None,
            reporting: None,
            health_watcher: HealthWatcher::new(now.mono),
            health_check_at: None,
            ended: None,
        };
        alloc.update_client_status();
        alloc
    }

    pub fn id(&self) -> AllocId {
        self.record.assignment.id
    }

    pub fn has_ended(&self) -> bool {
        self.tasks.iter().all(TaskRunner::is_dead)
    }

    pub fn task_names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(|t| t.name.as_str())
    }

    pub fn client_status(&self) -> ClientStatus {
        self.status.0
    }

    /// Restarts of all its tasks since the allocation was placed.
    pub fn restarts(&self) -> u64 {
        self.tasks.iter().map(|t| t.local.state.restarts).sum()
    }

    /// How often its tasks were started, and killed for want of memory, in this life of the agent.
    pub fn starts_and_oom_kills(&self) -> (u64, u64) {
        (self.tasks.iter().map(|t| t.starts).sum(), self.tasks.iter().map(|t| t.oom_kills).sum())
    }

    /// Whether the allocation has ended, or only poststop tasks are left, or its tasks are being stopped.
    pub fn is_ending(&self) -> bool {
        let over = self.tasks.iter().filter(|t| t.role != Role::Poststop).all(TaskRunner::is_dead);
        over || self.plan.is_some() || self.record.assignment.desired != DesiredStatus::Run
    }

    pub fn running(&self) -> bool {
        self.tasks.iter().any(TaskRunner::has_run)
    }

    /// Takes a newer assignment. The set of tasks of an allocation never changes; if it did, only the desired status is taken.
    pub fn update(&mut self, assignment: Assignment) {
        let known = &mut self.record.assignment;
        let same =
            known.group.tasks.iter().map(|t| &t.name).eq(assignment.group.tasks.iter().map(|t| &t.name));
        if same {
            *known = assignment;
        } else {
            known.desired = assignment.desired;
            known.no_shutdown_delay = assignment.no_shutdown_delay;
            known.alloc_modify_index = assignment.alloc_modify_index;
        }
        self.record_dirty = Dirty::Durable;
    }

    pub fn set_retention(&mut self, retention: Retention) {
        if self.record.retention == Retention::Kept {
            self.record.retention = retention;
            self.record_dirty = Dirty::Durable;
        }
    }

    /// The agent ends and takes its tasks with it: no delays, no poststop tasks.
    pub fn shut_down(&mut self) {
        self.stop(Mono(0), true, true);
    }

    /// Calls `act` with a task runner and the task that it runs.
    pub fn with_task(&mut self, index: usize, act: impl FnOnce(&mut TaskRunner, TaskSpec<'_>)) {
        let Some(runner) = self.tasks.get_mut(index) else { return };
        let to_end = self.plan.is_some_and(|plan| plan.includes(runner.role));
        if let Some(task) = self.record.assignment.group.task(&runner.name) {
            act(runner, TaskSpec { assignment: &self.record.assignment, task, to_end });
        }
    }

    /// The running tasks, or the one that is named, if it runs.
    pub fn running_tasks(&self, task: Option<&str>) -> Vec<RunningTask> {
        let one = |runner: &TaskRunner| {
            let assignment = &self.record.assignment;
            runner.running_task(driver::label(assignment, assignment.group.task(&runner.name)?))
        };
        self.tasks.iter().filter(|t| task.is_none_or(|name| t.name == name)).filter_map(one).collect()
    }

    pub fn runners(&self) -> &[TaskRunner] {
        &self.tasks
    }

    /// Does everything that is due, until nothing more follows from it.
    pub fn advance(&mut self, ctx: &mut TurnContext<'_>, previous_lives: bool) {
        self.check_health(ctx);
        if self.has_ended() {
            self.update_client_status();
            return self.remove_dir_if_wanted(ctx);
        }
        // Each round moves some task, the stage or the plan forward; all of them have few steps.
        let mut is_settled = false;
        for _ in 0..8 + 4 * self.tasks.len() {
            let before = (self.revision(), self.stage, self.plan, self.dir);
            self.kill_if_wanted(ctx);
            self.advance_kill(ctx);
            self.prepare_dir(ctx, previous_lives);
            if !self.restarts_all() {
                self.stage = self.stage.advance(&self.views());
            }
            self.advance_tasks(ctx);
            is_settled = before == (self.revision(), self.stage, self.plan, self.dir);
            if is_settled {
                break;
            }
        }
        debug_assert!(is_settled, "a turn does all that is due");
        self.check_health(ctx);
        self.update_client_status();
        self.remove_dir_if_wanted(ctx);
    }

    /// Decides whether tasks are being stopped before any event of a run is applied. After an agent restart only the store knows
    /// what was requested, and an exit may be the first event.
    pub fn plan_end(&mut self, ctx: &mut TurnContext<'_>) {
        if !self.has_ended() {
            self.kill_if_wanted(ctx);
        }
    }

    fn restarts_all(&self) -> bool {
        self.tasks.iter().any(TaskRunner::restarts_with_all)
    }

    fn revision(&self) -> u64 {
        self.tasks.iter().map(|t| t.revision).sum()
    }

    fn views(&self) -> Vec<TaskView> {
        let view = |t: &TaskRunner| TaskView {
            role: t.role,
            phase: t.local.state.phase,
            failed: t.local.state.failed,
        };
        self.tasks.iter().map(view).collect()
    }

    fn kill_if_wanted(&mut self, ctx: &mut TurnContext<'_>) {
        let now = ctx.now.mono;
        let skip_delays = self.record.assignment.no_shutdown_delay;
        if self.record.retention != Retention::Kept {
            self.stop(now, true, skip_delays);
        } else if self.record.assignment.desired != DesiredStatus::Run {
            self.stop(now, false, skip_delays);
        } else if self.exceeds_run_limit(now) {
            self.end_for_run_limit(ctx.now);
        } else if self.plan.is_none()
            && let Some(event) = self.kill_reason(ctx.now.stamp())
        {
            self.add_kill_reason(event);
            self.stop(now, false, false);
        }
    }

    /// Why the live tasks are killed, when others have ended; poststop tasks do not count.
    fn kill_reason(&self, at: Wall) -> Option<TaskEvent> {
        let counted = || self.tasks.iter().filter(|t| t.role != Role::Poststop);
        let mut living = counted().filter(|t| !t.is_dead()).peekable();
        living.peek()?;
        if counted().any(|t| t.is_dead() && !t.local.state.failed && t.leader) {
            return Some(events::leader_dead(at));
        }
        if let Some(failed) = counted().find(|t| t.is_dead() && t.local.state.failed) {
            return Some(events::sibling_failed(at, &failed.name));
        }
        living.all(|t| t.role.is_sidecar()).then(|| events::main_tasks_dead(at))
    }

    pub(super) fn stop(&mut self, now: Mono, with_poststop: bool, skip_delays: bool) {
        let with_poststop = with_poststop || !self.record.dir_built;
        if let Some(plan) = &mut self.plan {
            let more = (with_poststop && !plan.with_poststop) || (skip_delays && !plan.skip_delays);
            plan.with_poststop |= with_poststop;
            plan.skip_delays |= skip_delays;
            if more && (plan.phase == KillPhase::Done || plan.skip_delays) {
                plan.phase = KillPhase::Leader;
            }
            return;
        }
        let delay = self.record.assignment.group.shutdown_delay.filter(|d| *d > Span::ZERO && self.running());
        let phase = match delay {
            Some(delay) if !skip_delays => KillPhase::Delay { until: now.after(delay) },
            _ => KillPhase::Leader,
        };
        self.plan = Some(KillPlan { phase, with_poststop, skip_delays });
    }

    fn advance_kill(&mut self, ctx: &mut TurnContext<'_>) {
        let Some(mut plan) = self.plan else { return };
        loop {
            plan.phase = match plan.phase {
                KillPhase::Delay { until } if until <= ctx.now.mono => KillPhase::Leader,
                KillPhase::Leader if self.kill_tasks(ctx, plan, |t| t.leader) => {
                    self.report_leader_dead(ctx.now.stamp());
                    KillPhase::Others
                }
                KillPhase::Others if self.kill_tasks(ctx, plan, |t| !t.role.is_sidecar()) => {
                    KillPhase::Sidecars
                }
                KillPhase::Sidecars if self.kill_tasks(ctx, plan, |_| true) => KillPhase::Done,
                _ => break,
            };
        }
        let is_over = |t: &TaskRunner| t.is_dead() || !plan.includes(t.role);
        assert!(plan.phase != KillPhase::Done || self.tasks.iter().all(is_over), "what is killed stays dead");
        self.plan = Some(plan);
    }

    /// Adds the event `Leader Task Dead` to the live tasks, also when the whole allocation is stopped.
    fn report_leader_dead(&mut self, at: Wall) {
        if self.tasks.iter().any(|t| t.leader && t.is_dead() && !t.local.state.failed) {
            self.add_kill_reason(events::leader_dead(at));
        }
    }

    fn add_kill_reason(&mut self, event: TaskEvent) {
        self.add_once(event, |t| t.role != Role::Poststop);
    }

    /// Adds the event to each live task for which `meant` holds, once: the agent may have been restarted since.
    fn add_once(&mut self, event: TaskEvent, meant: impl Fn(&TaskRunner) -> bool) {
        for task in self.tasks.iter_mut().filter(|t| !t.is_dead() && meant(t) && !t.has_event(&event.kind)) {
            task.add_event(event.clone());
        }
    }

    /// Kills the selected tasks; true once all of them are dead.
    fn kill_tasks(
        &mut self,
        ctx: &mut TurnContext<'_>,
        plan: KillPlan,
        meant: impl Fn(&TaskRunner) -> bool,
    ) -> bool {
        let mut all_dead = true;
        for index in 0..self.tasks.len() {
            let task = &self.tasks[index];
            if task.is_dead() || !meant(task) || !plan.includes(task.role) {
                continue;
            }
            self.with_task(index, |runner, spec| runner.kill(ctx, spec, !plan.skip_delays));
            all_dead &= self.tasks[index].is_dead();
        }
        all_dead
    }

    fn advance_tasks(&mut self, ctx: &mut TurnContext<'_>) {
        let ready = self.dir == AllocDirState::Built && ctx.disk_has_space && !self.restarts_all();
        let stage = self.stage;
        for index in 0..self.tasks.len() {
            self.with_task(index, |runner, spec| {
                runner.advance(ctx, spec, ready && !spec.to_end && stage.may_start(runner.role));
            });
        }
    }

    /// Computes the client status from the tasks' states.
    fn update_client_status(&mut self) {
        if self.status_revision != self.revision() {
            self.status_revision = self.revision();
            let states = self.tasks.iter().map(|t| (t.name.clone(), t.local.state.clone())).collect();
            self.status = client_status_of(&states);
            if self.status.0 == ClientStatus::Complete && self.has_exceeded_run_limit() {
                self.status.1 = EXCEEDED;
            }
        }
        let terminal = self.status.0.is_terminal();
        assert!(
            !terminal || self.has_ended(),
            "an allocation is terminal only when all of its tasks are dead"
        );
        if self.ended.is_none() && self.has_ended() {
            self.ended = self.tasks.iter().map(|t| t.local.state.finished_at).max().or(Some(Wall::NEVER));
        }
    }

    /// Adds what changed to the turn's writes.
    pub fn save(&mut self, writes: &mut WriteBatch) {
        let id = self.id();
        if self.record_dirty != Dirty::Clean {
            writes.put_alloc(&self.record);
        }
        let mut worst = std::mem::replace(&mut self.record_dirty, Dirty::Clean);
        for task in self.tasks.iter_mut().filter(|t| t.dirty != Dirty::Clean) {
            writes.put_task(id, &task.name, &task.record());
            worst = worst.max(std::mem::replace(&mut task.dirty, Dirty::Clean));
        }
        if worst == Dirty::Durable {
            writes.require_durable();
        }
    }

    pub fn next_deadline(&self, now: Mono) -> Option<Mono> {
        let dir = match self.dir {
            AllocDirState::Building { again } => Some(again),
            AllocDirState::Absent | AllocDirState::Stale | AllocDirState::Built => None,
        };
        let plan = match self.plan {
            Some(KillPlan { phase: KillPhase::Delay { until }, .. }) => Some(until),
            _ => None,
        };
        let own = [dir, plan, self.remove_at, self.health_check_at, self.run_deadline()]
            .into_iter()
            .flatten()
            .filter(|at| *at > now);
        own.chain(self.tasks.iter().filter_map(|t| t.next_deadline(now))).min()
    }
}
