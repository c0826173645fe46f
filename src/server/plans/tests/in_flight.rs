//! What happens between a plan's proposal and its application.

use super::*;
use model::claims::{HeldNetwork, HeldPort};
use model::resources::AllocResources;
use state::samples::alloc_id;

/// The worker's answer comes in the turn in which the node's time is over.
#[test]
fn nothing_is_placed_on_a_node_that_is_about_to_be_down() {
    let mut alone = Alone::new(SchedulerSettings::default());
    node_comes(&mut alone, 1, 1_000);
    // a new leader expects the nodes of the state to be heard of
    alone.change_leader();
    let (token, decision) = decided(&mut alone, sized("a", 50, 100));
    assert_eq!(decision.plan.nodes.len(), 1, "it has a place");
    let eval = decision.plan.eval_id;
    alone.now = alone.leader().nodes.next_expiry().expect("the node is expected");
    alone.turn(vec![Input::Planned { eval, token, result: Ok(Box::new(decision)) }]);
    alone.turns(5);
    assert_eq!(alone.node(node_id(1)).status, NodeStatus::Down);
    assert_eq!(alone.allocs("a"), [], "nobody would ever replace it");
}

/// The plan was on its way when the node's time was over.
#[test]
fn jobs_placed_while_their_node_went_down_are_evaluated() {
    let mut alone = Alone::new(SchedulerSettings::default());
    node_comes(&mut alone, 1, 1_000);
    let (_, Decision { plan, .. }) = decided(&mut alone, sized("a", 50, 100));
    let (eval, nodes) = (plan.eval_id, plan.nodes);
    alone.propose(&Command::ApplyPlan {
        eval,
        nodes,
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    let (node, status) = (node_id(1), NodeStatus::Down);
    alone.propose(&Command::UpdateNodeStatus { node, status, event: None, evals: vec![], at: AT });
    alone.turns(5);
    assert_eq!(alone.allocs("a").len(), 1);
    let evals = alone.view().evals_of_job(&JobKey::new("default", "a")).expect("reads");
    assert!(evals.iter().any(|e| e.trigger == Trigger::NodeUpdate), "{evals:?}");
}

/// A change in place may make room, and so may a preemption of what it changes: that is one room.
#[test]
fn an_alloc_that_a_plan_in_flight_changes_is_not_preempted() {
    let mut alone = crowded();
    let low = only_alloc(&alone, "low");
    let (token, high) = decided(&mut alone, sized("high", 80, 900));
    assert_eq!(accepted(&mut alone, &high.plan), 1);
    let mut smaller = low.clone();
    smaller.resources.tasks.values_mut().for_each(|task| task.cpu_mhz = 100);
    let part = NodePlan { node_id: low.node_id, stops: vec![], places: vec![smaller] };
    let in_place = Plan { nodes: vec![part], ..Plan::default() };
    let view = alone.view();
    let taken =
        alone.leader().plans.verify(&in_place, &view).expect("reads").remove(0).expect("it needs less");
    alone.leader().plans.submit((high.plan.eval_id, token), vec![(low.node_id, taken)]);
    assert_eq!(accepted(&mut alone, &high.plan), 0);
}

/// Which may take long where a majority of the servers is slow.
#[test]
fn room_that_an_end_frees_under_a_plan_in_flight_counts_once() {
    let mut alone = crowded();
    let low = only_alloc(&alone, "low");
    let (token, high) = decided(&mut alone, sized("high", 80, 900));
    let view = alone.view();
    let taken =
        alone.leader().plans.verify(&high.plan, &view).expect("reads").remove(0).expect("it preempts");
    let key = (high.plan.eval_id, token);
    alone.leader().plans.submit(key, vec![(low.node_id, taken)]);
    let asks_for = |cpu_mhz: i64| {
        let mut new = low.clone();
        (new.id, new.create_index) = (state::samples::alloc_id(99), 0);
        new.resources.tasks.values_mut().for_each(|task| task.cpu_mhz = cpu_mhz);
        let part = NodePlan { node_id: low.node_id, stops: vec![], places: vec![new] };
        Plan { nodes: vec![part], ..Plan::default() }
    };
    let fits = |alone: &mut Alone, cpu_mhz| accepted(alone, &asks_for(cpu_mhz)) == 1;
    assert!(fits(&mut alone, 100) && !fits(&mut alone, 101));
    alone.append(&ends(low.id, low.node_id));
    alone.turn(vec![]);
    assert!(only_alloc(&alone, "low").client_terminal());
    assert!(fits(&mut alone, 100) && !fits(&mut alone, 101), "the plan in flight has the rest");
    alone.leader().plans.finish(key);
    assert!(fits(&mut alone, 1_000), "nothing is counted any more");
}

/// Its ports, too.
#[test]
fn what_a_plan_changes_of_an_ended_allocation_is_forgotten() {
    let on_port = |value: u16| {
        let port = HeldPort { value, host_ip: "10.0.0.1".into(), ..HeldPort::default() };
        let network = HeldNetwork { ports: vec![port], ..HeldNetwork::default() };
        AllocResources { networks: vec![network], ..AllocResources::default() }
    };
    let low = only_alloc(&crowded(), "low");
    let known = |n: u16| Allocation { id: alloc_id(n.into()), resources: on_port(8_000 + n), ..low.clone() };
    let mut taken = Taken::default();
    taken.take(on_port(9_000).holding());
    taken.change(&known(1), on_port(9_001).holding());
    taken.change(&known(2), Holding::default());
    let claim = |value: u16| Claim::Port("10.0.0.1".parse().expect("an address"), value);
    let more = |taken: &Taken| [8_001, 8_002, 9_000, 9_001].map(|port| taken.more(&claim(port)));
    assert_eq!(more(&taken), [-1, -1, 1, 1]);
    taken.forget(alloc_id(2));
    assert_eq!(more(&taken), [-1, 0, 1, 1]);
    taken.forget(alloc_id(1));
    taken.forget(alloc_id(1));
    assert_eq!(more(&taken), [0, 0, 1, 0], "what is placed anew stays");
    assert_eq!(taken.amount, on_port(9_000).holding().amount);
}

/// Whatever a worker of another server says: what an allocation holds is given back once.
#[test]
fn an_alloc_is_changed_once_by_plans_in_flight() {
    let mut alone = crowded();
    let low = only_alloc(&alone, "low");
    let mut smaller = low.clone();
    smaller.resources.tasks.values_mut().for_each(|task| task.cpu_mhz = 100);
    let mut new = low.clone();
    (new.id, new.create_index) = (alloc_id(99), 0);
    new.resources.tasks.values_mut().for_each(|task| task.cpu_mhz = 100);
    let part = |stops: usize, places: &[Allocation]| NodePlan {
        node_id: low.node_id,
        stops: vec![stop(low.id); stops],
        places: places.to_vec(),
    };
    let plan = |nodes| Plan { nodes, ..Plan::default() };
    let (updates, stops) = (part(0, std::slice::from_ref(&smaller)), part(1, std::slice::from_ref(&new)));
    for (nodes, fit) in [
        (vec![updates.clone(), stops.clone()], 1),
        (vec![stops.clone(), updates.clone()], 1),
        (vec![part(2, std::slice::from_ref(&new))], 0),
        (vec![part(0, &[smaller.clone(), smaller.clone()])], 0),
        (vec![NodePlan { node_id: node_id(99), ..updates.clone() }], 0),
    ] {
        assert_eq!(accepted(&mut alone, &plan(nodes.clone())), fit, "{nodes:?}");
    }
    for under_way in [&updates, &stops] {
        let view = alone.view();
        let taken =
            alone.leader().plans.verify(&plan(vec![under_way.clone()]), &view).expect("reads").remove(0);
        let key = (EvalId::from_random(7), EvalToken::from_random(7));
        alone.leader().plans.submit(key, vec![(low.node_id, taken.expect("it fits"))]);
        assert_eq!(accepted(&mut alone, &plan(vec![updates.clone()])), 0);
        assert_eq!(accepted(&mut alone, &plan(vec![stops.clone()])), usize::from(under_way == &stops));
        alone.leader().plans.finish(key);
    }
}
