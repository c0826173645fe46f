//! Every target over its corpus and over seeded mutations of it.

use super::mutate::{Dice, mutate};
use ::io::corpus::files;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

type Target = fn(&[u8]);

/// A target's name, and how many mutations are tried of its whole corpus: as many as take a second or two.
const TARGETS: [(&str, Target, usize); 9] = [
    ("hcl", super::hcl, 1500),
    ("json", super::json, 3000),
    ("filter", super::filter, 10_000),
    ("http", super::http, 5000),
    ("record", super::record, 20_000),
    ("keeper", super::keeper, 10_000),
    ("logs", super::logs, 300),
    ("config", super::config, 3000),
    ("token", super::token, 20_000),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Says what failed: the target and the bytes.
fn run(target: Target, name: &str, bytes: &[u8]) {
    let outcome = std::panic::catch_unwind(|| target(bytes));
    assert!(outcome.is_ok(), "{name} failed on {:?}", bytes.escape_ascii().to_string());
}

fn sweep(name: &str) {
    let (_, target, rounds) = TARGETS.into_iter().find(|t| t.0 == name).expect("a target");
    let corpus = files(&root().join("corpus").join(name));
    assert!(!corpus.is_empty(), "{name} has no corpus");
    corpus.iter().for_each(|(_, bytes)| run(target, name, bytes));
    let mut dice = Dice(0x5EED);
    for round in 0..rounds {
        let (_, seed) = &corpus[round % corpus.len()];
        let (_, other) = &corpus[dice.roll(corpus.len())];
        run(target, name, &mutate(seed, other, &mut dice));
    }
}

#[test]
fn job_files_hold_their_properties() {
    sweep("hcl");
}

#[test]
fn jobs_hold_their_properties() {
    sweep("json");
}

#[test]
fn filters_hold_their_properties() {
    sweep("filter");
}

#[test]
fn requests_hold_their_properties() {
    sweep("http");
}

#[test]
fn records_hold_their_properties() {
    sweep("record");
}

#[test]
fn the_keepers_bytes_hold_their_properties() {
    sweep("keeper");
}

#[test]
fn log_files_hold_their_properties() {
    sweep("logs");
}

#[test]
fn configurations_hold_their_properties() {
    sweep("config");
}

#[test]
fn join_tokens_hold_their_properties() {
    sweep("token");
}

#[test]
fn every_target_can_be_run_by_the_fuzzer() {
    let names: BTreeSet<String> = TARGETS.iter().map(|t| t.0.to_string()).collect();
    let found: BTreeSet<String> =
        files(&root().join("fuzz_targets")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, names);
    let manifest = include_str!("../../fuzz/Cargo.toml");
    for name in names {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
}
