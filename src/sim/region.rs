//! A region: its servers, its nodes, and what is known of it as a whole, whichever server said so.
//!
//! Refuses to know what must be so.

use super::agreement::History;
use super::event_readers::ToldEvents;
use super::launches::Launched;
use super::node_host::NodeHost;
use super::node_room::Capacities;
use super::place::{Machine, NodeAt, ServerAt};
use super::rollouts::DeploymentStatuses;
use super::server_host::ServerHost;
use super::topologies::Topology;
use super::tracked::TrackedState;
use model::claims::Claim;
use model::id::{AllocId, Uuid};
use model::random::Stream;
use model::time::Mono;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};

pub struct Region {
    pub servers: Vec<ServerHost>,
    pub nodes: Vec<NodeHost>,
    /// The digest of the state at each applied index, whoever applied it.
    pub digests: BTreeMap<u64, u64>,
    /// The hash of each entry that was applied and then found in a log.
    pub entries: BTreeMap<u64, u64>,
    /// Since when servers want allocations stopped, or know them no more.
    pub stopped: BTreeMap<AllocId, Mono>,
    /// Allocations that a user asked to be restarted: their tasks may be killed, and start again.
    pub restarted: BTreeSet<AllocId>,
    /// Allocations that were seen to be preempted.
    pub evicted: BTreeSet<AllocId>,
    /// What only one may hold at a time, of each allocation that was ever seen to hold such things.
    pub claims: BTreeMap<AllocId, Vec<Claim>>,
    pub history: History,
    /// What any server has told of entries.
    pub told_events: ToldEvents,
    pub launched: Launched,
    pub deployment_statuses: DeploymentStatuses,
    pub capacities: Capacities,
    /// The state at the newest index that any server has shown.
    pub tracked: TrackedState,
    /// That index.
    pub tracked_index: u64,
    /// Who it is, once any server has a state.
    pub id: Option<Uuid>,
    /// Who has led in each term, by raft id.
    pub leaders: BTreeMap<u64, u64>,
    /// Whether the server and the node of the same number are one machine.
    pub shares_machines: bool,
}

/// All regions; a machine is found by where it is.
pub struct Regions(Vec<Region>);

impl Region {
    fn new(number: usize, seed: u64, size: Topology, draws: &mut Stream) -> Region {
        let Topology { servers, nodes } = size;
        let all = (0..servers).map(|server| ServerAt { region: number, server });
        let expect = u32::try_from(servers).unwrap_or(u32::MAX);
        Region {
            servers: all.map(|at| ServerHost::new(at, expect, seed)).collect(),
            nodes: (0..nodes)
                .map(|node| NodeHost::new(NodeAt { region: number, node }, draws.next_u64()))
                .collect(),
            digests: BTreeMap::new(),
            entries: BTreeMap::new(),
            stopped: BTreeMap::new(),
            restarted: BTreeSet::new(),
            evicted: BTreeSet::new(),
            claims: BTreeMap::new(),
            history: History::default(),
            told_events: ToldEvents::new(),
            launched: Launched::new(),
            deployment_statuses: DeploymentStatuses::new(),
            capacities: Capacities::new(),
            tracked: TrackedState::default(),
            tracked_index: 0,
            id: None,
            leaders: BTreeMap::new(),
            shares_machines: false,
        }
    }

    /// The server that is up and has applied most.
    pub fn newest_server(&self) -> Option<&ServerHost> {
        self.servers.iter().filter(|s| s.is_up()).max_by_key(|s| s.applied_index())
    }
}

impl Regions {
    pub fn new(seed: u64, sizes: &[Topology], draws: &mut Stream) -> Regions {
        let of = |(number, size): (usize, &Topology)| Region::new(number, seed, *size, draws);
        Regions(sizes.iter().enumerate().map(of).collect())
    }

    pub fn all(&self) -> &[Region] {
        &self.0
    }

    pub fn servers(&self) -> Vec<ServerAt> {
        let of = |(region, r): (usize, &Region)| {
            (0..r.servers.len()).map(|server| ServerAt { region, server }).collect::<Vec<_>>()
        };
        self.0.iter().enumerate().flat_map(of).collect()
    }

    pub fn nodes(&self) -> Vec<NodeAt> {
        let of = |(region, r): (usize, &Region)| {
            (0..r.nodes.len()).map(|node| NodeAt { region, node }).collect::<Vec<_>>()
        };
        self.0.iter().enumerate().flat_map(of).collect()
    }

    pub fn servers_of(&self, region: usize) -> Vec<ServerAt> {
        (0..self[region].servers.len()).map(|server| ServerAt { region, server }).collect()
    }

    pub fn nodes_of(&self, region: usize) -> Vec<NodeAt> {
        (0..self[region].nodes.len()).map(|node| NodeAt { region, node }).collect()
    }

    pub fn node_hosts(&self) -> impl Iterator<Item = &NodeHost> {
        self.0.iter().flat_map(|r| &r.nodes)
    }

    /// By what frames are addressed to.
    pub fn machine(&self, peer: wire::rpc::Peer) -> Option<Machine> {
        match peer {
            wire::rpc::Peer::Server(id) => {
                let server = self.servers().into_iter().find(|at| self[*at].id() == id)?;
                Some(Machine::Server(server))
            }
            wire::rpc::Peer::Node(id) => {
                let node = self.nodes().into_iter().find(|n| self[*n].id() == id)?;
                Some(Machine::Node(node))
            }
        }
    }

    /// Whether a process of this machine speaks with others.
    pub fn is_up(&self, machine: Machine) -> bool {
        match machine {
            Machine::Server(at) => self[at].is_up(),
            Machine::Node(at) => self[at].client.is_some(),
        }
    }

    pub fn peer(&self, machine: Machine) -> wire::rpc::Peer {
        match machine {
            Machine::Server(at) => wire::rpc::Peer::Server(self[at].id()),
            Machine::Node(at) => wire::rpc::Peer::Node(self[at].id()),
        }
    }
}

impl Index<usize> for Regions {
    type Output = Region;

    fn index(&self, region: usize) -> &Region {
        &self.0[region]
    }
}

impl IndexMut<usize> for Regions {
    fn index_mut(&mut self, region: usize) -> &mut Region {
        &mut self.0[region]
    }
}

impl Index<ServerAt> for Regions {
    type Output = ServerHost;

    fn index(&self, at: ServerAt) -> &ServerHost {
        &self.0[at.region].servers[at.server]
    }
}

impl IndexMut<ServerAt> for Regions {
    fn index_mut(&mut self, at: ServerAt) -> &mut ServerHost {
        &mut self.0[at.region].servers[at.server]
    }
}

impl Index<NodeAt> for Regions {
    type Output = NodeHost;

    fn index(&self, at: NodeAt) -> &NodeHost {
        &self.0[at.region].nodes[at.node]
    }
}

impl IndexMut<NodeAt> for Regions {
    fn index_mut(&mut self, at: NodeAt) -> &mut NodeHost {
        &mut self.0[at.region].nodes[at.node]
    }
}
