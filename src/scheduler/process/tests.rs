//! Whole evaluations against a small world: what is placed, kept and stopped, and what becomes of the evaluation.

mod in_place;
mod migration;

use crate::testing::*;
use crate::{Attempt, max_attempts_reached, schedule};
use model::alloc::{ClientStatus as C, DesiredStatus as D};
use model::eval::{EvalStatus, Trigger};
use model::job::{JobSpec, JobType};
use model::node::{Node, NodeStatus};
use model::resources::{Hook, Lifecycle};
use model::task::{TaskPhase, TaskState};
use std::collections::BTreeMap;

fn nodes(n: u128) -> Vec<Node> {
    (0..n).map(node).collect()
}

/// A world in which the spec's allocations run.
fn settled(nodes: Vec<Node>, spec: &JobSpec) -> Harness {
    let mut world = Harness::of_nodes(nodes);
    world.register(spec.clone());
    world.run(spec);
    world.allocs.values_mut().for_each(|a| a.client = C::Running);
    world
}

fn names(n: u64) -> Vec<String> {
    (0..n).map(|i| format!("a.g[{i}]")).collect()
}

fn live(world: &Harness) -> Vec<String> {
    let mut names: Vec<_> = world.allocs.values().filter(|a| !a.terminal()).map(|a| a.name.clone()).collect();
    names.sort();
    names
}

#[test]
fn a_new_job_is_placed_and_a_second_evaluation_changes_nothing() {
    for job_type in [JobType::Service, JobType::Batch] {
        let mut spec = spec("a", 3);
        spec.job_type = job_type;
        let mut world = Harness::of_nodes(nodes(2));
        let job = world.register(spec.clone());
        let decision = world.run(&spec);
        assert_eq!(placed_names(&decision), names(3));
        let eval = &decision.eval;
        assert_eq!((eval.status, eval.status_description.as_str()), (EvalStatus::Complete, ""));
        assert_eq!(eval.queued, BTreeMap::from([("g".to_string(), 0)]));
        assert!(eval.failed_groups.is_empty() && decision.created.is_empty() && eval.blocked_eval.is_none());
        for a in places(&decision) {
            assert_eq!(
                (a.job_version, a.job_modify_index, a.eval_id),
                (job.version, job.job_modify_index, eval.id)
            );
            assert_eq!((a.desired, a.client, a.create_time), (D::Run, C::Pending, NOW));
            assert_eq!(a.node_name, world.nodes[&a.node_id].info.name);
            assert_eq!(a.metrics.nodes_evaluated, 2);
        }
        assert!(world.run(&spec).plan.is_no_op());
    }
}

#[test]
fn a_plan_has_one_entry_per_node_in_order_and_fresh_ids() {
    let mut world = Harness::of_nodes(nodes(5));
    world.register(spec("a", 20));
    let decision = world.run(&spec("a", 20));
    let order: Vec<_> = decision.plan.nodes.iter().map(|n| n.node_id).collect();
    assert!(order.windows(2).all(|w| w[0] < w[1]), "{order:?}");
    assert_eq!(world.allocs.len(), 20);
}

#[test]
fn a_plan_carries_all_at_once_and_priority() {
    let mut spec = spec("a", 1);
    spec.all_at_once = true;
    let mut world = Harness::of_nodes(nodes(1));
    world.register(spec.clone());
    let mut eval = eval_of(&spec);
    eval.priority = 73;
    let plan = world.decide(&eval).plan;
    assert_eq!((plan.all_at_once, plan.priority, plan.eval_id), (true, 73, eval.id));
}

#[test]
fn equal_inputs_give_equal_decisions() {
    let mut world = Harness::of_nodes(nodes(9));
    world.register(spec("a", 40));
    let fleet = world.fleet().snapshot();
    let decide = |seed| schedule(&world, &fleet, &eval_of(&spec("a", 40)), Attempt::first(1), NOW, seed);
    assert_eq!(decide(5), decide(5));
    assert_ne!(decide(5).plan, decide(6).plan);
}

#[test]
fn count_up_and_down_keep_the_rest() {
    let mut world = settled(nodes(2), &spec("a", 2));
    world.register(spec("a", 4));
    let up = world.run(&spec("a", 4));
    let fresh: Vec<_> = places(&up).into_iter().filter(|a| a.client == C::Pending).collect();
    assert_eq!(fresh.len(), 2);
    assert_eq!(live(&world), names(4));
    world.register(spec("a", 1));
    let down = world.run(&spec("a", 1));
    assert_eq!(stops(&down).len(), 3);
    assert!(
        stops(&down)
            .iter()
            .all(|(_, text, client)| text == "alloc not needed due to job update" && client.is_none())
    );
    assert_eq!(live(&world), names(1));
}

#[test]
fn destructive_update_keeps_the_name() {
    let mut world = settled(nodes(2), &spec("a", 2));
    let old: Vec<_> = world.allocs.keys().copied().collect();
    let mut new = spec("a", 2);
    new.groups[0].tasks[0].env.insert("A".into(), "1".into());
    world.register(new.clone());
    let decision = world.run(&new);
    let text = "alloc is being updated due to job update";
    let mut want: Vec<_> = old.iter().map(|id| (*id, text.to_string(), None)).collect();
    want.sort();
    assert_eq!(stops(&decision), want);
    assert_eq!(placed_names(&decision), names(2));
    for a in places(&decision) {
        let previous = a.previous.map(|id| world.allocs[&id].name.clone());
        assert_eq!(previous.as_ref(), Some(&a.name));
    }
    assert!(world.run(&new).plan.is_no_op());
}

#[test]
fn a_destructive_update_uses_the_old_allocs_resources() {
    let mut whole_node = spec("a", 1);
    whole_node.groups[0].tasks[0].resources.cpu_mhz = 4_000;
    let mut world = settled(nodes(1), &whole_node);
    whole_node.groups[0].tasks[0].resources.memory_mb += 1;
    world.register(whole_node.clone());
    let decision = world.run(&whole_node);
    assert_eq!((stops(&decision).len(), places(&decision).len()), (1, 1));
}

#[test]
fn destructive_update_without_room_keeps_the_old() {
    let mut world = settled(nodes(1), &spec("a", 3));
    let mut big = spec("a", 3);
    big.groups[0].tasks[0].resources.memory_mb = 9_000;
    world.register(big.clone());
    let decision = world.run(&big);
    assert!(decision.plan.is_no_op());
    let failed = &decision.eval.failed_groups["g"];
    assert_eq!((failed.nodes_exhausted, failed.coalesced_failures), (1, 2));
    assert_eq!(decision.eval.queued["g"], 3);
    assert_eq!(decision.created.len(), 1);
}

#[test]
fn an_update_in_place_that_does_not_fit_any_more_moves() {
    let mut world = settled(nodes(2), &spec("a", 1));
    let here = world.allocs.values().next().map(|a| a.node_id).unwrap();
    let mut new = spec("a", 1);
    new.constraints.push(constraint("${node.unique.id}", "!=", &here.to_string()));
    world.register(new.clone());
    let decision = world.run(&new);
    assert_eq!(stops(&decision).len(), 1);
    assert!(places(&decision).iter().all(|a| a.node_id != here));
}

#[test]
fn an_update_in_place_stays_on_a_node_that_takes_no_new_work() {
    let mut world = settled(nodes(1), &spec("a", 1));
    world.nodes.values_mut().for_each(|n| n.eligible = false);
    let mut new = spec("a", 1);
    new.priority = 60;
    world.register(new.clone());
    let decision = world.run(&new);
    assert_eq!((stops(&decision).len(), places(&decision).len()), (0, 1));
}

#[test]
fn allocations_outside_the_new_datacenters_or_pool_move() {
    let other = |change: fn(&mut JobSpec)| {
        let mut nodes = nodes(1);
        nodes.push(node_with(7, |i| (i.datacenter, i.pool) = ("dc2".into(), "edge".into())));
        nodes.push(node_with(8, |i| i.pool = "edge".into()));
        let mut old = spec("a", 1);
        (old.node_pool, old.datacenters) = ("default".into(), vec!["dc1".into()]);
        let mut world = settled(nodes, &old);
        let mut new = old.clone();
        change(&mut new);
        world.register(new.clone());
        let decision = world.run(&new);
        assert_eq!(stops(&decision).len(), 1);
        places(&decision).iter().map(|a| a.node_name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(other(|j| j.node_pool = "edge".into()), ["node-8"]);
    assert_eq!(other(|j| (j.node_pool, j.datacenters) = ("all".into(), vec!["dc2*".into()])), ["node-7"]);
}

#[test]
fn an_unknown_old_version_is_replaced() {
    let mut world = settled(nodes(1), &spec("a", 1));
    world.allocs.values_mut().for_each(|a| (a.job_version, a.job_modify_index) = (99, 1));
    let decision = world.run(&spec("a", 1));
    assert_eq!((stops(&decision).len(), places(&decision).len()), (1, 1));
}

#[test]
fn allocations_of_a_lost_node_are_placed_elsewhere() {
    for gone in [false, true] {
        let mut world = settled(nodes(2), &spec("a", 2));
        let victim = world.allocs.values().next().cloned().unwrap();
        match gone {
            true => drop(world.nodes.remove(&victim.node_id)),
            false => world.nodes.get_mut(&victim.node_id).unwrap().status = NodeStatus::Down,
        }
        let decision = world.run(&spec("a", 2));
        let lost = stops(&decision);
        assert_eq!(lost[0], (victim.id, "alloc is lost since its node is down".to_string(), Some(C::Lost)));
        let replaced: Vec<_> = places(&decision).iter().filter_map(|a| a.previous).collect();
        assert_eq!(replaced.len(), lost.len());
        assert!(places(&decision).iter().all(|a| a.node_id != victim.node_id));
        assert!(world.run(&spec("a", 2)).plan.is_no_op());
    }
}

#[test]
fn a_stopped_allocation_of_a_down_node_is_lost() {
    let mut world = settled(nodes(1), &spec("a", 1));
    let mut stopped = spec("a", 1);
    stopped.stop = true;
    world.register(stopped.clone());
    assert_eq!(stops(&world.run(&stopped)).len(), 1);
    assert!(world.run(&stopped).plan.is_no_op());
    world.nodes.values_mut().for_each(|n| n.status = NodeStatus::Down);
    let decision = world.run(&stopped);
    let (_, text, client) = &stops(&decision)[0];
    assert_eq!((text.as_str(), *client), ("alloc is lost since its node is down", Some(C::Lost)));
    assert!(world.run(&stopped).plan.is_no_op());
}

#[test]
fn a_stopped_job_of_any_type_is_stopped() {
    for job_type in [JobType::Service, JobType::System] {
        let mut world = settled(nodes(1), &spec("a", 2));
        let mut stopped = spec("a", 2);
        (stopped.stop, stopped.job_type) = (true, job_type);
        world.register(stopped.clone());
        let decision = world.run(&stopped);
        assert_eq!((stops(&decision).len(), decision.eval.queued["g"]), (2, 0));
        assert_eq!(decision.eval.status, EvalStatus::Complete);
    }
}

#[test]
fn a_purged_job_is_stopped() {
    let mut world = settled(nodes(1), &spec("a", 2));
    world.jobs.clear();
    let decision = world.run(&spec("a", 2));
    assert_eq!(stops(&decision).len(), 2);
    assert!(decision.eval.queued.is_empty());
}

#[test]
fn finished_batch_work_is_not_done_again() {
    let mut batch = spec("a", 2);
    batch.job_type = JobType::Batch;
    let mut world = settled(nodes(2), &batch);
    let dead = TaskState { phase: TaskPhase::Dead, ..TaskState::default() };
    for a in world.allocs.values_mut() {
        a.client = C::Complete;
        a.task_states = [("t".to_string(), dead.clone())].into();
    }
    assert!(world.run(&batch).plan.is_no_op());
    world.nodes.values_mut().for_each(|n| n.status = NodeStatus::Down);
    assert!(world.run(&batch).plan.is_no_op());
}

#[test]
fn unplaced_allocations_make_a_blocked_evaluation() {
    let mut world = Harness::of_nodes(nodes(1));
    world.register(spec("a", 10));
    let decision = world.run(&spec("a", 10));
    assert_eq!(placed_names(&decision), names(8));
    let eval = &decision.eval;
    assert_eq!((eval.status, eval.queued["g"]), (EvalStatus::Complete, 2));
    assert_eq!(eval.failed_groups["g"].coalesced_failures, 1);
    let blocked = &decision.created[0];
    assert_eq!(eval.blocked_eval, Some(blocked.id));
    assert_eq!((blocked.status, blocked.trigger), (EvalStatus::Blocked, Trigger::QueuedAllocs));
    assert_eq!(blocked.status_description, "created to place remaining allocations");
    assert_eq!(blocked.previous_eval, Some(eval.id));
    assert_eq!(blocked.failed_groups, eval.failed_groups);
    assert_eq!((blocked.priority, blocked.job_type), (eval.priority, eval.job_type));
    let class = world.nodes.values().next().unwrap().computed_class.clone();
    assert_eq!(blocked.class_eligibility, BTreeMap::from([(class, true)]));
    assert!(!blocked.escaped_class);
    let index_seen = world.index - 1;
    assert_eq!((eval.snapshot_index, blocked.snapshot_index), (index_seen, index_seen));
    assert_eq!(decision.plan.snapshot_index, index_seen);
}

#[test]
fn one_full_group_does_not_hold_up_another() {
    let mut two = spec("a", 1);
    let mut big = two.groups[0].clone();
    big.name = "big".into();
    big.tasks[0].resources.memory_mb = 100_000;
    two.groups.insert(0, big);
    let mut world = Harness::of_nodes(nodes(1));
    world.register(two.clone());
    let decision = world.run(&two);
    assert_eq!(placed_names(&decision), names(1));
    assert_eq!(decision.eval.queued, BTreeMap::from([("big".to_string(), 1), ("g".to_string(), 0)]));
    assert!(
        decision.eval.failed_groups.contains_key("big") && !decision.eval.failed_groups.contains_key("g")
    );
}

#[test]
fn without_nodes_nothing_is_evaluated() {
    let mut world = Harness::of_nodes([]);
    world.register(spec("a", 1));
    let decision = world.run(&spec("a", 1));
    let metric = &decision.eval.failed_groups["g"];
    assert_eq!((metric.nodes_evaluated, metric.nodes_in_pool, metric.nodes_available.len()), (0, 0, 0));
    assert!(decision.created[0].class_eligibility.is_empty());
}

#[test]
fn a_blocked_evaluation_that_still_fails_is_blocked_again() {
    let mut world = Harness::of_nodes([]);
    world.register(spec("a", 1));
    let mut eval = world.run(&spec("a", 1)).created.remove(0);
    let id = eval.id;
    world.index += 10;
    let again = world.decide(&eval);
    assert_eq!((again.eval.id, again.eval.status, again.created.len()), (id, EvalStatus::Blocked, 0));
    assert_eq!((again.eval.snapshot_index, again.eval.queued["g"]), (world.index, 1));
    assert_eq!(again.eval.status_description, "created to place remaining allocations");
    eval = again.eval;
    let new = node_with(1, |i| i.class = "other".into());
    world.nodes.insert(new.info.id, new);
    let at_last = world.decide(&eval);
    assert_eq!((at_last.eval.status, places(&at_last).len()), (EvalStatus::Complete, 1));
    assert!(at_last.eval.failed_groups.is_empty() && at_last.eval.status_description.is_empty());
}

#[test]
fn class_eligibility_says_which_classes_could_run_it() {
    let class = |n, class: &str| node_with(n, |i| i.class = class.into());
    let mut no_driver = class(3, "undriven");
    no_driver.info.drivers.clear();
    let nodes = vec![class(1, "right"), class(2, "wrong"), no_driver.clone()];
    let classes: BTreeMap<String, String> =
        nodes.iter().map(|n| (n.info.class.clone(), n.computed_class.clone())).collect();
    let mut spec = spec("a", 1);
    spec.groups[0].tasks[0].resources.memory_mb = 100_000;
    spec.groups[0].constraints.push(constraint("${node.class}", "!=", "wrong"));
    let mut world = Harness::of_nodes(nodes);
    world.register(spec.clone());
    let blocked = world.run(&spec).created.remove(0);
    let want = BTreeMap::from([(classes["right"].clone(), true), (classes["wrong"].clone(), false)]);
    assert_eq!(blocked.class_eligibility, want);
}

#[test]
fn a_class_is_eligible_if_it_fits_any_group_and_the_job() {
    let class = |n, class: &str| node_with(n, |i| i.class = class.into());
    let nodes = vec![class(1, "a"), class(2, "b"), class(3, "c")];
    let id = |n: usize| nodes[n].computed_class.clone();
    let mut spec = spec("a", 1);
    spec.groups[0].tasks[0].resources.memory_mb = 100_000;
    let mut second = spec.groups[0].clone();
    second.name = "h".into();
    spec.groups[0].constraints.push(constraint("${node.class}", "=", "a"));
    second.constraints.push(constraint("${node.class}", "=", "b"));
    spec.groups.push(second);
    let want = BTreeMap::from([(id(0), true), (id(1), true), (id(2), false)]);
    let mut world = Harness::of_nodes(nodes.clone());
    world.register(spec.clone());
    assert_eq!(world.run(&spec).created[0].class_eligibility, want);
    spec.constraints.push(constraint("${node.class}", "!=", "a"));
    world.register(spec.clone());
    let want = BTreeMap::from([(id(0), false), (id(1), true), (id(2), false)]);
    assert_eq!(world.run(&spec).created[0].class_eligibility, want);
}

#[test]
fn a_constraint_on_what_is_unique_escapes_the_classes() {
    let places_of: [fn(&mut JobSpec) -> &mut Vec<model::constraint::Constraint>; 3] =
        [|j| &mut j.constraints, |j| &mut j.groups[0].constraints, |j| &mut j.groups[0].tasks[0].constraints];
    for place in places_of {
        let mut spec = spec("a", 1);
        place(&mut spec).push(constraint("${node.unique.name}", "=", "nobody"));
        let mut world = Harness::of_nodes(nodes(2));
        world.register(spec.clone());
        let blocked = world.run(&spec).created.remove(0);
        assert!(blocked.escaped_class && blocked.class_eligibility.is_empty());
        let reason = "${node.unique.name} = nobody".to_string();
        assert_eq!(blocked.failed_groups["g"].constraint_filtered, BTreeMap::from([(reason, 2)]).into());
    }
}

#[test]
fn resources_are_used_until_the_client_reports_the_end() {
    let mut full = spec("a", 1);
    full.groups[0].tasks[0].resources.cpu_mhz = 4_000;
    let mut world = settled(nodes(1), &full);
    let mut stopped = full.clone();
    stopped.stop = true;
    world.register(stopped.clone());
    world.run(&stopped);
    let mut other = full.clone();
    other.id = "b".into();
    world.register(other.clone());
    assert!(world.run(&other).plan.is_no_op());
    world.allocs.values_mut().for_each(|a| a.client = C::Complete);
    assert_eq!(places(&world.run(&other)).len(), 1);
}

#[test]
fn attempts_are_counted_and_progress_starts_them_anew() {
    for (job_type, most) in [(JobType::Service, 5), (JobType::Batch, 2)] {
        let mut attempt = Some(Attempt::first(3));
        let mut made = 0;
        while let Some(a) = attempt {
            assert_eq!(a.snapshot_index, 3);
            made += 1;
            attempt = a.next(job_type, false);
        }
        assert_eq!(made, most);
        let last = Attempt { number: most, snapshot_index: 3 };
        assert_eq!(last.next(job_type, true), Some(Attempt::first(3)));
    }
}

#[test]
fn when_the_attempts_are_used_up_a_blocked_evaluation_goes_on() {
    for (count, classes) in [(1, 0), (100, 1)] {
        let mut world = Harness::of_nodes(nodes(1));
        world.register(spec("a", count));
        let eval = eval_of(&spec("a", count));
        let last = world.decide(&eval);
        let decision = max_attempts_reached(&eval, Attempt { number: 5, snapshot_index: 90 }, &last, NOW, 1);
        assert!(decision.plan.is_no_op());
        assert_eq!(decision.eval.status, EvalStatus::Failed);
        assert_eq!(decision.eval.status_description, "maximum attempts reached (5)");
        let blocked = &decision.created[0];
        assert_eq!((blocked.trigger, blocked.status), (Trigger::MaxPlanAttempts, EvalStatus::Blocked));
        assert_eq!(blocked.status_description, "created due to placement conflicts");
        assert_eq!((blocked.snapshot_index, decision.eval.blocked_eval), (90, Some(blocked.id)));
        assert_eq!(blocked.class_eligibility.len(), classes);
    }
}

#[test]
fn an_evaluation_never_changes_before_it_was_created() {
    let mut world = Harness::of_nodes(nodes(1));
    world.register(spec("a", 1));
    let mut eval = eval_of(&spec("a", 1));
    eval.create_time.0 = NOW.0 + 500;
    assert_eq!(world.decide(&eval).eval.modify_time.0, NOW.0 + 501);
}

#[test]
fn updates_in_place_of_one_node_see_each_other() {
    let mut phased = spec("a", 6);
    let mut first = phased.groups[0].tasks[0].clone();
    first.name = "first".into();
    first.lifecycle = Some(Lifecycle { hook: Hook::Prestart, sidecar: false });
    phased.groups[0].tasks.push(first);
    let mut world = settled(nodes(1), &phased);
    phased.groups[0].tasks[1].lifecycle = None;
    world.register(phased.clone());
    let decision = world.run(&phased);
    assert_eq!(
        (stops(&decision).len(), places(&decision).len()),
        (0, 2),
        "3000 of 4000 MHz are held: two may grow"
    );
    assert_eq!(world.fleet().snapshot().usage(node_id(0)).map(|(used, _)| used.cpu_mhz), Some(4_000));
    assert_eq!(decision.eval.queued["g"], 4);
}

#[test]
fn a_name_that_is_taken_twice_is_given_up() {
    let mut world = Harness::of_nodes(nodes(2));
    let job = world.register(spec("a", 2));
    for n in 0..2 {
        let mut a = alloc(&job, 0, n);
        a.id = alloc_id(n);
        world.add(a);
    }
    let mut new = spec("a", 2);
    new.groups[0].tasks[0].user = "nobody".into();
    world.register(new.clone());
    assert_eq!(placed_names(&world.run(&new)), names(2));
}

#[test]
fn an_absurd_count_costs_no_more_than_the_fleet_can_hold() {
    let mut world = Harness::of_nodes(nodes(1));
    world.register(spec("a", i64::MAX));
    let decision = world.run(&spec("a", i64::MAX));
    assert_eq!(placed_names(&decision), names(8));
    let left = i64::MAX as u64 - 8;
    assert_eq!(
        (decision.eval.queued["g"], decision.eval.failed_groups["g"].coalesced_failures),
        (left, left - 1)
    );
}
