//! A node's machine: the client's brain and store, the keeper's brain and journal, the processes, the directories. Agent,
//! keeper and machine die separately, and each leaves behind what such a death leaves behind in life.

use super::disk::{SimDisk, SimFile};
use super::server_host::MAX_FAILED_OPENS;
use super::world::{Event, Who, World};
use crate::client::Client;
use crate::client::config::Config;
use crate::client::effects::{Effect, Input};
use crate::keeper::brain::{self as keeper, Keeper};
use crate::model::id::{AllocId, NodeId, NodeSecret, RunId, Uuid};
use crate::model::node::{DriverInfo, NodeInfo};
use crate::model::random::Stream;
use crate::model::resources::Amount;
use crate::model::task::{Exit, ExitStatus};
use crate::model::time::{Mono, Span, Wall};
use crate::state::local::LocalStore;
use crate::wire::keeper::{Command, Event as KeeperEvent, PROTOCOL, RunSpec};
use crate::wire::rpc::Peer;
use std::collections::{BTreeMap, BTreeSet};

pub struct NodeHost {
    pub number: usize,
    id: NodeId,
    secret: NodeSecret,
    draws: Stream,
    pub disk: SimDisk,
    pub client: Option<Client>,
    inbox: Vec<Input>,
    turn_at: Option<Mono>,
    /// Counted up whenever the agent starts: what was asked for in an earlier life is not answered in a later one.
    agent_life: u64,
    failed_opens: u32,
    pub journal: SimFile,
    pub keeper: Option<Keeper>,
    keeper_inbox: Vec<keeper::Input>,
    keeper_turn_at: Option<Mono>,
    keeper_life: u64,
    /// The connection between the two, while it stands.
    connection: Option<u64>,
    connections: u64,
    pub processes: BTreeMap<u32, Process>,
    next_pid: u32,
    pub dirs: BTreeSet<AllocId>,
    boot: u64,
    pub paused_until: Mono,
    pub skew: Option<Span>,
    /// How each run that came to an end did end, and whether its keeper saw it.
    pub ends: BTreeMap<RunId, (Exit, bool)>,
}

/// A process that exists.
#[derive(Clone, Debug)]
pub struct Process {
    pub run: RunId,
    pub label: String,
    /// It has become its command.
    pub running: bool,
    /// The life of the keeper whose child it is: only that one sees its exit status.
    parent: u64,
    stubborn: bool,
    spec: Box<RunSpec>,
}

/// Why a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// Its program is over.
    Exit(i32),
    Signal(i32),
}

impl NodeHost {
    pub fn new(number: usize, seed: u64) -> Self {
        let mut draws = Stream::new(seed, 103);
        NodeHost {
            number,
            id: NodeId::from_random(draws.next_u128()),
            secret: NodeSecret::from_random(draws.next_u128()),
            disk: SimDisk::new(draws.next_u64()),
            client: None,
            inbox: vec![],
            turn_at: None,
            agent_life: 0,
            failed_opens: 0,
            journal: SimFile::new(draws.next_u64()),
            keeper: None,
            keeper_inbox: vec![],
            keeper_turn_at: None,
            keeper_life: 0,
            connection: None,
            connections: 0,
            processes: BTreeMap::new(),
            next_pid: 100,
            dirs: BTreeSet::new(),
            boot: 1,
            paused_until: Mono::default(),
            skew: Some(Span::ZERO),
            ends: BTreeMap::new(),
            draws,
        }
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    fn boot_id(&self) -> Uuid {
        Uuid::from_random(u128::from(self.boot) << 64 | u128::from(self.number as u64))
    }

    fn info(&self) -> NodeInfo {
        let raw_exec = DriverInfo {
            detected: true,
            healthy: true,
            description: "Healthy".into(),
            attributes: BTreeMap::new(),
            updated: Wall::NEVER,
        };
        NodeInfo {
            id: self.id,
            secret: self.secret,
            name: format!("node-{}", self.number),
            datacenter: "dc1".into(),
            pool: "default".into(),
            class: String::new(),
            http_addr: String::new(),
            attributes: [("kernel.name", "linux"), ("driver.raw_exec", "1")]
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .into(),
            meta: BTreeMap::new(),
            capacity: Amount { cpu_mhz: 1000, memory_mb: 1000, disk_mb: 10_000 },
            reserved: Amount::ZERO,
            cpu_cores: 4,
            networks: vec![],
            drivers: [("raw_exec".to_string(), raw_exec)].into(),
            not_enforced: vec![],
        }
    }
}

/// The agent.
impl World {
    pub fn start_agent(&mut self, n: usize) -> Result<(), String> {
        let now = self.now_of(self.nodes[n].skew);
        let host = &mut self.nodes[n];
        host.agent_life += 1;
        let (store, recovered) = match LocalStore::open(host.disk.backend()) {
            Ok(opened) => opened,
            Err(e) => return self.agent_does_not_open(n, &e.to_string()),
        };
        host.failed_opens = 0;
        let mut config = Config::new(host.id, host.secret, format!("/node-{n}/alloc"));
        config.servers = vec![super::server_host::SERVER_ID];
        let seed = host.draws.next_u64();
        host.client = Some(Client::new(config, store, recovered, seed, now));
        host.inbox.clear();
        host.turn_at = None;
        let info = Box::new(host.info());
        self.note(|w| format!("node {n}  agent starts, life {}", w.nodes[n].agent_life));
        self.node_input(n, Input::Fingerprint(info));
        self.after(Span::millis(1), Event::Connect { node: n });
        Ok(())
    }

    fn agent_does_not_open(&mut self, n: usize, why: &str) -> Result<(), String> {
        self.note(|_| format!("node {n}  agent does not open its store: {why}"));
        let host = &mut self.nodes[n];
        host.failed_opens += 1;
        if host.failed_opens > MAX_FAILED_OPENS {
            return Err(format!("the store of node {n} does not open: {why}"));
        }
        if host.disk.is_dead() {
            host.disk.power_on();
        }
        self.faults.fired("agent did not open");
        self.after(Span::seconds(1), Event::Start(Who::Agent(n)));
        Ok(())
    }

    pub fn stop_agent(&mut self, n: usize) {
        let host = &mut self.nodes[n];
        // killed: what it still holds in memory reaches the disk no more
        host.disk.detach();
        host.client = None;
        host.inbox.clear();
        if let Some(connection) = host.connection.take() {
            let life = host.keeper_life;
            let gone = Box::new(keeper::Input::Gone { client: connection });
            self.after(Span(50_000), Event::ToKeeper { node: n, life, input: gone });
        }
    }

    pub fn node_input(&mut self, n: usize, input: Input) {
        if self.nodes[n].client.is_some() {
            self.nodes[n].inbox.push(input);
            self.wake_node(n, Span(10_000));
        }
    }

    fn wake_node(&mut self, n: usize, delay: Span) {
        let at = self.now.after(delay).max(self.nodes[n].paused_until);
        if self.nodes[n].turn_at.is_none_or(|t| t > at) {
            self.nodes[n].turn_at = Some(at);
            self.at(at, Event::NodeTurn { node: n, at });
        }
    }

    pub fn node_turn(&mut self, n: usize, at: Mono) -> Result<(), String> {
        let now = self.now_of(self.nodes[n].skew);
        let host = &mut self.nodes[n];
        if host.turn_at != Some(at) {
            return Ok(());
        }
        host.turn_at = None;
        if self.now < host.paused_until {
            self.wake_node(n, Span(1));
            return Ok(());
        }
        let inputs = std::mem::take(&mut host.inbox);
        let Some(client) = &mut host.client else { return Ok(()) };
        self.turns += 1;
        match client.turn(now, inputs) {
            Ok(effects) => {
                for effect in effects {
                    self.obey_client(n, effect);
                }
            }
            Err(fault) => {
                self.note(|_| format!("node {n}  agent fault: {fault}"));
                self.crash_agent(n);
            }
        }
        if let Some(deadline) = self.nodes[n].client.as_ref().and_then(Client::next_deadline) {
            let wait = deadline.since(self.now).max(Span(10_000));
            self.wake_node(n, wait);
        }
        Ok(())
    }

    /// The agent ends and is started again by its supervisor.
    pub fn crash_agent(&mut self, n: usize) {
        self.stop_agent(n);
        if self.nodes[n].disk.is_dead() {
            self.nodes[n].disk.power_on();
        }
        let back_after = self.delay(Span::millis(100), Span::seconds(10));
        self.after(back_after, Event::Start(Who::Agent(n)));
    }

    fn obey_client(&mut self, n: usize, effect: Effect) {
        match effect {
            Effect::Send { to, bytes } => {
                let from = Peer::Node(self.nodes[n].id);
                self.send(from, to, bytes);
            }
            Effect::Keeper(command) => self.ask_keeper(n, command),
            Effect::BuildDir(spec) => self.dir_work(n, spec.alloc, false),
            Effect::RemoveDir { alloc } => self.dir_work(n, alloc, true),
            Effect::Done => {}
        }
    }

    fn dir_work(&mut self, n: usize, alloc: AllocId, removed: bool) {
        let life = self.nodes[n].agent_life;
        let delay = self.delay(Span(100_000), Span::millis(5));
        self.after(delay, Event::Dir { node: n, life, alloc, removed });
    }

    pub fn dir_done(&mut self, n: usize, life: u64, alloc: AllocId, removed: bool) {
        if removed {
            self.nodes[n].dirs.remove(&alloc);
        } else {
            self.nodes[n].dirs.insert(alloc);
        }
        if life == self.nodes[n].agent_life {
            let result = Ok(());
            let done =
                if removed { Input::DirRemoved { alloc, result } } else { Input::DirBuilt { alloc, result } };
            self.node_input(n, done);
        }
    }
}

/// The keeper.
impl World {
    pub fn start_keeper(&mut self, n: usize) {
        let wall = self.now_of(self.nodes[n].skew).wall.unwrap_or(Wall::NEVER);
        let host = &mut self.nodes[n];
        host.keeper_life += 1;
        let bytes = host.journal.contents();
        let (brain, restored) = Keeper::restore(host.boot_id(), 1000 + host.keeper_life as u32, &bytes, wall);
        let life = host.keeper_life;
        host.keeper = Some(brain);
        host.keeper_inbox.clear();
        host.keeper_turn_at = None;
        self.note(|_| {
            format!("node {n}  keeper starts, life {life}, {} runs adopted", restored.running.len())
        });
        if !self.write_journal(n, &restored.write) {
            return self.crash_keeper(n);
        }
        for adopted in restored.running {
            let alive = self.nodes[n].processes.contains_key(&adopted.process.pid);
            if !alive {
                let exit = Exit { status: ExitStatus::Unknown, oom_killed: false };
                self.keeper_input(n, life, keeper::Input::Exited { run: adopted.run, exit });
            }
        }
        // what ended runs left behind is killed first, and so is a process that no journal entry was kept for
        let known: BTreeSet<RunId> = restored.ended.iter().map(|(run, _)| *run).collect();
        let strays: Vec<u32> = self.nodes[n]
            .processes
            .iter()
            .filter(|(_, p)| known.contains(&p.run) || !p.running)
            .map(|(pid, _)| *pid)
            .collect();
        for pid in strays {
            self.process_ends(n, pid, ProcessEnd::Signal(9));
        }
        self.after(Span::millis(1), Event::Connect { node: n });
    }

    pub fn crash_keeper(&mut self, n: usize) {
        let host = &mut self.nodes[n];
        host.keeper = None;
        host.keeper_inbox.clear();
        if host.connection.take().is_some() {
            self.node_input(n, Input::KeeperDown { why: "the keeper is gone".into() });
        }
        let back_after = self.delay(Span::millis(50), Span::seconds(5));
        self.after(back_after, Event::Start(Who::Keeper(n)));
    }

    pub fn connect(&mut self, n: usize) {
        let host = &mut self.nodes[n];
        if host.connection.is_some() || host.keeper.is_none() || host.client.is_none() {
            return;
        }
        host.connections += 1;
        host.connection = Some(host.connections);
        self.ask_keeper(n, Command::Hello { protocol: PROTOCOL });
        self.node_input(n, Input::KeeperUp);
    }

    fn ask_keeper(&mut self, n: usize, command: Command) {
        let Some(client) = self.nodes[n].connection else { return };
        let life = self.nodes[n].keeper_life;
        let input = Box::new(keeper::Input::Command { client, command });
        // a stream: what is sent first arrives first
        self.after(Span(50_000), Event::ToKeeper { node: n, life, input });
    }

    pub fn keeper_input(&mut self, n: usize, life: u64, input: keeper::Input) {
        let host = &mut self.nodes[n];
        if host.keeper.is_some() && host.keeper_life == life {
            host.keeper_inbox.push(input);
            self.wake_keeper(n, Span(10_000));
        }
    }

    fn wake_keeper(&mut self, n: usize, delay: Span) {
        let at = self.now.after(delay);
        if self.nodes[n].keeper_turn_at.is_none_or(|t| t > at) {
            self.nodes[n].keeper_turn_at = Some(at);
            self.at(at, Event::KeeperTurn { node: n, at });
        }
    }

    pub fn keeper_turn(&mut self, n: usize, at: Mono) -> Result<(), String> {
        let wall = self.now_of(self.nodes[n].skew).wall.unwrap_or(Wall::NEVER);
        let now = self.now;
        let host = &mut self.nodes[n];
        if host.keeper_turn_at != Some(at) {
            return Ok(());
        }
        host.keeper_turn_at = None;
        let inputs = std::mem::take(&mut host.keeper_inbox);
        let Some(brain) = &mut host.keeper else { return Ok(()) };
        self.turns += 1;
        let mut turn = brain.turn(now, wall, inputs);
        for effect in std::mem::take(&mut turn.now) {
            self.obey_keeper(n, effect)?;
        }
        if !self.write_journal(n, &turn.write) {
            self.crash_keeper(n);
            return Ok(());
        }
        for effect in turn.later(keeper::Durable) {
            self.obey_keeper(n, effect)?;
        }
        self.check_processes()?;
        if let Some(deadline) = self.nodes[n].keeper.as_ref().and_then(Keeper::next_deadline) {
            let wait = deadline.since(self.now).max(Span(10_000));
            self.wake_keeper(n, wait);
        }
        Ok(())
    }

    /// False when the disk failed.
    fn write_journal(&mut self, n: usize, write: &keeper::Write) -> bool {
        let journal = &mut self.nodes[n].journal;
        let done = match write {
            keeper::Write::Nothing => Ok(()),
            keeper::Write::Append { bytes, sync } => {
                journal.append(bytes).and_then(|()| if *sync { journal.sync() } else { Ok(()) })
            }
            keeper::Write::Replace(bytes) => journal.replace(bytes),
        };
        done.is_ok()
    }

    fn obey_keeper(&mut self, n: usize, effect: keeper::Effect) -> Result<(), String> {
        use keeper::Effect as E;
        match effect {
            E::Spawn { run, spec } => self.spawn(n, run, spec),
            E::Release { run } => self.release(n, run),
            E::Signal { run, signal } => self.signal(n, run, signal),
            E::Kill { run } => {
                self.check_kill(n, run)?;
                self.kill(n, run);
            }
            E::Sweep { run } => {
                let life = self.nodes[n].keeper_life;
                let input = Box::new(keeper::Input::Swept { run, empty: true });
                self.after(Span(30_000), Event::ToKeeper { node: n, life, input });
            }
            E::Send { client, event } => {
                let event = Box::new(event);
                self.after(Span(50_000), Event::FromKeeper { node: n, connection: client, event });
            }
            E::Disconnect { client } => {
                if self.nodes[n].connection == Some(client) {
                    self.nodes[n].connection = None;
                    self.node_input(n, Input::KeeperDown { why: "disconnected".into() });
                    self.after(Span::seconds(1), Event::Connect { node: n });
                }
            }
            E::Close { .. } => {}
            E::Exit => self.crash_keeper(n),
        }
        Ok(())
    }

    pub fn keeper_told(&mut self, n: usize, connection: u64, event: KeeperEvent) {
        if self.nodes[n].connection == Some(connection) {
            self.note(|_| format!("node {n}  keeper tells {}", brief(&event)));
            self.node_input(n, Input::Keeper(event));
        }
    }
}

fn brief(event: &KeeperEvent) -> String {
    match event {
        KeeperEvent::Welcome { runs, .. } => format!("welcome, {} runs", runs.len()),
        other => format!("{other:?}"),
    }
}

/// The processes.
impl World {
    fn spawn(&mut self, n: usize, run: RunId, spec: Box<RunSpec>) {
        let life = self.nodes[n].keeper_life;
        if self.faults.one_in(60) {
            self.faults.fired("start failed");
            let message = "resource temporarily unavailable".to_string();
            let input = Box::new(keeper::Input::SpawnFailed { run, message, retryable: true });
            return self.after(Span(200_000), Event::ToKeeper { node: n, life, input });
        }
        let host = &mut self.nodes[n];
        host.next_pid += 1;
        let pid = host.next_pid;
        let label = spec.label.clone();
        let stubborn = spec.args.iter().any(|a| a == "stubborn");
        host.processes.insert(pid, Process { run, label, running: false, parent: life, stubborn, spec });
        let delay = self.delay(Span(200_000), Span::millis(3));
        let spawned = keeper::Input::Spawned { run, pid, start_ticks: u64::from(pid) };
        self.after(delay, Event::ToKeeper { node: n, life, input: Box::new(spawned) });
    }

    fn process_of(&self, n: usize, run: RunId) -> Option<u32> {
        self.nodes[n].processes.iter().find(|(_, p)| p.run == run).map(|(pid, _)| *pid)
    }

    fn release(&mut self, n: usize, run: RunId) {
        let Some(pid) = self.process_of(n, run) else { return };
        let life = self.nodes[n].keeper_life;
        let Some(process) = self.nodes[n].processes.get_mut(&pid) else { return };
        process.running = true;
        let number = |at: usize| process.spec.args.get(at).and_then(|a| a.parse::<i64>().ok()).unwrap_or(0);
        let (milliseconds, code) = (number(1), number(2) as i32);
        let label = process.label.clone();
        self.note(|_| format!("node {n}  process {pid} runs {label}"));
        if milliseconds > 0 {
            if code != 0 {
                self.faults.fired("task crashed");
            }
            self.after(
                Span::millis(milliseconds),
                Event::Process { node: n, pid, end: ProcessEnd::Exit(code) },
            );
        }
        let executed = Box::new(keeper::Input::Executed { run });
        self.after(Span(100_000), Event::ToKeeper { node: n, life, input: executed });
    }

    fn signal(&mut self, n: usize, run: RunId, signal: i32) {
        let Some(pid) = self.process_of(n, run) else { return };
        if self.nodes[n].processes.get(&pid).is_some_and(|p| p.stubborn) {
            return self.faults.fired("task ignored its signal");
        }
        let delay = self.delay(Span(10_000), Span::millis(500));
        self.after(delay, Event::Process { node: n, pid, end: ProcessEnd::Signal(signal) });
    }

    fn kill(&mut self, n: usize, run: RunId) {
        if let Some(pid) = self.process_of(n, run) {
            self.after(Span(20_000), Event::Process { node: n, pid, end: ProcessEnd::Signal(9) });
        }
    }

    pub fn process_ends(&mut self, n: usize, pid: u32, end: ProcessEnd) {
        let Some(process) = self.nodes[n].processes.remove(&pid) else { return };
        let status = match end {
            ProcessEnd::Exit(code) => ExitStatus::Code(code),
            ProcessEnd::Signal(signal) => ExitStatus::Signal(signal),
        };
        let life = self.nodes[n].keeper_life;
        let seen = self.nodes[n].keeper.is_some() && process.parent == life;
        self.note(|_| format!("node {n}  process {pid} ends {status:?}, seen {seen}"));
        let exit = Exit { status, oom_killed: false };
        self.nodes[n].ends.insert(process.run, (exit, seen));
        if self.nodes[n].keeper.is_some() {
            let told = if seen { exit } else { Exit { status: ExitStatus::Unknown, oom_killed: false } };
            self.keeper_input(n, life, keeper::Input::Exited { run: process.run, exit: told });
        }
    }

    /// The machine loses its power: every process, every unsynced byte.
    pub fn power_cut(&mut self, n: usize) {
        self.note(|_| format!("node {n}  power cut"));
        self.stop_agent(n);
        let host = &mut self.nodes[n];
        host.keeper = None;
        host.keeper_inbox.clear();
        host.connection = None;
        host.boot += 1;
        host.disk.cut_power();
        host.disk.power_on();
        host.journal.cut_power();
        for (_, process) in std::mem::take(&mut host.processes) {
            let exit = Exit { status: ExitStatus::Unknown, oom_killed: false };
            host.ends.insert(process.run, (exit, false));
        }
        let back_after = self.delay(Span::seconds(1), Span::seconds(20));
        self.after(back_after, Event::Start(Who::Keeper(n)));
        self.after(back_after, Event::Start(Who::Agent(n)));
    }
}
