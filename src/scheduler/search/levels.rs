//! The candidates of one group by what the spread blocks add for them: all nodes of a level are worth the same there, so
//! that among them only their own scores decide. One more allocation moves a few values, and the nodes of these.
//!
//! With several blocks the balance of the values' *combinations* is one more term; ties go to the combination with the
//! fewest allocations, then to the first node in the evaluation's order. Refuses to know what fits and what filters.

use super::ranked::{Ranked, ScoredNode};
use crate::bitmap::Bitmap;
use crate::score::NodeScores;
use crate::spread::{ShareRange, SpreadBlock, ValueKey};
use crate::values::{Combinations, ValueId};
use model::alloc::Scores;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A node has one to three scores of its own: its fit, its affinity, its anti-affinity.
const MAX_OWN_SCORES: usize = 3;

/// A node that may be chosen, and how good it is.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub score: f64,
    /// What the spread blocks add to the node's own scores.
    pub spread: f64,
    /// Allocations of the group at the node's combination of values.
    pub used: i64,
    pub order: Reverse<u64>,
    pub slot: u32,
}

impl Choice {
    /// Greater is better.
    fn rank(&self, other: &Self) -> Ordering {
        match self.score.total_cmp(&other.score) {
            Ordering::Equal => other.used.cmp(&self.used).then_with(|| self.order.cmp(&other.order)),
            decided => decided,
        }
    }
}

/// Nodes that share the value of every block.
struct Combination {
    used: i64,
    /// The share of the group's count that belongs there.
    share: f64,
    level: u32,
    /// The places of the combination's nodes in `SpreadLevels::members`.
    members: Range<usize>,
}

/// The combinations of each value of one block, as a list from one to the next: there may be as many as nodes.
#[derive(Default)]
struct CombinationsByValue {
    /// By value, the last for none. Empty: the block's part in a level is the value itself, or never changes.
    first: Vec<u32>,
    /// By combination.
    next: Vec<u32>,
}

#[derive(Default)]
struct Level {
    parts: Vec<ValueKey>,
    used: i64,
    share: f64,
    /// By the number of own scores, less one.
    ranked: [Ranked; MAX_OWN_SCORES],
}

/// How a node is ranked.
#[derive(Clone, Copy, Default)]
struct RankedNode {
    scores: Scores,
    own: NodeScores,
    /// False: it is not.
    ranked: bool,
}

pub struct SpreadLevels<'a> {
    seed_order: Vec<u64>,
    blocks: Vec<SpreadBlock<'a>>,
    combinations: Vec<Combination>,
    /// The values of each combination, one for each block.
    values: Vec<ValueId>,
    /// The candidates by combination. Empty where nodes never change their level.
    members: Vec<u32>,
    /// By slot.
    combination_of: Vec<u32>,
    places: Vec<RankedNode>,
    stamps: Vec<u32>,
    /// How evenly the combinations are used, each by its share; only for several blocks.
    balance: ShareRange,
    levels: Vec<Level>,
    /// The levels, where nodes change them: by what the nodes of a level have in common.
    by_key: BTreeMap<Vec<i64>, u32>,
    moving: bool,
    /// By block.
    sharing: Vec<CombinationsByValue>,
}

const UNKNOWN: u32 = u32::MAX;
/// A combination that has no share is worth this much, used or not.
const NO_SHARE: f64 = -1.0;

impl<'a> SpreadLevels<'a> {
    /// `present`: how many of the group are where. `order`: by slot, of nodes that are equal in all else. `most`: the levels that values by
    /// themselves may make, since all are looked at for each choice; of the blocks beyond that, values of the same present worth share a
    /// level, and nodes change theirs.
    pub fn new(
        mut blocks: Vec<SpreadBlock<'a>>,
        candidates: &Bitmap,
        present: &[(u32, i64)],
        order: Vec<u64>,
        most: usize,
    ) -> Self {
        let slots = order.len();
        let moving = choose_blocks_by_value(&mut blocks, most);
        let mut levels = SpreadLevels {
            seed_order: order,
            sharing: blocks.iter().map(CombinationsByValue::new).collect(),
            blocks,
            combinations: Vec::new(),
            values: Vec::new(),
            members: Vec::new(),
            combination_of: vec![UNKNOWN; slots],
            places: vec![RankedNode::default(); slots],
            stamps: vec![0; slots],
            balance: ShareRange::default(),
            levels: Vec::new(),
            by_key: BTreeMap::new(),
            moving,
        };
        levels.combine(candidates, present);
        for &(slot, wanted) in present {
            levels.count_values(slot, wanted);
        }
        (0..levels.combinations.len()).for_each(|c| levels.move_to_level(c as u32));
        levels
    }

    fn combine(&mut self, candidates: &Bitmap, present: &[(u32, i64)]) {
        let mut known = Combinations::new(self.blocks.iter().map(|b| b.values().len()));
        let mut values = Vec::new();
        for slot in candidates.iter().chain(present.iter().map(|(slot, _)| *slot)) {
            values.clear();
            values.extend(self.blocks.iter().map(|b| b.values().at(slot)));
            let number = known.number(&values);
            if number as usize == self.combinations.len() {
                let share = self.blocks.iter().zip(&values).map(|(b, v)| b.share(*v)).product();
                self.combinations.push(Combination { used: 0, share, level: UNKNOWN, members: 0..0 });
                self.values.extend(&values);
                self.sharing
                    .iter_mut()
                    .zip(&values)
                    .for_each(|(sharing, value)| sharing.note(number, *value));
            }
            self.combination_of[slot as usize] = number;
        }
        if self.moving {
            self.collect_members(candidates);
        }
    }

    fn collect_members(&mut self, candidates: &Bitmap) {
        for slot in candidates.iter() {
            self.combinations[self.combination_of[slot as usize] as usize].members.end += 1;
        }
        let mut from = 0;
        for combination in &mut self.combinations {
            let members = combination.members.len();
            combination.members = from..from;
            from += members;
        }
        self.members = vec![0; from];
        for slot in candidates.iter() {
            let members = &mut self.combinations[self.combination_of[slot as usize] as usize].members;
            self.members[members.end] = slot;
            members.end += 1;
        }
    }

    fn values_of(&self, combination: u32) -> &[ValueId] {
        let blocks = self.blocks.len();
        &self.values[combination as usize * blocks..][..blocks]
    }

    /// `more` allocations of the group are on the node.
    pub fn count(&mut self, slot: u32, more: i64) {
        let Some(number) = self.count_values(slot, more) else { return };
        if !self.moving {
            let Combination { level, used, .. } = self.combinations[number as usize];
            return self.levels[level as usize].used = used;
        }
        let shared = self.sharing.iter().zip(self.values_of(number)).flat_map(|(s, value)| s.of(*value));
        let mut moved: Vec<u32> = shared.chain([number]).collect();
        moved.sort_unstable();
        moved.dedup();
        moved.into_iter().for_each(|c| self.move_to_level(c));
    }

    /// Counts for the node's combination, and returns it if it is known.
    fn count_values(&mut self, slot: u32, more: i64) -> Option<u32> {
        for block in &mut self.blocks {
            let value = block.values().at(slot);
            block.count(value, more);
        }
        let number = self.combination_of[slot as usize];
        let combination = self.combinations.get_mut(number as usize)?;
        let before = by_share(combination.used, combination.share);
        combination.used += more;
        if self.blocks.len() > 1 {
            self.balance.change(before, by_share(combination.used, combination.share));
        }
        Some(number)
    }

    /// Moves a combination, with its nodes, to the level of its present values.
    fn move_to_level(&mut self, number: u32) {
        let Combination { used, share, level: from, ref members } = self.combinations[number as usize];
        let members = members.clone();
        let parts = self.blocks.iter().zip(self.values_of(number)).map(|(b, v)| b.value_key(*v));
        let mut key: Vec<i64> = parts.collect();
        let next = self.levels.len() as u32;
        let to = if self.moving {
            key.extend([used, share.to_bits() as i64]);
            self.by_key.get(key.as_slice()).copied().unwrap_or(next)
        } else {
            next
        };
        if to == next {
            let parts = key[..self.blocks.len()].to_vec();
            self.levels.push(Level { parts, used, share, ..Level::default() });
            if self.moving {
                self.by_key.insert(key, next);
            }
        }
        if from == to {
            return;
        }
        self.combinations[number as usize].level = to;
        for i in members {
            let slot = self.members[i];
            let RankedNode { scores, own, ranked: true } = self.places[slot as usize] else { continue };
            self.levels[from as usize].ranked[own.scores - 1].stale = true;
            self.rank(slot, scores);
        }
    }

    /// Ranks a candidate by its own scores.
    pub fn rank(&mut self, slot: u32, scores: Scores) {
        self.unrank(slot);
        let own = NodeScores::of(&scores);
        assert!((1..=MAX_OWN_SCORES).contains(&own.scores), "a node is ranked by its own scores");
        self.places[slot as usize] = RankedNode { scores, own, ranked: true };
        let stamp = self.stamps[slot as usize];
        let order = Reverse(self.seed_order[slot as usize]);
        self.ranked(slot).push(ScoredNode::new(own.sum, order, slot, stamp));
    }

    pub fn unrank(&mut self, slot: u32) {
        if std::mem::take(&mut self.places[slot as usize].ranked) {
            self.stamps[slot as usize] += 1;
            self.ranked(slot).stale = true;
        }
    }

    fn ranked(&mut self, slot: u32) -> &mut Ranked {
        let scores = self.places[slot as usize].own.scores;
        let level = self.combinations[self.combination_of[slot as usize] as usize].level;
        &mut self.levels[level as usize].ranked[scores - 1]
    }

    /// The candidate's own scores, if it is ranked.
    pub fn scores(&self, slot: u32) -> Option<Scores> {
        let place = self.places[slot as usize];
        place.ranked.then_some(place.scores)
    }

    /// The best `wanted` nodes, best first, `excluded` left out.
    pub fn best(&mut self, wanted: usize, excluded: &BTreeSet<u32>) -> Vec<Choice> {
        let lowest = self.lowest();
        let mut best: Vec<Choice> = Vec::with_capacity(wanted + 1);
        for i in 0..self.levels.len() {
            let spread = self.boost(&self.levels[i], lowest);
            let Level { ranked, used, .. } = &mut self.levels[i];
            for (i, ranked) in ranked.iter_mut().enumerate() {
                for e in ranked.best(wanted + excluded.len(), &self.stamps) {
                    let score = NodeScores { sum: e.own(), scores: i + 1 }.mean_with(spread);
                    let last = best.last().filter(|_| best.len() == wanted);
                    // no better node in this level: most levels end here
                    if last.is_some_and(|last| score < last.score) {
                        break;
                    }
                    let choice = Choice { score, spread, used: *used, order: e.order, slot: e.slot };
                    if last.is_some_and(|last| choice.rank(last).is_lt()) {
                        break;
                    }
                    if !excluded.contains(&e.slot) {
                        insert_best(&mut best, choice, wanted);
                    }
                }
            }
        }
        best
    }

    /// A candidate with other scores of its own than it is ranked by.
    pub fn choice(&self, slot: u32, own: NodeScores) -> Choice {
        let level = self.combinations[self.combination_of[slot as usize] as usize].level;
        let level = &self.levels[level as usize];
        let spread = self.boost(level, self.lowest());
        let score = own.mean_with(spread);
        Choice { score, spread, used: level.used, order: Reverse(self.seed_order[slot as usize]), slot }
    }

    fn lowest(&self) -> f64 {
        self.blocks.iter().map(SpreadBlock::lowest).fold(NO_SHARE, f64::min)
    }

    fn boost(&self, level: &Level, lowest: f64) -> f64 {
        let single: f64 = self.blocks.iter().zip(&level.parts).map(|(b, p)| b.boost(*p, lowest)).sum();
        match self.blocks.len() {
            0 | 1 => single,
            _ if level.share > 0.0 => single + self.balance.boost(by_share(level.used, level.share)),
            _ => single + NO_SHARE,
        }
    }
}

impl CombinationsByValue {
    fn new(block: &SpreadBlock) -> Self {
        let values = if block.by_value || !block.is_even() { 0 } else { block.values().len() + 1 };
        CombinationsByValue { first: vec![UNKNOWN; values], next: Vec::new() }
    }

    /// Adds the next combination, which has this value.
    fn note(&mut self, combination: u32, value: ValueId) {
        let Some(last) = self.first.len().checked_sub(1) else { return };
        let before = std::mem::replace(&mut self.first[last.min(value as usize)], combination);
        self.next.push(before);
    }

    fn of(&self, value: ValueId) -> impl Iterator<Item = u32> {
        let at = (value as usize).min(self.first.len().saturating_sub(1));
        let known = |c: &u32| *c != UNKNOWN;
        let first = self.first.get(at).copied().filter(known);
        std::iter::successors(first, move |c| self.next.get(*c as usize).copied().filter(known))
    }
}

fn by_share(used: i64, share: f64) -> f64 {
    if share > 0.0 { used as f64 / share } else { 0.0 }
}

/// Chooses the blocks whose levels are made of their values; whether there are others.
fn choose_blocks_by_value(blocks: &mut [SpreadBlock], most: usize) -> bool {
    let mut by_size: Vec<&mut SpreadBlock> = blocks.iter_mut().collect();
    by_size.sort_by_key(|b| b.values().len());
    let mut levels = 1_usize;
    for block in by_size {
        // One more for nodes without a value.
        levels = levels.saturating_mul(block.values().len() + 1);
        block.by_value = levels <= most;
    }
    levels > most
}

/// Keeps the best `wanted`, best first.
pub fn insert_best(best: &mut Vec<Choice>, choice: Choice, wanted: usize) {
    let at = best.partition_point(|b| b.rank(&choice).is_gt());
    if at < wanted {
        best.truncate(wanted - 1);
        best.insert(at, choice);
    }
}
