//! How a changed system job is rolled out, rule by rule: as far at a time as its deployment allows.

use super::*;
use model::alloc::{Allocation, DesiredStatus, Health};
use model::deployment::{DeploymentGroup, DeploymentStatus as S};
use model::id::AllocId;
use model::time::Wall;

fn trying(max_parallel: i64, canary: i64) -> JobSpec {
    let mut spec = rolling(max_parallel);
    spec.groups[0].update = spec.groups[0].update.map(|u| UpdatePolicy { canary, ..u });
    spec
}

fn group(world: &Harness) -> DeploymentGroup {
    world.deployment.as_ref().expect("a deployment").groups["g"].clone()
}

fn status(world: &Harness) -> S {
    world.deployment.as_ref().expect("a deployment").status
}

/// `n` of the deployment that nobody has judged are found well, or not; and it is counted.
fn judge(world: &mut Harness, n: usize, healthy: bool) {
    let of = world.deployment.clone().expect("a deployment");
    let open = |a: &&mut Allocation| {
        a.deployment == Some(of.id) && !a.terminal() && a.health.is_none_or(|h| h.healthy.is_none())
    };
    for alloc in world.allocs.values_mut().filter(open).take(n) {
        alloc.client = C::Running;
        alloc.health = Some(Health { healthy: Some(healthy), ..alloc.health.unwrap_or_default() });
    }
    let mine = || world.allocs.values().filter(|a| a.deployment == Some(of.id));
    let healthy = mine().filter(|a| a.health.is_some_and(|h| h.healthy == Some(true))).count() as u64;
    let placed_canaries = mine().filter(|a| a.is_canary()).map(|a| a.id).collect();
    let state = DeploymentGroup { healthy, placed_canaries, ..group(world) };
    world.deployment.as_mut().unwrap().groups.insert("g".into(), state);
}

/// What is unhealthy ends.
fn fail_the_bad(world: &mut Harness) -> (AllocId, NodeId) {
    let bad = |a: &&mut Allocation| a.health.is_some_and(|h| h.healthy == Some(false)) && !a.terminal();
    let found = world.allocs.values_mut().find(bad).expect("one is unhealthy");
    found.client = C::Failed;
    (found.id, found.node_id)
}

fn promote(world: &mut Harness) {
    world.deployment.as_mut().unwrap().groups.get_mut("g").unwrap().promoted = true;
    for alloc in world.allocs.values_mut() {
        alloc.health = alloc.health.map(|h| Health { canary: false, ..h });
    }
}

fn end(world: &mut Harness, status: S) {
    world.deployment.as_mut().unwrap().status = status;
}

/// The first version on all of the nodes, and a newer one registered.
fn changing(n: u128, spec: &JobSpec) -> (Harness, JobSpec) {
    let mut world = settled(nodes(n), spec);
    end(&mut world, S::Successful);
    let new = changed(spec);
    world.register(new.clone());
    (world, new)
}

fn set(world: &mut Harness, node: NodeId, status: NodeStatus) {
    world.nodes.get_mut(&node).unwrap().status = status;
}

fn join(world: &mut Harness, n: u128) -> NodeId {
    world.nodes.insert(node_id(n), node(n));
    node_id(n)
}

/// How many live of the first version, and of the second.
fn versions(world: &Harness) -> [usize; 2] {
    let of = |v| world.allocs.values().filter(|a| !a.terminal() && a.job_version == v).count();
    [of(0), of(1)]
}

#[test]
fn first_system_version_needs_no_canaries_and_no_waves() {
    let spec = trying(1, 50);
    let mut world = Harness::of_nodes(nodes(4));
    world.register(spec.clone());
    let decision = world.run(&spec);
    let deployment = world.deployment.clone().expect("a deployment");
    assert_eq!((places(&decision).len(), decision.eval.deployment), (4, Some(deployment.id)));
    assert!(places(&decision).iter().all(|a| a.deployment == Some(deployment.id) && !a.is_canary()));
    let state = group(&world);
    assert_eq!((state.desired_total, state.desired_canaries), (4, 0));
    assert!(world.run(&spec).plan.is_no_op(), "nobody has judged them");
    judge(&mut world, 4, true);
    world.run(&spec);
    assert_eq!(status(&world), S::Successful);
    assert!(world.run(&spec).plan.is_no_op());
}

#[test]
fn sysbatch_jobs_and_empty_regions_have_no_deployments() {
    let mut world = Harness::of_nodes(nodes(2));
    let spec = typed(JobType::Sysbatch);
    world.register(spec.clone());
    world.run(&spec);
    let mut empty = Harness::of_nodes([]);
    empty.register(rolling(1));
    empty.run(&rolling(1));
    assert_eq!((world.deployment, empty.deployment.take()), (None, None));
    join(&mut empty, 1);
    empty.run(&rolling(1));
    assert_eq!(group(&empty).desired_total, 1, "it begins with the first node");
}

#[test]
fn system_update_moves_max_parallel_nodes_by_health() {
    let (mut world, new) = changing(5, &rolling(2));
    let first = world.run(&new);
    assert_eq!((stops(&first).len(), places(&first).len(), first.created.len()), (2, 2, 0));
    assert_eq!((first.desired["g"].destructive, first.desired["g"].ignore), (2, 3));
    for placed in places(&first) {
        let old = &world.allocs[&placed.previous.unwrap()];
        assert_eq!((old.node_id, old.desired), (placed.node_id, DesiredStatus::Stop));
    }
    assert!(world.run(&new).plan.is_no_op(), "another evaluation does not hurry it");
    judge(&mut world, 1, true);
    assert_eq!(places(&world.run(&new)).len(), 1, "one is done, one is not");
    judge(&mut world, 2, true);
    assert_eq!(places(&world.run(&new)).len(), 2);
    assert_eq!(world.run(&new).plan.deployment_updates, []);
    judge(&mut world, 2, true);
    assert_eq!(places(&world.run(&new)).len(), 0);
    assert_eq!((versions(&world), group(&world).desired_total), ([0, 5], 5));
    assert_eq!(status(&world), S::Successful);
}

fn paced(max_parallel: i64, canary: i64) -> JobSpec {
    let mut spec = trying(max_parallel, canary);
    spec.groups[0].update = spec.groups[0].update.map(|u| UpdatePolicy { stagger: STAGGER, ..u });
    spec
}

const STAGGER: Span = Span::seconds(40);

fn pass(world: &mut Harness, seconds: i64) {
    world.allocs.values_mut().for_each(|a| a.create_time = a.create_time + Span::seconds(-seconds));
}

/// How many were placed, and when it goes on by the clock.
fn step(world: &mut Harness, spec: &JobSpec) -> (usize, Option<Wall>) {
    let decision = world.run(spec);
    let next: Vec<Option<Wall>> = decision.created.iter().map(|e| e.wait_until).collect();
    assert!(decision.created.iter().all(|e| e.trigger == Trigger::RollingUpdate) && next.len() < 2);
    (places(&decision).len(), next.into_iter().next().flatten())
}

#[test]
fn system_update_waits_for_stagger_between_batches() {
    let (mut world, new) = changing(5, &paced(2, 0));
    assert_eq!(step(&mut world, &new), (2, None), "it is their health that is waited for");
    pass(&mut world, 12);
    judge(&mut world, 1, true);
    assert_eq!(step(&mut world, &new), (0, Some(NOW + Span::seconds(28))));
    judge(&mut world, 1, true);
    assert_eq!(step(&mut world, &new), (0, Some(NOW + Span::seconds(28))));
    pass(&mut world, 28);
    assert_eq!(step(&mut world, &new), (2, None));
    pass(&mut world, 41);
    assert_eq!(step(&mut world, &new), (0, None), "time alone is not enough");
    judge(&mut world, 2, true);
    assert_eq!(step(&mut world, &new), (1, None));
    judge(&mut world, 1, true);
    assert_eq!(step(&mut world, &new), (0, None));
    assert_eq!((versions(&world), status(&world)), ([0, 5], S::Successful));
}

#[test]
fn system_canaries_keep_to_stagger_and_wait_for_promotion() {
    let (mut world, new) = changing(4, &paced(1, 50));
    assert_eq!(step(&mut world, &new), (1, None));
    judge(&mut world, 1, true);
    assert_eq!(step(&mut world, &new), (0, Some(NOW + STAGGER)));
    pass(&mut world, 40);
    assert_eq!(step(&mut world, &new), (1, None));
    judge(&mut world, 1, true);
    assert_eq!(step(&mut world, &new), (0, None), "both are there");
    promote(&mut world);
    assert_eq!(step(&mut world, &new), (0, Some(NOW + STAGGER)));
    world.deployment.as_mut().unwrap().status = S::Paused;
    assert_eq!(step(&mut world, &new), (0, None));
}

#[test]
fn a_clock_that_was_wrong_delays_no_update() {
    let (mut world, new) = changing(3, &paced(1, 0));
    assert_eq!(step(&mut world, &new), (1, None));
    pass(&mut world, -7200);
    judge(&mut world, 1, true);
    assert_eq!(step(&mut world, &new), (1, None));
}

#[test]
fn a_deadline_for_progress_leaves_time_for_stagger() {
    for (stagger, deadline, said) in [(40, 600, 600), (900, 600, 1200), (900, 0, 0)] {
        let mut spec = rolling(1);
        let update = spec.groups[0].update.as_mut().unwrap();
        update.stagger = Span::seconds(stagger);
        update.progress_deadline = Span::seconds(deadline);
        let (mut world, new) = changing(2, &spec);
        step(&mut world, &new);
        assert_eq!(group(&world).progress_deadline, Span::seconds(said));
    }
}

#[test]
fn canaries_are_a_share_of_the_nodes_rounded_up() {
    for (n, percent, canaries) in [(5, 50, 3), (3, 1, 1), (4, 100, 4), (3, 34, 2), (10, 20, 2)] {
        let (mut world, new) = changing(n, &trying(100, percent));
        let decision = world.run(&new);
        assert_eq!(places(&decision).len(), canaries, "{percent} percent of {n}");
        assert!(places(&decision).iter().all(|a| a.is_canary() && a.previous.is_some()));
        let counts = decision.desired["g"];
        assert_eq!((counts.canary, counts.destructive, counts.place), (canaries as u64, 0, 0));
        assert_eq!(counts.ignore, n as u64 - canaries as u64);
        let state = group(&world);
        assert_eq!((state.desired_canaries, state.desired_total), (canaries as u64, n as u64));
        let text = world.deployment.as_ref().unwrap().status_description.clone();
        assert_eq!(text, "Deployment is running but requires manual promotion");
        judge(&mut world, canaries, true);
        let held = world.run(&new);
        assert!(held.plan.is_no_op(), "they wait for a word, even where all nodes try: {held:?}");
    }
}

#[test]
fn nodes_that_cannot_run_the_group_are_no_part_of_the_share() {
    let mut spec = trying(9, 50);
    spec.constraints = vec![constraint("${node.class}", "=", "edge")];
    let all = (1..=8).map(|n| node_with(n, |i| i.class = if n > 4 { "edge" } else { "" }.into()));
    let mut world = settled(all.collect(), &spec);
    end(&mut world, S::Successful);
    let new = changed(&spec);
    world.register(new.clone());
    assert_eq!(places(&world.run(&new)).len(), 2);
    assert_eq!(group(&world).desired_total, 4);
}

#[test]
fn canaries_are_placed_max_parallel_at_a_time() {
    let (mut world, new) = changing(4, &trying(2, 75));
    assert_eq!(places(&world.run(&new)).len(), 2);
    assert!(world.run(&new).plan.is_no_op());
    judge(&mut world, 1, true);
    assert_eq!(places(&world.run(&new)).len(), 1);
    judge(&mut world, 2, true);
    assert!(world.run(&new).plan.is_no_op(), "there are as many as were wanted");
    assert_eq!(versions(&world), [1, 3]);
}

#[test]
fn promotion_updates_the_remaining_nodes() {
    let (mut world, new) = changing(5, &trying(2, 20));
    world.run(&new);
    judge(&mut world, 1, true);
    promote(&mut world);
    let decision = world.run(&new);
    assert_eq!((places(&decision).len(), decision.desired["g"].destructive), (2, 2));
    assert!(places(&decision).iter().all(|a| !a.is_canary()));
    judge(&mut world, 2, true);
    assert_eq!(places(&world.run(&new)).len(), 2);
    judge(&mut world, 2, true);
    world.run(&new);
    assert_eq!(status(&world), S::Successful);
}

#[test]
fn a_joining_node_joins_the_deployment_after_promotion() {
    let (mut world, new) = changing(3, &rolling(1));
    world.run(&new);
    let late = join(&mut world, 4);
    let decision = world.run(&new);
    assert_eq!((placed_on(&decision), group(&world).desired_total), (vec![late], 4));
    assert_eq!(places(&decision)[0].deployment, world.deployment.as_ref().map(|d| d.id));

    let (mut world, new) = changing(3, &trying(1, 33));
    world.run(&new);
    assert_eq!(group(&world).desired_canaries, 1);
    let late = join(&mut world, 4);
    assert!(places(&world.run(&new)).is_empty());
    assert_eq!((group(&world).desired_total, group(&world).desired_canaries), (4, 2), "33 % of four");
    judge(&mut world, 1, true);
    world.run(&new);
    judge(&mut world, 1, true);
    assert!(places(&world.run(&new)).is_empty());
    promote(&mut world);
    assert!(placed_on(&world.run(&new)).contains(&late));
}

#[test]
fn an_update_in_place_needs_no_canaries_and_has_to_prove_itself() {
    let mut world = settled(nodes(3), &trying(1, 34));
    end(&mut world, S::Successful);
    let mut new = trying(1, 34);
    new.priority = 60;
    world.register(new.clone());
    let decision = world.run(&new);
    let id = world.deployment.as_ref().unwrap().id;
    assert_eq!(decision.desired["g"].in_place, 3);
    assert!(places(&decision).iter().all(|a| a.deployment == Some(id) && a.health.is_none()));
    assert_eq!((group(&world).desired_canaries, group(&world).desired_total), (0, 3));
    judge(&mut world, 3, true);
    world.run(&new);
    assert_eq!(status(&world), S::Successful);
}

#[test]
fn a_full_node_keeps_its_version_and_blocks_nobody() {
    let mut all = nodes(2);
    all.push(node_with(3, |i| i.capacity = amount(600, 8_192, 100_000)));
    let mut world = settled(all, &rolling(3));
    end(&mut world, S::Successful);
    let mut new = changed(&rolling(3));
    new.groups[0].tasks[0].resources.cpu_mhz = 700;
    world.register(new.clone());
    let decision = world.run(&new);
    assert_eq!((places(&decision).len(), decision.eval.queued["g"]), (2, 1));
    judge(&mut world, 2, true);
    world.run(&new);
    assert_eq!((status(&world), versions(&world)), (S::Successful, [1, 2]));
    world.nodes.insert(node_id(3), node(3));
    let then = world.run(&new);
    assert_eq!((placed_on(&then), status(&world)), (ids([3]), S::Running), "another one of the same version");
}

#[test]
fn no_more_canaries_are_wanted_than_have_room() {
    let mut all = nodes(1);
    all.push(node_with(2, |i| i.capacity = amount(600, 8_192, 100_000)));
    let mut world = settled(all, &trying(2, 100));
    end(&mut world, S::Successful);
    let mut new = changed(&trying(2, 100));
    new.groups[0].tasks[0].resources.cpu_mhz = 700;
    world.register(new.clone());
    assert_eq!(places(&world.run(&new)).len(), 1);
    assert_eq!(group(&world).desired_canaries, 1);
}

#[test]
fn a_lost_canary_node_is_replaced_by_another_node() {
    let (mut world, new) = changing(4, &trying(1, 25));
    let tried = placed_on(&world.run(&new))[0];
    set(&mut world, tried, NodeStatus::Down);
    let second = world.run(&new);
    assert_eq!((places(&second).len(), places(&second)[0].is_canary()), (1, true));
    let trying = places(&second)[0].node_id;
    let other = world.nodes.keys().copied().find(|n| ![tried, trying].contains(n)).unwrap();
    set(&mut world, other, NodeStatus::Down);
    world.run(&new);
    set(&mut world, tried, NodeStatus::Ready);
    set(&mut world, other, NodeStatus::Ready);
    let back = world.run(&new);
    assert_eq!(places(&back).len(), 2);
    let of = |n: NodeId| places(&back).into_iter().find(|a| a.node_id == n).expect("it is back").clone();
    assert_eq!((of(tried).job_version, of(tried).is_canary()), (1, true));
    assert_eq!((of(other).job_version, of(other).is_canary()), (0, false));
}

#[test]
fn a_draining_node_is_no_part_of_the_rollout() {
    let (mut world, new) = changing(2, &rolling(2));
    world.nodes.get_mut(&node_id(1)).unwrap().eligible = false;
    assert_eq!(placed_on(&world.run(&new)), ids([2]));
    judge(&mut world, 1, true);
    world.run(&new);
    assert_eq!((group(&world).desired_total, status(&world)), (1, S::Successful));
}

#[test]
fn a_paused_deployment_changes_nothing() {
    for canary in [0, 50] {
        let (mut world, new) = changing(4, &trying(1, canary));
        world.run(&new);
        judge(&mut world, 1, true);
        end(&mut world, S::Paused);
        join(&mut world, 5);
        let before = versions(&world);
        world.run(&new);
        assert_eq!((versions(&world), status(&world)), (before, S::Paused));
    }
}

#[test]
fn an_unhealthy_system_alloc_holds_the_rollout() {
    let (mut world, new) = changing(4, &rolling(2));
    world.run(&new);
    judge(&mut world, 1, false);
    judge(&mut world, 1, true);
    assert!(world.run(&new).plan.is_no_op());
    let (bad, at) = fail_the_bad(&mut world);
    let again = world.run(&new);
    assert_eq!(
        (placed_on(&again), places(&again)[0].previous, stops(&again).len()),
        (vec![at], Some(bad), 0)
    );
    assert_eq!(places(&world.run(&new)).len(), 1, "one is open, two may be");
}

#[test]
fn a_failed_deployment_goes_no_further() {
    let (mut world, new) = changing(3, &rolling(1));
    world.run(&new);
    judge(&mut world, 1, false);
    let (_, bad) = fail_the_bad(&mut world);
    end(&mut world, S::Failed);
    let late = join(&mut world, 4);
    assert!(
        world.run(&new).plan.is_no_op(),
        "neither there nor on a new node, while there is another version"
    );
    assert_eq!(versions(&world), [2, 0]);
    let better = JobSpec { priority: 60, ..new };
    world.register(better.clone());
    let next = placed_on(&world.run(&better));
    assert!(next.contains(&late) && next.contains(&bad), "what is empty is filled at once");
    assert_eq!(next.len(), 3, "and one is replaced");
}

#[test]
fn a_first_version_that_failed_reaches_new_nodes() {
    let mut world = settled(nodes(2), &rolling(1));
    judge(&mut world, 1, false);
    fail_the_bad(&mut world);
    end(&mut world, S::Failed);
    let late = join(&mut world, 3);
    let decision = world.run(&rolling(1));
    assert_eq!((placed_on(&decision), places(&decision)[0].deployment), (vec![late], None));
}

#[test]
fn a_newer_version_cancels_and_reuses_the_nodes_of_canaries() {
    let (mut world, new) = changing(6, &trying(2, 30));
    let tried = placed_on(&world.run(&new));
    let mut newer = new;
    newer.groups[0].tasks[0].env.insert("V".into(), "3".into());
    world.register(newer.clone());
    let decision = world.run(&newer);
    assert_eq!((placed_on(&decision), tried.len()), (tried, 2));
    assert_eq!(decision.plan.deployment_updates[0].status, S::Cancelled);
    assert_eq!(world.deployment.as_ref().unwrap().job_version, 2);
}

#[test]
fn a_successful_version_needs_no_further_canaries() {
    let (mut world, new) = changing(3, &trying(3, 34));
    let away = node_id(3);
    world.nodes.get_mut(&away).unwrap().eligible = false;
    world.run(&new);
    judge(&mut world, 1, true);
    promote(&mut world);
    world.run(&new);
    judge(&mut world, 2, true);
    world.run(&new);
    assert_eq!((status(&world), versions(&world)), (S::Successful, [1, 2]));
    world.nodes.get_mut(&away).unwrap().eligible = true;
    let late = world.run(&new);
    assert_eq!((placed_on(&late), places(&late)[0].is_canary()), (vec![away], false));
    assert_eq!((group(&world).desired_canaries, late.desired["g"].destructive), (0, 1));
}

#[test]
fn a_node_that_joins_later_starts_no_deployment() {
    let mut world = settled(nodes(2), &rolling(1));
    judge(&mut world, 2, true);
    world.run(&rolling(1));
    let late = join(&mut world, 3);
    let decision = world.run(&rolling(1));
    assert_eq!((placed_on(&decision), places(&decision)[0].deployment), (vec![late], None));
    assert_eq!(decision.plan.deployment, None);
}
