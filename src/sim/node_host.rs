//! A node's machine and its agent: the client's brain and store, the directories. Agent, keeper and machine die
//! separately, and each leaves behind what such a death leaves behind in life.

use super::clock::Clock;
use super::disk::{SimDisk, SimFile};
use super::keeper_host::Stalled;
use super::output::Output;
use super::processes::{FIRST_PID, Process};
use super::server_host::{CACHE_BYTES, MAX_FAILED_OPENS};
use super::world::{Event, Who, World};
use ::keeper::brain::{self as keeper, Keeper};
use ::keeper::journal;
use ::keeper::mark::Marked;
use client::Client;
use client::config::Config;
use client::effects::{Effect, Input};
use model::claims::{NodeAddress, NodeOffers, PortRange};
use model::id::{AllocId, NodeId, NodeSecret, RunId, Uuid};
use model::node::{DriverInfo, NodeInfo};
use model::random::Stream;
use model::resources::Amount;
use model::task::Exit;
use model::time::{Mono, Span, Wall};
use state::client_store::{ClientStore, ClientStoreOpenError};
use std::collections::{BTreeMap, BTreeSet};
use wire::rpc::Peer;

pub struct NodeHost {
    pub number: usize,
    id: NodeId,
    secret: NodeSecret,
    draws: Stream,
    pub disk: SimDisk,
    pub cache_bytes: usize,
    pub client: Option<Client>,
    inbox: Vec<Input>,
    turn_at: Option<Mono>,
    /// Counted up whenever the agent starts: what was asked for in an earlier life is not answered in a later one.
    agent_life: u64,
    failed_opens: u32,
    pub journal: SimFile,
    pub keeper: Option<Keeper>,
    pub(super) keeper_inbox: Vec<keeper::Input>,
    pub(super) keeper_turn_at: Option<Mono>,
    pub(super) keeper_life: u64,
    /// Turns whose journal bytes could not be written yet.
    pub(super) stalled: Option<Stalled>,
    /// Connections up to this one ended with the binary that held them.
    pub(super) hung_up: u64,
    /// The connection between the two, while it stands.
    pub(super) connection: Option<u64>,
    pub(super) connections: u64,
    pub processes: BTreeMap<u32, Process>,
    pub(super) next_pid: u32,
    pub dirs: BTreeSet<AllocId>,
    /// Output of ended processes that the keeper has not closed yet.
    pub(super) closing: BTreeMap<RunId, Output>,
    pub(super) boot: u64,
    pub paused_until: Mono,
    /// Every write of the agent takes long until then.
    pub slow_until: Mono,
    pub full: bool,
    /// What the client was told of that.
    told_full: bool,
    pub clock: Clock,
    /// How each run that came to an end did end.
    pub ends: BTreeMap<RunId, End>,
    /// Runs whose process was let go at some time.
    pub(super) executed: BTreeSet<RunId>,
    /// Allocations that the agent has told servers to have ended.
    pub(super) reported_ended: BTreeSet<AllocId>,
}

/// How a process ended, and whether its parent was there.
#[derive(Clone, Debug)]
pub struct End {
    pub label: String,
    pub exit: Exit,
    pub seen: bool,
}

impl NodeHost {
    pub fn new(number: usize, seed: u64) -> Self {
        let mut draws = Stream::new(seed, 103);
        NodeHost {
            number,
            id: NodeId::from_random(draws.next_u128()),
            secret: NodeSecret::from_random(draws.next_u128()),
            disk: SimDisk::new(draws.next_u64()),
            cache_bytes: CACHE_BYTES,
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
            stalled: None,
            hung_up: 0,
            connection: None,
            connections: 0,
            processes: BTreeMap::new(),
            next_pid: FIRST_PID,
            dirs: BTreeSet::new(),
            closing: BTreeMap::new(),
            boot: 1,
            paused_until: Mono::default(),
            slow_until: Mono::default(),
            full: false,
            told_full: false,
            clock: Clock::right(),
            ends: BTreeMap::new(),
            executed: BTreeSet::new(),
            reported_ended: BTreeSet::new(),
            draws,
        }
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    pub(super) fn boot_id(&self) -> Uuid {
        Uuid::from_random(u128::from(self.boot) << 64 | u128::from(self.number as u64))
    }

    /// What a look at every process finds: of one that waits, the environment is still the keeper's.
    pub(super) fn marked(&self, since: Wall) -> Vec<Marked> {
        let mark = |(pid, p): (&u32, &Process)| {
            let process = journal::Process { pid: *pid, start_ticks: p.start_ticks, since };
            p.running.then(|| Marked { run: p.run, label: p.label.clone(), process })
        };
        self.processes.iter().filter_map(mark).collect()
    }

    fn info(&self) -> NodeInfo {
        let raw_exec = DriverInfo {
            detected: true,
            healthy: true,
            description: "Healthy".into(),
            attributes: BTreeMap::new(),
            updated: Wall::NEVER,
        };
        let address = NodeAddress {
            alias: "default".into(),
            device: "eth0".into(),
            address: format!("10.0.0.{}", self.number),
            reserved_ports: String::new(),
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
            capacity: Amount { cpu_mhz: 1000, memory_mb: 1000, disk_mb: 10_000, ..Amount::ZERO },
            reserved: Amount::ZERO,
            cpu_cores: 4,
            networks: vec![],
            drivers: [("raw_exec".to_string(), raw_exec)].into(),
            not_enforced: vec![],
            offers: NodeOffers {
                network_modes: vec!["host".into()],
                addresses: vec![address],
                dynamic_ports: PortRange { min: 20_000, max: 20_007 },
                ..NodeOffers::default()
            },
            max_allocs: 0,
        }
    }
}

/// The agent.
impl World {
    pub fn start_agent(&mut self, n: usize) -> Result<(), String> {
        let now = self.nodes[n].clock.at(self.now);
        let host = &mut self.nodes[n];
        host.agent_life += 1;
        let (store, recovered) = match ClientStore::open_with(host.disk.backend(), host.cache_bytes) {
            Ok(opened) => opened,
            Err(ClientStoreOpenError::Damaged(why)) => return self.agent_refuses(n, &why),
            Err(e) => return self.agent_does_not_open(n, &e.to_string()),
        };
        host.failed_opens = 0;
        host.disk.settle();
        let mut config = Config::new(host.id, host.secret, format!("/node-{n}/alloc"));
        config.servers = vec![super::server_host::SERVER_ID];
        let seed = host.draws.next_u64();
        host.client = Some(Client::new(config, store, recovered, seed, now));
        host.inbox.clear();
        host.turn_at = None;
        host.told_full = false;
        let info = Box::new(host.info());
        self.note(|w| format!("node {n}  agent starts, life {}", w.nodes[n].agent_life));
        self.node_input(n, Input::Fingerprint(info));
        self.after(Span::millis(1), Event::Connect { node: n });
        Ok(())
    }

    fn agent_does_not_open(&mut self, n: usize, why: &str) -> Result<(), String> {
        self.note(|_| format!("node {n}  agent does not open its store: {why}"));
        if self.nodes[n].disk.is_dead() {
            self.power_cut(n);
            return Ok(());
        }
        let host = &mut self.nodes[n];
        host.failed_opens += u32::from(!host.full);
        if host.failed_opens > MAX_FAILED_OPENS {
            return Err(format!("the store of node {n} does not open: {why}"));
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

    pub(super) fn wake_node(&mut self, n: usize, delay: Span) {
        let at = self.now.after(delay).max(self.nodes[n].paused_until);
        if self.nodes[n].turn_at.is_none_or(|t| t > at) {
            self.nodes[n].turn_at = Some(at);
            self.at(at, Event::NodeTurn { node: n, at });
        }
    }

    pub fn node_turn(&mut self, n: usize, at: Mono) -> Result<(), String> {
        let now = self.nodes[n].clock.at(self.now);
        let host = &mut self.nodes[n];
        if host.turn_at != Some(at) {
            return Ok(());
        }
        host.turn_at = None;
        if self.now < host.paused_until {
            self.wake_node(n, Span(1));
            return Ok(());
        }
        let Some(client) = &mut host.client else { return Ok(()) };
        let mut inputs = std::mem::take(&mut host.inbox);
        if host.full != host.told_full {
            host.told_full = host.full;
            inputs.insert(0, Input::Space { free: !host.full });
        }
        let refused = host.disk.counts().refused_for_space;
        self.turns += 1;
        match client.turn(now, inputs) {
            Ok(effects) => {
                let slow = self.now < self.nodes[n].slow_until && !effects.is_empty();
                if slow {
                    self.lag = self.delay(Span::millis(20), Span::seconds(3));
                    self.nodes[n].paused_until = self.nodes[n].paused_until.max(self.now.after(self.lag));
                }
                for effect in effects {
                    self.obey_client(n, effect)?;
                }
                self.lag = Span::ZERO;
            }
            Err(fault) => {
                self.note(|_| format!("node {n}  agent fault: {fault}"));
                if self.nodes[n].disk.counts().refused_for_space > refused {
                    return Err(format!("the client of node {n} wrote to a disk that it knows to be full"));
                }
                self.agent_found_rot(n, &fault)?;
                if self.nodes[n].disk.is_dead() {
                    self.power_cut(n);
                } else {
                    self.crash_agent(n);
                }
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
        let back_after = self.delay(Span::millis(100), Span::seconds(10));
        self.after(back_after, Event::Start(Who::Agent(n)));
    }

    fn obey_client(&mut self, n: usize, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Send { to, bytes } => {
                self.check_report(n, &bytes)?;
                let from = Peer::Node(self.nodes[n].id);
                self.send(from, to, bytes);
            }
            Effect::Keeper(command) => self.ask_keeper(n, command),
            Effect::BuildDir(spec) => self.dir_work(n, spec.alloc, false),
            Effect::RemoveDir { alloc } => self.dir_work(n, alloc, true),
            Effect::Answer { .. } | Effect::Done => {}
        }
        Ok(())
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
