//! Machines that are server and node at once, as the smallest sites have them: in half of all seeds the server and the node of the same
//! number lose their power together, and the clock that is wrong is that of both. Else each has a machine of its own.
//!
//! Refuses to know what comes of it.

use super::clock::Clock;
use super::faults::Kind;
use super::place::{Daemon, Machine, NodeAt, ServerAt};
use super::users::HOME_REGION;
use super::world::{Event, World};
use model::random::Stream;
use model::time::Span;

impl World {
    /// Before anything has started.
    pub fn share_machines(&mut self, seed: u64) {
        let shares = Stream::new(seed, 126).below(2) == 0;
        self.regions[HOME_REGION].shares_machines = shares;
    }

    pub fn node_beside(&self, at: ServerAt) -> Option<NodeAt> {
        let region = &self.regions[at.region];
        let is_there = region.shares_machines && at.server < region.nodes.len();
        is_there.then_some(NodeAt { region: at.region, node: at.server })
    }

    fn server_beside(&self, n: NodeAt) -> Option<ServerAt> {
        let region = &self.regions[n.region];
        let is_there = region.shares_machines && n.node < region.servers.len();
        is_there.then_some(ServerAt { region: n.region, server: n.node })
    }

    /// The machine of this node loses its power, and gets it back.
    pub fn power_cut(&mut self, n: NodeAt) {
        self.node_loses_power(n);
        let Some(at) = self.server_beside(n) else { return };
        self.note(|_| format!("{at}  power cut, too"));
        self.faults.fired(Kind::MachinePowerCut);
        let was_up = self.regions[at].is_up();
        if was_up {
            self.count_power_cut(at);
            self.end_server(at);
        }
        self.regions[at].disk.cut_power();
        self.regions[at].disk.power_on();
        if was_up {
            let back_after = self.delay(Span::seconds(1), Span::seconds(20));
            self.after(back_after, Event::Start(Daemon::Server(at)));
        }
    }

    /// The server's machine has lost its power at an operation of the server's disk.
    pub fn server_machine_lost_power(&mut self, at: ServerAt) {
        self.count_power_cut(at);
        self.regions[at].disk.power_on();
        let back_after = self.delay(Span::millis(50), Span::seconds(3));
        self.stop_server(at, back_after);
        self.node_beside_loses_power(at);
    }

    pub fn node_beside_loses_power(&mut self, at: ServerAt) {
        if let Some(n) = self.node_beside(at) {
            self.faults.fired(Kind::MachinePowerCut);
            self.node_loses_power(n);
        }
    }

    /// The clock of the machine: what its server and its node both go by, if it is both.
    pub fn each_clock_of(&mut self, machine: Machine, mut edit: impl FnMut(&mut Clock)) {
        let (server, node) = match machine {
            Machine::Server(at) => (Some(at), self.node_beside(at)),
            Machine::Node(n) => (self.server_beside(n), Some(n)),
        };
        if let Some(at) = server {
            edit(&mut self.regions[at].clock);
        }
        if let Some(n) = node {
            edit(&mut self.regions[n].clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::Operation;
    use super::super::elections::{region_of, run_for};
    use super::super::faults::ServerFault;
    use super::*;

    const SERVER: ServerAt = ServerAt { region: HOME_REGION, server: 0 };
    const NODE: NodeAt = NodeAt { region: HOME_REGION, node: 0 };

    fn shared(seed: u64) -> World {
        let mut world = region_of(1, seed);
        world.regions[HOME_REGION].shares_machines = true;
        run_for(&mut world, Span::seconds(20));
        assert_eq!(up(&world), (true, true));
        world
    }

    fn up(world: &World) -> (bool, bool) {
        (world.regions[SERVER].is_up(), world.regions[NODE].client.is_some())
    }

    #[test]
    fn server_and_node_of_one_machine_lose_their_power_together() {
        let mut world = shared(1);
        world.power_cut(NODE);
        assert_eq!(up(&world), (false, false));
        run_for(&mut world, Span::minutes(1));
        assert_eq!(up(&world), (true, true));
        let deaths = world.regions[NODE].keeper_deaths;
        world.strike_server(SERVER, ServerFault::PowerCut { operations: 1 });
        world.register_quietly("writes", 1);
        run_for(&mut world, Span::minutes(1));
        assert_eq!((up(&world), world.regions[NODE].keeper_deaths), ((true, true), deaths + 1));
        assert_eq!(world.faults.counts().get(&Kind::MachinePowerCut), Some(&2));
        // a disk that fails is no machine without power
        world.strike_server(SERVER, ServerFault::DiskError { on: Operation::Write });
        world.register_quietly("writes-too", 1);
        run_for(&mut world, Span::minutes(1));
        assert_eq!(world.regions[NODE].keeper_deaths, deaths + 1);
    }

    #[test]
    fn server_and_node_of_one_machine_have_one_clock() {
        let mut world = shared(2);
        world.each_clock_of(Machine::Node(NODE), Clock::lose);
        let wall = |world: &World| {
            let now = world.now;
            (world.regions[SERVER].clock.at(now).wall, world.regions[NODE].clock.at(now).wall)
        };
        let (server, node) = wall(&world);
        assert_eq!(server, node);
        world.regions[HOME_REGION].shares_machines = false;
        world.each_clock_of(Machine::Server(SERVER), |clock| *clock = Clock::right());
        assert_ne!(wall(&world).0, wall(&world).1);
    }
}
