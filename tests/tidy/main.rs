//! The house's rules that a machine can read: floors, sizes, words, characters, `unsafe`, the dependency tree.
//!
//! Reads the repository as text and runs nothing of it. `canary` proves that every check can fail.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod brains;
mod canary;
mod checkers;
mod checks;
mod circles;
mod citations;
mod decisions;
mod floors;
mod items;
mod links;
mod public;
mod source;
mod tree;
mod types;

use decisions::Decision;
use source::{Source, root};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn rooms_depend_downwards_only() {
    let sources = Source::all();
    let mut rooms: Vec<&str> = sources.iter().filter_map(Source::room).collect();
    rooms.dedup();
    assert_none(floors::without_room(&rooms));
    let found = rooms.into_iter().flat_map(|room| {
        let path = root().join("src").join(room).join("Cargo.toml");
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let names = |name: &str| {
            let of_room = sources.iter().filter(|s| s.room() == Some(room));
            of_room.map(|s| s.code_lines_with(name)).any(|lines| !lines.is_empty())
        };
        floors::manifest(room, &text, names)
    });
    assert_none(found.collect());
    assert_tidy(floors::parts);
}

#[test]
fn files_of_a_room_do_not_go_in_circles() {
    assert_none(circles::circles(&Source::all()));
}

#[test]
fn every_public_item_is_named_somewhere() {
    assert_none(public::unnamed(&Source::all()));
}

#[test]
fn a_type_name_has_one_meaning() {
    let sources = Source::all();
    assert_none(types::doubled(&sources, types::SAME_MEANING));
    assert_none(types::doubled_in_a_room(&sources));
}

#[test]
fn every_citation_has_its_rule() {
    let behaviour = root().join("docs/behaviour");
    let read =
        |name: &str| fs::read_to_string(behaviour.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let rules = citations::DOCUMENTS.map(|name| citations::Rules::new(name, &read(name)));
    let mut found: Vec<String> = rules.iter().flat_map(citations::Rules::doubled).collect();
    let sources = Source::all();
    found.extend(sources.iter().flat_map(|source| citations::in_comments(source, &rules)));
    found.extend(sources.iter().flat_map(|source| citations::in_test_names(source, &rules)));
    for (path, text) in documents() {
        found.extend(citations::without_target(&path, &text, &rules));
    }
    let differences = fs::read_to_string(root().join("docs/nomad-differences.md"));
    found.extend(citations::differences(&differences.expect("the differences are checked in"), &rules));
    assert_none(found);
}

#[test]
fn links_of_documents_lead_somewhere() {
    let found = documents().into_iter().flat_map(|(path, text)| {
        let mut found = links::without_target(&path, &text, |target| root().join(target).exists());
        found.extend(links::long_pages(&path, &text));
        found
    });
    assert_none(found.collect());
}

#[test]
fn every_decision_is_whole_and_what_cites_it_finds_it() {
    let folder = root().join("docs/decisions");
    let mut files: Vec<Decision> = documents_below(&folder).iter().map(|path| decision(path)).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.retain(|file| file.name != "README.md");
    let index = fs::read_to_string(folder.join("README.md")).expect("the index is checked in");
    let mut found = decisions::records(&files, &index);
    let sources = Source::all();
    found.extend(decisions::unknown_names(&files, &sources));
    for source in &sources {
        found.extend(decisions::without_target(&source.path, &source.comments, &files));
    }
    for (path, text) in documents() {
        found.extend(decisions::without_target(&path, &text, &files));
    }
    assert_none(found);
}

#[test]
fn every_checker_of_the_simulator_is_broken_once() {
    assert_none(checkers::never_broken(&Source::all()));
}

#[test]
fn every_file_opens_with_a_head_doc() {
    assert_tidy(checks::head_doc);
}

#[test]
fn files_and_functions_stay_small() {
    assert_tidy(checks::file_size);
    assert_tidy(checks::function_size);
    assert_none(checks::percentiles(&Source::all()));
}

#[test]
fn every_long_file_on_the_list_exists() {
    let sources = Source::all();
    let gone: Vec<_> =
        checks::LONG_FILES.iter().filter(|(path, _)| sources.iter().all(|s| s.path != *path)).collect();
    assert!(gone.is_empty(), "drop from LONG_FILES: {gone:?}");
}

#[test]
fn no_mark_of_unfinished_or_fragile_work() {
    assert_tidy(checks::banned_words);
    assert_tidy(checks::ignored_results);
    assert_tidy(checks::unexplained);
}

#[test]
fn comments_and_names_are_plain() {
    assert_tidy(checks::bare_of);
    assert_tidy(checks::bare_pronouns);
    assert_tidy(checks::private_words);
    assert_tidy(checks::long_names);
}

#[test]
fn brains_neither_lock_nor_wait() {
    assert_tidy(checks::plain_brains);
}

#[test]
fn brains_are_made_of_parts() {
    assert_none(brains::overgrown(&Source::all(), brains::CEILINGS));
}

#[test]
fn records_are_encoded_by_position() {
    assert_tidy(checks::plain_records);
}

#[test]
fn module_names_say_something() {
    assert_tidy(checks::module_names);
}

#[test]
fn characters_are_ascii_or_declared() {
    assert_tidy(checks::characters);
}

#[test]
fn unsafe_and_lifted_bans_stay_where_they_belong() {
    assert_tidy(checks::unsafety);
    assert_tidy(checks::bans_lifted);
}

#[test]
fn the_dependency_tree_holds_no_second_runtime() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock is checked in");
    assert_none(tree::lock_file(&lock));
}

#[test]
fn every_invariant_names_what_would_find_it_broken() {
    let document =
        fs::read_to_string(root().join("docs/invariants.md")).expect("the invariants are checked in");
    let sources = Source::all();
    let functions: Vec<String> = sources.iter().flat_map(Source::functions).map(|f| f.name).collect();
    let finds = |name: &str| functions.iter().any(|f| f == name);
    let enforces = |name: &str| match items::is_path_of_items(name) {
        true => items::exists(&sources, name),
        false => root().join(name).exists(),
    };
    assert_none(tree::invariants(&document, enforces, finds));
}

#[test]
fn promised_files_exist() {
    let listed = fs::read_dir(root().join("config/examples")).into_iter().flatten();
    let examples: Vec<String> =
        listed.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_none(tree::promised_files(|path| root().join(path).exists(), &examples));
}

fn assert_tidy(check: fn(&Source) -> Vec<String>) {
    let sources = Source::all();
    assert!(sources.len() > 10, "the walk found only {} files", sources.len());
    assert_none(sources.iter().flat_map(check).collect());
}

fn assert_none(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{} untidy:\n{}\n", findings.len(), findings.join("\n"));
}

fn decision(path: &Path) -> Decision {
    let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    Decision { name, text: fs::read_to_string(path).expect("a decision is readable") }
}

/// Every document, by its path in the repository.
fn documents() -> Vec<(String, String)> {
    let mut paths = documents_below(&root().join("docs"));
    paths.extend(["README.md", "CHANGELOG.md"].map(|name| root().join(name)));
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(root()).expect("listed under the root").display().to_string();
        (name, fs::read_to_string(path).expect("a listed document is readable"))
    };
    paths.iter().map(read).collect()
}

fn documents_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of documents is readable");
    let paths = entries.map(|entry| entry.expect("an entry is readable").path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| documents_below(folder));
    files.into_iter().filter(|file| file.extension().is_some_and(|e| e == "md")).chain(below).collect()
}
