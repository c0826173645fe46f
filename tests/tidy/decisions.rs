//! The decisions in docs/decisions: their numbers have no holes, each file has the same four headings, the index has a row for each, and
//! what cites one cites a file that is there.

use crate::source::is_word;

/// What each decision says, in this order.
const HEADINGS: [&str; 4] = ["## Context", "## Decision", "## Rejected", "## What would reopen it"];
const NUMBER_DIGITS: usize = 4;

/// A file of docs/decisions, without the index.
pub struct Decision {
    pub name: String,
    pub text: String,
}

impl Decision {
    fn number(&self) -> &str {
        self.name.split('-').next().unwrap_or("")
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
