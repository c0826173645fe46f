//! Sorting where it is not what takes the time: places are sorted, by one function for all types, and then the elements are moved
//! to them once. Each `sort_by_key` of the standard library is some 5 KB of the binary's own.
//!
//! Refuses to know what is sorted. Stable, as `sort_by` is.

use std::cmp::Ordering;

pub trait Order<T> {
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }

    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> Order<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut from: Vec<usize> = (0..self.len()).collect();
        sort_places(&mut from, &mut |a, b| compare(&self[a], &self[b]));
        for start in 0..from.len() {
            let mut at = start;
            // round one cycle: what belongs here is swapped in, what was here travels on
            while from[at] != start {
                let next = std::mem::replace(&mut from[at], at);
                self.swap(at, next);
                at = next;
            }
            from[at] = at;
        }
    }
}

fn sort_places(places: &mut [usize], compare: &mut dyn FnMut(usize, usize) -> Ordering) {
    places.sort_by(|a, b| compare(*a, *b));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn all_is_sorted_as_the_standard_library_does_it_and_equals_keep_their_order() {
        let mut draws = Stream::new(1, 0);
        for length in (0..40).chain([1000]) {
            let drawn: Vec<(u64, usize)> = (0..length).map(|n| (draws.below(12), n)).collect();
            let (mut ours, mut theirs) = (drawn.clone(), drawn);
            ours.order_by_key(|(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            assert_eq!(ours, theirs);
            ours.order_by(|a, b| b.cmp(a));
            theirs.sort_by(|a, b| b.cmp(a));
            assert_eq!(ours, theirs);
        }
    }
}
