//! Whole job files: what they parse to, what is refused where, and that no text breaks the reader.

mod accepted;
mod actions;
mod asks;
mod child_jobs;
mod cost;
mod depth;
mod inputs;
mod parsing;
mod samples;
mod scaling;
mod specified;
mod stored;
mod written;

use super::{Parsed, Vars, parse};
use serde_json::Value;

fn read(text: &str) -> Parsed {
    parse("t.nomad.hcl", text, &Vars { strict: true, ..Vars::default() }, None)
}

/// The job of a text that has one.
fn job(text: &str) -> Value {
    let parsed = read(text);
    parsed.job.unwrap_or_else(|| panic!("{}", super::render(&parsed.diagnostics)))
}

/// The job with `body` in it.
fn with(body: &str) -> Value {
    job(&format!("job \"x\" {{\n{body}\n}}\n"))
}

/// Inside one task's block.
fn task(body: &str) -> Value {
    let job = with(&format!("group \"g\" {{\n task \"t\" {{\n driver = \"d\"\n{body}\n}}\n}}"));
    job["TaskGroups"][0]["Tasks"][0].clone()
}

/// All diagnostics, one per line.
fn problems(text: &str) -> String {
    let parsed = read(text);
    assert!(parsed.job.is_none() || parsed.diagnostics.is_empty());
    super::render_lines(&parsed.diagnostics)
}
