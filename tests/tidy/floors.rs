//! Who may import whom: import downwards or not at all, never sideways on a floor. And which crates may be named where.
//!
//! Looks at paths as they are written (`crate::room::...`, `super::super::room`), which is enough: the rooms are private
//! modules without re-exports at the root, so there is no other way to reach them.

use crate::source::{Source, is_word, word_positions};

/// A room and what it may import from the crate: a room's name, or a path inside it.
pub const FLOORS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("jobspec", &["model"]),
    ("wire", &["model"]),
    ("scheduler", &["model"]),
    ("raft", &[]),
    ("gossip", &[]),
    ("state", &["model", "wire", "raft", "scheduler::fleet", "scheduler::View"]),
    ("server", &["model", "wire", "raft", "gossip", "scheduler", "state"]),
    ("client", &["model", "wire", "state"]),
    ("keeper", &["model", "wire"]),
    ("api", &["model", "jobspec", "wire", "state"]),
    ("io", &["model", "wire", "state::store", "server", "client", "keeper", "api"]),
    (
        "agent",
        &[
            "model",
            "jobspec",
            "wire",
            "scheduler",
            "raft",
            "gossip",
            "state",
            "server",
            "client",
            "keeper",
            "api",
            "io",
        ],
    ),
    ("fuzz", &["jobspec", "wire", "keeper", "api", "io", "agent"]),
    ("cli", &["model", "jobspec", "api", "io", "agent"]),
    (
        "sim",
        &[
            "model",
            "jobspec",
            "wire",
            "scheduler",
            "raft",
            "gossip",
            "state",
            "server",
            "client",
            "keeper",
            "api",
        ],
    ),
];

/// What tests may import beside that. All of them: the simulated disk, on which the real store is tested. State's: the
/// policy that reads its views.
const TEST_IMPORTS: &[(&str, &[&str])] =
    &[("state", &["sim::disk", "scheduler"]), ("io", &["sim::disk", "state::samples"]), ("", &["sim::disk"])];

/// Crates that reach the outside world or fix a format, and the only rooms that may name them.
const HOMES: &[(&str, &[&str])] = &[
    ("smol", &["io", "agent", "cli"]),
    ("async_channel", &["io", "agent", "cli"]),
    ("async_signal", &["io", "agent", "cli"]),
    ("sd_notify", &["io", "agent"]),
    ("httparse", &["io"]),
    ("async_tungstenite", &["io", "cli"]),
    ("rustix", &["io", "agent", "cli"]),
    ("libc", &["io"]),
    ("argh", &["cli"]),
    ("anstyle", &["cli"]),
    ("slog", &["raft"]),
    ("redb", &["state", "io", "sim"]),
    ("hcl_edit", &["jobspec", "agent"]),
];

/// A brain's tests may give the store a disk of their own.
const HOME_IN_TESTS: &str = "redb";

/// Path packages that stand in for published crates: their `crate::` is their own.
const FOREIGN: &str = "src/raft/engine_types/";

pub fn floors(source: &Source) -> Vec<String> {
    let Some(room) = source.room() else { return Vec::new() };
    if source.path.starts_with(FOREIGN) {
        return Vec::new();
    }
    let Some((_, allowed)) = FLOORS.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{}: `{room}` has no floor: add it to tests/tidy/floors.rs", source.path)];
    };
    let tests_begin = source.tests_begin();
    let in_tests = TEST_IMPORTS
        .iter()
        .find(|(name, _)| name.is_empty() || *name == room)
        .map_or(&[][..], |(_, list)| list);
    let permits = |line: usize, path: &str| {
        may_import(room, allowed, path) || (line >= tests_begin && may_import(room, in_tests, path))
    };
    let reaches: Vec<_> = crate_paths(&source.code).into_iter().chain(climbing_paths(source)).collect();
    let parts = reaches.iter().flat_map(|(_, path)| parts_of(&source.code, allowed, path));
    let mut found: Vec<String> = parts
        .chain(reaches.iter().filter(|(_, path)| !is_part(allowed, path)).cloned())
        .filter(|(line, path)| !permits(*line, path))
        .map(|(line, path)| format!("{}:{line}: `{room}` may not import `{path}`", source.path))
        .collect();
    found.dedup();
    found
}

/// Whether `path` is a whole room of which only parts are allowed.
fn is_part(allowed: &[&str], path: &str) -> bool {
    allowed.iter().any(|outer| outer.strip_prefix(path).is_some_and(|rest| rest.starts_with("::")))
}

/// Where a room of which only parts are allowed is imported whole: what is then named of it.
fn parts_of(code: &str, allowed: &[&str], path: &str) -> Vec<(usize, String)> {
    if !is_part(allowed, path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let chars: Vec<char> = line.chars().collect();
        for at in word_positions(&chars, path) {
            let rest: String = chars[at..].iter().collect();
            found.extend(heads(&rest).into_iter().filter(|head| head != path).map(|head| (number + 1, head)));
        }
    }
    found
}

pub fn homes(source: &Source) -> Vec<String> {
    let Some(room) = source.room() else { return Vec::new() };
    let mut found = Vec::new();
    for (name, rooms) in HOMES.iter().filter(|(_, rooms)| !rooms.contains(&room)) {
        let in_tests = |line: &usize| *name == HOME_IN_TESTS && *line >= source.tests_begin();
        for line in lines_naming_crate(&source.code, name).into_iter().filter(|line| !in_tests(line)) {
            found.push(format!("{}:{line}: `{name}` is named only in {}", source.path, rooms.join(", ")));
        }
    }
    found
}

fn may_import(room: &str, allowed: &[&str], path: &str) -> bool {
    let inside =
        |outer: &str| path == outer || path.strip_prefix(outer).is_some_and(|rest| rest.starts_with("::"));
    inside(room) || allowed.iter().any(|outer| inside(outer))
}

/// Every path that starts at the crate's root, with its line: at most two steps, groups spread out.
fn crate_paths(code: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = code.chars().collect();
    let mut found = Vec::new();
    for at in word_positions(&chars, "crate") {
        let rest: String = chars[at + 5..].iter().collect();
        let line = chars[..at].iter().filter(|c| **c == '\n').count() + 1;
        if let Some(rest) = rest.trim_start().strip_prefix("::") {
            found.extend(heads(rest).into_iter().map(|path| (line, path)));
        }
    }
    found
}

/// The first two steps of a path, or of each member when it opens with a group.
fn heads(path: &str) -> Vec<String> {
    match path.trim_start().strip_prefix('{') {
        Some(group) => members(group).iter().flat_map(|member| heads(member)).collect(),
        None => {
            let mut steps = path.trim_start().splitn(3, "::");
            let name = |step: Option<&str>| -> String {
                step.unwrap_or("").trim_start().chars().take_while(|c| is_word(*c)).collect()
            };
            let first = steps.next().unwrap_or("");
            let (head, ends) = (name(Some(first)), first.chars().any(|c| !is_word(c) && !c.is_whitespace()));
            let second = steps.next().unwrap_or("");
            match second.trim_start().strip_prefix('{').filter(|_| !ends) {
                Some(_) => {
                    let group = path.split_once('{').map_or("", |(_, group)| group);
                    members(group).iter().flat_map(|member| heads(&format!("{head}::{member}"))).collect()
                }
                None if ends || matches!(name(Some(second)).as_str(), "" | "self") => vec![head],
                None => vec![format!("{head}::{}", name(Some(second)))],
            }
        }
    }
}

/// The members of a `{...}` group whose opening brace is already taken.
fn members(group: &str) -> Vec<String> {
    let (mut depth, mut member, mut found) = (0, String::new(), Vec::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            found.push(std::mem::take(&mut member));
        } else {
            member.push(c);
        }
    }
    found.push(member);
    found.retain(|member| !member.trim().is_empty());
    found
}

/// Paths that climb to the root by `super::`: as many steps as the file is deep, then the name of a room.
fn climbing_paths(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        let (mut rest, mut climbed) = (line, 0);
        while let Some((_, after)) = rest.split_once("super::") {
            climbed += 1;
            rest = after;
            if rest.starts_with("super::") {
                continue;
            }
            let is_room =
                |path: &String| FLOORS.iter().any(|(room, _)| path.split("::").next() == Some(*room));
            if climbed >= depth(&source.path) {
                found.extend(heads(rest).into_iter().filter(is_room).map(|path| (number + 1, path)));
            }
            climbed = 0;
        }
    }
    found
}

/// How many `super` lead from a file's module to the root: `src/raft.rs` and `src/raft/mod.rs` are one deep.
fn depth(path: &str) -> usize {
    path.trim_end_matches("/mod.rs").matches('/').count()
}

fn lines_naming_crate(code: &str, name: &str) -> Vec<usize> {
    let chars: Vec<char> = code.chars().collect();
    let begins_path = |at: &usize| {
        let before: String = chars[..*at].iter().rev().take_while(|c| !c.is_whitespace()).collect();
        let after: String = chars[at + name.len()..].iter().take(2).collect();
        let used = chars[..*at]
            .iter()
            .rev()
            .skip_while(|c| c.is_whitespace())
            .take(3)
            .eq("esu".chars().collect::<Vec<_>>().iter());
        !before.starts_with("::") && (after == "::" || (used && after.starts_with(';')))
    };
    let line = |at: usize| chars[..at].iter().filter(|c| **c == '\n').count() + 1;
    word_positions(&chars, name).into_iter().filter(begins_path).map(line).collect()
}
