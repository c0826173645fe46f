//! The checks that look at the repository rather than at one source: the dependency tree and the files that must exist.

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

/// A package of Cargo.lock.
struct Package<'a> {
    name: &'a str,
    from_registry: bool,
    dependencies: Vec<&'a str>,
}

/// hyper takes its channel types from tokio with only the feature `sync`: a leaf without runtime, I/O or timers. That much
/// is allowed, to hyper alone; the runtime would show as further dependencies of the package.
pub fn lock_file(lock: &str) -> Vec<String> {
    let packages: Vec<Package> = lock.split("[[package]]").skip(1).map(package).collect();
    let mut found = Vec::new();
    for package in &packages {
        for (banned, why) in BANNED_CRATES.iter().filter(|(banned, _)| package.name.starts_with(banned)) {
            found.push(format!("Cargo.lock: `{}` ({banned}): {why}", package.name));
        }
        if package.name == "tokio" && package.dependencies != ["pin-project-lite"] {
            found.push(format!("Cargo.lock: tokio is more than its channels: {:?}", package.dependencies));
        }
        if package.dependencies.contains(&"tokio") && package.name != "hyper" {
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
    "docs/DECISIONS.md",
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
