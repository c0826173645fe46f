//! How evenly a group lies over the values of its spread blocks, and what one more allocation at a value is worth
//! (scheduler.md 16.6). Refuses to know nodes, and the other scores.

use super::fleet::FleetSnapshot;
use super::operand::ConstraintTarget;
use super::values::{MISSING, ValueId, Values};
use model::job::{JobSpec, TaskGroup};
use model::preference::{Spread, SpreadTarget};
use std::collections::{BTreeMap, BTreeSet};

/// Stands for all values that no target names.
const OTHERS: &str = "*";
/// The score of a node without such a value, or with a value that no target wants.
const WORST: f64 = -1.0;

/// The least and the most that any value in use has. Values without allocations do not count.
#[derive(Default)]
pub struct ShareRange {
    /// By the bits of the count, which sort as positive counts do: how many values have it.
    counts: BTreeMap<u64, u32>,
    ends: Option<(f64, f64)>,
}

impl ShareRange {
    pub fn change(&mut self, from: f64, to: f64) {
        if from > 0.0 {
            let values = self.counts.entry(from.to_bits()).or_default();
            *values = values.saturating_sub(1);
            if *values == 0 {
                self.counts.remove(&from.to_bits());
            }
        }
        if to > 0.0 {
            *self.counts.entry(to.to_bits()).or_default() += 1;
        }
        let ends = self.counts.first_key_value().zip(self.counts.last_key_value());
        self.ends = ends.map(|((least, _), (most, _))| (f64::from_bits(*least), f64::from_bits(*most)));
    }

    /// The boost of one more at a value that has `count` now.
    pub fn boost(&self, count: f64) -> f64 {
        match self.ends {
            None => 0.0,
            Some((least, _)) if count != least => (least - count) / least,
            Some((least, most)) if least == most => WORST,
            Some((least, most)) => (most - least) / least,
        }
    }
}

/// One target, or all values that no target names.
#[derive(Clone, Copy)]
struct TargetCount {
    /// None: no target wants these values.
    desired: Option<f64>,
    used: i64,
    /// The share of the group's count for each value of the target.
    share: f64,
}

struct Targets {
    /// By value.
    target_of: Vec<u32>,
    target_counts: Vec<TargetCount>,
    /// The block's part of the sum of all blocks' weights.
    weight: f64,
}

impl Targets {
    /// `values`: those that nodes have which may be chosen.
    fn new(spread: &Spread, count: i64, weight: f64, values: &Values, live: &BTreeSet<ValueId>) -> Self {
        let desired = |t: &SpreadTarget| t.percent as f64 / 100.0 * count as f64;
        let named = |t: &&SpreadTarget| t.value != OTHERS;
        let mut target_counts: Vec<TargetCount> = spread
            .targets
            .iter()
            .filter(named)
            .map(|t| TargetCount { desired: Some(desired(t)), used: 0, share: t.percent as f64 / 100.0 })
            .collect();
        let numbers: BTreeMap<&str, u32> =
            spread.targets.iter().filter(named).zip(0..).map(|(t, i)| (t.value.as_str(), i)).collect();
        let others = target_counts.len() as u32;
        let target_of = |v| numbers.get(&*values.text(v)).copied().unwrap_or(others);
        let target_of: Vec<u32> = (0..values.len() as ValueId).map(target_of).collect();
        let unnamed = live.iter().filter(|v| target_of[**v as usize] == others).count();
        let sum: f64 = spread.targets.iter().map(desired).sum();
        let rest = count as f64 - sum;
        let given = spread.targets.iter().find(|t| t.value == OTHERS).map(desired);
        let desired = given.or_else(|| (sum > 0.0 && rest > 0.0).then_some(rest));
        let share = desired.unwrap_or(0.0) / (count.max(1) * unnamed.max(1) as i64) as f64;
        target_counts.push(TargetCount { desired, used: 0, share });
        Targets { target_of, target_counts, weight }
    }

    /// None: nothing is wanted there.
    fn boost_of(&self, pool: &TargetCount) -> Option<f64> {
        let desired = pool.desired.filter(|d| *d > 0.0)?;
        Some((desired - (pool.used + 1) as f64) / desired * self.weight)
    }

    fn boost(&self, pool: usize, lowest: f64) -> f64 {
        let pool = &self.target_counts[pool];
        self.boost_of(pool).unwrap_or(if pool.desired.is_some() { lowest } else { WORST })
    }

    fn lowest(&self) -> f64 {
        self.target_counts.iter().filter_map(|p| self.boost_of(p)).fold(WORST, f64::min)
    }
}

enum SpreadGoal {
    Even { range: ShareRange, share: f64 },
    Targets(Targets),
}

/// One spread block with the counts of its values.
pub struct SpreadBlock<'a> {
    values: Values<'a>,
    /// By value.
    counts: Vec<i64>,
    goal: SpreadGoal,
    /// Whether a node's level is its value itself, and not the score of that value now.
    pub by_value: bool,
}

/// What decides how much a block adds for a node: by the block, a value, the count of a value, or a target; below zero
/// where there is no value.
pub type ValueKey = i64;
const NO_VALUE_KEY: ValueKey = -1;

impl<'a> SpreadBlock<'a> {
    /// All blocks of a group: the job's, then its own. `candidates`: the slots that may be chosen.
    pub fn all(
        job: &'a JobSpec,
        group: &'a TaskGroup,
        fleet: &'a FleetSnapshot,
        candidates: &[u32],
    ) -> Vec<SpreadBlock<'a>> {
        let spreads = || job.spreads.iter().chain(&group.spreads);
        let weights: i64 = spreads().map(|s| s.weight).sum();
        spreads().map(|s| SpreadBlock::new(s, group.count, weights, fleet, candidates)).collect()
    }

    fn new(
        spread: &'a Spread,
        count: i64,
        weights: i64,
        fleet: &'a FleetSnapshot,
        candidates: &[u32],
    ) -> Self {
        let values = Values::new(ConstraintTarget::parse(&spread.attribute), fleet);
        let mut seen = vec![false; values.len()];
        let found = candidates.iter().map(|slot| values.at(*slot)).filter(|v| *v != MISSING);
        found.for_each(|v| seen[v as usize] = true);
        let live = seen.iter().filter(|s| **s).count();
        let goal = if spread.targets.is_empty() {
            SpreadGoal::Even { range: ShareRange::default(), share: 1.0 / live.max(1) as f64 }
        } else {
            let live = (0..values.len() as ValueId).filter(|v| seen[*v as usize]).collect();
            let weight = spread.weight as f64 / weights.max(1) as f64;
            SpreadGoal::Targets(Targets::new(spread, count, weight, &values, &live))
        };
        SpreadBlock { counts: vec![0; values.len()], values, goal, by_value: true }
    }

    pub fn values(&self) -> &Values<'a> {
        &self.values
    }

    pub fn is_even(&self) -> bool {
        matches!(self.goal, SpreadGoal::Even { .. })
    }

    /// `more` allocations of the group are at the value.
    pub fn count(&mut self, value: ValueId, more: i64) {
        let Some(count) = self.counts.get_mut(value as usize) else { return };
        let before = *count;
        *count += more;
        match &mut self.goal {
            SpreadGoal::Even { range, .. } => range.change(before as f64, *count as f64),
            SpreadGoal::Targets(t) => t.target_counts[t.target_of[value as usize] as usize].used += more,
        }
    }

    /// The share of the group's count that belongs at the value.
    pub fn share(&self, value: ValueId) -> f64 {
        match &self.goal {
            _ if value == MISSING => 0.0,
            SpreadGoal::Even { share, .. } => *share,
            SpreadGoal::Targets(t) => t.target_counts[t.target_of[value as usize] as usize].share,
        }
    }

    pub fn value_key(&self, value: ValueId) -> ValueKey {
        match &self.goal {
            _ if value == MISSING => NO_VALUE_KEY,
            _ if self.by_value => ValueKey::from(value),
            SpreadGoal::Even { .. } => self.counts[value as usize],
            SpreadGoal::Targets(t) => ValueKey::from(t.target_of[value as usize]),
        }
    }

    /// The lowest that a target with something to place is worth; at most -1.
    pub fn lowest(&self) -> f64 {
        match &self.goal {
            SpreadGoal::Even { .. } => WORST,
            SpreadGoal::Targets(t) => t.lowest(),
        }
    }

    /// What the block adds. `lowest`: over all blocks; it is what a target of 0 % is worth.
    pub fn boost(&self, part: ValueKey, lowest: f64) -> f64 {
        let Ok(at) = usize::try_from(part) else { return WORST };
        match &self.goal {
            SpreadGoal::Even { range, .. } if self.by_value => range.boost(self.counts[at] as f64),
            SpreadGoal::Even { range, .. } => range.boost(part as f64),
            SpreadGoal::Targets(t) if self.by_value => t.boost(t.target_of[at] as usize, lowest),
            SpreadGoal::Targets(t) => t.boost(at, lowest),
        }
    }
}

#[cfg(test)]
mod tests;
