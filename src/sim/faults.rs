//! What can go wrong, how often, and how often it did. A fault that never fired over all seeds proves nothing and fails
//! the run.

use super::world::{Event, World};
use crate::model::random::Stream;
use crate::model::time::{Mono, Span};
use crate::wire::rpc::Peer;
use std::collections::BTreeMap;

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
    /// The next disk operation fails, once.
    ServerDiskError,
    ServerPaused,
    AgentKilled {
        node: usize,
    },
    AgentDiskError {
        node: usize,
    },
    KeeperKilled {
        node: usize,
    },
    NodePowerCut {
        node: usize,
    },
    NodePaused {
        node: usize,
    },
    KeeperDiskError {
        node: usize,
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
    WorkerLost,
}

/// Every fault by the name under which it is counted.
pub const KINDS: [&str; 22] = [
    "server killed",
    "server power cut",
    "server disk full",
    "server disk error",
    "server paused",
    "agent killed",
    "agent disk error",
    "keeper killed",
    "keeper disk error",
    "node power cut",
    "node paused",
    "frame lost on a cut link",
    "frame lost",
    "frame doubled",
    "clock stepped",
    "clock at 1970",
    "worker lost",
    "task crashed",
    "task ignored its signal",
    "start failed",
    "server did not open",
    "agent did not open",
];

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
        let fault = match self.draws.below(20) {
            0 | 1 => Fault::ServerKilled,
            2..=4 => Fault::ServerPowerCut { operations: 1 + self.draws.below(60) },
            5 => Fault::ServerDiskFull,
            6 => Fault::ServerDiskError,
            7 => Fault::ServerPaused,
            8 | 9 => Fault::AgentKilled { node },
            10 => Fault::AgentDiskError { node },
            11 | 12 => Fault::KeeperKilled { node },
            13 => Fault::KeeperDiskError { node },
            14 => Fault::NodePowerCut { node },
            15 => Fault::NodePaused { node },
            16 => Fault::LinkCut { node },
            17 => Fault::ClockStep { node: whose },
            18 => Fault::ClockLost { node: whose },
            _ => Fault::WorkerLost,
        };
        (wait, fault)
    }

    pub fn draw(&mut self, bound: u64) -> u64 {
        self.draws.below(bound)
    }
}

/// How long a paused process is not scheduled, a link is cut, a disk is full.
fn a_while(faults: &mut Faults) -> Span {
    Span::seconds(1) + Span(faults.draw(40_000_000_000) as i64)
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
        self.server.disk.heal();
        self.server.full = false;
        self.server.skew = Some(Span::ZERO);
        self.server.paused_until = self.now;
        for n in 0..self.nodes.len() {
            self.nodes[n].disk.heal();
            self.nodes[n].journal.heal();
            self.nodes[n].skew = Some(Span::ZERO);
            self.nodes[n].paused_until = self.now;
        }
        Ok(())
    }

    pub fn strike(&mut self, fault: Fault) -> Result<(), String> {
        self.note(|_| format!("fault   {fault:?}"));
        match fault {
            Fault::ServerKilled | Fault::ServerPowerCut { .. } | Fault::ServerDiskError => {
                self.strike_server(fault)
            }
            Fault::ServerDiskFull => {
                self.faults.fired("server disk full");
                self.server.full = true;
                let until = a_while(&mut self.faults);
                self.after(until, Event::Room);
            }
            Fault::ServerPaused => {
                self.faults.fired("server paused");
                self.server.paused_until = self.now.after(a_while(&mut self.faults));
            }
            Fault::WorkerLost => self.server.lose_next_worker = true,
            Fault::ClockStep { node } => self.step_clock(node),
            Fault::ClockLost { node } => self.lose_clock(node),
            Fault::AgentKilled { node } => {
                self.faults.fired("agent killed");
                self.crash_agent(node);
            }
            Fault::AgentDiskError { node } => {
                self.faults.fired("agent disk error");
                self.nodes[node].disk.fail_next();
            }
            Fault::KeeperKilled { node } if self.nodes[node].keeper.is_some() => {
                self.faults.fired("keeper killed");
                self.crash_keeper(node);
            }
            Fault::KeeperKilled { .. } => {}
            Fault::KeeperDiskError { node } => {
                self.faults.fired("keeper disk error");
                self.nodes[node].journal.fail_next();
            }
            Fault::NodePowerCut { node } => {
                self.faults.fired("node power cut");
                self.power_cut(node);
            }
            Fault::NodePaused { node } => {
                self.faults.fired("node paused");
                self.nodes[node].paused_until = self.now.after(a_while(&mut self.faults));
            }
            Fault::LinkCut { node } => {
                let until = self.now.after(a_while(&mut self.faults));
                self.faults.cut_off(Peer::Node(self.nodes[node].id()), until);
            }
        }
        Ok(())
    }

    fn strike_server(&mut self, fault: Fault) {
        if !self.server.is_up() {
            return;
        }
        match fault {
            Fault::ServerPowerCut { operations } => self.server.disk.cut_power_after(operations),
            Fault::ServerDiskError => {
                self.faults.fired("server disk error");
                self.server.disk.fail_next();
            }
            _ => {
                self.faults.fired("server killed");
                let back_after = self.delay(Span::millis(100), Span::seconds(5));
                self.stop_server(back_after);
            }
        }
    }

    fn skew_of(&mut self, node: Option<usize>) -> &mut Option<Span> {
        match node {
            Some(n) => &mut self.nodes[n].skew,
            None => &mut self.server.skew,
        }
    }

    /// An hour or a day, forward or back.
    fn step_clock(&mut self, node: Option<usize>) {
        self.faults.fired("clock stepped");
        let steps = [Span::hours(1), Span::hours(-1), Span::hours(24), Span::hours(-24)];
        let step = steps[self.faults.draw(4) as usize];
        let skew = self.skew_of(node);
        *skew = Some(skew.unwrap_or(Span::ZERO) + step);
    }

    fn lose_clock(&mut self, node: Option<usize>) {
        self.faults.fired("clock at 1970");
        *self.skew_of(node) = None;
    }
}
