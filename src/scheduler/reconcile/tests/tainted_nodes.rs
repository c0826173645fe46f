//! What the state of its node means for an allocation, rule by rule (scheduler.md 8.3).

use super::*;
use model::alloc::{Leave, StateChange};
use model::job::{DisconnectPolicy, Reconcile};
use model::time::Span;

/// Sits a minute out.
pub fn patient() -> Job {
    let mut job = job("a", 1);
    job.spec.groups[0].disconnect = Some(DisconnectPolicy {
        lost_after: Some(Span::minutes(1)),
        stop_on_client_after: None,
        replace: true,
        reconcile: Reconcile::BestScore,
    });
    job
}

/// The node; the allocation; since how many seconds it was unknown, if it was; to migrate.
struct Given {
    node: u128,
    desired: D,
    client: C,
    unknown: Option<i64>,
    migrate: bool,
}

fn given(node: u128, desired: D, client: C) -> Given {
    Given { node, desired, client, unknown: None, migrate: false }
}

fn unknown(since: i64, given: Given) -> Given {
    Given { unknown: Some(since), ..given }
}

/// The set that it is put into.
fn set_of(job: &Job, given: &Given) -> &'static str {
    let mut a = alloc(job, 0, given.node);
    (a.desired, a.client) = (given.desired, given.client);
    a.transition.migrate = given.migrate.then_some(Leave::AtOnce);
    let since = given.unknown.map(|s| StateChange { status: C::Unknown, at: NOW + Span::seconds(-s) });
    a.states.extend(since);
    let mut case = Case::of(job);
    case.tainted.insert(node_id(GONE), None);
    let input = case.input(&[]);
    let out = tainted::split([(a.id, &a)].into(), Some(&job.spec.groups[0]), &input);
    let sets = [
        (out.untainted, "untainted"),
        (out.migrating, "migrating"),
        (out.lost, "lost"),
        (out.disconnecting, "disconnecting"),
        (out.reconnecting, "reconnecting"),
    ];
    sets.iter().find(|(set, _)| !set.is_empty()).map_or("ignored", |(_, name)| name)
}

const DOWN: u128 = 9;
const AWAY: u128 = 8;
const DRAINS: u128 = 7;
const GONE: u128 = 6;
const WELL: u128 = 1;

#[test]
fn r8_3_filter_by_tainted() {
    let cases = [
        ("4: disconnected", given(AWAY, D::Run, C::Running), "lost"),
        ("6: terminal, down", given(DOWN, D::Run, C::Complete), "untainted"),
        ("6: failed, gone", given(GONE, D::Run, C::Failed), "untainted"),
        ("6: lost before, gone", given(GONE, D::Stop, C::Lost), "untainted"),
        ("6: stopped, down", given(DOWN, D::Stop, C::Running), "untainted"),
        ("6: evicted, down", given(DOWN, D::Evict, C::Running), "untainted"),
        ("6: terminal, disconnected", given(AWAY, D::Run, C::Complete), "untainted"),
        ("7: to migrate", Given { migrate: true, ..given(DRAINS, D::Run, C::Running) }, "migrating"),
        ("6 before 7", Given { migrate: true, ..given(DRAINS, D::Run, C::Failed) }, "untainted"),
        ("12: not tainted", given(WELL, D::Run, C::Running), "untainted"),
        ("13: gone", given(GONE, D::Run, C::Running), "lost"),
        ("13: down", given(DOWN, D::Run, C::Pending), "lost"),
        ("13: down, unknown", given(DOWN, D::Run, C::Unknown), "lost"),
        ("14: drains, not marked", given(DRAINS, D::Run, C::Running), "untainted"),
    ];
    for (name, given, want) in cases {
        assert_eq!(set_of(&job("a", 1), &given), want, "rule {name}");
    }
}

#[test]
fn r8_3_filter_by_tainted_with_lost_after() {
    let run = |node, client| given(node, D::Run, client);
    let cases = [
        ("1: failed while away", unknown(5, run(AWAY, C::Failed)), "reconnecting"),
        ("2: disconnects", run(AWAY, C::Running), "disconnecting"),
        ("3: had not begun", run(AWAY, C::Pending), "lost"),
        ("5: drains and comes back", unknown(5, run(DRAINS, C::Running)), "reconnecting"),
        ("5: drains, expired", unknown(60, run(DRAINS, C::Unknown)), "lost"),
        ("6: failed", run(WELL, C::Failed), "untainted"),
        ("8: expired", unknown(60, run(AWAY, C::Unknown)), "lost"),
        ("8: down, expired", unknown(61, run(DOWN, C::Unknown)), "lost"),
        ("8: since a time that a clock ran ahead to", unknown(-86_400, run(AWAY, C::Unknown)), "lost"),
        ("9: unknown", unknown(59, run(AWAY, C::Unknown)), "untainted"),
        ("9: unknown, down", unknown(59, run(DOWN, C::Unknown)), "untainted"),
        ("9: node is back, nothing heard yet", unknown(59, run(WELL, C::Unknown)), "untainted"),
        ("10: failed, was told to stop", unknown(5, given(WELL, D::Stop, C::Failed)), "ignored"),
        ("11: comes back", unknown(59, run(WELL, C::Running)), "reconnecting"),
        ("11: comes back between two runs", unknown(59, run(WELL, C::Pending)), "reconnecting"),
        ("11: comes back late", unknown(99, run(WELL, C::Running)), "reconnecting"),
        ("12: not tainted", run(WELL, C::Running), "untainted"),
        ("13: down", run(DOWN, C::Running), "lost"),
    ];
    for (name, given, want) in cases {
        assert_eq!(set_of(&patient(), &given), want, "rule {name}");
    }
}
