//! The world's clock and heap of future events, the network, and the loop that lets everything happen.

use super::clock::Clock;
use super::dispatchers::Dispatchers;
use super::faults::{Fault, Faults};
use super::http::Readers;
use super::kept::Kept;
use super::launches::Launched;
use super::ledger::Ledger;
use super::node_host::NodeHost;
use super::operators::Operators;
use super::processes::ProcessEnd;
use super::rollouts::Seen;
use super::scaling::Scalers;
use super::server_host::ServerHost;
use super::workload::Workload;
use model::id::{AllocId, EvalId, RunId};
use model::random::Stream;
use model::time::{Mono, Span, Wall};
use server::effects::ScheduleTask;
use std::collections::{BTreeMap, BTreeSet};
use wire::request::{Refusal, WriteReply};
use wire::rpc::Peer;

/// 2026-01-01T00:00:00Z: where the world's true time begins.
pub const EPOCH: Wall = Wall(1_767_225_600_000_000_000);

/// Something that will happen.
#[derive(Debug)]
pub enum Event {
    ServerTurn {
        at: Mono,
    },
    NodeTurn {
        node: usize,
        at: Mono,
    },
    KeeperTurn {
        node: usize,
        at: Mono,
    },
    ToServer {
        from: Peer,
        bytes: Vec<u8>,
    },
    ToNode {
        node: usize,
        from: Peer,
        bytes: Vec<u8>,
    },
    Worker {
        task: Box<ScheduleTask>,
    },
    ToKeeper {
        node: usize,
        life: u64,
        input: Box<keeper::brain::Input>,
    },
    FromKeeper {
        node: usize,
        connection: u64,
        event: Box<wire::keeper::Event>,
    },
    Dir {
        node: usize,
        life: u64,
        alloc: AllocId,
        removed: bool,
    },
    Process {
        node: usize,
        run: RunId,
        end: ProcessEnd,
    },
    /// A task writes some lines.
    Output {
        node: usize,
        run: RunId,
    },
    JournalRetry {
        node: usize,
        life: u64,
    },
    /// A new binary is in place.
    Upgrade {
        node: usize,
    },
    /// Somebody sets the node's clock.
    ClockSet {
        node: usize,
    },
    Connect {
        node: usize,
    },
    Strike(Fault),
    /// A process comes back after its death.
    Start(Who),
    /// The disk has room again: a node's, or the server's.
    Room {
        node: Option<usize>,
    },
    Work,
    Operate,
    Dispatch,
    Scale,
    /// After the operators: what is paused goes on.
    EndPause,
    /// After the users: what waits for a word gets one.
    Settle {
        last: bool,
    },
    Answer {
        token: u64,
        result: Result<WriteReply, Refusal>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Server,
    Agent(usize),
    Keeper(usize),
}

pub struct World {
    pub now: Mono,
    heap: BTreeMap<(Mono, u64), Event>,
    sequence: u64,
    pub server: ServerHost,
    pub nodes: Vec<NodeHost>,
    pub faults: Faults,
    pub workload: Workload,
    pub operators: Operators,
    pub dispatchers: Dispatchers,
    pub scalers: Scalers,
    pub ledger: Ledger,
    pub readers: Readers,
    pub draws: Stream,
    trace: Trace,
    pub turns: u64,
    /// Allocations that the servers wanted stopped at some time, or that are gone with their job.
    pub stopped: BTreeSet<AllocId>,
    /// Allocations that a user asked to be restarted: their tasks may be killed, and start again.
    pub restarted: BTreeSet<AllocId>,
    /// Allocations that were seen to make way.
    pub evicted: BTreeSet<AllocId>,
    pub launched: Launched,
    /// Launches that users asked for, by question, and what they came to if that was told.
    pub by_hand: BTreeMap<u64, Option<EvalId>>,
    pub seen: Seen,
    pub kept: Kept,
    /// When users say for the last time what they want of deployments.
    pub last_word: Wall,
    /// How long the disk takes of the machine whose turn it is.
    pub lag: Span,
    /// The last delivery on each link: messages to one peer keep their order.
    links: BTreeMap<(Peer, Peer), Mono>,
}

/// A hash over everything that happened, and the lines themselves when one seed is looked at.
pub struct Trace {
    hash: u64,
    print: bool,
}

impl Trace {
    fn new(print: bool) -> Self {
        Trace { hash: 0xcbf2_9ce4_8422_2325, print }
    }

    fn note(&mut self, line: &str) {
        for b in line.as_bytes() {
            self.hash = (self.hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.print {
            println!("{line}");
        }
    }
}

impl World {
    pub fn new(seed: u64, nodes: usize, print: bool) -> World {
        let mut draws = Stream::new(seed, 100);
        let server = ServerHost::new(seed);
        let nodes = (0..nodes).map(|n| NodeHost::new(n, draws.next_u64())).collect();
        World {
            now: Mono(1),
            heap: BTreeMap::new(),
            sequence: 0,
            server,
            nodes,
            faults: Faults::new(seed),
            workload: Workload::new(seed),
            operators: Operators::new(seed),
            dispatchers: Dispatchers::new(seed),
            scalers: Scalers::new(seed),
            ledger: Ledger::default(),
            readers: Readers::new(),
            draws,
            trace: Trace::new(print),
            turns: 0,
            stopped: BTreeSet::new(),
            restarted: BTreeSet::new(),
            evicted: BTreeSet::new(),
            launched: Launched::new(),
            by_hand: BTreeMap::new(),
            seen: Seen::new(),
            kept: Kept::default(),
            last_word: EPOCH,
            lag: Span::ZERO,
            links: BTreeMap::new(),
        }
    }

    pub fn trace_hash(&self) -> u64 {
        self.trace.hash
    }

    pub fn note(&mut self, line: impl FnOnce(&World) -> String) {
        let text = format!("{:>14.6} {}", self.now.0 as f64 / 1e9, line(self));
        self.trace.note(&text);
    }

    pub fn after(&mut self, delay: Span, event: Event) {
        self.at(self.now.after(delay + self.lag), event);
    }

    pub fn at(&mut self, at: Mono, event: Event) {
        self.sequence += 1;
        self.heap.insert((at.max(self.now), self.sequence), event);
    }

    /// A delay of at least `least` and less than `least + spread`.
    pub fn delay(&mut self, least: Span, spread: Span) -> Span {
        least + Span(self.draws.below(spread.0.max(1) as u64) as i64)
    }

    /// Puts a frame on the wire: it may be lost, or come twice, but what comes keeps its order.
    pub fn send(&mut self, from: Peer, to: Peer, bytes: Vec<u8>) {
        if self.faults.link_cut(from, to, self.now) {
            return self.faults.fired("frame lost on a cut link");
        }
        if self.faults.loses_frame() {
            return;
        }
        let copies = if self.faults.doubles_frame() { 2 } else { 1 };
        let late = self.faults.delays_frame();
        for _ in 0..copies {
            let delay = self.delay(Span(20_000), Span::millis(2)) + late + self.lag;
            let last = self.links.get(&(from, to)).copied().unwrap_or_default();
            let at = self.now.after(delay).max(Mono(last.0 + 1));
            self.links.insert((from, to), at);
            let bytes = bytes.clone();
            let event = match to {
                Peer::Server(_) => Event::ToServer { from, bytes },
                Peer::Node(id) => match self.nodes.iter().position(|n| n.id() == id) {
                    Some(node) => Event::ToNode { node, from, bytes },
                    None => return,
                },
            };
            self.at(at, event);
        }
    }

    /// Lets the world go on until `end`.
    pub fn run_until(&mut self, end: Mono) -> Result<(), String> {
        while let Some((&(at, sequence), _)) = self.heap.first_key_value() {
            if at > end {
                break;
            }
            let Some(event) = self.heap.remove(&(at, sequence)) else { break };
            // strictly increasing: two things never happen at the same instant
            self.now = Mono(self.now.0 + 1).max(at);
            self.happen(event)?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::ServerTurn { at } => self.server_turn(at),
            Event::NodeTurn { node, at } => self.node_turn(node, at),
            Event::KeeperTurn { node, at } => self.keeper_turn(node, at),
            Event::ToServer { from, bytes } => {
                self.server_input(server::effects::Input::Frame { from, bytes });
                Ok(())
            }
            Event::ToNode { node, from, bytes } => {
                self.node_input(node, client::effects::Input::Frame { from, bytes });
                Ok(())
            }
            Event::Worker { task } => {
                self.worker(*task);
                Ok(())
            }
            Event::ToKeeper { node, life, input } => {
                self.keeper_input(node, life, *input);
                Ok(())
            }
            Event::FromKeeper { node, connection, event } => self.keeper_told(node, connection, *event),
            Event::Dir { node, life, alloc, removed } => {
                self.dir_done(node, life, alloc, removed);
                Ok(())
            }
            Event::Process { node, run, end } => {
                self.process_ends(node, run, end);
                Ok(())
            }
            Event::Output { node, run } => self.writes_lines(node, run),
            Event::JournalRetry { node, life } => self.retry_journal(node, life),
            Event::Upgrade { node } => {
                self.upgrade_keeper(node);
                Ok(())
            }
            Event::ClockSet { node } => {
                self.nodes[node].clock = Clock::right();
                Ok(())
            }
            Event::Connect { node } => {
                self.connect(node);
                Ok(())
            }
            // a fault that was on its way when the world healed does not come
            Event::Strike(_) if !self.faults.on() => Ok(()),
            Event::Strike(fault) => {
                self.strike(fault)?;
                self.next_fault();
                Ok(())
            }
            Event::Start(who) => self.start(who),
            Event::Room { node } => {
                self.make_room(node);
                Ok(())
            }
            Event::Work => self.work(),
            Event::Operate => self.operate(),
            Event::Dispatch => self.dispatch(),
            Event::Scale => self.scale(),
            Event::EndPause => self.end_pause(),
            Event::Settle { last } => {
                self.settle_deployments(last);
                Ok(())
            }
            Event::Answer { token, result } => self.answered(token, result),
        }
    }
}

impl World {
    fn make_room(&mut self, node: Option<usize>) {
        match node {
            None => {
                self.server.full = false;
                self.wake_server(Span(1));
            }
            Some(n) => {
                let host = &mut self.nodes[n];
                host.full = false;
                host.disk.set_room(None);
                host.journal.set_room(None);
                self.wake_node(n, Span(1));
            }
        }
    }

    fn start(&mut self, who: Who) -> Result<(), String> {
        match who {
            Who::Server if !self.server.is_up() => self.start_server(),
            Who::Agent(n) if self.nodes[n].client.is_none() => self.start_agent(n),
            Who::Keeper(n) if self.nodes[n].keeper.is_none() => {
                self.start_keeper(n);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
