//! Which indexes of a group's allocation names are taken (scheduler.md 8.4). Refuses to know the allocations.

use std::collections::{BTreeMap, BTreeSet};

/// Taken indexes, each with how often it is taken.
#[derive(Clone, Debug, Default)]
pub struct NameIndex {
    taken: BTreeMap<u64, u64>,
    count: u64,
    /// All indexes below are taken.
    lowest_free: u64,
    /// The index to take when none is free.
    again: u64,
}

impl NameIndex {
    /// `count`: how many allocations the group should have.
    pub fn new(count: u64, indexes: impl IntoIterator<Item = u64>) -> Self {
        let mut names = NameIndex { count, ..NameIndex::default() };
        indexes.into_iter().for_each(|i| names.take(i));
        names
    }

    fn take(&mut self, index: u64) {
        *self.taken.entry(index).or_default() += 1;
    }

    /// Takes the lowest free index below the count; when there is none, 0, 1, 2, ... once more.
    pub fn next(&mut self) -> u64 {
        let free = (self.lowest_free..self.count).find(|i| !self.taken.contains_key(i));
        self.lowest_free = free.map_or(self.count, |i| i + 1);
        let index = free.unwrap_or(self.again);
        self.again += u64::from(free.is_none());
        self.take(index);
        index
    }

    /// Takes `n` for canaries: first names that become free because their allocations are replaced, then free ones, then
    /// names beyond the count.
    pub fn canaries(
        &mut self,
        n: u64,
        taken_by_canaries: &BTreeSet<u64>,
        replaced: &BTreeSet<u64>,
    ) -> Vec<u64> {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let below = replaced.iter().copied().filter(|i| *i < self.count && !taken_by_canaries.contains(i));
        let mut out: Vec<u64> = below.take(n).collect();
        let unused = |i: &u64| !self.taken.contains_key(i) && !taken_by_canaries.contains(i);
        let free = (self.lowest_free..self.count).filter(unused);
        out.extend(free.take(n - out.len()).collect::<Vec<_>>());
        let more = (self.count..).filter(|i| !taken_by_canaries.contains(i)).take(n - out.len());
        out.extend(more.collect::<Vec<_>>());
        debug_assert_eq!(
            out.iter().collect::<BTreeSet<_>>().len(),
            out.len(),
            "canaries have names of their own"
        );
        out.iter().for_each(|i| self.take(*i));
        out
    }

    /// Releases the `n` highest taken indexes and returns them.
    pub fn highest(&mut self, n: u64) -> Vec<u64> {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let out: Vec<u64> = self.taken.keys().rev().take(n).copied().collect();
        for index in &out {
            self.taken.remove(index);
            self.lowest_free = self.lowest_free.min(*index);
        }
        out
    }

    pub fn is_taken(&self, index: u64) -> bool {
        self.taken.contains_key(&index)
    }

    pub fn is_duplicate(&self, index: u64) -> bool {
        self.taken.get(&index).is_some_and(|times| *times > 1)
    }

    /// One allocation fewer has this index.
    pub fn release(&mut self, index: u64) {
        if let Some(times) = self.taken.get_mut(&index) {
            *times -= 1;
            if *times == 0 {
                self.taken.remove(&index);
                self.lowest_free = self.lowest_free.min(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(names: &mut NameIndex, n: usize) -> Vec<u64> {
        (0..n).map(|_| names.next()).collect()
    }

    #[test]
    fn next_fills_gaps_and_then_starts_over() {
        let cases: [(u64, &[u64], usize, &[u64]); 6] = [
            (3, &[], 3, &[0, 1, 2]),
            (4, &[0, 2], 2, &[1, 3]),
            (2, &[0, 1], 2, &[0, 1]),
            (3, &[0, 1], 3, &[2, 0, 1]),
            (2, &[7], 2, &[0, 1]),
            (u64::MAX, &[0], 2, &[1, 2]),
        ];
        for (count, taken, n, want) in cases {
            assert_eq!(next(&mut NameIndex::new(count, taken.iter().copied()), n), want, "{count} {taken:?}");
        }
    }

    #[test]
    fn highest_releases_the_highest_names() {
        let mut names = NameIndex::new(4, [0, 1, 1, 3, 9]);
        assert_eq!(names.highest(2), [9, 3]);
        assert_eq!(next(&mut names, 2), [2, 3]);
        assert_eq!(names.highest(9), [3, 2, 1, 0]);
    }

    #[test]
    fn r8_4_canary_names_destructive_then_free_then_new() {
        /// How many; the names taken, by canaries, by what is replaced; those it gets.
        type Case = (u64, &'static [u64], &'static [u64], &'static [u64], &'static [u64]);
        let cases: [Case; 4] = [
            (2, &[0, 1, 2], &[], &[0, 1, 2], &[0, 1]),
            (2, &[0, 1, 2, 0], &[0], &[0, 1, 2], &[1, 2]),
            (2, &[0], &[], &[], &[1, 2]),
            (3, &[0, 1, 2], &[0], &[2], &[2, 3, 4]),
        ];
        for (n, taken, canaries, replaced, want) in cases {
            let mut names = NameIndex::new(3, taken.iter().copied());
            let set = |s: &[u64]| s.iter().copied().collect();
            assert_eq!(names.canaries(n, &set(canaries), &set(replaced)), want, "{taken:?} {replaced:?}");
        }
    }

    #[test]
    fn a_name_is_a_duplicate_until_one_holder_is_left() {
        let mut names = NameIndex::new(3, [1, 1]);
        assert!(names.is_duplicate(1) && !names.is_duplicate(0));
        names.release(1);
        assert!(!names.is_duplicate(1));
        names.release(1);
        assert_eq!(next(&mut names, 2), [0, 1]);
    }
}
