//! System jobs of several groups: each is rolled out by its own state in the deployment.

use super::*;
use model::alloc::Health;
use model::constraint::Constraint;
use model::deployment::DeploymentStatus;

fn status(world: &Harness) -> DeploymentStatus {
    world.deployment.as_ref().expect("a deployment").status
}

/// What the deployment has placed of the group is found well, and counted.
fn pass_all(world: &mut Harness, group: &str) {
    let of = world.deployment.as_ref().expect("a deployment").id;
    let mut healthy = 0;
    for alloc in world.allocs.values_mut().filter(|a| a.deployment == Some(of) && a.group == group) {
        alloc.client = C::Running;
        alloc.health = Some(Health { healthy: Some(true), ..Health::default() });
        healthy += 1;
    }
    let deployment = world.deployment.as_mut().expect("a deployment");
    deployment.groups.get_mut(group).expect("its part").healthy = healthy;
}

#[test]
fn a_group_that_has_its_version_joins_no_deployment_of_another() {
    let mut spec = rolling(1);
    let mut late = spec.groups[0].clone();
    late.name = "late".into();
    let (left, operand, right) = ("${node.class}".into(), "=".into(), "fast".into());
    late.constraints.push(Constraint { left, operand, right });
    spec.groups.push(late);
    let mut world = settled(nodes(2), &spec);
    pass_all(&mut world, "g");
    world.run(&spec);
    assert_eq!(status(&world), DeploymentStatus::Successful, "nobody can run the other group");

    let (joined, mut newcomer) = (node_id(3), node(3));
    newcomer.info.class = "fast".into();
    world.nodes.insert(joined, newcomer);
    assert_eq!(placed_on(&world.run(&spec)), [joined; 2]);
    // with what it has placed in sight
    world.run(&spec);
    let parts = |world: &Harness| world.deployment.as_ref().expect("a deployment").groups.clone();
    assert_eq!(parts(&world).into_keys().collect::<Vec<_>>(), ["late"]);
    pass_all(&mut world, "late");
    world.run(&spec);
    assert_eq!(status(&world), DeploymentStatus::Successful);
}
