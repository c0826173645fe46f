//! What a server writes of the decisions that its workers hand in.

mod in_flight;

use super::super::effects::{Effect, Input};
use super::super::submit;
use super::super::testing::{Alone, asks, registration};
use super::super::worker;
use super::*;
use model::alloc::ClientStatus;
use model::claims::{DeviceAsk, DeviceGroup, DeviceInstance, Network, NodeAddress, Port};
use model::eval::Trigger;
use model::id::{EvalId, EvalToken, JobKey};
use model::job::JobSpec;
use model::node::{NodeInfo, NodeStatus};
use model::plan::AllocStop;
use model::plan::Decision;
use model::resources::Amount;
use model::scheduling::{PreemptionConfig, SchedulerSettings};
use state::samples::{AT, info, node_id, spec};
use wire::command::AllocUpdate;
use wire::command::Command;
use wire::command::NodeUpdateRequest;
use wire::request::WriteRequest;

/// A node that is ready, with so much of a processor; then all that workers make of it. How many evaluations they had, and
/// how many entries were written for them.
fn node_comes(alone: &mut Alone, n: u128, cpu_mhz: i64) -> (usize, u64) {
    let mut info = info(n);
    info.capacity = Amount { cpu_mhz, ..info.capacity };
    comes(alone, info)
}

fn comes(alone: &mut Alone, info: NodeInfo) -> (usize, u64) {
    let before = alone.server.replica.applied();
    let (node, status) = (info.id, NodeStatus::Ready);
    let register = Command::RegisterNode { info: Box::new(info), evals: vec![], at: AT };
    let ready = Command::UpdateNodeStatus { node, status, event: None, evals: vec![], at: AT };
    let mut given = 0;
    for command in [register, ready] {
        alone.append(&command);
        given += alone.work(vec![]);
    }
    (given, alone.server.replica.applied() - before - 2)
}

#[test]
fn an_evaluation_that_blocks_again_writes_nothing() {
    let mut alone = Alone::new(SchedulerSettings::default());
    assert_eq!(alone.work(vec![registers(spec("a", 1))]), 1);
    assert_eq!(alone.server.status().broker.blocked, 1);
    assert_eq!(node_comes(&mut alone, 1, 50), (1, 0), "it was never evaluated itself, and says nothing new");
    assert_eq!(node_comes(&mut alone, 2, 60), (1, 0));
    assert_eq!(alone.server.status().broker.blocked, 1, "it waits on");
    let (given, written) = node_comes(&mut alone, 3, 4_000);
    assert_eq!((given, alone.server.status().broker.blocked), (1, 0));
    assert!(written > 0);
}

fn sized(id: &str, priority: i64, cpu_mhz: i64) -> JobSpec {
    let mut spec = spec(id, 1);
    spec.priority = priority;
    spec.groups[0].tasks[0].resources.cpu_mhz = cpu_mhz;
    spec
}

fn registers(spec: JobSpec) -> Input {
    asks(registration(spec))
}

/// Services may send others away; one of little urgency has the only node to itself.
fn crowded() -> Alone {
    let preemption = PreemptionConfig { service: true, ..PreemptionConfig::default() };
    let mut alone = Alone::new(SchedulerSettings { preemption, ..SchedulerSettings::default() });
    node_comes(&mut alone, 1, 1_000);
    assert_eq!(alone.work(vec![registers(sized("low", 20, 900))]), 1);
    alone
}

/// What a worker makes of the job; it is not handed in.
fn decided(alone: &mut Alone, spec: JobSpec) -> (EvalToken, Decision) {
    let mut inputs = vec![registers(spec)];
    for _ in 0..20 {
        let turn = alone.turn(std::mem::take(&mut inputs));
        for effect in turn.effects {
            if let Effect::Schedule(task) = effect {
                let decision =
                    worker::decide(&task, &alone.server.reader(), || alone.reservations.borrow_mut())
                        .expect("it is decided");
                return (task.token, *decision);
            }
        }
    }
    panic!("no worker gets it");
}

fn only_alloc(alone: &Alone, job: &str) -> Allocation {
    let view = alone.server.reader().view().expect("reads");
    let mut allocs = view.allocs_of_job(&JobKey::new("default", job)).expect("reads");
    assert_eq!(allocs.len(), 1, "{job}");
    allocs.remove(0)
}

fn accepted(alone: &mut Alone, plan: &Plan) -> usize {
    let view = alone.server.reader().view().expect("reads");
    alone.leader().plans.verify(plan, &view).expect("reads").iter().flatten().count()
}

/// The node's report that the allocation is complete.
fn ends(id: AllocId, node: NodeId) -> Command {
    let (client, client_description) = (ClientStatus::Complete, String::new());
    let updates = vec![AllocUpdate { id, client, client_description, task_states: BTreeMap::new() }];
    Command::UpdateAllocs { seen: u64::MAX, node, updates, verdicts: vec![], evals: vec![], at: AT }
}

#[test]
fn an_update_of_an_ended_allocation_needs_no_node() {
    let mut alone = crowded();
    let low = only_alloc(&alone, "low");
    let gone = node_id(99);
    let place = |alloc: Allocation| NodePlan { node_id: gone, stops: vec![], places: vec![alloc] };
    let plan = Plan { nodes: vec![place(low.clone())], ..Plan::default() };
    assert_eq!(accepted(&mut alone, &plan), 0, "it lives, on another node");
    alone.append(&ends(low.id, low.node_id));
    alone.turn(vec![]);
    assert_eq!(accepted(&mut alone, &plan), 1);
    let (mut new, mut both) = (low.clone(), plan.clone());
    (new.id, new.create_index) = (state::samples::alloc_id(99), 0);
    both.nodes[0].places.push(new);
    assert_eq!(accepted(&mut alone, &both), 0, "what is new does");
}

/// The node may never say that those that were preempted have ended.
#[test]
fn an_update_that_takes_nothing_more_needs_no_room() {
    let mut alone = crowded();
    assert_eq!(alone.work(vec![registers(sized("high", 80, 900))]), 2, "and that of \"low\"");
    let (low, high) = (only_alloc(&alone, "low"), only_alloc(&alone, "high"));
    assert_eq!((low.desired, low.client_terminal()), (DesiredStatus::Evict, false));
    let place = |alloc: Allocation| {
        let part = NodePlan { node_id: alloc.node_id, stops: vec![], places: vec![alloc] };
        Plan { nodes: vec![part], ..Plan::default() }
    };
    let unknown = Allocation { client: ClientStatus::Unknown, ..high.clone() };
    assert_eq!(accepted(&mut alone, &place(unknown)), 1);
    let mut larger = high;
    larger.resources.tasks.values_mut().for_each(|task| task.cpu_mhz += 1);
    assert_eq!(accepted(&mut alone, &place(larger)), 0);
}

#[test]
fn no_plan_brings_more_allocations_than_a_node_takes() {
    let mut alone = Alone::new(SchedulerSettings::default());
    comes(&mut alone, NodeInfo { max_allocs: 2, ..info(1) });
    assert_eq!(alone.work(vec![registers(spec("there", 1))]), 1);
    let (_, decision) = decided(&mut alone, spec("one", 1));
    let mut plan = decision.plan;
    assert_eq!(accepted(&mut alone, &plan), 1);
    let another = Allocation { id: AllocId::from_random(77), ..plan.nodes[0].places[0].clone() };
    plan.nodes[0].places.push(another);
    assert_eq!(accepted(&mut alone, &plan), 0);
    let stop = AllocStop { id: only_alloc(&alone, "there").id, description: String::new(), client: None };
    plan.nodes[0].stops.push(stop);
    assert_eq!(accepted(&mut alone, &plan), 1, "what is told to end leaves its place");
}

#[test]
fn preempted_jobs_are_evaluated_in_the_plans_entry() {
    let mut alone = crowded();
    let low = only_alloc(&alone, "low");
    alone.work(vec![registers(sized("high", 30, 900))]);
    let (evicted, high) = (only_alloc(&alone, "low"), only_alloc(&alone, "high"));
    assert_eq!((evicted.desired, evicted.preempted_by), (DesiredStatus::Evict, Some(high.id)));
    assert_eq!((high.preempted.as_slice(), evicted.modify_index), (&[low.id][..], high.create_index));
    let view = alone.server.reader().view().expect("reads");
    let evals = view.evals_of_job(&low.job).expect("reads");
    let again: Vec<_> = evals.iter().filter(|e| e.trigger == Trigger::Preemption).collect();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].create_index, again[0].priority), (high.create_index, 20));
    assert_eq!(alone.server.status().broker.blocked, 1, "it finds no other place, and waits");
}

#[test]
fn an_allocation_that_changed_is_not_preempted() {
    let changes: [fn(&mut Alone, &Allocation); 4] = [
        // it has ended
        |alone, low| {
            alone.append(&ends(low.id, low.node_id));
            alone.turn(vec![]);
        },
        // its servers have changed it
        |alone, low| {
            let changed = Allocation { job_modify_index: 99, ..low.clone() };
            let nodes = vec![NodePlan { node_id: low.node_id, stops: vec![], places: vec![changed] }];
            let command = Command::ApplyPlan {
                eval: low.eval_id,
                nodes,
                deployment: None,
                updates: vec![],
                evals: vec![],
                at: AT,
            };
            alone.append(&command);
            alone.turn(vec![]);
        },
        // its job is as urgent now
        |alone, _| drop(alone.submit(sized("low", 45, 900))),
        // somebody else, under way, has its room
        |alone, low| {
            let taken = Taken { stopping: vec![low.id], ..Taken::default() };
            alone.leader().plans.submit(under_way(), vec![(low.node_id, taken)]);
        },
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut alone = crowded();
        let low = only_alloc(&alone, "low");
        let (_, decision) = decided(&mut alone, sized("high", 50, 900));
        assert_eq!(decision.plan.preemptions().map(|(_, id)| id).collect::<Vec<_>>(), [low.id]);
        assert_eq!(accepted(&mut alone, &decision.plan), 1);
        change(&mut alone, &low);
        assert_eq!(accepted(&mut alone, &decision.plan), 0, "change {n}");
    }
}

#[test]
fn plans_unaware_of_a_preemption_change_nothing_of_it() {
    let mut alone = crowded();
    let low = only_alloc(&alone, "low");
    let place = |alloc: Allocation| NodePlan { node_id: low.node_id, stops: vec![], places: vec![alloc] };
    let in_place = |alone: &mut Alone| {
        let changed = Allocation { job_modify_index: 99, ..low.clone() };
        accepted(alone, &Plan { nodes: vec![place(changed)], ..Plan::default() })
    };
    let moved = |alone: &mut Alone| {
        let mut new = low.clone();
        (new.id, new.create_index) = (state::samples::alloc_id(99), 0);
        let stop = AllocStop { id: low.id, description: String::new(), client: None };
        let part = NodePlan { stops: vec![stop], ..place(new) };
        accepted(alone, &Plan { nodes: vec![part], ..Plan::default() })
    };
    assert_eq!((in_place(&mut alone), moved(&mut alone)), (1, 1));
    let taken = Taken { stopping: vec![low.id], ..Taken::default() };
    alone.leader().plans.submit(under_way(), vec![(low.node_id, taken)]);
    assert_eq!((in_place(&mut alone), moved(&mut alone)), (0, 0), "while that is under way");
    alone.leader().plans.finish(under_way());
    alone.work(vec![registers(sized("high", 50, 900))]);
    assert_eq!(only_alloc(&alone, "low").desired, DesiredStatus::Evict);
    assert_eq!((in_place(&mut alone), moved(&mut alone)), (0, 0), "and afterwards");
}

/// A node with one address and one device.
fn equipped(n: u128) -> NodeInfo {
    let mut info = info(n);
    info.offers.network_modes = vec!["host".into()];
    let address =
        NodeAddress { alias: "default".into(), address: "10.0.0.1".into(), ..NodeAddress::default() };
    info.offers.addresses = vec![address];
    let instances = vec![DeviceInstance { id: "0".into(), healthy: true, ..DeviceInstance::default() }];
    let (kind, instances) = ("gpu".into(), instances);
    info.offers.devices = vec![DeviceGroup { kind, instances, ..DeviceGroup::default() }];
    info
}

#[test]
fn a_plan_in_flights_claims_are_refused_to_the_next() {
    let port = |spec: &mut JobSpec| {
        let port =
            Port { label: "http".into(), value: 8080, host_network: "default".into(), ..Port::default() };
        spec.groups[0].networks = vec![Network { reserved: vec![port], ..Network::default() }];
    };
    let device = |spec: &mut JobSpec| {
        let ask = DeviceAsk { name: "gpu".into(), count: 1, ..DeviceAsk::default() };
        spec.groups[0].tasks[0].resources.devices = vec![ask];
    };
    type Claim<'c> = (&'static str, &'c dyn Fn(&mut JobSpec));
    let claims: [Claim<'_>; 2] = [("port", &port), ("device", &device)];
    for (name, claims) in claims {
        let mut alone = Alone::with(|config| config.workers = 2);
        alone.add_node(equipped(1));
        let jobs = ["a", "b"].map(|id| {
            let mut spec = spec(id, 1);
            claims(&mut spec);
            registers(spec)
        });
        let tasks = alone.tasks(jobs.into());
        assert_eq!(tasks.len(), 2, "{name}");
        let both: Vec<Input> = tasks.iter().map(|task| alone.planned(task)).collect();
        let again = alone.tasks(both);
        let placed = ["a", "b"].map(|id| alone.allocs(id).len());
        assert_eq!((placed[0] + placed[1], again.len()), (1, 1), "{name}: the other one is tried again");
    }
}

/// Somebody's evaluation whose plan is in flight.
fn under_way() -> DeliveryKey {
    (EvalId::from_random(77), EvalToken::from_random(77))
}

/// Nothing new may be placed on the node.
fn closes(node: NodeId) -> Input {
    asks(WriteRequest::UpdateNode { node, request: NodeUpdateRequest::Eligible(false) })
}

#[test]
fn a_plan_in_the_turn_of_a_drain_places_nothing_there() {
    let deadline = model::time::Span::hours(1);
    let drain = NodeUpdateRequest::Drain { deadline, ignore_system: false, meta: BTreeMap::new() };
    for request in [drain, NodeUpdateRequest::Eligible(false), NodeUpdateRequest::Purge] {
        let mut alone = Alone::new(SchedulerSettings::default());
        let node = alone.add_node(info(1));
        let task = alone.tasks(vec![registers(spec("a", 1))]).remove(0);
        let planned = alone.planned(&task);
        alone.tasks(vec![asks(WriteRequest::UpdateNode { node, request: request.clone() }), planned]);
        assert_eq!(alone.allocs("a"), [], "{request:?}");
    }
}

#[test]
fn a_silent_worker_with_a_partial_plan_is_given_up() {
    let mut alone = Alone::new(SchedulerSettings::default());
    for n in 1..=2 {
        let mut info = info(n);
        info.capacity.cpu_mhz = 150;
        alone.add_node(info);
    }
    let first = alone.tasks(vec![registers(spec("a", 2))]).remove(0);
    let planned = alone.planned(&first);
    let again = alone.tasks(vec![closes(node_id(2)), planned]);
    assert_eq!((alone.allocs("a").len(), again.len()), (1, 1), "a part was refused");
    assert_eq!((again[0].eval.id, again[0].token), (first.eval.id, first.token));
    alone.now = alone.now.after(model::time::Span::minutes(2));
    let returned = alone.tasks(vec![]);
    assert_eq!(returned.iter().map(|task| task.eval.id).collect::<Vec<_>>(), [first.eval.id]);
    assert_ne!(returned[0].token, first.token, "another worker has it");
}

#[test]
fn an_evaluation_whose_plan_is_being_written_has_no_deadline() {
    for nodes in [0, 1] {
        let mut alone = Alone::new(SchedulerSettings::default());
        (0..nodes).for_each(|n| _ = alone.add_node(info(n)));
        let task = alone.tasks(vec![registers(spec("a", 1))]).remove(0);
        let Input::Planned { eval, token, result } = alone.planned(&task) else { panic!("no plan") };
        let late = alone.now.after(model::time::Span::hours(1));
        let (leader, mut cx) = alone.split();
        leader.planned(eval, token, result, false, &mut cx).expect("reads");
        assert_eq!(leader.evals.broker_mut().expire(late), [], "with {nodes} nodes");
    }
}

/// A service has five attempts; none of them finds the node open.
#[test]
fn a_failure_that_is_being_written_has_no_deadline() {
    for (attempts, expired) in [(1, 1), (4, 1), (5, 0)] {
        let mut alone = Alone::new(SchedulerSettings::default());
        let node = alone.add_node(info(1));
        let task = alone.tasks(vec![registers(spec("a", 1))]).remove(0);
        let Input::Planned { eval, token, result } = alone.planned(&task) else { panic!("no plan") };
        let decision = result.expect("it is decided");
        let late = alone.now.after(model::time::Span::hours(1));
        let (leader, mut cx) = alone.split();
        leader.plans.close(node);
        for _ in 0..attempts {
            leader.planned(eval, token, Ok(decision.clone()), false, &mut cx).expect("reads");
        }
        let silent = leader.evals.broker_mut().expire(late).len();
        assert_eq!(silent, expired, "after {attempts} attempts without success");
    }
}

#[test]
fn freed_room_wakes_blocked_evaluations() {
    let mut alone = Alone::new(SchedulerSettings::default());
    node_comes(&mut alone, 1, 150);
    assert_eq!(alone.work(vec![registers(spec("a", 1)), registers(spec("b", 1))]), 2);
    let waits = alone.server.status().broker.blocked;
    assert_eq!((alone.allocs("a").len(), alone.allocs("b").len(), waits), (1, 0, 1));
    let ended = ends(only_alloc(&alone, "a").id, node_id(1));
    alone.append(&ended);
    assert_eq!(alone.work(vec![]), 1);
    assert_eq!(alone.allocs("b").len(), 1);
}

/// On a node that takes nothing, room helps nobody.
#[test]
fn a_lost_alloc_releases_blocked_evals_where_its_node_is_ready() {
    for is_ready in [true, false] {
        let mut alone = Alone::new(SchedulerSettings::default());
        node_comes(&mut alone, 1, 150);
        alone.work(vec![registers(spec("a", 1)), registers(spec("b", 1))]);
        let id = only_alloc(&alone, "a").id;
        if !is_ready {
            let (node, request) = (node_id(1), NodeUpdateRequest::Eligible(false));
            alone.append(&Command::UpdateNode { node, request, evals: vec![], at: AT });
            alone.work(vec![]);
            assert!(!only_alloc(&alone, "a").client_terminal(), "it runs on");
        }
        let stops = vec![AllocStop { client: Some(ClientStatus::Lost), ..stop(id) }];
        let nodes = vec![NodePlan { node_id: node_id(1), stops, places: vec![] }];
        let (eval, deployment) = (model::id::EvalId::from_random(7), None);
        alone.append(&Command::ApplyPlan { eval, nodes, deployment, updates: vec![], evals: vec![], at: AT });
        let given = alone.work(vec![]);
        assert_eq!((given, alone.allocs("b").len()), if is_ready { (1, 1) } else { (0, 0) });
    }
}

#[test]
fn a_bounded_number_of_nodes_of_plans_in_flight_is_reported() {
    let mut plans = Plans::default();
    let amount = Amount { cpu_mhz: 1, ..Amount::ZERO };
    for n in 0..3 {
        let taken = (0..600).map(|node| (node_id(node), Taken { amount, ..Taken::default() })).collect();
        plans.submit((model::id::EvalId::from_random(n), model::id::EvalToken::from_random(n)), taken);
    }
    let told: Vec<usize> = plans.in_flight_plans(9).iter().map(|plan| plan.nodes.len()).collect();
    assert_eq!(told, [600, MAX_NODES_REPORTED - 600]);
}

fn stop(id: AllocId) -> AllocStop {
    AllocStop { id, description: "alloc is being updated due to job update".into(), client: None }
}

/// A rolling update: each of two takes the node of the other one.
fn exchange() -> Vec<NodePlan> {
    let mut region = state::samples::Region::default();
    region.run(&state::samples::register(spec("a", 2), None));
    let job = region.job("a");
    let part = |n: u128, other: u128| {
        let old = state::samples::alloc_id(n);
        let mut new = state::samples::alloc(10 + n, &job, node_id(n), state::samples::eval_id(1));
        (new.create_index, new.previous) = (0, Some(state::samples::alloc_id(other)));
        NodePlan { node_id: node_id(n), stops: vec![stop(old)], places: vec![new] }
    };
    vec![part(1, 2), part(2, 1)]
}

#[test]
fn a_replaced_alloc_stops_in_the_entry_of_its_replacement() {
    let parts = exchange();
    let (accepted, taken) = submit::fitting(parts.clone(), vec![None, Some(Taken::default())]);
    let of_first = NodePlan { places: vec![], ..parts[0].clone() };
    assert_eq!(
        accepted,
        [of_first, parts[1].clone()],
        "its node takes nothing new, and it stops all the same"
    );
    assert_eq!(taken[0].1.stopping, [parts[0].stops[0].id]);
    let (accepted, _) = submit::fitting(parts.clone(), vec![None, None]);
    assert_eq!(accepted, [], "nothing takes its place: it stays");
    let mut apart = parts;
    apart[1].places[0].previous = None;
    let (accepted, _) = submit::fitting(apart.clone(), vec![None, Some(Taken::default())]);
    assert_eq!(accepted, apart[1..]);
}

#[test]
fn a_split_plan_stops_what_its_first_part_replaces() {
    let mut parts = exchange();
    parts[1].places[0].client_description = "x".repeat(2 << 20);
    let mut plan = Plan { nodes: parts.clone(), ..Plan::default() };
    assert!(submit::split(&mut plan));
    let of_second = NodePlan { places: vec![], ..parts[1].clone() };
    assert_eq!(plan.nodes, [parts[0].clone(), of_second]);
}
