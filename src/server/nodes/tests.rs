//! What nodes say to one server without a world, and what their silence means.

use super::super::context::MAX_EVALS_PER_ENTRY;
use super::super::effects::{Effect, Input};
use super::super::testing::{Alone, asks, registration};
use super::*;
use model::alloc::StateChange;
use model::constraint::Constraint;
use model::eval::Trigger;
use model::id::JobKey;
use model::job::{DisconnectPolicy, JobType, Reconcile};
use model::member::{Generation, ServerAddress, ServerInfo};
use model::plan::NodePlan;
use model::time::Now;
use state::samples::{AT, info, node_id, server_info, spec};
use wire::command::{AllocUpdate, MemberChange};
use wire::frame::{self, Body, Frame};
use wire::request::{WriteReply, WriteRequest};
use wire::rpc::{NodeRequest, Peer};

fn says(info: &NodeInfo, request: NodeRequest) -> Input {
    let bytes = frame::encode(&Frame { request: 1, body: Body::Request(request) });
    Input::Frame { from: Peer::Node(info.id), bytes }
}

/// What a node is answered within a turn.
fn answer(alone: &mut Alone, info: &NodeInfo, request: NodeRequest) -> Option<NodeReply> {
    alone.turn(vec![says(info, request)]).effects.into_iter().find_map(|effect| reply_to(info, effect))
}

fn reply_to(info: &NodeInfo, effect: Effect) -> Option<NodeReply> {
    match effect {
        Effect::Send { to: Peer::Node(node), bytes } if node == info.id => match frame::decode(&bytes) {
            Ok(Frame { body: Body::Reply(reply), .. }) => Some(reply),
            other => panic!("{other:?}"),
        },
        _ => None,
    }
}

#[test]
fn a_watch_is_answered_with_the_states_generation() {
    let mut alone = Alone::with(|_| {});
    let info = info(1);
    alone.add_node(info.clone());
    let (node, secret, since) = (info.id, info.secret, alone.view().index());
    let generation = Generation { region_id: alone.server.region(), restores: 0 };
    let servers = ServerList::of(&alone.view().members().unwrap()).index;
    let mut ask = |generation, since| {
        let request = NodeRequest::Watch { node, secret, generation, since, servers };
        answer(&mut alone, &info, request)
    };
    assert_eq!(ask(generation, since), None, "nothing is newer");
    let others = [Generation { restores: 1, ..generation }, Generation::default()];
    for (other, since) in [(others[0], since), (others[1], since), (generation, 0)] {
        let Some(NodeReply::Watched { generation: told, set, servers }) = ask(other, since) else {
            panic!("{other:?}")
        };
        assert_eq!((told, set.wanted.len()), (generation, 0));
        assert_eq!(servers.is_some(), other != generation, "a list that the node has is not told again");
    }
}

#[test]
fn a_changed_server_list_answers_a_nodes_watch() {
    let mut alone = Alone::with(|_| {});
    let info = info(1);
    alone.add_node(info.clone());
    let (node, secret, since) = (info.id, info.secret, alone.view().index());
    let generation = Generation { region_id: alone.server.region(), restores: 0 };
    let watch = |servers| NodeRequest::Watch { node, secret, generation, since, servers };
    let Some(NodeReply::Watched { servers: Some(list), .. }) = answer(&mut alone, &info, watch(0)) else {
        panic!("it has none")
    };
    let id = alone.server.id();
    let mut server = ServerInfo { rpc_addr: "10.0.0.9:4647".into(), ..server_info("alone") };
    assert_eq!(list.servers, [ServerAddress { id, rpc_addr: server_info("alone").rpc_addr }]);
    assert_eq!(answer(&mut alone, &info, watch(list.index)), None, "it has that one");
    server.feature_level = alone.server.config.info.feature_level;
    alone.append(&Command::ChangeMember(Box::new(MemberChange::Update { id, info: server })));
    let told: Vec<ServerList> = (0..3)
        .flat_map(|_| alone.turn(vec![]).effects)
        .filter_map(|effect| match reply_to(&info, effect) {
            Some(NodeReply::Watched { servers, .. }) => servers,
            _ => None,
        })
        .collect();
    let [moved] = &told[..] else { panic!("{told:?}") };
    assert_eq!(moved.servers, [ServerAddress { id, rpc_addr: "10.0.0.9:4647".into() }]);
    assert!(moved.index > list.index);
}

#[test]
fn a_changed_ready_node_evaluates_system_jobs() {
    type Case = (&'static str, &'static str, fn(&mut NodeInfo));
    let changes: [Case; 2] = [
        ("${meta.rack}", "r1", |info| drop(info.meta.insert("rack".into(), "r1".into()))),
        ("${node.class}", "r1", |info| info.class = "r1".into()),
    ];
    for (left, right, change) in changes {
        let mut alone = Alone::with(|_| {});
        let mut info = info(1);
        alone.add_node(info.clone());
        let constraint = Constraint { left: left.into(), operand: "=".into(), right: right.into() };
        let job = JobSpec { job_type: JobType::System, constraints: vec![constraint], ..spec("sys", 1) };
        alone.work(vec![asks(registration(job))]);
        assert_eq!(alone.allocs("sys"), [], "{left}");
        change(&mut info);
        let request = NodeRequest::Register { info: Box::new(info.clone()) };
        assert_eq!(alone.work(vec![says(&info, request)]), 1, "{left}");
        assert_eq!(alone.allocs("sys").len(), 1, "{left}");
        let evals = alone.view().evals_of_job(&JobKey::new("default", "sys")).unwrap();
        let changed = alone.node(info.id).modify_index;
        let told = evals.iter().filter(|e| e.create_index == changed).count();
        assert_eq!(told, 1, "{left}: in one entry with the change");
    }
}

#[test]
fn after_a_failover_a_silent_node_has_the_configured_time() {
    let ttl = Span::seconds(7);
    let mut alone = Alone::with(|config| config.heartbeats.failover_ttl = ttl);
    alone.add_node(info(1));
    alone.change_leader();
    let now = Now { mono: alone.now, wall: Some(alone.wall) };
    let due = alone.now.after(ttl);
    let status_at = |alone: &mut Alone, mono: Mono| {
        alone.server.turn(Now { mono, ..now }, vec![]);
        alone.node(node_id(1)).status
    };
    assert_eq!(status_at(&mut alone, Mono(due.0 - 1)), NodeStatus::Ready);
    assert_eq!(status_at(&mut alone, due), NodeStatus::Down);
}

/// Also when the clock ran a day ahead as it was found unknown, and was set right since.
#[test]
fn a_silent_nodes_allocation_is_waited_for_until_lost_after() {
    let mut alone = Alone::with(|_| {});
    let info = info(1);
    alone.add_node(info.clone());
    let mut spec = spec("a", 1);
    let (lost_after, reconcile) = (Some(Span::seconds(60)), Reconcile::BestScore);
    let policy = DisconnectPolicy { lost_after, stop_on_client_after: None, replace: true, reconcile };
    spec.groups[0].disconnect = Some(policy);
    alone.work(vec![asks(registration(spec))]);
    let mut away = alone.allocs("a").remove(0);
    assert!(has_alloc_within_lost_after(&alone.view(), info.id, AT).unwrap(), "nobody has looked yet");
    away.client = ClientStatus::Unknown;
    away.states.push(StateChange { status: ClientStatus::Unknown, at: AT });
    let nodes = vec![NodePlan { node_id: info.id, stops: vec![], places: vec![away.clone()] }];
    let (eval, deployment, updates, evals) = (away.eval_id, None, vec![], vec![]);
    alone.append(&Command::ApplyPlan { eval, nodes, deployment, updates, evals, at: AT });
    alone.turn(vec![]);
    for (seconds, waits) in [(59, true), (60, false), (-86_400, false)] {
        let at = AT + Span::seconds(seconds);
        assert_eq!(has_alloc_within_lost_after(&alone.view(), info.id, at).unwrap(), waits, "{seconds}");
    }
    let mut back = alone.node(info.id);
    (back.status, back.status_updated) = (NodeStatus::Initializing, AT);
    (back.last_missed_heartbeat_index, back.last_alloc_update_index) = (2, 1);
    for (seconds, waits) in [(59, true), (60, false), (-86_400, false)] {
        let at = AT + Span::seconds(seconds);
        assert_eq!(awaits_reports(&back, &alone.view(), at).unwrap(), waits, "{seconds}: its report");
    }
}

#[test]
fn a_server_behind_its_node_refuses_reports() {
    let mut alone = Alone::with(|_| {});
    let info = info(1);
    alone.add_node(info.clone());
    let end = alone.server.replica.applied();
    let unknown = AllocUpdate {
        id: AllocId::from_random(9),
        client: ClientStatus::Complete,
        client_description: String::new(),
        task_states: BTreeMap::new(),
    };
    for (seen, wanted) in [(end, NodeReply::Reported { index: end }), (end + 1, NodeReply::NoLeader)] {
        let report = NodeRequest::report(info.id, info.secret, seen, &[(unknown.clone(), None)]);
        assert_eq!(answer(&mut alone, &info, report), Some(wanted), "{seen} of {end}");
    }
}

#[test]
fn surplus_evaluations_follow_in_further_entries() {
    let mut alone = Alone::with(|_| {});
    let mut jobs = MAX_EVALS_PER_ENTRY + 3;
    while jobs > 0 {
        let now = jobs.min(64);
        let job =
            |n| asks(registration(JobSpec { job_type: JobType::System, ..spec(&format!("sys{n}"), 1) }));
        alone.turn((0..now).map(|n| job(jobs - n)).collect());
        jobs -= now;
    }
    let node = alone.add_node(info(1));
    alone.turns(3);
    let (answer, _) = alone.ask(WriteRequest::EvaluateNode { node });
    let Ok(WriteReply::Evals { evals: told, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(told.len(), MAX_EVALS_PER_ENTRY + 3);
    alone.turns(3);
    let mut entries = std::collections::BTreeMap::<u64, usize>::new();
    let evals = alone.view().evals(None, usize::MAX).unwrap().into_iter();
    evals
        .filter(|e| e.trigger == Trigger::NodeUpdate)
        .for_each(|e| *entries.entry(e.create_index).or_default() += 1);
    let counts: Vec<usize> = entries.into_values().collect();
    assert_eq!(
        counts,
        [MAX_EVALS_PER_ENTRY, 3, MAX_EVALS_PER_ENTRY, 3],
        "each job, in entries that are bounded"
    );
}
