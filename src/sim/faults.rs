//! What can go wrong, how often, and how often it did. A fault that never fired over all seeds proves nothing and fails
//! the run.

mod kinds;

use super::clock::Clock;
use super::disk::Operation;
use super::rot::Rot;
use super::world::{EPOCH, Event, World};
pub use kinds::KINDS;
use model::random::Stream;
use model::time::{Mono, Span};
use std::collections::BTreeMap;
use wire::rpc::Peer;

/// Strikes once, at its event's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// kill -9 of the server: what was written but not synced is still there.
    ServerKilled,
    /// Power cut of the server's machine, at the n-th disk operation from now: unsynced sectors are lost or torn.
    ServerPowerCut {
        operations: u64,
    },
    ServerDiskFull,
    /// The next disk operation of this kind fails, once.
    ServerDiskError {
        on: Operation,
    },
    ServerSlowDisk,
    ServerPaused,
    AgentKilled {
        node: usize,
    },
    AgentDiskError {
        node: usize,
        on: Operation,
    },
    KeeperKilled {
        node: usize,
    },
    /// Now, or in the middle of a write of the client's store or of the keeper's journal.
    NodePowerCut {
        node: usize,
        during: Option<Writer>,
    },
    NodeSlowDisk {
        node: usize,
    },
    NodeDiskFull {
        node: usize,
    },
    KeeperUpgraded {
        node: usize,
    },
    /// Bits of the journal flip; with `killed` the keeper dies and the next one begins with that.
    KeeperJournalRots {
        node: usize,
        bits: u64,
        killed: bool,
    },
    NodePaused {
        node: usize,
    },
    KeeperDiskError {
        node: usize,
        on: Operation,
    },
    LinkCut {
        node: usize,
    },
    ClockStep {
        node: Option<usize>,
    },
    ClockLost {
        node: Option<usize>,
    },
    ClockDrift {
        node: Option<usize>,
    },
    WorkerLost,
    Rotten(Rot),
}

/// Whose write it is that a power cut interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Client { operations: u64 },
    Keeper { operations: u64 },
}

pub struct Faults {
    draws: Stream,
    counts: BTreeMap<&'static str, u64>,
    /// Until when nodes are cut off from the servers.
    cut: BTreeMap<Peer, Mono>,
    /// Off in the phases that must be free of faults.
    on: bool,
}

impl Faults {
    pub fn new(seed: u64) -> Self {
        Faults { draws: Stream::new(seed, 101), counts: BTreeMap::new(), cut: BTreeMap::new(), on: true }
    }

    pub fn heal(&mut self) {
        self.on = false;
        self.cut.clear();
    }

    pub fn on(&self) -> bool {
        self.on
    }

    pub fn fired(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    pub fn fired_times(&mut self, kind: &'static str, times: u64) {
        *self.counts.entry(kind).or_default() += times;
    }

    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// True once in `n`, while faults are on.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.draws.below(n) == 0 && self.on
    }

    pub fn loses_frame(&mut self) -> bool {
        let lost = self.one_in(50);
        if lost {
            self.fired("frame lost");
        }
        lost
    }

    pub fn doubles_frame(&mut self) -> bool {
        let doubled = self.one_in(50);
        if doubled {
            self.fired("frame doubled");
        }
        doubled
    }

    /// How much later than usual a frame, and all behind it, arrives.
    pub fn delays_frame(&mut self) -> Span {
        if !self.one_in(80) {
            return Span::ZERO;
        }
        self.fired("frame delayed");
        Span(self.draws.below(8_000_000_000) as i64)
    }

    pub fn cut_off(&mut self, node: Peer, until: Mono) {
        self.cut.insert(node, until);
    }

    pub fn link_cut(&self, from: Peer, to: Peer, now: Mono) -> bool {
        [from, to].iter().any(|p| self.cut.get(p).is_some_and(|until| now < *until))
    }

    /// The next fault and how long until it strikes.
    pub fn next(&mut self, nodes: usize) -> (Span, Fault) {
        let wait = Span::seconds(2) + Span(self.draws.below(15_000_000_000) as i64);
        let node = self.draws.below(nodes as u64) as usize;
        let whose = (self.draws.below(3) > 0).then_some(node);
        let on = [Operation::Read, Operation::Write, Operation::Sync][self.draws.below(3) as usize];
        let fault = match self.draws.below(35) {
            0 | 1 => Fault::ServerKilled,
            2..=4 => Fault::ServerPowerCut { operations: 1 + self.draws.below(60) },
            5 => Fault::ServerDiskFull,
            6 => Fault::ServerDiskError { on },
            7 => Fault::ServerSlowDisk,
            8 => Fault::ServerPaused,
            9 | 10 => Fault::AgentKilled { node },
            11 => Fault::AgentDiskError { node, on },
            12 | 13 => Fault::KeeperKilled { node },
            14 | 15 => Fault::KeeperUpgraded { node },
            16 => {
                Fault::KeeperDiskError { node, on: if on == Operation::Read { Operation::Sync } else { on } }
            }
            17 => Fault::NodePowerCut { node, during: None },
            18 | 19 => {
                let operations = 1 + self.draws.below(30);
                Fault::NodePowerCut { node, during: Some(Writer::Client { operations }) }
            }
            20 => {
                let operations = 1 + self.draws.below(6);
                Fault::NodePowerCut { node, during: Some(Writer::Keeper { operations }) }
            }
            21 => Fault::NodePaused { node },
            22 => Fault::NodeSlowDisk { node },
            23 => Fault::NodeDiskFull { node },
            24 | 25 => Fault::LinkCut { node },
            26 => Fault::ClockStep { node: whose },
            27 => Fault::ClockLost { node: whose },
            28 => Fault::ClockDrift { node: whose },
            29 => {
                let (bits, killed) = (1 + self.draws.below(40), self.draws.below(4) > 0);
                Fault::KeeperJournalRots { node, bits, killed }
            }
            30 => Fault::WorkerLost,
            _ => Fault::Rotten(Rot::draw(whose, &mut self.draws)),
        };
        (wait, fault)
    }

    pub fn draw(&mut self, bound: u64) -> u64 {
        self.draws.below(bound)
    }
}

/// How long a paused process is not scheduled, a link is cut, a disk is full.
fn a_while(faults: &mut Faults) -> Span {
    let longest = if faults.draw(8) == 0 { 200_000_000_000 } else { 40_000_000_000 };
    Span::seconds(1) + Span(faults.draw(longest) as i64)
}

impl World {
    pub fn next_fault(&mut self) {
        if self.faults.on() {
            let (wait, fault) = self.faults.next(self.nodes.len());
            self.after(wait, Event::Strike(fault));
        }
    }

    /// From now on nothing fails: what is down comes up, what is full has room, clocks are right.
    pub fn heal(&mut self) -> Result<(), String> {
        self.note(|_| "world   heals".into());
        self.faults.heal();
        self.workload.stop();
        for seconds in [10, 40, 90] {
            self.after(Span::seconds(seconds), Event::EndPause);
        }
        for (minutes, last) in [(5, false), (8, false), (11, true)] {
            self.after(Span::minutes(minutes), Event::Settle { last });
            self.last_word = EPOCH + Span(self.now.0 as i64) + Span::minutes(minutes);
        }
        self.mend_all_rot();
        self.server.disk.heal();
        self.server.full = false;
        self.server.clock = Clock::right();
        self.server.slow_until = self.now;
        self.server.paused_until = self.now;
        for n in 0..self.nodes.len() {
            self.nodes[n].disk.heal();
            self.nodes[n].journal.heal();
            self.nodes[n].full = false;
            self.nodes[n].clock = Clock::right();
            self.nodes[n].slow_until = self.now;
            self.nodes[n].paused_until = self.now;
        }
        Ok(())
    }

    pub fn strike(&mut self, fault: Fault) -> Result<(), String> {
        self.note(|_| format!("fault   {fault:?}"));
        match fault {
            Fault::ServerKilled | Fault::ServerPowerCut { .. } | Fault::ServerDiskError { .. } => {
                self.strike_server(fault)
            }
            Fault::ServerDiskFull => {
                self.faults.fired("server disk full");
                self.server.full = true;
                let until = a_while(&mut self.faults);
                self.after(until, Event::Room { node: None });
            }
            Fault::ServerPaused => {
                self.faults.fired("server paused");
                self.server.paused_until = self.now.after(a_while(&mut self.faults));
            }
            Fault::ServerSlowDisk => {
                self.faults.fired("server disk slow");
                self.server.slow_until = self.now.after(a_while(&mut self.faults));
            }
            Fault::WorkerLost => self.server.lose_next_worker = true,
            Fault::Rotten(rot) => self.strike_rot(rot),
            Fault::ClockStep { node } => self.step_clock(node),
            Fault::ClockLost { node } => {
                self.faults.fired("clock at 1970");
                self.clock_of(node).lose();
            }
            Fault::ClockDrift { node } => {
                self.faults.fired("clock drifts");
                let (now, ppm) = (self.now, self.faults.draw(200_000) as i64 - 100_000);
                self.clock_of(node).drift(ppm, now);
            }
            Fault::LinkCut { node } => {
                let until = self.now.after(a_while(&mut self.faults));
                self.faults.cut_off(Peer::Node(self.nodes[node].id()), until);
            }
            Fault::AgentKilled { node }
            | Fault::AgentDiskError { node, .. }
            | Fault::KeeperKilled { node }
            | Fault::KeeperUpgraded { node }
            | Fault::KeeperJournalRots { node, .. }
            | Fault::KeeperDiskError { node, .. }
            | Fault::NodePowerCut { node, .. }
            | Fault::NodePaused { node }
            | Fault::NodeSlowDisk { node }
            | Fault::NodeDiskFull { node } => self.strike_node(node, fault),
        }
        Ok(())
    }

    fn strike_node(&mut self, node: usize, fault: Fault) {
        match fault {
            Fault::AgentKilled { .. } => {
                self.faults.fired("agent killed");
                self.crash_agent(node);
            }
            Fault::AgentDiskError { on, .. } => {
                self.faults.fired("agent disk error");
                self.nodes[node].disk.fail_next_of(on);
            }
            Fault::KeeperKilled { .. } if self.nodes[node].keeper.is_some() => {
                self.faults.fired("keeper killed");
                self.crash_keeper(node);
            }
            Fault::KeeperUpgraded { .. } => self.upgrade_keeper(node),
            Fault::KeeperJournalRots { bits, killed, .. } => {
                self.nodes[node].journal.rot(bits);
                if killed && self.nodes[node].keeper.is_some() {
                    self.crash_keeper(node);
                }
            }
            Fault::KeeperDiskError { on, .. } => {
                self.faults.fired("keeper disk error");
                self.nodes[node].journal.fail_next_of(on);
            }
            Fault::NodePowerCut { during: None, .. } => self.power_cut(node),
            Fault::NodePowerCut { during: Some(Writer::Client { operations }), .. } => {
                self.nodes[node].disk.cut_power_after(operations);
            }
            Fault::NodePowerCut { during: Some(Writer::Keeper { operations }), .. } => {
                self.nodes[node].journal.cut_power_after(operations);
            }
            Fault::NodePaused { .. } => {
                self.faults.fired("node paused");
                self.nodes[node].paused_until = self.now.after(a_while(&mut self.faults));
            }
            Fault::NodeSlowDisk { .. } => {
                self.faults.fired("node disk slow");
                self.nodes[node].slow_until = self.now.after(a_while(&mut self.faults));
            }
            Fault::NodeDiskFull { .. } => self.fill_disk(node),
            _ => {}
        }
    }

    fn fill_disk(&mut self, node: usize) {
        self.faults.fired("node disk full");
        let left = self.faults.draw(16_000);
        let host = &mut self.nodes[node];
        host.full = true;
        host.disk.set_room(Some(left));
        // the client writes nothing when it knows: what is refused is the keeper's
        host.journal.set_room(Some(0));
        let until = a_while(&mut self.faults);
        self.after(until, Event::Room { node: Some(node) });
    }

    pub(super) fn strike_server(&mut self, fault: Fault) {
        match fault {
            // also while it is down: then it meets them when it starts
            Fault::ServerPowerCut { operations } => self.server.disk.cut_power_after(operations),
            Fault::ServerDiskError { on } => {
                self.faults.fired("server disk error");
                self.server.disk.fail_next_of(on);
            }
            _ if !self.server.is_up() => {}
            _ => {
                self.faults.fired("server killed");
                let back_after = self.delay(Span::millis(100), Span::seconds(5));
                self.stop_server(back_after);
            }
        }
    }

    fn clock_of(&mut self, node: Option<usize>) -> &mut Clock {
        match node {
            Some(n) => &mut self.nodes[n].clock,
            None => &mut self.server.clock,
        }
    }

    /// An hour or a day, forward or back.
    fn step_clock(&mut self, node: Option<usize>) {
        self.faults.fired("clock stepped");
        let steps = [Span::hours(1), Span::hours(-1), Span::hours(24), Span::hours(-24)];
        let (now, step) = (self.now, steps[self.faults.draw(4) as usize]);
        self.clock_of(node).step(step, now);
    }

    /// What the disks themselves have counted.
    pub fn count_disk_faults(&mut self) {
        let mut found = vec![
            ("server lost sectors", self.server.disk.counts().sectors_lost),
            ("server tore writes", self.server.disk.counts().writes_torn),
            ("server bits rotten", self.server.disk.counts().bits_rotten),
        ];
        for node in &self.nodes {
            let (store, journal) = (node.disk.counts(), node.journal.counts());
            found.push(("client store lost sectors", store.sectors_lost));
            found.push(("client store tore writes", store.writes_torn));
            found.push(("client bits rotten", store.bits_rotten));
            found.push(("keeper journal lost sectors", journal.sectors_lost));
            found.push(("keeper journal rots", journal.bits_rotten));
            found.push(("node refused for space", store.refused_for_space + journal.refused_for_space));
        }
        for (kind, times) in found {
            self.faults.fired_times(kind, times);
        }
    }
}
