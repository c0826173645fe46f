//! What makes way for something else: told so once, by the entry that brings the other.

use super::*;
use model::alloc::Allocation;

/// `low` runs (1) on a ready node; `high` gets a place there (2), for which (1) has to leave.
fn preempted() -> Region {
    let mut r = Region::default();
    let node = r.ready_node(1);
    for id in ["low", "high"] {
        r.run(&register(spec(id, 1), None));
    }
    let low = alloc(1, &r.job("low"), node, eval_id(1));
    r.run(&plan(1, place(vec![low])));
    let mut high = alloc(2, &r.job("high"), node, eval_id(2));
    high.preempted = vec![alloc_id(1), alloc_id(7)];
    r.run(&plan(2, place(vec![high])));
    r
}

#[test]
fn preempted_allocs_stop_in_the_plans_entry() {
    let r = preempted();
    let (low, high) = (r.alloc(1), r.alloc(2));
    assert_eq!((low.desired, low.preempted_by), (DesiredStatus::Evict, Some(high.id)));
    assert_eq!(low.desired_description, format!("Preempted by alloc ID {}", high.id));
    assert_eq!((low.modify_index, low.alloc_modify_index), (high.create_index, high.create_index));
    assert_eq!((low.client, high.desired), (ClientStatus::Pending, DesiredStatus::Run));
    let held = r.view().fleet().usage(node_id(1)).unwrap().0;
    assert_eq!(held, low.resources.total().plus(high.resources.total()), "until it has ended");
}

#[test]
fn a_late_plan_does_not_undo_a_preemption() {
    let mut r = preempted();
    let before = r.alloc(1);
    let unaware = Allocation {
        desired: DesiredStatus::Run,
        desired_description: String::new(),
        preempted_by: None,
        job_modify_index: 99,
        ..before.clone()
    };
    r.run(&plan(3, place(vec![unaware])));
    let kept = |a: &Allocation| (a.desired, a.desired_description.clone(), a.preempted_by);
    assert_eq!(kept(&r.alloc(1)), kept(&before));
    for client in [None, Some(ClientStatus::Lost)] {
        let stop = AllocStop { id: alloc_id(1), description: "not needed".into(), client };
        r.run(&plan(3, vec![NodePlan { node_id: node_id(1), stops: vec![stop], places: vec![] }]));
        assert_eq!(kept(&r.alloc(1)), kept(&before));
    }
    assert_eq!(r.alloc(1).client, ClientStatus::Lost);
}

#[test]
fn only_new_allocs_preempt_and_only_live_ones_leave() {
    let mut r = preempted();
    let low = alloc(3, &r.job("low"), node_id(1), eval_id(1));
    r.run(&plan(1, place(vec![low])));
    let again = Allocation { preempted: vec![alloc_id(3)], job_modify_index: 99, ..r.alloc(2) };
    r.run(&plan(2, place(vec![again])));
    assert_eq!(r.alloc(3).desired, DesiredStatus::Run);
    let updates = vec![report(3, ClientStatus::Complete)];
    r.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node: node_id(1),
        updates,
        verdicts: vec![],
        evals: vec![],
        at: AT,
    });
    let mut late = alloc(4, &r.job("high"), node_id(1), eval_id(2));
    late.preempted = vec![alloc_id(3)];
    r.run(&plan(2, place(vec![late])));
    assert_eq!((r.alloc(3).desired, r.alloc(3).preempted_by), (DesiredStatus::Run, None));
}
