//! A node's machine and its agent: the client's brain and store, the directories. Agent, keeper and machine die
//! separately, and each leaves behind what such a death leaves behind in life.

use super::clock::Clock;
use super::contact::Contact;
use super::disk::{SimDisk, SimFile};
use super::exec_sessions::Session;
use super::faults::Kind;
use super::keeper_host::Stalled;
use super::output::Output;
use super::place::{Daemon, Machine, NodeAt};
use super::processes::{FIRST_PID, Process};
use super::server_host::{MAX_FAILED_OPENS, ServerHost};
use super::task_places::TaskPlace;
use super::world::{Event, World};
use super::worlds::NodeTraits;
use ::keeper::brain::Keeper;
use ::keeper::effects as keeper;
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
use model::task::{Exit, ExitStatus};
use model::time::{Mono, Span, Wall};
use state::client_store::{ClientStore, ClientStoreOpenError};
use std::collections::{BTreeMap, BTreeSet};

/// So little that the store's log begins anew all the time.
const SEGMENT_BYTES: u64 = 48 << 10;

pub struct NodeHost {
    pub at: NodeAt,
    id: NodeId,
    secret: NodeSecret,
    draws: Stream,
    pub disk: SimDisk,
    pub segment_bytes: u64,
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
    /// A sync of this keeper has failed.
    pub(super) journal_must_be_replaced: bool,
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
    /// The end of a pause that has kept it from nothing yet.
    pub uncounted_pause: Option<Mono>,
    /// Every write of the agent takes long until then.
    pub slow_until: Mono,
    pub full: bool,
    /// What the client was told of that.
    told_full: bool,
    pub clock: Clock,
    pub traits: NodeTraits,
    /// How many of the region's servers its configuration names; `None`: all.
    pub names_servers: Option<usize>,
    /// With its servers.
    pub contact: Contact,
    /// How each run that came to an end did end.
    pub ends: BTreeMap<RunId, End>,
    /// Runs whose process was let go at some time.
    pub(super) executed: BTreeSet<RunId>,
    /// Runs that a journal knew whose bits have flipped since.
    pub(super) doubtful: BTreeSet<RunId>,
    /// How often the keeper has died.
    pub(super) keeper_deaths: u64,
    /// Allocations that the agent has told servers to have ended.
    pub(super) reported_ended: BTreeSet<AllocId>,
    /// What users run beside tasks, by the connection to the keeper.
    pub(super) sessions: BTreeMap<u64, Session>,
    /// The tasks of each allocation of which anything was started.
    pub(super) places: BTreeMap<AllocId, Vec<TaskPlace>>,
}

/// How a process ended, and whether its parent was there.
#[derive(Clone, Debug)]
pub struct End {
    pub label: String,
    pub exit: Exit,
    pub seen: bool,
    /// The keeper's deaths before it.
    pub keeper_deaths: u64,
    /// What the agent was told of it last.
    pub told: Option<ExitStatus>,
    pub at: Mono,
    /// The machine's boot then.
    pub boot: u64,
}

impl NodeHost {
    pub fn new(at: NodeAt, seed: u64) -> Self {
        let mut draws = Stream::new(seed, 103);
        NodeHost {
            at,
            id: NodeId::from_random(draws.next_u128()),
            secret: NodeSecret::from_random(draws.next_u128()),
            disk: SimDisk::new(draws.next_u64()),
            segment_bytes: SEGMENT_BYTES,
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
            journal_must_be_replaced: false,
            hung_up: 0,
            connection: None,
            connections: 0,
            processes: BTreeMap::new(),
            next_pid: FIRST_PID,
            dirs: BTreeSet::new(),
            closing: BTreeMap::new(),
            boot: 1,
            paused_until: Mono::default(),
            uncounted_pause: None,
            slow_until: Mono::default(),
            full: false,
            told_full: false,
            clock: Clock::right(),
            traits: NodeTraits::plain(),
            names_servers: None,
            contact: Contact::default(),
            ends: BTreeMap::new(),
            executed: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            keeper_deaths: 0,
            reported_ended: BTreeSet::new(),
            sessions: BTreeMap::new(),
            places: BTreeMap::new(),
            draws,
        }
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Empty disks take the place of these, and with them another node this one's. Nothing runs here.
    pub fn replace_disks(&mut self) {
        self.id = NodeId::from_random(self.draws.next_u128());
        self.secret = NodeSecret::from_random(self.draws.next_u128());
        self.disk = SimDisk::new(self.draws.next_u64());
        self.journal = SimFile::new(self.draws.next_u64());
        self.failed_opens = 0;
        self.dirs.clear();
    }

    pub(super) fn boot_id(&self) -> Uuid {
        Uuid::from_random(u128::from(self.boot) << 64 | u128::from(self.at.node as u64))
    }

    /// What a look at every process finds: of one that waits, the environment is still the keeper's.
    pub(super) fn marked(&self, since: Wall) -> Vec<Marked> {
        let mark = |(pid, p): (&u32, &Process)| {
            let process = journal::Process { pid: *pid, start_ticks: p.start_ticks, since };
            p.running.then(|| Marked { run: p.run, label: p.label.clone(), process })
        };
        self.processes.iter().filter_map(mark).collect()
    }

    pub fn info(&self) -> NodeInfo {
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
            address: format!("10.0.{}.{}", self.at.region, self.at.node),
            reserved_ports: String::new(),
        };
        let rack = Some(self.traits.rack.clone()).filter(|r| !r.is_empty()).map(|r| ("rack".to_string(), r));
        NodeInfo {
            id: self.id,
            secret: self.secret,
            name: format!("node-{}", self.at.node),
            datacenter: "dc1".into(),
            pool: "default".into(),
            class: self.traits.class.clone(),
            http_addr: String::new(),
            attributes: [("kernel.name", "linux"), ("driver.raw_exec", "1")]
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .into(),
            meta: rack.into_iter().collect(),
            capacity: self.traits.capacity,
            reserved: Amount::ZERO,
            cpu_cores: 4,
            networks: vec![],
            drivers: [("raw_exec".to_string(), raw_exec)].into(),
            not_enforced: vec![],
            offers: NodeOffers {
                network_modes: vec!["host".into()],
                addresses: vec![address],
                dynamic_ports: PortRange { min: 20_000, max: 20_007 },
                cores: self.traits.cores.clone(),
                devices: self.traits.devices(),
                ..NodeOffers::default()
            },
            max_allocs: 0,
        }
    }
}

/// The agent.
impl World {
    pub fn start_agent(&mut self, n: NodeAt) -> Result<(), String> {
        let now = self.regions[n].clock.at(self.now);
        let named = self.regions[n].names_servers.unwrap_or(usize::MAX);
        let servers = self.regions[n.region].servers.iter().map(ServerHost::id).take(named).collect();
        let host = &mut self.regions[n];
        host.agent_life += 1;
        let (store, recovered) = match ClientStore::open_with(host.disk.media().log, host.segment_bytes) {
            Ok(opened) => opened,
            Err(ClientStoreOpenError::Damaged(why)) => return self.agent_refuses(n, &why),
            Err(e) => return self.agent_does_not_open(n, &e.to_string()),
        };
        host.failed_opens = 0;
        host.disk.settle();
        let mut config = Config::new(host.id, host.secret, format!("/node-{}/alloc", n.node));
        config.servers = servers;
        let seed = host.draws.next_u64();
        host.client = Some(Client::new(config, store, recovered, seed, now));
        host.inbox.clear();
        host.turn_at = None;
        host.told_full = false;
        let info = Box::new(host.info());
        self.note(|w| format!("{n}  agent starts, life {}", w.regions[n].agent_life));
        self.node_input(n, Input::Fingerprint(info));
        self.after(Span::millis(1), Event::Connect { node: n });
        Ok(())
    }

    fn agent_does_not_open(&mut self, n: NodeAt, why: &str) -> Result<(), String> {
        self.note(|_| format!("{n}  agent does not open its store: {why}"));
        if self.regions[n].disk.is_dead() {
            self.power_cut(n);
            return Ok(());
        }
        let host = &mut self.regions[n];
        host.failed_opens += u32::from(!host.full);
        if host.failed_opens > MAX_FAILED_OPENS {
            return Err(format!("the store of {n} does not open: {why}"));
        }
        self.faults.fired(Kind::AgentDidNotOpen);
        self.after(Span::seconds(1), Event::Start(Daemon::Agent(n)));
        Ok(())
    }

    pub fn stop_agent(&mut self, n: NodeAt) {
        let host = &mut self.regions[n];
        // killed: what it still holds in memory reaches the disk no more
        host.disk.detach();
        let was_up = host.client.take().is_some();
        host.inbox.clear();
        host.contact.agent_ended();
        self.network.connections.forget(Machine::Node(n));
        self.leave_sessions(n);
        if was_up {
            self.close_links(Machine::Node(n));
            self.lose_calls(Machine::Node(n));
        }
        let host = &mut self.regions[n];
        if let Some(connection) = host.connection.take() {
            let life = host.keeper_life;
            let gone = Box::new(keeper::Input::Gone { client: connection });
            self.after(Span(50_000), Event::ToKeeper { node: n, life, input: gone });
        }
    }

    pub fn node_input(&mut self, n: NodeAt, input: Input) {
        if self.regions[n].client.is_some() {
            self.regions[n].inbox.push(input);
            self.wake_node(n, Span(10_000));
        }
    }

    pub(super) fn wake_node(&mut self, n: NodeAt, delay: Span) {
        let wanted = self.now.after(delay);
        let host = &mut self.regions[n];
        if host.client.is_some() && host.uncounted_pause.take_if(|end| wanted < *end).is_some() {
            self.faults.fired(Kind::NodePaused);
        }
        let at = wanted.max(host.paused_until);
        if host.turn_at.is_none_or(|t| t > at) {
            host.turn_at = Some(at);
            self.at(at, Event::NodeTurn { node: n, at });
        }
    }

    pub fn node_turn(&mut self, n: NodeAt, at: Mono) -> Result<(), String> {
        let now = self.regions[n].clock.at(self.now);
        let host = &mut self.regions[n];
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
            if host.full {
                self.faults.fired(Kind::NodeDiskFull);
            }
        }
        let refused = host.disk.counts().refused_for_space;
        self.turns += 1;
        match client.turn(now, inputs) {
            Ok(effects) => {
                let slow = self.now < self.regions[n].slow_until && !effects.is_empty();
                if slow {
                    self.faults.fired(Kind::NodeDiskSlow);
                    self.lag = self.delay(Span::millis(20), Span::seconds(3));
                    self.regions[n].paused_until = self.regions[n].paused_until.max(self.now.after(self.lag));
                }
                for effect in effects {
                    self.execute_client_effect(n, effect)?;
                }
                self.lag = Span::ZERO;
            }
            Err(fault) => {
                self.note(|_| format!("{n}  agent fault: {fault}"));
                if self.regions[n].disk.counts().refused_for_space > refused {
                    return Err(format!("the client of {n} wrote to a disk that it knows to be full"));
                }
                if self.regions[n].disk.is_dead() {
                    self.power_cut(n);
                } else {
                    self.crash_agent(n);
                }
            }
        }
        if let Some(deadline) = self.regions[n].client.as_ref().and_then(Client::next_deadline) {
            let wait = deadline.since(self.now).max(Span(10_000));
            self.wake_node(n, wait);
        }
        Ok(())
    }

    /// The agent ends and is started again by its supervisor.
    pub fn crash_agent(&mut self, n: NodeAt) {
        self.stop_agent(n);
        let back_after = self.delay(Span::millis(100), Span::seconds(10));
        self.after(back_after, Event::Start(Daemon::Agent(n)));
    }

    fn execute_client_effect(&mut self, n: NodeAt, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Send { to, bytes } => {
                self.check_report(n, &bytes)?;
                self.regions[n].contact.sent(to, &bytes, self.now);
                if let Some(to) = self.regions.machine(to) {
                    self.send(Machine::Node(n), to, bytes);
                }
            }
            Effect::Keeper(command) => self.ask_keeper(n, command),
            Effect::BuildDir(spec) => self.dir_work(n, spec.alloc, false),
            Effect::RemoveDir { alloc } => self.dir_work(n, alloc, true),
            Effect::Answer { token, result } => self.session_granted(n, token, result)?,
            Effect::Forwarded { token, result } => self.call_forwarded(token, result)?,
            Effect::ShutdownComplete => {}
        }
        Ok(())
    }

    fn dir_work(&mut self, n: NodeAt, alloc: AllocId, removed: bool) {
        let life = self.regions[n].agent_life;
        let delay = self.delay(Span(100_000), Span::millis(5));
        self.after(delay, Event::Dir { node: n, life, alloc, removed });
    }

    pub fn dir_done(&mut self, n: NodeAt, life: u64, alloc: AllocId, removed: bool) {
        if removed {
            self.regions[n].dirs.remove(&alloc);
        } else {
            self.regions[n].dirs.insert(alloc);
        }
        if life == self.regions[n].agent_life {
            let result = Ok(());
            let done =
                if removed { Input::DirRemoved { alloc, result } } else { Input::DirBuilt { alloc, result } };
            self.node_input(n, done);
        }
    }
}
