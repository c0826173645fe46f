//! The one table of everything a job file can say: for each block, each key's spelling in HCL, its member in the API's
//! JSON, its type, what a change of it means, and whether drover has built its meaning. Reading and writing HCL and JSON,
//! refusing what is not built and telling differences all follow this table.
//!
//! A block that is kept is declared by `block!` where its struct is, field by field (`fields`); what drover only knows by name
//! stands in the tables here. To make something "built", keep it in a struct.
//!
//! Refuses to know: how either text is read or written, and what any key means.

pub mod change;
mod fields;
pub mod policies;
pub mod services;

pub use fields::{BlockList, BlockMap, Declared, FieldType, FieldView, Fields, Slot, Word, typed};
pub(crate) use fields::{block, words};

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
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
    Value(ValueKind),
    /// A block at most once: an object or null.
    One(&'static Block),
    /// A block any number of times: a list.
    Many(&'static Block),
    /// A labelled block any number of times: an object by label.
    ByLabel(&'static Block),
    /// Set by servers or of no meaning here: ignored in a submission.
    Ignored,
}

/// What it means for what runs that a field is another one: the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeEffect {
    /// The change has no effect, and is no difference.
    Nothing,
    /// Allocations take it over as they run.
    InPlace,
    /// Tasks have to be started anew.
    Destructive,
}

/// How a difference of the member is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffForm {
    /// Several blocks: what changed went, and something else came. Texts: in an object of their own.
    AsSet,
    /// Several blocks: the first with the first, and so on. Texts: by number, among the other fields.
    InOrder,
    /// A map of values: as a block whose fields are its keys.
    AsBlock,
    /// Not as one field or block of others.
    ByHand,
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
    /// The value in JSON is not simply put into the field.
    pub read_by_hand: bool,
    /// In JSON it is not simply the field's value.
    pub written_by_hand: bool,
    /// In the JSON of a job, absent is the type's zero instead of `null`.
    pub zero_for_none: bool,
    pub change: ChangeEffect,
    pub diff_form: DiffForm,
    /// What differences call the block. Empty: as its table does.
    pub diff_name: &'static str,
    /// A zero is no difference from nothing.
    pub zero_is_no_difference: bool,
    /// The field is not kept, and always its type's zero.
    pub always_zero: bool,
    /// The order of its blocks means nothing.
    pub unordered: bool,
    /// The text that an empty one stands for.
    pub empty_means: &'static str,
    /// A text that it always has: it is not kept. Empty: none.
    pub constant: &'static str,
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

    pub const fn destructive(self) -> Member {
        Member { change: ChangeEffect::Destructive, ..self }
    }

    pub const fn without_effect(self) -> Member {
        Member { change: ChangeEffect::Nothing, ..self }
    }

    pub const fn by_hand(self) -> Member {
        self.read_by_hand().written_by_hand()
    }

    pub const fn read_by_hand(self) -> Member {
        Member { read_by_hand: true, ..self }
    }

    pub const fn written_by_hand(self) -> Member {
        Member { written_by_hand: true, ..self }
    }

    pub const fn zero_for_none(self) -> Member {
        Member { zero_for_none: true, ..self }
    }

    pub const fn in_order(self) -> Member {
        Member { diff_form: DiffForm::InOrder, ..self }
    }

    pub const fn as_block(self) -> Member {
        Member { diff_form: DiffForm::AsBlock, ..self }
    }

    pub const fn diff_by_hand(self) -> Member {
        Member { diff_form: DiffForm::ByHand, ..self }
    }

    pub const fn diff_name(self, name: &'static str) -> Member {
        Member { diff_name: name, ..self }
    }

    pub const fn zero_is_no_difference(self) -> Member {
        Member { zero_is_no_difference: true, ..self }
    }

    pub const fn always_zero(self) -> Member {
        Member { always_zero: true, ..self }
    }

    pub const fn unordered(self) -> Member {
        Member { unordered: true, ..self }
    }

    pub const fn empty_means(self, text: &'static str) -> Member {
        Member { empty_means: text, ..self }
    }

    pub const fn constant(self, text: &'static str) -> Member {
        Member { constant: text, ..self }
    }

    pub const fn omitted(self) -> Member {
        Member { omitted: true, ..self }
    }

    /// The name that people know it by.
    pub fn shown(&self) -> &'static str {
        if self.hcl.is_empty() { self.json } else { self.hcl }
    }
}

/// What is done to a block's JSON once its keys are read (jobspec.md 2.4, jobspec.md 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeHook {
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
    /// As differences call it.
    pub shown: &'static str,
    /// The member that takes the label; none: the block has no label.
    pub label: Option<&'static str>,
    pub members: &'static [Member],
    pub hook: DecodeHook,
}

impl Block {
    pub const fn labelled(self, member: &'static str) -> Block {
        Block { label: Some(member), ..self }
    }

    pub const fn hooked(self, hook: DecodeHook) -> Block {
        Block { hook, ..self }
    }

    pub fn by_json(&self, name: &str) -> Option<&'static Member> {
        self.members.iter().find(|m| m.json == name && !name.is_empty())
    }

    pub fn by_hcl(&self, name: &str) -> Option<&'static Member> {
        self.members.iter().find(|m| m.hcl == name && !name.is_empty())
    }
}

pub const fn member(hcl: &'static str, json: &'static str, shape: Shape, nullable: bool) -> Member {
    Member {
        hcl,
        json,
        shape,
        nullable,
        built: true,
        omitted: false,
        read_by_hand: false,
        written_by_hand: false,
        zero_for_none: !nullable,
        change: ChangeEffect::InPlace,
        diff_form: DiffForm::AsSet,
        diff_name: "",
        zero_is_no_difference: false,
        always_zero: false,
        unordered: false,
        empty_means: "",
        constant: "",
        filled: "",
    }
}

/// A field of a struct, whose type says the shape. Null in a parse result when absent.
pub const fn nullable(hcl: &'static str, json: &'static str) -> Member {
    member(hcl, json, Shape::Ignored, true)
}

/// The same, but the type's zero when absent.
pub const fn zeroed(hcl: &'static str, json: &'static str) -> Member {
    member(hcl, json, Shape::Ignored, false)
}

/// A block that is kept; `block!` gives it its members.
pub const fn named(name: &'static str, shown: &'static str) -> Block {
    Block { name, shown, label: None, members: &[], hook: DecodeHook::Nothing }
}

pub const fn plain(hcl: &'static str, json: &'static str, kind: ValueKind) -> Member {
    member(hcl, json, Shape::Value(kind), false)
}

/// Null when absent.
pub const fn maybe(hcl: &'static str, json: &'static str, kind: ValueKind) -> Member {
    member(hcl, json, Shape::Value(kind), true)
}

pub const fn one(hcl: &'static str, json: &'static str, block: &'static Block) -> Member {
    member(hcl, json, Shape::One(block), true)
}

pub const fn many(hcl: &'static str, json: &'static str, block: &'static Block) -> Member {
    member(hcl, json, Shape::Many(block), true)
}

pub const fn ignored(json: &'static str) -> Member {
    member("", json, Shape::Ignored, true)
}

/// Known to Nomad, not built here yet.
pub const fn soon(m: Member) -> Member {
    Member { built: false, ..m }
}

pub const fn filled(m: Member, by_nomad: &'static str) -> Member {
    Member { filled: by_nomad, ..m }
}

pub const fn omitted(m: Member) -> Member {
    m.omitted()
}

pub const fn block(name: &'static str, members: &'static [Member]) -> Block {
    Block { name, shown: name, label: None, members, hook: DecodeHook::Nothing }
}

pub const fn labelled(name: &'static str, label: &'static str, members: &'static [Member]) -> Block {
    Block { name, shown: name, label: Some(label), members, hook: DecodeHook::Nothing }
}

pub const fn hooked(b: Block, hook: DecodeHook) -> Block {
    Block { hook, ..b }
}
