//! What a server writes of the decisions that its workers hand in.

use super::super::board;
use super::super::effects::{Effect, Input};
use super::super::testing::Alone;
use super::*;
use model::alloc::ClientStatus;
use model::job::JobSpec;
use model::node::{NodeInfo, NodeStatus};
use model::plan::AllocStop;
use model::resources::Amount;
use model::scheduling::{Preemption, SchedulerSettings};
use state::samples::{AT, info, spec};
use wire::command::AllocUpdate;
use wire::request::Action;

/// A node that is ready, with so much of a processor; then all that workers make of it. How many evaluations they had, and
/// how many entries were written for them.
fn node_comes(alone: &mut Alone, n: u128, cpu_mhz: i64) -> (usize, u64) {
    let mut info = info(n);
    info.capacity = Amount { cpu_mhz, ..info.capacity };
    comes(alone, info)
}

fn comes(alone: &mut Alone, info: NodeInfo) -> (usize, u64) {
    let before = alone.server.log.applied();
    let (node, status) = (info.id, NodeStatus::Ready);
    let register = Command::RegisterNode { info: Box::new(info), evals: vec![], at: AT };
    let ready = Command::UpdateNodeStatus { node, status, event: None, evals: vec![], at: AT };
    let mut given = 0;
    for command in [register, ready] {
        alone.server.propose(&command, Op::Unattended).expect("it leads");
        given += work(alone, vec![]);
    }
    (given, alone.server.log.applied() - before - 2)
}

/// Until there is nothing to do.
fn work(alone: &mut Alone, mut inputs: Vec<Input>) -> usize {
    let mut given = 0;
    for _ in 0..20 {
        let turn = alone.turn(std::mem::take(&mut inputs));
        for effect in turn.effects {
            if let Effect::Schedule(task) = effect {
                let result = board::decide(&task, &alone.server.reader());
                inputs.push(Input::Planned { eval: task.eval.id, token: task.token, result });
                given += 1;
            }
        }
    }
    given
}

#[test]
fn what_finds_no_room_again_writes_nothing() {
    let mut alone = Alone::new(SchedulerSettings::default());
    assert_eq!(work(&mut alone, vec![registers(spec("a", 1))]), 1);
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
    spec.groups[0].tasks[0].cpu_mhz = cpu_mhz;
    spec
}

fn registers(spec: JobSpec) -> Input {
    let action = Action::RegisterJob {
        spec: Box::new(spec),
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        submission: None,
    };
    Input::Request { token: 1, action }
}

/// Services may send others away; one of little urgency has the only node to itself.
fn crowded() -> Alone {
    let preemption = Preemption { service: true, ..Preemption::default() };
    let mut alone = Alone::new(SchedulerSettings { preemption, ..SchedulerSettings::default() });
    node_comes(&mut alone, 1, 1_000);
    assert_eq!(work(&mut alone, vec![registers(sized("low", 20, 900))]), 1);
    alone
}

/// What a worker makes of the job; it is not handed in.
fn decided(alone: &mut Alone, spec: JobSpec) -> (EvalToken, Decision) {
    let mut inputs = vec![registers(spec)];
    for _ in 0..20 {
        let turn = alone.turn(std::mem::take(&mut inputs));
        for effect in turn.effects {
            if let Effect::Schedule(task) = effect {
                let decision = board::decide(&task, &alone.server.reader()).expect("it is decided");
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

fn accepted(alone: &Alone, plan: &Plan) -> usize {
    let view = alone.server.reader().view().expect("reads");
    alone.server.verify(plan, &view).expect("reads").iter().flatten().count()
}

#[test]
fn no_plan_brings_more_allocations_than_a_node_takes() {
    let mut alone = Alone::new(SchedulerSettings::default());
    comes(&mut alone, NodeInfo { max_allocs: 2, ..info(1) });
    assert_eq!(work(&mut alone, vec![registers(spec("there", 1))]), 1);
    let (_, decision) = decided(&mut alone, spec("one", 1));
    let mut plan = decision.plan;
    assert_eq!(accepted(&alone, &plan), 1);
    let another = Allocation { id: AllocId::from_random(77), ..plan.nodes[0].places[0].clone() };
    plan.nodes[0].places.push(another);
    assert_eq!(accepted(&alone, &plan), 0);
    let stop = AllocStop { id: only_alloc(&alone, "there").id, description: String::new(), client: None };
    plan.nodes[0].stops.push(stop);
    assert_eq!(accepted(&alone, &plan), 1, "what is told to end leaves its place");
}

#[test]
fn who_makes_way_is_evicted_and_its_job_looked_at_again_in_one_entry() {
    let mut alone = crowded();
    let low = only_alloc(&alone, "low");
    work(&mut alone, vec![registers(sized("high", 30, 900))]);
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
fn what_changed_meanwhile_makes_way_for_nothing() {
    let changes: [fn(&mut Alone, &Allocation); 4] = [
        // it has ended
        |alone, low| {
            let (client, client_description) = (ClientStatus::Complete, String::new());
            let updates =
                vec![AllocUpdate { id: low.id, client, client_description, task_states: BTreeMap::new() }];
            let node = low.node_id;
            let command = Command::UpdateAllocs { node, updates, verdicts: vec![], evals: vec![], at: AT };
            alone.server.propose(&command, Op::Unattended).expect("it leads");
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
            alone.server.propose(&command, Op::Unattended).expect("it leads");
            alone.turn(vec![]);
        },
        // its job is as urgent now
        |alone, _| drop(alone.submit(sized("low", 45, 900))),
        // somebody else, under way, has its room
        |alone, low| {
            let taken = Taken { leaving: vec![low.id], ..Taken::default() };
            alone.server.in_flight.add(u64::MAX, vec![(low.node_id, taken)]);
        },
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut alone = crowded();
        let low = only_alloc(&alone, "low");
        let (_, decision) = decided(&mut alone, sized("high", 50, 900));
        assert_eq!(decision.plan.preemptions().map(|(_, id)| id).collect::<Vec<_>>(), [low.id]);
        assert_eq!(accepted(&alone, &decision.plan), 1);
        change(&mut alone, &low);
        assert_eq!(accepted(&alone, &decision.plan), 0, "change {n}");
    }
}

#[test]
fn what_makes_way_is_neither_changed_nor_counted_twice_by_plans_that_do_not_know_it() {
    let mut alone = crowded();
    let low = only_alloc(&alone, "low");
    let place = |alloc: Allocation| NodePlan { node_id: low.node_id, stops: vec![], places: vec![alloc] };
    let in_place = |alone: &Alone| {
        let changed = Allocation { job_modify_index: 99, ..low.clone() };
        accepted(alone, &Plan { nodes: vec![place(changed)], ..Plan::default() })
    };
    let moved = |alone: &Alone| {
        let mut new = low.clone();
        (new.id, new.create_index) = (state::samples::alloc_id(99), 0);
        let stop = AllocStop { id: low.id, description: String::new(), client: None };
        let part = NodePlan { stops: vec![stop], ..place(new) };
        accepted(alone, &Plan { nodes: vec![part], ..Plan::default() })
    };
    assert_eq!((in_place(&alone), moved(&alone)), (1, 1));
    let taken = Taken { leaving: vec![low.id], ..Taken::default() };
    alone.server.in_flight.add(u64::MAX, vec![(low.node_id, taken)]);
    assert_eq!((in_place(&alone), moved(&alone)), (0, 0), "while that is under way");
    alone.server.in_flight.settle(u64::MAX);
    work(&mut alone, vec![registers(sized("high", 50, 900))]);
    assert_eq!(only_alloc(&alone, "low").desired, DesiredStatus::Evict);
    assert_eq!((in_place(&alone), moved(&alone)), (0, 0), "and afterwards");
}
