//! The nodes and users of a measured region: simulated, all on one thread. Nodes register, keep their heartbeats, and where that
//! is wanted hear of their allocations and report them running. Refuses to know what the figures mean.

use crate::region_host::{Host, Said};
use ::io::clock;
use agent::inbox;
use model::alloc::ClientStatus;
use model::id::{AllocId, JobKey, NodeId, NodeSecret};
use model::job::JobSpec;
use model::member::Generation;
use model::random::mix;
use model::task::{TaskPhase, TaskState};
use model::time::{Mono, Span};
use scheduler::testing::{self, amount, node_with};
use server::effects::Input;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::command::AllocUpdate;
use wire::frame::{self, Body, Frame};
use wire::request::WriteRequest;
use wire::rpc::{AllocSet, MAX_UPDATES, NodeReply, NodeRequest, Peer};

const RACKS: usize = 50;
/// Whatever takes longer than this does not end.
const PATIENCE: Duration = Duration::from_secs(900);

pub struct World {
    pub host: Host,
    /// Nodes watch their allocations and report them.
    pub reporting: bool,
    beats: BTreeSet<(Mono, NodeId)>,
    /// What each node has heard of, as an index.
    heard: BTreeMap<NodeId, u64>,
    /// Reports that are not durable yet.
    pub reports: u64,
    pub running: u64,
    /// What nodes hear of has ended.
    pub ending: bool,
    unanswered: usize,
    registered: BTreeSet<NodeId>,
    alive: BTreeSet<NodeId>,
    token: u64,
}

impl World {
    pub fn new(host: Host, reporting: bool) -> World {
        World {
            host,
            reporting,
            beats: BTreeSet::new(),
            heard: BTreeMap::new(),
            reports: 0,
            running: 0,
            ending: false,
            unanswered: 0,
            registered: BTreeSet::new(),
            alive: BTreeSet::new(),
            token: 0,
        }
    }

    /// Registers nodes with these numbers, of 4,000 MHz, 8,192 MiB and 100,000 MiB each, and waits until all are ready.
    pub fn register(&mut self, numbers: std::ops::Range<usize>) {
        let wanted = self.alive.len() + numbers.len();
        self.until("the server leads", |w| w.host.status().ready);
        for i in numbers {
            let node = node_with(i as u128, |info| {
                info.datacenter = format!("dc-{}", i % 2 + 1);
                info.meta.insert("rack".into(), format!("r{}", i % RACKS));
                info.capacity = amount(4_000, 8_192, 100_000);
            });
            let id = node.info.id;
            self.ask(id, NodeRequest::Register { info: Box::new(node.info) });
            self.heard.insert(id, 0);
        }
        self.until("all nodes are ready", |w| w.alive.len() == wanted);
        if self.reporting {
            for (node, since) in self.heard.clone() {
                self.watch(node, Generation::default(), since);
            }
        }
    }

    /// Submits jobs, as fast as the server takes them.
    pub fn submit(&mut self, specs: impl Iterator<Item = JobSpec>) {
        for spec in specs {
            self.act(WriteRequest::RegisterJob {
                spec: Box::new(spec),
                enforce_index: None,
                eval_priority: None,
                preserve_counts: false,
                submission: None,
            });
        }
    }

    /// Stops jobs, and lets everything that is somewhere end.
    pub fn stop_all(&mut self, keys: Vec<JobKey>) {
        self.ending = true;
        for job in keys {
            self.act(WriteRequest::DeregisterJob {
                job,
                purge: false,
                eval_priority: None,
                no_shutdown_delay: false,
            });
        }
    }

    /// Asks for something, as soon as not too much is under way.
    pub fn act(&mut self, action: WriteRequest) {
        self.token += 1;
        self.tell(Input::Request { token: self.token, action });
        self.unanswered += 1;
        while self.unanswered >= 1_000 {
            self.step();
        }
    }

    pub fn until(&mut self, what: &str, mut done: impl FnMut(&World) -> bool) {
        let began = Instant::now();
        while !done(self) {
            self.step();
            assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        }
    }

    /// Everything that was asked for is settled.
    pub fn at_rest(&self) -> bool {
        let broker = self.host.status().broker;
        let queued = broker.ready + broker.unacked + broker.pending + broker.waiting;
        self.unanswered == 0 && self.reports == 0 && queued == 0
    }

    pub fn placed(&self) -> u64 {
        self.host.counts.placed.load(Relaxed)
    }

    /// The value of a counter that the server publishes.
    pub fn counted(&self, name: &'static str) -> u64 {
        self.host.status().measured.counters.get(name).map_or(0, |series| series.total.sum)
    }

    pub fn wait(&mut self, span: Span) {
        let end = clock::mono().after(span);
        self.until("time passes", |_| clock::mono() >= end);
    }

    /// Takes what the server said, or waits a little for it; beats the hearts that are due.
    fn step(&mut self) {
        let soon = clock::mono().after(Span::millis(2));
        let said = inbox::collect(&self.host.said, Some(soon)).expect("the server lives");
        for said in said {
            match said {
                Said::Replied(result) => {
                    assert!(result.is_ok(), "a write was refused: {result:?}");
                    self.unanswered -= 1;
                }
                Said::ToNode(node, reply) => self.hear(node, reply),
            }
        }
        let now = clock::mono();
        while self.beats.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, node)) = self.beats.pop_first() else { break };
            self.ask(node, NodeRequest::Heartbeat { node, secret: NodeSecret::default() });
        }
    }

    fn hear(&mut self, node: NodeId, reply: NodeReply) {
        match reply {
            // registered: it is ready once its heart has beaten
            NodeReply::Alive { .. } if self.registered.insert(node) => {
                self.ask(node, NodeRequest::Heartbeat { node, secret: NodeSecret::default() });
            }
            NodeReply::Alive { ttl, .. } => {
                self.alive.insert(node);
                self.beats.insert((clock::mono().after(Span(ttl.0 / 2)), node));
            }
            NodeReply::Watched { generation, set, .. } => {
                self.report(node, &set);
                self.watch(node, generation, set.index);
            }
            NodeReply::Reported { .. } => self.reports -= 1,
            other => panic!("a node was told {other:?}"),
        }
    }

    /// What is new is running.
    fn report(&mut self, node: NodeId, set: &AllocSet) {
        let since = self.heard.insert(node, set.index).unwrap_or(0);
        let news: Vec<AllocId> = set.wanted.iter().filter(|(_, at)| *at > since).map(|(id, _)| *id).collect();
        let secret = NodeSecret::default();
        for some in news.chunks(MAX_UPDATES) {
            let ending = self.ending;
            let updates = some.iter().map(|id| if ending { ended(*id) } else { running(*id) }).collect();
            self.reports += 1;
            self.running += some.len() as u64;
            // several reports are under way, and none is about what another one tells
            let seen = u64::MAX;
            self.ask(node, NodeRequest::Report { node, secret, seen, updates, verdicts: vec![] });
        }
    }

    fn watch(&mut self, node: NodeId, generation: Generation, since: u64) {
        // nobody here asks for servers
        let (secret, servers) = (NodeSecret::default(), u64::MAX);
        self.ask(node, NodeRequest::Watch { node, secret, generation, since, servers });
    }

    fn ask(&mut self, node: NodeId, request: NodeRequest) {
        let bytes = frame::encode(&Frame { request: 1, body: Body::Request(request) });
        self.tell(Input::Frame { from: Peer::Node(node), bytes });
    }

    fn tell(&mut self, input: Input) {
        self.host.mail.send_blocking(input).expect("the server lives");
    }
}

fn running(id: AllocId) -> AllocUpdate {
    let task = TaskState { phase: TaskPhase::Running, ..TaskState::default() };
    AllocUpdate {
        id,
        client: ClientStatus::Running,
        client_description: "Tasks are running".into(),
        task_states: [("t".to_string(), task)].into(),
    }
}

fn ended(id: AllocId) -> AllocUpdate {
    let task = TaskState { phase: TaskPhase::Dead, ..TaskState::default() };
    AllocUpdate {
        id,
        client: ClientStatus::Complete,
        client_description: "All tasks have completed".into(),
        task_states: [("t".to_string(), task)].into(),
    }
}

/// A service of `count` allocations.
pub fn service(name: &str, number: u64, count: i64, cpu_mhz: i64, memory_mb: i64) -> JobSpec {
    let mut spec = testing::spec(&format!("{name}-{:04x}-{number}", mix(number) & 0xffff), count);
    let group = &mut spec.groups[0];
    group.ephemeral_disk.size_mb = 10;
    (group.tasks[0].resources.cpu_mhz, group.tasks[0].resources.memory_mb) = (cpu_mhz, memory_mb);
    spec
}
