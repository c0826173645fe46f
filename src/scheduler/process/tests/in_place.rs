//! Updates in place: what stays of the allocation, and which deployment it is part of.

use super::*;
use model::deployment::DeploymentStatus;
use model::job::UpdatePolicy;

#[test]
fn a_pure_count_change_updates_the_others_in_place() {
    let mut world = settled(nodes(2), &spec("a", 2));
    let before = world.allocs.clone();
    let job = world.register(spec("a", 3));
    let decision = world.run(&spec("a", 3));
    assert!(stops(&decision).is_empty());
    for old in before.values() {
        let new = &world.allocs[&old.id];
        assert_eq!((new.job_version, new.eval_id), (job.version, decision.eval.id));
        assert_eq!((new.client, &new.metrics, new.create_time), (C::Running, &old.metrics, old.create_time));
    }
    assert!(world.run(&spec("a", 3)).plan.is_no_op());
}

#[test]
fn an_update_in_place_without_a_deployment_leaves_the_old_one() {
    let mut rolling = spec("a", 2);
    rolling.groups[0].update = Some(UpdatePolicy::default());
    let mut world = settled(nodes(2), &rolling);
    let old = world.deployment.as_mut().expect("the update is rolled out");
    old.status = DeploymentStatus::Successful;
    assert!(world.allocs.values().all(|a| a.deployment.is_some()));
    let mut plain = spec("a", 3);
    plain.groups[0].update = None;
    let job = world.register(plain.clone());
    let decision = world.run(&plain);
    assert!(stops(&decision).is_empty() && decision.plan.deployment.is_none());
    assert!(world.allocs.values().all(|a| a.job_version == job.version && a.deployment.is_none()));
}
