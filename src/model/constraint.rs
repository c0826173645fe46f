//! A hard condition on a node, as written. What it means is the scheduler's to say.

use serde::{Deserialize, Serialize};
use std::fmt;

/// `left operand right`. Targets that start with `${` name a node's property; others are literals.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Constraint {
    pub left: String,
    pub operand: String,
    pub right: String,
}

/// As metrics name it: `${attr.kernel.name} = linux`.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.operand, self.right)
    }
}
