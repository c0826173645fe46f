//! Servers without a region, and what becomes of them.

use super::super::effects::Input;
use super::super::heartbeat::HeartbeatRules;
use super::super::{Config, Server};
use super::*;
use model::job::JobType;
use model::member::Suffrage;
use model::scheduling::SchedulerSettings;
use model::time::Now;
use state::samples::{AT, founding, in_memory, server_info};
use state::store::{Options, Store};
use wire::frame::{self, Frame};
use wire::http::{ForwardFailure, ForwardedResponse, Method, Request};
use wire::request::{Refusal, WriteReply, WriteRequest};
use wire::rpc::Peer;
use wire::snapshot::{SnapshotMessage, SnapshotOffer};

/// Servers that all reach each other.
pub struct Meeting {
    pub servers: Vec<Server>,
    pub now: Mono,
    /// On their way: to, from, bytes.
    pub frames: Vec<(u64, u64, Vec<u8>)>,
    /// Whether reads were confirmed.
    confirmed: Vec<(u64, bool)>,
    /// What users were told.
    pub replies: Vec<Result<WriteReply, Refusal>>,
    /// What came of requests that were passed on.
    forwarded: Vec<Result<ForwardedResponse, ForwardFailure>>,
}

fn server(id: u64, expect: u32) -> Server {
    configured(id, expect, false)
}

fn configured(id: u64, expect: u32, knows_others: bool) -> Server {
    let options = Options { new_server_id: id, ..Options::default() };
    let (store, recovered) = Store::open(in_memory(), options).unwrap();
    let config = Config {
        bootstrap_expect: expect,
        knows_others,
        info: server_info(&format!("server-{id}")),
        heartbeats: HeartbeatRules::default(),
        workers: 1,
        enabled_schedulers: JobType::ALL.into(),
        ready_per_worker: 2,
        rows_per_turn: 100,
        tracked_versions: 6,
        scheduler: SchedulerSettings::default(),
        garbage: Default::default(),
        zones: |_| None,
    };
    Server::new(config, store, recovered, id).unwrap()
}

impl Meeting {
    pub fn of(all: &[(u64, u32)]) -> Meeting {
        let servers = all.iter().map(|(id, expect)| server(*id, *expect)).collect();
        let (frames, confirmed, replies, forwarded) = Default::default();
        let mut meeting = Meeting { servers, now: Mono(1), frames, confirmed, replies, forwarded };
        let ids: Vec<u64> = all.iter().map(|(id, _)| *id).collect();
        for (n, own) in ids.iter().enumerate() {
            let links = ids.iter().filter(|id| *id != own).map(|peer| Input::LinkUp { peer: *peer });
            meeting.turn(n, links.collect());
        }
        meeting
    }

    pub fn turn(&mut self, n: usize, inputs: Vec<Input>) {
        self.now = self.now.after(Span::millis(1));
        let server = &mut self.servers[n];
        let from = server.id();
        let turn = server.turn(Now { mono: self.now, wall: Some(AT) }, inputs);
        for effect in turn.effects {
            match effect {
                Effect::Send { to: Peer::Server(to), bytes } => self.frames.push((to, from, bytes)),
                Effect::SendSnapshot { to, message } => {
                    let n = self.servers.iter().position(|server| server.id() == to);
                    let Some(n) = n else { continue };
                    self.turn(n, vec![Input::Snapshot { from, message }]);
                }
                Effect::Reply { result, .. } => self.replies.push(result),
                Effect::Forwarded { result, .. } => self.forwarded.push(result),
                Effect::ReadConfirmed { token, confirmed } => self.confirmed.push((token, confirmed)),
                _ => {}
            }
        }
    }

    /// Time passes, and every frame arrives.
    pub fn run(&mut self, span: Span) {
        let end = self.now.after(span);
        while self.now < end {
            let frames = std::mem::take(&mut self.frames);
            self.now = self.now.after(Span::millis(50));
            for n in 0..self.servers.len() {
                let id = self.servers[n].id();
                let own = frames.iter().filter(|(to, ..)| *to == id);
                let inputs = own
                    .map(|(_, from, bytes)| Input::Frame { from: Peer::Server(*from), bytes: bytes.clone() });
                let inputs = inputs.collect();
                self.turn(n, inputs);
            }
        }
    }

    fn regions(&self) -> Vec<Uuid> {
        self.servers.iter().map(|server| server.replica.members().region_id().unwrap_or_default()).collect()
    }

    pub fn suffrage(&self, n: usize, id: u64) -> Option<Suffrage> {
        self.servers[n].replica.members().get(id).map(|member| member.suffrage)
    }
}

#[test]
fn as_many_as_expected_begin_one_region() {
    let mut meeting = Meeting::of(&[(7, 3), (5, 3), (6, 3)]);
    meeting.run(Span::seconds(10));
    let regions = meeting.regions();
    assert!(
        regions[0] != Uuid::default() && regions.iter().all(|region| *region == regions[0]),
        "{regions:?}"
    );
    let founders: Vec<u64> = meeting.servers[0].replica.members().founding.as_ref().unwrap().ids().collect();
    assert_eq!(founders, [5, 6, 7]);
    assert!(meeting.servers.iter().any(|server| server.status().ready), "one of them leads");
}

#[test]
fn fewer_or_different_ones_begin_nothing() {
    for all in [&[(5, 3), (6, 3)][..], &[(5, 3), (6, 3), (7, 2)], &[(5, 0)], &[(5, 3), (6, 0), (7, 0)]] {
        let mut meeting = Meeting::of(all);
        meeting.run(Span::seconds(10));
        assert!(meeting.regions().iter().all(|region| *region == Uuid::default()), "{all:?}");
    }
}

#[test]
fn a_server_that_expects_itself_alone_begins_at_once() {
    let mut meeting = Meeting::of(&[(5, 1)]);
    meeting.turn(0, vec![]);
    assert_ne!(meeting.regions(), [Uuid::default()]);
    let mut joined = Meeting::of(&[(5, 1), (6, 0), (7, 0)]);
    joined.run(Span::seconds(10));
    let regions = joined.regions();
    assert!(regions.iter().all(|region| *region == regions[0] && *region != Uuid::default()), "{regions:?}");
}

/// The card of a region's first server dies, and its configuration still says 1.
#[test]
fn a_first_server_with_an_empty_disk_begins_no_second_region() {
    for knows_others in [true, false] {
        let mut meeting = Meeting::of(&[(5, 1), (6, 0), (7, 0)]);
        meeting.run(Span::seconds(30));
        let region = meeting.regions()[1];
        meeting.servers[0] = configured(9, 1, knows_others);
        let links = || Vec::from([6, 7].map(|peer| Input::LinkUp { peer }));
        let inputs = if knows_others { vec![] } else { links() };
        meeting.turn(0, inputs);
        assert_eq!(meeting.regions()[0], Uuid::default(), "whom it reaches, or is to reach, has not spoken");
        (1..3).for_each(|n| meeting.turn(n, vec![Input::LinkUp { peer: 9 }]));
        meeting.turn(0, links());
        meeting.run(Span::seconds(10));
        assert_eq!(meeting.servers[0].replica.members().founding.as_ref().map(|f| f.region_id), Some(region));
    }
}

#[test]
fn the_lowest_expected_servers_begin_and_others_join() {
    let mut meeting = Meeting::of(&[(9, 2), (5, 2), (6, 2)]);
    meeting.run(Span::seconds(30));
    let regions = meeting.regions();
    assert!(regions.iter().all(|region| *region == regions[0] && *region != Uuid::default()), "{regions:?}");
    let founders: Vec<u64> = meeting.servers[0].replica.members().founding.as_ref().unwrap().ids().collect();
    assert_eq!((founders, meeting.suffrage(1, 9)), (vec![5, 6], Some(Suffrage::Voter)), "it got a snapshot");
}

#[test]
fn a_server_that_has_heard_of_a_region_begins_none() {
    let mut meeting = Meeting::of(&[(5, 2)]);
    let hello = |founding, sees: &[u64]| {
        let info = server_info("other");
        let said = ServerRequest::Hello(Box::new(Hello { info, expect: 2, sees: sees.to_vec(), founding }));
        frame::encode(&Frame { request: 0, body: Body::ServerRequest(said) })
    };
    let region = founding(&[1, 2]).region_id;
    let told = frame::with_region(region, &hello(Some(founding(&[1, 2])), &[]));
    meeting.turn(0, vec![Input::Frame { from: Peer::Server(1), bytes: told }]);
    let asks = |(to, _, bytes): &(u64, u64, Vec<u8>)| {
        let (of, frame) = frame::split_region(bytes).unwrap();
        let body = frame::decode(frame).unwrap().body;
        *to == 1 && of == region && matches!(body, Body::ServerRequest(ServerRequest::Announce { id: 5, .. }))
    };
    assert!(meeting.frames.iter().any(asks), "it wants to be added");
    let empty = frame::with_region(Uuid::default(), &hello(None, &[5, 6]));
    meeting.turn(0, vec![Input::Frame { from: Peer::Server(6), bytes: empty }]);
    meeting.run(Span::seconds(5));
    assert_eq!(meeting.regions(), [Uuid::default()]);
    meeting.turn(0, vec![Input::LinkDown { peer: 1 }]);
    meeting.run(Span::seconds(2));
    let greets = |(to, _, bytes): &(u64, u64, Vec<u8>)| {
        let body = frame::decode(frame::split_region(bytes).unwrap().1).unwrap().body;
        *to == 6 && matches!(body, Body::ServerRequest(ServerRequest::Hello(_)))
    };
    meeting.now = meeting.now.after(Span::seconds(1));
    meeting.turn(0, vec![]);
    assert!(meeting.frames.iter().any(greets), "others may know the region, too");
}

#[test]
fn a_named_founder_begins_the_same_region_once() {
    let mut meeting = Meeting::of(&[(5, 2)]);
    let info = server_info("other");
    let say = |founding: Founding| {
        let region = founding.region_id;
        let said = Hello { info: info.clone(), expect: 0, sees: vec![], founding: Some(founding) };
        let body = Body::ServerRequest(ServerRequest::Hello(Box::new(said)));
        let bytes = frame::with_region(region, &frame::encode(&Frame { request: 0, body }));
        Input::Frame { from: Peer::Server(1), bytes }
    };
    let second = Founding { region_id: Uuid::from_random(8), ..founding(&[5, 6]) };
    meeting.turn(0, vec![say(founding(&[1, 5])), say(second)]);
    assert_eq!(meeting.servers[0].replica.members().founding, Some(founding(&[1, 5])));
    assert_eq!(meeting.servers[0].status().voters, [1, 5]);
}

/// A server of that region asks to be added.
fn announcement(id: u64, region: Uuid) -> Input {
    let said = ServerRequest::Announce { id, info: Box::new(server_info("lost")) };
    let bytes = frame::encode(&Frame { request: 0, body: Body::ServerRequest(said) });
    Input::Frame { from: Peer::Server(id), bytes: frame::with_region(region, &bytes) }
}

#[test]
fn frames_of_another_region_change_nothing() {
    let mut meeting = Meeting::of(&[(5, 1)]);
    meeting.run(Span::seconds(1));
    meeting.turn(0, vec![announcement(9, Uuid::from_random(77))]);
    meeting.run(Span::seconds(3));
    assert_eq!(meeting.suffrage(0, 9), None);
    meeting.turn(0, vec![announcement(9, Uuid::default())]);
    meeting.run(Span::seconds(3));
    assert_eq!(meeting.suffrage(0, 9), Some(Suffrage::Learner), "one without a region may ask to be added");
}

#[test]
fn a_learner_holds_no_stamps_of_a_region_of_one_voter() {
    let mut meeting = Meeting::of(&[(5, 1)]);
    meeting.run(Span::seconds(1));
    meeting.turn(0, vec![announcement(9, Uuid::default())]);
    meeting.run(Span::seconds(3));
    assert_eq!(meeting.suffrage(0, 9), Some(Suffrage::Learner));
    let server = &mut meeting.servers[0];
    server.clocks.own.observe_stamp(Some(AT), Some(meeting.now));
    server.turn(Now { mono: meeting.now.after(Span::millis(1)), wall: Some(AT + Span::hours(48)) }, vec![]);
    assert!(server.clocks.own.jumped_at().is_some());
    assert!(!server.clocks.own.is_in_doubt(), "nobody could ever confirm the time");
}

#[test]
fn snapshots_of_a_removed_server_are_dropped() {
    let mut meeting = Meeting::of(&[(5, 3), (6, 3), (7, 3)]);
    meeting.run(Span::seconds(10));
    let leader = meeting.servers.iter().position(|server| server.status().ready).expect("one leads");
    let (gone, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let id = meeting.servers[gone].id();
    let action = WriteRequest::RemoveServer { id };
    meeting.turn(leader, vec![Input::Request { token: 1, action }]);
    meeting.run(Span::seconds(10));
    assert_eq!(meeting.suffrage(other, id), Some(Suffrage::Removed));
    let leads = meeting.servers[leader].id();
    let server = &mut meeting.servers[other];
    let offer = SnapshotOffer {
        transfer: 1,
        index: 1,
        term: 1,
        members: raft::Members::of_voters([5, 6, 7]).encode(),
        applied_state: vec![],
        bytes: 1,
        region_id: server.region(),
    };
    let mut is_answered = |from| {
        let message = SnapshotMessage::Offer(Box::new(offer.clone()));
        let turn =
            server.turn(Now { mono: meeting.now, wall: Some(AT) }, vec![Input::Snapshot { from, message }]);
        turn.effects.iter().any(|effect| matches!(effect, Effect::SendSnapshot { .. }))
    };
    assert!(is_answered(leads) && !is_answered(id));
}

#[test]
fn a_removed_server_shows_no_leader() {
    let mut meeting = Meeting::of(&[(5, 3), (6, 3), (7, 3)]);
    meeting.run(Span::seconds(10));
    let gone = meeting.servers.iter().position(|server| !server.status().ready).expect("one follows");
    assert!(meeting.servers[gone].status().leader.is_some());
    meeting.turn(gone, vec![Input::Read { token: 1 }]);
    let server = &mut meeting.servers[gone];
    server.joining.removed(&mut server.replica);
    assert_eq!(meeting.servers[gone].status().leader, None);
    meeting.turn(gone, vec![Input::Read { token: 2 }]);
    meeting.confirmed.sort_unstable();
    assert_eq!(
        meeting.confirmed,
        [(1, false), (2, false)],
        "reads under way are lost, and none waits for ever"
    );
}

/// It heard of a leader before it got the state that names its peers.
#[test]
fn a_server_without_members_forgets_a_silent_leader() {
    let mut meeting = Meeting::of(&[(5, 1), (6, 0)]);
    let mut heard = false;
    for _ in 0..100 {
        meeting.run(Span::millis(50));
        let server = &meeting.servers[1];
        heard = server.status().leader.is_some() && server.replica.raft().members().is_empty();
        if heard {
            break;
        }
    }
    assert!(heard, "the leader speaks first");
    for _ in 0..40 {
        meeting.now = meeting.now.after(Span::millis(100));
        meeting.turn(1, vec![]);
    }
    assert_eq!(meeting.servers[1].status().leader, None);
}

fn request() -> Box<Request> {
    let (method, path) = (Method::Put, "/v1/jobs".into());
    Box::new(Request { method, path, query: String::new(), body: vec![], websocket: false })
}

/// A machine that lost its power says nothing, and links are believed in for a while.
#[test]
fn a_request_waits_no_longer_once_another_server_leads() {
    let mut meeting = Meeting::of(&[(5, 3), (6, 3), (7, 3)]);
    meeting.run(Span::seconds(10));
    let n = meeting.servers.iter().position(|server| server.other_leader().is_some()).expect("two follow");
    let leader = meeting.servers[n].other_leader().expect("another one leads");
    meeting.turn(n, vec![Input::Forward { token: 1, request: request() }]);
    meeting.servers.retain(|server| server.id() != leader);
    meeting.run(Span::seconds(12));
    assert_eq!(meeting.forwarded, [Err(ForwardFailure::Unknown)], "long before its own deadline");
}

/// A link that is lost says so before another leader does.
#[test]
fn nothing_is_forwarded_to_a_leader_that_is_cut_off() {
    let mut meeting = Meeting::of(&[(5, 3), (6, 3), (7, 3)]);
    meeting.run(Span::seconds(10));
    let n = meeting.servers.iter().position(|server| server.other_leader().is_some()).expect("two follow");
    let leader = meeting.servers[n].other_leader().expect("another one leads");
    let changes =
        [Input::Read { token: 9 }, Input::LinkDown { peer: leader }, Input::LinkUp { peer: leader }];
    let mut tokens = 1..;
    let said = changes.map(|change| {
        meeting.now = meeting.now.after(Span::millis(1));
        let own = tokens.next().expect("there is no end");
        let inputs = vec![change, Input::Forward { token: own, request: request() }];
        let effects = meeting.servers[n].turn(Now { mono: meeting.now, wall: Some(AT) }, inputs).effects;
        effects.into_iter().find_map(|effect| match effect {
            Effect::Forwarded { token, result } if token == own => Some(result),
            _ => None,
        })
    });
    assert_eq!(said, [None, Some(Err(ForwardFailure::NotDone)), None]);
}
