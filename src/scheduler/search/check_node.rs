//! The check of one given node, for jobs that run on every node and so have none to choose. Refuses to know which nodes
//! those are.

use super::{NodeState, Search};
use crate::proposal::ProposedAllocs;
use crate::score::NodeScores;
use model::alloc::AllocMetric;
use std::collections::BTreeSet;

/// How one more allocation would fare on a node.
pub enum NodeCheck {
    Fits(AllocMetric),
    Filtered,
    /// The node may run the group, and has too little of this.
    Exhausted(String),
}

impl<'a> Search<'a> {
    pub fn check_node(&mut self, proposal: &ProposedAllocs<'a>, slot: u32) -> NodeCheck {
        self.apply_changes(proposal);
        match self.node_states[slot as usize] {
            NodeState::Fits => NodeCheck::Fits(self.metric_at(slot)),
            NodeState::Exhausted(short) => NodeCheck::Exhausted(self.text(short).into_owned()),
            NodeState::Filtered | NodeState::HostTaken | NodeState::PoolClosed => NodeCheck::Filtered,
        }
    }

    fn metric_at(&self, slot: u32) -> AllocMetric {
        let none = BTreeSet::new();
        let choice = self.levels.scores(slot).map(|scores| self.levels.choice(slot, NodeScores::of(&scores)));
        let scores = choice.iter().map(|choice| self.shown(choice, &none)).collect();
        AllocMetric { nodes_evaluated: 1, scores, ..self.base.clone() }
    }

    /// The metric of the nodes together that filter the group out, with none counted as short yet.
    pub fn filtered(&self) -> AllocMetric {
        let filtered = self.all_filtered();
        AllocMetric {
            nodes_filtered: filtered.nodes,
            constraint_filtered: filtered.by_reason,
            class_filtered: filtered.by_class,
            ..self.base.clone()
        }
    }

    /// One more node is short.
    pub fn count_short(&self, metric: &mut AllocMetric, slot: u32, dimension: &str) {
        metric.nodes_exhausted += 1;
        metric.dimension_exhausted.add(dimension, 1);
        let class = self.class(slot);
        if !class.is_empty() {
            metric.class_exhausted.add(class, 1);
        }
    }
}
