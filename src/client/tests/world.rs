//! One client with everything around it: servers and a keeper that answer as theirs do, a disk that keeps only what
//! was synced, and a clock that tests move. What the client does is written down as lines of text.

use super::assigning::Watch;
use super::fixtures;
use crate::Client;
use crate::config::Config;
use crate::effects::{Effect, Input, RequestOutcome};
use model::deployment::Verdict;
use model::id::{AllocId, RunId, Uuid};
use model::member::{Generation, ServerList};
use model::node::NodeInfo;
use model::task::{Exit, ExitStatus};
use model::time::{Mono, Now, Span, Wall};
use state::checksum::info_digest;
use state::client_store::ClientStore;
use state::client_store::disk::Disk;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::command::AllocUpdate;
use wire::frame::{self, Body, Frame};
use wire::http::{ForwardFailure, ForwardedResponse, NodeHttpRequest};
use wire::keeper::{self, RunReport, RunState};
use wire::request::Refusal;
use wire::rpc::{Assignment, NodeReply, NodeRequest, Peer};

#[derive(Debug)]
pub struct Process {
    pub run: RunId,
    /// The task's name; empty once the run is forgotten.
    pub label: String,
    pub full_label: String,
    pub state: RunState,
    /// Still being started, for so many steps: not in a welcome, and a stop takes effect afterwards.
    starting: u32,
    stop_signal: Option<i32>,
    /// Dies of SIGKILL then.
    kill_at: Option<Mono>,
}

pub struct World {
    pub config: Config,
    pub disk: Disk,
    client: Option<Client>,
    seed: u64,
    pub now: Mono,
    pub boot: Uuid,
    pub keeper_up: bool,
    pub processes: Vec<Process>,
    /// Tasks that do not end when they are asked to.
    pub stubborn: Vec<String>,
    /// How many steps a start takes.
    pub slow_start: u32,
    pub server_up: bool,
    /// The other servers send everybody there.
    pub leader: u64,
    pub asked: BTreeSet<Peer>,
    /// The servers have lost the node, or have given it up.
    pub unknown_node: bool,
    pub wants_heartbeat: bool,
    /// The leader's disk is full.
    pub servers_full: bool,
    /// The servers have missed heartbeats, and say so until something is reported.
    pub missed: bool,
    pub registrations: u64,
    pub registered: Box<NodeInfo>,
    pub reports: u64,
    /// The index of the last report that was taken.
    pub reported_at: u64,
    pub stale_reports: u64,
    /// Tasks whose process ends well at once.
    pub brief: Vec<String>,
    pub index: u64,
    pub assigned: BTreeMap<AllocId, Assignment>,
    pub told: BTreeMap<AllocId, AllocUpdate>,
    pub verdicts: Vec<Verdict>,
    /// What the index counts in.
    pub generation: Generation,
    /// What a server that is behind gives instead of a newer one, once.
    pub stale: Option<Assignment>,
    /// The servers that they tell nodes of.
    pub listed: ServerList,
    /// How often they did.
    pub lists_sent: u64,
    /// Machines that are no more.
    pub gone: BTreeSet<u64>,
    pub watch: Option<Watch>,
    /// Answers that are sent twice, and requests that are lost: one of this many, if any.
    pub duplicate: bool,
    pub lose_every: Option<u64>,
    pub requests: u64,
    pub answers: Vec<Result<RequestOutcome, Refusal>>,
    /// What the node has sent for users of its agent, and what they were told.
    pub passed_on: Vec<(Peer, u64, NodeHttpRequest)>,
    pub user_answers: Vec<(u64, Result<ForwardedResponse, ForwardFailure>)>,
    pub inbox: VecDeque<Input>,
    pub trace: Vec<String>,
    pub turns: u64,
}

impl World {
    pub fn new(assigned: &[Assignment]) -> World {
        let mut world = World {
            config: fixtures::config(),
            disk: Disk::default(),
            client: None,
            seed: 7,
            now: Mono(1_000_000_000_000),
            boot: Uuid::from_random(1),
            keeper_up: true,
            processes: Vec::new(),
            stubborn: Vec::new(),
            slow_start: 0,
            server_up: true,
            leader: 1,
            asked: BTreeSet::new(),
            unknown_node: false,
            wants_heartbeat: false,
            servers_full: false,
            missed: false,
            registrations: 0,
            registered: Box::new(fixtures::info()),
            reports: 0,
            reported_at: 0,
            stale_reports: 0,
            brief: Vec::new(),
            index: 10,
            assigned: assigned.iter().map(|a| (a.id, a.clone())).collect(),
            told: BTreeMap::new(),
            verdicts: Vec::new(),
            generation: fixtures::generation(1),
            listed: ServerList::default(),
            stale: None,
            lists_sent: 0,
            gone: BTreeSet::new(),
            watch: None,
            duplicate: false,
            lose_every: None,
            requests: 0,
            answers: Vec::new(),
            passed_on: Vec::new(),
            user_answers: Vec::new(),
            inbox: VecDeque::new(),
            trace: Vec::new(),
            turns: 0,
        };
        world.start_agent();
        world
    }

    pub fn now(&self) -> Now {
        Now { mono: self.now, wall: Some(Wall(self.now.0 as i64)) }
    }

    fn start_agent(&mut self) {
        let (store, found) = ClientStore::open(self.disk.files()).expect("the disk is sound");
        assert_eq!(store.unreadable_rows(), [""; 0]);
        self.seed += 1;
        self.client = Some(Client::new(self.config.clone(), store, found, self.seed, self.now()));
        self.inbox.clear();
        self.inbox.push_back(Input::Fingerprint(Box::new(fixtures::info())));
        if self.keeper_up {
            self.inbox.push_back(Input::KeeperUp);
            self.welcome();
        }
    }

    /// The agent dies in the middle and starts again over what was synced.
    pub fn crash_agent(&mut self) {
        self.trace.push("-- agent restarts".into());
        self.disk = self.disk.after_power_cut();
        self.watch = None;
        self.start_agent();
    }

    /// The machine is restarted: no process is left, and the keeper knows only that they ended.
    pub fn reboot(&mut self) {
        for process in &mut self.processes {
            (process.kill_at, process.starting) = (None, 0);
            if matches!(process.state, RunState::Running { .. }) {
                let exit = Exit { status: ExitStatus::Unknown, oom_killed: false };
                process.state = RunState::Exited { exit, at: Wall(self.now.0 as i64) };
            }
        }
        self.boot = Uuid::from_random(u128::from(self.now.0) + 2);
        self.crash_agent();
    }

    pub fn client(&self) -> &Client {
        self.client.as_ref().expect("the agent runs")
    }

    /// One turn with at most one input; false if nothing was there to do.
    pub fn step(&mut self) -> bool {
        let starts = self.go_on_starting();
        let inputs: Vec<Input> = self.inbox.pop_front().into_iter().collect();
        if inputs.is_empty() {
            return starts;
        }
        self.turn(inputs);
        true
    }

    /// Hands over all that waits in one turn, as a busy driver does.
    pub fn all_at_once(&mut self) {
        let inputs = self.inbox.drain(..).collect();
        self.turn(inputs);
    }

    /// True while some process is being started.
    fn go_on_starting(&mut self) -> bool {
        let mut over = Vec::new();
        for process in self.processes.iter_mut().filter(|p| p.starting > 0) {
            process.starting -= 1;
            if process.starting == 0 {
                over.push((process.run, process.state.clone(), process.stop_signal));
            }
        }
        let any = !over.is_empty() || self.processes.iter().any(|p| p.starting > 0);
        for (run, state, stop) in over {
            if let (RunState::Running { pid, since }, true) = (state, self.keeper_up) {
                self.inbox.push_back(Input::Keeper(keeper::Event::Started { run, pid, at: since }));
            }
            if let Some(signal) = stop {
                self.end(run, ExitStatus::Signal(signal));
            }
        }
        any
    }

    fn turn(&mut self, inputs: Vec<Input>) {
        self.now = Mono(self.now.0 + 1);
        self.turns += 1;
        let now = self.now();
        let client = self.client.as_mut().expect("the agent runs");
        let effects = client.turn(now, inputs).expect("the disk is sound");
        for effect in effects {
            self.execute_effect(effect);
        }
    }

    /// Until nothing is on its way any more.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.step() {
                return;
            }
        }
        panic!("never at rest: {:#?}", &self.trace[self.trace.len() - 20..]);
    }

    /// Lets time pass, from deadline to deadline.
    pub fn pass(&mut self, span: Span) {
        self.settle();
        let end = self.now.after(span);
        for _ in 0..100_000 {
            let exits = self.processes.iter().filter_map(|p| p.kill_at);
            let own = self.client().next_deadline();
            assert!(own.is_none_or(|at| at >= self.now), "a deadline in the past");
            let next = own.into_iter().chain(exits).min();
            let Some(next) = next.filter(|at| *at <= end) else {
                self.now = self.now.max(end);
                return;
            };
            self.now = self.now.max(next);
            self.kill_overdue();
            self.turn(Vec::new());
            self.settle();
        }
        panic!("too many deadlines");
    }

    fn kill_overdue(&mut self) {
        let due: Vec<_> =
            self.processes.iter().filter(|p| p.kill_at.is_some_and(|at| at <= self.now)).collect();
        for run in due.into_iter().map(|p| p.run).collect::<Vec<_>>() {
            self.end(run, ExitStatus::Signal(9));
        }
    }

    fn execute_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, bytes } => self.serve(to, &bytes),
            Effect::Keeper(command) if self.keeper_up => self.keep(command),
            Effect::Keeper(command) => {
                let unheard = self.inbox.iter().any(|i| matches!(i, Input::KeeperDown { .. }));
                assert!(unheard, "said to a keeper that is known to be away: {command:?}");
            }
            Effect::BuildDir(dir) => {
                let names: Vec<_> = dir.tasks.iter().map(|t| t.name.as_str()).collect();
                self.trace.push(format!("build {}", names.join(" ")));
                self.inbox.push_back(Input::DirBuilt { alloc: dir.alloc, result: Ok(()) });
            }
            Effect::RemoveDir { alloc } => {
                self.trace.push("remove dir".into());
                self.inbox.push_back(Input::DirRemoved { alloc, result: Ok(()) });
            }
            Effect::Answer { result, .. } => self.answers.push(result),
            Effect::Forwarded { token, result } => self.user_answers.push((token, result)),
            Effect::ShutdownComplete => self.trace.push("done".into()),
        }
    }

    pub fn name(&self, run: RunId) -> String {
        let position = self.processes.iter().position(|p| p.run == run);
        position.map_or("?".into(), |at| format!("{}#{}", self.processes[at].label, at + 1))
    }

    fn welcome(&mut self) {
        let report = |p: &Process| RunReport { run: p.run, label: p.label.clone(), state: p.state.clone() };
        self.inbox.push_back(Input::Keeper(keeper::Event::Welcome {
            protocol: keeper::PROTOCOL,
            boot_id: self.boot,
            keeper_pid: 1,
            runs: self
                .processes
                .iter()
                .filter(|p| !p.label.is_empty() && p.starting == 0)
                .map(report)
                .collect(),
        }));
    }

    fn keep(&mut self, command: keeper::KeeperCommand) {
        match command {
            keeper::KeeperCommand::List => self.welcome(),
            keeper::KeeperCommand::Start { run, spec } => self.start(run, &spec.label),
            keeper::KeeperCommand::Stop { run, signal, timeout } => {
                self.trace.push(format!("stop {} {signal} {timeout}", self.name(run)));
                let now = self.now;
                let stubborn = self.stubborn.clone();
                let Some(process) = self.processes.iter_mut().find(|p| p.run == run) else {
                    let refused = keeper::Event::Refused { run: Some(run), message: "no such run".into() };
                    return self.inbox.push_back(Input::Keeper(refused));
                };
                if process.starting > 0 {
                    process.stop_signal = Some(signal);
                } else if stubborn.contains(&process.label) {
                    process.kill_at.get_or_insert(now.after(timeout));
                } else {
                    self.end(run, ExitStatus::Signal(signal));
                }
            }
            keeper::KeeperCommand::Signal { run, signal } => {
                self.trace.push(format!("signal {} {signal}", self.name(run)));
            }
            keeper::KeeperCommand::Forget { run } => {
                self.trace.push(format!("forget {}", self.name(run)));
                if let Some(process) = self.processes.iter_mut().find(|p| p.run == run) {
                    assert!(!matches!(process.state, RunState::Running { .. }), "forgot a living process");
                    process.label.clear();
                }
            }
            other => panic!("unexpected: {other:?}"),
        }
    }

    fn start(&mut self, run: RunId, label: &str) {
        if let Some(known) = self.processes.iter().find(|p| p.run == run) {
            if known.starting > 0 {
                return;
            }
            let event = match &known.state {
                RunState::Running { pid, since } => keeper::Event::Started { run, pid: *pid, at: *since },
                RunState::Exited { exit, at } => keeper::Event::Exited { run, exit: *exit, at: *at },
                RunState::StartFailed { .. } => return,
            };
            return self.inbox.push_back(Input::Keeper(event));
        }
        let full_label = label.to_string();
        let label = label.split_once('.').map_or(label, |(_, task)| task).to_string();
        let (pid, at) = (100 + self.processes.len() as u32, Wall(self.now.0 as i64));
        let state = RunState::Running { pid, since: at };
        let starting = self.slow_start;
        self.processes.push(Process {
            run,
            label,
            full_label,
            state,
            starting,
            stop_signal: None,
            kill_at: None,
        });
        self.trace.push(format!("start {}", self.name(run)));
        if starting == 0 {
            self.inbox.push_back(Input::Keeper(keeper::Event::Started { run, pid, at }));
        }
        if self.brief.contains(&self.processes[self.processes.len() - 1].label) {
            self.end(run, ExitStatus::Code(0));
        }
    }

    pub fn end(&mut self, run: RunId, status: ExitStatus) {
        self.end_with(run, Exit { status, oom_killed: false });
    }

    pub fn end_with(&mut self, run: RunId, exit: Exit) {
        let at = Wall(self.now.0 as i64);
        let up = self.keeper_up;
        let Some(process) = self.processes.iter_mut().find(|p| p.run == run) else { return };
        process.kill_at = None;
        if !matches!(process.state, RunState::Running { .. }) {
            return;
        }
        process.state = RunState::Exited { exit, at };
        if up {
            self.inbox.push_back(Input::Keeper(keeper::Event::Exited { run, exit, at }));
        }
    }

    /// The newest process of a task ends by itself.
    pub fn exit(&mut self, task: &str, code: i32) {
        let newest = self.processes.iter().rev().find(|p| p.label == task).map(|p| p.run);
        self.exit_run(newest.expect("the task has run"), code);
    }

    pub fn exit_run(&mut self, run: RunId, code: i32) {
        self.end(run, ExitStatus::Code(code));
        self.settle();
    }

    pub fn drop_keeper(&mut self) {
        self.keeper_up = false;
        self.inbox.retain(|i| !matches!(i, Input::Keeper(_) | Input::KeeperUp));
        self.inbox.push_back(Input::KeeperDown { why: "it closed".into() });
        self.settle();
    }

    pub fn raise_keeper(&mut self) {
        self.keeper_up = true;
        self.inbox.push_back(Input::KeeperUp);
        self.welcome();
        self.settle();
    }

    fn serve(&mut self, to: Peer, bytes: &[u8]) {
        let (request, asked) = match frame::decode(bytes) {
            Ok(Frame { request, body: Body::Request(asked) }) => (request, asked),
            Ok(Frame { request, body: Body::HttpRequest(asked) }) => {
                return self.passed_on.push((to, request, asked));
            }
            _ => panic!("no request: {bytes:?}"),
        };
        self.requests += 1;
        self.asked.insert(to);
        let is_gone = self.gone.iter().any(|id| to == Peer::Server(*id));
        if is_gone || !self.server_up || self.lose_every.is_some_and(|n| self.requests.is_multiple_of(n)) {
            return;
        }
        let reply = match asked {
            _ if to != Peer::Server(self.leader) => NodeReply::NoLeader,
            NodeRequest::Register { info } => {
                (self.registered, self.registrations) = (info, self.registrations + 1);
                self.unknown_node = false;
                NodeReply::Alive { ttl: Span::seconds(10), info: info_digest(&self.registered) }
            }
            _ if self.unknown_node => NodeReply::UnknownNode,
            NodeRequest::Heartbeat { .. } => {
                self.wants_heartbeat = false;
                let ttl = Span::seconds(10);
                let info = info_digest(&self.registered);
                if self.missed { NodeReply::Missed { ttl, info } } else { NodeReply::Alive { ttl, info } }
            }
            NodeRequest::Report { .. } if self.servers_full => NodeReply::TryLater,
            NodeRequest::Report { .. } if self.wants_heartbeat => NodeReply::HeartbeatFirst,
            NodeRequest::Watch { generation, since, servers, .. } => {
                let is_other = generation != self.generation;
                let (since, servers) = if is_other { (0, 0) } else { (since, servers) };
                self.watch = Some(Watch { request, since, servers });
                return self.answer_watch();
            }
            NodeRequest::Fetch { allocs, .. } => NodeReply::Fetched {
                assignments: match self.stale.take_if(|stale| allocs.contains(&stale.id)) {
                    Some(stale) => vec![stale],
                    None => allocs.iter().filter_map(|id| self.assigned.get(id).cloned()).collect(),
                },
            },
            NodeRequest::Report { seen, updates, verdicts, .. } => self.hear_all(seen, updates, verdicts),
        };
        self.answer(to, request, reply);
    }

    pub fn answer(&mut self, from: Peer, request: u64, reply: NodeReply) {
        let bytes = frame::encode(&Frame { request, body: Body::Reply(reply) });
        for _ in 0..if self.duplicate { 2 } else { 1 } {
            self.inbox.push_back(Input::Frame { from, bytes: bytes.clone() });
        }
    }
}
