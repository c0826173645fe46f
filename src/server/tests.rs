//! What becomes of those who wait, and of a leader's parts, when a server is deposed. Deposed is a leader whose term is not that
//! of its raft group any more.

use super::broker::DELIVERY_LIMIT;
use super::effects::Effect;
use super::joining::tests::Meeting;
use super::pending::AfterPlan;
use super::testing::{Alone, asks, registration};
use super::*;
use model::eval::{EvalStatus, Evaluation};
use model::id::{EvalId, EvalToken};
use model::job::JobType;
use model::member::{Generation, ServerList};
use model::node::NodeStatus;
use model::plan::{AllocStop, NodePlan};
use model::time::{Now, Span};
use state::samples::{eval, info, namespace, node_id, spec};
use std::collections::BTreeSet;
use wire::frame::{self, Body, Frame};
use wire::rpc::{NodeRequest, Peer};
use wire::server_rpc::{ServerReply, ServerRequest};

const TOKEN: u64 = 40;

impl Alone {
    /// Another server is elected in the term after the one in which this one leads.
    fn depose(&mut self) {
        self.leader().term -= 1;
    }

    /// The next leader's entry.
    fn append_as_next_leader(&mut self, command: &Command) {
        self.server.replica.propose(command).expect("leads");
    }

    fn term(&self) -> u64 {
        self.server.replica.raft().term()
    }
}

fn deletes(name: &str) -> Command {
    Command::DeleteNodePool { name: name.into() }
}

/// What the turn answers to `TOKEN`.
fn answers(turn: Turn) -> Vec<Result<WriteReply, Refusal>> {
    let answer = |effect| match effect {
        Effect::Reply { token: TOKEN, result } => Some(result),
        _ => None,
    };
    turn.effects.into_iter().filter_map(answer).collect()
}

fn refusals(turn: Turn) -> Vec<String> {
    answers(turn).into_iter().map(|answer| answer.expect_err("is refused").message).collect()
}

#[test]
fn a_deposed_leader_does_not_know_what_was_not_committed() {
    let mut alone = Alone::with(|_| {});
    let position = (alone.server.replica.applied() + 5, alone.term());
    alone.server.pending.insert(position, OnApply::Reply { token: TOKEN });
    alone.depose();
    assert_eq!(refusals(alone.turn(vec![])), [UNKNOWN]);
    alone.append_as_next_leader(&deletes("none"));
    assert_eq!(answers(alone.turn(vec![])), [], "it was answered");
}

#[test]
fn a_deposed_leader_answers_nobody_with_anothers_result() {
    let mut alone = Alone::with(|_| {});
    let ours = (alone.server.replica.applied() + 1, alone.term() - 1);
    alone.server.pending.insert(ours, OnApply::Reply { token: TOKEN });
    alone.depose();
    alone.append_as_next_leader(&namespace("other", ""));
    let turn = alone.turn(vec![]);
    assert!(alone.view().namespace("other").unwrap().is_some(), "the next leader's entry is applied");
    assert_eq!(refusals(turn), [REPLACED], "it is at the index of ours");
}

#[test]
fn a_deposed_leader_answers_what_was_committed_as_done() {
    let mut alone = Alone::with(|_| {});
    let command = namespace("ours", "");
    let then = OnApply::Reply { token: TOKEN };
    alone.server.propose(Proposal { command, then }, alone.now);
    alone.depose();
    let answers = answers(alone.turn(vec![]));
    let index = alone.server.replica.applied();
    assert_eq!(answers, [Ok(WriteReply::Written { index })]);
}

#[test]
fn stepping_down_drops_the_parts_and_answers_all() {
    let mut alone = Alone::with(|_| {});
    let node = info(1);
    alone.add_node(node.clone());
    let task = alone.tasks(vec![asks(registration(spec("a", 1)))]).remove(0);
    alone.submit(spec("b", 1));
    let index = alone.view().index();
    let generation = Generation { region_id: alone.server.region(), restores: 0 };
    let servers = ServerList::of(&alone.view().members().unwrap()).index;
    let (id, secret, since) = (node.id, node.secret, index);
    let request = NodeRequest::Watch { node: id, secret, generation, since, servers };
    let bytes = frame::encode(&Frame { request: 7, body: Body::Request(request) });
    let effects = alone.turn(vec![Input::Frame { from: Peer::Node(node.id), bytes }]).effects;
    assert!(effects.is_empty(), "the watch is open: {effects:?}");
    alone.depose();
    let turn = alone.turn(vec![Input::Request { token: TOKEN, action: registration(spec("c", 1)) }]);
    let told = turn.effects.iter().find_map(|effect| match effect {
        Effect::Send { to, bytes } => Some((*to, frame::decode(bytes).expect("is a frame"))),
        _ => None,
    });
    let (to, told) = told.expect("the watch is answered");
    assert_eq!((to, told.request), (Peer::Node(node_id(1)), 7));
    assert!(matches!(told.body, Body::Reply(NodeReply::NoLeader)), "{told:?}");
    assert_eq!(turn.reservations, [ReservationChange::ReleaseAll]);
    assert_eq!(refusals(turn), [NO_LEADER], "what is in no log is refused");
    assert_eq!((alone.server.draining(), alone.server.status().ready), (None, false));
    assert_eq!(alone.server.status().broker, Default::default());
    let late = alone.planned(&task);
    let (eval, token) = (task.eval.id, task.token);
    let turn = alone.turn(vec![late]);
    assert_eq!(turn.reservations, [ReservationChange::Release { eval, token }]);
    assert_eq!(alone.allocs("a"), [], "what a worker says too late is nothing");
}

#[test]
fn a_new_leader_rebuilds_its_queues_from_the_state() {
    let mut alone = Alone::with(|_| {});
    for id in ["a", "b"] {
        alone.submit(spec(id, 1));
    }
    let open: BTreeSet<EvalId> = alone.open().into_iter().collect();
    alone.depose();
    alone.turn(vec![]);
    assert!(alone.server.leadership.leader().is_none());
    alone.append_as_next_leader(&deletes("none"));
    alone.turn(vec![]);
    let queued = alone.leader().evals.broker().contents();
    assert_eq!(open.len(), 2);
    assert_eq!(queued, open);
}

#[test]
fn writes_are_bounded_by_what_is_under_way() {
    let mut alone = Alone::with(|_| {});
    let next = alone.server.replica.applied() + 1_000;
    for n in 0..MAX_PENDING as u64 {
        alone.server.pending.insert((next + n, alone.term()), OnApply::Nothing);
    }
    let turn = alone.turn(vec![Input::Request { token: TOKEN, action: registration(spec("a", 1)) }]);
    assert_eq!(refusals(turn), ["too many writes are under way: try again shortly"]);
}

#[test]
fn a_second_answer_of_a_worker_is_ignored() {
    let mut alone = Alone::with(|_| {});
    alone.add_node(info(1));
    let task = alone.tasks(vec![asks(registration(spec("a", 1)))]).remove(0);
    let answers = vec![alone.planned(&task), alone.planned(&task)];
    alone.turn(answers);
    alone.now = alone.now.after(Span::seconds(1));
    alone.turns(2);
    assert_eq!(alone.allocs("a").len(), 1);
}

/// A worker of another server that is broken, or no worker.
#[test]
fn a_worker_that_decides_on_another_evaluation_has_failed() {
    for names in [(true, false), (false, true), (true, true)] {
        let mut alone = Alone::with(|_| {});
        alone.work(vec![asks(registration(spec("a", 1)))]);
        let view = alone.view();
        let blocked = view.open_evals().unwrap().remove(0);
        assert_eq!(blocked.status, EvalStatus::Blocked, "there is no node");
        let task = alone.tasks(vec![asks(registration(spec("b", 1)))]).remove(0);
        let Input::Planned { eval, token, result: Ok(mut decision) } = alone.planned(&task) else {
            panic!("a worker decides")
        };
        assert!(decision.plan.is_no_op() && eval != blocked.id);
        decision.created.clear();
        if names.0 {
            decision.eval = blocked.clone();
        }
        if names.1 {
            decision.plan.eval_id = blocked.id;
        }
        let turn = alone.turn(vec![Input::Planned { eval, token, result: Ok(decision) }]);
        assert_eq!(turn.reservations, [ReservationChange::Release { eval, token }]);
        assert_eq!(alone.view().eval(blocked.id).unwrap(), Some(blocked));
        alone.now = alone.now.after(Span::minutes(1));
        let again: Vec<EvalId> = alone.tasks(vec![]).iter().map(|task| task.eval.id).collect();
        assert_eq!(again, [eval], "it is given out again, as one that a worker has failed on");
    }
}

/// An answer goes to the asker: its watch would take the place of the other node's.
#[test]
fn requests_in_the_name_of_another_node_are_refused() {
    let mut alone = Alone::with(|_| {});
    let (node, other) = (info(1), info(2));
    for info in [&node, &other] {
        alone.add_node(info.clone());
    }
    let (id, secret, generation) = (node.id, node.secret, Generation::default());
    let requests = [
        NodeRequest::Register { info: Box::new(node) },
        NodeRequest::Heartbeat { node: id, secret },
        NodeRequest::Watch { node: id, secret, generation, since: 0, servers: 0 },
        NodeRequest::Fetch { node: id, secret, allocs: vec![] },
        NodeRequest::report(id, secret, 0, &[]),
    ];
    for (n, request) in requests.into_iter().enumerate() {
        let relayed = ServerRequest::Node { node: other.id, request: request.clone() };
        for (from, body) in
            [(Peer::Node(other.id), Body::Request(request)), (Peer::Server(2), Body::ServerRequest(relayed))]
        {
            let bytes = frame::encode(&Frame { request: 7, body });
            let effects = alone.turn(vec![Input::Frame { from, bytes }]).effects;
            let [Effect::Send { to, bytes }] = &effects[..] else { panic!("{n}: {effects:?}") };
            assert_eq!(*to, from);
            let reply = match frame::decode(bytes).expect("is a frame").body {
                Body::Reply(reply) | Body::ServerReply(ServerReply::Node { reply, .. }) => reply,
                body => panic!("{body:?}"),
            };
            let is_refused = |message: &str| message.contains("for itself alone");
            assert!(
                matches!(&reply, NodeReply::Refused { message } if is_refused(message)),
                "{n}: {reply:?}"
            );
        }
    }
}

/// What a node asks, as the server that it is connected to passes it on.
fn relayed(from: Peer) -> Input {
    let node = info(1);
    let request = NodeRequest::Heartbeat { node: node.id, secret: node.secret };
    let body = Body::ServerRequest(ServerRequest::Node { node: node.id, request });
    Input::Frame { from, bytes: frame::encode(&Frame { request: 7, body }) }
}

#[test]
fn a_relayed_request_is_answered_through_its_server() {
    let mut alone = Alone::with(|_| {});
    alone.add_node(info(1));
    let effects = alone.turn(vec![relayed(Peer::Server(2))]).effects;
    let [Effect::Send { to: Peer::Server(2), bytes }] = &effects[..] else { panic!("{effects:?}") };
    let told = frame::decode(bytes).expect("is a frame");
    assert_eq!(told.request, 7, "under the node's own number");
    let Body::ServerReply(ServerReply::Node { node, reply }) = told.body else { panic!("{told:?}") };
    assert!(node == node_id(1) && matches!(reply, NodeReply::Alive { .. }), "{reply:?}");
    let reply = ServerReply::Node { node, reply };
    let back = frame::encode(&Frame { request: 7, body: Body::ServerReply(reply) });
    let effects = alone.turn(vec![Input::Frame { from: Peer::Server(3), bytes: back }]).effects;
    let [Effect::Send { to, bytes }] = &effects[..] else { panic!("{effects:?}") };
    let told = frame::decode(bytes).expect("is a frame");
    assert_eq!((*to, told.request), (Peer::Node(node), 7));
    assert!(matches!(told.body, Body::Reply(NodeReply::Alive { .. })), "{told:?}");
}

/// A node that asks a follower of two others, whose leader gives no answer.
#[test]
fn what_a_lost_link_may_have_carried_is_asked_again() {
    let mut meeting = Meeting::of(&[(5, 3), (6, 3), (7, 3)]);
    meeting.run(Span::seconds(10));
    let n = meeting.servers.iter().position(|server| server.other_leader().is_some());
    let mut follower = meeting.servers.swap_remove(n.expect("two follow"));
    let leader = follower.other_leader().expect("another one leads");
    let another = [5, 6, 7].into_iter().find(|id| ![leader, follower.id()].contains(id)).expect("a third");
    let mut now = meeting.now;
    let mut told = |inputs| {
        now = now.after(Span::millis(20));
        let effects = follower.turn(Now { mono: now, wall: Some(state::samples::AT) }, inputs).effects;
        let replies = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { to: Peer::Node(_), bytes } => frame::decode(&bytes).ok(),
            _ => None,
        });
        replies.map(|frame| (frame.request, frame.body)).collect::<Vec<_>>()
    };
    let node = info(1);
    let asked = |request| {
        let body = Body::Request(NodeRequest::Heartbeat { node: node.id, secret: node.secret });
        vec![Input::Frame { from: Peer::Node(node.id), bytes: frame::encode(&Frame { request, body }) }]
    };
    let changes: [fn(u64) -> Input; 2] = [|peer| Input::LinkDown { peer }, |peer| Input::LinkUp { peer }];
    for (change, number) in changes.into_iter().zip([10, 20]) {
        assert_eq!(told(asked(number)), []);
        assert_eq!(told(vec![change(another)]), []);
        assert_eq!(told(vec![change(leader)]), [(number, Body::Reply(NodeReply::NoLeader))]);
        assert_eq!(told(asked(number + 1)), []);
        let gone = Input::NodeLinkDown { node: node_id(1) };
        assert_eq!(told(vec![gone, change(leader)]), [], "nobody waits");
    }
}

#[test]
fn a_node_does_not_speak_for_a_server() {
    let mut alone = Alone::with(|_| {});
    alone.add_node(info(1));
    let effects = alone.turn(vec![relayed(Peer::Node(node_id(1)))]).effects;
    assert!(effects.is_empty(), "{effects:?}");
}

/// The leader of two, for which raft takes nothing more: the other one hears nothing, and what is not committed has filled its bound.
fn nothing_is_taken() -> (Meeting, usize) {
    let mut meeting = Meeting::of(&[(5, 2), (6, 2)]);
    meeting.run(Span::seconds(10));
    let leader =
        meeting.servers.iter().position(|server| server.leadership.leader().is_some()).expect("one leads");
    for bytes in [2_000_000, 50_000, 1_000, 10, 1] {
        let fills = deletes(&"x".repeat(bytes));
        while meeting.servers[leader].replica.propose(&fills).is_ok() {}
    }
    (meeting, leader)
}

fn propose(server: &mut Server, names: std::ops::RangeInclusive<usize>) {
    names.for_each(|n| server.outbox.propose(deletes(&n.to_string()), OnApply::Nothing));
}

/// No entry can hold it, however often a worker makes it again.
#[test]
fn a_plan_larger_than_an_entry_fails_at_once_and_says_why() {
    let mut meeting = Meeting::of(&[(5, 2), (6, 2)]);
    meeting.run(Span::seconds(10));
    let n =
        meeting.servers.iter().position(|server| server.leadership.leader().is_some()).expect("one leads");
    let (server, now) = (&mut meeting.servers[n], meeting.now);
    let (eval, token) = (state::samples::eval(1, "web"), model::id::EvalToken::from_random(9));
    let broker = server.leadership.leader_mut().expect("it leads").evals.broker_mut();
    broker.enqueue(eval.clone(), now);
    broker.dequeue(&model::job::JobType::ALL, token, now).expect("it is ready");
    let stop = AllocStop { id: state::samples::alloc_id(1), description: "x".repeat(3 << 20), client: None };
    let nodes = vec![NodePlan { node_id: node_id(1), stops: vec![stop], places: vec![] }];
    let (deployment, updates, evals, at) = (None, vec![], vec![], state::samples::AT);
    let command = Command::ApplyPlan { eval: eval.id, nodes, deployment, updates, evals, at };
    server.outbox.propose(command, OnApply::Plan { eval: eval.id, token, next: AfterPlan::Ack });
    meeting.run(Span::millis(500));
    let server = &meeting.servers[n];
    let failed = server.reader().view().unwrap().eval(eval.id).unwrap().expect("it is written");
    let why = &failed.status_description;
    assert_eq!((failed.status, failed.next_eval), (EvalStatus::Failed, None), "{why}");
    assert!(why.contains("3145") && why.contains("at most 2097152 are allowed"), "{why}");
    assert!(why.contains("all_at_once"), "{why}");
    assert_eq!(server.status().broker, Default::default(), "the job's next evaluation may run");
}

/// Its node would count as one that is heard of, for good.
#[test]
fn a_silent_node_is_marked_down_once_raft_takes_proposals() {
    let (mut meeting, n) = nothing_is_taken();
    let (server, node, at) = (&mut meeting.servers[n], node_id(1), state::samples::AT);
    server.leadership.leader_mut().expect("it leads").plans.close(node);
    let command =
        Command::UpdateNodeStatus { node, status: NodeStatus::Down, event: None, evals: vec![], at };
    server.outbox.propose(command, OnApply::NodeDown { node });
    meeting.turn(n, vec![]);
    assert!(meeting.servers[n].outbox.has_returned(), "it is kept");
    meeting.run(Span::seconds(5));
    assert!(!meeting.servers[n].outbox.has_returned(), "it was taken");
}

#[test]
fn parts_wait_while_raft_refuses_proposals() {
    let (mut meeting, n) = nothing_is_taken();
    propose(&mut meeting.servers[n], 1..=1);
    meeting.turn(n, vec![]);
    let (server, now) = (&mut meeting.servers[n], meeting.now);
    let leader = server.leadership.leader_mut().expect("it leads");
    let broker = leader.evals.broker_mut();
    (1..=3).for_each(|n| broker.enqueue(state::samples::eval(n, "web"), now));
    let token = model::id::EvalToken::from_random(9);
    let eval = broker.dequeue(&model::job::JobType::ALL, token, now).expect("one is ready");
    broker.ack(eval.id, token, now).expect("it is delivered");
    assert!(leader.has_work(true), "one is superseded");
    meeting.turn(n, vec![]);
    let server = &meeting.servers[n];
    assert!(
        server.outbox.has_returned()
            && server.leadership.leader().is_some_and(|leader| leader.has_work(true))
    );
    assert_eq!(server.outbox.proposals(), 1, "the broker keeps what it wants to be canceled");
    assert!(server.next_deadline().is_some_and(|at| at > meeting.now), "it does not spin");
    meeting.run(Span::seconds(5));
    let server = &meeting.servers[n];
    let leader = server.leadership.leader().expect("it still leads");
    assert!(!server.outbox.has_returned() && !leader.has_work(true), "all of it was taken");
}

#[test]
fn a_leader_with_too_many_refused_proposals_steps_down() {
    let (mut meeting, n) = nothing_is_taken();
    propose(&mut meeting.servers[n], 1..=outbox::MAX_RETURNED);
    meeting.turn(n, vec![]);
    assert!(meeting.servers[n].leadership.leader().is_some(), "so much may wait");
    propose(&mut meeting.servers[n], 0..=0);
    meeting.turn(n, vec![]);
    meeting.turn(n, vec![]);
    let server = &meeting.servers[n];
    assert!(server.leadership.leader().is_none() && !server.replica.raft().is_leader());
    assert!(server.outbox.is_empty() && server.next_deadline().is_some());
    meeting.run(Span::seconds(10));
    assert!(
        meeting.servers.iter().any(|server| server.leadership.leader().is_some()),
        "somebody leads again"
    );
}

#[test]
fn a_failing_evaluation_that_is_canceled_frees_its_slot_once() {
    let mut alone = Alone::with(|_| {});
    let (leader, mut cx) = alone.split();
    let evals = &mut leader.evals;
    let (failing, next, newest) = (eval(1, "a"), eval(2, "a"), eval(3, "a"));
    evals.apply_change(&failing, &cx);
    let mut now = cx.now;
    for n in 0..DELIVERY_LIMIT {
        now = now.after(Span::minutes(1));
        let token = EvalToken::from_random(u128::from(n));
        evals.broker_mut().expire(now);
        assert!(evals.broker_mut().dequeue(&JobType::ALL, token, now).is_some());
        assert_eq!(evals.broker_mut().nack(failing.id, token, now), Ok(()));
    }
    evals.reap(&mut cx);
    evals.apply_change(&Evaluation { status: EvalStatus::Canceled, ..failing.clone() }, &cx);
    evals.apply_change(&next, &cx);
    evals.apply_change(&newest, &cx);
    evals.failure_applied(&failing);
    let token = EvalToken::from_random(7);
    let mut take = || evals.broker_mut().dequeue(&JobType::ALL, token, now).map(|eval| eval.id);
    assert_eq!(take(), Some(next.id));
    assert_eq!(take(), None, "the job's slot is taken");
}

#[test]
fn the_status_tells_where_the_log_ends() {
    let mut alone = Alone::with(|_| {});
    alone.turn(vec![]);
    let before = alone.server.status();
    assert_eq!(before.log.last_index, before.applied_index);
    alone.append_as_next_leader(&namespace("other", ""));
    let log = alone.server.status().log;
    assert_eq!(log.last_index, before.log.last_index + 1, "it is in the log");
    assert_eq!(log.commit_index, before.log.commit_index, "and not committed yet");
}
