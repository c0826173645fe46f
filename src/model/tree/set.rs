//! A set is a map to nothing.

use super::{BTreeMap, leaves};
use std::borrow::Borrow;

pub struct BTreeSet<T> {
    pub(super) items: BTreeMap<T, ()>,
}

pub struct Iter<'a, T>(leaves::Iter<'a, T, ()>);
pub struct IntoIter<T>(leaves::IntoIter<T, ()>);

impl<T> BTreeSet<T> {
    pub const fn new() -> Self {
        BTreeSet { items: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn clear(&mut self) {
        self.items.clear();
    }

    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self.items.iter())
    }

    pub fn first(&self) -> Option<&T> {
        self.iter().next()
    }

    pub fn last(&self) -> Option<&T> {
        self.iter().next_back()
    }

    pub fn pop_first(&mut self) -> Option<T> {
        self.items.pop_first().map(|(item, ())| item)
    }

    pub fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool) {
        self.items.retain(|item, ()| keeps(item));
    }
}

impl<T: Ord> BTreeSet<T> {
    pub fn contains<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.items.contains_key(item)
    }

    /// The one in the set that is equal to this.
    pub fn get<Q: Ord + ?Sized>(&self, item: &Q) -> Option<&T>
    where
        T: Borrow<Q>,
    {
        self.items.get_key_value(item).map(|(item, ())| item)
    }

    /// Whether it was not there.
    pub fn insert(&mut self, item: T) -> bool {
        self.items.insert(item, ()).is_none()
    }

    /// Whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.items.remove(item).is_some()
    }

    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|item| !other.contains(*item))
    }

    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|item| other.contains(item))
    }
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.0.next().map(|(item, ())| item)
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(item, ())| item)
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.next().map(|(item, ())| item)
    }
}

impl<T> DoubleEndedIterator for IntoIter<T> {
    fn next_back(&mut self) -> Option<T> {
        self.0.next_back().map(|(item, ())| item)
    }
}

impl<'a, T> IntoIterator for &'a BTreeSet<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for BTreeSet<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self.items.into_iter())
    }
}
