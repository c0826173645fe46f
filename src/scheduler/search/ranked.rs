//! Nodes in the order of their own scores, the best of them in sight. Refuses to know what a score is made of.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A scored node. The greatest is the best: the highest score, then the first in the evaluation's order of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScoredNode {
    /// The bits of the sum of the scores that are the node's own.
    rank: u64,
    pub order: Reverse<u64>,
    pub slot: u32,
    /// The generation of the node's scoring: an entry with an older one is out of date.
    pub stamp: u32,
}

const SIGN: u64 = 1 << 63;

impl ScoredNode {
    pub fn new(own: f64, order: Reverse<u64>, slot: u32, stamp: u32) -> Self {
        let bits = own.to_bits();
        // the bits of floats sort as their numbers do once the sign is flipped, and of numbers below zero all other bits, too
        let rank = if bits & SIGN == 0 { bits | SIGN } else { !bits };
        ScoredNode { rank, order, slot, stamp }
    }

    /// The sum of the scores that are the node's own.
    pub fn own(&self) -> f64 {
        f64::from_bits(if self.rank & SIGN == 0 { !self.rank } else { self.rank & !SIGN })
    }
}

/// The most entries that `front` holds.
const MAX_FRONT: usize = 24;

#[derive(Default)]
pub struct Ranked {
    /// Best first; none of `rest` is better.
    front: Vec<ScoredNode>,
    rest: BinaryHeap<ScoredNode>,
    /// Some entry may be out of date.
    pub stale: bool,
}

impl Ranked {
    pub fn push(&mut self, entry: ScoredNode) {
        if self.front.last().is_none_or(|last| entry < *last) {
            return self.rest.push(entry);
        }
        let at = self.front.partition_point(|e| *e > entry);
        self.front.insert(at, entry);
        if self.front.len() > MAX_FRONT {
            self.rest.extend(self.front.pop());
        }
    }

    /// The best entries that are not out of date, best first: `wanted` or more, if there are so many.
    pub fn best(&mut self, wanted: usize, stamps: &[u32]) -> &[ScoredNode] {
        let live = |e: &ScoredNode| stamps[e.slot as usize] == e.stamp;
        if std::mem::take(&mut self.stale) {
            self.front.retain(live);
        }
        while self.front.len() < wanted {
            let Some(next) = self.rest.pop() else { break };
            if live(&next) {
                self.front.push(next);
            }
        }
        &self.front
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_sort_by_score_then_by_order() {
        let scores = [f64::NEG_INFINITY, -2.5, -1.0, -1e-300, 0.0, 1e-300, 0.5, 2.0];
        let entries = scores.map(|own| ScoredNode::new(own, Reverse(7), 1, 1));
        assert!(entries.is_sorted());
        assert_eq!(entries.map(|e| e.own()), scores);
        assert!(ScoredNode::new(0.5, Reverse(6), 0, 0) > ScoredNode::new(0.5, Reverse(7), 1, 1));
    }

    #[test]
    fn best_entries_skip_outdated_ones_in_any_order() {
        let mut ranked = Ranked::default();
        let mut stamps = vec![0; 200];
        let push = |ranked: &mut Ranked, slot: u32, stamp| {
            ranked.push(ScoredNode::new(f64::from(slot * 7 % 200), Reverse(0), slot, stamp));
        };
        (0..100).for_each(|slot| push(&mut ranked, slot, 0));
        let mut seen = ranked.best(5, &stamps).len();
        (100..200).for_each(|slot| push(&mut ranked, slot, 0));
        for gone in (1..200).rev().step_by(2) {
            let best = ranked.best(5, &stamps);
            let wanted =
                (0..200).filter(|slot| stamps[*slot as usize] == 0).map(|slot| f64::from(slot * 7 % 200));
            assert_eq!(Some(best[0].own()), wanted.reduce(f64::max));
            assert!(best.is_sorted_by(|a, b| a > b) && best.len() >= 5.min(seen));
            seen = best.len();
            stamps[gone] = 1;
            ranked.stale = true;
        }
    }
}
