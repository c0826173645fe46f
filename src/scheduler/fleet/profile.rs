//! What a fleet keeps of a node's properties: a profile shared by all nodes that look alike, and the node's own part.
//! Refuses to know what a constraint is.

use super::offered::OfferedResources;
use model::node::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Names = Arc<[Arc<str>]>;

/// Named values. Nodes mostly have the same names, so the list of names is shared, and stays in the processor's cache.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Properties {
    /// Ordered.
    names: Names,
    /// In the order of the names.
    values: Box<[Arc<str>]>,
}

impl Properties {
    fn get(&self, name: &str) -> Option<&str> {
        let at = self.names.binary_search_by(|n| (**n).cmp(name)).ok()?;
        self.values.get(at).map(|v| &**v)
    }
}

/// Everything that the constraints of a job can see of a node, except what is `unique.` to it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Profile {
    pub computed_class: Arc<str>,
    pub datacenter: Arc<str>,
    pub pool: Arc<str>,
    pub class: Arc<str>,
    attributes: Properties,
    meta: Properties,
    /// Drivers that can run a task now, ordered.
    drivers: Box<[Arc<str>]>,
    /// The drivers among these that can mount volumes, ordered.
    mounting: Names,
    network_modes: Names,
    /// The names of its host networks.
    host_networks: Names,
}

impl Profile {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name)
    }

    pub fn meta(&self, name: &str) -> Option<&str> {
        self.meta.get(name)
    }

    pub fn has_driver(&self, name: &str) -> bool {
        lists(&self.drivers, name)
    }

    pub fn mounts_for(&self, driver: &str) -> bool {
        lists(&self.mounting, driver)
    }

    pub fn has_network(&self, mode: &str) -> bool {
        lists(&self.network_modes, mode)
    }

    pub fn has_host_network(&self, name: &str) -> bool {
        lists(&self.host_networks, name)
    }
}

fn lists(ordered: &[Arc<str>], name: &str) -> bool {
    ordered.binary_search_by(|n| (**n).cmp(name)).is_ok()
}

/// The properties that no two nodes share.
#[derive(Debug)]
pub struct UniqueProperties {
    pub name: Box<str>,
    attributes: Properties,
    meta: Properties,
    pub offered: Box<OfferedResources>,
}

impl UniqueProperties {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name)
    }

    pub fn meta(&self, name: &str) -> Option<&str> {
        self.meta.get(name)
    }
}

/// One copy of every string, and of every list of names, that profiles use. What no profile uses any more is removed by
/// the next sweep, which runs when there is twice as much as after the last one.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    known: BTreeSet<Arc<str>>,
    lists: BTreeSet<Names>,
    sweep_at: usize,
}

const SMALLEST_SWEEP: usize = 1024;

impl Strings {
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        self.sweep_if_due();
        let new: Arc<str> = text.into();
        self.known.insert(new.clone());
        new
    }

    fn sweep_if_due(&mut self) {
        if self.known.len() + self.lists.len() >= self.sweep_at.max(SMALLEST_SWEEP) {
            self.lists.retain(|l| Arc::strong_count(l) > 1);
            self.known.retain(|s| Arc::strong_count(s) > 1);
            self.sweep_at = (self.known.len() + self.lists.len()) * 2;
        }
    }

    fn properties(&mut self, map: &BTreeMap<String, String>, unique: bool) -> Properties {
        let wanted = map.iter().filter(|(k, _)| k.starts_with("unique.") == unique);
        // A value that only one node has is not worth a place in the table.
        let mut value = |v: &str| if unique { v.into() } else { self.intern(v) };
        let values = wanted.clone().map(|(_, v)| value(v)).collect();
        Properties { names: self.list(wanted.map(|(k, _)| k.as_str())), values }
    }

    fn list<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Names {
        let list: Names = names.map(|n| self.intern(n)).collect();
        if let Some(known) = self.lists.get(&list) {
            return known.clone();
        }
        self.sweep_if_due();
        self.lists.insert(list.clone());
        list
    }

    pub fn profile<'a>(&mut self, node: &'a Node) -> Profile {
        let info = &node.info;
        let host_networks: BTreeSet<&str> = info.offers.addresses.iter().map(|a| a.alias.as_str()).collect();
        let ordered = |names: &'a Vec<String>| names.iter().map(String::as_str);
        Profile {
            computed_class: self.intern(&node.computed_class),
            datacenter: self.intern(&info.datacenter),
            pool: self.intern(&info.pool),
            class: self.intern(&info.class),
            attributes: self.properties(&info.attributes, false),
            meta: self.properties(&info.meta, false),
            drivers: usable_drivers(node).into_iter().map(|d| self.intern(d)).collect(),
            mounting: self.list(ordered(&info.offers.mounting_drivers)),
            network_modes: self.list(ordered(&info.offers.network_modes)),
            host_networks: self.list(host_networks.into_iter()),
        }
    }

    pub fn own(&mut self, node: &Node) -> UniqueProperties {
        UniqueProperties {
            name: node.info.name.as_str().into(),
            attributes: self.properties(&node.info.attributes, true),
            meta: self.properties(&node.info.meta, true),
            offered: Box::new(OfferedResources::of(&node.info)),
        }
    }
}

/// Detected and healthy; or, where the node says nothing of a driver, an attribute `driver.<name>` that is true
/// (scheduler.md 14.7).
fn usable_drivers(node: &Node) -> BTreeSet<&str> {
    let info = &node.info;
    let reported =
        info.drivers.iter().filter(|(_, d)| d.detected && d.healthy).map(|(name, _)| name.as_str());
    let by_attribute = info.attributes.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("driver.")?;
        (is_true(value) && !info.drivers.contains_key(name)).then_some(name)
    });
    reported.chain(by_attribute).collect()
}

/// The spellings of true that Go's `strconv.ParseBool` knows.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::node;
    use model::node::DriverInfo;
    use model::time::Wall;

    #[test]
    fn drivers_are_usable_if_healthy_or_set_by_an_attribute() {
        /// Detected and healthy; the attribute; usable.
        type Case = (Option<(bool, bool)>, Option<&'static str>, bool);
        let cases: [Case; 7] = [
            (Some((true, true)), None, true),
            (Some((true, false)), Some("1"), false),
            (Some((false, true)), Some("true"), false),
            (None, Some("1"), true),
            (None, Some("True"), true),
            (None, Some("0"), false),
            (None, None, false),
        ];
        for (info, attribute, usable) in cases {
            let mut n = node(1);
            n.info.drivers.clear();
            if let Some((detected, healthy)) = info {
                let driver = DriverInfo {
                    detected,
                    healthy,
                    description: String::new(),
                    attributes: BTreeMap::new(),
                    updated: Wall::NEVER,
                };
                n.info.drivers.insert("exec".into(), driver);
            }
            if let Some(value) = attribute {
                n.info.attributes.insert("driver.exec".into(), value.into());
            }
            assert_eq!(Strings::default().profile(&n).has_driver("exec"), usable, "{info:?} {attribute:?}");
        }
    }

    #[test]
    fn unique_properties_are_the_nodes_own() {
        let mut n = node(1);
        n.info.attributes.insert("unique.hostname".into(), "a".into());
        n.info.meta.insert("rack".into(), "r1".into());
        let mut strings = Strings::default();
        let (profile, own) = (strings.profile(&n), strings.own(&n));
        assert_eq!(
            (profile.attribute("unique.hostname"), own.attribute("unique.hostname")),
            (None, Some("a"))
        );
        assert_eq!((profile.meta("rack"), own.meta("rack")), (Some("r1"), None));
    }

    #[test]
    fn forgotten_strings_are_swept() {
        let mut strings = Strings::default();
        for i in 0..10_000 {
            strings.intern(&i.to_string());
        }
        assert!(strings.known.len() <= SMALLEST_SWEEP, "{}", strings.known.len());
    }

    #[test]
    fn nodes_with_the_same_names_share_them() {
        let (mut a, mut b) = (node(1), node(2));
        a.info.attributes.insert("cpu.arch".into(), "arm64".into());
        b.info.attributes.insert("cpu.arch".into(), "amd64".into());
        let mut strings = Strings::default();
        let (a, b) = (strings.profile(&a), strings.profile(&b));
        assert!(Arc::ptr_eq(&a.attributes.names, &b.attributes.names));
        assert_eq!((a.attribute("cpu.arch"), b.attribute("cpu.arch")), (Some("arm64"), Some("amd64")));
    }
}
