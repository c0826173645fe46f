//! The server that each user asks: one drawn by the seed, and the next one when it is down or an answer did not come; or the agent of a
//! node, while that is up.
//!
//! Refuses to know what users want.

use super::place::{Machine, NodeAt, ServerAt};
use super::world::World;
use model::random::Stream;
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeMap;

/// The region that all users live in.
pub const HOME_REGION: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    Workload,
    Reader,
    Operator,
    Dispatcher,
    Scaler,
}

const ALL: [User; 5] = [User::Workload, User::Reader, User::Operator, User::Dispatcher, User::Scaler];

pub struct Users {
    /// The server that each user asks first.
    servers: BTreeMap<User, ServerAt>,
    /// The node whose agent a user asks instead.
    nodes: BTreeMap<User, NodeAt>,
}

impl Users {
    pub fn new(seed: u64, servers: usize) -> Self {
        let mut draws = Stream::new(seed, 106);
        let mut draw = |user| {
            let server = draws.below(servers as u64) as usize;
            (user, ServerAt { region: HOME_REGION, server })
        };
        Users { servers: ALL.into_iter().map(&mut draw).collect(), nodes: BTreeMap::new() }
    }

    /// From now on some of them ask nodes.
    pub fn ask_nodes(&mut self, seed: u64, nodes: &[NodeAt]) {
        let mut draws = Stream::new(seed, 122);
        for user in ALL {
            let node = nodes[draws.below(nodes.len() as u64) as usize];
            if draws.below(3) == 0 {
                self.nodes.insert(user, node);
            }
        }
    }

    pub fn some_ask_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// This user asks the next of so many servers from now on.
    pub fn turn_away(&mut self, user: User, servers: usize) {
        if let Some(at) = self.servers.get_mut(&user) {
            at.server = (at.server + 1) % servers;
        }
    }
}

impl World {
    /// The server that this user asks from now on. `None`: all are down.
    pub fn server_of(&mut self, user: User) -> Option<ServerAt> {
        let first = self.users.servers[&user];
        let count = self.regions[first.region].servers.len();
        let next = |n| ServerAt { server: (first.server + n) % count, ..first };
        let all = || (0..count).map(next);
        let up = all().find(|at| self.regions[*at].is_up())?;
        self.users.servers.insert(user, up);
        Some(up)
    }

    /// The agent that this user asks, whose server is that one.
    pub fn agent_of(&self, user: User, server: ServerAt) -> Machine {
        let node = self.users.nodes.get(&user).filter(|n| self.regions[**n].client.is_some());
        node.map_or(Machine::Server(server), |n| Machine::Node(*n))
    }

    /// What this user's server knows. `None`: no server is there, or its disk is not.
    pub fn read<T>(&mut self, user: User, read: impl FnOnce(&View) -> Result<T, Fault>) -> Option<T> {
        let at = self.server_of(user)?;
        self.regions[at].look(|server| server.reader().view().and_then(|view| read(&view)))?.ok()
    }
}

#[test]
fn a_user_whose_server_is_down_takes_another_one() {
    let mut world = World::new(1, 3, 1, false);
    world.faults.heal();
    assert_eq!(world.server_of(User::Workload), None, "all are down");
    for at in world.regions.servers() {
        world.start_server(at).expect("a fresh disk opens");
    }
    let first = world.server_of(User::Workload).expect("all are up");
    assert_eq!(world.server_of(User::Workload), Some(first));
    world.stop_server(first, model::time::Span::seconds(1));
    let second = world.server_of(User::Workload).expect("two are up");
    assert_ne!(first, second);
}

#[test]
fn some_users_ask_nodes_while_these_are_up() {
    let nodes: Vec<NodeAt> = (0..3).map(|node| NodeAt { region: HOME_REGION, node }).collect();
    let server = ServerAt { region: HOME_REGION, server: 0 };
    let asked = |seed| {
        let mut world = World::new(seed, 1, 3, false);
        world.faults.heal();
        world.users.ask_nodes(seed, &nodes);
        assert!(
            ALL.iter().all(|user| world.agent_of(*user, server) == Machine::Server(server)),
            "all are down"
        );
        world.start_all().expect("fresh disks open");
        let asks_a_node = |user: &User| matches!(world.agent_of(*user, server), Machine::Node(_));
        ALL.into_iter().filter(asks_a_node).count()
    };
    let counts: Vec<usize> = (1..=6).map(asked).collect();
    assert!((5..=20).contains(&counts.iter().sum::<usize>()), "of thirty: {counts:?}");
}
