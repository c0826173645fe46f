//! What is to leave its node: now, or when there is room elsewhere.

use super::*;
use model::alloc::Leave;
use model::job::{DisconnectPolicy, Reconcile};
use model::time::Span;

/// One allocation on the first of `n` nodes, which takes nothing new any more, and is asked to leave.
fn leaving(n: u128, how: Leave) -> (Harness, JobSpec) {
    let spec = spec("a", 1);
    let mut world = settled(nodes(n), &spec);
    let here = world.allocs.values().next().map(|a| a.node_id).unwrap();
    world.nodes.values_mut().filter(|n| n.info.id == here).for_each(|n| n.eligible = false);
    world.allocs.values_mut().for_each(|a| a.transition.migrate = Some(how));
    (world, spec)
}

#[test]
fn without_room_elsewhere_only_forced_migrations_stop() {
    for (how, stopped) in [(Leave::No, 0), (Leave::WhenPlaced, 0), (Leave::AtOnce, 1)] {
        let (mut world, spec) = leaving(1, how);
        let decision = world.run(&spec);
        assert_eq!((stops(&decision).len(), places(&decision).len()), (stopped, 0), "{how:?}");
        let waits = decision.created.iter().any(|e| e.status == EvalStatus::Blocked);
        assert_eq!(waits, how != Leave::No, "{how:?}");
    }
}

#[test]
fn with_room_elsewhere_both_move_and_keep_their_names() {
    for how in [Leave::WhenPlaced, Leave::AtOnce] {
        let (mut world, spec) = leaving(2, how);
        let old = world.allocs.values().next().map(|a| a.id);
        let decision = world.run(&spec);
        assert_eq!(stops(&decision).len(), 1, "{how:?}");
        let placed: Vec<_> = places(&decision).iter().map(|a| (a.name.clone(), a.previous)).collect();
        assert_eq!(placed, [("a.g[0]".to_string(), old)], "{how:?}");
        assert!(decision.created.is_empty());
        let told = &decision.desired["g"];
        assert_eq!(
            (told.migrate, told.place, told.stop),
            (1, 0, 0),
            "{how:?}: a plan tells it as what it is"
        );
    }
}

#[test]
fn an_allocation_waiting_to_migrate_from_a_dead_node_is_lost() {
    let (mut world, spec) = leaving(1, Leave::WhenPlaced);
    world.nodes.values_mut().for_each(|n| n.status = NodeStatus::Down);
    let decision = world.run(&spec);
    let clients: Vec<_> = stops(&decision).iter().map(|s| s.2).collect();
    assert_eq!(clients, [Some(C::Lost)]);
}

/// What its node runs is of an older version: without room for the newer one it would neither be lost nor replaced, ever.
#[test]
fn an_outdated_alloc_of_a_disconnected_node_becomes_unknown() {
    for others in [0, 1] {
        let mut spec = spec("a", 1);
        let (lost_after, reconcile) = (Some(Span::seconds(60)), Reconcile::BestScore);
        let policy = DisconnectPolicy { lost_after, stop_on_client_after: None, replace: false, reconcile };
        spec.groups[0].disconnect = Some(policy);
        let mut world = settled(nodes(1), &spec);
        world.allocs.values_mut().for_each(|a| a.client = C::Running);
        world.nodes.values_mut().for_each(|n| n.status = NodeStatus::Disconnected);
        world.nodes.extend(nodes(1 + others).into_iter().skip(1).map(|node| (node.info.id, node)));
        spec.groups[0].tasks[0].env.insert("NEW".into(), "1".into());
        world.register(spec.clone());
        let decision = world.run(&spec);
        let (stopped, changed) = (stops(&decision).len(), places(&decision));
        if others == 0 {
            let clients: Vec<_> = changed.iter().map(|a| a.client).collect();
            assert_eq!((stopped, clients), (0, vec![C::Unknown]));
            let triggers: Vec<_> = decision.created.iter().map(|e| e.trigger).collect();
            assert!(triggers.contains(&Trigger::MaxDisconnectTimeout), "{triggers:?}");
        } else {
            assert_eq!((stopped, changed.len()), (1, 1), "its replacement has a place");
            assert!(changed[0].previous.is_some());
        }
    }
}

/// Its place stays free while its node may still be stopping it. It was lost without a plan that said so, so that only the
/// next evaluation can see to it that the group is looked at again: the group is neither placed nor blocked.
#[test]
fn an_evaluation_of_a_held_back_group_creates_one_followup() {
    let mut spec = spec("a", 1);
    spec.groups[0].disconnect = Some(DisconnectPolicy {
        lost_after: None,
        stop_on_client_after: Some(Span::seconds(60)),
        replace: true,
        reconcile: Reconcile::BestScore,
    });
    let mut world = settled(nodes(2), &spec);
    let id = *world.allocs.keys().next().expect("one was placed");
    world.allocs.values_mut().for_each(|a| (a.desired, a.client) = (D::Stop, C::Lost));
    let decision = world.run(&spec);
    let looks: Vec<_> = decision.created.iter().map(|e| (e.trigger, e.wait_until)).collect();
    assert_eq!(looks, [(Trigger::AllocReschedule, Some(NOW + Span::seconds(65)))]);
    let lost = &world.allocs[&id];
    assert_eq!((lost.desired, lost.client), (D::Stop, C::Lost), "it stays what it is");
    assert_eq!(lost.followup_eval, Some(decision.created[0].id));
    assert_eq!(world.run(&spec).created, [], "one evaluation is enough");
    assert_eq!(world.allocs.len(), 1);
}
