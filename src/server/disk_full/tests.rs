//! What one server does of its own accord while its disk is full: nothing that is written. And what nodes are told.

use super::super::effects::{Effect, Input};
use super::super::reservations::ReservationChange;
use super::super::testing::{Alone, asks, registration};
use model::alloc::ClientStatus;
use model::node::{NodeInfo, NodeStatus};
use model::time::Span;
use state::checksum::info_digest;
use state::samples::{AT, info, spec};
use std::collections::BTreeMap;
use wire::command::{AllocUpdate, Command};
use wire::frame::{self, Body, Frame};
use wire::rpc::{NodeReply, NodeRequest, Peer};

const FULL: Input = Input::Space { free: false };
const FREE: Input = Input::Space { free: true };

impl Alone {
    fn log_end(&self) -> u64 {
        self.server.replica.raft().position().last_index
    }

    /// What the node is told within a turn.
    fn node_is_told(&mut self, info: &NodeInfo, request: NodeRequest) -> NodeReply {
        let bytes = frame::encode(&Frame { request: 1, body: Body::Request(request) });
        let turn = self.turn(vec![Input::Frame { from: Peer::Node(info.id), bytes }]);
        let reply = |effect: &Effect| match effect {
            Effect::Send { to: Peer::Node(_), bytes } => match frame::decode(bytes).expect("a frame").body {
                Body::Reply(reply) => Some(reply),
                _ => None,
            },
            _ => None,
        };
        turn.effects.iter().find_map(reply).expect("it is answered")
    }
}

#[test]
fn no_evals_are_dispatched_while_the_disk_is_full() {
    let mut alone = Alone::with(|_| {});
    alone.add_node(info(1));
    let task = alone.tasks(vec![asks(registration(spec("a", 1)))]).remove(0);
    let (late, end) = (alone.planned(&task), alone.log_end());
    let turn = alone.turn(vec![FULL, late]);
    let (eval, token) = (task.eval.id, task.token);
    assert_eq!(turn.reservations, [ReservationChange::Release { eval, token }]);
    let given = alone.tasks(vec![]);
    assert!(given.is_empty(), "{given:?}");
    alone.change_leader();
    assert_eq!(alone.tasks(vec![]).len(), 0, "nor does a new leader hand it out");
    assert_eq!((alone.log_end(), alone.allocs("a").len()), (end, 0));
    assert_eq!(alone.work(vec![FREE]), 1);
    assert_eq!(alone.allocs("a").len(), 1);
}

#[test]
fn an_evaluation_whose_plan_is_on_its_way_is_not_planned_again() {
    let mut alone = Alone::with(|_| {});
    alone.add_node(info(1));
    let task = alone.tasks(vec![asks(registration(spec("a", 1)))]).remove(0);
    let planned = alone.planned(&task);
    let given = alone.tasks(vec![planned, FULL, FREE]);
    assert!(given.is_empty(), "{given:?}");
    assert_eq!((alone.work(vec![]), alone.allocs("a").len()), (0, 1));
    let others = alone.tasks(vec![asks(registration(spec("b", 1)))]);
    assert_eq!(others.len(), 1, "the pause is over");
}

#[test]
fn heartbeats_count_and_writes_wait_while_the_disk_is_full() {
    let mut alone = Alone::with(|_| {});
    let (ready, new) = (info(1), info(2));
    alone.add_node(ready.clone());
    alone.propose(&Command::RegisterNode { info: Box::new(new.clone()), evals: vec![], at: AT });
    alone.turn(vec![FULL]);
    let end = alone.log_end();
    for info in [&ready, &new] {
        let request = NodeRequest::Heartbeat { node: info.id, secret: info.secret };
        let told = alone.node_is_told(info, request);
        assert!(matches!(told, NodeReply::Alive { .. }), "{told:?}");
    }
    let update = AllocUpdate {
        id: Default::default(),
        client: ClientStatus::Running,
        client_description: String::new(),
        task_states: BTreeMap::new(),
    };
    let report = NodeRequest::report(ready.id, ready.secret, end, &[(update, None)]);
    assert_eq!(alone.node_is_told(&ready, report), NodeReply::TryLater);
    alone.now = alone.now.after(Span::minutes(10));
    let clock = alone.server.clocks.own;
    assert_eq!(alone.leader().next_deadline(false, clock), None, "no turn is due");
    let register = NodeRequest::Register { info: Box::new(ready.clone()) };
    assert_eq!(alone.node_is_told(&ready, register), NodeReply::TryLater);
    alone.turns(5);
    assert_eq!(alone.log_end(), end, "nothing is written");
    alone.turn(vec![FREE]);
    alone.turns(3);
    let status = |info: &NodeInfo| alone.node(info.id).status;
    assert_eq!((status(&ready), status(&new)), (NodeStatus::Ready, NodeStatus::Down), "one was silent");
}

#[test]
fn answers_to_a_node_name_what_it_is_registered_as() {
    let mut alone = Alone::with(|_| {});
    let digest = |alone: &mut Alone, node: &NodeInfo, request| match alone.node_is_told(node, request) {
        NodeReply::Alive { info, .. } => info,
        told => panic!("{told:?}"),
    };
    let (first, mut changed) = (info(1), info(1));
    changed.class = "other".into();
    let mut registered = vec![];
    for node in [first, changed] {
        let known = digest(&mut alone, &node, NodeRequest::Register { info: Box::new(node.clone()) });
        let heartbeat = NodeRequest::Heartbeat { node: node.id, secret: node.secret };
        assert_eq!(digest(&mut alone, &node, heartbeat), known);
        registered.push(known);
    }
    assert_ne!(registered[0], registered[1]);
}

/// A late one is applied in the turn of the newest: the heartbeat after them tells the node so.
#[test]
fn each_registration_is_answered_with_its_own_digest() {
    let mut alone = Alone::with(|_| {});
    let (newest, mut late) = (info(1), info(1));
    late.class = "earlier".into();
    let register = |(request, info): (u64, &NodeInfo)| {
        let body = Body::Request(NodeRequest::Register { info: Box::new(info.clone()) });
        Input::Frame { from: Peer::Node(info.id), bytes: frame::encode(&Frame { request, body }) }
    };
    let turn = alone.turn([(1, &newest), (2, &late)].map(register).into());
    let told = turn.effects.iter().filter_map(|effect| match effect {
        Effect::Send { to: Peer::Node(_), bytes } => match frame::decode(bytes).expect("a frame").body {
            Body::Reply(NodeReply::Alive { info, .. }) => Some(info),
            _ => None,
        },
        _ => None,
    });
    let told: Vec<u64> = told.collect();
    let digests = [&newest, &late].map(info_digest);
    assert!(told == digests && digests[0] != digests[1], "{told:?}");
}
