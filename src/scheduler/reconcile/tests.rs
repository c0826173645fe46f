//! The rules of scheduler.md 8, one test each. Where things go is not looked at here.

use super::*;
use crate::testing::{NOW, alloc, alloc_id, eval_of, job, node_id};
use model::alloc::{ClientStatus as C, DesiredStatus as D};
use model::task::{TaskEvent, TaskPhase, TaskState};
use model::time::Wall;

mod disconnected;
mod held_back;
mod rescheduled;
mod rolling;
mod tainted_nodes;

/// What came out, by allocation names.
#[derive(Debug, Default, PartialEq)]
struct Out {
    stopped: Vec<String>,
    lost: Vec<String>,
    destructive: Vec<String>,
    /// Each with the name of what it replaces.
    placed: Vec<(String, Option<String>)>,
}

fn short(name: &str) -> String {
    name.trim_start_matches("a.g").to_string()
}

/// Node 9 is down, node 8 disconnected, node 7 drains; all others are well.
fn tainted() -> TaintedNodes {
    let of = |n, status| (node_id(n), Some(status));
    [of(9, NodeStatus::Down), of(8, NodeStatus::Disconnected), of(7, NodeStatus::Ready)].into()
}

/// Everything that reconciling depends on but the allocations.
struct Case<'a> {
    job: Option<&'a Job>,
    batch: bool,
    tainted: TaintedNodes,
    eval: Evaluation,
    now: Wall,
    deployments: Deployments<'a>,
    is_pending: &'a dyn Fn(EvalId) -> bool,
}

impl<'a> Case<'a> {
    fn of(job: &'a Job) -> Self {
        let deployments = Deployments { latest: None, new_id: DeploymentId::from_random(7) };
        let (tainted, eval) = (tainted(), eval_of(&job.spec));
        Case { job: Some(job), batch: false, tainted, eval, now: NOW, deployments, is_pending: &|_| true }
    }

    /// With a deployment.
    fn rolling(job: &'a Job, latest: Option<&'a Deployment>) -> Self {
        let mut case = Case::of(job);
        case.deployments.latest = latest;
        case
    }

    /// Allocations of an older version are updated destructively.
    fn changes(&'a self, allocs: &'a [Allocation]) -> Changes<'a> {
        self.changes_with(allocs, Update::Destructive)
    }

    /// `older`: how allocations of an older version follow.
    fn changes_with(&'a self, allocs: &'a [Allocation], older: Update) -> Changes<'a> {
        let current = self.job.map_or(0, |j| j.job_modify_index);
        let follows = |a: &Allocation| if a.job_modify_index == current { Update::Ignore } else { older };
        reconcile(&self.input(allocs), &mut |a| follows(a))
    }

    fn input(&'a self, allocs: &'a [Allocation]) -> ReconcileInput<'a> {
        ReconcileInput {
            job: self.job,
            batch: self.batch,
            allocs,
            tainted: &self.tainted,
            eval: &self.eval,
            now: self.now,
            deployments: self.deployments,
            is_pending: self.is_pending,
        }
    }
}

fn stopped(changes: &Changes, description: &str) -> Vec<String> {
    let stops = changes.stops.iter().filter(|s| s.description == description);
    let mut names: Vec<_> = stops.map(|s| short(&s.alloc.name)).collect();
    names.sort();
    names
}

fn names_of(replacements: &[Replacement]) -> Vec<String> {
    replacements.iter().map(|r| short(&r.alloc.name)).collect()
}

fn missing(changes: &mut Changes) -> Vec<String> {
    let mut out = Vec::new();
    for (group, n) in &changes.missing {
        let names = changes.names.get_mut(group.name.as_str()).expect("every group has names");
        out.extend((0..*n).map(|_| format!("[{}]", names.next())));
    }
    out
}

fn run_as(job: Option<&Job>, batch: bool, allocs: &[Allocation]) -> Out {
    let gone = super::super::testing::job("a", 1);
    let case = Case { job, batch, ..Case::of(job.unwrap_or(&gone)) };
    let mut changes = case.changes(allocs);
    let again = |r: &Replacement| (short(&r.alloc.name), Some(short(&r.alloc.name)));
    let mut placed: Vec<_> = changes.replacements.iter().map(again).collect();
    placed.extend(missing(&mut changes).into_iter().map(|name| (name, None)));
    for stop in &changes.stops {
        assert_eq!(stop.client, (stop.description == LOST).then_some(C::Lost));
    }
    Out {
        stopped: stopped(&changes, NOT_NEEDED),
        lost: stopped(&changes, LOST),
        destructive: names_of(&changes.destructive),
        placed,
    }
}

fn run(job: &Job, allocs: &[Allocation]) -> Out {
    run_as(Some(job), false, allocs)
}

fn running(job: &Job, indexes: &[u64]) -> Vec<Allocation> {
    indexes.iter().enumerate().map(|(n, i)| alloc(job, *i, n as u128)).collect()
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|s| s.to_string()).collect()
}

fn fresh(names: &[&str]) -> Vec<(String, Option<String>)> {
    names.iter().map(|s| (s.to_string(), None)).collect()
}

fn done(success: bool) -> BTreeMap<String, TaskState> {
    [("t".to_string(), TaskState { phase: TaskPhase::Dead, failed: !success, ..TaskState::default() })].into()
}

#[test]
fn r8_1_a_stopped_or_purged_job_stops_its_allocs() {
    let mut stopped = job("a", 3);
    stopped.spec.stop = true;
    let mut allocs = running(&stopped, &[0, 1, 2]);
    allocs[1].client = C::Complete;
    allocs[2].node_id = node_id(9);
    let want = Out { stopped: strings(&["[0]"]), lost: strings(&["[2]"]), ..Out::default() };
    assert_eq!(run(&stopped, &allocs), want);
    assert_eq!(run_as(None, false, &allocs), want);
}

#[test]
fn r8_2_1_only_a_removed_groups_allocs_are_stopped() {
    let job = job("a", 1);
    let mut allocs = running(&job, &[0, 0]);
    allocs[1].group = "h".into();
    allocs[1].name = "a.h[0]".into();
    assert_eq!(run(&job, &allocs), Out { stopped: strings(&["a.h[0]"]), ..Out::default() });
}

#[test]
fn r8_2_1_count_zero_stops_all() {
    let job = job("a", 0);
    let out = run(&job, &running(&job, &[0, 1]));
    assert_eq!(out, Out { stopped: strings(&["[0]", "[1]"]), ..Out::default() });
}

#[test]
fn r8_2_3_completed_batch_reruns_only_for_a_new_version() {
    let old = job("a", 1);
    let mut done_once = alloc(&old, 0, 1);
    (done_once.client, done_once.task_states) = (C::Complete, done(true));
    assert_eq!(run_as(Some(&old), true, std::slice::from_ref(&done_once)), Out::default());

    let mut new = old.clone();
    (new.version, new.job_modify_index) = (1, 50);
    let out = run_as(Some(&new), true, std::slice::from_ref(&done_once));
    assert_eq!(out, Out { placed: fresh(&["[0]"]), ..Out::default() });

    let mut registered_again = old.clone();
    (registered_again.create_index, registered_again.job_modify_index) = (60, 60);
    let out = run_as(Some(&registered_again), true, &[done_once]);
    assert_eq!(out, Out { placed: fresh(&["[0]"]), ..Out::default() });
}

#[test]
fn r9_allocs_that_count_by_their_status() {
    type Case = (&'static str, bool, D, C, Option<bool>, bool);
    let cases: [Case; 15] = [
        ("service, running", false, D::Run, C::Running, None, true),
        ("service, failed", false, D::Run, C::Failed, Some(false), true),
        ("service, complete", false, D::Run, C::Complete, Some(true), false),
        ("service, lost", false, D::Stop, C::Lost, None, false),
        ("service, stopped", false, D::Stop, C::Running, None, false),
        ("service, evicted", false, D::Evict, C::Running, None, false),
        ("service, unknown", false, D::Run, C::Unknown, None, true),
        ("batch, running", true, D::Run, C::Running, None, true),
        ("batch, complete", true, D::Run, C::Complete, Some(true), true),
        ("batch, failed", true, D::Run, C::Failed, Some(false), true),
        ("batch, stopped after success", true, D::Stop, C::Complete, Some(true), true),
        ("batch, stopped before success", true, D::Stop, C::Complete, Some(false), false),
        ("batch, lost", true, D::Stop, C::Lost, None, false),
        ("batch, evicted after success", true, D::Evict, C::Complete, Some(true), true),
        ("batch, evicted before success", true, D::Evict, C::Complete, Some(false), false),
    ];
    let job = job("a", 1);
    for (name, batch, desired, client, success, counts) in cases {
        let mut a = alloc(&job, 0, 1);
        (a.desired, a.client) = (desired, client);
        a.task_states = success.map(done).unwrap_or_default();
        let placed = run_as(Some(&job), batch, &[a]).placed.len();
        assert_eq!(placed, usize::from(!counts), "{name}");
    }
}

#[test]
fn r9_interrupted_batch_allocs_run_again() {
    let job = job("a", 1);
    let event = |kind: &str| TaskEvent {
        kind: kind.into(),
        at: Wall(0),
        message: String::new(),
        details: BTreeMap::new(),
    };
    for (kinds, again) in
        [(vec!["Killed"], 1), (vec!["Leader Task Dead", "Killed"], 0), (vec!["Terminated"], 0)]
    {
        let mut a = alloc(&job, 0, 1);
        (a.desired, a.client, a.task_states) = (D::Stop, C::Complete, done(true));
        a.task_states.values_mut().for_each(|t| t.events = kinds.iter().map(|k| event(k)).collect());
        assert_eq!(run_as(Some(&job), true, &[a.clone()]).placed.len(), again, "{kinds:?}");
        // the leader itself was killed: that the others were killed for its end changes nothing
        let mut leader = a.task_states.values().next().cloned().expect("a task");
        leader.events = vec![event("Killed")];
        a.task_states.insert("leader".into(), leader);
        assert_eq!(run_as(Some(&job), true, &[a]).placed.len(), 1, "{kinds:?}, with a leader");
    }
}

#[test]
fn r9_an_alloc_with_a_successor_is_not_counted() {
    let job = job("a", 2);
    let mut allocs = running(&job, &[0, 1, 1]);
    (allocs[1].client, allocs[1].next) = (C::Failed, Some(allocs[2].id));
    assert_eq!(run(&job, &allocs), Out::default());
}

#[test]
fn r8_5_1_lost_allocs_are_stopped_as_lost() {
    let job = job("a", 2);
    let mut allocs = running(&job, &[0, 1]);
    allocs[0].node_id = node_id(9);
    let out = run(&job, &allocs);
    assert_eq!((out.lost, out.stopped), (strings(&["[0]"]), vec![]));
}

#[test]
fn r8_5_2_unknown_allocations_are_no_surplus() {
    let job = job("a", 2);
    let mut allocs = running(&job, &[0, 1, 2]);
    assert_eq!(run(&job, &allocs).stopped, strings(&["[2]"]));
    allocs[0].client = C::Unknown;
    assert_eq!(run(&job, &allocs), Out::default());
}

#[test]
fn r8_5_3_failed_allocs_stop_before_running_ones() {
    let job = job("a", 2);
    let mut allocs = running(&job, &[0, 1, 2]);
    allocs[0].client = C::Failed;
    assert_eq!(run(&job, &allocs), Out { stopped: strings(&["[0]"]), ..Out::default() });
    allocs[1].client = C::Failed;
    assert_eq!(run(&job, &allocs), Out { stopped: strings(&["[1]"]), ..Out::default() });
}

#[test]
fn r8_5_3_complete_batch_allocs_count_and_stay() {
    let job = job("a", 2);
    let mut allocs = running(&job, &[0, 1, 2]);
    (allocs[2].client, allocs[2].task_states) = (C::Complete, done(true));
    assert_eq!(run_as(Some(&job), true, &allocs), Out { stopped: strings(&["[1]"]), ..Out::default() });
}

#[test]
fn r8_5_3c_the_highest_names_stop_first() {
    let job = job("a", 2);
    let out = run(&job, &running(&job, &[3, 0, 2, 1]));
    assert_eq!(out, Out { stopped: strings(&["[2]", "[3]"]), ..Out::default() });
}

#[test]
fn r8_5_3d_duplicate_names_stop_down_to_the_count() {
    let job = job("a", 1);
    let mut allocs = running(&job, &[0, 0, 0]);
    for (n, a) in allocs.iter_mut().enumerate() {
        a.id = alloc_id(n as u128);
    }
    assert_eq!(run(&job, &allocs), Out { stopped: strings(&["[0]", "[0]"]), ..Out::default() });
}

#[test]
fn r8_2_19_destructive_updates_are_made_in_the_order_of_names() {
    let old = job("a", 3);
    let mut new = old.clone();
    (new.version, new.job_modify_index) = (1, 50);
    let out = run(&new, &running(&old, &[2, 0, 1]));
    assert_eq!(out, Out { destructive: strings(&["[0]", "[1]", "[2]"]), ..Out::default() });
}

#[test]
fn r8_2_12_a_lower_count_stops_before_it_updates() {
    let old = job("a", 3);
    let mut new = job("a", 1);
    (new.version, new.job_modify_index) = (1, 50);
    let out = run(&new, &running(&old, &[0, 1, 2]));
    let want = Out { stopped: strings(&["[1]", "[2]"]), destructive: strings(&["[0]"]), ..Out::default() };
    assert_eq!(out, want);
}

#[test]
fn r8_7_2_lost_allocs_are_replaced_under_their_names() {
    let job = job("a", 3);
    let mut allocs = running(&job, &[0, 1, 2]);
    allocs[0].node_id = node_id(9);
    allocs[2].node_id = node_id(9);
    let again = |n: &str| (n.to_string(), Some(n.to_string()));
    let want =
        Out { lost: strings(&["[0]", "[2]"]), placed: vec![again("[0]"), again("[2]")], ..Out::default() };
    assert_eq!(run(&job, &allocs), want);
}

#[test]
fn r8_7_2_lost_allocs_are_replaced_up_to_the_count() {
    let job = job("a", 2);
    let mut allocs = running(&job, &[0, 1, 2]);
    allocs[1].node_id = node_id(9);
    allocs[2].node_id = node_id(9);
    let out = run(&job, &allocs);
    assert_eq!(out.lost, strings(&["[1]", "[2]"]));
    assert_eq!(out.placed, [("[1]".to_string(), Some("[1]".to_string()))]);
}

#[test]
fn r8_7_3_new_allocs_get_the_lowest_free_names() {
    let job = job("a", 5);
    let mut allocs = running(&job, &[3, 1]);
    assert_eq!(run(&job, &allocs), Out { placed: fresh(&["[0]", "[2]", "[4]"]), ..Out::default() });
    allocs[0].node_id = node_id(9);
    let mut want = vec![("[3]".to_string(), Some("[3]".to_string()))];
    want.extend(fresh(&["[0]", "[2]", "[4]"]));
    assert_eq!(run(&job, &allocs).placed, want);
}

#[test]
fn a_negative_count_wants_nothing() {
    let job = job("a", -1);
    assert_eq!(run(&job, &[]), Out::default());
}
