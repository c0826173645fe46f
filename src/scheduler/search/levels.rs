//! The candidates of one group by what the spread blocks add for them: all nodes of a level are worth the same there, so
//! that among them only their own scores decide. One more allocation moves a few values, and the nodes of these.
//!
//! With several blocks the balance of the values' *combinations* is one more term; ties go to the combination with the
//! fewest allocations, then to the first node in the evaluation's order. Refuses to know what fits and what filters.

use super::ranked::{Entry, Ranked};
use crate::model::alloc::Scores;
use crate::model::gather::Gather;
use crate::model::tree::{BTreeMap, BTreeSet};
use crate::scheduler::bits::Bits;
use crate::scheduler::score::Own;
use crate::scheduler::spread::{Block, Extent, Part};
use crate::scheduler::values::Value;
use std::cmp::{Ordering, Reverse};

/// A node has from one to so many scores of its own that stay with it: its fit, its affinity, its anti-affinity.
const MOST_OWN_SCORES: usize = 3;

/// A node that may be chosen, and how good it is.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub score: f64,
    /// What the spread blocks add to its own scores.
    pub spread: f64,
    /// Allocations of the group at the node's combination of values.
    pub used: i64,
    pub order: Reverse<u64>,
    pub slot: u32,
}

impl Choice {
    /// Greater is better.
    fn rank(&self, other: &Self) -> Ordering {
        let by_score = self.score.total_cmp(&other.score);
        by_score.then(other.used.cmp(&self.used)).then(self.order.cmp(&other.order))
    }
}

/// Nodes that share the value of every block.
struct Combination {
    values: Vec<Value>,
    used: i64,
    /// Of the group's count, the part that belongs there.
    share: f64,
    level: u32,
    /// Empty where nodes never change their level.
    members: Vec<u32>,
}

#[derive(Default)]
struct Level {
    parts: Vec<Part>,
    used: i64,
    share: f64,
    /// By the number of own scores, less one.
    ranked: [Ranked; MOST_OWN_SCORES],
}

/// How a node is ranked.
#[derive(Clone, Copy, Default)]
struct Place {
    scores: Scores,
    own: Own,
    /// False: it is not.
    ranked: bool,
}

pub struct Levels<'a> {
    seed_order: Vec<u64>,
    blocks: Vec<Block<'a>>,
    combinations: Vec<Combination>,
    /// By slot.
    combination_of: Vec<u32>,
    places: Vec<Place>,
    stamps: Vec<u32>,
    /// How evenly the combinations are used, each by its share; only for several blocks.
    balance: Extent,
    levels: Vec<Level>,
    /// Of the levels, where nodes change them.
    by_key: BTreeMap<(Vec<Part>, i64, u64), u32>,
    moving: bool,
    /// For each block that is not told apart by value: the combinations of each value.
    combinations_at: Vec<BTreeMap<Value, Vec<u32>>>,
}

const UNKNOWN: u32 = u32::MAX;
/// A combination that has no share is worth this much, used or not.
const UNWANTED: f64 = -1.0;

impl<'a> Levels<'a> {
    /// `present`: how many of the group are where. `order`: of nodes that are equal in all else, by slot. `most`: so many
    /// levels at most are made of the values themselves, since all are looked at for each choice; beyond, a level is made
    /// of what values are worth now, and nodes change their level.
    pub fn new(
        mut blocks: Vec<Block<'a>>,
        candidates: &Bits,
        present: &[(u32, i64)],
        order: Vec<u64>,
        most: usize,
    ) -> Self {
        let slots = order.len();
        let moving = tell_apart(&mut blocks, most);
        let mut levels = Levels {
            seed_order: order,
            combinations_at: vec![BTreeMap::new(); blocks.len()],
            blocks,
            combinations: Vec::new(),
            combination_of: vec![UNKNOWN; slots],
            places: vec![Place::default(); slots],
            stamps: vec![0; slots],
            balance: Extent::default(),
            levels: Vec::new(),
            by_key: BTreeMap::new(),
            moving,
        };
        levels.combine(candidates, present);
        for &(slot, wanted) in present {
            levels.count_values(slot, wanted);
        }
        (0..levels.combinations.len()).for_each(|c| levels.level_out(c as u32));
        levels
    }

    fn combine(&mut self, candidates: &Bits, present: &[(u32, i64)]) {
        let mut known: BTreeMap<Vec<Value>, u32> = BTreeMap::new();
        let mut values = Vec::new();
        for slot in candidates.iter().chain(present.iter().map(|(slot, _)| *slot)) {
            if self.combination_of[slot as usize] != UNKNOWN {
                continue;
            }
            values.clear();
            values.extend(self.blocks.iter().map(|b| b.values().at(slot)));
            let next = self.combinations.len() as u32;
            let number = known.get(values.as_slice()).copied().unwrap_or(next);
            if number == next {
                known.insert(values.clone(), next);
                self.combinations.push(self.combination(&values));
                self.note(next, &values);
            }
            self.combination_of[slot as usize] = number;
            if self.moving && candidates.contains(slot) {
                self.combinations[number as usize].members.push(slot);
            }
        }
    }

    fn combination(&self, values: &[Value]) -> Combination {
        let share = self.blocks.iter().zip(values).map(|(b, v)| b.share(*v)).product();
        Combination { values: values.to_vec(), used: 0, share, level: UNKNOWN, members: Vec::new() }
    }

    fn note(&mut self, combination: u32, values: &[Value]) {
        for ((block, at), value) in self.blocks.iter().zip(&mut self.combinations_at).zip(values) {
            if !block.by_value && block.is_even() {
                at.entry(*value).or_default().push(combination);
            }
        }
    }

    /// `more` allocations of the group are on the node.
    pub fn count(&mut self, slot: u32, more: i64) {
        let Some(number) = self.count_values(slot, more) else { return };
        if !self.moving {
            let Combination { level, used, .. } = self.combinations[number as usize];
            return self.levels[level as usize].used = used;
        }
        let values = &self.combinations[number as usize].values;
        let shared = self.combinations_at.iter().zip(values).filter_map(|(at, value)| at.get(value));
        let moved: BTreeSet<u32> = shared.flatten().copied().chain([number]).gather();
        moved.into_iter().for_each(|c| self.level_out(c));
    }

    /// The node's combination, if it is known.
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
            self.balance.moved(before, by_share(combination.used, combination.share));
        }
        Some(number)
    }

    /// Brings a combination, with its nodes, to the level where it belongs.
    fn level_out(&mut self, number: u32) {
        let Combination { values, used, share, level, .. } = &self.combinations[number as usize];
        let (used, share, from) = (*used, *share, *level);
        let parts: Vec<Part> = self.blocks.iter().zip(values).map(|(b, v)| b.part(*v)).collect();
        let next = self.levels.len() as u32;
        let to = match self.moving {
            false => next,
            true => *self.by_key.entry((parts.clone(), used, share.to_bits())).or_insert(next),
        };
        if to == next {
            self.levels.push(Level { parts, used, share, ..Level::default() });
        }
        if from == to {
            return;
        }
        let members = std::mem::take(&mut self.combinations[number as usize].members);
        let ranked: Vec<u32> = members.iter().copied().filter(|s| self.places[*s as usize].ranked).collect();
        ranked.iter().for_each(|slot| self.take_out(*slot));
        self.combinations[number as usize].level = to;
        ranked.iter().for_each(|slot| self.put(*slot, self.places[*slot as usize].scores));
        self.combinations[number as usize].members = members;
    }

    /// Ranks a candidate by its own scores.
    pub fn put(&mut self, slot: u32, scores: Scores) {
        self.take_out(slot);
        let own = Own::of(&scores);
        self.places[slot as usize] = Place { scores, own, ranked: true };
        let stamp = self.stamps[slot as usize];
        let order = Reverse(self.seed_order[slot as usize]);
        self.ranked(slot).push(Entry::new(own.sum, order, slot, stamp));
    }

    pub fn take_out(&mut self, slot: u32) {
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

    /// Its own scores, if the candidate is ranked.
    pub fn scores(&self, slot: u32) -> Option<Scores> {
        let place = self.places[slot as usize];
        place.ranked.then_some(place.scores)
    }

    /// The best `wanted` nodes, best first, `apart` left out.
    pub fn best(&mut self, wanted: usize, apart: &BTreeSet<u32>) -> Vec<Choice> {
        let lowest = self.lowest();
        let mut best: Vec<Choice> = Vec::with_capacity(wanted + 1);
        for i in 0..self.levels.len() {
            let spread = self.boost(&self.levels[i], lowest);
            let Level { ranked, used, .. } = &mut self.levels[i];
            for (i, ranked) in ranked.iter_mut().enumerate() {
                for e in ranked.best(wanted + apart.len(), &self.stamps) {
                    let score = Own { sum: e.own(), scores: i + 1 }.mean_with(spread);
                    let choice = Choice { score, spread, used: *used, order: e.order, slot: e.slot };
                    if best.len() == wanted && best.last().is_some_and(|last| choice.rank(last).is_lt()) {
                        break;
                    }
                    if !apart.contains(&e.slot) {
                        enter(&mut best, choice, wanted);
                    }
                }
            }
        }
        best
    }

    /// A candidate with other scores of its own than it is ranked by.
    pub fn choice(&self, slot: u32, scores: &Scores) -> Choice {
        let level = self.combinations[self.combination_of[slot as usize] as usize].level;
        let level = &self.levels[level as usize];
        let spread = self.boost(level, self.lowest());
        let score = Own::of(scores).mean_with(spread);
        Choice { score, spread, used: level.used, order: Reverse(self.seed_order[slot as usize]), slot }
    }

    fn lowest(&self) -> f64 {
        self.blocks.iter().map(Block::lowest).fold(UNWANTED, f64::min)
    }

    fn boost(&self, level: &Level, lowest: f64) -> f64 {
        let single: f64 = self.blocks.iter().zip(&level.parts).map(|(b, p)| b.boost(*p, lowest)).sum();
        match self.blocks.len() {
            0 | 1 => single,
            _ if level.share > 0.0 => single + self.balance.boost(by_share(level.used, level.share)),
            _ => single + UNWANTED,
        }
    }
}

fn by_share(used: i64, share: f64) -> f64 {
    if share > 0.0 { used as f64 / share } else { 0.0 }
}

/// Chooses the blocks that are told apart by value; whether some are not.
fn tell_apart(blocks: &mut [Block], most: usize) -> bool {
    let mut by_size: Vec<&mut Block> = blocks.iter_mut().collect();
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
pub fn enter(best: &mut Vec<Choice>, choice: Choice, wanted: usize) {
    let at = best.partition_point(|b| b.rank(&choice).is_gt());
    if at < wanted {
        best.truncate(wanted - 1);
        best.insert(at, choice);
    }
}
