//! Which links there are to other servers, and which of several to one of them is used.
//!
//! Refuses to know: sockets. Invariants: while a server is linked, one of its links is the one to send on; of two servers that have several
//! links to each other, the one with the lower id decides, so that they do not close each other's; a process never takes the
//! place of another one with the same id while that one is linked.

use ::io::quic::LinkId;
use std::collections::BTreeMap;
use wire::credential::LinkRefusal;

/// Servers of a region, and those that join and leave meanwhile.
const MAX_SERVERS: usize = 64;
/// Until the other side has closed what is too many.
const MAX_LINKS_OF_SERVER: usize = 8;

/// Which process is at the other end: its public key.
pub type ProcessKey = [u8; 32];

#[derive(Debug)]
pub struct LinkTable {
    own: u64,
    /// By raft id. The first link is the one to send on.
    servers: BTreeMap<u64, Vec<Entry>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    link: LinkId,
    process: ProcessKey,
}

/// What becomes of a link that has come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The first one to its server.
    First,
    /// Kept until the other side closes one of them.
    Further,
    Refused(LinkRefusal),
}

/// What the end of a link changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing: another link is the one to send on.
    Nothing,
    /// The server is linked no more.
    Unlinked,
    /// Another link is the one to send on now.
    Replaced(LinkId),
}

impl LinkTable {
    pub fn new(own: u64) -> LinkTable {
        LinkTable { own, servers: BTreeMap::new() }
    }

    pub fn is_linked(&self, server: u64) -> bool {
        self.servers.contains_key(&server)
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    pub fn up(&mut self, server: u64, link: LinkId, process: ProcessKey) -> Admitted {
        let entry = Entry { link, process };
        let Some(links) = self.servers.get_mut(&server) else {
            if self.servers.len() >= MAX_SERVERS {
                return Admitted::Refused(LinkRefusal::Busy);
            }
            self.servers.insert(server, vec![entry]);
            return Admitted::First;
        };
        if links.iter().any(|known| known.process != process) {
            return Admitted::Refused(LinkRefusal::SameId);
        }
        if self.own < server {
            return Admitted::Refused(LinkRefusal::AlreadyLinked);
        }
        if links.len() >= MAX_LINKS_OF_SERVER {
            return Admitted::Refused(LinkRefusal::Busy);
        }
        links.push(entry);
        Admitted::Further
    }

    pub fn down(&mut self, server: u64, link: LinkId) -> Ended {
        let Some(links) = self.servers.get_mut(&server) else { return Ended::Nothing };
        let Some(place) = links.iter().position(|known| known.link == link) else { return Ended::Nothing };
        links.remove(place);
        match links.first() {
            None => {
                self.servers.remove(&server);
                Ended::Unlinked
            }
            Some(next) if place == 0 => Ended::Replaced(next.link),
            Some(_) => Ended::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ProcessKey = [1; 32];
    const B: ProcessKey = [2; 32];

    #[test]
    fn the_lower_id_decides_which_of_two_links_stays() {
        let (mut low, mut high) = (LinkTable::new(1), LinkTable::new(2));
        // both have dialed, and see the two links in another order
        assert_eq!(
            (low.up(2, 10, B), low.up(2, 11, B)),
            (Admitted::First, Admitted::Refused(LinkRefusal::AlreadyLinked))
        );
        assert_eq!((high.up(1, 21, A), high.up(1, 20, A)), (Admitted::First, Admitted::Further));
        assert_eq!(low.down(2, 11), Ended::Nothing);
        assert_eq!(high.down(1, 21), Ended::Replaced(20));
        assert!(low.is_linked(2) && high.is_linked(1));
        assert_eq!((low.down(2, 10), high.down(1, 20)), (Ended::Unlinked, Ended::Unlinked));
        assert!(low.is_empty() && high.is_empty());
    }

    #[test]
    fn a_process_with_the_same_id_waits_until_the_first_is_gone() {
        for own in [1, 3] {
            let mut table = LinkTable::new(own);
            assert_eq!(table.up(2, 1, A), Admitted::First);
            assert_eq!(table.up(2, 2, B), Admitted::Refused(LinkRefusal::SameId));
            assert_eq!(table.down(2, 2), Ended::Nothing);
            assert_eq!(table.down(2, 1), Ended::Unlinked);
            assert_eq!(table.up(2, 3, B), Admitted::First);
        }
    }

    #[test]
    fn servers_and_links_of_one_are_bounded() {
        let mut table = LinkTable::new(1000);
        for server in 0..MAX_SERVERS as u64 {
            assert_eq!(table.up(server, server, A), Admitted::First);
        }
        assert_eq!(table.up(999, 1, A), Admitted::Refused(LinkRefusal::Busy));
        for link in 1..MAX_LINKS_OF_SERVER as u64 {
            assert_eq!(table.up(0, 100 + link, A), Admitted::Further);
        }
        assert_eq!(table.up(0, 200, A), Admitted::Refused(LinkRefusal::Busy));
        assert_eq!(table.down(0, 101), Ended::Nothing, "it was not the one to send on");
    }
}
