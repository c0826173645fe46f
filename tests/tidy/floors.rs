//! Who may depend on whom: downwards or not at all, never sideways on a floor. And which crates may be named where.
//!
//! Cargo holds this, since each room is a crate; what is checked here is that no manifest says more than the table of floors, and
//! that nothing is listed which nobody names.

use crate::source::{Source, is_word, word_positions};
use std::collections::BTreeSet;

/// A room and the rooms that it may depend on.
pub const FLOORS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("jobspec", &["model"]),
    ("wire", &["model"]),
    ("scheduler", &["model"]),
    ("raft", &[]),
    ("state", &["model", "wire", "raft", "scheduler"]),
    ("server", &["model", "wire", "raft", "scheduler", "state"]),
    ("client", &["model", "wire", "state"]),
    ("keeper", &["model", "wire"]),
    ("api", &["model", "jobspec", "wire", "state"]),
    ("io", &["model", "wire", "state", "server", "client", "keeper", "api"]),
    (
        "agent",
        &[
            "model",
            "jobspec",
            "wire",
            "scheduler",
            "raft",
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
    ("sim", &["model", "jobspec", "wire", "scheduler", "raft", "state", "server", "client", "keeper", "api"]),
];

/// Rooms of which another room names only these parts, but for its tests: state keeps the scheduler's fleet current and serves its views,
/// and knows nothing of its policy.
const PARTS: &[(&str, &str, &[&str])] =
    &[("state", "scheduler", &["fleet", "SchedulerState"]), ("io", "state", &["store"])];

/// Crates that reach the outside world or fix a format, and the only rooms that may depend on them.
const HOMES: &[(&str, &[&str])] = &[
    ("smol", &["io", "agent", "cli"]),
    ("async-channel", &["io", "agent", "cli"]),
    ("async-signal", &["io", "agent", "cli"]),
    ("sd-notify", &["io", "agent"]),
    ("hyper", &["io"]),
    ("rustls", &["io"]),
    ("futures-rustls", &["io"]),
    ("rustls-native-certs", &["io"]),
    ("rcgen", &["io"]),
    ("yasna", &["io"]),
    ("ureq", &["cli"]),
    ("async-tungstenite", &["io", "cli"]),
    ("rustix", &["io", "agent", "cli"]),
    ("libc", &["io"]),
    ("argh", &["cli"]),
    ("anstyle", &["cli"]),
    ("raft_engine", &["raft"]),
    ("slog", &["raft"]),
    ("redb", &["state", "io", "sim"]),
    ("hcl-edit", &["jobspec", "agent"]),
];

/// A brain's tests may give the store a disk of their own.
const HOME_IN_TESTS: &str = "redb";

/// Whose names in the code differ from the package's.
const NAMES_IN_CODE: &[(&str, &str)] = &[("md-5", "md5")];

/// What a room's `Cargo.toml` lists.
struct Manifest<'a> {
    dependencies: Vec<&'a str>,
    dev_dependencies: Vec<&'a str>,
}

/// `named`: whether the room's code names the crate of this name.
pub fn manifest(room: &str, text: &str, named: impl Fn(&str) -> bool) -> Vec<String> {
    let path = format!("src/{room}/Cargo.toml");
    let Some((_, allowed)) = FLOORS.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{path}: `{room}` has no floor: add it to tests/tidy/floors.rs")];
    };
    let listed = Manifest {
        dependencies: section(text, "dependencies"),
        dev_dependencies: section(text, "dev-dependencies"),
    };
    let all = || listed.dependencies.iter().chain(&listed.dev_dependencies);
    let mut found = Vec::new();
    for dependency in all() {
        if is_room(dependency) && !allowed.contains(dependency) {
            found.push(format!("{path}: `{room}` may not depend on `{dependency}`"));
        }
    }
    for dependency in all().filter(|name| !may_depend(room, name, listed.dev_dependencies.contains(name))) {
        found.push(format!("{path}: `{dependency}` has its home elsewhere"));
    }
    for dependency in listed.dependencies.iter().filter(|name| !named(&in_code(name))) {
        found.push(format!("{path}: nobody names `{dependency}`"));
    }
    found
}

/// Each row of the table that is no room of `rooms`, the folders of `src`.
pub fn without_room(rooms: &[&str]) -> Vec<String> {
    let named = FLOORS.iter().flat_map(|(room, below)| below.iter().chain([room]));
    let gone: BTreeSet<&str> = named.copied().filter(|room| !rooms.contains(room)).collect();
    gone.into_iter().map(|room| format!("tests/tidy/floors.rs: there is no src/{room}")).collect()
}

fn is_room(name: &str) -> bool {
    FLOORS.iter().any(|(room, _)| *room == name)
}

fn may_depend(room: &str, dependency: &str, in_tests: bool) -> bool {
    let home = HOMES.iter().find(|(name, _)| *name == dependency);
    home.is_none_or(|(name, rooms)| rooms.contains(&room) || (in_tests && *name == HOME_IN_TESTS))
}

fn in_code(package: &str) -> String {
    let other = NAMES_IN_CODE.iter().find(|(name, _)| *name == package);
    other.map_or_else(|| package.replace('-', "_"), |(_, name)| name.to_string())
}

/// The names that a section of a manifest lists, of `name.workspace = true` as of `name = { .. }`.
fn section<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let head = format!("[{name}]");
    let lines =
        text.lines().skip_while(|line| *line != head).skip(1).take_while(|line| !line.starts_with('['));
    let keys = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    keys.map(|(key, _)| key.trim().split('.').next().unwrap_or(key)).collect()
}

/// What of a room is named that only its parts may be.
pub fn parts(source: &Source) -> Vec<String> {
    let Some(room) = source.room() else { return Vec::new() };
    let mut found = Vec::new();
    for (_, other, parts) in PARTS.iter().filter(|(name, _, _)| *name == room) {
        for (line, part) in steps_after(&source.code, other) {
            if line < source.tests_begin() && !parts.contains(&part.as_str()) {
                found.push(format!("{}:{line}: `{room}` may not name `{other}::{part}`", source.path));
            }
        }
    }
    found
}

/// The steps that follow `name::` where that begins a path, groups spread out.
fn steps_after(code: &str, name: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = code.chars().collect();
    let mut found = Vec::new();
    for at in word_positions(&chars, name) {
        let before: String = chars[at.saturating_sub(2)..at].iter().collect();
        let rest: String = chars[at + name.len()..].iter().collect();
        let line = chars[..at].iter().filter(|c| **c == '\n').count() + 1;
        if let (true, Some(rest)) = (before != "::", rest.strip_prefix("::")) {
            found.extend(first_steps(rest).into_iter().map(|step| (line, step)));
        }
    }
    found
}

fn first_steps(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![path.chars().take_while(|c| is_word(*c)).collect()];
    };
    let mut depth = 0;
    let inside: String = group
        .chars()
        .take_while(|c| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth >= 0
        })
        .collect();
    let mut depth = 0;
    let members = inside.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0 && c == ','
    });
    members.map(str::trim).filter(|m| !m.is_empty() && *m != "self").flat_map(first_steps).collect()
}
