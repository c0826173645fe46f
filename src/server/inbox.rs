//! The queue of a server's brain, in lanes: no flood of requests keeps raft's messages from a turn, and no flood of raft's keeps
//! users waiting. Each lane is bounded in what waits and in what a turn takes of it; an input that finds its lane full goes back
//! to the thread that brought it, which refuses the user's request with it ([`refusal`]).
//!
//! Refuses to know threads: the agent shares an inbox between them, the simulator has it as it is.

use super::effects::{Effect, Input};
use std::collections::VecDeque;
use wire::frame::{self, Body, Frame, TrafficClass};
use wire::http::{ForwardFailure, NodeHttpReply};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Raft's small messages. Raft sends lost ones again.
    Raft,
    /// Raft's appends: a leader believes them under way for as long as a slow link may take, and so none may be lost to a flood of
    /// heartbeats. The lane holds more than leaders of a few terms have under way.
    Appends,
    /// What this server asked for itself: plans of its workers, answers that it gives for others.
    Own,
    /// All else that comes from other servers and from nodes. What is lost, they ask again.
    Links,
    /// Requests of users, this server's and those that nodes pass on: they are refused when there are too many.
    Users,
}

/// In the order in which a turn takes them.
const LANES: [Lane; 5] = [Lane::Raft, Lane::Appends, Lane::Own, Lane::Links, Lane::Users];

/// How many messages and bytes wait in a lane, and a turn takes of it. A message that is larger by itself is taken alone.
struct Bounds {
    waiting: usize,
    waiting_bytes: usize,
    per_turn: usize,
    per_turn_bytes: usize,
}

impl Lane {
    fn bounds(self) -> Bounds {
        let mib: usize = 1 << 20;
        let of = |waiting, waiting_mib, per_turn, per_turn_mib| Bounds {
            waiting,
            waiting_bytes: waiting_mib * mib,
            per_turn,
            per_turn_bytes: per_turn_mib * mib,
        };
        match self {
            Lane::Raft => of(1024, 8, 256, 4),
            Lane::Appends => of(4 * raft::MAX_INFLIGHT_MESSAGES, 4 * raft::MAX_INFLIGHT_BYTES / mib, 64, 4),
            // a turn verifies plans one by one, and each may be as large as an entry
            Lane::Own => of(1024, 8, 32, 4),
            Lane::Links => of(1024, 32, 256, 4),
            Lane::Users => of(1024, 32, 256, 4),
        }
    }
}

/// A message that can wait in an inbox.
pub trait InboxMessage {
    fn lane(&self) -> Lane;
    /// Bytes of the message, where nothing else bounds them.
    fn bytes(&self) -> usize;
    /// Whether its sender does not repeat it: such a message has twice its lane's room.
    fn must_arrive(&self) -> bool;
}

impl InboxMessage for Input {
    fn lane(&self) -> Lane {
        match self {
            Input::Frame { from: Peer::Server(_), bytes } => match frame::traffic_class(bytes) {
                TrafficClass::Consensus => Lane::Raft,
                TrafficClass::Appends => Lane::Appends,
                TrafficClass::Requests | TrafficClass::Forwarded | TrafficClass::Snapshots => Lane::Links,
            },
            Input::Frame { from: Peer::Node(_), bytes } => match frame::traffic_class_of_node(bytes) {
                TrafficClass::Forwarded => Lane::Users,
                _ => Lane::Links,
            },
            Input::Snapshot { .. } => Lane::Links,
            // in order with what came over the connection before
            Input::LinkUp { .. } | Input::LinkDown { .. } | Input::NodeLinkDown { .. } => Lane::Links,
            Input::Served { .. } | Input::Planned { .. } | Input::SigningKey { .. } | Input::Space { .. } => {
                Lane::Own
            }
            Input::Request { .. } | Input::Read { .. } | Input::Forward { .. } => Lane::Users,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Input::Frame { bytes, .. } => bytes.len(),
            Input::Forward { request, .. } => request.body.len(),
            _ => 0,
        }
    }

    fn must_arrive(&self) -> bool {
        let of_links =
            matches!(self, Input::LinkUp { .. } | Input::LinkDown { .. } | Input::NodeLinkDown { .. });
        of_links || self.lane() == Lane::Own
    }
}

pub struct Inbox<T> {
    lanes: [Queue<T>; LANES.len()],
}

struct Queue<T> {
    waiting: VecDeque<T>,
    bytes: usize,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox { lanes: LANES.map(|_| Queue { waiting: VecDeque::new(), bytes: 0 }) }
    }
}

impl<T: InboxMessage> Inbox<T> {
    /// `Err`: its lane is full, and it is given back.
    pub fn push(&mut self, message: T) -> Result<(), T> {
        let (lane, bytes) = (message.lane(), message.bytes());
        let (bounds, queue) = (lane.bounds(), &mut self.lanes[lane as usize]);
        let room = if message.must_arrive() { 2 } else { 1 };
        let fits = queue.bytes == 0 || queue.bytes + bytes <= room * bounds.waiting_bytes;
        if queue.waiting.len() >= room * bounds.waiting || !fits {
            return Err(message);
        }
        queue.bytes += bytes;
        queue.waiting.push_back(message);
        Ok(())
    }

    /// What the next turn takes: something of each lane, raft's first, each in the order in which it came.
    pub fn take_turn(&mut self) -> Vec<T> {
        let mut taken = vec![];
        for lane in LANES {
            let (bounds, queue) = (lane.bounds(), &mut self.lanes[lane as usize]);
            let (mut count, mut bytes) = (0, 0);
            while count < bounds.per_turn
                && let Some(next) = queue
                    .waiting
                    .pop_front_if(|next| count == 0 || bytes + next.bytes() <= bounds.per_turn_bytes)
            {
                (count, bytes) = (count + 1, bytes + next.bytes());
                taken.push(next);
            }
            queue.bytes -= bytes;
        }
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(|queue| queue.waiting.is_empty())
    }

    pub fn clear(&mut self) {
        *self = Inbox::default();
    }
}

/// The answer to a user whose request found its lane full. `None`: no user waits for it, or the message does not say which one.
pub fn refusal(input: &Input) -> Option<Effect> {
    let busy = || {
        let why = "too many requests wait for the server: try again in a second";
        Refusal::new(RefusalKind::Busy, why)
    };
    match input {
        Input::Request { token, .. } => Some(Effect::Reply { token: *token, result: Err(busy()) }),
        Input::Read { token } => Some(Effect::ReadConfirmed { token: *token, confirmed: false }),
        Input::Forward { token, .. } => {
            Some(Effect::Forwarded { token: *token, result: Err(ForwardFailure::Refused(busy())) })
        }
        Input::Frame { from: from @ Peer::Node(_), bytes } if input.lane() == Lane::Users => {
            let request = frame::request_number(bytes)?;
            let reply = Frame { request, body: Body::HttpReply(NodeHttpReply::Refused(busy())) };
            Some(Effect::Send { to: *from, bytes: frame::encode(&reply) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::NodeId;
    use state::samples::{info, node_id};
    use wire::http::{Method, NodeHttpRequest, Request};
    use wire::server_rpc::{ServerReply, ServerRequest};

    fn from_server(body: Body) -> Input {
        let bytes = frame::with_region(Default::default(), &frame::encode(&Frame { request: 1, body }));
        Input::Frame { from: Peer::Server(2), bytes }
    }

    fn raft(bytes: usize) -> Input {
        from_server(Body::Raft(vec![7; bytes]))
    }

    fn from_node(bytes: usize) -> Input {
        Input::Frame { from: Peer::Node(NodeId::default()), bytes: vec![0; bytes] }
    }

    fn for_a_user() -> Input {
        let (path, query) = ("/v1/jobs".into(), String::new());
        let request = Request { method: Method::Get, path, query, body: vec![], websocket: false };
        let asked = NodeHttpRequest { node: node_id(1), secret: info(1).secret, request };
        let bytes = frame::encode(&Frame { request: 7, body: Body::HttpRequest(asked) });
        Input::Frame { from: Peer::Node(node_id(1)), bytes }
    }

    fn lanes(taken: &[Input]) -> Vec<(Lane, usize)> {
        let same = taken.chunk_by(|a, b| a.lane() == b.lane());
        same.map(|some| (some[0].lane(), some.len())).collect()
    }

    #[test]
    fn each_kind_of_input_has_its_lane() {
        assert_eq!(raft(1).lane(), Lane::Raft);
        assert_eq!(from_server(Body::Append(vec![1])).lane(), Lane::Appends);
        let Input::Frame { bytes, .. } = raft(1) else { panic!("a frame") };
        let of_a_node = Input::Frame { from: Peer::Node(NodeId::default()), bytes };
        assert_eq!(of_a_node.lane(), Lane::Links, "a node has no say in raft");
        let asks = from_server(Body::ServerRequest(ServerRequest::Dequeue { free: 1, enabled: vec![] }));
        let answers = from_server(Body::ServerReply(ServerReply::NotLeader));
        let cut = Input::Frame { from: Peer::Server(2), bytes: vec![0; 5] };
        for input in [asks, answers, cut, Input::LinkDown { peer: 2 }] {
            assert_eq!(input.lane(), Lane::Links, "{input:?}");
        }
        assert_eq!(Input::Served { serving: 1, response: None }.lane(), Lane::Own);
        assert_eq!(Input::Read { token: 1 }.lane(), Lane::Users);
        assert_eq!(for_a_user().lane(), Lane::Users, "a node's heartbeats do not wait behind it");
        assert_eq!(from_node(10).lane(), Lane::Links);
    }

    #[test]
    fn a_request_for_a_full_lane_is_answered_as_refused() {
        let mut inbox = Inbox::default();
        while inbox.push(Input::Read { token: 1 }).is_ok() {}
        let full = inbox.push(for_a_user()).expect_err("the users' lane is full");
        let Some(Effect::Send { to, bytes }) = refusal(&full) else { panic!("{full:?}") };
        assert_eq!(to, Peer::Node(node_id(1)));
        let Ok(Frame { request: 7, body: Body::HttpReply(NodeHttpReply::Refused(why)) }) =
            frame::decode(&bytes)
        else {
            panic!("{bytes:?}")
        };
        assert_eq!(why.kind, RefusalKind::Busy);
        let told = refusal(&Input::Read { token: 3 });
        assert!(matches!(told, Some(Effect::ReadConfirmed { token: 3, confirmed: false })), "{told:?}");
        for input in [raft(1), from_node(10), Input::LinkDown { peer: 2 }] {
            assert!(refusal(&input).is_none(), "no user waits for {input:?}");
        }
        let Input::Frame { from, mut bytes } = for_a_user() else { panic!("a frame") };
        bytes.truncate(5);
        assert!(refusal(&Input::Frame { from, bytes }).is_none(), "it says no number");
    }

    #[test]
    fn a_turn_takes_raft_first_and_some_of_each_lane() {
        let mut inbox = Inbox::default();
        for n in 0..600 {
            for input in [Input::Read { token: n }, from_node(10), raft(10)] {
                inbox.push(input).expect("there is room");
            }
        }
        inbox.push(Input::Served { serving: 1, response: None }).expect("there is room");
        let taken = inbox.take_turn();
        let wanted = [(Lane::Raft, 256), (Lane::Own, 1), (Lane::Links, 256), (Lane::Users, 256)];
        assert_eq!(lanes(&taken), wanted);
        let tokens = |taken: &[Input]| -> Vec<u64> {
            let token = |input: &Input| if let Input::Read { token } = input { Some(*token) } else { None };
            taken.iter().filter_map(token).collect()
        };
        assert_eq!(tokens(&taken), (0..256).collect::<Vec<u64>>(), "as they came");
        assert_eq!(tokens(&inbox.take_turn()), (256..512).collect::<Vec<u64>>());
        assert_eq!(lanes(&inbox.take_turn()), [(Lane::Raft, 88), (Lane::Links, 88), (Lane::Users, 88)]);
        assert!(inbox.is_empty() && inbox.take_turn().is_empty());
    }

    #[test]
    fn a_full_lane_refuses_and_the_others_take() {
        let mut inbox = Inbox::default();
        let mut taken = 0;
        while inbox.push(from_node(10)).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, Lane::Links.bounds().waiting);
        assert!(inbox.push(raft(10)).is_ok(), "raft is heard");
        while inbox.push(raft(10)).is_ok() {}
        for n in 0..raft::MAX_INFLIGHT_MESSAGES {
            let bytes = raft::MAX_INFLIGHT_BYTES / raft::MAX_INFLIGHT_MESSAGES;
            let append = from_server(Body::Append(vec![7; bytes]));
            assert!(inbox.push(append).is_ok(), "append {n} that a leader has under way");
        }
        assert!(inbox.push(Input::Read { token: 1 }).is_ok());
        assert!(inbox.push(Input::LinkDown { peer: 2 }).is_ok(), "nobody says that again");
        let mut changes = 1;
        while inbox.push(Input::LinkUp { peer: 2 }).is_ok() {
            changes += 1;
        }
        assert_eq!(taken + changes, 2 * Lane::Links.bounds().waiting, "that has a bound, too");
        inbox.take_turn();
        assert!(inbox.push(from_node(10)).is_err(), "link changes have taken the room");
        inbox.clear();
        assert!(inbox.is_empty() && inbox.push(from_node(10)).is_ok());
    }

    #[test]
    fn bytes_are_bounded_and_one_large_input_always_fits() {
        let mut inbox = Inbox::default();
        let large = 3 << 20;
        let mut taken = 0;
        while inbox.push(raft(large)).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 2, "8 MiB may wait");
        assert_eq!(lanes(&inbox.take_turn()), [(Lane::Raft, 1)], "a turn takes 4 MiB");
        assert!(inbox.push(raft(large)).is_ok());
        inbox.clear();
        assert!(inbox.push(raft(9 << 20)).is_ok(), "alone");
        assert!(inbox.push(raft(1)).is_err());
        assert_eq!(lanes(&inbox.take_turn()), [(Lane::Raft, 1)]);
        assert!(inbox.push(raft(1)).is_ok());
    }
}
