//! Which servers a node may ask: those of its configuration, and those that the region lists, which it keeps over restarts
//! (client.md 2.10).
//!
//! Refuses to know: how servers are asked. Invariant: a server that the region does not list any more is asked only where the
//! configuration names it.

use model::member::{ServerAddress, ServerList};
use std::collections::BTreeSet;

#[derive(Debug)]
pub struct AddressBook {
    configured: Vec<u64>,
    /// The others that the region lists may be asked, too.
    asks_listed: bool,
    listed: ServerList,
    /// Those with a connection, as far as the agent tells.
    linked: BTreeSet<u64>,
    /// The servers to ask, in order of preference.
    ids: Vec<u64>,
    /// The place in `ids` of the server that is asked now.
    at: usize,
}

impl AddressBook {
    pub fn new(configured: Vec<u64>, asks_listed: bool, listed: ServerList) -> AddressBook {
        let (linked, ids) = (BTreeSet::new(), vec![]);
        let mut book = AddressBook { configured, asks_listed, listed, linked, ids, at: 0 };
        book.order();
        book
    }

    pub fn listed(&self) -> &ServerList {
        &self.listed
    }

    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The servers with their addresses, as far as the region has told.
    pub fn addresses(&self) -> Vec<ServerAddress> {
        let known = |id: u64| self.listed.servers.iter().find(|server| server.id == id).cloned();
        let unknown = |id: u64| ServerAddress { id, rpc_addr: String::new() };
        let all = self.configured.iter().copied().chain(self.others());
        all.map(|id| known(id).unwrap_or_else(|| unknown(id))).collect()
    }

    /// Those that the region lists and the configuration does not name.
    fn others(&self) -> impl Iterator<Item = u64> {
        let listed = self.listed.servers.iter().map(|server| server.id);
        listed.filter(|id| !self.configured.contains(id))
    }

    pub fn current(&self) -> Option<u64> {
        self.ids.get(self.at).copied()
    }

    pub fn rotate(&mut self) {
        self.at = (self.at + 1).checked_rem(self.ids.len()).unwrap_or(0);
    }

    /// There is a connection to the server: it is asked from now on, unless the one that is asked now has a connection, too.
    pub fn link_up(&mut self, id: u64) {
        let has_link = self.current().is_some_and(|current| self.linked.contains(&current));
        self.linked.insert(id);
        self.order();
        if !has_link {
            self.at = self.ids.iter().position(|known| *known == id).unwrap_or(self.at);
        }
    }

    pub fn link_down(&mut self, id: u64) {
        self.linked.remove(&id);
        self.order();
    }

    /// Takes a newer list; the server that is asked now stays, if it is still there. True: the list, or an address in it, has changed.
    pub fn update(&mut self, list: ServerList, is_other_generation: bool) -> bool {
        let is_newer = is_other_generation || list.index > self.listed.index;
        if !is_newer || !list.is_bounded() {
            return false;
        }
        let is_other = list.servers != self.listed.servers;
        self.listed = list;
        self.order();
        is_other
    }

    fn order(&mut self) {
        let current = self.current();
        let others = self.others().filter(|_| self.asks_listed);
        self.ids = self.configured.iter().copied().chain(others).collect();
        // whoever answered at an address of the configuration is a server to ask, also before the region has listed it
        let found: Vec<u64> = self.linked.iter().copied().filter(|id| !self.ids.contains(id)).collect();
        self.ids.extend(found);
        self.at = self.ids.iter().position(|id| Some(*id) == current).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(index: u64, ids: &[u64]) -> ServerList {
        let address = |id: &u64| ServerAddress { id: *id, rpc_addr: format!("10.0.0.{id}:4647") };
        ServerList { index, servers: ids.iter().map(address).collect() }
    }

    #[test]
    fn configured_servers_come_first_and_listed_ones_follow() {
        let mut book = AddressBook::new(vec![7, 3], true, ServerList::default());
        assert_eq!(book.ids(), [7, 3]);
        book.rotate();
        for (index, ids, is_other_generation, wanted, all) in [
            (5, vec![3, 4, 9], false, true, vec![7, 3, 4, 9]),
            (6, vec![3, 4, 9], false, false, vec![7, 3, 4, 9]),
            (8, vec![9], false, true, vec![7, 3, 9]),
            (7, vec![4], false, false, vec![7, 3, 9]),
            (2, vec![4], true, true, vec![7, 3, 4]),
            (9, (0..=64).collect(), false, false, vec![7, 3, 4]),
        ] {
            assert_eq!(book.update(list(index, &ids), is_other_generation), wanted, "{index}");
            assert_eq!((book.ids(), book.current()), (all.as_slice(), Some(3)), "{index}");
        }
        let at = book.addresses().into_iter().map(|server| server.rpc_addr).collect::<Vec<_>>();
        assert_eq!(at, ["", "", "10.0.0.4:4647"]);
        let mut moved = list(10, &[4]);
        moved.servers[0].rpc_addr = "a".repeat(257);
        assert!(!book.update(moved.clone(), false), "too long");
        moved.servers[0].rpc_addr = "10.0.0.5:4647".into();
        assert!(book.update(moved, false), "it is elsewhere");
        book.rotate();
        assert_eq!(book.current(), Some(4));
        assert!(book.update(list(11, &[]), false));
        assert_eq!(book.current(), Some(7), "it is gone");
    }

    #[test]
    fn a_linked_server_is_asked_before_one_that_is_not() {
        let mut book = AddressBook::new(vec![], true, ServerList::default());
        assert_eq!(book.current(), None);
        book.link_up(5);
        assert_eq!(book.current(), Some(5), "found at an address of the configuration");
        assert!(book.update(list(1, &[4, 5, 6]), false));
        assert_eq!((book.ids(), book.current()), (&[4, 5, 6][..], Some(5)));
        book.link_up(4);
        assert_eq!(book.current(), Some(5), "it has a connection");
        book.rotate();
        assert_eq!(book.current(), Some(6));
        book.link_up(4);
        assert_eq!(book.current(), Some(4), "the one that is asked has none");
        assert!(book.update(list(2, &[4]), false));
        assert_eq!(book.ids(), [4, 5], "it is still there");
        book.link_down(5);
        assert_eq!(book.ids(), [4]);
        book.link_down(4);
        assert_eq!(book.current(), Some(4), "listed");
    }

    #[test]
    fn a_node_that_asks_its_own_server_alone_knows_the_others() {
        let mut book = AddressBook::new(vec![7], false, ServerList::default());
        assert!(book.update(list(5, &[3, 7]), false));
        book.rotate();
        assert_eq!((book.ids(), book.current()), (&[7][..], Some(7)));
        let known = book.addresses().into_iter().map(|server| server.rpc_addr).collect::<Vec<_>>();
        assert_eq!(known, ["10.0.0.7:4647", "10.0.0.3:4647"]);
    }
}
