//! Samples of what makes way, and of what it makes way for.

use super::Samples;
use model::alloc::{Allocation, DesiredStatus, NodeScore, Scores};
use model::eval::{Evaluation, Trigger};
use state::samples::{alloc_id, eval, node_id};

pub fn preemption(s: &mut Samples, alloc: Allocation) {
    let evicted = Allocation {
        desired: DesiredStatus::Evict,
        desired_description: format!("Preempted by alloc ID {}", alloc_id(2)),
        preempted_by: Some(alloc_id(2)),
        ..alloc.clone()
    };
    s.add("evicted", &evicted);
    let mut metrics = alloc.metrics.clone();
    let scores = Scores { binpack: 0.5, ..Scores::default() };
    metrics.scores = vec![NodeScore { node_id: node_id(1), scores, normalized: 0.75, preemption: 0.5 }];
    s.add("preempting", &Allocation { metrics, preempted: vec![alloc_id(3), alloc_id(4)], ..alloc });
    s.add("preemption", &Evaluation { trigger: Trigger::Preemption, ..eval(1, "web") });
}
