//! A server's machine: its disk, its clock, its scheduler workers, and the brain while it lives.

use super::checks::the_log_keeps_its_promise;
use super::clock::Clock;
use super::disk::SimDisk;
use super::event_readers::ServerEvents;
use super::faults::Kind;
use super::garbage::RULES;
use super::heard::{self, Heard};
use super::place::{Daemon, Machine, ServerAt};
use super::world::{Event, World};
use super::worlds;
use model::garbage::GarbageRules;
use model::job::JobType;
use model::key::Seed;
use model::member::ServerInfo;
use model::time::{Mono, Span};
use server::effects::{Effect, Input};
use server::heartbeat::HeartbeatRules;
use server::inbox::{self, Inbox};
use server::reservations::Reservations;
use server::{Config, PreparedTurn, Server, Turn};
use state::check;
use state::fault::Fault;
use state::store::{OpenError, Options, Store};
use std::cell::RefCell;

/// What an agent keeps of its disk for its server: when less is left, the disk is full.
pub const RESERVE_BYTES: u64 = 8 << 20;
/// A store that does not open so often in a row is lost.
pub const MAX_FAILED_OPENS: u32 = 4;
/// So little that a store is read from its disk all the time, and not from memory.
const CACHE_BYTES: usize = 64 << 10;

/// So few that rows become durable before a segment is full, now and then.
const UNSAVED_ROWS: usize = 500;
/// So little that segments are full all the time.
const SEGMENT_BYTES: u64 = 48 << 10;

pub struct ServerHost {
    at: ServerAt,
    /// How many servers begin the region.
    pub expect: u32,
    /// The configuration names other servers: a region is not begun alone.
    pub knows_others: bool,
    /// How long after the world's beginning the first life starts.
    pub installed_after: Span,
    /// How many disks came after the first one.
    pub disks: u64,
    pub disk: SimDisk,
    pub options: Options,
    /// The server's build knows too little: what it said, and that it is not started again.
    pub too_old: Option<String>,
    /// Each life begins with another configuration, and now and then with a newer build.
    pub varies: bool,
    pub garbage: GarbageRules,
    pub seed: u64,
    pub lives: u64,
    pub enabled_schedulers: Vec<JobType>,
    /// What it reads of the state in one turn when it becomes leader.
    pub rows_per_turn: usize,
    pub failed_opens: u32,
    pub brain: Option<Server>,
    inbox: Inbox<Input>,
    /// What those are told whose requests found no room.
    refused: Vec<Effect>,
    /// What the workers of this life have reserved.
    pub reservations: RefCell<Reservations>,
    /// What this life tells of entries.
    pub events: ServerEvents,
    turn_at: Option<Mono>,
    /// Nothing happens here until then: the process is not scheduled.
    pub paused_until: Mono,
    /// The end of a pause that has kept it from nothing yet.
    pub uncounted_pause: Option<Mono>,
    /// Every durable turn takes long until then.
    pub slow_until: Mono,
    pub clock: Clock,
    pub lose_next_worker: bool,
    /// The newest index that was shown as applied.
    pub applied: u64,
    /// When its last turn began, another server's state was on its way.
    pub was_installing: bool,
    /// What this life has heard of its leader.
    pub heard: Heard,
    /// The checkers know this life's state.
    pub is_tracked: bool,
    told_full: bool,
}

impl ServerHost {
    pub fn new(at: ServerAt, expect: u32, seed: u64) -> Self {
        let seed = seed.wrapping_add(at.number() << 32);
        ServerHost {
            at,
            expect,
            knows_others: expect > 1,
            installed_after: Span::ZERO,
            disks: 0,
            disk: SimDisk::new(seed ^ 0x5e1),
            options: Options {
                new_server_id: worlds::id_of_disk(seed, 0),
                cache_bytes: CACHE_BYTES,
                segment_bytes: SEGMENT_BYTES,
                unsaved_rows: UNSAVED_ROWS,
                ..Options::default()
            },
            too_old: None,
            varies: false,
            garbage: RULES,
            enabled_schedulers: JobType::ALL.into(),
            rows_per_turn: server::ROWS_PER_TURN,
            seed,
            lives: 0,
            failed_opens: 0,
            brain: None,
            inbox: Inbox::default(),
            refused: vec![],
            reservations: RefCell::default(),
            events: ServerEvents::begin(0),
            turn_at: None,
            paused_until: Mono::default(),
            uncounted_pause: None,
            slow_until: Mono::default(),
            clock: Clock::right(),
            lose_next_worker: false,
            applied: 0,
            was_installing: false,
            heard: Heard::default(),
            is_tracked: false,
            told_full: false,
        }
    }

    /// The raft id of whoever starts on this disk.
    pub fn id(&self) -> u64 {
        self.options.new_server_id
    }

    pub fn is_up(&self) -> bool {
        self.brain.is_some()
    }

    /// Whether the server says that it leads.
    pub fn leads(&self) -> bool {
        self.brain.as_ref().is_some_and(|s| s.status().ready)
    }

    pub fn applied_index(&self) -> u64 {
        self.brain.as_ref().map_or(0, |s| s.status().applied_index)
    }

    /// Looks at the server while no fault of its disk strikes. `None`: it is down.
    pub fn look<T>(&self, look: impl FnOnce(&Server) -> T) -> Option<T> {
        let server = self.brain.as_ref()?;
        self.disk.hold_faults(true);
        let found = look(server);
        self.disk.hold_faults(false);
        Some(found)
    }

    fn info(&self) -> ServerInfo {
        let name = format!("server-{}-{}", self.at.region, self.at.server);
        ServerInfo {
            http_addr: format!("{name}:4646"),
            rpc_addr: format!("{name}:4647"),
            name,
            region: "global".into(),
            datacenter: "dc1".into(),
            version: "0.1.0".into(),
            feature_level: self.options.feature_level,
        }
    }

    fn config(&self) -> Config {
        let (workers, ready_per_worker) =
            if self.varies { worlds::workers(self.seed, self.lives) } else { (2, 0) };
        Config {
            bootstrap_expect: self.expect,
            knows_others: self.knows_others,
            info: self.info(),
            heartbeats: HeartbeatRules::default(),
            workers,
            ready_per_worker,
            rows_per_turn: self.rows_per_turn,
            enabled_schedulers: self.enabled_schedulers.clone(),
            tracked_versions: 3,
            scheduler: super::preemption::settings(self.seed),
            garbage: self.garbage,
            zones: super::launches::zone,
        }
    }
}

impl World {
    /// The server's process starts on what its disk holds.
    pub fn start_server(&mut self, at: ServerAt) -> Result<(), String> {
        self.install_build(at);
        self.start_clock(Machine::Server(at));
        let host = &mut self.regions[at];
        if host.varies {
            host.options = worlds::options(host.options, host.seed, host.lives);
            host.rows_per_turn = worlds::rows_per_turn(host.seed, host.lives);
        }
        let (store, recovered) = match Store::open(host.disk.media(), host.options) {
            Ok(opened) => opened,
            Err(OpenError::Fault(fault @ Fault::Corrupt(_))) => return self.server_refuses(at, &fault),
            Err(OpenError::Fault(fault @ Fault::Newer(_))) => return self.server_is_too_old(at, &fault),
            Err(e) => return self.server_does_not_open(at, &e.to_string()),
        };
        host.failed_opens = 0;
        if recovered.server_id != host.id() {
            return Err(format!("the disk of {at} is server {}'s", recovered.server_id));
        }
        let mut known = std::mem::take(&mut self.regions[at.region].entries);
        let kept = the_log_keeps_its_promise(self.regions[at].applied, &recovered, &mut known);
        self.regions[at.region].entries = known;
        kept?;
        let host = &mut self.regions[at];
        if host.disk.is_rotten() {
            check::consistent(&store.reader().view().map_err(|e| e.to_string())?)?;
        }
        host.disk.settle();
        let seed = host.seed.wrapping_add(host.lives);
        let server = match Server::new(host.config(), store, recovered, seed) {
            Ok(server) => server,
            Err(fault @ Fault::Corrupt(_)) => return self.server_refuses(at, &fault),
            Err(fault @ Fault::Newer(_)) => return self.server_is_too_old(at, &fault),
            Err(fault) => return self.server_does_not_open(at, &fault.to_string()),
        };
        let host = &mut self.regions[at];
        host.brain = Some(server);
        host.told_full = false;
        host.is_tracked = false;
        host.heard = Heard::default();
        host.reservations = RefCell::default();
        host.events = ServerEvents::begin(host.applied_index());
        host.turn_at = None;
        self.note(|w| format!("{at}  starts, life {}", w.regions[at].lives));
        self.wake_server(at, Span(1));
        self.connect_server(at);
        Ok(())
    }

    /// The power or the disk fails again while the store is being recovered: the process ends and is started again. A
    /// disk that has no fault left must open.
    fn server_does_not_open(&mut self, at: ServerAt, why: &str) -> Result<(), String> {
        self.note(|_| format!("{at}  does not open: {why}"));
        let host = &mut self.regions[at];
        host.failed_opens += 1;
        if host.failed_opens > MAX_FAILED_OPENS {
            return Err(format!("the store of {at} does not open: {why}"));
        }
        if host.disk.is_dead() {
            host.disk.power_on();
            self.node_beside_loses_power(at);
        }
        self.faults.fired(Kind::ServerDidNotOpen);
        self.after(Span::seconds(1), Event::Start(Daemon::Server(at)));
        Ok(())
    }

    /// The process is gone; its disk may be, too.
    pub fn stop_server(&mut self, at: ServerAt, back_after: Span) {
        self.end_server(at);
        self.after(back_after, Event::Start(Daemon::Server(at)));
    }

    /// The same, and nothing starts it again.
    pub fn end_server(&mut self, at: ServerAt) {
        // killed: what it still holds in memory reaches the disk no more
        let host = &mut self.regions[at];
        host.disk.detach();
        host.brain = None;
        host.inbox.clear();
        host.refused.clear();
        self.network.lose_connections(Machine::Server(at));
        for server in self.regions.servers_of(at.region).into_iter().filter(|server| *server != at) {
            let found = self.delay(Span::millis(1), Span::millis(50));
            self.after(found, Event::LinkDown { server, peer: self.regions[at].id() });
        }
        self.close_links(Machine::Server(at));
        self.lose_calls(Machine::Server(at));
    }

    pub fn server_input(&mut self, at: ServerAt, input: Input) {
        if self.regions[at].is_up() {
            let host = &mut self.regions[at];
            if let Err(input) = host.inbox.push(input) {
                host.refused.extend(inbox::refusal(&input));
            }
            self.wake_server(at, Span(10_000));
        }
    }

    pub fn wake_server(&mut self, at: ServerAt, delay: Span) {
        let wanted = self.now.after(delay);
        let host = &mut self.regions[at];
        if host.is_up() && host.uncounted_pause.take_if(|end| wanted < *end).is_some() {
            self.faults.fired(Kind::ServerPaused);
        }
        let turn_at = wanted.max(host.paused_until);
        if host.turn_at.is_none_or(|t| t > turn_at) {
            host.turn_at = Some(turn_at);
            self.at(turn_at, Event::ServerTurn { server: at, at: turn_at });
        }
    }

    pub fn server_turn(&mut self, at: ServerAt, turn_at: Mono) -> Result<(), String> {
        if self.regions[at].turn_at != Some(turn_at) {
            return Ok(());
        }
        self.regions[at].turn_at = None;
        if self.now < self.regions[at].paused_until {
            self.wake_server(at, Span(1));
            return Ok(());
        }
        let refused = std::mem::take(&mut self.regions[at].refused);
        refused.into_iter().try_for_each(|effect| self.execute_server_effect(at, effect))?;
        let inputs = self.server_inputs(at);
        let senders = heard::senders(&inputs);
        let leader = self.regions[at].brain.as_ref().and_then(|server| server.status().leader);
        let host = &mut self.regions[at];
        let now = host.clock.at(self.now);
        let Some(server) = &mut host.brain else { return Ok(()) };
        host.was_installing = server.is_installing();
        self.turns += 1;
        let turn = match server.prepare(now, inputs) {
            Ok(prepared) => self.commit_server_turn(at, prepared)?,
            Err(fault) => Err(fault),
        };
        match turn {
            // a reader who makes room in the cache writes, too: the power may have failed without the turn's noticing
            Ok(turn) if !self.regions[at].disk.is_dead() => {
                self.note_heard(at, &senders, leader);
                self.server_disk_is_slow(at, &turn);
                self.execute_server_effects(at, turn)?;
                self.lag = Span::ZERO;
            }
            outcome => self.server_fails(at, outcome.err())?,
        }
        self.reschedule_server(at);
        Ok(())
    }

    /// What may leave early is on its way when the commit fails, or the power.
    fn commit_server_turn(
        &mut self,
        at: ServerAt,
        mut prepared: PreparedTurn,
    ) -> Result<Result<Turn, Fault>, String> {
        if !self.regions[at].disk.is_dead() {
            let early = std::mem::take(&mut prepared.early);
            early.into_iter().try_for_each(|effect| self.execute_server_effect(at, effect))?;
        }
        let server = self.regions[at].brain.as_mut().expect("nothing that leaves early ends a server");
        Ok(server.commit(prepared))
    }

    /// What came since the last turn, and whether the disk is full if that is news.
    fn server_inputs(&mut self, at: ServerAt) -> Vec<Input> {
        let host = &mut self.regions[at];
        let mut inputs = host.inbox.take_turn();
        let full = host.disk.free_bytes() < RESERVE_BYTES;
        if full != host.told_full && host.is_up() {
            host.told_full = full;
            inputs.insert(0, Input::Space { free: !full });
            if full {
                self.faults.fired(Kind::ServerDiskFull);
            }
        }
        inputs
    }

    /// The server's storage has failed, or its machine: the process ends, and comes back.
    pub(super) fn server_fails(&mut self, at: ServerAt, fault: Option<Fault>) -> Result<(), String> {
        if let Some(fault) = fault {
            if let Fault::Newer(_) = fault {
                return self.server_is_too_old(at, &fault);
            }
            if let Fault::Full(_) = fault {
                return Err(format!("{at} has written until its disk took no more: {fault}"));
            }
            self.note(|_| format!("{at}  fault: {fault}"));
            self.server_found_rot(at, &fault)?;
        }
        if self.regions[at].disk.is_dead() {
            self.server_machine_lost_power(at);
            return Ok(());
        }
        let back_after = self.delay(Span::millis(50), Span::seconds(3));
        self.stop_server(at, back_after);
        Ok(())
    }

    fn server_disk_is_slow(&mut self, at: ServerAt, turn: &Turn) {
        if self.now < self.regions[at].slow_until && !turn.changes.is_empty() {
            self.faults.fired(Kind::ServerDiskSlow);
            self.lag = self.delay(Span::millis(20), Span::seconds(2));
            let host = &mut self.regions[at];
            host.paused_until = host.paused_until.max(self.now.after(self.lag));
        }
    }

    fn reschedule_server(&mut self, at: ServerAt) {
        let Some(server) = &self.regions[at].brain else { return };
        if !self.regions[at].inbox.is_empty() {
            return self.wake_server(at, Span(10_000));
        }
        if let Some(deadline) = server.next_deadline() {
            let wait = deadline.since(self.now).max(Span(10_000));
            self.wake_server(at, wait);
        }
    }

    fn execute_server_effects(&mut self, at: ServerAt, turn: Turn) -> Result<(), String> {
        self.regions[at].reservations.get_mut().apply(&turn.reservations);
        self.publish_events(at, turn.events, turn.restored)?;
        let changes = turn.changes.len();
        let host = &mut self.regions[at];
        if turn.restored {
            host.is_tracked = false;
            self.snapshot_links.installed += 1;
        }
        let applied = host.applied_index();
        host.applied = host.applied.max(applied);
        turn.effects.into_iter().try_for_each(|effect| self.execute_server_effect(at, effect))?;
        // what a user was answered was read from the disk
        if self.regions[at].disk.is_dead() {
            return self.server_fails(at, None);
        }
        if turn.restored {
            self.note(|_| format!("{at}  restored at {applied}"));
        }
        // what an earlier life had applied may be news
        let is_new_life = applied > 0 && !self.regions[at].is_tracked;
        if changes > 0 || is_new_life {
            self.note(|_| format!("{at}  applied {applied}, {changes} changes"));
            self.note_feature_level(at, &turn.changes);
            self.check_server(at, &turn.changes)?;
        }
        Ok(())
    }

    fn execute_server_effect(&mut self, at: ServerAt, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Send { to, bytes } => {
                if let Some(to) = self.regions.machine(to) {
                    self.send(Machine::Server(at), to, bytes);
                }
            }
            Effect::Reply { token, result } => {
                self.after(Span(1_000), Event::Answer { token, result });
            }
            Effect::ReadConfirmed { token, confirmed } => self.call_confirmed(token, confirmed)?,
            Effect::Forwarded { token, result } => self.call_forwarded(token, result)?,
            Effect::Serve { serving, request, leader_only } => {
                self.serve_call(at, serving, *request, leader_only);
            }
            Effect::Schedule(task) if !self.regions[at].enabled_schedulers.contains(&task.eval.job_type) => {
                return Err(format!("{at} schedules for a {} job", task.eval.job_type));
            }
            Effect::Schedule(task) => self.give_worker(at, task),
            // any bytes will do: nothing in the simulator checks signatures
            Effect::SendSnapshot { to, message } => self.send_snapshot(at, to, &message),
            Effect::MakeSigningKey => {
                self.server_input(at, Input::SigningKey { seed: Seed([1; 32]), public: [2; 32] });
            }
        }
        Ok(())
    }
}
