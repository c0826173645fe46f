//! Connections between living machines that break: a line that carries nothing for longer than a connection may be idle ends it, and a new one
//! is made once the line carries again. What was on its way on the old one never comes.
//!
//! Refuses to know: why a line carries nothing, which the network says.

use super::faults::Kind;
use super::network::{Cut, Link};
use super::place::Machine;
use super::world::{Event, World};
use model::time::{Mono, Span};
use server::effects::Input;
use std::collections::BTreeMap;

/// A connection on which nothing comes for so long has ended (decision 0093), and up to so much later its ends find out.
const IDLE: Span = Span::seconds(10);
const FOUND_OUT_WITHIN: Span = Span::seconds(5);
/// Up to so long after the line carries again the next attempt is due (decision 0094).
const DIALED_WITHIN: Span = Span::seconds(15);

/// The connections by what they join, the lower machine first.
#[derive(Default)]
pub struct Connections {
    /// How many there were between the two before this one.
    earlier: BTreeMap<Link, u64>,
    /// Those that are broken, by the number of the one that will be.
    broken: BTreeMap<Link, u64>,
}

impl Connections {
    /// Which of all connections between the two is the current one.
    pub fn number(&self, link: Link) -> u64 {
        self.earlier.get(&in_order(link)).copied().unwrap_or(0)
    }

    pub fn is_broken(&self, link: Link) -> bool {
        self.broken.contains_key(&in_order(link))
    }

    /// The number of the next one.
    fn break_off(&mut self, link: Link) -> u64 {
        let earlier = self.earlier.entry(in_order(link)).or_default();
        *earlier += 1;
        self.broken.insert(in_order(link), *earlier);
        *earlier
    }

    fn make_anew(&mut self, link: Link) {
        self.broken.remove(&in_order(link));
    }

    /// A process that ends, or begins, has none of before.
    pub fn forget(&mut self, of: Machine) {
        self.broken.retain(|(a, b), _| *a != of && *b != of);
    }
}

fn in_order((a, b): Link) -> Link {
    (a.min(b), a.max(b))
}

impl World {
    /// Cuts these links, and breaks the connections over them that are idle for too long meanwhile.
    pub fn cut(&mut self, cut: &Cut, until: Mono) {
        self.network.cut(cut, until);
        let pairs: Vec<Link> = cut.from.iter().flat_map(|a| cut.to.iter().map(move |b| (*a, *b))).collect();
        for link in pairs {
            let is_between_nodes = matches!(link, (Machine::Node(_), Machine::Node(_)));
            let found = IDLE + self.network.draws.span_below(FOUND_OUT_WITHIN);
            if !is_between_nodes && self.now.after(found) < until {
                self.after(found, Event::ConnectionIdles { link });
            }
        }
    }

    /// Where the line still carries nothing, the connection is broken, and both ends know.
    pub fn connection_idles(&mut self, link: Link) -> Result<(), String> {
        let is_lost = self.is_line_cut(link) && !self.network.connections.is_broken(link);
        if !is_lost || !self.regions.is_up(link.0) || !self.regions.is_up(link.1) {
            return Ok(());
        }
        self.faults.fired(match link {
            (Machine::Server(_), Machine::Server(_)) => Kind::ServersConnectionBroken,
            _ => Kind::NodesConnectionBroken,
        });
        self.note(|_| format!("network the connection of {} and {} breaks", link.0, link.1));
        let number = self.network.connections.break_off(link);
        match link {
            (Machine::Server(a), Machine::Server(b)) => {
                for (server, peer) in [(a, b), (b, a)] {
                    let peer = self.regions[peer].id();
                    self.server_input(server, Input::LinkDown { peer });
                }
            }
            (Machine::Server(server), Machine::Node(node))
            | (Machine::Node(node), Machine::Server(server)) => {
                for end in [link.0, link.1] {
                    self.connection_closed(end, server, node)?;
                }
            }
            (Machine::Node(_), Machine::Node(_)) => {}
        }
        self.dial_again(link, number);
        Ok(())
    }

    fn dial_again(&mut self, link: Link, number: u64) {
        let wait = Span::seconds(1) + self.network.draws.span_below(DIALED_WITHIN);
        self.after(wait, Event::DialsAgain { link, number });
    }

    /// A new connection, if the line carries both ways and neither process has begun anew since.
    pub fn dials_again(&mut self, link: Link, number: u64) -> Result<(), String> {
        if !self.network.connections.is_broken(link) || self.network.connections.number(link) != number {
            return Ok(());
        }
        if self.is_line_cut(link) {
            self.dial_again(link, number);
            return Ok(());
        }
        self.network.connections.make_anew(link);
        match link {
            (Machine::Server(a), Machine::Server(b)) => {
                for (server, peer) in [(a, b), (b, a)] {
                    let peer = self.regions[peer].id();
                    self.server_input(server, Input::LinkUp { peer });
                }
            }
            (Machine::Server(server), Machine::Node(node))
            | (Machine::Node(node), Machine::Server(server)) => {
                let server = self.regions[server].id();
                self.node_input(node, client::effects::Input::LinkUp { server });
            }
            (Machine::Node(_), Machine::Node(_)) => {}
        }
        Ok(())
    }

    fn is_line_cut(&self, (a, b): Link) -> bool {
        self.network.is_cut(a, b, self.now).is_some() || self.network.is_cut(b, a, self.now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::ServerAt;

    const SECOND: Span = Span::seconds(1);

    fn server(server: usize) -> Machine {
        Machine::Server(ServerAt { region: 0, server })
    }

    fn calm_world() -> World {
        let mut world = World::new(1, 3, 3, false);
        world.faults.heal();
        world.start_all().expect("fresh disks open");
        world.run_until(Mono(1).after(Span::seconds(20))).expect("no fault, no failure");
        world
    }

    fn cut(world: &mut World, length: Span) {
        let kind = Kind::FrameLostBetweenServers;
        let cut = Cut { from: vec![server(0)], to: vec![server(1)], both_ways: false, kind };
        world.cut(&cut, world.now.after(length));
    }

    #[test]
    fn a_cut_as_long_as_a_connection_idles_breaks_it() {
        let mut world = calm_world();
        let link = (server(1), server(0));
        let before = world.ends(server(0), server(1));
        cut(&mut world, Span::seconds(9));
        world.run_until(world.now.after(Span::seconds(30))).expect("no fault, no failure");
        assert!(world.are_joined(before), "it was not cut for long enough");
        cut(&mut world, Span::seconds(40));
        world.run_until(world.now.after(Span::seconds(16))).expect("no fault, no failure");
        assert!(world.network.connections.is_broken(link));
        assert!(!world.are_joined(before), "what was sent before never comes");
        world.run_until(world.now.after(Span::seconds(41))).expect("no fault, no failure");
        assert!(!world.network.connections.is_broken(link), "it is made anew");
        assert_eq!(world.faults.counts().get(&Kind::ServersConnectionBroken), Some(&1));
    }

    #[test]
    fn a_process_that_begins_anew_has_new_connections() {
        let mut world = calm_world();
        cut(&mut world, Span::seconds(40));
        world.run_until(world.now.after(Span::seconds(16))).expect("no fault, no failure");
        world.stop_server(ServerAt { region: 0, server: 1 }, SECOND);
        assert!(!world.network.connections.is_broken((server(0), server(1))));
    }
}
