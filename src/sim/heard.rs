//! What a server has heard of its leader, noted where it takes raft's messages in, and what the two headers of a stale read must
//! say of that: `X-Nomad-LastContact` neither less nor more than the time since, `X-Nomad-KnownLeader` whether it follows one.
//!
//! Refuses to know: what raft's messages hold, and which of them it refuses.

use super::place::ServerAt;
use super::world::World;
use api::response::Response;
use model::time::{Mono, Span};
use server::effects::Input;
use std::collections::BTreeSet;
use wire::frame::{self, TrafficClass};
use wire::rpc::Peer;

/// What the leader sent may have been refused: as long as that, what was heard surely may be older. One whose messages are all refused is
/// forgotten after an election timeout.
const REFUSED_FOR: Span = Span::seconds(3);
/// A server ticks once in so long, if it has a turn.
const TICK: Span = Span::millis(100);
/// The longest election timeout, and what else may lie between a turn that has heard and the tick that counts first.
const MOST_SILENT_TICKS: u32 = 21;

/// What one life of a server has heard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// The first turn.
    began: Option<Mono>,
    /// When it may have heard of a leader last, and when it surely has. One that leads hears of itself.
    maybe: Option<Mono>,
    surely: Option<Mono>,
    /// How often it has ticked since `maybe`: a process that is not scheduled does not know that time passes.
    silent_ticks: u32,
    next_tick: Mono,
}

/// The servers of whose raft messages a turn hears.
pub fn senders(inputs: &[Input]) -> BTreeSet<u64> {
    let sender = |input: &Input| match input {
        Input::Frame { from: Peer::Server(id), bytes } => {
            let is_raft = !matches!(frame::traffic_class(bytes), TrafficClass::Requests);
            is_raft.then_some(*id)
        }
        _ => None,
    };
    inputs.iter().filter_map(sender).collect()
}

impl Heard {
    /// That server `own` has had a turn, and heard of `senders`. `before`, `after`: the leader that it knew. `claims`: who says of itself that
    /// it leads, or has led.
    fn note(
        &mut self,
        own: u64,
        senders: &BTreeSet<u64>,
        (before, after): (Option<u64>, Option<u64>),
        claims: impl Fn(u64) -> bool,
        now: Mono,
    ) {
        self.began.get_or_insert(now);
        if now >= self.next_tick {
            self.silent_ticks += 1;
            self.next_tick = now.after(TICK);
        }
        let is_it = |id: &u64| before == Some(*id) || after == Some(*id);
        if is_it(&own) || senders.iter().any(|id| is_it(id) || claims(*id)) {
            self.maybe = Some(now);
            self.silent_ticks = 0;
        }
        if after.is_some_and(|id| id == own || senders.contains(&id)) {
            self.surely = Some(now);
        }
    }

    /// A stale read says this. `leader`: whom the server follows; `leads`: that is itself.
    fn check_told(
        &self,
        (is_known, last_contact): (bool, Span),
        (leader, leads): (Option<u64>, bool),
        now: Mono,
    ) -> Result<(), String> {
        let since = |at: Mono| Span::millis(now.since(at).as_nanos() / 1_000_000);
        if leads {
            let is_so = is_known && last_contact == Span::ZERO;
            return is_so.then_some(()).ok_or(format!("a leader says {is_known}, {last_contact:?}"));
        }
        if is_known != leader.is_some() {
            return Err(format!("a leader is known: {is_known}, and it follows {leader:?}"));
        }
        if is_known && self.silent_ticks > MOST_SILENT_TICKS {
            return Err(format!("a leader is known: it was silent for {} ticks", self.silent_ticks));
        }
        let refused_for = self.surely.map_or(Span::ZERO, |_| REFUSED_FOR);
        let most = self.surely.or(self.began).map_or(Span::ZERO, since) + refused_for;
        let least = self.maybe.or(self.began).map_or(Span::ZERO, since);
        if last_contact < least || last_contact > most {
            return Err(format!("last contact {last_contact:?} ago, and it was {least:?} to {most:?}"));
        }
        Ok(())
    }
}

impl World {
    fn leader_of(&self, at: ServerAt) -> Option<u64> {
        self.regions[at].brain.as_ref().and_then(|server| server.status().leader)
    }

    /// After each turn, which has heard of `senders`. `before`: the leader that the server knew before it.
    pub fn note_heard(&mut self, at: ServerAt, senders: &BTreeSet<u64>, before: Option<u64>) {
        let after = self.leader_of(at);
        let all = self.regions.servers_of(at.region);
        let claim = |at: &ServerAt| self.leader_of(*at).filter(|id| *id == self.regions[*at].id());
        // what one said that led before may come late, and with it that it leads no more
        let led = self.regions[at.region].leaders.values().copied();
        let claims: BTreeSet<u64> = all.iter().filter_map(claim).chain(led).collect();
        let (now, own) = (self.now, self.regions[at].id());
        self.regions[at].heard.note(own, senders, (before, after), |id| claims.contains(&id), now);
    }

    /// That server itself answers a stale read.
    pub fn check_contact(&self, at: ServerAt, response: &Response) -> Result<(), String> {
        let host = &self.regions[at];
        let told = |name: &str| response.header(name).ok_or(format!("a read without {name}"));
        let is_known = told("X-Nomad-KnownLeader")? == "true";
        let last_contact: i64 = told("X-Nomad-LastContact")?.parse().map_err(|_| "no number")?;
        let leader = self.leader_of(at);
        let leads = leader == Some(host.id());
        let told = (is_known, Span::millis(last_contact));
        host.heard.check_told(told, (leader, leads), self.now).map_err(|why| format!("{at} says: {why}"))
    }
}

#[test]
fn headers_that_make_a_leader_nearer_or_lost_are_found() {
    let (mut heard, leader, other) = (Heard::default(), BTreeSet::from([1]), BTreeSet::from([2]));
    let at = |millis| Mono(1).after(Span::millis(millis));
    let follows = (Some(1), Some(1));
    heard.note(9, &leader, follows, |_| false, at(0));
    heard.note(9, &other, follows, |_| false, at(500));
    let told = |heard: &Heard, known: bool, millis, now| {
        let leader = known.then_some(1);
        heard.check_told((known, Span::millis(millis)), (leader, false), at(now))
    };
    let is_found = |found: Result<(), String>, why: &str| found.is_err_and(|e| e.contains(why));
    assert_eq!(told(&heard, true, 600, 600), Ok(()));
    assert!(is_found(told(&heard, true, 100, 600), "last contact"), "that was another one's message");
    assert_eq!(told(&heard, true, 3_600, 600), Ok(()), "the leader's messages may have been refused");
    assert!(is_found(told(&heard, true, 3_601, 600), "last contact"));
    let mut gone_by = heard;
    gone_by.note(9, &other, (Some(1), None), |id| id == 2, at(700));
    assert_eq!(told(&gone_by, false, 100, 800), Ok(()), "it led for a moment of the turn");
    let says = |known, leader, leads| Heard::default().check_told((known, Span(0)), (leader, leads), at(9));
    assert!(says(true, Some(1), false).is_ok() && says(false, None, false).is_ok());
    assert!(is_found(says(true, None, false), "a leader is known: true"));
    assert!(is_found(says(false, Some(1), false), "a leader is known: false"));
    assert!(says(true, Some(1), true).is_ok() && says(false, Some(1), true).is_err());
    (8..40).for_each(|n| heard.note(9, &other, follows, |_| false, at(n * 100)));
    assert!(is_found(told(&heard, true, 4_000, 4_000), "silent for"), "nobody elects one that does not vote");
    assert_eq!(told(&heard, false, 4_000, 4_000), Ok(()));
}

#[test]
fn a_contact_that_a_life_did_not_have_is_found() {
    let at = |millis| Mono(1).after(Span::millis(millis));
    let (mut heard, nobody) = (Heard::default(), BTreeSet::new());
    let told =
        |heard: &Heard, millis, now| heard.check_told((false, Span::millis(millis)), (None, false), at(now));
    heard.note(9, &nobody, (None, None), |_| false, at(0));
    assert!(told(&heard, 700, 700).is_ok() && told(&heard, 0, 700).is_err(), "it has followed nobody");
    heard.note(9, &nobody, (Some(9), Some(9)), |_| false, at(5_000));
    heard.note(9, &nobody, (Some(9), None), |_| false, at(5_100));
    assert!(told(&heard, 900, 6_000).is_ok() && told(&heard, 1_000, 6_000).is_ok(), "it has led");
    assert!(told(&heard, 0, 6_000).is_err() && told(&heard, 6_000, 6_000).is_err());
}

#[test]
fn untrue_headers_of_a_stale_read_are_found() {
    use super::elections::{await_leader, region_of, run_for};
    use super::place::Machine;
    use api::{RouteOutcome, WaitState};
    use wire::http::{Method, Request};
    let mut world = region_of(3, 1);
    let (leader, _) = await_leader(&mut world);
    run_for(&mut world, Span::seconds(10));
    let follower = ServerAt { server: (leader.server + 1) % 3, ..leader };
    let query = "stale".into();
    let read =
        Request { method: Method::Get, path: "/v1/jobs".into(), query, body: vec![], websocket: false };
    let said = |known: bool, contact: i64| {
        let response = Response::json(&["a"], false).with("X-Nomad-KnownLeader", known);
        response.with("X-Nomad-LastContact", contact)
    };
    for at in [leader, follower] {
        let routed = world.route(Machine::Server(at), &read, WaitState::default());
        let Some(RouteOutcome::Respond(response)) = routed else { panic!("a stale read waits for nothing") };
        assert_eq!(world.check_contact(at, &response), Ok(()));
        let late = world.check_contact(at, &said(true, 4_000));
        assert!(late.is_err_and(|e| e.contains("last contact") || e.contains("a leader says")));
    }
    assert!(world.check_contact(leader, &said(false, 0)).is_err_and(|e| e.contains("a leader says")));
}
