//! A job as somebody's JSON, brought to the schema table: names in their right spelling, types checked, null and unknown
//! members gone, and what is not built yet refused by name (jobspec.md 4.1).
//!
//! Refuses to know: what any member means.

use super::decode::is_default;
use super::duration;
use model::schema::{Block, Member, Shape, ValueKind};
use model::validate::multi_error;
use serde_json::{Map, Value};
use std::fmt;

/// Why a job is not taken. Every sentence names the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedJob {
    /// The text is no JSON, or not what is expected at all: the request is at fault.
    Malformed(String),
    /// Members of a wrong type or with values that mean nothing.
    Invalid(Vec<String>),
    /// The job uses what is not built yet.
    NotSupported(Vec<String>),
}

impl fmt::Display for RefusedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusedJob::Malformed(one) => f.write_str(one),
            RefusedJob::Invalid(all) | RefusedJob::NotSupported(all) => f.write_str(&multi_error(all)),
        }
    }
}

impl std::error::Error for RefusedJob {}

/// What of a job means nothing or is not built yet, while the rest of it can be judged all the same: an unknown word does not
/// hide a wrong priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    pub invalid: Vec<String>,
    pub not_supported: Vec<String>,
}

impl Flaws {
    pub fn is_empty(&self) -> bool {
        self.invalid.is_empty() && self.not_supported.is_empty()
    }

    /// All that is wrong with the job, where `errors` is what validation found.
    pub fn with(self, errors: Vec<String>) -> Vec<String> {
        [self.invalid, errors, self.not_supported].concat()
    }

    /// Why the job is not taken, if there are flaws; `errors` come with them.
    pub fn refusal(self, errors: Vec<String>) -> Option<RefusedJob> {
        match (self.is_empty(), self.invalid.is_empty() && errors.is_empty()) {
            (true, _) => None,
            (false, true) => Some(RefusedJob::NotSupported(self.not_supported)),
            (false, false) => Some(RefusedJob::Invalid(self.with(errors))),
        }
    }
}

/// More problems than this are not looked for.
const MAX_PROBLEMS: usize = 50;

#[derive(Default)]
pub struct Checker {
    pub flaws: Flaws,
}

impl Checker {
    pub fn wrong(&mut self, sentence: String) {
        if self.flaws.invalid.len() < MAX_PROBLEMS {
            self.flaws.invalid.push(sentence);
        }
    }

    pub fn unbuilt(&mut self, name: &str, path: &str) {
        let sentence = format!("not supported yet: {name} ({path})");
        let known = &mut self.flaws.not_supported;
        if known.len() < MAX_PROBLEMS && !known.contains(&sentence) {
            known.push(sentence);
        }
    }

    /// The object's members that the schema knows and that are not null.
    pub fn object(&mut self, schema: &'static Block, given: &Value, path: &str) -> Map<String, Value> {
        let Value::Object(members) = given else {
            self.wrong(format!("{path}: an object is expected"));
            return Map::new();
        };
        let mut out = Map::new();
        for (name, value) in members {
            let Some(member) = find(schema, name) else { continue };
            let path =
                if path.is_empty() { member.json.to_string() } else { format!("{path}.{}", member.json) };
            if value.is_null() {
                continue;
            }
            if !member.built {
                if !harmless(member, value) {
                    self.unbuilt(member.shown(), &path);
                }
                continue;
            }
            if let Some(value) = self.member(member, value, &path) {
                out.insert(member.json.to_string(), value);
            }
        }
        out
    }

    fn member(&mut self, member: &'static Member, value: &Value, path: &str) -> Option<Value> {
        match member.shape {
            Shape::Ignored => None,
            Shape::Value(kind) => self.value(kind, value, path),
            Shape::One(block) => Some(Value::Object(self.object(block, value, path))),
            Shape::Many(block) => {
                let Value::Array(items) = value else {
                    self.wrong(format!("{path}: a list is expected"));
                    return None;
                };
                let objects = items.iter().enumerate().filter(|(_, v)| !v.is_null());
                Some(Value::Array(
                    objects
                        .map(|(i, v)| Value::Object(self.object(block, v, &format!("{path}[{i}]"))))
                        .collect(),
                ))
            }
            Shape::ByLabel(block) => {
                let Value::Object(items) = value else {
                    self.wrong(format!("{path}: an object is expected"));
                    return None;
                };
                let objects = items
                    .iter()
                    .map(|(k, v)| (k.clone(), Value::Object(self.object(block, v, &format!("{path}[{k}]")))));
                Some(Value::Object(objects.collect()))
            }
        }
    }

    fn value(&mut self, kind: ValueKind, value: &Value, path: &str) -> Option<Value> {
        let texts = |v: &Value| v.as_array().is_some_and(|l| l.iter().all(Value::is_string));
        let (good, wanted) = match kind {
            ValueKind::Text => (value.is_string(), "a string"),
            ValueKind::Bool => (value.is_boolean(), "true or false"),
            ValueKind::Int => (value.is_i64(), "a whole number"),
            ValueKind::Span => match value.as_str().map(duration::parse) {
                Some(Ok(span)) => return Some(Value::from(span.as_nanos())),
                Some(Err(why)) => {
                    self.wrong(format!("{path}: {why}"));
                    return None;
                }
                None => (value.is_i64(), "a duration in nanoseconds"),
            },
            ValueKind::Texts => (texts(value), "a list of strings"),
            ValueKind::TextMap => {
                (value.as_object().is_some_and(|m| m.values().all(Value::is_string)), "an object of strings")
            }
            ValueKind::TextsMap => {
                (value.as_object().is_some_and(|m| m.values().all(texts)), "an object of lists of strings")
            }
            ValueKind::Free => (value.is_object(), "an object"),
            ValueKind::Opaque => (true, ""),
        };
        if good {
            return Some(value.clone());
        }
        self.wrong(format!("{path}: {wanted} is expected"));
        None
    }
}

/// Exact names first, then any spelling of upper and lower case.
fn find(schema: &'static Block, name: &str) -> Option<&'static Member> {
    let named = || schema.members.iter().filter(|m| !m.json.is_empty());
    named().find(|m| m.json == name).or_else(|| named().find(|m| m.json.eq_ignore_ascii_case(name)))
}

/// Empty, or what Nomad itself fills in.
fn harmless(member: &Member, value: &Value) -> bool {
    if is_default(value) || value.as_array().is_some_and(|l| l.iter().all(is_default)) {
        return true;
    }
    match serde_json::from_str::<Value>(member.filled) {
        Ok(Value::Object(by_nomad)) => value.as_object().is_some_and(|given| {
            given.iter().all(|(name, v)| is_default(v) || by_nomad.get(name) == Some(v))
        }),
        Ok(by_nomad) => by_nomad == *value,
        Err(_) => false,
    }
}
