//! One allocation: its directory, its tasks in their order, and the ways it ends (client.md 5, client.md 6, client.md 10).

use super::driver;
use super::effects::{DirFile, DirSpec, DirTask, Effect, LivingRun};
use super::events;
use super::health::Watch;
use super::kill::{KillPhase, KillPlan};
use super::lifecycle::{Role, Stage, TaskView};
use super::room;
use super::runner::{Dirty, Runner, Spec, Turn};
use model::alloc::{ClientStatus, DesiredStatus, client_status_of};
use model::id::AllocId;
use model::job::Task;
use model::task::TaskEvent;
use model::time::{Mono, Now, Span, Wall};
use state::local::{AllocHead, Fate, Found, LocalAlloc, Writes};
use std::collections::BTreeMap;
use wire::command::AllocUpdate;
use wire::rpc::Assignment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dir {
    Absent,
    /// Built before the agent's restart: part of it lies in memory and may be gone with a reboot.
    Stale,
    /// Asked for again at `again` if no answer has come.
    Building {
        again: Mono,
    },
    Built,
}

/// What the servers have been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    moves: u64,
    status: ClientStatus,
    pub(super) found: Option<Found>,
}

#[derive(Debug)]
pub struct Alloc {
    pub head: AllocHead,
    pub(super) tasks: Vec<Runner>,
    pub(super) head_dirty: Dirty,
    dir: Dir,
    pub(super) stage: Stage,
    pub(super) plan: Option<KillPlan>,
    /// When the directory's removal is asked for (again); `None`: not yet asked for.
    remove_at: Option<Mono>,
    status: (ClientStatus, &'static str),
    status_moves: u64,
    pub(super) told: Option<Told>,
    telling: Option<Told>,
    pub(super) watch: Watch,
    /// When its health is looked at again.
    pub(super) look_at: Option<Mono>,
    /// Order in which allocations ended here, oldest first.
    pub ended: Option<Wall>,
}

const DIR_PATIENCE: Span = Span::minutes(5);
const DIR_RETRY: Span = Span::minutes(1);

impl Alloc {
    pub fn new(assignment: Assignment, now: Now) -> Alloc {
        let head = AllocHead { assignment, dir_built: false, fate: Fate::Kept, found: None };
        let mut alloc = Alloc::restore(LocalAlloc { head, tasks: BTreeMap::new() }, now);
        alloc.head_dirty = Dirty::Durable;
        // The servers made it pending: only another status is urgent.
        alloc.told = Some(Told { moves: 0, status: ClientStatus::Pending, found: None });
        alloc
    }

    pub fn restore(local: LocalAlloc, now: Now) -> Alloc {
        let LocalAlloc { head, mut tasks } = local;
        let id = head.assignment.id;
        let runner = |t: &Task| Runner::new(id, t, tasks.remove(&t.name), now);
        let tasks: Vec<_> = head.assignment.group.tasks.iter().map(runner).collect();
        let mut alloc = Alloc {
            dir: if head.dir_built { Dir::Stale } else { Dir::Absent },
            head,
            tasks,
            head_dirty: Dirty::Clean,
            stage: Stage::Prestart,
            plan: None,
            remove_at: None,
            status: (ClientStatus::Pending, ""),
            status_moves: u64::MAX,
            told: None,
            telling: None,
            watch: Watch::new(now.mono),
            look_at: None,
            ended: None,
        };
        alloc.settle();
        alloc
    }

    pub fn id(&self) -> AllocId {
        self.head.assignment.id
    }

    pub fn is_over(&self) -> bool {
        self.tasks.iter().all(Runner::is_dead)
    }

    pub fn task_names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(|t| t.name.as_str())
    }

    pub fn client_status(&self) -> ClientStatus {
        self.status.0
    }

    /// Of all its tasks, since it was placed.
    pub fn restarts(&self) -> u64 {
        self.tasks.iter().map(|t| t.local.state.restarts).sum()
    }

    /// How often its tasks were started, and killed for want of memory, in this life of the agent.
    pub fn starts_and_oom_kills(&self) -> (u64, u64) {
        (self.tasks.iter().map(|t| t.starts).sum(), self.tasks.iter().map(|t| t.oom_kills).sum())
    }

    /// It is on its way to its end, or there.
    pub fn ends(&self) -> bool {
        self.is_over() || self.plan.is_some() || self.head.assignment.desired != DesiredStatus::Run
    }

    pub fn running(&self) -> bool {
        self.tasks.iter().any(Runner::has_run)
    }

    /// A newer word of the servers. The set of tasks of an allocation never changes; if it did, only the wish is taken.
    pub fn update(&mut self, assignment: Assignment) {
        let held = &mut self.head.assignment;
        let same =
            held.group.tasks.iter().map(|t| &t.name).eq(assignment.group.tasks.iter().map(|t| &t.name));
        if same {
            *held = assignment;
        } else {
            held.desired = assignment.desired;
            held.no_shutdown_delay = assignment.no_shutdown_delay;
            held.alloc_modify_index = assignment.alloc_modify_index;
        }
        self.head_dirty = Dirty::Durable;
    }

    pub fn set_fate(&mut self, fate: Fate) {
        if self.head.fate == Fate::Kept {
            self.head.fate = fate;
            self.head_dirty = Dirty::Durable;
        }
    }

    /// The agent ends and takes its tasks with it: no delays, no poststop tasks.
    pub fn shut_down(&mut self) {
        self.stop(Mono(0), true, true);
    }

    pub fn dir_built(&mut self, turn: &Turn<'_>, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.dir = Dir::Built;
                self.head.dir_built = true;
                self.head_dirty = self.head_dirty.max(Dirty::Lazy);
            }
            Err(why) => {
                // What runs goes on; for what would start next it is tried again.
                self.dir = Dir::Building { again: turn.now.mono.after(DIR_RETRY) };
                let why = format!("failed to setup alloc: pre-run hook \"alloc_dir\" failed: {why}");
                self.fail_setup(turn.now.stamp(), &why);
            }
        }
    }

    fn fail_setup(&mut self, at: Wall, why: &str) {
        for task in self.tasks.iter_mut().filter(|t| !t.is_dead() && !t.has_run()) {
            task.fail(events::setup_failure(at, why), at);
        }
    }

    /// A directory whose removal failed is tried again later.
    pub fn dir_not_removed(&mut self, now: Mono) {
        self.remove_at = Some(now.after(DIR_RETRY));
    }

    /// The task with that run, and what it is made of.
    pub fn with_task(&mut self, index: usize, act: impl FnOnce(&mut Runner, Spec<'_>)) {
        let Some(runner) = self.tasks.get_mut(index) else { return };
        let to_end = self.plan.is_some_and(|plan| plan.means(runner.role));
        if let Some(task) = self.head.assignment.group.task(&runner.name) {
            act(runner, Spec { assignment: &self.head.assignment, task, to_end });
        }
    }

    /// The runs of the tasks that run; of one, if it is named.
    pub fn living(&self, task: Option<&str>) -> Vec<LivingRun> {
        let one = |runner: &Runner| {
            let assignment = &self.head.assignment;
            runner.living(driver::label(assignment, assignment.group.task(&runner.name)?))
        };
        self.tasks.iter().filter(|t| task.is_none_or(|name| t.name == name)).filter_map(one).collect()
    }

    pub fn runners(&self) -> &[Runner] {
        &self.tasks
    }

    /// Does everything that is due, until nothing more follows from it.
    pub fn advance(&mut self, turn: &mut Turn<'_>, previous_lives: bool) {
        self.judge(turn);
        if self.is_over() {
            self.settle();
            return self.remove_if_wanted(turn);
        }
        // Each round moves some task, the stage or the plan forward; all of them have few steps.
        for _ in 0..8 + 4 * self.tasks.len() {
            let before = (self.moves(), self.stage, self.plan, self.dir);
            self.stop_if_wanted(turn);
            self.drive_plan(turn);
            self.prepare_dir(turn, previous_lives);
            if !self.restarts_all() {
                self.stage = self.stage.advance(&self.views());
            }
            self.drive_tasks(turn);
            if before == (self.moves(), self.stage, self.plan, self.dir) {
                break;
            }
        }
        self.judge(turn);
        self.settle();
        self.remove_if_wanted(turn);
    }

    /// To be called before a task hears of its run: what is known so far decides whether the task was to end. What a stopped
    /// agent asked for is known to the next one from the store only, and an end may be the first that it is told.
    pub fn plan_end(&mut self, turn: &mut Turn<'_>) {
        if !self.is_over() {
            self.stop_if_wanted(turn);
        }
    }

    fn restarts_all(&self) -> bool {
        self.tasks.iter().any(Runner::restarts_with_all)
    }

    fn moves(&self) -> u64 {
        self.tasks.iter().map(|t| t.moves).sum()
    }

    fn views(&self) -> Vec<TaskView> {
        let view =
            |t: &Runner| TaskView { role: t.role, phase: t.local.state.phase, failed: t.local.state.failed };
        self.tasks.iter().map(view).collect()
    }

    fn stop_if_wanted(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.mono;
        let hurry = self.head.assignment.no_shutdown_delay;
        if self.head.fate != Fate::Kept {
            self.stop(now, true, hurry);
        } else if self.head.assignment.desired != DesiredStatus::Run {
            self.stop(now, false, hurry);
        } else if self.plan.is_none()
            && let Some(event) = self.reason_to_stop(turn.now.stamp())
        {
            for task in self.tasks.iter_mut().filter(|t| !t.is_dead() && t.role != Role::Poststop) {
                task.tell(event.clone());
            }
            self.stop(now, false, false);
        }
    }

    /// What the end of some tasks means for the living ones; poststop tasks have no say.
    fn reason_to_stop(&self, at: Wall) -> Option<TaskEvent> {
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

    pub(super) fn stop(&mut self, now: Mono, poststop_too: bool, hurry: bool) {
        let poststop_too = poststop_too || !self.head.dir_built;
        if let Some(plan) = &mut self.plan {
            let more = (poststop_too && !plan.poststop_too) || (hurry && !plan.hurry);
            plan.poststop_too |= poststop_too;
            plan.hurry |= hurry;
            if more && (plan.phase == KillPhase::Done || plan.hurry) {
                plan.phase = KillPhase::Leader;
            }
            return;
        }
        let delay = self.head.assignment.group.shutdown_delay.filter(|d| *d > Span::ZERO && self.running());
        let phase = match delay {
            Some(delay) if !hurry => KillPhase::Delay { until: now.after(delay) },
            _ => KillPhase::Leader,
        };
        self.plan = Some(KillPlan { phase, poststop_too, hurry });
    }

    /// Ends what still runs, as failed.
    pub fn give_up(&mut self, now: Now) {
        let event = events::out_of_touch(now.stamp());
        self.tasks.iter_mut().filter(|t| t.role != Role::Poststop).for_each(|t| t.give_up(event.clone()));
        self.stop(now.mono, false, false);
    }

    fn drive_plan(&mut self, turn: &mut Turn<'_>) {
        let Some(mut plan) = self.plan else { return };
        loop {
            plan.phase = match plan.phase {
                KillPhase::Delay { until } if until <= turn.now.mono => KillPhase::Leader,
                KillPhase::Leader if self.kill_all(turn, plan, |t| t.leader) => KillPhase::Others,
                KillPhase::Others if self.kill_all(turn, plan, |t| !t.role.is_sidecar()) => {
                    KillPhase::Sidecars
                }
                KillPhase::Sidecars if self.kill_all(turn, plan, |_| true) => KillPhase::Done,
                _ => break,
            };
        }
        self.plan = Some(plan);
    }

    /// Kills the tasks that are meant; true once all of them are dead.
    fn kill_all(&mut self, turn: &mut Turn<'_>, plan: KillPlan, meant: impl Fn(&Runner) -> bool) -> bool {
        let mut all_dead = true;
        for index in 0..self.tasks.len() {
            let task = &self.tasks[index];
            if task.is_dead() || !meant(task) || !plan.means(task.role) {
                continue;
            }
            self.with_task(index, |runner, spec| runner.kill(turn, spec, !plan.hurry));
            all_dead &= self.tasks[index].is_dead();
        }
        all_dead
    }

    fn prepare_dir(&mut self, turn: &mut Turn<'_>, previous_lives: bool) {
        let wanted = match self.plan {
            None => true,
            Some(plan) => self.head.dir_built && !plan.poststop_too,
        };
        if !wanted || !turn.room || self.is_over() {
            return;
        }
        let due = match self.dir {
            Dir::Absent => !previous_lives,
            Dir::Stale => true,
            Dir::Building { again } => again <= turn.now.mono,
            Dir::Built => false,
        };
        if !due {
            return;
        }
        let group = &self.head.assignment.group;
        if let Some(bad) = group.tasks.iter().find(|t| !is_file_name(&t.name)) {
            let why = format!("task name {:?} cannot be the name of a directory", bad.name);
            return self.fail_setup(turn.now.stamp(), &why);
        }
        let payload = &self.head.assignment.payload;
        let file = |t: &Task| {
            let wanted = Some(&t.payload_file).filter(|file| !file.is_empty() && !payload.is_empty())?;
            Some(DirFile { path: wanted.clone(), bytes: payload.clone() })
        };
        let dir = |t: &Task| DirTask { name: t.name.clone(), user: t.user.clone(), file: file(t) };
        let tasks = group.tasks.iter().map(dir).collect();
        turn.held.push(Effect::BuildDir(DirSpec { alloc: self.id(), tasks }));
        self.dir = Dir::Building { again: turn.now.mono.after(DIR_PATIENCE) };
    }

    fn drive_tasks(&mut self, turn: &mut Turn<'_>) {
        let ready = self.dir == Dir::Built && turn.room && !self.restarts_all();
        let stage = self.stage;
        for index in 0..self.tasks.len() {
            self.with_task(index, |runner, spec| {
                runner.advance(turn, spec, ready && !spec.to_end && stage.opens(runner.role));
            });
        }
    }

    /// Brings the status up to the tasks' states.
    fn settle(&mut self) {
        if self.status_moves != self.moves() {
            self.status_moves = self.moves();
            let states = self.tasks.iter().map(|t| (t.name.clone(), t.local.state.clone())).collect();
            self.status = client_status_of(&states);
        }
        if self.ended.is_none() && self.is_over() {
            self.ended = self.tasks.iter().map(|t| t.local.state.finished_at).max().or(Some(Wall::NEVER));
        }
    }

    fn remove_if_wanted(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.mono;
        let building = matches!(self.dir, Dir::Building { again } if again > now);
        if self.head.fate == Fate::Kept || !self.is_over() || building {
            return;
        }
        if self.remove_at.is_none_or(|at| at <= now) {
            tracing::debug!(target: "client.gc", alloc_id = %self.id(), "removing allocation directory");
            turn.held.push(Effect::RemoveDir { alloc: self.id() });
            self.remove_at = Some(now.after(DIR_PATIENCE));
        }
    }

    /// Puts what changed into the turn's writes.
    pub fn save(&mut self, writes: &mut Writes) {
        let id = self.id();
        if self.head_dirty != Dirty::Clean {
            writes.put_alloc(&self.head);
        }
        let mut worst = std::mem::replace(&mut self.head_dirty, Dirty::Clean);
        for task in self.tasks.iter_mut().filter(|t| t.dirty != Dirty::Clean) {
            writes.put_task(id, &task.name, &task.local);
            worst = worst.max(std::mem::replace(&mut task.dirty, Dirty::Clean));
        }
        if worst == Dirty::Durable {
            writes.must_last();
        }
    }

    /// The servers have not been told of the present state. `Some(true)`: they wait for it.
    pub fn untold(&self) -> Option<bool> {
        let urgent = self.told.is_none_or(|t| t.status != self.status.0);
        let same = self.told.is_some_and(|t| t.moves == self.moves()) && self.verdict().is_none();
        (!same && self.head.fate == Fate::Kept).then_some(urgent)
    }

    /// Everything is to be told again: the servers may have given this node up meanwhile.
    pub fn tell_again(&mut self) {
        self.told = None;
    }

    /// The disk is full, or has room again: what waits to be started is told with its reason, or without.
    pub fn room_changed(&mut self) {
        if self.status.0 == ClientStatus::Pending {
            (self.told, self.telling) = (None, None);
        }
    }

    /// What the servers may only hear when it is stored.
    pub fn has_unstored_end(&self) -> bool {
        let unstored = self.head_dirty == Dirty::Durable && self.verdict().is_some();
        unstored || self.tasks.iter().any(|t| t.dirty == Dirty::Durable)
    }

    pub fn report(&mut self, room: bool) -> AllocUpdate {
        let waits = !room && self.status.0 == ClientStatus::Pending;
        self.telling = Some(Told { moves: self.moves(), status: self.status.0, found: self.found() });
        AllocUpdate {
            id: self.id(),
            client: self.status.0,
            client_description: if waits { room::WAITS } else { self.status.1 }.to_string(),
            task_states: self.tasks.iter().map(|t| (t.name.clone(), t.local.state.clone())).collect(),
        }
    }

    /// The report that was under way has (or has not) arrived.
    pub fn reported(&mut self, arrived: bool) {
        let telling = self.telling.take();
        if arrived && telling.is_some() {
            self.told = telling;
        }
    }

    pub fn next_deadline(&self, now: Mono) -> Option<Mono> {
        let dir = match self.dir {
            Dir::Building { again } => Some(again),
            Dir::Absent | Dir::Stale | Dir::Built => None,
        };
        let plan = match self.plan {
            Some(KillPlan { phase: KillPhase::Delay { until }, .. }) => Some(until),
            _ => None,
        };
        let own = [dir, plan, self.remove_at, self.look_at].into_iter().flatten().filter(|at| *at > now);
        own.chain(self.tasks.iter().filter_map(|t| t.next_deadline(now))).min()
    }
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !matches!(name, "." | ".." | "alloc")
        && !name.contains(['/', '\0'])
}
