//! Soft conditions on a node, as written: what makes it a better or a worse place. What they mean is the scheduler's to say.

use super::constraint::Constraint;
use super::schema::policies::{AFFINITY, AFFINITY_WEIGHT};
use super::schema::{Block, Declared, FieldView, Fields, Member, Slot, block, named, nullable, zeroed};
use serde::{Deserialize, Serialize};

/// The weight of a preference that names none.
pub const DEFAULT_WEIGHT: i64 = 50;

/// Nodes that meet the condition are better, or worse where the weight is negative.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    pub condition: Constraint,
    /// -100 to 100, not 0.
    pub weight: i64,
}

impl Default for Affinity {
    fn default() -> Self {
        Affinity { condition: Constraint::default(), weight: DEFAULT_WEIGHT }
    }
}

impl Declared for Affinity {
    const BLOCK: &'static Block = &AFFINITY;
}

/// A constraint with a weight.
impl Fields for Affinity {
    fn block(&self) -> &'static Block {
        Self::BLOCK
    }

    fn each<'a>(&'a self, see: &mut dyn FnMut(&'static Member, FieldView<'a>)) {
        self.condition.each(see);
        see(&AFFINITY_WEIGHT, FieldView::Int(self.weight));
    }

    fn slot(&mut self, json: &str) -> Option<Slot<'_>> {
        if json == AFFINITY_WEIGHT.json {
            Some(Slot::Int(&mut self.weight))
        } else {
            self.condition.slot(json)
        }
    }

    fn fresh(&self) -> Box<dyn Fields> {
        Box::new(Affinity::default())
    }
}

block! {
    /// Allocations are to be spread over the values of a node's property.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Spread in named("spread", "Spread") => {
        pub attribute: String => zeroed("attribute", "Attribute");
        /// 1 to 100.
        pub weight: i64 = DEFAULT_WEIGHT => nullable("weight", "Weight");
        /// Empty: evenly over all values.
        pub targets: Vec<SpreadTarget> => nullable("target", "SpreadTarget");
    }
}

block! {
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SpreadTarget in named("target", "SpreadTarget").labelled("Value") => {
        pub value: String => zeroed("value", "Value");
        /// The percentage of the group's count. All targets together are at most 100.
        pub percent: i64 => zeroed("percent", "Percent");
    }
}
