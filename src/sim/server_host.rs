//! The server's machine: its disk, its clock, its scheduler workers, and the brain while it lives.

use super::clock::Clock;
use super::disk::SimDisk;
use super::garbage::RULES;
use super::world::{Event, Who, World};
use model::garbage::GarbageRules;
use model::key::Seed;
use model::plan::Decision;
use model::time::{Mono, Span};
use server::effects::{Effect, Input, ScheduleTask};
use server::heartbeat::HeartbeatRules;
use server::reservations::Reservations;
use server::{Config, Server, Turn, worker};
use state::check;
use state::fault::Fault;
use state::store::{OpenError, Options, Recovered, Store};
use std::cell::RefCell;
use std::collections::BTreeMap;
use wire::rpc::Peer;

pub const SERVER_ID: u64 = 1;
/// A store that does not open so often in a row is lost.
pub const MAX_FAILED_OPENS: u32 = 4;
/// So little that a store is read from its disk all the time, and not from memory.
pub const CACHE_BYTES: usize = 64 << 10;

/// So few that rows become durable before a segment is full, now and then.
const UNSAVED_ROWS: usize = 500;
/// So little that segments are full all the time.
const SEGMENT_BYTES: u64 = 48 << 10;

pub struct ServerHost {
    pub disk: SimDisk,
    pub options: Options,
    pub garbage: GarbageRules,
    seed: u64,
    lives: u64,
    failed_opens: u32,
    pub server: Option<Server>,
    inbox: Vec<Input>,
    /// What the workers of this life have reserved.
    reservations: RefCell<Reservations>,
    turn_at: Option<Mono>,
    /// Nothing happens here until then: the process is not scheduled.
    pub paused_until: Mono,
    /// Every durable turn takes long until then.
    pub slow_until: Mono,
    pub clock: Clock,
    pub lose_next_worker: bool,
    /// The digest of the state at each applied index, whoever applied it.
    pub digests: BTreeMap<u64, u64>,
    /// The hash of the log's entry at each index that was ever found on the disk.
    entries: BTreeMap<u64, u64>,
    /// The newest index that was shown as applied.
    applied: u64,
    /// The checkers know this life's state.
    pub is_followed: bool,
    pub full: bool,
    told_full: bool,
}

impl ServerHost {
    pub fn new(seed: u64) -> Self {
        ServerHost {
            disk: SimDisk::new(seed ^ 0x5e1),
            options: Options {
                cache_bytes: CACHE_BYTES,
                segment_bytes: SEGMENT_BYTES,
                unsaved_rows: UNSAVED_ROWS,
                ..Options::default()
            },
            garbage: RULES,
            seed,
            lives: 0,
            failed_opens: 0,
            server: None,
            inbox: vec![],
            reservations: RefCell::default(),
            turn_at: None,
            paused_until: Mono::default(),
            slow_until: Mono::default(),
            clock: Clock::right(),
            lose_next_worker: false,
            digests: BTreeMap::new(),
            entries: BTreeMap::new(),
            applied: 0,
            is_followed: false,
            full: false,
            told_full: false,
        }
    }

    pub fn is_up(&self) -> bool {
        self.server.is_some()
    }

    /// What was applied once is in the log as it was, or was compacted away; after it, anything may have been lost.
    fn log_keeps_its_promise(&mut self, recovered: &Recovered) -> Result<(), String> {
        let compacted = recovered.truncated.map_or(0, |(index, _)| index);
        let last = recovered.entries.last().map_or(compacted, |(index, _)| *index);
        if last < self.applied {
            return Err(format!("entry {} was applied, but the log ends at {last}", self.applied));
        }
        for (index, entry) in &recovered.entries {
            let hash = fnv(entry);
            let known = self.entries.insert(*index, hash);
            if *index <= self.applied && known.is_some_and(|k| k != hash) {
                return Err(format!("the committed entry {index} has changed"));
            }
        }
        Ok(())
    }

    fn config(&self) -> Config {
        Config {
            id: SERVER_ID,
            heartbeats: HeartbeatRules::default(),
            workers: 2,
            tracked_versions: 3,
            scheduler: super::preemption::settings(self.seed),
            garbage: self.garbage,
            zones: super::launches::zone,
        }
    }
}

impl World {
    /// The server's process starts on what its disk holds.
    pub fn start_server(&mut self) -> Result<(), String> {
        let host = &mut self.server;
        host.lives += 1;
        let (store, recovered) = match Store::open(host.disk.media(), host.options) {
            Ok(opened) => opened,
            Err(OpenError::Fault(fault @ Fault::Corrupt(_))) => return self.server_refuses(&fault),
            Err(e) => return self.server_does_not_open(&e.to_string()),
        };
        host.failed_opens = 0;
        host.log_keeps_its_promise(&recovered)?;
        if host.disk.is_rotten() {
            check::consistent(&store.reader().view().map_err(|e| e.to_string())?)?;
        }
        host.disk.settle();
        let seed = host.seed.wrapping_add(host.lives);
        let server = Server::new(host.config(), store, recovered, seed).map_err(|e| e.to_string())?;
        host.server = Some(server);
        host.told_full = false;
        host.is_followed = false;
        host.inbox.clear();
        host.reservations = RefCell::default();
        host.turn_at = None;
        self.note(|w| format!("server  starts, life {}", w.server.lives));
        self.wake_server(Span(1));
        Ok(())
    }

    /// The power or the disk fails again while the store is being recovered: the process ends and is started again. A
    /// disk that has no fault left must open.
    fn server_does_not_open(&mut self, why: &str) -> Result<(), String> {
        self.note(|_| format!("server  does not open: {why}"));
        let host = &mut self.server;
        host.failed_opens += 1;
        if host.failed_opens > MAX_FAILED_OPENS {
            return Err(format!("the server's store does not open: {why}"));
        }
        if host.disk.is_dead() {
            host.disk.power_on();
        }
        self.faults.fired("server did not open");
        self.after(Span::seconds(1), Event::Start(Who::Server));
        Ok(())
    }

    /// The process is gone; its disk may be, too.
    pub fn stop_server(&mut self, back_after: Span) {
        // killed: what it still holds in memory reaches the disk no more
        self.server.disk.detach();
        self.server.server = None;
        self.server.inbox.clear();
        self.ledger.lose_all();
        self.dispatchers.lose_all();
        self.after(back_after, Event::Start(Who::Server));
    }

    pub fn server_input(&mut self, input: Input) {
        if self.server.is_up() {
            self.server.inbox.push(input);
            self.wake_server(Span(10_000));
        }
    }

    pub fn wake_server(&mut self, delay: Span) {
        let at = self.now.after(delay).max(self.server.paused_until);
        if self.server.turn_at.is_none_or(|t| t > at) {
            self.server.turn_at = Some(at);
            self.at(at, Event::ServerTurn { at });
        }
    }

    pub fn server_turn(&mut self, at: Mono) -> Result<(), String> {
        if self.server.turn_at != Some(at) {
            return Ok(());
        }
        self.server.turn_at = None;
        if self.now < self.server.paused_until {
            self.wake_server(Span(1));
            return Ok(());
        }
        let now = self.server.clock.at(self.now);
        let mut inputs = std::mem::take(&mut self.server.inbox);
        if self.server.full != self.server.told_full {
            self.server.told_full = self.server.full;
            inputs.push(Input::Space { free: !self.server.full });
        }
        let Some(server) = &mut self.server.server else { return Ok(()) };
        self.turns += 1;
        match server.turn(now, inputs) {
            // a reader who makes room in the cache writes, too: the power may have failed without the turn's noticing
            Ok(turn) if !self.server.disk.is_dead() => {
                self.server_disk_is_slow(&turn);
                self.execute_server_turn(turn)?;
                self.lag = Span::ZERO;
            }
            outcome => {
                if let Err(fault) = outcome {
                    self.note(|_| format!("server  fault: {fault}"));
                    self.server_found_rot(&fault)?;
                }
                let back_after = self.delay(Span::millis(50), Span::seconds(3));
                if self.server.disk.is_dead() {
                    self.server.disk.power_on();
                    self.faults.fired("server power cut");
                }
                self.stop_server(back_after);
            }
        }
        self.reschedule_server();
        Ok(())
    }

    fn server_disk_is_slow(&mut self, turn: &Turn) {
        if self.now < self.server.slow_until && !turn.changes.is_empty() {
            self.lag = self.delay(Span::millis(20), Span::seconds(2));
            self.server.paused_until = self.server.paused_until.max(self.now.after(self.lag));
        }
    }

    fn reschedule_server(&mut self) {
        let Some(server) = &self.server.server else { return };
        if let Some(deadline) = server.next_deadline() {
            let wait = deadline.since(self.now).max(Span(10_000));
            self.wake_server(wait);
        }
    }

    fn execute_server_turn(&mut self, turn: Turn) -> Result<(), String> {
        self.server.reservations.get_mut().apply(&turn.reservations);
        let changes = turn.changes.len();
        let applied = self.server.server.as_ref().map_or(0, |s| s.status().applied_index);
        self.server.applied = self.server.applied.max(applied);
        for effect in turn.effects {
            match effect {
                Effect::Send { to, bytes } => self.send(Peer::Server(SERVER_ID), to, bytes),
                Effect::Reply { token, result } => self.after(Span(1_000), Event::Answer { token, result }),
                Effect::Schedule(task) => self.give_worker(task),
                // any bytes will do: nothing in the simulator checks signatures
                Effect::MakeSigningKey => {
                    self.server_input(Input::SigningKey { seed: Seed([1; 32]), public: [2; 32] });
                }
            }
        }
        if changes > 0 {
            self.note(|_| format!("server  applied {applied}, {changes} changes"));
            self.check_server(&turn.changes)?;
        }
        Ok(())
    }

    fn give_worker(&mut self, task: Box<ScheduleTask>) {
        if std::mem::take(&mut self.server.lose_next_worker) {
            return self.faults.fired("worker lost");
        }
        let delay = self.delay(Span(50_000), Span::millis(200));
        self.after(delay, Event::Worker { task });
    }

    /// A worker reads the state as it is now, which may be far from what it was when the work was handed out.
    pub fn worker(&mut self, task: ScheduleTask) {
        let Some(server) = &self.server.server else { return };
        let (eval, token) = (task.eval.id, task.token);
        let result = worker::decide(&task, &server.reader(), || self.server.reservations.borrow_mut());
        self.note(|_| match &result {
            Ok(d) => format!("worker  {} of {}: {}", d.eval.status.as_str(), d.eval.job, told(d)),
            Err(why) => format!("worker  failed: {why}"),
        });
        self.server_input(Input::Planned { eval, token, result });
    }
}

/// A decision in a line: what it stops and places, and why it places no more.
fn told(decision: &Decision) -> String {
    let nodes = &decision.plan.nodes;
    let stops: usize = nodes.iter().map(|n| n.stops.len()).sum();
    let places: usize = nodes.iter().map(|n| n.places.len()).sum();
    let failed = decision.eval.failed_groups.values().map(|m| {
        let (c, d) = (&m.constraint_filtered, &m.dimension_exhausted);
        format!(" {} nodes, filtered {c:?}, exhausted {d:?}", m.nodes_evaluated)
    });
    format!("stops {stops}, places {places}{}", failed.collect::<String>())
}

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}
