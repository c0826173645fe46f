//! Circles between the files of a room: files that cannot be read one after the other, because each names the other's items. A module and
//! its own children may name each other.
//!
//! Reads paths as they are written (`crate::`, `super::`, `self::`); a macro's or a re-export's way is not seen.

use crate::source::{Source, is_word, word_positions};
use std::collections::{BTreeMap, BTreeSet};

/// Rooms in which the files of one type's `impl` blocks name each other: the simulator's world, which nothing else depends on.
const ONE_TYPE: &[&str] = &["sim"];

/// A module: the steps from its room's root.
type Module = Vec<String>;

/// Each circle, with its room's name.
pub fn circles(sources: &[Source]) -> Vec<String> {
    let mut rooms: BTreeMap<String, BTreeMap<Module, &Source>> = BTreeMap::new();
    for source in sources.iter().filter(|s| s.tests_begin() > 0) {
        if let Some((room, module)) = module_of(&source.path) {
            rooms.entry(room).or_default().insert(module, source);
        }
    }
    let mut found = Vec::new();
    for (room, files) in rooms.iter().filter(|(room, _)| !ONE_TYPE.contains(&room.as_str())) {
        for files in in_room(files) {
            found.push(format!("{room}: {}: name each other's items", files.join(", ")));
        }
    }
    found
}

/// `src/api/shape/mod.rs` and `src/api/shape.rs` are both the module `shape` of `api`.
fn module_of(path: &str) -> Option<(String, Module)> {
    let mut steps: Vec<&str> = path.strip_prefix("src/")?.strip_suffix(".rs")?.split('/').collect();
    let room = steps.remove(0).to_string();
    if steps.last() == Some(&"mod") {
        steps.pop();
    }
    Some((room, steps.into_iter().map(str::to_string).collect()))
}

fn in_room(files: &BTreeMap<Module, &Source>) -> Vec<Vec<String>> {
    let names: Vec<&Module> = files.keys().collect();
    let place = |module: &Module| names.iter().position(|name| *name == module);
    let edges: Vec<BTreeSet<usize>> = files
        .iter()
        .map(|(from, source)| {
            let targets = paths(source, from).into_iter().filter_map(|path| file_of(&path, files));
            targets.filter(|to| !related(from, to)).filter_map(|to| place(&to)).collect()
        })
        .collect();
    let reach: Vec<BTreeSet<usize>> = (0..names.len()).map(|from| reached(from, &edges)).collect();
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for at in 0..names.len() {
        let circle: Vec<usize> = reach[at].iter().copied().filter(|to| reach[*to].contains(&at)).collect();
        if !circle.is_empty() && circle.iter().all(|file| told.insert(*file)) {
            found.push(circle.iter().map(|file| files[names[*file]].path.clone()).collect());
        }
    }
    found
}

fn related(a: &Module, b: &Module) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

fn reached(from: usize, edges: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        open.extend(edges[at].iter().copied().filter(|to| seen.insert(*to)));
    }
    seen
}

/// The file that holds what a path names: the longest beginning of it that is a module.
fn file_of(path: &Module, files: &BTreeMap<Module, &Source>) -> Option<Module> {
    (1..=path.len()).rev().map(|length| path[..length].to_vec()).find(|module| files.contains_key(module))
}

/// The paths inside the room that a file's shipped code names, groups spread out.
fn paths(source: &Source, module: &Module) -> Vec<Module> {
    let lines = source.code.lines().take(source.tests_begin().saturating_sub(1));
    let code: Vec<char> = lines.collect::<Vec<_>>().join("\n").chars().collect();
    let mut found = Vec::new();
    for (word, base) in [("crate", vec![]), ("super", parent(module)), ("self", module.clone())] {
        for at in word_positions(&code, word) {
            let before: String = code[at.saturating_sub(2)..at].iter().collect();
            let rest: String = code[at + word.len()..].iter().take(2000).collect();
            if before != "::"
                && let Some(rest) = rest.strip_prefix("::")
            {
                spread(rest, base.clone(), &mut found);
            }
        }
    }
    found
}

fn parent(module: &Module) -> Module {
    module[..module.len().saturating_sub(1)].to_vec()
}

fn spread(path: &str, mut base: Module, found: &mut Vec<Module>) {
    let path = path.trim_start();
    if let Some(group) = path.strip_prefix('{') {
        return members(group).iter().for_each(|member| spread(member, base.clone(), found));
    }
    let step: String = path.chars().take_while(|c| is_word(*c)).collect();
    let rest = &path[step.len()..];
    match step.as_str() {
        "" | "self" => {}
        "super" => base = parent(&base),
        _ => base.push(step),
    }
    match rest.strip_prefix("::") {
        Some(rest) => spread(rest, base, found),
        None => found.push(base),
    }
}

fn members(group: &str) -> Vec<String> {
    let mut depth = 0;
    let inside = group.chars().take_while(|c| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth >= 0
    });
    let inside: String = inside.collect();
    let mut depth = 0;
    let parts = inside.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0 && c == ','
    });
    parts.map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}
