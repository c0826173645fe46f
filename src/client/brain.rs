//! The client: inputs in, one commit, effects out. Allocation and task runners get what they need as arguments.

mod assignments;
mod connection;
mod disconnected;
mod reports;

use super::alloc_runner::AllocRunner;
use super::claims;
use super::config::Config;
use super::disk_full;
use super::effects::{Effect, Input, PendingEffects};
use super::forwarding::{Caller, UserRequests};
use super::metrics::{ClientMetrics, ClientStatusReport};
use super::servers::Servers;
use super::task_runner::{TaskRunner, TaskSpec, TurnContext};
use model::id::{AllocId, RunId, Uuid};
use model::node::{MAX_ALLOCS, NodeInfo};
use model::random::Stream;
use model::time::{Mono, Now, Span};
use reports::RejectedAlloc;
use state::client_store::{
    ClientStore, ClientStoreFault, CommitReceipt, DynamicMeta, RecoveredAlloc, WriteBatch,
};
use std::collections::{BTreeMap, BTreeSet};
use wire::keeper::{self, RunReport, RunState};

/// The most allocations that a node holds beside those that it keeps for their logs: as many as servers let run there, and as many that
/// are to end for them or whose directories are being removed.
pub const MAX_LIVE_ALLOCS: usize = 2 * MAX_ALLOCS as usize;
/// The kill timeout of a run that belongs to no task of this client.
const UNKNOWN_RUN_TIMEOUT: Span = Span::seconds(5);
const SIGTERM: i32 = 15;
/// How long the keeper may take to say what it holds.
const KEEPER_TIMEOUT: Span = Span::seconds(10);
/// How much longer than the longest kill timeout a shutdown waits for tasks.
const SHUTDOWN_TIMEOUT: Span = Span::seconds(20);

#[derive(Debug)]
pub struct Client {
    pub(super) config: Config,
    store: ClientStore,
    pub(super) allocs: BTreeMap<AllocId, AllocRunner>,
    pub(super) servers: Servers,
    user_requests: UserRequests,
    keeper: KeeperState,
    pub(super) info: Option<Box<NodeInfo>>,
    /// The configuration's metadata, and what was set over it at run time.
    pub(super) configured_meta: BTreeMap<String, String>,
    pub(super) dynamic_meta: DynamicMeta,
    pub(super) random: Stream,
    /// Ended runs that the keeper may forget once their end is durable.
    unforgotten: Vec<RunId>,
    /// Allocations that this node could not take; they are reported as failed.
    rejected: BTreeMap<AllocId, RejectedAlloc>,
    pub(super) forgotten: Vec<AllocId>,
    /// Since when something waits to be reported.
    report_since: Option<Mono>,
    shutdown: Option<ShutdownProgress>,
    /// The disk takes writes.
    pub(super) disk_has_space: bool,
    /// What waits to be written while the disk is full.
    unwritten: WriteBatch,
    metrics: ClientMetrics,
    agent_started: Mono,
    now: Mono,
}

#[derive(Debug)]
enum KeeperState {
    Down {
        why: String,
    },
    /// Connected; the keeper's list of runs is asked for again at `again`.
    Greeted {
        again: Mono,
    },
    Up {
        boot: Uuid,
    },
}

#[derive(Clone, Copy, Debug)]
struct ShutdownProgress {
    deadline: Mono,
    done: bool,
}

impl Client {
    pub fn new(
        config: Config,
        store: ClientStore,
        recovered: Vec<RecoveredAlloc>,
        seed: u64,
        now: Now,
    ) -> Client {
        let mut random = Stream::new(seed, 0);
        let servers = Servers::new(&config, &store, &mut random);
        let allocs =
            recovered.into_iter().map(|l| (l.record.assignment.id, AllocRunner::restore(l, now))).collect();
        let dynamic_meta = store.dynamic_meta().clone();
        Client {
            config,
            store,
            allocs,
            servers,
            user_requests: UserRequests::default(),
            keeper: KeeperState::Down { why: "not yet connected".into() },
            info: None,
            configured_meta: BTreeMap::new(),
            dynamic_meta,
            random,
            unforgotten: Vec::new(),
            rejected: BTreeMap::new(),
            forgotten: Vec::new(),
            report_since: None,
            shutdown: None,
            disk_has_space: true,
            unwritten: WriteBatch::default(),
            metrics: ClientMetrics::default(),
            agent_started: now.mono,
            now: now.mono,
        }
    }

    /// Runs one turn. After a fault nothing of it has left, and the client and its store have to be made anew.
    pub fn turn(&mut self, now: Now, inputs: Vec<Input>) -> Result<Vec<Effect>, ClientStoreFault> {
        self.now = self.now.max(now.mono);
        let now = Now { mono: self.now, ..now };
        let mut effects = PendingEffects::default();
        let mut writes = std::mem::take(&mut self.unwritten);
        for input in inputs {
            self.handle_input(now, input, &mut effects, &mut writes);
        }
        self.ask_keeper_again(now.mono, &mut effects);
        self.stop_disconnected_allocs(now);
        self.advance_allocs(now, &mut effects);
        self.garbage_collect(now, self.config.max_ended, &mut effects);
        let server_updates = self.servers.advance(now.mono, &self.config, &mut self.random, &mut effects);
        self.apply_server_updates(now, server_updates, &mut writes);
        self.report(now.mono, &mut effects);
        self.user_requests.advance(self.servers.known().current(), now.mono, &mut effects);
        self.metrics.update(&self.allocs, now.mono);
        let receipt = self.commit(writes)?;
        if receipt.durable() && self.has_keeper() {
            for run in std::mem::take(&mut self.unforgotten) {
                effects.keeper(keeper::KeeperCommand::Forget { run });
            }
        }
        if self.is_finished(now.mono) {
            effects.push(Effect::ShutdownComplete);
        }
        Ok(effects.release(&receipt))
    }

    /// Stores what the turn has changed. On a full disk the changes stay in memory. The effects that leave then promise nothing
    /// (heartbeats), or the servers repeat their cause if this client forgets it (stops and removals, which may make room).
    fn commit(&mut self, mut writes: WriteBatch) -> Result<CommitReceipt, ClientStoreFault> {
        if !self.disk_has_space {
            self.unwritten = writes;
            return self.store.commit(WriteBatch::default());
        }
        for alloc in self.allocs.values_mut() {
            alloc.save(&mut writes);
        }
        for id in std::mem::take(&mut self.forgotten) {
            assert!(!self.allocs.contains_key(&id), "an allocation that is forgotten is gone");
            writes.set_ended(id, true);
        }
        self.store.commit(writes)
    }

    /// When a turn is due even without an input.
    pub fn next_deadline(&self) -> Option<Mono> {
        let allocs = self.allocs.values().filter_map(|a| a.next_deadline(self.now));
        let closing = self.shutdown.filter(|c| !c.done).map(|c| c.deadline);
        let keeper = match self.keeper {
            KeeperState::Greeted { again } => Some(again),
            KeeperState::Down { .. } | KeeperState::Up { .. } => None,
        };
        allocs
            .chain(keeper)
            .chain(self.servers.next_deadline(self.now))
            .chain(self.user_requests.next_deadline())
            .chain(self.report_deadline())
            .chain(closing)
            .chain(self.disconnect_deadline())
            .filter(|at| *at > self.now)
            .min()
    }

    pub fn status(&self) -> ClientStatusReport {
        let mut troubles: Vec<String> = self.servers.troubles().collect();
        if let KeeperState::Down { why } = &self.keeper {
            troubles.push(format!("no keeper, so no task can start or stop: {why}"));
        }
        troubles.extend(disk_full::trouble(self.disk_has_space));
        troubles.extend(
            self.store.unreadable_rows().iter().map(|row| format!("not readable in the store: {row}")),
        );
        ClientStatusReport {
            node: self.config.node,
            registered: self.servers.registered(),
            last_heartbeat: self.servers.last_ok(),
            allocs: self.allocs.keys().copied().collect(),
            allocs_running: self.allocs.values().filter(|a| a.running()).count(),
            servers: self.servers.known().addresses(),
            heartbeat_ttl: self.servers.ttl(),
            troubles,
            measured: self.metrics.snapshot(&self.allocs, self.info.as_deref()),
        }
    }

    fn handle_input(
        &mut self,
        now: Now,
        input: Input,
        effects: &mut PendingEffects,
        writes: &mut WriteBatch,
    ) {
        match input {
            Input::Fingerprint(info) => self.apply_fingerprint(now, info),
            Input::Frame { from, bytes } => self.frame(now, from, &bytes, effects, writes),
            Input::Forward { token, hold, request } => {
                self.forward(Caller { token, hold }, *request, now.mono, effects);
            }
            Input::LinkUp { server } => self.link_up(now, server, writes),
            Input::LinkDown { server } => self.link_down(server, effects),
            Input::KeeperUp => {
                self.keeper = KeeperState::Greeted { again: now.mono.after(KEEPER_TIMEOUT) };
            }
            Input::KeeperDown { why } => self.keeper = KeeperState::Down { why },
            Input::Keeper(event) => self.apply_keeper_event(now, event, effects),
            Input::DirBuilt { alloc, result } => {
                self.with_alloc(now, alloc, effects, |alloc, ctx| alloc.dir_built(ctx, result));
            }
            Input::DirRemoved { alloc, result } => self.dir_removed(now, alloc, result, writes),
            Input::Space { free } => {
                self.disk_has_space = free;
                if free {
                    // deferred reports are sent at once
                    writes.require_durable();
                }
                self.allocs.values_mut().for_each(AllocRunner::disk_space_changed);
                self.describe(now.mono);
            }
            Input::Ask { token, ask } => self.answer_request(now, token, &ask, effects, writes),
            Input::Shutdown { kill_tasks } => self.shut_down(now.mono, kill_tasks, writes),
        }
    }

    pub(super) fn describe(&mut self, now: Mono) {
        if let Some(info) = &self.info {
            self.servers.describe(
                disk_full::with_disk_state(info, self.disk_has_space),
                now,
                &mut self.random,
            );
        }
    }

    /// What runners may use during a turn, and the allocation runners.
    pub(super) fn split_context<'a>(
        &'a mut self,
        now: Now,
        effects: &'a mut PendingEffects,
    ) -> (TurnContext<'a>, &'a mut BTreeMap<AllocId, AllocRunner>) {
        let boot = match self.keeper {
            KeeperState::Up { boot } => Some(boot),
            KeeperState::Down { .. } | KeeperState::Greeted { .. } => None,
        };
        let ctx = TurnContext {
            now,
            config: &self.config,
            info: self.info.as_deref(),
            boot,
            disk_has_space: self.disk_has_space,
            random: &mut self.random,
            effects,
            forget: &mut self.unforgotten,
        };
        (ctx, &mut self.allocs)
    }

    /// Calls `act` with an allocation runner; `None` when there is no such allocation here.
    pub(super) fn with_alloc<T>(
        &mut self,
        now: Now,
        id: AllocId,
        effects: &mut PendingEffects,
        act: impl FnOnce(&mut AllocRunner, &mut TurnContext<'_>) -> T,
    ) -> Option<T> {
        let (mut ctx, allocs) = self.split_context(now, effects);
        Some(act(allocs.get_mut(&id)?, &mut ctx))
    }

    pub(super) fn has_keeper(&self) -> bool {
        matches!(self.keeper, KeeperState::Up { .. })
    }

    fn apply_keeper_event(&mut self, now: Now, event: keeper::Event, effects: &mut PendingEffects) {
        match event {
            keeper::Event::Welcome { protocol, boot_id, runs, .. } => {
                if protocol == keeper::PROTOCOL {
                    self.keeper = KeeperState::Up { boot: boot_id };
                    self.reconcile(now, runs, effects);
                } else {
                    let ours = keeper::PROTOCOL;
                    let why =
                        format!("it speaks protocol {protocol}, this agent {ours}: restart the older one");
                    self.keeper = KeeperState::Down { why };
                }
            }
            keeper::Event::Refused { run: None, message } => {
                if !self.has_keeper() {
                    self.keeper = KeeperState::Down { why: message };
                }
            }
            // events from before the welcome are in the welcome, too
            _ if !self.has_keeper() => {}
            keeper::Event::Started { run, .. } if self.find_run(run).is_none() => {
                stop_unknown_run(run, effects)
            }
            keeper::Event::Started { run, at, pid } => {
                self.with_run(now, run, effects, |runner, ctx, _| runner.started(ctx, Some(pid), at));
            }
            keeper::Event::StartFailed { run, message, retryable } => {
                self.with_run(now, run, effects, |runner, ctx, spec| {
                    runner.start_failed(ctx, spec, &message, retryable);
                });
            }
            keeper::Event::Exited { run, exit, at } => {
                self.with_run(now, run, effects, |runner, ctx, spec| runner.exited(ctx, spec, exit, at));
            }
            keeper::Event::Refused { run: Some(run), message } if self.find_run(run).is_some() => {
                self.with_run(now, run, effects, |runner, ctx, spec| runner.refused(ctx, spec, &message));
            }
            // sessions have connections of their own
            keeper::Event::SessionStarted | keeper::Event::SessionEnded { .. } => {}
            keeper::Event::Refused { run: Some(_), .. } => {}
        }
    }

    fn ask_keeper_again(&mut self, now: Mono, effects: &mut PendingEffects) {
        if let KeeperState::Greeted { again } = &mut self.keeper
            && *again <= now
        {
            *again = now.after(KEEPER_TIMEOUT);
            effects.keeper(keeper::KeeperCommand::List);
        }
    }

    fn find_run(&self, run: RunId) -> Option<(AllocId, usize)> {
        let place = |a: &AllocRunner| a.runners().iter().position(|t| t.run_id() == Some(run));
        self.allocs.iter().find_map(|(id, a)| Some((*id, place(a)?)))
    }

    /// Calls `act` with the task of a run; an ended run that belongs to no task is forgotten.
    fn with_run(
        &mut self,
        now: Now,
        run: RunId,
        effects: &mut PendingEffects,
        act: impl FnOnce(&mut TaskRunner, &mut TurnContext<'_>, TaskSpec<'_>),
    ) {
        match self.find_run(run) {
            Some((alloc, index)) => {
                self.with_alloc(now, alloc, effects, |alloc, ctx| {
                    alloc.plan_end(ctx);
                    alloc.with_task(index, |runner, spec| act(runner, ctx, spec));
                });
            }
            None if self.unforgotten.contains(&run) => {}
            // The keeper does not forget what still runs.
            None => effects.keeper(keeper::KeeperCommand::Forget { run }),
        }
    }

    /// Reattaches tasks to the runs that the keeper lists. Whether a task is being stopped is decided before any task hears
    /// of its run, so that exits that happened without an agent count alike, whatever the order of the list.
    fn reconcile(&mut self, now: Now, runs: Vec<RunReport>, effects: &mut PendingEffects) {
        let mut runs: BTreeMap<RunId, RunState> = runs.into_iter().map(|r| (r.run, r.state)).collect();
        for run in &self.unforgotten {
            runs.remove(run);
        }
        let (mut ctx, allocs) = self.split_context(now, effects);
        for alloc in allocs.values_mut() {
            alloc.plan_end(&mut ctx);
            for index in 0..alloc.runners().len() {
                let Some(run) = alloc.runners()[index].run_id() else { continue };
                let found = runs.remove(&run);
                alloc.with_task(index, |runner, spec| runner.reconcile(&mut ctx, spec, found.as_ref()));
            }
        }
        for (run, state) in runs {
            if matches!(state, RunState::Running { .. }) {
                stop_unknown_run(run, effects);
            } else {
                effects.keeper(keeper::KeeperCommand::Forget { run });
            }
        }
    }

    fn shut_down(&mut self, now: Mono, kill_tasks: bool, writes: &mut WriteBatch) {
        let limit = self.config.max_kill_timeout + SHUTDOWN_TIMEOUT;
        let deadline = if kill_tasks { now.after(limit) } else { now };
        self.shutdown.get_or_insert(ShutdownProgress { deadline, done: false });
        if kill_tasks {
            self.allocs.values_mut().for_each(AllocRunner::shut_down);
        } else {
            // lazy changes are stored now, for the next start
            writes.require_durable();
        }
    }

    fn advance_allocs(&mut self, now: Now, effects: &mut PendingEffects) {
        // A second pass only for those that wait for an allocation that ended in the first.
        for _ in 0..2 {
            let living: BTreeSet<AllocId> =
                self.allocs.values().filter(|a| !a.has_ended()).map(AllocRunner::id).collect();
            let ending = claims::claims_of_ending(self.allocs.values());
            let (mut ctx, allocs) = self.split_context(now, effects);
            for alloc in allocs.values_mut() {
                let assignment = &alloc.record.assignment;
                let mut before = assignment.previous.iter().chain(&assignment.preempted);
                let after = before.any(|id| living.contains(id));
                let waits = after || claims::must_wait(alloc, &ending);
                alloc.advance(&mut ctx, waits);
            }
            if living.iter().all(|id| self.allocs.get(id).is_some_and(|a| !a.has_ended())) {
                break;
            }
        }
    }

    /// True once, when the shutdown has finished.
    fn is_finished(&mut self, now: Mono) -> bool {
        let over = self.allocs.values().all(AllocRunner::has_ended);
        match &mut self.shutdown {
            Some(closing) if !closing.done && (over || closing.deadline <= now) => {
                closing.done = true;
                true
            }
            _ => false,
        }
    }
}

/// Stops a run that belongs to no task; it is forgotten once it has ended.
fn stop_unknown_run(run: RunId, effects: &mut PendingEffects) {
    effects.keeper(keeper::KeeperCommand::Stop { run, signal: SIGTERM, timeout: UNKNOWN_RUN_TIMEOUT });
}
