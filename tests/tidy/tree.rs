//! The checks that look at the repository rather than at one source: the dependency tree, the files that must exist, and the
//! tests that the architecture names.

/// Crates that must never enter the tree, by the beginning of their names, and why.
const BANNED_CRATES: &[(&str, &str)] = &[
    ("tokio-", "one executor is enough: smol"),
    ("mio", "one executor is enough: smol"),
    ("async-std", "one executor is enough: smol"),
    ("aws-lc", "needs cmake, does not cross-compile with plain gcc: ring"),
    ("openssl", "a system library: rustls with ring"),
    ("native-tls", "a system library: rustls with ring"),
    ("prost", "protobuf has no place here: postcard"),
    ("protobuf-", "protobuf has no place here: postcard"),
];

/// Called like a banned one, and none: it knows where distributions keep their authorities, and links nothing.
const NOT_BANNED: &str = "openssl-probe";

/// A package of Cargo.lock.
struct Package<'a> {
    name: &'a str,
    from_registry: bool,
    dependencies: Vec<&'a str>,
}

/// These take channels from tokio, with only the feature `sync`: a leaf without runtime, I/O or timers. That much is allowed, to
/// them alone; a runtime would show as further dependencies of the package.
const USE_CHANNELS: &[&str] = &["hyper", "quinn"];

pub fn lock_file(lock: &str) -> Vec<String> {
    let packages: Vec<Package> = lock.split("[[package]]").skip(1).map(package).collect();
    let mut found = Vec::new();
    for package in packages.iter().filter(|package| package.name != NOT_BANNED) {
        for (banned, why) in BANNED_CRATES.iter().filter(|(banned, _)| package.name.starts_with(banned)) {
            found.push(format!("Cargo.lock: `{}` ({banned}): {why}", package.name));
        }
        if package.name == "tokio" && package.dependencies != ["pin-project-lite"] {
            found.push(format!("Cargo.lock: tokio is more than its channels: {:?}", package.dependencies));
        }
        if package.dependencies.contains(&"tokio") && !USE_CHANNELS.contains(&package.name) {
            found.push(format!("Cargo.lock: `{}` depends on tokio", package.name));
        }
        if ["protobuf", "raft-proto"].contains(&package.name) && package.from_registry {
            found.push(format!(
                "Cargo.lock: `{}` comes from the registry, not from src/raft/engine_types",
                package.name
            ));
        }
    }
    found
}

fn package(block: &str) -> Package<'_> {
    let value =
        |key: &str| block.lines().find_map(|line| line.strip_prefix(key)).map(|rest| rest.trim_matches('"'));
    let listed =
        block.split_once("dependencies = [").map_or("", |(_, rest)| rest.split(']').next().unwrap_or(""));
    // an entry is `"name",`, or `"name version",` where the tree holds several versions
    let names = listed.lines().filter_map(|line| line.trim().trim_matches([',', '"']).split(' ').next());
    let dependencies = names.filter(|name| !name.is_empty()).collect();
    Package {
        name: value("name = ").unwrap_or(""),
        from_registry: value("source = ").is_some(),
        dependencies,
    }
}

/// Files that a newcomer is pointed to, and how many of the examples there are at least.
const PROMISED: &[&str] = &[
    "README.md",
    "LICENSE",
    "NOTICE",
    "CHANGELOG.md",
    "docs/ARCHITECTURE.md",
    "docs/invariants.md",
    "docs/decisions/README.md",
    "config/agent.hcl",
    "config/examples/hello.nomad.hcl",
    "systemd/drover.service",
    "systemd/drover-keeper.service",
    "tests/run",
    ".ci/run",
];
const EXAMPLE_COUNT: usize = 8;

pub fn promised_files(exists: impl Fn(&str) -> bool, examples: &[String]) -> Vec<String> {
    let mut found: Vec<String> =
        PROMISED.iter().filter(|path| !exists(path)).map(|path| format!("{path}: is missing")).collect();
    let jobs = examples.iter().filter(|name| name.ends_with(".nomad.hcl")).count();
    if jobs < EXAMPLE_COUNT {
        found.push(format!("config/examples: {jobs} example jobs, not {EXAMPLE_COUNT}"));
    }
    found
}

/// Each numbered invariant of docs/invariants.md says after *By* what enforces it and after *Seen by* which tests or checkers would
/// find it broken: at least one, and each a function that exists.
pub fn invariants(
    document: &str,
    enforces: impl Fn(&str) -> bool,
    finds: impl Fn(&str) -> bool,
) -> Vec<String> {
    let section = document.split("## Invariants").nth(1).unwrap_or("").split("\n## ").next().unwrap_or("");
    let mut found = Vec::new();
    let mut number = 0;
    for (item, text) in numbered(section) {
        number += 1;
        if item != number {
            found.push(format!("docs/invariants.md: invariant {number} is numbered {item}"));
        }
        let (before, seen_by) = text.split_once("*Seen by*").unwrap_or((&text, ""));
        let by = quoted(before.split_once("*By*").map_or("", |(_, by)| by));
        let seen_by = quoted(seen_by);
        if seen_by.is_empty() {
            found.push(format!(
                "docs/invariants.md: invariant {number} names nothing that would find it broken"
            ));
        }
        let gone = by.into_iter().filter(|name| !enforces(name));
        let gone = gone.chain(seen_by.into_iter().filter(|name| !finds(name)));
        found.extend(
            gone.map(|name| format!("docs/invariants.md: invariant {number} names `{name}`, which is gone")),
        );
    }
    if number == 0 {
        found.push("docs/invariants.md: there are no invariants".to_string());
    }
    found
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The items of a numbered list, each with its number and all of its lines.
fn numbered(section: &str) -> Vec<(usize, String)> {
    let mut items: Vec<(usize, String)> = Vec::new();
    for line in section.lines() {
        let begins = line.split_once(". ").and_then(|(number, text)| Some((number.parse().ok()?, text)));
        match (begins, items.last_mut()) {
            (Some((number, text)), _) => items.push((number, text.to_string())),
            (None, Some((_, item))) => *item += &format!(" {line}"),
            (None, None) => {}
        }
    }
    items
}
