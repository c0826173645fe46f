//! Which nodes are alive: one deadline per node (server.md 6.1). Knows nothing of what a node's death means; never writes.

use model::id::NodeId;
use model::random::Stream;
use model::time::{Mono, Span};
use std::collections::{BTreeMap, BTreeSet};

/// How long a node may be silent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeartbeatRules {
    pub min_ttl: Span,
    pub max_per_second: f64,
    /// Added to what the node is told, for slow links.
    pub grace: Span,
    /// Given to every node after a change of leader.
    pub failover_ttl: Span,
}

impl Default for HeartbeatRules {
    fn default() -> Self {
        HeartbeatRules {
            min_ttl: Span::seconds(10),
            max_per_second: 50.0,
            grace: Span::seconds(10),
            failover_ttl: Span::minutes(5),
        }
    }
}

/// A server that checks a deadline this much too late was stalled itself.
const STALLED_AFTER: Span = Span::millis(500);

pub struct Heartbeats {
    rules: HeartbeatRules,
    deadlines: BTreeMap<NodeId, Mono>,
    queue: BTreeSet<(Mono, NodeId)>,
    jitter: Stream,
    /// When deadlines were last checked, or could have been.
    last_check: Mono,
    /// After a stall of this server no node expires before this: messages of nodes may still wait to be read.
    no_expiry_before: Mono,
}

impl Heartbeats {
    pub fn new(rules: HeartbeatRules, seed: u64) -> Self {
        Heartbeats {
            rules,
            deadlines: BTreeMap::new(),
            queue: BTreeSet::new(),
            jitter: Stream::new(seed, 1),
            last_check: Mono::default(),
            no_expiry_before: Mono::default(),
        }
    }

    /// Resets the timer of a node that sent a message. Returns the time within which it is expected again:
    /// `max(min_ttl, nodes / rate)`, and as much again by chance, so that a fleet that started together does not stay together.
    pub fn reset_timer(&mut self, node: NodeId, now: Mono) -> Span {
        let others = self.deadlines.len() as f64;
        let base = self.rules.min_ttl.0.max((others / self.rules.max_per_second * 1e9) as i64);
        let ttl = Span(base + self.jitter.below(base.max(0) as u64) as i64);
        self.set(node, now.after(ttl + self.rules.grace));
        ttl
    }

    /// A new leader knows the node only from the state.
    pub fn expect_after_failover(&mut self, node: NodeId, now: Mono) {
        self.set(node, now.after(self.rules.failover_ttl));
    }

    fn set(&mut self, node: NodeId, at: Mono) {
        self.forget(node);
        self.deadlines.insert(node, at);
        self.queue.insert((at, node));
        assert_eq!(self.queue.len(), self.deadlines.len(), "a node has one deadline");
    }

    pub fn forget(&mut self, node: NodeId) {
        if let Some(at) = self.deadlines.remove(&node) {
            self.queue.remove(&(at, node));
        }
    }

    /// Nodes that were silent for too long, at most `limit`; they are forgotten until they are heard again. A server that was
    /// paused, or could not write, gives nodes as much time again, at most what a node has between two heartbeats.
    pub fn take_expired(&mut self, now: Mono, limit: usize) -> Vec<NodeId> {
        let due = self.next_deadline().filter(|due| *due <= now);
        let stalled = due.map_or(Span::ZERO, |due| now.since(due.max(self.last_check)));
        self.note_check(now);
        if stalled > STALLED_AFTER {
            let patience = Span(self.rules.min_ttl.0.saturating_add(self.rules.grace.0));
            self.no_expiry_before = now.after(stalled.min(patience));
        }
        if now < self.no_expiry_before {
            return vec![];
        }
        let expired: Vec<_> =
            self.queue.iter().take_while(|(at, _)| *at <= now).take(limit).map(|q| q.1).collect();
        for node in &expired {
            self.forget(*node);
        }
        expired
    }

    /// Notes a check without expiring any node: a stall is measured from here.
    pub fn note_check(&mut self, now: Mono) {
        self.last_check = now;
    }

    /// How many nodes are expected to be heard of.
    pub fn expected(&self) -> usize {
        self.deadlines.len()
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.queue.first().map(|q| q.0.max(self.no_expiry_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::RangeInclusive;

    fn node(n: u128) -> NodeId {
        NodeId::from_random(n)
    }

    #[test]
    fn ttl_grows_with_the_fleet_and_grace_is_added() {
        let mut h = Heartbeats::new(HeartbeatRules::default(), 7);
        let ttl = h.reset_timer(node(1), Mono(0));
        assert!(ttl >= Span::seconds(10) && ttl < Span::seconds(20), "{ttl}");
        let due = Mono(0).after(ttl + Span::seconds(10));
        assert_eq!(h.next_deadline(), Some(due));
        assert!(h.take_expired(Mono(due.0 - 1), 10).is_empty());
        assert_eq!(h.take_expired(due, 10), [node(1)]);
        assert!(h.take_expired(due, 10).is_empty());
        assert_eq!(h.next_deadline(), None);
        for n in 0..1000 {
            h.reset_timer(node(n), Mono(0));
        }
        assert!(h.reset_timer(node(2000), Mono(0)) >= Span::seconds(20), "1,000 nodes at 50 a second");
    }

    #[test]
    fn a_heartbeat_moves_the_deadline_and_failover_extends_it() {
        let mut h = Heartbeats::new(HeartbeatRules::default(), 7);
        h.expect_after_failover(node(1), Mono(0));
        assert_eq!(h.next_deadline(), Some(Mono(0).after(Span::minutes(5))));
        h.reset_timer(node(1), Mono(0));
        assert!(h.next_deadline() < Some(Mono(0).after(Span::seconds(31))));
        h.forget(node(1));
        assert!(h.take_expired(Mono(u64::MAX), 10).is_empty());
    }

    #[test]
    fn after_a_stall_nodes_have_as_much_time_again() {
        let mut h = Heartbeats::new(HeartbeatRules::default(), 7);
        let heard = |h: &mut Heartbeats, nodes: RangeInclusive<u128>, now| {
            for n in nodes {
                h.reset_timer(node(n), now);
            }
        };
        heard(&mut h, 1..=20, Mono(0));
        let first = h.next_deadline().expect("nodes are expected");
        h.take_expired(Mono(first.0 - 1), 10);
        let late = first.after(Span::seconds(7));
        assert!(h.take_expired(late, 10).is_empty(), "their heartbeats may wait to be read");
        let again = late.after(Span::seconds(7));
        assert_eq!(h.next_deadline(), Some(again));
        heard(&mut h, 2..=20, late);
        assert!(h.take_expired(Mono(again.0 - 1), 10).is_empty());
        assert_eq!(h.take_expired(again, 10), [node(1)], "it is silent indeed");
        let next = h.next_deadline().expect("nodes are expected");
        let long_after = next.after(Span::hours(1));
        assert!(h.take_expired(long_after, 10).is_empty());
        assert_eq!(h.next_deadline(), Some(long_after.after(Span::seconds(20))), "a stall earns no more");
        let silent = long_after.after(Span::seconds(20));
        assert_eq!(h.take_expired(silent, 10).len(), 10);
        let soon = silent.after(Span::millis(400));
        assert_eq!(h.take_expired(soon, 10).len(), 9, "what is left of many is no stall");
    }
}
