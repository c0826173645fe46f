//! The one table of everything a job file can say: for each block, each key's spelling in HCL, its member in the API's
//! JSON, its type, and whether drover has built its meaning. Reading a job file, refusing what is not built and reading
//! an API job all follow this table. To make something "built", drop its `soon(...)`.
//!
//! Refuses to know: how either text is read, and what any key means.

mod job;
mod policies;
mod services;

pub use job::{GROUP, JOB};

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Int,
    Bool,
    /// Nanoseconds in JSON; a Go duration or a bare number in HCL.
    Span,
    Texts,
    TextMap,
    /// Lists of texts by name: the headers of a check.
    TextsMap,
    /// Anything: a driver's configuration (jobspec.md 2.4.3).
    Free,
    /// A type expression or a value that only JSON carries.
    Opaque,
}

#[derive(Clone, Copy)]
pub enum Shape {
    Value(Kind),
    /// A block at most once: an object or null.
    One(&'static Block),
    /// A block any number of times: a list.
    Many(&'static Block),
    /// A labelled block any number of times: an object by label.
    ByLabel(&'static Block),
    /// Set by servers or of no meaning here: ignored in a submission.
    Ignored,
}

#[derive(Clone, Copy)]
pub struct Member {
    /// Empty: only in JSON.
    pub hcl: &'static str,
    /// Empty: only in HCL; its block's hook says where it goes.
    pub json: &'static str,
    pub shape: Shape,
    /// Absent is `null`; otherwise the type's zero.
    pub nullable: bool,
    pub built: bool,
    /// Left out of the parse result when absent.
    pub omitted: bool,
    /// What Nomad fills in by itself, as JSON: no reason to refuse a job, even where the member is not built.
    pub filled: &'static str,
}

impl Member {
    pub const fn block(&self) -> Option<&'static Block> {
        match self.shape {
            Shape::One(b) | Shape::Many(b) | Shape::ByLabel(b) => Some(b),
            Shape::Value(_) | Shape::Ignored => None,
        }
    }

    /// The name that people know it by.
    pub fn shown(&self) -> &'static str {
        if self.hcl.is_empty() { self.json } else { self.hcl }
    }
}

/// What is done to a block's JSON once its keys are read (jobspec.md 2.4, jobspec.md 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    Nothing,
    Job,
    Group,
    Constraint,
    Affinity,
    Network,
    Periodic,
    Template,
    ChangeScript,
    GroupScaling,
    TaskScaling,
    Vault,
}

pub struct Block {
    /// As in the job file.
    pub name: &'static str,
    /// The member that takes the label; none: the block has no label.
    pub label: Option<&'static str>,
    pub members: &'static [Member],
    pub hook: Hook,
}

impl Block {
    pub fn by_hcl(&self, name: &str) -> Option<&'static Member> {
        self.members.iter().find(|m| m.hcl == name && !name.is_empty())
    }
}

const fn member(hcl: &'static str, json: &'static str, shape: Shape, nullable: bool) -> Member {
    Member { hcl, json, shape, nullable, built: true, omitted: false, filled: "" }
}

const fn plain(hcl: &'static str, json: &'static str, kind: Kind) -> Member {
    member(hcl, json, Shape::Value(kind), false)
}

/// Null when absent.
const fn maybe(hcl: &'static str, json: &'static str, kind: Kind) -> Member {
    member(hcl, json, Shape::Value(kind), true)
}

const fn one(hcl: &'static str, json: &'static str, block: &'static Block) -> Member {
    member(hcl, json, Shape::One(block), true)
}

const fn many(hcl: &'static str, json: &'static str, block: &'static Block) -> Member {
    member(hcl, json, Shape::Many(block), true)
}

const fn by_label(hcl: &'static str, json: &'static str, block: &'static Block) -> Member {
    member(hcl, json, Shape::ByLabel(block), true)
}

const fn ignored(json: &'static str) -> Member {
    member("", json, Shape::Ignored, true)
}

/// Known to Nomad, not built here yet.
const fn soon(m: Member) -> Member {
    Member { built: false, ..m }
}

const fn filled(m: Member, by_nomad: &'static str) -> Member {
    Member { filled: by_nomad, ..m }
}

const fn omitted(m: Member) -> Member {
    Member { omitted: true, ..m }
}

const fn block(name: &'static str, members: &'static [Member]) -> Block {
    Block { name, label: None, members, hook: Hook::Nothing }
}

const fn labelled(name: &'static str, label: &'static str, members: &'static [Member]) -> Block {
    Block { name, label: Some(label), members, hook: Hook::Nothing }
}

const fn hooked(b: Block, hook: Hook) -> Block {
    Block { hook, ..b }
}
