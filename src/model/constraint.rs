//! A hard condition on a node, as written. What it means is the scheduler's to say.

use super::schema::{DecodeHook, ValueKind, block, named, plain, zeroed};
use serde::{Deserialize, Serialize};
use std::fmt;

block! {
    /// `left operand right`. Targets that start with `${` name a node's property; others are literals.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub struct Constraint in named("constraint", "Constraint").hooked(DecodeHook::Constraint) => {
        pub left: String => zeroed("attribute", "LTarget");
        pub operand: String => zeroed("operator", "Operand");
        pub right: String => zeroed("value", "RTarget");
    }
    and [
        plain("version", "", ValueKind::Text),
        plain("semver", "", ValueKind::Text),
        plain("regexp", "", ValueKind::Text),
        plain("set_contains", "", ValueKind::Text),
        plain("set_contains_all", "", ValueKind::Text),
        plain("set_contains_any", "", ValueKind::Text),
        plain("is_set", "", ValueKind::Bool),
        plain("is_not_set", "", ValueKind::Bool),
        plain("distinct_hosts", "", ValueKind::Bool),
        plain("distinct_property", "", ValueKind::Text),
    ]
}

/// As metrics name it: `${attr.kernel.name} = linux`.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.operand, self.right)
    }
}
