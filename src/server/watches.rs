//! Nodes that wait to hear of their allocations: one open watch each (client.md 3).
//! Knows only which node something happened to, and at which index; the answer itself is built from the state.

use super::pending::Asker;
use model::id::NodeId;
use model::member::Generation;
use model::time::Mono;
use std::collections::{BTreeMap, BTreeSet};
use wire::rpc::WATCH_HOLD;

#[derive(Default)]
pub struct Watches {
    open: BTreeMap<NodeId, Watch>,
    /// The index of the last change for each node, since `known_from`.
    changed: BTreeMap<NodeId, u64>,
    /// Changes before this index are not known: a watch from before is answered at once.
    known_from: u64,
    /// The generation, and the index of the list of servers, that nodes are to know.
    current: Known,
    due: BTreeSet<NodeId>,
    timers: BTreeSet<(Mono, NodeId)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub asker: Asker,
    pub since: u64,
    /// The index of the list of servers that the node has.
    pub servers: u64,
    pub until: Mono,
}

/// What a node has beside its index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The generation that the index counts in.
    pub generation: Generation,
    /// The index of the list of servers.
    pub servers: u64,
}

impl Watches {
    /// A new leader starts at this index.
    pub fn new(current: Known, index: u64) -> Watches {
        Watches { current, known_from: index, ..Watches::default() }
    }

    /// Answers the open watches with the new list of servers.
    pub fn servers_changed(&mut self, index: u64) {
        self.current.servers = index;
        self.due.extend(self.open.keys());
    }

    /// Which state answers come from.
    pub fn generation(&self) -> Generation {
        self.current.generation
    }

    /// The watches without an answer yet.
    pub fn into_open(self) -> impl Iterator<Item = Watch> {
        self.open.into_values()
    }

    /// A node's newer watch replaces its older one: that one's answer is no longer waited for.
    /// Where the node's index is of another generation, all is news to it.
    pub fn open(&mut self, asker: Asker, since: u64, known: Known, now: Mono) {
        let node = asker.node;
        self.close(node);
        let is_other = known.generation != self.current.generation;
        let (since, servers) = if is_other { (0, 0) } else { (since, known.servers) };
        let watch = Watch { asker, since, servers, until: now.after(WATCH_HOLD) };
        self.timers.insert((watch.until, node));
        self.open.insert(node, watch);
        assert_eq!(self.timers.len(), self.open.len(), "an open watch has one deadline");
        if self.last_change(node) > since || servers < self.current.servers {
            self.due.insert(node);
        }
    }

    fn close(&mut self, node: NodeId) -> Option<Watch> {
        let watch = self.open.remove(&node)?;
        self.timers.remove(&(watch.until, node));
        Some(watch)
    }

    fn last_change(&self, node: NodeId) -> u64 {
        self.changed.get(&node).copied().unwrap_or(self.known_from)
    }

    pub fn changed(&mut self, node: NodeId, index: u64) {
        self.changed.insert(node, index);
        if self.open.contains_key(&node) {
            self.due.insert(node);
        }
    }

    /// The index with which an answer to this node is current.
    pub fn index_for(&self, node: NodeId, applied: u64) -> u64 {
        self.last_change(node).max(1).min(applied)
    }

    /// Watches to be answered now, at most `limit`.
    pub fn take_due(&mut self, now: Mono, limit: usize) -> Vec<(NodeId, Watch)> {
        self.due.extend(self.timers.iter().take_while(|(at, _)| *at <= now).map(|(_, n)| *n));
        let mut out = vec![];
        while out.len() < limit {
            let Some(node) = self.due.pop_first() else { break };
            out.extend(self.close(node).map(|w| (node, w)));
        }
        out
    }

    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.timers.first().map(|t| t.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Mono = Mono(1);

    fn asker(node: NodeId, request: u64) -> Asker {
        Asker { node, request, via: None }
    }

    fn due(w: &mut Watches, now: Mono) -> Vec<(NodeId, u64)> {
        w.take_due(now, 10).into_iter().map(|(n, w)| (n, w.asker.request)).collect()
    }

    fn known(restores: u64, servers: u64) -> Known {
        Known { generation: Generation { restores, ..Generation::default() }, servers }
    }

    fn shown(w: &mut Watches) -> Vec<(u64, u64, u64)> {
        let due = w.take_due(T0, 10);
        due.into_iter().map(|(_, w)| (w.asker.request, w.since, w.servers)).collect()
    }

    #[test]
    fn an_index_of_another_generation_is_ignored() {
        let a = NodeId::from_random(1);
        let mut w = Watches::new(known(1, 3), 5);
        w.open(asker(a, 1), 9, known(1, 3), T0);
        assert_eq!(shown(&mut w), []);
        w.open(asker(a, 2), 9, known(0, 7), T0);
        assert_eq!(shown(&mut w), [(2, 0, 0)], "all is news");
    }

    #[test]
    fn a_new_server_list_answers_watches_without_it() {
        let a = NodeId::from_random(1);
        let mut w = Watches::new(known(0, 3), 5);
        w.open(asker(a, 1), 9, known(0, 2), T0);
        assert_eq!(shown(&mut w), [(1, 9, 2)]);
        w.open(asker(a, 2), 9, known(0, 3), T0);
        assert_eq!(shown(&mut w), []);
        w.servers_changed(12);
        assert_eq!(shown(&mut w), [(2, 9, 3)]);
        w.open(asker(a, 4), 9, known(0, 12), T0);
        assert_eq!(shown(&mut w), []);
    }

    #[test]
    fn a_watch_is_answered_by_a_change_or_its_timeout_only() {
        let (a, b) = (NodeId::from_random(1), NodeId::from_random(2));
        let mut w = Watches::new(known(0, 3), 5);
        w.open(asker(a, 1), 0, known(0, 3), T0);
        assert_eq!(due(&mut w, T0), [(a, 1)], "what happened before this leader is unknown");
        w.open(asker(a, 2), 5, known(0, 3), T0);
        w.open(asker(b, 3), 5, known(0, 3), T0);
        assert_eq!(due(&mut w, T0), []);
        w.changed(b, 9);
        assert_eq!(due(&mut w, T0), [(b, 3)]);
        w.open(asker(a, 4), 5, known(0, 3), T0);
        assert_eq!(due(&mut w, T0.after(WATCH_HOLD)), [(a, 4)], "the older watch was replaced");
        w.changed(a, 10);
        w.open(asker(a, 5), 9, known(0, 3), T0);
        assert_eq!(due(&mut w, T0), [(a, 5)], "news from between two watches");
    }
}
