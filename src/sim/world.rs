//! The world's clock and heap of future events, and the loop that lets everything happen.

use super::asks::Asks;
use super::clients::Clients;
use super::clock::Clock;
use super::dispatchers::Dispatchers;
use super::event_readers::EventReaders;
use super::exec_sessions::{ExecUsers, SessionEvent};
use super::faults::{Fault, Faults};
use super::http::HttpAgent;
use super::http_calls::HttpCalls;
use super::ledger::Ledger;
use super::network::{Ends, Link, Network};
use super::operators::Operators;
use super::place::{Daemon, Machine, NodeAt, ServerAt};
use super::power_cuts::PowerCuts;
use super::processes::ProcessEnd;
use super::region::Regions;
use super::scaling::Scalers;
use super::snapshot_links::SnapshotLinks;
use super::topologies::Topology;
use super::trace::Trace;
use super::users::{HOME_REGION, Users};
use super::workload::Workload;
use model::id::{AllocId, EvalId, RunId};
use model::random::Stream;
use model::time::{Mono, Span, Wall};
use server::effects::{Input, ScheduleTask};
use std::collections::BTreeMap;
use wire::request::{Refusal, WriteReply};

/// More turns than any seed had in a second of its world, by far.
const MAX_TURNS_A_SECOND: u64 = 50_000;
/// 2026-01-01T00:00:00Z: where the world's true time begins.
pub const EPOCH: Wall = Wall(1_767_225_600_000_000_000);

/// Something that will happen.
#[derive(Debug)]
pub enum Event {
    ServerTurn {
        server: ServerAt,
        at: Mono,
    },
    NodeTurn {
        node: NodeAt,
        at: Mono,
    },
    KeeperTurn {
        node: NodeAt,
        at: Mono,
    },
    /// A frame arrives.
    Frame {
        ends: Ends,
        bytes: Vec<u8>,
    },
    /// A packet has left a slow line.
    Packet {
        link: Link,
    },
    /// What one server says of a snapshot to another one arrives.
    Snapshot {
        ends: Ends,
        bytes: Vec<u8>,
    },
    Worker {
        server: ServerAt,
        task: Box<ScheduleTask>,
    },
    ToKeeper {
        node: NodeAt,
        life: u64,
        input: Box<keeper::effects::Input>,
    },
    FromKeeper {
        node: NodeAt,
        connection: u64,
        event: Box<wire::keeper::Event>,
    },
    Dir {
        node: NodeAt,
        life: u64,
        alloc: AllocId,
        removed: bool,
    },
    Process {
        node: NodeAt,
        run: RunId,
        end: ProcessEnd,
    },
    /// A task writes some lines.
    Output {
        node: NodeAt,
        run: RunId,
    },
    JournalRetry {
        node: NodeAt,
        life: u64,
    },
    /// A new binary is in place.
    Upgrade {
        node: NodeAt,
    },
    /// Somebody sets the node's clock.
    ClockSet {
        node: NodeAt,
    },
    Connect {
        node: NodeAt,
    },
    Strike(Fault),
    /// A process comes back after its death.
    Start(Daemon),
    /// The disk has room again.
    Room(Machine),
    Work,
    Operate,
    Dispatch,
    Scale,
    ChangeANode,
    /// The machine's disk is lost, and it never comes back.
    DiskLost(Machine),
    /// An operator wants it to be gone.
    RemoveServer {
        id: u64,
    },
    /// An operator lets another server lead, and looks again later.
    TransferLeadership,
    /// An operator takes a server that lives out of service, once all of them vote.
    RetireServer(ServerAt),
    /// After the operators: what is paused goes on.
    EndPause,
    /// After the users: what waits for a word gets one.
    Settle {
        last: bool,
    },
    /// A connection may have been idle for too long.
    ConnectionIdles {
        link: Link,
    },
    /// A broken connection is to be made anew.
    DialsAgain {
        link: Link,
        number: u64,
    },
    /// A server finds that it has a connection to another one.
    LinkUp {
        server: ServerAt,
        peer: u64,
    },
    /// And that it is gone.
    LinkDown {
        server: ServerAt,
        peer: u64,
    },
    /// One end of a connection between a server and a node finds that the other one has closed it.
    ConnectionClosed {
        end: Machine,
        server: ServerAt,
        node: NodeAt,
    },
    /// A user of HTTP asks something.
    ClientAsks,
    ExecBesideTasks,
    Session {
        node: NodeAt,
        connection: u64,
        what: SessionEvent,
    },
    /// One who follows events looks up.
    ReadEvents {
        reader: usize,
    },
    /// An HTTP request goes on.
    Call {
        id: u64,
    },
    Answer {
        token: u64,
        result: Result<WriteReply, Refusal>,
    },
}

pub struct World {
    pub now: Mono,
    heap: BTreeMap<(Mono, u64), Event>,
    sequence: u64,
    pub regions: Regions,
    pub network: Network,
    pub faults: Faults,
    pub users: Users,
    pub workload: Workload,
    pub operators: Operators,
    pub dispatchers: Dispatchers,
    pub scalers: Scalers,
    pub ledger: Ledger,
    pub http_agent: HttpAgent,
    pub asks: Asks,
    pub http_calls: HttpCalls,
    pub clients: Clients,
    pub event_readers: EventReaders,
    pub exec_users: ExecUsers,
    pub snapshot_links: SnapshotLinks,
    pub power_cuts: PowerCuts,
    pub draws: Stream,
    /// What becomes of nodes.
    pub changes: Stream,
    pub trace: Trace,
    pub turns: u64,
    turns_before_this_second: u64,
    /// The most turns in a second so far.
    pub busiest: u64,
    /// Decisions of scheduler workers on servers that follow.
    pub decided_by_followers: u64,
    /// Launches that users asked for, by question, and what they came to if that was told.
    pub forced_launches: BTreeMap<u64, Option<EvalId>>,
    /// When users say for the last time what they want of deployments.
    pub last_word: Wall,
    /// How long the disk takes of the machine whose turn it is.
    pub lag: Span,
}

impl World {
    /// One region of so many servers and nodes.
    pub fn new(seed: u64, servers: usize, nodes: usize, print: bool) -> World {
        World::of_regions(seed, &[Topology { servers, nodes }], print)
    }

    /// The users are those of the first one.
    pub fn of_regions(seed: u64, sizes: &[Topology], print: bool) -> World {
        let mut draws = Stream::new(seed, 100);
        World {
            now: Mono(1),
            heap: BTreeMap::new(),
            sequence: 0,
            regions: Regions::new(seed, sizes, &mut draws),
            network: Network::new(seed),
            faults: Faults::new(seed),
            users: Users::new(seed, sizes[HOME_REGION].servers),
            workload: Workload::new(seed),
            operators: Operators::new(seed),
            dispatchers: Dispatchers::new(seed),
            scalers: Scalers::new(seed),
            ledger: Ledger::default(),
            http_agent: HttpAgent::new(),
            asks: Asks::default(),
            http_calls: HttpCalls::default(),
            clients: Clients::new(seed),
            event_readers: EventReaders::new(seed),
            exec_users: ExecUsers::new(seed),
            snapshot_links: SnapshotLinks::new(seed),
            power_cuts: PowerCuts::default(),
            draws,
            changes: Stream::new(seed, 113),
            trace: Trace::new(print),
            turns: 0,
            turns_before_this_second: 0,
            busiest: 0,
            decided_by_followers: 0,
            forced_launches: BTreeMap::new(),
            last_word: EPOCH,
            lag: Span::ZERO,
        }
    }

    /// Everything that a fresh world runs, started.
    pub fn start_all(&mut self) -> Result<(), String> {
        self.start_servers()?;
        for n in self.regions.nodes() {
            let joins_after = self.regions[n].traits.joins_after;
            if joins_after > Span::ZERO {
                self.after(joins_after, Event::Start(Daemon::Keeper(n)));
                self.after(joins_after, Event::Start(Daemon::Agent(n)));
                continue;
            }
            self.start_keeper(n);
            self.start_agent(n)?;
        }
        Ok(())
    }

    pub fn note(&mut self, line: impl FnOnce(&World) -> String) {
        let text = format!("{:>14.6} {}", self.now.0 as f64 / 1e9, line(self));
        self.trace.line(&text);
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

    /// Lets the world go on until `end`.
    pub fn run_until(&mut self, end: Mono) -> Result<(), String> {
        while let Some((&(at, sequence), _)) = self.heap.first_key_value() {
            if at > end {
                break;
            }
            let Some(event) = self.heap.remove(&(at, sequence)) else { break };
            // strictly increasing: two things never happen at the same instant
            let before = self.now;
            self.now = Mono(self.now.0 + 1).max(at);
            self.count_turns(before)?;
            self.happen(event)?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Brains that set each other to work for ever would let no time pass.
    fn count_turns(&mut self, before: Mono) -> Result<(), String> {
        let second = |at: Mono| at.0 / Span::seconds(1).as_nanos().unsigned_abs();
        if second(before) != second(self.now) {
            self.turns_before_this_second = self.turns;
        }
        let turns = self.turns - self.turns_before_this_second;
        self.busiest = self.busiest.max(turns);
        if turns > MAX_TURNS_A_SECOND {
            return Err(format!("{turns} turns in one second: brains set each other to work without end"));
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::ServerTurn { server, at } => self.server_turn(server, at),
            Event::NodeTurn { node, at } => self.node_turn(node, at),
            Event::KeeperTurn { node, at } => self.keeper_turn(node, at),
            Event::Frame { ends, bytes } => self.frame_arrives(ends, bytes),
            Event::Packet { link } => self.packet_left(link),
            Event::Snapshot { ends, bytes } => self.snapshot_arrives(ends, &bytes),
            Event::Worker { server, task } => {
                self.worker(server, *task);
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
            Event::ClockSet { node } => self.set_clock(node),
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
            Event::Start(daemon) => self.start(daemon),
            Event::Room(machine) => self.make_room(machine),
            Event::Work => self.work(),
            Event::Operate => self.operate(),
            Event::Dispatch => self.dispatch(),
            Event::Scale => self.scale(),
            Event::ChangeANode => self.change_a_node(),
            Event::DiskLost(machine) => self.lose_disk(machine),
            Event::RemoveServer { id } => self.remove_server(id),
            Event::TransferLeadership => self.transfer_leadership(),
            Event::RetireServer(at) => self.retire_server(at),
            Event::EndPause => self.end_pause(),
            Event::Settle { last } => self.settle_deployments(last),
            Event::ConnectionIdles { link } => self.connection_idles(link),
            Event::DialsAgain { link, number } => self.dials_again(link, number),
            Event::LinkUp { server, peer } => self.link_changes(server, Input::LinkUp { peer }),
            Event::LinkDown { server, peer } => self.link_changes(server, Input::LinkDown { peer }),
            Event::ConnectionClosed { end, server, node } => self.connection_closed(end, server, node),
            Event::ClientAsks => self.client_asks(),
            Event::ExecBesideTasks => self.exec_beside_tasks(),
            Event::Session { node, connection, what } => self.session_happens(node, connection, what),
            Event::ReadEvents { reader } => self.read_events(reader),
            Event::Call { id } => self.go_on(id),
            Event::Answer { token, result } => self.server_answers(token, result),
        }
    }
}

impl World {
    fn set_clock(&mut self, n: NodeAt) -> Result<(), String> {
        self.regions[n].clock = Clock::right();
        Ok(())
    }

    fn make_room(&mut self, machine: Machine) -> Result<(), String> {
        match machine {
            Machine::Server(at) => {
                self.regions[at].disk.set_room(None);
                self.wake_server(at, Span(1));
            }
            Machine::Node(n) => {
                let host = &mut self.regions[n];
                host.full = false;
                host.disk.set_room(None);
                host.journal.set_room(None);
                self.wake_node(n, Span(1));
            }
        }
        Ok(())
    }

    fn start(&mut self, daemon: Daemon) -> Result<(), String> {
        match daemon {
            Daemon::Server(at) if !self.regions[at].is_up() => self.start_server(at),
            Daemon::Agent(n) if self.regions[n].client.is_none() => self.start_agent(n),
            Daemon::Keeper(n) if self.regions[n].keeper.is_none() => {
                self.start_keeper(n);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
