//! Names of metrics, and which of them are shown.
//!
//! Refuses to know: their values.

use std::collections::BTreeMap;

pub type Labels = BTreeMap<&'static str, String>;

/// Which metrics are shown, by prefixes of their names: the longest match decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixFilter {
    /// For metrics that match no prefix.
    pub default: bool,
    pub prefixes: BTreeMap<String, bool>,
}

impl Default for PrefixFilter {
    fn default() -> Self {
        PrefixFilter { default: true, prefixes: BTreeMap::new() }
    }
}

impl PrefixFilter {
    /// Figures of the process are not under the service's name, and always told.
    pub fn allows(&self, name: &str) -> bool {
        let name = full_name(name);
        let fitting = self.prefixes.iter().filter(|(prefix, _)| name.starts_with(prefix.as_str()));
        let longest = fitting.max_by_key(|(prefix, _)| prefix.len());
        name.starts_with("process_") || longest.map_or(self.default, |(_, told)| *told)
    }
}

/// The service's name comes first, but not before the names that Prometheus gives processes.
pub fn full_name(name: &str) -> String {
    if name.starts_with("process_") { name.to_string() } else { format!("nomad.{name}") }
}
