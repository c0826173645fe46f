//! Soft conditions on a node, as written: what makes it a better or a worse place. What they mean is the scheduler's to say.

use super::constraint::Constraint;
use serde::{Deserialize, Serialize};

/// The weight of a preference that names none.
pub const DEFAULT_WEIGHT: i64 = 50;

/// Nodes that meet the condition are better, or worse where the weight is negative.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    pub condition: Constraint,
    /// -100 to 100, not 0.
    pub weight: i64,
}

/// Allocations are to be spread over the values of a node's property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    pub attribute: String,
    /// 1 to 100.
    pub weight: i64,
    /// Empty: evenly over all values.
    pub targets: Vec<SpreadTarget>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadTarget {
    pub value: String,
    /// The percentage of the group's count. All targets together are at most 100.
    pub percent: i64,
}
