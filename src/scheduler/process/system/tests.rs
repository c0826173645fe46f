//! Jobs on every node, rule by rule (scheduler.md 12).

use crate::testing::*;
use model::alloc::{ClientStatus as C, Leave};
use model::eval::{EvalStatus, Trigger};
use model::id::NodeId;
use model::job::{DisconnectPolicy, JobSpec, JobType, Reconcile, UpdatePolicy};
use model::node::{Node, NodeStatus};
use model::plan::Decision;
use model::resources::TOO_MANY;
use model::time::Span;
use std::collections::BTreeSet;

mod groups;
mod rollouts;

fn nodes(n: u128) -> Vec<Node> {
    (1..=n).map(node).collect()
}

fn typed(job_type: JobType) -> JobSpec {
    JobSpec { job_type, ..spec("a", 1) }
}

fn system() -> JobSpec {
    typed(JobType::System)
}

/// The job on all of the nodes.
fn settled(nodes: Vec<Node>, spec: &JobSpec) -> Harness {
    let mut world = Harness::of_nodes(nodes);
    world.register(spec.clone());
    world.run(spec);
    world.allocs.values_mut().for_each(|a| a.client = C::Running);
    world
}

fn placed_on(decision: &Decision) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = places(decision).iter().map(|a| a.node_id).collect();
    nodes.sort();
    nodes
}

fn ids(numbers: impl IntoIterator<Item = u128>) -> Vec<NodeId> {
    let mut ids: Vec<NodeId> = numbers.into_iter().map(node_id).collect();
    ids.sort();
    ids
}

fn texts(decision: &Decision) -> Vec<(String, Option<C>)> {
    stops(decision).into_iter().map(|(_, text, client)| (text, client)).collect()
}

/// A newer version whose tasks have to be started again.
fn changed(old: &JobSpec) -> JobSpec {
    let mut new = old.clone();
    new.groups[0].tasks[0].env.insert("V".into(), "2".into());
    new
}

/// As fast as health allows.
fn rolling(max_parallel: i64) -> JobSpec {
    let mut spec = system();
    let update = UpdatePolicy { max_parallel, stagger: Span::ZERO, ..UpdatePolicy::default() };
    spec.groups[0].update = Some(update);
    spec
}

#[test]
fn every_ready_node_gets_one_of_each_group_named_after_the_job() {
    for job_type in [JobType::System, JobType::Sysbatch] {
        let mut spec = typed(job_type);
        let mut second = spec.groups[0].clone();
        second.name = "h".into();
        spec.groups.push(second);
        spec.name = "shown".into();
        let mut world = Harness::of_nodes(nodes(3));
        world.register(spec.clone());
        let decision = world.run(&spec);
        assert_eq!(placed_on(&decision), ids([1, 1, 2, 2, 3, 3]));
        let names: BTreeSet<String> = placed_names(&decision).into_iter().collect();
        assert_eq!(names, ["shown.g[0]".to_string(), "shown.h[0]".to_string()].into());
        assert_eq!((decision.desired["g"].place, decision.eval.queued["g"]), (3, 0));
        assert_eq!(decision.eval.status, EvalStatus::Complete);
        let metric = &places(&decision)[0].metrics;
        assert_eq!((metric.nodes_evaluated, metric.scores.len()), (1, 1));
        assert!(world.run(&spec).plan.is_no_op(), "all is as it should be");
    }
}

#[test]
fn a_sysbatch_job_has_its_count_on_each_node() {
    let mut spec = typed(JobType::Sysbatch);
    spec.groups[0].count = 2;
    let mut world = Harness::of_nodes(nodes(2));
    world.register(spec.clone());
    assert_eq!(placed_names(&world.run(&spec)), ["a.g[0]", "a.g[0]", "a.g[1]", "a.g[1]"]);
}

#[test]
fn a_count_of_zero_stops_them_all() {
    let mut world = settled(nodes(2), &system());
    let mut none = system();
    none.groups[0].count = 0;
    world.register(none.clone());
    let decision = world.run(&none);
    assert_eq!(texts(&decision), vec![("alloc not needed due to job update".to_string(), None); 2]);
    assert!(places(&decision).is_empty());
}

#[test]
fn system_jobs_skip_nodes_not_ready_or_not_targeted() {
    let mut all = nodes(5);
    all[1].eligible = false;
    all[2].status = NodeStatus::Initializing;
    all[3] = node_with(4, |i| i.datacenter = "dc2".into());
    all[4] = node_with(5, |i| i.pool = "edge".into());
    let mut spec = system();
    spec.datacenters = vec!["dc1".into()];
    let mut world = Harness::of_nodes(all);
    world.register(spec.clone());
    assert_eq!(placed_on(&world.run(&spec)), ids([1]));
}

#[test]
fn a_new_node_gets_its_own_and_the_others_keep_theirs() {
    let mut world = settled(nodes(2), &system());
    let late = node(3);
    world.nodes.insert(late.info.id, late);
    let decision = world.run(&system());
    assert_eq!((placed_on(&decision), stops(&decision).len()), (ids([3]), 0));
}

#[test]
fn system_jobs_skip_filtered_nodes_without_a_failure() {
    let mut spec = system();
    spec.constraints = vec![constraint("${node.class}", "=", "edge")];
    let mut world = Harness::of_nodes([node_with(1, |i| i.class = "edge".into()), node(2)]);
    world.register(spec.clone());
    let decision = world.run(&spec);
    assert_eq!(placed_on(&decision), ids([1]));
    assert!(decision.eval.failed_groups.is_empty() && decision.created.is_empty());
    assert_eq!((decision.eval.queued["g"], decision.desired["g"].place), (0, 1));
}

#[test]
fn a_group_that_no_node_may_run_fails_and_is_not_blocked() {
    let mut spec = system();
    let mut second = spec.groups[0].clone();
    second.name = "h".into();
    second.constraints = vec![constraint("${node.class}", "=", "edge")];
    spec.groups.push(second);
    let mut world = Harness::of_nodes(nodes(2));
    world.register(spec.clone());
    let decision = world.run(&spec);
    assert_eq!(placed_on(&decision), ids([1, 2]));
    let metric = &decision.eval.failed_groups["h"];
    assert_eq!((metric.nodes_evaluated, metric.nodes_filtered), (2, 2));
    assert_eq!(metric.constraint_filtered["${node.class} = edge"], 2);
    assert_eq!((decision.eval.queued["h"], decision.created.len()), (0, 0));
    assert_eq!(decision.eval.status, EvalStatus::Complete);
}

#[test]
fn exhausted_nodes_are_counted_and_one_eval_blocks() {
    let small = |n| node_with(n, |i| i.capacity = amount(400, 8_192, 100_000));
    let mut world = Harness::of_nodes([node(1), small(2), small(3)]);
    world.register(system());
    let decision = world.run(&system());
    assert_eq!(placed_on(&decision), ids([1]));
    let metric = &decision.eval.failed_groups["g"];
    assert_eq!((metric.nodes_exhausted, metric.coalesced_failures, metric.nodes_filtered), (2, 1, 0));
    assert_eq!(metric.dimension_exhausted["cpu"], 2);
    assert_eq!((decision.eval.queued["g"], decision.desired["g"].place), (2, 3));
    let blocked = &decision.created[0];
    assert_eq!((blocked.status, blocked.trigger), (EvalStatus::Blocked, Trigger::QueuedAllocs));
    assert_eq!((blocked.job_type, decision.eval.blocked_eval), (JobType::System, Some(blocked.id)));
    assert!(blocked.class_eligibility.values().all(|eligible| *eligible));
    let again = world.decide(blocked);
    assert_eq!((again.eval.status, again.created.len()), (EvalStatus::Blocked, 0));
    for n in [2, 3] {
        world.nodes.insert(node_id(n), node(n));
    }
    let then = world.decide(blocked);
    assert_eq!((placed_on(&then), then.eval.status), (ids([2, 3]), EvalStatus::Complete));
}

#[test]
fn a_node_that_takes_no_more_is_waited_for() {
    let mut world = settled(vec![node_with(1, |i| i.max_allocs = 1), node(2)], &system());
    let second = JobSpec { id: "second".into(), ..system() };
    world.register(second.clone());
    let decision = world.run(&second);
    assert_eq!(placed_on(&decision), ids([2]));
    assert_eq!(decision.eval.failed_groups["g"].dimension_exhausted[TOO_MANY], 1);
    assert_eq!(decision.created[0].status, EvalStatus::Blocked);
    world.allocs.retain(|_, a| a.job.id != system().id);
    assert_eq!(placed_on(&world.decide(&decision.created[0])), ids([1]));
}

#[test]
fn a_system_allocation_is_not_placed_on_another_node() {
    for gone in [false, true] {
        let mut world = settled(nodes(2), &system());
        match gone {
            true => drop(world.nodes.remove(&node_id(1))),
            false => world.nodes.get_mut(&node_id(1)).unwrap().status = NodeStatus::Down,
        }
        let decision = world.run(&system());
        assert_eq!(texts(&decision), [("alloc is lost since its node is down".to_string(), Some(C::Lost))]);
        assert!(places(&decision).is_empty() && decision.created.is_empty());
        assert_eq!(decision.eval.queued["g"], 0);
    }
}

#[test]
fn a_node_that_comes_back_gets_a_successor_of_what_it_lost() {
    for job_type in [JobType::System, JobType::Sysbatch] {
        let mut world = settled(nodes(2), &typed(job_type));
        world.nodes.get_mut(&node_id(1)).unwrap().status = NodeStatus::Down;
        let lost = stops(&world.run(&typed(job_type)))[0].0;
        world.nodes.get_mut(&node_id(1)).unwrap().status = NodeStatus::Ready;
        let decision = world.run(&typed(job_type));
        assert_eq!((placed_on(&decision), places(&decision)[0].previous), (ids([1]), Some(lost)));
    }
}

#[test]
fn a_node_that_takes_nothing_new_keeps_what_it_has() {
    let mut world = settled(nodes(2), &system());
    world.nodes.get_mut(&node_id(1)).unwrap().eligible = false;
    assert!(world.run(&system()).plan.is_no_op());
    let new = changed(&system());
    world.register(new.clone());
    let decision = world.run(&new);
    assert_eq!((placed_on(&decision), stops(&decision).len()), (ids([2]), 1));
}

#[test]
fn a_drained_system_allocation_is_not_placed_again() {
    let mut world = settled(nodes(2), &system());
    world.nodes.get_mut(&node_id(1)).unwrap().eligible = false;
    let here = world.allocs.values_mut().find(|a| a.node_id == node_id(1)).unwrap();
    here.transition.migrate = Some(Leave::AtOnce);
    let decision = world.run(&system());
    assert_eq!((stops(&decision).len(), places(&decision).len()), (1, 0));
    assert_eq!(decision.desired["g"].migrate, 1);
}

#[test]
fn a_stopped_system_allocation_returns_to_its_node() {
    let mut world = settled(nodes(2), &system());
    let stopped = world.allocs.values_mut().next().unwrap();
    stopped.transition.migrate = Some(Leave::AtOnce);
    let (id, node) = (stopped.id, stopped.node_id);
    let decision = world.run(&system());
    assert_eq!(stops(&decision)[0].0, id);
    assert_eq!((placed_on(&decision), places(&decision)[0].previous), (vec![node], Some(id)));
}

#[test]
fn nodes_outside_the_new_datacenters_lose_theirs() {
    let mut world = settled(vec![node(1), node_with(2, |i| i.datacenter = "dc2".into())], &system());
    let mut new = system();
    new.datacenters = vec!["dc1".into()];
    world.register(new.clone());
    let decision = world.run(&new);
    assert_eq!((stops(&decision).len(), places(&decision).len()), (1, 1), "the other follows in place");
    let updated = places(&decision)[0];
    assert_eq!((updated.node_id, updated.previous, updated.job_version), (node_id(1), None, 1));
}

#[test]
fn nodes_that_a_new_constraint_excludes_lose_theirs_at_once() {
    let mut world =
        settled((1..=4).map(|n| node_with(n, |i| i.class = format!("c{}", n % 2))).collect(), &rolling(1));
    let mut new = rolling(1);
    new.constraints = vec![constraint("${node.class}", "=", "c1")];
    world.register(new.clone());
    let decision = world.run(&new);
    assert_eq!((stops(&decision).len(), decision.created.len()), (2, 0));
    assert_eq!((decision.desired["g"].in_place, decision.desired["g"].stop), (2, 2));
}

#[test]
fn a_change_that_needs_no_new_tasks_is_made_in_place_everywhere() {
    let mut world = settled(nodes(3), &rolling(1));
    let before: BTreeSet<_> = world.allocs.keys().copied().collect();
    let mut new = rolling(1);
    new.priority = 60;
    world.register(new.clone());
    let decision = world.run(&new);
    assert_eq!(places(&decision).iter().map(|a| a.id).collect::<BTreeSet<_>>(), before);
    assert!(stops(&decision).is_empty() && decision.created.is_empty());
    assert_eq!(decision.desired["g"].in_place, 3);
}

#[test]
fn without_max_parallel_a_change_reaches_all_nodes_at_once() {
    let mut world = settled(nodes(4), &rolling(0));
    let new = changed(&rolling(0));
    world.register(new.clone());
    let decision = world.run(&new);
    assert_eq!((stops(&decision).len(), places(&decision).len(), decision.created.len()), (4, 4, 0));
    assert_eq!(world.deployment, None);
}

#[test]
fn a_system_update_that_does_not_fit_keeps_the_old_one() {
    let mut world = settled(nodes(2), &rolling(0));
    let mut new = rolling(0);
    new.groups[0].tasks[0].resources.cpu_mhz = 5_000;
    world.register(new.clone());
    let decision = world.run(&new);
    assert!(decision.plan.is_no_op());
    assert_eq!((decision.eval.queued["g"], decision.created[0].status), (2, EvalStatus::Blocked));
}

#[test]
fn failed_system_alloc_is_placed_again_on_its_node() {
    let mut world = settled(nodes(2), &system());
    let failed = world.allocs.values_mut().next().unwrap();
    failed.client = C::Failed;
    let (id, node) = (failed.id, failed.node_id);
    let decision = world.run(&system());
    assert_eq!((placed_on(&decision), places(&decision)[0].previous), (vec![node], Some(id)));
    assert!(decision.created.is_empty(), "nothing is rescheduled later");
}

#[test]
fn ended_sysbatch_reruns_only_when_the_job_changes() {
    let sysbatch = typed(JobType::Sysbatch);
    let mut world = settled(nodes(3), &sysbatch);
    for (alloc, end) in world.allocs.values_mut().zip([C::Complete, C::Failed, C::Complete]) {
        alloc.client = end;
    }
    assert!(world.run(&sysbatch).plan.is_no_op());
    let new = changed(&sysbatch);
    world.register(new.clone());
    let decision = world.run(&new);
    assert_eq!((placed_on(&decision), stops(&decision).len()), (ids([1, 2, 3]), 0));
}

#[test]
fn a_second_allocation_of_one_name_on_a_node_stops() {
    let mut world = settled(nodes(1), &system());
    let mut twin = world.allocs.values().next().unwrap().clone();
    twin.id = alloc_id(7);
    world.add(twin);
    let decision = world.run(&system());
    assert_eq!((stops(&decision).len(), places(&decision).len()), (1, 0));
}

#[test]
fn a_disconnected_system_alloc_is_lost_after_lost_after() {
    let mut spec = system();
    spec.groups[0].disconnect = Some(DisconnectPolicy {
        lost_after: Some(Span::minutes(5)),
        stop_on_client_after: None,
        replace: true,
        reconcile: Reconcile::BestScore,
    });
    let mut world = settled(nodes(2), &spec);
    world.nodes.get_mut(&node_id(1)).unwrap().status = NodeStatus::Disconnected;
    let decision = world.run(&spec);
    assert_eq!((stops(&decision).len(), places(&decision)[0].client), (0, C::Unknown));
    let timeout = &decision.created[0];
    assert_eq!(
        (timeout.trigger, timeout.wait_until),
        (Trigger::MaxDisconnectTimeout, Some(NOW + Span::minutes(5)))
    );
    assert!(world.run(&spec).plan.is_no_op(), "it waits");
    // it has waited for longer (scheduler.md 12.4)
    for alloc in world.allocs.values_mut() {
        alloc.states.iter_mut().for_each(|s| s.at = NOW + Span::minutes(-5));
    }
    let given_up = world.run(&spec);
    assert_eq!(texts(&given_up), [("alloc is lost since its node is down".to_string(), Some(C::Lost))]);
    assert!(places(&given_up).is_empty());
}

#[test]
fn r12_6_allocs_of_a_reconnecting_node_keep_running() {
    let mut spec = system();
    spec.groups[0].disconnect = Some(DisconnectPolicy {
        lost_after: Some(Span::minutes(5)),
        stop_on_client_after: None,
        replace: true,
        reconcile: Reconcile::BestScore,
    });
    let mut world = settled(nodes(2), &spec);
    world.nodes.get_mut(&node_id(1)).unwrap().status = NodeStatus::Disconnected;
    world.run(&spec);
    world.nodes.get_mut(&node_id(1)).unwrap().status = NodeStatus::Ready;
    let back = world.allocs.values_mut().find(|a| a.node_id == node_id(1)).unwrap();
    back.client = C::Running;
    let id = back.id;
    let decision = world.run(&spec);
    assert_eq!(stops(&decision).len(), 0);
    let known: Vec<_> = places(&decision).iter().map(|a| (a.id, a.states.last().map(|s| s.status))).collect();
    assert_eq!(known, [(id, Some(C::Running))], "it is told that it is known to live");
}

#[test]
fn r12_7_completed_sysbatch_stays_complete_if_its_node_goes() {
    for gone in [NodeStatus::Down, NodeStatus::Disconnected] {
        let sysbatch = typed(JobType::Sysbatch);
        let mut world = settled(nodes(2), &sysbatch);
        world.allocs.values_mut().for_each(|a| a.client = C::Complete);
        world.nodes.get_mut(&node_id(1)).unwrap().status = gone;
        assert!(world.run(&sysbatch).plan.is_no_op());
        world.nodes.get_mut(&node_id(1)).unwrap().status = NodeStatus::Ready;
        assert!(world.run(&sysbatch).plan.is_no_op(), "nor when it is back");
    }
}

#[test]
fn r12_21_distinct_property_holds_for_jobs_on_each_node() {
    let rack = |n: u128| node_with(n, |i| drop(i.meta.insert("rack".into(), format!("r{}", n % 2))));
    for job_type in [JobType::System, JobType::Sysbatch] {
        let mut spec = typed(job_type);
        spec.constraints = vec![constraint("${meta.rack}", "distinct_property", "1")];
        let mut world = Harness::of_nodes((1..=4).map(rack));
        world.register(spec.clone());
        let decision = world.run(&spec);
        let racks: BTreeSet<String> =
            places(&decision).iter().map(|a| world.nodes[&a.node_id].info.meta["rack"].clone()).collect();
        assert_eq!((places(&decision).len(), racks.len()), (2, 2), "{job_type:?}");
        assert!(world.run(&spec).plan.is_no_op());
    }
}

#[test]
fn a_stopped_job_leaves_every_node() {
    let mut world = settled(nodes(3), &system());
    let stopped = JobSpec { stop: true, ..system() };
    world.register(stopped.clone());
    assert_eq!(stops(&world.run(&stopped)).len(), 3);
}
