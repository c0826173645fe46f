//! One type name, one meaning: a public type's name is declared in one place of what ships, so that whoever searches for it finds it.
//!
//! What is not `pub` without limits has a name of its own in its room: whoever reads the room meets it beside the others.
//!
//! The command line's `shapes` are left out: what it reads of the API's objects is called as the API calls it. Goes by names.

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
    for source in looked_at(sources) {
        for (line, name) in declared(source, public_name) {
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

/// What one room declares twice, whatever sees it.
pub fn doubled_in_a_room(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for source in looked_at(sources) {
        for (line, name) in declared(source, any_name) {
            let room = source.room().unwrap_or_default();
            places.entry((room, name)).or_default().push(format!("{}:{line}", source.path));
        }
    }
    let doubled = places.iter().filter(|(_, at)| at.len() > 1);
    doubled
        .map(|((room, name), at)| format!("{}: `{name}` has several meanings in {room}", at.join(", ")))
        .collect()
}

fn looked_at(sources: &[Source]) -> impl Iterator<Item = &Source> {
    let mirror = |s: &Source| s.room() == Some("cli") && s.path.ends_with("/shapes.rs");
    shipped(sources).filter(move |s| !mirror(s) && !s.path.contains(ENGINE_TYPES))
}

fn declared(source: &Source, name: fn(&str) -> Option<String>) -> Vec<(usize, String)> {
    let lines = source.code.lines().take(source.tests_begin().saturating_sub(1)).enumerate();
    lines.filter_map(|(at, line)| Some((at + 1, name(line)?))).collect()
}

fn public_name(line: &str) -> Option<String> {
    declared_name(line.strip_prefix("pub ")?)
}

/// An indented `type` is a trait's.
fn any_name(line: &str) -> Option<String> {
    let indented = line.trim_start();
    let seen = match indented.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => indented.strip_prefix("pub ").unwrap_or(indented),
    };
    declared_name(seen).filter(|_| line == indented || !seen.starts_with("type "))
}

fn declared_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    words.next().filter(|word| KEYWORDS.contains(word))?;
    Some(words.next()?.chars().take_while(|c| is_word(*c)).collect())
}
