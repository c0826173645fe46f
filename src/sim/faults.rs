//! What can go wrong, how often, and how often it did. A fault that never fired over all seeds proves nothing and fails
//! the run.

mod kinds;

use super::clock::Clock;
use super::disk::Operation;
use super::network::Cut;
use super::place::{Machine, NodeAt, ServerAt};
use super::region::Regions;
use super::rot::Rot;
use super::world::{EPOCH, Event, World};
pub use kinds::Kind;
use model::random::Stream;
use model::time::Span;
use server::disk_full::MIN_RESERVE_BYTES;
use std::collections::BTreeMap;

/// Strikes once, at its event's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Server(ServerAt, ServerFault),
    Node(NodeAt, NodeFault),
    Clock(Machine, ClockFault),
    Cut(Cut),
    Rotten(Rot),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFault {
    /// kill -9: what was written but not synced is still there.
    Killed,
    /// Power cut of the server's machine, at the n-th disk operation from now: unsynced sectors are lost or torn.
    PowerCut {
        operations: u64,
    },
    DiskFull,
    /// The next disk operation of this kind fails, once.
    DiskError {
        on: Operation,
    },
    /// The n-th sync from now fails, and what it was to make durable never will be; later ones succeed.
    SyncForgets {
        syncs: u64,
    },
    SlowDisk,
    Paused,
    LosesWorker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFault {
    AgentKilled,
    AgentDiskError {
        on: Operation,
    },
    AgentSyncForgets {
        syncs: u64,
    },
    KeeperKilled,
    KeeperUpgraded,
    /// Bits of the journal flip; with `killed` the keeper dies and the next one begins with that.
    KeeperJournalRots {
        bits: u64,
        killed: bool,
    },
    KeeperDiskError {
        on: Operation,
    },
    KeeperSyncForgets,
    /// Now, or in the middle of a write of the client's store or of the keeper's journal.
    PowerCut {
        during: Option<Writer>,
    },
    Paused,
    SlowDisk,
    /// The machine may boot again meanwhile.
    DiskFull {
        rebooted: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockFault {
    Stepped,
    Lost,
    Drifts,
    /// The power goes, and the clock begins somewhere plausible: where it was stopped, or in local time.
    WrongAtBoot,
}

/// Whose write it is that a power cut interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Client { operations: u64 },
    Keeper { operations: u64 },
}

pub struct Faults {
    draws: Stream,
    counts: BTreeMap<Kind, u64>,
    /// Off in the phases that must be free of faults.
    on: bool,
}

impl Faults {
    pub fn new(seed: u64) -> Self {
        Faults { draws: Stream::new(seed, 101), counts: BTreeMap::new(), on: true }
    }

    pub fn heal(&mut self) {
        self.on = false;
    }

    pub fn on(&self) -> bool {
        self.on
    }

    pub fn fired(&mut self, kind: Kind) {
        *self.counts.entry(kind).or_default() += 1;
    }

    pub fn fired_times(&mut self, kind: Kind, times: u64) {
        *self.counts.entry(kind).or_default() += times;
    }

    pub fn counts(&self) -> &BTreeMap<Kind, u64> {
        &self.counts
    }

    /// True once in `n`, while faults are on.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.draws.below(n) == 0 && self.on
    }

    pub fn loses_frame(&mut self) -> bool {
        let lost = self.one_in(50);
        if lost {
            self.fired(Kind::FrameLost);
        }
        lost
    }

    pub fn doubles_frame(&mut self) -> bool {
        let doubled = self.one_in(50);
        if doubled {
            self.fired(Kind::FrameDoubled);
        }
        doubled
    }

    /// How much later than usual a frame, and all behind it, arrives.
    pub fn delays_frame(&mut self) -> Span {
        if !self.one_in(80) {
            return Span::ZERO;
        }
        self.fired(Kind::FrameDelayed);
        Span(self.draws.below(8_000_000_000) as i64)
    }

    /// The next fault and how long until it strikes.
    pub fn next(&mut self, regions: &Regions) -> (Span, Fault) {
        let wait = Span::seconds(2) + Span(self.draws.below(15_000_000_000) as i64);
        let region = self.draws.below(regions.all().len() as u64) as usize;
        let (servers, nodes) = (regions.servers_of(region), regions.nodes_of(region));
        let server = servers[self.draws.below(servers.len() as u64) as usize];
        let node = nodes[self.draws.below(nodes.len() as u64) as usize];
        let of_node = self.draws.below(3) > 0;
        let machine = if of_node { Machine::Node(node) } else { Machine::Server(server) };
        let fault = match self.draws.below(42) {
            0..=11 => Fault::Server(server, self.server_fault()),
            12..=27 => Fault::Node(node, self.node_fault()),
            28 => Fault::Clock(machine, ClockFault::Stepped),
            29 => Fault::Clock(machine, ClockFault::Lost),
            30 => Fault::Clock(machine, ClockFault::Drifts),
            31 => Fault::Clock(machine, ClockFault::WrongAtBoot),
            32..=36 => {
                let servers: Vec<_> = servers.into_iter().map(Machine::Server).collect();
                let nodes: Vec<_> = nodes.into_iter().map(Machine::Node).collect();
                Fault::Cut(Cut::draw(&servers, &nodes, &mut self.draws))
            }
            _ => Fault::Rotten(Rot::draw(machine, &mut self.draws)),
        };
        (wait, fault)
    }

    fn server_fault(&mut self) -> ServerFault {
        match self.draws.below(12) {
            0 | 1 => ServerFault::Killed,
            2..=4 => ServerFault::PowerCut { operations: 1 + self.draws.below(60) },
            5 => ServerFault::DiskFull,
            6 => ServerFault::DiskError { on: self.operation() },
            7 | 8 => ServerFault::SyncForgets { syncs: 1 + self.draws.below(12) },
            9 => ServerFault::SlowDisk,
            10 => ServerFault::Paused,
            _ => ServerFault::LosesWorker,
        }
    }

    fn node_fault(&mut self) -> NodeFault {
        match self.draws.below(21) {
            0 | 1 => NodeFault::AgentKilled,
            2 => NodeFault::AgentDiskError { on: self.operation() },
            3 | 4 => NodeFault::AgentSyncForgets { syncs: 1 + self.draws.below(6) },
            5 | 6 => NodeFault::KeeperKilled,
            7 | 8 => NodeFault::KeeperUpgraded,
            9 => NodeFault::KeeperDiskError {
                on: [Operation::Write, Operation::Sync][self.draws.below(2) as usize],
            },
            10 => NodeFault::KeeperSyncForgets,
            11 => NodeFault::PowerCut { during: None },
            12 | 13 => {
                let operations = 1 + self.draws.below(30);
                NodeFault::PowerCut { during: Some(Writer::Client { operations }) }
            }
            14 => {
                let operations = 1 + self.draws.below(6);
                NodeFault::PowerCut { during: Some(Writer::Keeper { operations }) }
            }
            15 => NodeFault::Paused,
            16 => NodeFault::SlowDisk,
            17 | 18 => NodeFault::DiskFull { rebooted: self.draws.below(3) == 0 },
            _ => {
                let (bits, killed) = (1 + self.draws.below(40), self.draws.below(4) > 0);
                NodeFault::KeeperJournalRots { bits, killed }
            }
        }
    }

    fn operation(&mut self) -> Operation {
        [Operation::Read, Operation::Write, Operation::Sync][self.draws.below(3) as usize]
    }

    pub fn draw(&mut self, bound: u64) -> u64 {
        self.draws.below(bound)
    }
}

/// How long a paused process is not scheduled, a disk is full or slow.
fn fault_duration(faults: &mut Faults) -> Span {
    let longest = if faults.draw(8) == 0 { 200_000_000_000 } else { 40_000_000_000 };
    Span::seconds(1) + Span(faults.draw(longest) as i64)
}

/// Often so long that a node's heartbeats are missed.
fn cut_duration(faults: &mut Faults) -> Span {
    let longest = if faults.draw(2) == 0 { 200_000_000_000 } else { 40_000_000_000 };
    Span::seconds(1) + Span(faults.draw(longest) as i64)
}

impl World {
    pub fn next_fault(&mut self) {
        if self.faults.on() {
            let (wait, fault) = self.faults.next(&self.regions);
            self.after(wait, Event::Strike(fault));
        }
    }

    /// From now on nothing fails: what is down comes up, what is full has room, clocks are right.
    pub fn heal(&mut self) -> Result<(), String> {
        self.note(|_| "world   heals".into());
        self.faults.heal();
        self.workload.stop();
        self.clients.stop();
        for seconds in [10, 40, 90] {
            self.after(Span::seconds(seconds), Event::EndPause);
        }
        for (minutes, last) in [(5, false), (8, false), (11, true)] {
            self.after(Span::minutes(minutes), Event::Settle { last });
            self.last_word = EPOCH + Span(self.now.0 as i64) + Span::minutes(minutes);
        }
        self.mend_all_rot();
        self.network.heal();
        for at in self.regions.servers() {
            self.heal_server(at);
        }
        for n in self.regions.nodes() {
            self.heal_node(n);
        }
        Ok(())
    }

    fn heal_server(&mut self, at: ServerAt) {
        let host = &mut self.regions[at];
        host.disk.heal();
        host.clock = Clock::right();
        host.slow_until = self.now;
        host.paused_until = self.now;
        host.uncounted_pause = None;
    }

    fn heal_node(&mut self, n: NodeAt) {
        self.leave_sessions(n);
        let host = &mut self.regions[n];
        host.disk.heal();
        host.journal.heal();
        host.full = false;
        host.clock = Clock::right();
        host.slow_until = self.now;
        host.paused_until = self.now;
        host.uncounted_pause = None;
    }

    pub fn strike(&mut self, fault: Fault) -> Result<(), String> {
        self.note(|_| format!("fault   {}: {fault:?}", fault.kind().name()));
        match fault {
            Fault::Server(at, fault) => self.strike_server(at, fault),
            Fault::Node(n, fault) => self.strike_node(n, fault),
            Fault::Clock(machine, fault) => self.strike_clock(machine, fault),
            Fault::Cut(cut) => {
                let until = self.now.after(cut_duration(&mut self.faults));
                self.cut(&cut, until);
            }
            Fault::Rotten(rot) => self.strike_rot(rot),
        }
        Ok(())
    }

    /// What waits for an operation also meets a process that starts with it.
    pub(super) fn strike_server(&mut self, at: ServerAt, fault: ServerFault) {
        let host = &mut self.regions[at];
        match fault {
            ServerFault::PowerCut { operations } => host.disk.cut_power_after(operations),
            ServerFault::DiskError { on } => host.disk.fail_next_of(on),
            ServerFault::SyncForgets { syncs } => host.disk.forget_at_sync(syncs),
            ServerFault::Killed => {
                if host.is_up() {
                    self.faults.fired(Kind::ServerKilled);
                    let back_after = self.delay(Span::millis(100), Span::seconds(5));
                    self.stop_server(at, back_after);
                }
            }
            ServerFault::DiskFull => {
                // now and then so little that a follower takes no more entries
                host.disk.set_room(Some(MIN_RESERVE_BYTES + self.faults.draw(100_000)));
                let until = fault_duration(&mut self.faults);
                self.after(until, Event::Room(Machine::Server(at)));
            }
            ServerFault::Paused => {
                let until = self.now.after(fault_duration(&mut self.faults));
                host.paused_until = until;
                host.uncounted_pause = Some(until);
            }
            ServerFault::SlowDisk => host.slow_until = self.now.after(fault_duration(&mut self.faults)),
            ServerFault::LosesWorker => host.lose_next_worker = true,
        }
    }

    fn strike_node(&mut self, n: NodeAt, fault: NodeFault) {
        let host = &mut self.regions[n];
        match fault {
            NodeFault::AgentKilled => {
                if host.client.is_some() {
                    self.faults.fired(Kind::AgentKilled);
                    self.crash_agent(n);
                }
            }
            NodeFault::AgentDiskError { on } => host.disk.fail_next_of(on),
            NodeFault::AgentSyncForgets { syncs } => host.disk.forget_at_sync(syncs),
            NodeFault::KeeperKilled => {
                if host.keeper.is_some() {
                    self.faults.fired(Kind::KeeperKilled);
                    self.crash_keeper(n);
                }
            }
            NodeFault::KeeperUpgraded => self.upgrade_keeper(n),
            NodeFault::KeeperJournalRots { bits, killed } => self.rot_journal(n, bits, killed),
            NodeFault::KeeperDiskError { on } => host.journal.fail_next_of(on),
            NodeFault::KeeperSyncForgets => host.journal.forget_at_next_sync(),
            NodeFault::PowerCut { during: None } => self.power_cut(n),
            NodeFault::PowerCut { during: Some(Writer::Client { operations }) } => {
                host.disk.cut_power_after(operations);
            }
            NodeFault::PowerCut { during: Some(Writer::Keeper { operations }) } => {
                host.journal.cut_power_after(operations);
            }
            NodeFault::Paused => {
                let until = self.now.after(fault_duration(&mut self.faults));
                host.paused_until = until;
                host.uncounted_pause = Some(until);
            }
            NodeFault::SlowDisk => host.slow_until = self.now.after(fault_duration(&mut self.faults)),
            NodeFault::DiskFull { rebooted } => self.fill_disk(n, rebooted),
        }
    }

    fn fill_disk(&mut self, n: NodeAt, rebooted: bool) {
        let left = self.faults.draw(16_000);
        let host = &mut self.regions[n];
        host.full = true;
        host.disk.set_room(Some(left));
        // the client writes nothing when it knows: what is refused is the keeper's
        host.journal.set_room(Some(0));
        if rebooted {
            self.power_cut(n);
        }
        let until = fault_duration(&mut self.faults);
        self.after(until, Event::Room(Machine::Node(n)));
    }

    fn strike_clock(&mut self, machine: Machine, fault: ClockFault) {
        let now = self.now;
        match fault {
            ClockFault::WrongAtBoot => {
                let steps = [Span::hours(-72), Span::hours(-9), Span::hours(9)];
                let (operations, step) = (1 + self.faults.draw(20), steps[self.faults.draw(3) as usize]);
                match machine {
                    Machine::Server(at) => {
                        self.regions[at].clock.step_at_boot(step);
                        self.strike_server(at, ServerFault::PowerCut { operations });
                    }
                    Machine::Node(n) => {
                        self.power_cut(n);
                        self.regions[n].clock.step_at_boot(step);
                        self.start_clock(machine);
                    }
                }
            }
            ClockFault::Stepped => self.step_clock(machine),
            ClockFault::Lost => {
                self.faults.fired(Kind::ClockAt1970);
                self.each_clock_of(machine, |clock| clock.lose());
            }
            ClockFault::Drifts => {
                self.faults.fired(Kind::ClockDrifts);
                let ppm = self.faults.draw(200_000) as i64 - 100_000;
                self.each_clock_of(machine, |clock| clock.drift(ppm, now));
            }
        }
    }

    /// The machine's clock begins where it was set to, if that is not where it should be.
    pub fn start_clock(&mut self, machine: Machine) {
        let clock = match machine {
            Machine::Server(at) => &mut self.regions[at].clock,
            Machine::Node(n) => &mut self.regions[n].clock,
        };
        if let Some(step) = clock.take_step_at_boot() {
            self.faults.fired(Kind::ClockWrongAtBoot);
            let now = self.now;
            self.each_clock_of(machine, |clock| clock.step(step, now));
        }
    }

    /// An hour or a day, forward or back.
    fn step_clock(&mut self, machine: Machine) {
        self.faults.fired(Kind::ClockStepped);
        let steps = [Span::hours(1), Span::hours(-1), Span::hours(24), Span::hours(-24)];
        let (now, step) = (self.now, steps[self.faults.draw(4) as usize]);
        self.each_clock_of(machine, |clock| clock.step(step, now));
    }

    /// What the disks themselves have counted, when it struck.
    pub fn count_disk_faults(&mut self) {
        let mut found = vec![];
        for host in self.regions.all().iter().flat_map(|r| &r.servers) {
            let disk = host.disk.counts();
            found.push((Kind::ServerPowerCut, disk.power_cuts));
            found.push((Kind::ServerDiskError, disk.errors));
            found.push((Kind::ServerSyncForgot, disk.syncs_forgotten));
            found.push((Kind::ServerLostSectors, disk.sectors_lost));
            found.push((Kind::ServerToreWrites, disk.writes_torn));
            found.push((Kind::ServerBitsRotten, disk.bits_rotten));
        }
        for host in self.regions.node_hosts() {
            let (store, journal) = (host.disk.counts(), host.journal.counts());
            found.push((Kind::AgentDiskError, store.errors));
            found.push((Kind::AgentSyncForgot, store.syncs_forgotten));
            found.push((Kind::ClientStoreLostSectors, store.sectors_lost));
            found.push((Kind::ClientStoreToreWrites, store.writes_torn));
            found.push((Kind::ClientBitsRotten, store.bits_rotten));
            found.push((Kind::KeeperDiskError, journal.errors));
            found.push((Kind::KeeperSyncForgot, journal.syncs_forgotten));
            found.push((Kind::KeeperJournalLostSectors, journal.sectors_lost));
            found.push((Kind::KeeperJournalRots, journal.bits_rotten));
            found.push((Kind::KeeperRefusedForSpace, journal.refused_for_space));
        }
        for (kind, times) in found {
            self.faults.fired_times(kind, times);
        }
    }
}
