//! The client itself: inputs in, one commit, effects out. Everything below it is told what it needs for one turn.

mod alone;
mod reports;

use super::alloc::Alloc;
use super::config::Config;
use super::effects::{Effect, Held, Input};
use super::exclusive;
use super::measures::{ClientStatusReport, Measures};
use super::room;
use super::runner::{Runner, Spec, Turn};
use super::servers::{News, Servers};
use model::id::{AllocId, RunId, Uuid};
use model::node::{MAX_ALLOCS, NodeInfo};
use model::random::Stream;
use model::time::{Mono, Now, Span};
use reports::Rejected;
use state::local::{DynamicMeta, Fate, Fault, LocalAlloc, LocalStore, Receipt, Writes};
use std::collections::{BTreeMap, BTreeSet};
use wire::keeper::{self, RunReport, RunState};
use wire::rpc::{AllocSet, Assignment};

/// The most allocations that it holds beside those that it keeps for their logs: as many as servers let run there, and as many
/// that are to end for them or whose directories are being removed.
pub const MAX_HELD: usize = 2 * MAX_ALLOCS as usize;
/// How long a run that is not ours is given to end.
const STRAY_TIMEOUT: Span = Span::seconds(5);
const SIGTERM: i32 = 15;
/// How long the keeper may take to say what it holds.
const KEEPER_PATIENCE: Span = Span::seconds(10);
/// Beyond the longest kill timeout, how long a shutdown waits for tasks.
const SHUTDOWN_PATIENCE: Span = Span::seconds(20);

#[derive(Debug)]
pub struct Client {
    pub(super) config: Config,
    store: LocalStore,
    pub(super) allocs: BTreeMap<AllocId, Alloc>,
    pub(super) servers: Servers,
    keeper: Keeper,
    pub(super) info: Option<Box<NodeInfo>>,
    /// What the configuration says, and what was set over it.
    pub(super) configured_meta: BTreeMap<String, String>,
    pub(super) dynamic_meta: DynamicMeta,
    pub(super) random: Stream,
    /// Runs whose end is stored, but not yet durably.
    unforgotten: Vec<RunId>,
    /// Allocations that could not be taken on, as the servers last described them.
    rejected: BTreeMap<AllocId, Rejected>,
    pub(super) forgotten: Vec<AllocId>,
    /// Since when something waits to be reported.
    report_since: Option<Mono>,
    closing: Option<Closing>,
    /// The disk takes writes.
    pub(super) room: bool,
    /// What could not be written without.
    unwritten: Writes,
    measures: Measures,
    born: Mono,
    now: Mono,
}

#[derive(Debug)]
enum Keeper {
    Down {
        why: String,
    },
    /// Asked again at `again` what it holds.
    Greeted {
        again: Mono,
    },
    Up {
        boot: Uuid,
    },
}

#[derive(Clone, Copy, Debug)]
struct Closing {
    give_up: Mono,
    done: bool,
}

impl Client {
    pub fn new(config: Config, store: LocalStore, recovered: Vec<LocalAlloc>, seed: u64, now: Now) -> Client {
        let mut random = Stream::new(seed, 0);
        let seen = recovered.iter().map(|l| l.head.assignment.alloc_modify_index).max().unwrap_or(0);
        let servers = Servers::new(config.servers.clone(), seen, &mut random);
        let allocs = recovered.into_iter().map(|l| (l.head.assignment.id, Alloc::restore(l, now))).collect();
        let dynamic_meta = store.dynamic_meta().clone();
        Client {
            config,
            store,
            allocs,
            servers,
            keeper: Keeper::Down { why: "not yet connected".into() },
            info: None,
            configured_meta: BTreeMap::new(),
            dynamic_meta,
            random,
            unforgotten: Vec::new(),
            rejected: BTreeMap::new(),
            forgotten: Vec::new(),
            report_since: None,
            closing: None,
            room: true,
            unwritten: Writes::default(),
            measures: Measures::default(),
            born: now.mono,
            now: now.mono,
        }
    }

    /// One turn. After a fault nothing of it has left, and the client and its store have to be made anew.
    pub fn turn(&mut self, now: Now, inputs: Vec<Input>) -> Result<Vec<Effect>, Fault> {
        self.now = self.now.max(now.mono);
        let now = Now { mono: self.now, ..now };
        let mut held = Held::default();
        let mut writes = std::mem::take(&mut self.unwritten);
        for input in inputs {
            self.take(now, input, &mut held, &mut writes);
        }
        self.ask_keeper_again(now.mono, &mut held);
        self.stop_what_is_alone(now);
        self.advance_allocs(now, &mut held);
        self.collect_ended(now, self.config.max_ended, &mut held);
        let news = self.servers.advance(now.mono, &self.config, &mut self.random, &mut held);
        self.take_news(now, news, &mut writes);
        self.report(now.mono, &mut held);
        self.measures.compare(&self.allocs, now.mono);
        let receipt = self.keep(writes)?;
        if receipt.durable() && self.has_keeper() {
            for run in std::mem::take(&mut self.unforgotten) {
                held.keeper(keeper::Command::Forget { run });
            }
        }
        if self.is_finished(now.mono) {
            held.push(Effect::Done);
        }
        Ok(held.release(&receipt))
    }

    /// Stores what the turn has changed. On a full disk it stays in memory: what leaves then promises nothing (heartbeats), or
    /// is asked for again by the servers if this client forgets it (stops and removals, which may make room).
    fn keep(&mut self, mut writes: Writes) -> Result<Receipt, Fault> {
        if !self.room {
            self.unwritten = writes;
            return self.store.commit(&Writes::default());
        }
        for alloc in self.allocs.values_mut() {
            alloc.save(&mut writes);
        }
        for id in std::mem::take(&mut self.forgotten) {
            writes.set_ended(id, true);
        }
        self.store.commit(&writes)
    }

    /// When a turn is due even without an input.
    pub fn next_deadline(&self) -> Option<Mono> {
        let allocs = self.allocs.values().filter_map(|a| a.next_deadline(self.now));
        let closing = self.closing.filter(|c| !c.done).map(|c| c.give_up);
        let keeper = match self.keeper {
            Keeper::Greeted { again } => Some(again),
            Keeper::Down { .. } | Keeper::Up { .. } => None,
        };
        allocs
            .chain(keeper)
            .chain(self.servers.next_deadline(self.now))
            .chain(self.report_deadline())
            .chain(closing)
            .chain(self.alone_deadline())
            .filter(|at| *at > self.now)
            .min()
    }

    pub fn status(&self) -> ClientStatusReport {
        let mut troubles: Vec<String> = self.servers.trouble().map(str::to_string).into_iter().collect();
        if let Keeper::Down { why } = &self.keeper {
            troubles.push(format!("no keeper, so no task can start or stop: {why}"));
        }
        troubles.extend(room::trouble(self.room));
        troubles.extend(self.store.set_aside().iter().map(|row| format!("not readable in the store: {row}")));
        ClientStatusReport {
            node: self.config.node,
            registered: self.servers.registered(),
            last_heartbeat: self.servers.last_ok(),
            allocs: self.allocs.len(),
            allocs_running: self.allocs.values().filter(|a| a.running()).count(),
            servers: self.servers.known().to_vec(),
            heartbeat_ttl: self.servers.ttl(),
            troubles,
            measured: self.measures.measured(&self.allocs, self.info.as_deref()),
        }
    }

    fn take(&mut self, now: Now, input: Input, held: &mut Held, writes: &mut Writes) {
        match input {
            Input::Fingerprint(info) => self.described(now, info),
            Input::Frame { from, bytes } => {
                let news = self.servers.hear(from, &bytes, now.mono, &self.config, &mut self.random);
                self.take_news(now, news, writes);
            }
            Input::KeeperUp => {
                self.keeper = Keeper::Greeted { again: now.mono.after(KEEPER_PATIENCE) };
            }
            Input::KeeperDown { why } => self.keeper = Keeper::Down { why },
            Input::Keeper(event) => self.take_keeper(now, event, held),
            Input::DirBuilt { alloc, result } => {
                self.with_alloc(now, alloc, held, |alloc, turn| alloc.dir_built(turn, result));
            }
            Input::DirRemoved { alloc, result } => self.dir_removed(now, alloc, result, writes),
            Input::Space { free } => {
                self.room = free;
                if free {
                    // what waited shall wait no longer
                    writes.must_last();
                }
                self.allocs.values_mut().for_each(Alloc::room_changed);
                self.describe(now.mono);
            }
            Input::Ask { token, ask } => self.asked(now, token, &ask, held, writes),
            Input::Shutdown { kill_tasks } => self.shut_down(now.mono, kill_tasks, writes),
        }
    }

    pub(super) fn describe(&mut self, now: Mono) {
        if let Some(info) = &self.info {
            self.servers.describe(room::described(info, self.room), now, &mut self.random);
        }
    }

    /// What a turn lends to allocations, apart from them.
    pub(super) fn lend<'a>(
        &'a mut self,
        now: Now,
        held: &'a mut Held,
    ) -> (Turn<'a>, &'a mut BTreeMap<AllocId, Alloc>) {
        let boot = match self.keeper {
            Keeper::Up { boot } => Some(boot),
            Keeper::Down { .. } | Keeper::Greeted { .. } => None,
        };
        let turn = Turn {
            now,
            config: &self.config,
            info: self.info.as_deref(),
            boot,
            room: self.room,
            random: &mut self.random,
            held,
            forget: &mut self.unforgotten,
        };
        (turn, &mut self.allocs)
    }

    /// What `act` makes of an allocation; `None` when it is not here.
    pub(super) fn with_alloc<T>(
        &mut self,
        now: Now,
        id: AllocId,
        held: &mut Held,
        act: impl FnOnce(&mut Alloc, &mut Turn<'_>) -> T,
    ) -> Option<T> {
        let (mut turn, allocs) = self.lend(now, held);
        Some(act(allocs.get_mut(&id)?, &mut turn))
    }

    pub(super) fn has_keeper(&self) -> bool {
        matches!(self.keeper, Keeper::Up { .. })
    }

    fn take_keeper(&mut self, now: Now, event: keeper::Event, held: &mut Held) {
        match event {
            keeper::Event::Welcome { protocol, boot_id, runs, .. } => {
                if protocol == keeper::PROTOCOL {
                    self.keeper = Keeper::Up { boot: boot_id };
                    self.reconcile(now, runs, held);
                } else {
                    let ours = keeper::PROTOCOL;
                    let why =
                        format!("it speaks protocol {protocol}, this agent {ours}: restart the older one");
                    self.keeper = Keeper::Down { why };
                }
            }
            keeper::Event::Refused { run: None, message } => {
                if !self.has_keeper() {
                    self.keeper = Keeper::Down { why: message };
                }
            }
            // What comes before the welcome is in the welcome, too.
            _ if !self.has_keeper() => {}
            keeper::Event::Started { run, .. } if self.find(run).is_none() => stop_stray(run, held),
            keeper::Event::Started { run, at, pid } => {
                self.with_run(now, run, held, |runner, turn, _| runner.started(turn, Some(pid), at));
            }
            keeper::Event::StartFailed { run, message, retryable } => {
                self.with_run(now, run, held, |runner, turn, spec| {
                    runner.start_failed(turn, spec, &message, retryable);
                });
            }
            keeper::Event::Exited { run, exit, at } => {
                self.with_run(now, run, held, |runner, turn, spec| runner.exited(turn, spec, exit, at));
            }
            keeper::Event::Refused { run: Some(run), message } if self.find(run).is_some() => {
                self.with_run(now, run, held, |runner, turn, spec| runner.refused(turn, spec, &message));
            }
            // of connections of their own
            keeper::Event::SessionStarted | keeper::Event::SessionEnded { .. } => {}
            keeper::Event::Refused { run: Some(_), .. } => {}
        }
    }

    fn ask_keeper_again(&mut self, now: Mono, held: &mut Held) {
        if let Keeper::Greeted { again } = &mut self.keeper
            && *again <= now
        {
            *again = now.after(KEEPER_PATIENCE);
            held.keeper(keeper::Command::List);
        }
    }

    fn find(&self, run: RunId) -> Option<(AllocId, usize)> {
        let place = |a: &Alloc| a.runners().iter().position(|t| t.run_id() == Some(run));
        self.allocs.iter().find_map(|(id, a)| Some((*id, place(a)?)))
    }

    /// Tells a run's task; a run that is nobody's and has ended is forgotten.
    fn with_run(
        &mut self,
        now: Now,
        run: RunId,
        held: &mut Held,
        act: impl FnOnce(&mut Runner, &mut Turn<'_>, Spec<'_>),
    ) {
        match self.find(run) {
            Some((alloc, index)) => {
                self.with_alloc(now, alloc, held, |alloc, turn| {
                    alloc.plan_end(turn);
                    alloc.with_task(index, |runner, spec| act(runner, turn, spec));
                });
            }
            None if self.unforgotten.contains(&run) => {}
            // The keeper does not forget what still runs.
            None => held.keeper(keeper::Command::Forget { run }),
        }
    }

    /// Compares what the keeper holds with what the store says. Whether tasks were to end is decided before any of them
    /// hears of its run: those that ended while nobody listened count as they are, whatever the order of the list.
    fn reconcile(&mut self, now: Now, runs: Vec<RunReport>, held: &mut Held) {
        let mut runs: BTreeMap<RunId, RunState> = runs.into_iter().map(|r| (r.run, r.state)).collect();
        for run in &self.unforgotten {
            runs.remove(run);
        }
        let (mut turn, allocs) = self.lend(now, held);
        for alloc in allocs.values_mut() {
            alloc.plan_end(&mut turn);
            for index in 0..alloc.runners().len() {
                let Some(run) = alloc.runners()[index].run_id() else { continue };
                let found = runs.remove(&run);
                alloc.with_task(index, |runner, spec| runner.reconcile(&mut turn, spec, found.as_ref()));
            }
        }
        for (run, state) in runs {
            if matches!(state, RunState::Running { .. }) {
                stop_stray(run, held);
            } else {
                held.keeper(keeper::Command::Forget { run });
            }
        }
    }

    fn shut_down(&mut self, now: Mono, kill_tasks: bool, writes: &mut Writes) {
        let limit = self.config.max_kill_timeout + SHUTDOWN_PATIENCE;
        let give_up = if kill_tasks { now.after(limit) } else { now };
        self.closing.get_or_insert(Closing { give_up, done: false });
        if kill_tasks {
            self.allocs.values_mut().for_each(Alloc::shut_down);
        } else {
            // What was only lazily stored so far is kept for the next start.
            writes.must_last();
        }
    }

    fn take_news(&mut self, now: Now, news: Vec<News>, writes: &mut Writes) {
        for item in news {
            match item {
                News::Wanted(set) => self.take_wanted(now, set, writes),
                News::Fetched(assignments) => self.take_assignments(now, assignments),
                News::Reported(arrived) => {
                    self.allocs.values_mut().for_each(|a| a.reported(arrived));
                    for rejected in self.rejected.values_mut() {
                        rejected.told |= arrived && rejected.telling;
                        rejected.telling = false;
                    }
                }
                News::Reconnected => {
                    tracing::info!(target: "client", "node registration complete");
                    self.allocs.values_mut().for_each(Alloc::tell_again);
                }
            }
        }
    }

    /// Removed, updated, added, in that order (client.md 3.3).
    fn take_wanted(&mut self, now: Now, set: AllocSet, writes: &mut Writes) {
        let wanted: BTreeMap<AllocId, u64> = set.wanted.into_iter().collect();
        for (id, alloc) in &mut self.allocs {
            if !wanted.contains_key(id) {
                alloc.set_fate(Fate::Removed);
            }
        }
        self.rejected.retain(|id, _| wanted.contains_key(id));
        let gone: Vec<AllocId> =
            self.store.ended().iter().filter(|id| !wanted.contains_key(id)).copied().collect();
        for id in gone {
            writes.set_ended(id, false);
        }
        self.take_assignments(now, set.assignments);
        let need = wanted.into_iter().filter(|(id, index)| self.is_news(*id, *index)).collect();
        self.servers.set_need(need);
    }

    fn is_news(&self, id: AllocId, index: u64) -> bool {
        if self.store.ended().contains(&id) || self.forgotten.contains(&id) {
            return false;
        }
        let held = self.allocs.get(&id).map(|a| a.head.assignment.alloc_modify_index);
        held.or(self.rejected.get(&id).map(|r| r.index)).is_none_or(|held| held < index)
    }

    fn take_assignments(&mut self, now: Now, assignments: Vec<Assignment>) {
        for assignment in assignments {
            let id = assignment.id;
            if !self.is_news(id, assignment.alloc_modify_index) || self.closing.is_some() {
                continue;
            }
            if let Some(alloc) = self.allocs.get_mut(&id) {
                alloc.update(assignment);
            } else if self.allocs.len() < self.most_held() {
                self.rejected.remove(&id);
                self.allocs.insert(id, Alloc::new(assignment, now));
            } else {
                let index = assignment.alloc_modify_index;
                self.rejected.insert(id, Rejected { index, told: false, telling: false });
            }
        }
    }

    /// Servers let fewer be there: it is a bound of memory.
    fn most_held(&self) -> usize {
        MAX_HELD + self.config.max_ended
    }

    fn advance_allocs(&mut self, now: Now, held: &mut Held) {
        // A second pass only for those that wait for an allocation that ended in the first.
        for _ in 0..2 {
            let living: BTreeSet<AllocId> =
                self.allocs.values().filter(|a| !a.is_over()).map(Alloc::id).collect();
            let leaving = exclusive::leaving(self.allocs.values());
            let (mut turn, allocs) = self.lend(now, held);
            for alloc in allocs.values_mut() {
                let assignment = &alloc.head.assignment;
                let mut before = assignment.previous.iter().chain(&assignment.preempted);
                let after = before.any(|id| living.contains(id));
                let waits = after || exclusive::waits(alloc, &leaving);
                alloc.advance(&mut turn, waits);
            }
            if living.iter().all(|id| self.allocs.get(id).is_some_and(|a| !a.is_over())) {
                break;
            }
        }
    }

    /// True once: when the shutdown is over.
    fn is_finished(&mut self, now: Mono) -> bool {
        let over = self.allocs.values().all(Alloc::is_over);
        match &mut self.closing {
            Some(closing) if !closing.done && (over || closing.give_up <= now) => {
                closing.done = true;
                true
            }
            _ => false,
        }
    }
}

/// Ends a run that is nobody's; it is forgotten once it has ended.
fn stop_stray(run: RunId, held: &mut Held) {
    held.keeper(keeper::Command::Stop { run, signal: SIGTERM, timeout: STRAY_TIMEOUT });
}
