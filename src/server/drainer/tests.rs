//! Drains of one server without a world.

use super::super::effects::Input;
use super::super::outbox::Proposal;
use super::super::testing::Alone;
use super::*;
use model::alloc::ClientStatus;
use model::job::{HealthCheck, MigratePolicy};
use model::scheduling::SchedulerSettings;
use state::samples::{AT, alloc, alloc_id, eval_id, info, key, node_id, place, register, report, spec};
use wire::command::NodeUpdateRequest;
use wire::request::{Refusal, RefusalKind};

/// A group with an allocation on each of `nodes` nodes, all of which have run long enough; one may be away at a time.
fn spread_out(nodes: u128) -> Alone {
    let mut alone = Alone::new(SchedulerSettings::default());
    let mut wanted = spec("web", nodes as i64);
    let (min_healthy_time, healthy_deadline) = (Span::seconds(10), Span::minutes(5));
    let health_check = HealthCheck::TaskStates;
    let policy = MigratePolicy { max_parallel: 1, health_check, min_healthy_time, healthy_deadline };
    wanted.groups[0].migrate = Some(policy);
    alone.propose(&register(wanted, None));
    let job = alone.view().job(&key("web")).unwrap().expect("is registered");
    let on_each = (1..=nodes).map(|n| alloc(n, &job, node_id(n), eval_id(1))).collect();
    (1..=nodes).for_each(|n| _ = alone.add_node(info(n)));
    alone.propose(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes: place(on_each),
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    for n in 1..=nodes {
        let updates = vec![report(n, ClientStatus::Running)];
        alone.propose(&Command::UpdateAllocs {
            seen: u64::MAX,
            node: node_id(n),
            updates,
            verdicts: vec![],
            evals: vec![],
            at: AT,
        });
    }
    alone.wall = AT + Span::hours(1);
    alone
}

fn drain(alone: &mut Alone, n: u128) {
    let request =
        NodeUpdateRequest::Drain { deadline: Span::hours(1), ignore_system: false, meta: BTreeMap::new() };
    let change = Command::UpdateNode { node: node_id(n), request, evals: vec![], at: alone.wall };
    alone.append(&change);
}

/// Many jobs with an allocation each on one node.
fn crowded(jobs: usize) -> Alone {
    let mut alone = Alone::new(SchedulerSettings::default());
    (1..=2).for_each(|n| _ = alone.add_node(info(n)));
    for n in 1..=jobs as u128 {
        let name = format!("job-{n}");
        alone.propose(&register(spec(&name, 1), None));
        let job = alone.view().job(&key(&name)).unwrap().expect("is registered");
        let node = if n == jobs as u128 { node_id(2) } else { node_id(1) };
        let nodes = place(vec![alloc(n, &job, node, eval_id(1))]);
        let (eval, deployment, updates, evals) = (eval_id(1), None, vec![], vec![]);
        alone.propose(&Command::ApplyPlan { eval, nodes, deployment, updates, evals, at: AT });
    }
    alone
}

#[test]
fn a_round_of_drains_has_a_bounded_number_of_evaluations() {
    let mut alone = crowded(MAX_EVALS_PER_ENTRY + 2);
    let force = NodeUpdateRequest::Drain { deadline: Span(-1), ignore_system: false, meta: BTreeMap::new() };
    for n in 1..=2 {
        let request = force.clone();
        alone.append(&Command::UpdateNode { node: node_id(n), request, evals: vec![], at: alone.wall });
    }
    while alone.leader().drainer.due.len() < 2 {
        alone.turns(1);
    }
    let (leader, mut cx) = alone.split();
    cx.now = cx.now.after(SCAN_INTERVAL);
    leader.drainer.advance(&mut cx).expect("reads");
    let proposed = cx.outbox.take_proposals();
    let [Proposal { command: Command::AdvanceDrains { steps, evals, .. }, .. }] = &proposed[..] else {
        panic!("{proposed:?}")
    };
    assert_eq!((steps.len(), evals.len()), (1, MAX_EVALS_PER_ENTRY));
    assert!(leader.drainer.due.contains(&node_id(2)), "the other one comes next");
}

fn leaving(alone: &Alone) -> usize {
    alone.allocs("web").iter().filter(|a| a.transition.leaves()).count()
}

#[test]
fn nodes_that_drain_together_share_max_parallel() {
    let mut alone = spread_out(3);
    (1..=2).for_each(|n| drain(&mut alone, n));
    alone.turns(20);
    assert_eq!(leaving(&alone), 1, "of the two that one look sees");
    drain(&mut alone, 3);
    alone.turns(20);
    assert_eq!(leaving(&alone), 1, "that one is away still");
}

#[test]
fn the_next_alloc_drains_once_the_replacement_is_healthy() {
    let mut alone = spread_out(2);
    (1..=2).for_each(|n| drain(&mut alone, n));
    alone.turns(20);
    let job = alone.view().job(&key("web")).unwrap().expect("is registered");
    let node = alone.add_node(info(9));
    let successor = place(vec![alloc(9, &job, node, eval_id(1))]);
    alone.propose(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes: successor,
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: alone.wall,
    });
    alone.turns(20);
    assert_eq!(leaving(&alone), 1, "it does not run yet");
    let (updates, at) = (vec![report(9, ClientStatus::Running)], alone.wall);
    alone.propose(&Command::UpdateAllocs {
        seen: u64::MAX,
        node,
        updates,
        verdicts: vec![],
        evals: vec![],
        at,
    });
    alone.now = alone.now.after(Span::seconds(9));
    alone.turns(5);
    assert_eq!(leaving(&alone), 1, "it has not run for long enough");
    alone.turns(20);
    assert_eq!(leaving(&alone), 2);
    assert!(!alone.view().alloc(alloc_id(9)).unwrap().expect("is placed").transition.leaves());
}

#[test]
fn drains_wait_while_the_disk_is_full() {
    let mut alone = spread_out(1);
    drain(&mut alone, 1);
    alone.turn(vec![Input::Space { free: false }]);
    alone.turns(20);
    assert_eq!(leaving(&alone), 0);
    alone.turn(vec![Input::Space { free: true }]);
    alone.turns(20);
    assert_eq!(leaving(&alone), 1);
}

#[test]
fn a_step_that_raft_refuses_is_tried_again() {
    let mut alone = spread_out(2);
    drain(&mut alone, 1);
    while alone.leader().drainer.due.is_empty() {
        alone.turns(1);
    }
    let (leader, mut cx) = alone.split();
    cx.now = cx.now.after(SCAN_INTERVAL);
    leader.drainer.advance(&mut cx).expect("reads");
    assert_eq!(cx.outbox.take_proposals().len(), 1);
    let why = Refusal::new(RefusalKind::Unavailable, "leadership is being transferred");
    leader.proposal_refused(OnApply::Drained, &why, &mut cx);
    assert_eq!(leader.drainer.next_deadline(), Some(cx.now.after(SCAN_INTERVAL)));
    alone.turns(20);
    assert_eq!(leaving(&alone), 1);
}
