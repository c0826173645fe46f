//! Numbers by name, shared between all that were counted alike: each of the allocations of a plan says how many nodes were
//! counted out, and why. Refuses to know what is counted.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

type Map = BTreeMap<String, u64>;

static NONE: Map = Map::new();

/// Written as the map that it is.
#[derive(Clone, Default)]
pub struct Counts(Option<Arc<Map>>);

impl Counts {
    /// Copies the name only when it is new.
    pub fn add(&mut self, name: &str, n: u64) {
        let map = Arc::make_mut(self.0.get_or_insert_default());
        match map.get_mut(name) {
            Some(count) => *count += n,
            None => drop(map.insert(name.to_string(), n)),
        }
    }

    /// One less. A name with none is forgotten.
    pub fn take_one(&mut self, name: &str) {
        let Some(map) = self.0.as_mut().filter(|map| map.contains_key(name)) else { return };
        let map = Arc::make_mut(map);
        if let Some(count) = map.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                map.remove(name);
            }
        }
    }
}

impl Deref for Counts {
    type Target = Map;

    fn deref(&self) -> &Map {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl From<Map> for Counts {
    fn from(map: Map) -> Counts {
        Counts((!map.is_empty()).then(|| Arc::new(map)))
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for Counts {
    fn eq(&self, other: &Counts) -> bool {
        **self == **other
    }
}

impl Eq for Counts {}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Counts, D::Error> {
        Map::deserialize(deserializer).map(Counts::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_counts_are_copied_when_they_change() {
        let mut first = Counts::default();
        first.add("a", 2);
        let mut second = first.clone();
        assert!(second.0.as_ref().zip(first.0.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b)));
        second.take_one("a");
        second.add("b", 1);
        second.take_one("nobody");
        assert_eq!((first.get("a"), first.get("b")), (Some(&2), None));
        assert_eq!((second.get("a"), second.get("b")), (Some(&1), Some(&1)));
        second.take_one("a");
        second.take_one("b");
        assert_eq!(second, Counts::default(), "none is as none was");
    }
}
