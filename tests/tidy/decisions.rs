//! The decisions in docs/decisions: their numbers have no holes, each file has the same four headings, the index has a row for each, and
//! what cites one cites a file that is there. What one decides in names of the code, the code knows by these names.

use crate::items;
use crate::source::{Source, is_word};
use std::collections::BTreeSet;

/// What each decision says, in this order.
const HEADINGS: [&str; 4] = ["## Context", "## Decision", "## Rejected", "## What would reopen it"];
const NUMBER_DIGITS: usize = 4;

/// What these say of the code is of the past.
const OF_THE_PAST: [&str; 2] = ["Context", "Rejected"];
/// Names of the standard library, of crates and of lints, which no source of ours spells out.
const FOREIGN_NAMES: &[&str] = &["unreachable_pub", "FormatEvent", "BTreeMap::from_iter", "drop_in_place"];

/// A file of docs/decisions, without the index.
pub struct Decision {
    pub name: String,
    pub text: String,
}

impl Decision {
    fn number(&self) -> &str {
        self.name.split('-').next().unwrap_or("")
    }

    fn is_superseded(&self) -> bool {
        self.text.lines().any(|line| line.starts_with("- Status: superseded"))
    }
}

/// `files`: in order of their names.
pub fn records(files: &[Decision], index: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let (name, expected) = (&file.name, format!("{:04}", at + 1));
        if file.number() != expected {
            found.push(format!("docs/decisions/{name}: the number after {at:04} is {expected}"));
            break;
        }
    }
    for Decision { name, text } in files {
        let headings: Vec<&str> = text.lines().filter(|line| HEADINGS.contains(line)).collect();
        if headings != HEADINGS {
            found.push(format!("docs/decisions/{name}: has {headings:?}, not {HEADINGS:?}"));
        }
    }
    for file in files {
        let row = format!("| [{}]({}) | ", file.number(), file.name);
        if index.lines().filter(|line| line.starts_with(&row)).count() != 1 {
            found.push(format!("docs/decisions/README.md: has not one row that begins `{row}`"));
        }
    }
    found
}

/// Each name of the code in a decision that holds, but for its context and what it rejected, that the sources do not know.
pub fn unknown_names(files: &[Decision], sources: &[Source]) -> Vec<String> {
    let views = sources.iter().flat_map(|source| [&source.code, &source.strings]);
    let words: BTreeSet<&str> = views.flat_map(|view| view.split(|c| !is_word(c))).collect();
    let is_known = |name: &str| match name.contains("::") {
        true => items::exists(sources, name),
        false => words.contains(name),
    };
    let mut found = Vec::new();
    for Decision { name, text } in files.iter().filter(|file| !file.is_superseded()) {
        let mut section = "";
        for (at, line) in text.lines().enumerate() {
            section = line.strip_prefix("## ").unwrap_or(section);
            let quoted = line.split('`').skip(1).step_by(2).filter(|_| !OF_THE_PAST.contains(&section));
            let ours = quoted.filter(|word| is_name_of_code(word) && !FOREIGN_NAMES.contains(word));
            found.extend(
                ours.filter(|word| !is_known(word))
                    .map(|word| format!("docs/decisions/{name}:{}: no source knows `{word}`", at + 1)),
            );
        }
    }
    found
}

/// As `plans::verify`, `after_leap`, `OmitEmpty` and `FEATURE_LEVEL`. One plain word may be anything.
fn is_name_of_code(word: &str) -> bool {
    let humps = word.chars().filter(char::is_ascii_uppercase).count();
    let is_joined = word.contains("::") || word.contains('_');
    let is_camel = humps > 1 && word.chars().any(|c| c.is_ascii_lowercase());
    items::is_path_of_items(word) && (is_joined || is_camel)
}

/// Each citation in `text` of a decision that is not there: `decision 0061`, a number like 0061 alone, and the name of a file.
pub fn without_target(path: &str, text: &str, files: &[Decision]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for cited in cited(line) {
            let is_there = files.iter().any(|file| match cited.len() {
                NUMBER_DIGITS => file.number() == cited,
                _ => file.name == cited,
            });
            if !is_there {
                found.push(format!("{path}:{}: there is no decision {cited}", at + 1));
            }
        }
    }
    found
}

/// Numbers and names of files. A number that does not follow the word begins with `00`, so that a file's mode is none.
fn cited(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut follows = false;
    for word in line.split(|c: char| !is_word(c) && !"-.+:/".contains(c)).filter(|word| !word.is_empty()) {
        let name = word.rsplit('/').next().unwrap_or(word);
        let plain = name.trim_end_matches(['.', ':']);
        let is_number = plain.len() == NUMBER_DIGITS && plain.chars().all(|c| c.is_ascii_digit());
        if is_number && plain == word.trim_end_matches(['.', ':']) && (follows || plain.starts_with("00")) {
            found.push(plain);
        } else if is_file(name) {
            found.push(name);
        }
        follows = matches!(plain, "decision" | "Decision" | "decisions" | "Decisions")
            || (follows && (is_number || plain == "and"));
    }
    found
}

/// As `0061-fields-of-a-job-declared-once.md`.
fn is_file(name: &str) -> bool {
    let digits = name.chars().take_while(char::is_ascii_digit).count();
    digits == NUMBER_DIGITS && name[digits..].starts_with('-') && name.ends_with(".md")
}
