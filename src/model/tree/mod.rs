//! Ordered maps and sets: those of the standard library in a form that costs a sixth of its code.
//!
//! The compiler makes each map anew for each pair of types, and the standard library's tree of any depth is some ten kilobytes each
//! time: sixty of them were a twelfth of the binary. This tree has two levels: leaves of some sixty sorted items, and a list of them.
//! Places are found by halving, on both levels; a million items are some 16,000 leaves, whose list moves by a third of a megabyte
//! when a leaf splits, every thirty insertions.
//!
//! Refuses to know: what is in them. Methods are named and mean as in the standard library; there are as many as are used.

mod entry;
mod forms;
mod leaves;
mod set;
#[cfg(test)]
mod tests;

pub use entry::Entry;
use leaves::{Iter, IterMut};
use leaves::{Leaf, Leaves};
pub use set::BTreeSet;
use std::borrow::Borrow;

pub struct BTreeMap<K, V> {
    /// Sorted, as is each in itself, and none is empty.
    leaves: Vec<Leaf<K, V>>,
}

/// A leaf, and an index in it.
type Place = (usize, usize);

impl<K, V> BTreeMap<K, V> {
    /// Inserting moves a page at most, unless the items are larger than a sixteenth of it.
    const LEAF_ITEMS: usize = {
        let items = 4096 / (size_of::<(K, V)>() + 1);
        if items < 16 {
            16
        } else if items > 128 {
            128
        } else {
            items
        }
    };

    pub const fn new() -> Self {
        BTreeMap { leaves: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    pub fn len(&self) -> usize {
        self.leaves.iter().map(Vec::len).sum()
    }

    pub fn clear(&mut self) {
        self.leaves.clear();
    }

    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter(Leaves::new(self.leaves.iter()))
    }

    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut(Leaves::new(self.leaves.iter_mut()))
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    pub fn into_keys(self) -> impl DoubleEndedIterator<Item = K> {
        self.into_iter().map(|(key, _)| key)
    }

    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }

    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }

    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (!self.is_empty()).then(|| self.remove_at((0, 0)))
    }

    pub fn retain(&mut self, mut keeps: impl FnMut(&K, &mut V) -> bool) {
        self.leaves.retain_mut(|leaf| {
            leaf.retain_mut(|(key, value)| keeps(key, value));
            !leaf.is_empty()
        });
    }

    fn remove_at(&mut self, (leaf, index): Place) -> (K, V) {
        let item = self.leaves[leaf].remove(index);
        if self.leaves[leaf].is_empty() {
            self.leaves.remove(leaf);
        } else {
            self.join(leaf);
            self.join(leaf.wrapping_sub(1));
        }
        item
    }

    /// The leaf and the next one, if they are half a leaf together.
    fn join(&mut self, leaf: usize) {
        let Some([this, next]) = self.leaves.get_mut(leaf..leaf.wrapping_add(2)) else { return };
        if this.len() + next.len() <= Self::LEAF_ITEMS / 2 {
            this.append(next);
            self.leaves.remove(leaf + 1);
        }
    }

    /// The place is where `search` did not find the key.
    fn insert_at(&mut self, (mut leaf, mut index): Place, key: K, value: V) -> &mut V {
        match self.leaves.get_mut(leaf) {
            Some(full) if full.len() >= Self::LEAF_ITEMS => {
                // what comes in order fills its leaves
                let kept = if index == full.len() { index } else { full.len() / 2 };
                let rest = full.split_off(kept);
                self.leaves.insert(leaf + 1, rest);
                if index >= kept {
                    (leaf, index) = (leaf + 1, index - kept);
                }
            }
            Some(_) => {}
            None => self.leaves.push(Vec::new()),
        }
        let leaf = &mut self.leaves[leaf];
        leaf.insert(index, (key, value));
        &mut leaf[index].1
    }
}

impl<K: Ord, V> BTreeMap<K, V> {
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (leaf, index) = self.search(key).ok()?;
        Some(&self.leaves[leaf][index].1)
    }

    pub fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let (leaf, index) = self.search(key).ok()?;
        let (key, value) = &self.leaves[leaf][index];
        Some((key, value))
    }

    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (leaf, index) = self.search(key).ok()?;
        Some(&mut self.leaves[leaf][index].1)
    }

    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.search(key).is_ok()
    }

    /// The value that was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.search(&key) {
            Ok((leaf, index)) => Some(std::mem::replace(&mut self.leaves[leaf][index].1, value)),
            Err(place) => {
                self.insert_at(place, key, value);
                None
            }
        }
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.search(key).ok()?;
        Some(self.remove_at(place).1)
    }

    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        match self.search(&key) {
            Ok(place) => Entry::occupied(self, place),
            Err(place) => Entry::vacant(self, place, key),
        }
    }

    /// All of the other's, which take the place of those with the same keys.
    pub fn append(&mut self, other: &mut Self) {
        self.extend(std::mem::take(other));
    }

    /// Where the key is, or where it would be inserted: at the end of a leaf rather than before the first of the next.
    fn search<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Place, Place>
    where
        K: Borrow<Q>,
    {
        let begins_before = |leaf: &Leaf<K, V>| leaf[0].0.borrow() <= key;
        let leaf = self.leaves.partition_point(begins_before).saturating_sub(1);
        let Some(items) = self.leaves.get(leaf) else { return Err((0, 0)) };
        match items.binary_search_by(|(other, _)| other.borrow().cmp(key)) {
            Ok(index) => Ok((leaf, index)),
            Err(index) => Err((leaf, index)),
        }
    }
}
