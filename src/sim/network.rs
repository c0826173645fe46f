//! The network: which links are cut, and what has passed on each. A link is an ordered pair of machines, so that one
//! direction may be cut alone. It has a stream for each class of traffic, as a QUIC connection would.
//!
//! Refuses to know what frames hold. Invariant: what arrives on a stream keeps its order.

use super::broken_links::Connections;
use super::faults::Kind;
use super::line::Line;
use super::place::{Machine, NodeAt, ServerAt};
use super::stale_relays::StaleRelay;
use super::world::{Event, World};
use model::random::Stream;
use model::time::{Mono, Span};
use server::effects::Input;
use std::collections::BTreeMap;
use wire::frame::{self, TrafficClass};
use wire::rpc::Peer;

pub type Link = (Machine, Machine);

/// What a connection joins: two machines, and who they are. It ends with either: on a new disk, a machine is somebody else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ends {
    pub from: Machine,
    pub to: Machine,
    peers: (Peer, Peer),
    /// Which of the connections that the two have had.
    number: u64,
}

/// Every link from one group of machines to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub from: Vec<Machine>,
    pub to: Vec<Machine>,
    pub both_ways: bool,
    /// As what a frame that is lost to it counts.
    pub kind: Kind,
}

pub struct Network {
    /// Who finds out that a connection is closed, and when.
    pub draws: Stream,
    pub connections: Connections,
    /// Until when frames are lost on a link, and why.
    cut_until: BTreeMap<Link, (Mono, Kind)>,
    /// The last delivery on each stream.
    delivered: BTreeMap<(Link, TrafficClass), Mono>,
    /// Links that carry only so much in a second.
    pub lines: BTreeMap<Link, Line>,
    /// What every frame from and to nodes passes through, in tests that look for it.
    pub stale_relay: Option<StaleRelay>,
}

impl Cut {
    /// A node against all servers of its region, both ways.
    pub fn of_node(node: Machine, servers: Vec<Machine>) -> Cut {
        Cut { from: vec![node], to: servers, both_ways: true, kind: Kind::FrameLostOnACutLink }
    }

    /// One of the cuts that these machines of a region can suffer.
    pub fn draw(servers: &[Machine], nodes: &[Machine], draws: &mut Stream) -> Cut {
        let mut one_of = |machines: &[Machine]| machines[draws.below(machines.len() as u64) as usize];
        let (server, node) = (one_of(servers), one_of(nodes));
        let other = one_of(servers);
        match draws.below(8) {
            0 if other != server => Cut {
                from: vec![server],
                to: vec![other],
                both_ways: draws.below(2) == 0,
                kind: Kind::FrameLostBetweenServers,
            },
            0..=3 => Cut::of_node(node, servers.to_vec()),
            4 => Cut::one_way(vec![node], servers.to_vec(), draws),
            5 => Cut::one_way(vec![node], vec![server], draws),
            _ => Cut::groups(servers, nodes, draws),
        }
    }

    fn one_way(a: Vec<Machine>, b: Vec<Machine>, draws: &mut Stream) -> Cut {
        let (from, to) = if draws.below(2) == 0 { (a, b) } else { (b, a) };
        Cut { from, to, both_ways: false, kind: Kind::FrameLostOneWay }
    }

    /// Each machine is on one of two sides, which nothing joins.
    fn groups(servers: &[Machine], nodes: &[Machine], draws: &mut Stream) -> Cut {
        let all = servers.iter().chain(nodes).copied();
        let (from, to) = all.partition(|_| draws.below(2) == 0);
        Cut { from, to, both_ways: draws.below(3) > 0, kind: Kind::FrameLostBetweenGroups }
    }
}

impl Network {
    pub fn new(seed: u64) -> Network {
        Network {
            draws: Stream::new(seed, 121),
            connections: Connections::default(),
            cut_until: BTreeMap::new(),
            delivered: BTreeMap::new(),
            lines: BTreeMap::new(),
            stale_relay: None,
        }
    }

    pub fn cut(&mut self, cut: &Cut, until: Mono) {
        for (a, b) in cut.from.iter().flat_map(|a| cut.to.iter().map(move |b| (*a, *b))) {
            self.cut_link((a, b), until, cut.kind);
            if cut.both_ways {
                self.cut_link((b, a), until, cut.kind);
            }
        }
    }

    fn cut_link(&mut self, link: Link, until: Mono, kind: Kind) {
        let known = self.cut_until.entry(link).or_insert((until, kind));
        if known.0 < until {
            *known = (until, kind);
        }
    }

    /// Why frames are lost from one to the other now.
    pub fn is_cut(&self, from: Machine, to: Machine, now: Mono) -> Option<Kind> {
        self.cut_until.get(&(from, to)).filter(|(until, _)| now < *until).map(|(_, kind)| *kind)
    }

    /// What waits on slow lines to and from a machine is gone with its process.
    pub fn lose_connections(&mut self, of: Machine) {
        let lost = self.lines.iter_mut().filter(|((from, to), _)| *from == of || *to == of);
        lost.for_each(|(_, line)| line.clear());
        self.connections.forget(of);
    }

    /// Every link carries frames again.
    pub fn heal(&mut self) {
        self.cut_until.clear();
    }

    /// When a frame arrives that takes so long: after every earlier one on its stream.
    pub fn arrival(&mut self, link: Link, class: TrafficClass, now: Mono, delay: Span) -> Mono {
        let stream = (link, class);
        let last = self.delivered.get(&stream).copied().unwrap_or_default();
        let at = now.after(delay).max(Mono(last.0 + 1));
        self.delivered.insert(stream, at);
        at
    }
}

impl World {
    /// Puts a frame on a link: it may be lost, or come twice, but what comes keeps its order.
    pub fn send(&mut self, from: Machine, to: Machine, bytes: Vec<u8>) {
        let class = match (from, to) {
            (Machine::Server(_), Machine::Server(_)) => frame::traffic_class(&bytes),
            _ => frame::traffic_class_of_node(&bytes),
        };
        self.carry(from, to, bytes, class, |ends, bytes| Event::Frame { ends, bytes });
    }

    pub fn ends(&self, from: Machine, to: Machine) -> Ends {
        let peers = (self.regions.peer(from), self.regions.peer(to));
        Ends { from, to, peers, number: self.network.connections.number((from, to)) }
    }

    /// Whether the connection that joined them is still there.
    pub fn are_joined(&self, ends: Ends) -> bool {
        ends == self.ends(ends.from, ends.to)
    }

    /// As `arrives` says what becomes of it at the other end.
    pub fn carry(
        &mut self,
        from: Machine,
        to: Machine,
        bytes: Vec<u8>,
        class: TrafficClass,
        arrives: impl Fn(Ends, Vec<u8>) -> Event,
    ) {
        self.trace.bytes(&bytes);
        if let Some(kind) = self.network.is_cut(from, to, self.now) {
            return self.faults.fired(kind);
        }
        if self.network.connections.is_broken((from, to)) {
            return;
        }
        if self.faults.loses_frame() {
            return;
        }
        let copies = if self.faults.doubles_frame() { 2 } else { 1 };
        let late = self.faults.delays_frame();
        let ends = self.ends(from, to);
        for _ in 0..copies {
            if self.network.lines.contains_key(&(from, to)) {
                let length = bytes.len();
                self.queue_on_line((from, to), class, length, arrives(ends, bytes.clone()));
                continue;
            }
            let delay = self.delay(Span(20_000), Span::millis(2)) + late + self.lag;
            let at = self.network.arrival((from, to), class, self.now, delay);
            self.at(at, arrives(ends, bytes.clone()));
        }
    }

    /// A server finds that it has a connection, or none any more.
    pub fn link_changes(&mut self, server: ServerAt, found: Input) -> Result<(), String> {
        self.server_input(server, found);
        Ok(())
    }

    /// A server that starts and the others that are up find each other.
    pub fn connect_server(&mut self, at: ServerAt) {
        for other in self.regions.servers_of(at.region).into_iter().filter(|other| *other != at) {
            if self.regions[other].is_up() {
                for (server, peer) in [(at, other), (other, at)] {
                    let found = self.delay(Span::millis(60), Span::millis(50));
                    self.after(found, Event::LinkUp { server, peer: self.regions[peer].id() });
                }
            }
        }
    }

    /// A process has ended. At the other ends of a node's connections, and of a server's to nodes, half of them find that out after a
    /// moment, the others by what is not answered.
    pub fn close_links(&mut self, of: Machine) {
        let ends: Vec<(ServerAt, NodeAt)> = match of {
            Machine::Server(at) => self.regions.nodes_of(at.region).into_iter().map(|n| (at, n)).collect(),
            Machine::Node(n) => self.regions.servers_of(n.region).into_iter().map(|at| (at, n)).collect(),
        };
        for (server, node) in ends {
            let (finds_out, moment) =
                (self.network.draws.below(2) == 0, self.network.draws.span_below(Span::millis(50)));
            if finds_out {
                let end =
                    if of == Machine::Node(node) { Machine::Server(server) } else { Machine::Node(node) };
                self.after(moment, Event::ConnectionClosed { end, server, node });
            }
        }
    }

    /// `end` finds that out.
    pub fn connection_closed(&mut self, end: Machine, server: ServerAt, node: NodeAt) -> Result<(), String> {
        match end {
            Machine::Server(at) => {
                let node = self.regions[node].id();
                self.server_input(at, Input::NodeLinkDown { node });
            }
            Machine::Node(n) => {
                let server = self.regions[server].id();
                self.node_input(n, client::effects::Input::LinkDown { server });
            }
        }
        Ok(())
    }

    pub fn frame_arrives(&mut self, ends: Ends, bytes: Vec<u8>) -> Result<(), String> {
        if !self.are_joined(ends) {
            return Ok(());
        }
        let Ends { from, to, .. } = ends;
        if let Some(answer) = self.network.stale_relay.as_mut().and_then(|r| r.pass(from, to, &bytes)) {
            self.send(to, from, answer);
            return Ok(());
        }
        let from = self.regions.peer(from);
        match to {
            Machine::Server(at) => self.server_input(at, server::effects::Input::Frame { from, bytes }),
            Machine::Node(n) => {
                if self.regions[n].client.is_some() {
                    self.regions[n].contact.received(from, &bytes, self.now);
                }
                self.node_input(n, client::effects::Input::Frame { from, bytes });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines() -> (Vec<Machine>, Vec<Machine>) {
        let server = |server| Machine::Server(ServerAt { region: 0, server });
        let node = |node| Machine::Node(NodeAt { region: 0, node });
        ((0..3).map(server).collect(), (0..3).map(node).collect())
    }

    /// What a link carries is in the trace, whatever becomes of it.
    #[test]
    fn a_byte_of_a_frame_that_a_link_carries_is_traced() {
        let (servers, nodes) = machines();
        let hash_after = |from: Machine, frame: &[u8]| {
            let mut world = World::new(1, 3, 3, false);
            world.send(from, servers[1], frame.to_vec());
            world.trace.hash()
        };
        for from in [servers[0], nodes[0]] {
            let same = hash_after(from, b"frame");
            assert_eq!(same, hash_after(from, b"frame"));
            assert_ne!(same, hash_after(from, b"frAme"));
        }
    }

    /// What was on its way to the old one does not reach the new one.
    #[test]
    fn a_connection_ends_with_the_disk_of_either_end() {
        let (servers, nodes) = machines();
        for (from, to) in [(servers[0], servers[1]), (nodes[0], servers[1]), (servers[1], nodes[0])] {
            let mut world = World::new(1, 3, 3, false);
            let ends = world.ends(from, to);
            assert!(world.are_joined(ends));
            match servers[1] {
                Machine::Server(at) => world.regions[at].replace_disk(),
                Machine::Node(_) => unreachable!("a server"),
            }
            assert!(!world.are_joined(ends), "{from} to {to}");
        }
    }

    #[test]
    fn a_link_is_cut_one_way_and_heals_by_time() {
        let (servers, nodes) = machines();
        let mut network = Network::new(1);
        let kind = Kind::FrameLostOneWay;
        let cut = Cut { from: vec![servers[0]], to: vec![nodes[1]], both_ways: false, kind };
        network.cut(&cut, Mono(10));
        assert_eq!(network.is_cut(servers[0], nodes[1], Mono(9)), Some(kind));
        assert_eq!(network.is_cut(nodes[1], servers[0], Mono(9)), None, "the other way");
        assert_eq!(network.is_cut(servers[0], nodes[0], Mono(9)), None, "another link");
        assert_eq!(network.is_cut(servers[0], nodes[1], Mono(10)), None, "healed");
    }

    #[test]
    fn a_node_is_cut_off_from_all_servers_both_ways() {
        let (servers, nodes) = machines();
        let mut network = Network::new(1);
        network.cut(&Cut::of_node(nodes[2], servers.clone()), Mono(10));
        for server in &servers {
            assert!(network.is_cut(*server, nodes[2], Mono(1)).is_some());
            assert!(network.is_cut(nodes[2], *server, Mono(1)).is_some());
            assert!(network.is_cut(nodes[1], *server, Mono(1)).is_none());
        }
        network.heal();
        assert!(network.is_cut(servers[0], nodes[2], Mono(1)).is_none());
    }

    #[test]
    fn every_shape_of_a_cut_is_drawn() {
        let (servers, nodes) = machines();
        let mut draws = Stream::new(1, 1);
        let cuts: Vec<Cut> = (0..200).map(|_| Cut::draw(&servers, &nodes, &mut draws)).collect();
        assert!(cuts.iter().all(|c| c.from.iter().all(|m| !c.to.contains(m))));
        assert!(cuts.iter().any(|c| c.both_ways && c.from.len() == 1 && c.to == servers));
        assert!(cuts.iter().any(|c| !c.both_ways && c.from == servers), "towards a node alone");
        assert!(cuts.iter().any(|c| !c.both_ways && c.to == servers), "from a node alone");
        let apart = |c: &Cut| c.from.contains(&servers[0]) && c.to.contains(&servers[1]);
        assert!(cuts.iter().any(apart), "server against server");
        let pair = |c: &&Cut| c.kind == Kind::FrameLostBetweenServers;
        assert!(
            cuts.iter().any(|c| pair(&c) && c.both_ways) && cuts.iter().any(|c| pair(&c) && !c.both_ways)
        );
        assert!(cuts.iter().filter(pair).all(|c| c.from.len() == 1 && c.to.len() == 1 && c.from != c.to));
    }
}
