//! One place of a map, taken or free.

use super::{BTreeMap, Place};

pub enum Entry<'a, K, V> {
    Occupied(Occupied<'a, K, V>),
    Vacant(Vacant<'a, K, V>),
}

pub struct Occupied<'a, K, V> {
    map: &'a mut BTreeMap<K, V>,
    place: Place,
}

pub struct Vacant<'a, K, V> {
    map: &'a mut BTreeMap<K, V>,
    place: Place,
    key: K,
}

impl<'a, K, V> Entry<'a, K, V> {
    pub(super) fn occupied(map: &'a mut BTreeMap<K, V>, place: Place) -> Self {
        Entry::Occupied(Occupied { map, place })
    }

    pub(super) fn vacant(map: &'a mut BTreeMap<K, V>, place: Place, key: K) -> Self {
        Entry::Vacant(Vacant { map, place, key })
    }

    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    pub fn or_insert_with(self, value: impl FnOnce() -> V) -> &'a mut V {
        match self {
            Entry::Occupied(taken) => taken.into_mut(),
            Entry::Vacant(free) => free.insert(value()),
        }
    }
}

impl<'a, K, V> Occupied<'a, K, V> {
    pub fn into_mut(self) -> &'a mut V {
        let (leaf, index) = self.place;
        &mut self.map.leaves[leaf][index].1
    }
}

impl<'a, K, V> Vacant<'a, K, V> {
    pub fn insert(self, value: V) -> &'a mut V {
        self.map.insert_at(self.place, self.key, value)
    }
}
