//! Going through the leaves of a map from either end, by reference or by value.

use super::BTreeMap;
use std::{slice, vec};

pub type Leaf<K, V> = Vec<(K, V)>;

/// The items of all leaves. The outermost are begun from either end.
pub struct Leaves<O: Iterator<Item: IntoIterator>> {
    between: O,
    first: Within<O>,
    last: Within<O>,
}

type Within<O> = <<O as Iterator>::Item as IntoIterator>::IntoIter;

impl<O: Iterator<Item: IntoIterator<IntoIter: Default>>> Leaves<O> {
    pub fn new(all: O) -> Self {
        Leaves { between: all, first: Default::default(), last: Default::default() }
    }
}

impl<O: Iterator<Item: IntoIterator<IntoIter: Clone>> + Clone> Clone for Leaves<O> {
    fn clone(&self) -> Self {
        Leaves { between: self.between.clone(), first: self.first.clone(), last: self.last.clone() }
    }
}

impl<O: Iterator<Item: IntoIterator>> Iterator for Leaves<O> {
    type Item = <O::Item as IntoIterator>::Item;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.first.next() {
                return Some(item);
            }
            match self.between.next() {
                Some(leaf) => self.first = leaf.into_iter(),
                None => return self.last.next(),
            }
        }
    }
}

impl<O: DoubleEndedIterator<Item: IntoIterator<IntoIter: DoubleEndedIterator>>> DoubleEndedIterator
    for Leaves<O>
{
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.last.next_back() {
                return Some(item);
            }
            match self.between.next_back() {
                Some(leaf) => self.last = leaf.into_iter(),
                None => return self.first.next_back(),
            }
        }
    }
}

pub struct Iter<'a, K, V>(pub(super) Leaves<slice::Iter<'a, Leaf<K, V>>>);
pub struct IterMut<'a, K, V>(pub(super) Leaves<slice::IterMut<'a, Leaf<K, V>>>);
pub struct IntoIter<K, V>(Leaves<vec::IntoIter<Leaf<K, V>>>);

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key, value))
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(key, value)| (key, value))
    }
}

impl<'a, K, V> Iterator for IterMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (&*key, value))
    }
}

impl<K, V> DoubleEndedIterator for IterMut<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(key, value)| (&*key, value))
    }
}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        self.0.next()
    }
}

impl<K, V> DoubleEndedIterator for IntoIter<K, V> {
    fn next_back(&mut self) -> Option<(K, V)> {
        self.0.next_back()
    }
}

impl<'a, K, V> IntoIterator for &'a BTreeMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut BTreeMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> IterMut<'a, K, V> {
        self.iter_mut()
    }
}

impl<K, V> IntoIterator for BTreeMap<K, V> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> IntoIter<K, V> {
        IntoIter(Leaves::new(self.leaves.into_iter()))
    }
}
