//! One type name, one meaning: a public type's name is declared in one place of what ships, so that whoever searches for it finds it.
//!
//! The command line's `shapes` are left out: what it reads of the API's objects is called as the API calls it. Goes by names; what is
//! not `pub` without limits is its file's own affair.

use crate::public::{ENGINE_TYPES, shipped};
use crate::source::{Source, is_word};
use std::collections::BTreeMap;

/// Names with the same meaning in each room that declares them, and how many do.
pub const SAME_MEANING: &[(&str, usize)] = &[
    // what a room is started with
    ("Config", 4),
    // what a brain takes and gives
    ("Input", 3),
    ("Effect", 3),
    // read from the configuration, and looked up among the machine's interfaces
    ("HostNetwork", 2),
];

const KEYWORDS: [&str; 4] = ["struct", "enum", "trait", "type"];

/// What is declared otherwise than the two lists say.
pub fn doubled(sources: &[Source], listed: &[(&str, usize)]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mirror = |s: &Source| s.room() == Some("cli") && s.path.ends_with("/shapes.rs");
    for source in shipped(sources).filter(|s| !mirror(s) && !s.path.contains(ENGINE_TYPES)) {
        for (line, name) in declared(source) {
            places.entry(name).or_default().push(format!("{}:{line}", source.path));
        }
    }
    let allowed = |name: &str| listed.iter().find(|(known, _)| *known == name).map_or(1, |(_, count)| *count);
    let count = |name: &str| places.get(name).map_or(0, Vec::len);
    let doubled = places.iter().filter(|(name, at)| at.len() > allowed(name));
    let mut found: Vec<String> = doubled
        .map(|(name, at)| format!("{}: the public type name `{name}` has several meanings", at.join(", ")))
        .collect();
    let fewer = listed.iter().filter(|(name, allowed)| count(name) < *allowed);
    found.extend(
        fewer.map(|(name, _)| format!("`{name}` is declared {} times: correct the list", count(name))),
    );
    found
}

fn declared(source: &Source) -> Vec<(usize, String)> {
    let lines = source.code.lines().take(source.tests_begin().saturating_sub(1)).enumerate();
    let name = |line: &str| {
        let mut words = line.strip_prefix("pub ")?.split_whitespace();
        words.next().filter(|word| KEYWORDS.contains(word))?;
        Some(words.next()?.chars().take_while(|c| is_word(*c)).collect::<String>())
    };
    lines.filter_map(|(at, line)| Some((at + 1, name(line)?))).collect()
}
