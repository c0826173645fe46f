//! Disks that are lost for good, within the seeds: an empty one takes their place, and with it another server or another node. An operator
//! removes the server that is no more, as soon as anybody does what operators ask; a node that is no more is given up by the servers.
//!
//! Refuses to know how servers join, and what becomes of allocations.

use super::disk::SimDisk;
use super::faults::Kind;
use super::membership::{is_removed, suffrage};
use super::place::{Daemon, Machine, NodeAt, ServerAt};
use super::server_host::ServerHost;
use super::server_operators::is_retired_from;
use super::users::HOME_REGION;
use super::world::{Event, World};
use super::worlds;
use model::member::Suffrage;
use model::random::Stream;
use model::time::Span;
use wire::http::Method;

/// A region of fewer servers would not live on without one of them.
pub const LEAST_SERVERS: usize = 3;
pub const ASKS_EVERY: Span = Span::seconds(5);

impl World {
    /// Before anything has started.
    pub fn plan_lost_disks(&mut self, seed: u64) {
        let mut draws = Stream::new(seed, 119);
        let servers = self.regions.servers_of(HOME_REGION);
        if servers.len() >= LEAST_SERVERS && !is_retired_from(seed) {
            let at = servers[draws.below(servers.len() as u64) as usize];
            let after = draws.span_between(Span::minutes(2), Span::minutes(7));
            self.after(after, Event::DiskLost(Machine::Server(at)));
        }
        if draws.below(3) == 0 {
            let nodes = self.regions.nodes_of(HOME_REGION);
            let n = nodes[draws.below(nodes.len() as u64) as usize];
            let after = draws.span_between(Span::minutes(2), Span::minutes(8));
            self.after(after, Event::DiskLost(Machine::Node(n)));
        }
    }

    pub fn lose_disk(&mut self, machine: Machine) -> Result<(), String> {
        if matches!(machine, Machine::Server(_)) && !self.all_vote() {
            self.after(ASKS_EVERY, Event::DiskLost(machine));
            return Ok(());
        }
        self.note(|_| format!("{machine}  loses its disk for good"));
        match machine {
            Machine::Server(at) => {
                self.faults.fired(Kind::ServerDiskLost);
                let id = self.regions[at].id();
                self.replace_server(at);
                if let Some(n) = self.node_beside(at) {
                    self.replace_node(n);
                }
                self.after(ASKS_EVERY, Event::RemoveServer { id });
            }
            Machine::Node(n) => self.replace_node(n),
        }
        Ok(())
    }

    /// An empty disk takes the place of this server's, and joins as another server.
    pub fn replace_server(&mut self, at: ServerAt) {
        self.end_server(at);
        self.regions[at].replace_disk();
        self.install_newest_build(at);
        let back_after = self.delay(Span::seconds(1), Span::seconds(20));
        self.after(back_after, Event::Start(Daemon::Server(at)));
    }

    fn replace_node(&mut self, n: NodeAt) {
        self.faults.fired(Kind::NodeDiskLost);
        self.node_loses_power(n);
        self.regions[n].replace_disks();
    }

    /// An operator wants the server to be gone; then, as long as it is listed, again.
    pub fn remove_server(&mut self, id: u64) -> Result<(), String> {
        if is_removed(self, id) {
            self.server_is_removed(id);
            return Ok(());
        }
        let up = self.regions.servers_of(HOME_REGION).into_iter().filter(|at| self.regions[*at].is_up());
        let up: Vec<ServerAt> = up.collect();
        let which = self.changes.below(up.len().max(1) as u64) as usize;
        if let Some(at) = up.get(which) {
            let query = format!("id={id}");
            self.operator_calls(*at, Method::Delete, "/v1/operator/raft/peer", &query);
        }
        self.after(ASKS_EVERY, Event::RemoveServer { id });
        Ok(())
    }

    /// At rest every server that there is votes.
    pub fn check_replaced(&self) -> Result<(), String> {
        for at in self.regions.servers_of(HOME_REGION) {
            let id = self.regions[at].id();
            let listed = suffrage(self, id);
            if listed != Some(Suffrage::Voter) {
                return Err(format!("{at}, which is {id}, does not vote: {listed:?}"));
            }
        }
        Ok(())
    }
}

impl ServerHost {
    /// An empty disk takes the place of this one, and with it another server this one's.
    pub fn replace_disk(&mut self) {
        self.disks += 1;
        // who installs a server in another's place knows by now that there are others
        self.knows_others = true;
        self.disk = SimDisk::new(self.seed ^ 0x5e1 ^ self.disks);
        self.options.new_server_id = worlds::id_of_disk(self.seed, self.disks);
        (self.applied, self.failed_opens) = (0, 0);
    }
}

#[test]
fn a_server_that_does_not_come_to_vote_is_found() {
    let mut world = super::elections::region_of(3, 1);
    let (leader, _) = super::elections::await_leader(&mut world);
    super::elections::run_for(&mut world, Span::seconds(20));
    assert_eq!(world.check_replaced(), Ok(()));
    let other = ServerAt { server: (leader.server + 1) % 3, ..leader };
    let id = world.regions[other].id();
    assert_eq!(world.lose_disk(Machine::Server(other)), Ok(()));
    assert!(world.check_replaced().is_err_and(|e| e.contains("does not vote")));
    super::elections::run_for(&mut world, Span::minutes(2));
    assert_eq!(world.check_replaced(), Ok(()));
    assert!(is_removed(&world, id), "the one that is no more");
    assert_eq!(world.faults.counts().get(&Kind::LostServerRemoved), Some(&1));
}

#[test]
fn a_node_with_empty_disks_is_another_node() {
    let mut world = super::elections::region_of(1, 1);
    let n = NodeAt { region: HOME_REGION, node: 0 };
    super::elections::run_for(&mut world, Span::seconds(20));
    let known = |world: &World, id| world.newest_view().expect("a server is up").node(id).expect("reads");
    let before = world.regions[n].id();
    assert!(known(&world, before).is_some());
    assert_eq!(world.lose_disk(Machine::Node(n)), Ok(()));
    let after = world.regions[n].id();
    assert!(after != before && known(&world, after).is_none());
    super::elections::run_for(&mut world, Span::minutes(3));
    assert!(known(&world, after).is_some_and(|node| node.ready()));
}
