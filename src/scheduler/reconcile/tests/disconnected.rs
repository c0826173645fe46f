//! Nodes that do not answer for a while, and what becomes of two when one was replaced (scheduler.md 10).

use super::tainted_nodes::patient;
use super::*;
use model::alloc::{Leave, NodeScore, Scores, StateChange};
use model::eval::Trigger;
use model::id::EvalId;
use model::job::{DisconnectPolicy, Reconcile, ReschedulePolicy};
use model::time::Span;

fn policy(job: &mut Job) -> &mut DisconnectPolicy {
    job.spec.groups[0].disconnect.as_mut().expect("it has one")
}

/// Patient, and replaces what is away after 30 seconds.
fn replacing() -> Job {
    let mut job = patient();
    job.spec.groups[0].reschedule = ReschedulePolicy::default_for(job.spec.job_type);
    job
}

fn away(job: &Job, since: i64) -> Allocation {
    let mut a = alloc(job, 0, 8);
    a.client = C::Unknown;
    a.states = vec![StateChange { status: C::Unknown, at: NOW + Span::seconds(-since) }];
    a
}

fn due(changes: &Changes) -> Vec<(Trigger, i64, usize)> {
    let one = |f: &Followup| (f.trigger, (f.at - NOW).0 / 1_000_000_000, f.allocs.len());
    changes.followups.iter().map(one).collect()
}

#[test]
fn r10_disconnected_allocs_are_unknown_and_later_lost() {
    let job = patient();
    let allocs = [alloc(&job, 0, 8)];
    let case = Case::of(&job);
    let changes = case.changes(&allocs);
    assert_eq!(changes.disconnected.len(), 1);
    assert_eq!(due(&changes), [(Trigger::MaxDisconnectTimeout, 60, 1)]);
    assert_eq!(changes.followups[0].description, "created for delayed disconnect timeout");
    assert!(changes.stops.is_empty() && changes.missing.is_empty() && changes.rescheduled.is_empty());
}

#[test]
fn r10_a_replacement_after_the_delay_stops_nothing() {
    let job = replacing();
    let allocs = [alloc(&job, 0, 8)];
    let case = Case::of(&job);
    let changes = case.changes(&allocs);
    let want = [(Trigger::AllocReschedule, 30, 1), (Trigger::MaxDisconnectTimeout, 60, 0)];
    assert_eq!(due(&changes), want);
    let allocs = [away(&job, 30)];
    let changes = case.changes(&allocs);
    assert_eq!(names_of(&changes.rescheduled), strings(&["[0]"]));
    assert!(changes.stops.is_empty() && changes.followups.is_empty() && changes.missing.is_empty());
    let mut allocs = [away(&job, 30), alloc(&job, 0, 1)];
    allocs[0].next = Some(allocs[1].id);
    let changes = case.changes(&allocs);
    assert!(changes.rescheduled.is_empty() && changes.stops.is_empty(), "once");
}

#[test]
fn r10_without_replace_only_lost_allocs_are_replaced() {
    let mut job = replacing();
    policy(&mut job).replace = false;
    for (since, replaced) in [(30, 0), (59, 0), (60, 1)] {
        let allocs = [away(&job, since)];
        let case = Case::of(&job);
        let changes = case.changes(&allocs);
        assert!(changes.rescheduled.is_empty() && changes.missing.is_empty());
        assert_eq!(
            (changes.replacements.len(), stopped(&changes, LOST).len()),
            (replaced, replaced),
            "{since}"
        );
    }
}

#[test]
fn r10_a_reconnect_without_a_replacement_continues() {
    let job = patient();
    for status in [C::Running, C::Pending] {
        let mut allocs = [away(&job, 5)];
        (allocs[0].client, allocs[0].node_id) = (status, node_id(1));
        let case = Case::of(&job);
        let changes = case.changes(&allocs);
        assert_eq!(changes.reconnected.len(), 1, "{status:?}");
        assert!(changes.stops.is_empty() && changes.missing.is_empty() && changes.followups.is_empty());
    }
}

#[test]
fn r10_a_reconnect_between_evals_is_reconciled() {
    let got = stopped_of_two(&patient(), |o, _| o.client = C::Pending);
    assert!(got.is_some(), "both stay");
}

/// An allocation that comes back, and the one that replaced it: which of them is stopped.
fn stopped_of_two(job: &Job, change: impl FnOnce(&mut Allocation, &mut Allocation)) -> Option<&'static str> {
    let mut original = away(job, 5);
    (original.client, original.node_id) = (C::Running, node_id(1));
    let mut replacement = alloc(job, 0, 2);
    original.next = Some(replacement.id);
    change(&mut original, &mut replacement);
    let of_original = original.id;
    let allocs = [original, replacement];
    let case = Case::of(job);
    let changes = case.changes(&allocs);
    assert!(changes.stops.len() <= 1 && changes.missing.is_empty() && changes.replacements.is_empty());
    let stop = changes.stops.first()?;
    assert_eq!(changes.reconnected.len(), usize::from(stop.alloc.id != of_original));
    Some(if stop.alloc.id == of_original { "original" } else { "replacement" })
}

fn scored(alloc: &mut Allocation, normalized: f64) {
    alloc.metrics.scores =
        vec![NodeScore { node_id: alloc.node_id, scores: Scores::default(), normalized, preemption: 0.0 }];
}

fn started(alloc: &mut Allocation, at: i64) {
    let state = TaskState { phase: TaskPhase::Running, started_at: Wall(at), ..TaskState::default() };
    alloc.task_states = [("t".to_string(), state)].into();
}

#[test]
fn r10_the_alloc_with_the_better_score_stays() {
    let job = patient();
    let cases = [
        (Some(0.5), Some(0.9), C::Running, "original"),
        (Some(0.9), Some(0.5), C::Running, "replacement"),
        (Some(0.5), Some(0.5), C::Running, "replacement"),
        (None, Some(0.1), C::Running, "original"),
        (Some(0.1), None, C::Running, "replacement"),
        (Some(0.5), Some(0.9), C::Pending, "replacement"),
        (Some(0.5), Some(0.9), C::Failed, "replacement"),
    ];
    for (of_original, of_replacement, client, want) in cases {
        let got = stopped_of_two(&job, |o, r| {
            of_original.into_iter().for_each(|s| scored(o, s));
            of_replacement.into_iter().for_each(|s| scored(r, s));
            r.client = client;
        });
        assert_eq!(got, Some(want), "{of_original:?} {of_replacement:?} {client:?}");
    }
}

#[test]
fn r10_the_reconcile_policy_picks_the_alloc() {
    let mut job = patient();
    let cases = [
        (Reconcile::KeepOriginal, "replacement"),
        (Reconcile::KeepReplacement, "original"),
        (Reconcile::LongestRunning, "replacement"),
        (Reconcile::BestScore, "original"),
    ];
    for (reconcile, want) in cases {
        policy(&mut job).reconcile = reconcile;
        let got = stopped_of_two(&job, |o, r| {
            scored(o, 0.5);
            scored(r, 0.9);
            started(o, 5);
            started(r, 9);
        });
        assert_eq!(got, Some(want), "{reconcile:?}");
    }
    policy(&mut job).reconcile = Reconcile::LongestRunning;
    let unknown = stopped_of_two(&job, |o, r| {
        scored(o, 0.5);
        scored(r, 0.9);
    });
    assert_eq!(unknown, Some("original"), "nobody knows which is older: the score decides");
}

#[test]
fn r10_a_newer_replacement_stays_under_any_policy() {
    let mut old = patient();
    policy(&mut old).reconcile = Reconcile::KeepOriginal;
    let got = stopped_of_two(&old, |_, r| r.job_version += 1);
    assert_eq!(got, Some("original"));
}

#[test]
fn r10_failed_or_outdated_reconnects_are_stopped() {
    let job = patient();
    assert_eq!(stopped_of_two(&job, |o, _| o.client = C::Failed), Some("original"));
    assert_eq!(stopped_of_two(&job, |o, _| o.transition.migrate = Some(Leave::AtOnce)), Some("original"));
    let newer = Job { version: 1, ..job.clone() };
    let mut allocs = [away(&job, 5)];
    (allocs[0].client, allocs[0].node_id) = (C::Running, node_id(1));
    let case = Case::of(&newer);
    let changes = case.changes(&allocs);
    assert_eq!(stopped(&changes, NOT_NEEDED), strings(&["[0]"]));
    assert_eq!(changes.missing.len(), 1);
}

#[test]
fn r10_stop_on_client_after_delays_the_replacement() {
    let mut job = patient();
    (policy(&mut job).lost_after, policy(&mut job).stop_on_client_after) = (None, Some(Span::seconds(60)));
    let mut allocs = [alloc(&job, 0, 9)];
    let case = Case::of(&job);
    let changes = case.changes(&allocs);
    assert_eq!(stopped(&changes, LOST), strings(&["[0]"]));
    assert_eq!(due(&changes), [(Trigger::AllocReschedule, 65, 0)], "with the time that killing takes");
    assert!(changes.replacements.is_empty() && changes.missing.is_empty());
    (allocs[0].desired, allocs[0].client) = (D::Stop, C::Lost);
    // the last one was lost while the servers' clock ran ahead
    for (seconds, placed, followups) in [(64, 0, 1), (65, 1, 0), (-86_400, 1, 0)] {
        allocs[0].states = vec![StateChange { status: C::Lost, at: NOW + Span::seconds(-seconds) }];
        let changes = case.changes(&allocs);
        assert_eq!((changes.missing.len(), changes.followups.len()), (placed, followups), "{seconds}");
    }
}

/// Whoever finds a group held back sees to it that somebody looks when the hold ends: exactly one evaluation waits.
#[test]
fn r10_one_follow_up_eval_ends_a_disconnect_timeout() {
    let mut job = patient();
    (policy(&mut job).lost_after, policy(&mut job).stop_on_client_after) = (None, Some(Span::seconds(60)));
    let mut lost = [alloc(&job, 0, 9)];
    (lost[0].desired, lost[0].client) = (D::Stop, C::Lost);
    lost[0].states = vec![StateChange { status: C::Lost, at: NOW }];
    let case = Case::of(&job);
    assert_eq!(due(&case.changes(&lost)), [(Trigger::AllocReschedule, 65, 1)], "nobody waits for it yet");
    lost[0].followup_eval = Some(EvalId::from_random(5));
    assert_eq!(due(&case.changes(&lost)), [], "one waits");
    let over = Case { is_pending: &|_| false, ..Case::of(&job) };
    assert_eq!(due(&over.changes(&lost)), [(Trigger::AllocReschedule, 65, 1)], "it came too early");
    lost[0].followup_eval = Some(case.eval.id);
    assert_eq!(due(&case.changes(&lost)), [(Trigger::AllocReschedule, 65, 1)], "it comes too early now");
}

#[test]
fn r8_2_11_a_replaced_unknown_alloc_frees_its_name() {
    let job = replacing();
    let mut allocs = [away(&job, 10), alloc(&job, 0, 1)];
    let has_two = |allocs: &[Allocation]| Case::of(&job).changes(allocs).names["g"].is_duplicate(0);
    assert!(has_two(&allocs));
    allocs[0].next = Some(allocs[1].id);
    assert!(!has_two(&allocs), "the replacement keeps the name when it moves");
}

/// Its node, which does not answer, is drained meanwhile.
#[test]
fn r8_3_7_a_replaced_alloc_that_leaves_is_not_replaced_again() {
    let job = replacing();
    let mut allocs = [away(&job, 5), alloc(&job, 0, 1)];
    allocs[0].transition.migrate = Some(Leave::AtOnce);
    let case = Case::of(&job);
    let changes = case.changes(&allocs[..1]);
    assert_eq!(names_of(&changes.replacements), strings(&["[0]"]), "nothing was in its place");
    allocs[0].next = Some(allocs[1].id);
    // the one that took its place has failed, and waits for its time to be placed again
    for successor in [C::Running, C::Failed] {
        allocs[1].client = successor;
        let changes = case.changes(&allocs);
        assert_eq!(stopped(&changes, NOT_NEEDED), strings(&["[0]"]), "{successor:?}");
        assert!(changes.replacements.is_empty() && changes.missing.is_empty(), "{successor:?}");
    }
    (allocs[0].next, allocs[0].desired) = (None, D::Stop);
    let changes = case.changes(&allocs[..1]);
    assert!(changes.stops.is_empty() && changes.replacements.is_empty(), "it was told to stop before");
    assert_eq!(changes.missing.len(), 1);
}
