//! What a leader hands out to the workers of other servers, and what comes back.

use super::super::effects::{Effect, Input};
use super::super::reservations::ReservationChange;
use super::super::submit;
use super::super::testing::{Alone, asks, registration};
use super::RemoteWorkers;
use model::alloc::Allocation;
use model::job::{JobSpec, JobType};
use model::plan::{NodePlan, Plan};
use model::time::{Mono, Span};
use state::samples::{Region, alloc, eval_id, info, node_id, register, spec};
use std::collections::BTreeSet;
use wire::frame::{self, Body, Frame};
use wire::rpc::Peer;
use wire::server_rpc::{RemoteDecision, RemoteTask, ServerReply, ServerRequest};

const FOLLOWER: u64 = 2;
const NOW: Mono = Mono(1);

fn asks_for(free: u32, enabled: &[JobType]) -> ServerRequest {
    ServerRequest::Dequeue { free, enabled: enabled.to_vec() }
}

fn says(request: u64, said: ServerRequest) -> Input {
    let bytes = frame::encode(&Frame { request, body: Body::ServerRequest(said) });
    Input::Frame { from: Peer::Server(FOLLOWER), bytes }
}

/// What the next turns deliver to the follower, with the number that it answers.
fn delivered(alone: &mut Alone, mut inputs: Vec<Input>) -> Vec<(u64, Vec<RemoteTask>)> {
    let mut out = vec![];
    for _ in 0..10 {
        out.extend(deliveries(alone.turn(std::mem::take(&mut inputs)).effects));
    }
    out
}

fn deliveries(effects: Vec<Effect>) -> Vec<(u64, Vec<RemoteTask>)> {
    let mut out = vec![];
    for effect in effects {
        let Effect::Send { to: Peer::Server(FOLLOWER), bytes } = effect else { continue };
        let Ok(Frame { request, body: Body::ServerReply(ServerReply::Deliver { tasks }) }) =
            frame::decode(&bytes)
        else {
            panic!("the follower is told something else");
        };
        out.push((request, tasks));
    }
    out
}

/// A leader with one worker, which is busy, and `ready_per_worker` of 0; jobs wait for theirs.
fn busy(jobs: &[&str]) -> Alone {
    let mut alone = Alone::with(|config| config.ready_per_worker = 0);
    alone.add_node(info(1));
    let inputs = ["first"].iter().chain(jobs).map(|id| asks(registration(spec(id, 1)))).collect();
    let own = alone.tasks(inputs);
    assert_eq!(own.len(), 1, "its own worker comes first");
    alone
}

#[test]
fn the_server_with_the_most_free_workers_is_next() {
    let mut all = RemoteWorkers::default();
    let mut wait = |server, request, free| all.wait(server, request, free, JobType::ALL.into());
    wait(1, 10, 2);
    wait(2, 11, 5);
    wait(3, 12, 900);
    wait(2, 13, 1);
    wait(4, 14, 0);
    wait(5, 15, 3);
    all.link_down(5);
    let taken: Vec<_> = std::iter::from_fn(|| all.take(NOW, |_| true, |_| true))
        .map(|w| (w.server, w.request, w.free))
        .collect();
    assert_eq!(taken, [(3, 12, super::MAX_DELIVERED), (1, 10, 2), (2, 13, 1)], "the newer number counts");
}

#[test]
fn a_server_gets_only_types_that_its_workers_take() {
    let mut all = RemoteWorkers::default();
    all.wait(1, 10, 9, vec![JobType::System]);
    all.wait(2, 11, 1, vec![JobType::Batch]);
    assert!(all.serves(JobType::Batch) && !all.serves(JobType::Service));
    let mut take = || all.take(NOW, |_| true, |enabled| enabled.contains(&JobType::Batch));
    assert_eq!((take().map(|w| w.server), take()), (Some(2), None));
    assert!(all.serves(JobType::Batch), "it asks again when one of its workers is free");
}

#[test]
fn a_server_that_is_behind_or_timed_out_is_given_nothing() {
    let mut all = RemoteWorkers::default();
    for server in [1, 2, 3] {
        all.wait(server, 10, 5, JobType::ALL.into());
    }
    all.timed_out(1, NOW);
    let mut take = |now, behind| all.take(now, |server| server != behind, |_| true).map(|w| w.server);
    assert_eq!((take(NOW, 2), take(NOW, 2)), (Some(3), None));
    assert_eq!((take(NOW, 9), take(NOW, 9)), (Some(2), None), "it has caught up");
    let later = NOW.after(super::TIMEOUT_PAUSE);
    assert_eq!(take(later, 9), Some(1));
}

/// The deadline of what its workers hold passes.
#[test]
fn a_server_that_misses_a_deadline_is_paused() {
    let mut alone = busy(&["a", "b"]);
    let given = delivered(&mut alone, vec![says(7, asks_for(1, &JobType::ALL))]);
    assert_eq!(given.len(), 1);
    alone.now = alone.now.after(Span::seconds(61));
    alone.turns(3);
    let none = delivered(&mut alone, vec![says(8, asks_for(1, &JobType::ALL))]);
    assert_eq!(none, [], "its link or its state is far behind");
}

fn batch(id: &str) -> JobSpec {
    JobSpec { job_type: JobType::Batch, ..spec(id, 1) }
}

/// The leader's own worker is free, and the job is not of a type that it takes.
#[test]
fn evaluations_go_to_workers_that_take_their_type() {
    let mut alone = Alone::with(|config| config.enabled_schedulers = vec![JobType::Service]);
    alone.add_node(info(1));
    let own = alone.tasks(vec![asks(registration(batch("report"))), asks(registration(spec("web", 1)))]);
    assert_eq!(own.iter().map(|task| task.eval.job.id.as_str()).collect::<Vec<_>>(), ["web"]);
    let none = delivered(&mut alone, vec![says(7, asks_for(5, &[JobType::Service, JobType::System]))]);
    assert_eq!(none, [], "nothing is ready that it takes");
    let given = delivered(&mut alone, vec![says(8, asks_for(5, &[JobType::Batch]))]);
    let [(8, tasks)] = &given[..] else { panic!("{given:?}") };
    assert_eq!(tasks.iter().map(|task| task.eval.job_type).collect::<Vec<_>>(), [JobType::Batch]);
}

#[test]
fn a_follower_gets_what_own_workers_leave_and_plans_it() {
    let mut alone = busy(&["a", "b", "c"]);
    let given = delivered(&mut alone, vec![says(7, asks_for(2, &JobType::ALL))]);
    let [(7, tasks)] = &given[..] else { panic!("{given:?}") };
    assert_eq!(tasks.len(), 2, "no more than are free");
    assert!(tasks.iter().all(|task| task.min_index <= alone.server.replica.applied()));
    let none = delivered(&mut alone, vec![]);
    assert_eq!(none, [], "it has to ask again");
    for task in tasks {
        let decision = decides(&alone, task);
        alone.turn(vec![hands_in(decision)]);
    }
    alone.turns(3);
    let placed: BTreeSet<&str> =
        ["a", "b", "c"].into_iter().filter(|id| alone.allocs(id).len() == 1).collect();
    assert_eq!(placed.len(), 2, "{placed:?}");
}

/// The follower's state will not show for a moment what another worker has just been given.
#[test]
fn remote_workers_are_told_what_plans_in_flight_take() {
    let mut alone = Alone::with(|config| config.ready_per_worker = 0);
    let node = alone.add_node(info(1));
    let jobs = ["a", "b", "c"].map(|id| asks(registration(spec(id, 1))));
    let own = alone.tasks(jobs.into()).remove(0);
    let Input::Planned { eval, token, result } = alone.planned(&own) else { panic!("no plan") };
    let (leader, mut cx) = alone.split();
    leader.planned(eval, token, result, false, &mut cx).expect("reads");
    leader.remote_workers.wait(FOLLOWER, 7, 1, JobType::ALL.into());
    leader.dispatch(&mut cx).expect("reads");
    let effects = alone.server.outbox.take_effects().0;
    let tasks = deliveries(effects).remove(0).1;
    let [in_flight] = &tasks[0].in_flight[..] else { panic!("{:?}", tasks[0].in_flight) };
    assert_eq!((in_flight.eval, in_flight.token), (own.eval.id, own.token));
    assert!(in_flight.visible_at > tasks[0].min_index, "the state that it waits for does not show it");
    let places: i64 = in_flight.nodes.iter().filter(|taken| taken.node == node).map(|t| t.allocs).sum();
    assert_eq!(places, 1);
}

#[test]
fn other_servers_help_only_when_much_is_ready() {
    let mut alone = Alone::with(|config| config.ready_per_worker = 2);
    alone.add_node(info(1));
    let jobs = ["a", "b", "c"].map(|id| asks(registration(spec(id, 1))));
    alone.tasks(jobs.into());
    let none = delivered(&mut alone, vec![says(1, asks_for(5, &JobType::ALL))]);
    assert_eq!(none, [], "two wait for one worker");
    let more = delivered(&mut alone, vec![asks(registration(spec("d", 1)))]);
    let counts: Vec<usize> = more.iter().map(|(_, tasks)| tasks.len()).collect();
    assert_eq!(counts, [1], "the third does not");
}

#[test]
fn evaluations_of_a_lost_server_come_back() {
    let mut alone = busy(&["a"]);
    let given = delivered(&mut alone, vec![says(7, asks_for(1, &JobType::ALL))]);
    let lost = given[0].1[0].clone();
    alone.turn(vec![Input::LinkDown { peer: FOLLOWER }]);
    alone.now = alone.now.after(Span::seconds(2));
    let again = delivered(&mut alone, vec![says(8, asks_for(1, &JobType::ALL))]);
    let [(8, tasks)] = &again[..] else { panic!("{again:?}") };
    assert_eq!(tasks[0].eval.id, lost.eval.id);
    assert_ne!(tasks[0].token, lost.token, "the lost worker's answer counts no more");
    let late =
        RemoteDecision { eval: lost.eval.id, token: lost.token, result: Err("late".into()), is_split: false };
    alone.turn(vec![says(0, ServerRequest::Planned(Box::new(late)))]);
    assert_eq!(alone.server.status().broker.unacked, 2, "it changes nothing");
}

#[test]
fn a_plan_is_split_where_one_entry_ends() {
    let mut region = Region::default();
    region.run(&register(spec("a", 1), None));
    let job = region.job("a");
    let part = |n: u128| {
        let mut one: Allocation = alloc(n, &job, node_id(n), eval_id(1));
        one.client_description = "x".repeat(300_000);
        NodePlan { node_id: node_id(n), stops: vec![], places: vec![one] }
    };
    let plan = Plan { nodes: (1..=5).map(part).collect(), ..Plan::default() };
    let mut split = plan.clone();
    assert!(submit::split(&mut split));
    assert_eq!(split.nodes, plan.nodes[..3], "what fits into a MiB");
    assert!(!submit::split(&mut split), "the rest fits");
    let mut whole = Plan { all_at_once: true, ..plan.clone() };
    assert!(!submit::split(&mut whole) && whole.nodes.len() == 5, "it is wanted whole or not at all");
    let mut large = part(1);
    large.places[0].client_description = "x".repeat(3 << 20);
    let mut alone = Plan { nodes: vec![large], ..Plan::default() };
    assert!(!submit::split(&mut alone) && alone.nodes.len() == 1, "one part is not divided");
}

/// What a follower's worker makes of its evaluation, handed in by the follower.
fn decides(alone: &Alone, task: &RemoteTask) -> RemoteDecision {
    let RemoteTask { eval, token, attempt: number, snapshot_index, min_index, at, seed, .. } = task.clone();
    let attempt = scheduler::Attempt { number, snapshot_index };
    let local = super::super::effects::ScheduleTask { eval, token, attempt, min_index, at, seed };
    let Input::Planned { eval, token, result } = alone.planned(&local) else { panic!("no plan") };
    RemoteDecision { eval, token, result: result.map(|decision| *decision), is_split: false }
}

fn hands_in(decision: RemoteDecision) -> Input {
    says(0, ServerRequest::Planned(Box::new(decision)))
}

/// Their state shows it only once it is applied, and they would want the same room.
#[test]
fn own_workers_are_told_what_remote_plans_take() {
    let mut alone = busy(&["a"]);
    let task = delivered(&mut alone, vec![says(7, asks_for(1, &JobType::ALL))]).remove(0).1.remove(0);
    let decision = decides(&alone, &task);
    let [ReservationChange::Remote(plan), ReservationChange::Visible { eval, token, index }] =
        &told(&mut alone, decision)[..]
    else {
        panic!("a worker of this server may look at an older state: nothing is released")
    };
    assert_eq!((plan.eval, plan.token, plan.nodes.len()), (task.eval.id, task.token, 1));
    assert_eq!((*eval, *token, *index), (task.eval.id, task.token, alone.view().index()));
}

/// What becomes of reservations in the turn in which the follower hands that in.
fn told(alone: &mut Alone, decision: RemoteDecision) -> Vec<ReservationChange> {
    alone.turn(vec![hands_in(decision)]).reservations
}

/// Otherwise nothing would ever forget what they took.
#[test]
fn applied_remote_plans_are_forgotten_without_own_workers() {
    let mut alone = Alone::with(|config| config.workers = 0);
    alone.add_node(info(1));
    alone.turn(vec![asks(registration(spec("a", 1)))]);
    let task = delivered(&mut alone, vec![says(7, asks_for(1, &JobType::ALL))]).remove(0).1.remove(0);
    let decision = decides(&alone, &task);
    let changes = told(&mut alone, decision);
    assert!(matches!(changes[0], ReservationChange::Remote(_)), "{changes:?}");
    assert_eq!((alone.allocs("a").len(), alone.reservations.borrow().is_empty()), (1, true));
}

#[test]
fn nothing_is_retried_by_a_server_that_is_gone() {
    for is_gone in [false, true] {
        let mut alone = busy(&["a"]);
        let task = delivered(&mut alone, vec![says(7, asks_for(1, &JobType::ALL))]).remove(0).1.remove(0);
        let mut decision = decides(&alone, &task);
        // only a part of the plan comes, so that the rest is tried again
        decision.is_split = true;
        let mut inputs = vec![hands_in(decision)];
        if is_gone {
            inputs.push(Input::LinkDown { peer: FOLLOWER });
        }
        let again: Vec<u64> = delivered(&mut alone, inputs).iter().map(|(request, _)| *request).collect();
        assert_eq!(again, if is_gone { vec![] } else { vec![0] });
        alone.now = alone.now.after(Span::seconds(2));
        let given = delivered(&mut alone, vec![says(8, asks_for(1, &JobType::ALL))]);
        let tokens: Vec<_> = given.iter().flat_map(|(_, tasks)| tasks).map(|task| task.token).collect();
        assert_eq!(tokens.len(), usize::from(is_gone), "it waits for the next one that asks");
        assert!(!tokens.contains(&task.token));
    }
}
