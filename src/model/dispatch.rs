//! Jobs that are dispatched: what a dispatch must bring along, what the child is called, and what of it is its own
//! (server.md 11, jobspec.md 3.14).
//!
//! Refuses to know: who dispatches, and where a child is kept.

use crate::id::JobKey;
use crate::schema::{block, named, nullable, words, zeroed};
use crate::time::Wall;
use crate::validate::names;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub const MAX_PAYLOAD_BYTES: usize = 16 * 1024;
pub const MAX_TOKEN_BYTES: usize = 1024;
/// The most path components of a payload's file, and the most bytes of each.
const MAX_DEPTH: usize = 16;
const MAX_FILE_NAME_BYTES: usize = 255;

block! {
    /// What a dispatch brings along.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Parameterized in named("parameterized", "ParameterizedJob") => {
        pub payload: PayloadRule = PayloadRule::Optional => zeroed("payload", "Payload");
        pub meta_required: Vec<String> => nullable("meta_required", "MetaRequired");
        pub meta_optional: Vec<String> => nullable("meta_optional", "MetaOptional");
    }
}

block! {
    /// Where a task finds what its job was dispatched with.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct DispatchPayload in named("dispatch_payload", "DispatchPayload") => {
        /// Below its `local/`.
        pub file: String => zeroed("file", "File");
    }
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum PayloadRule {
        Optional = "optional",
        Required = "required",
        Forbidden = "forbidden",
    }
}

impl Parameterized {
    /// Why that cannot be dispatched, if it cannot.
    pub fn refuses(&self, payload: &[u8], meta: &BTreeMap<String, String>) -> Option<String> {
        let sentence = match self.payload {
            PayloadRule::Required if payload.is_empty() => {
                "Payload is not provided but required by parameterized job"
            }
            PayloadRule::Forbidden if !payload.is_empty() => {
                "Payload provided but forbidden by parameterized job"
            }
            _ => return oversized(payload).or_else(|| self.refuses_meta(meta)),
        };
        Some(sentence.to_string())
    }

    fn refuses_meta(&self, meta: &BTreeMap<String, String>) -> Option<String> {
        let mut known: BTreeSet<&str> = BTreeSet::new();
        known.extend(self.meta_required.iter().chain(&self.meta_optional).map(String::as_str));
        let unknown = meta.keys().filter(|key| !known.contains(key.as_str()));
        let unknown: Vec<String> = unknown.map(|key| names::shown(key)).collect();
        let missing = self.meta_required.iter().filter(|key| !meta.contains_key(key.as_str()));
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        if !unknown.is_empty() {
            let unknown = unknown.join(" ");
            return Some(format!("Dispatch request included unpermitted metadata keys: [{unknown}]"));
        }
        let sentence = || format!("Dispatch did not provide required meta keys: [{}]", missing.join(" "));
        (!missing.is_empty()).then(sentence)
    }
}

pub fn oversized(payload: &[u8]) -> Option<String> {
    let bytes = payload.len();
    (bytes > MAX_PAYLOAD_BYTES)
        .then(|| format!("Payload exceeds maximum size; {bytes} > {MAX_PAYLOAD_BYTES}"))
}

/// What a job was dispatched with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    pub payload: Vec<u8>,
    /// A token: a later dispatch with the same one gets this job. Empty: none.
    pub token: String,
    /// The version of its parent that it was made of: create index and number. `None`: it has all by itself.
    pub made_of: Option<(u64, u64)>,
}

impl Dispatch {
    /// What a child of the dispatched job has of it.
    pub fn handed_on(&self) -> Dispatch {
        Dispatch { payload: self.payload.clone(), token: String::new(), made_of: None }
    }
}

/// What is asked for, by whom it matters not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchRequest {
    pub job: JobKey,
    pub payload: Vec<u8>,
    pub meta: BTreeMap<String, String>,
    /// Goes into the child's id. Empty: none.
    pub prefix: String,
    pub token: String,
    /// 0: the parent's.
    pub priority: i64,
}

/// The number tells apart what is dispatched within a second.
pub fn child_id(parent: &str, prefix: &str, at: Wall, number: u32) -> String {
    let dash = if prefix.is_empty() { "" } else { "-" };
    format!("{parent}/dispatch-{prefix}{dash}{}-{number:08x}", at.unix_seconds())
}

/// Why there can be no child of that id, if there cannot.
pub fn refuses_id(id: &str) -> Option<String> {
    let mut errors = Vec::new();
    names::job_id(id, &mut errors);
    let its = "the id of the new job, made of its parent's and id_prefix_template, cannot be";
    errors.into_iter().next().map(|why| format!("{its}: {why}"))
}

/// The names on the way to the file, below the directory that it may not leave. The error is a sentence.
pub fn payload_path(file: &str) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    for name in file.split('/') {
        match name {
            "" | "." => {}
            ".." if names.pop().is_none() => {
                return Err("file escapes the task's local directory".into());
            }
            ".." => {}
            name => names.push(name),
        }
    }
    let bad = |name: &&str| name.len() > MAX_FILE_NAME_BYTES || name.contains(char::is_control);
    if matches!(file.rsplit('/').next(), Some("" | "." | "..")) {
        return Err("file must name a file below the task's local directory".into());
    }
    if names.len() > MAX_DEPTH {
        return Err(format!("file lies more than {MAX_DEPTH} directories deep"));
    }
    if names.iter().any(bad) {
        let most = MAX_FILE_NAME_BYTES;
        return Err(format!("file has a name with a control character, or of more than {most} bytes"));
    }
    Ok(names)
}

#[cfg(test)]
pub(crate) mod tests;
