//! What users ask of the servers, by HTTP, each of its own server: writes, whose answers go to whoever asked, and default reads, which
//! show whatever was acknowledged, or was shown to anybody, before they began.
//!
//! Refuses to know: what users want. Invariants: each question has one outcome; a write that began after another one's answer
//! has the higher index.

use super::api_requests::{answer_to, index_of, may_be_done, request_for, unknown};
use super::event_readers::ToldEvents;
use super::faults::Kind;
use super::http_calls::Outcome;
use super::place::{Machine, ServerAt};
use super::users::{HOME_REGION, User};
use super::world::World;
use api::RouteOutcome;
use api::response::Response;
use model::time::{Mono, Span};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use wire::event::Object;
use wire::http::{Method, Request};
use wire::request::{Refusal, WriteReply, WriteRequest};

enum Question {
    Write {
        user: User,
        token: u64,
        action: WriteRequest,
        /// What the API reads from the request, where that is something else.
        misread: Option<String>,
        /// The newest index that any write was acknowledged with, when this one was asked for.
        acknowledged: u64,
    },
    Read {
        at: Machine,
        target: &'static str,
        least: u64,
        /// An index that is awaited to be passed, and until when the answer may say that it was not.
        awaits: Option<(u64, Mono)>,
    },
}

#[derive(Default)]
pub struct Asks {
    open: BTreeMap<u64, Question>,
    /// The newest index that a write was acknowledged with.
    acknowledged: u64,
    /// The same of those that made an evaluation.
    evaluated: u64,
    /// The same of those that changed a job.
    jobs_changed: u64,
    /// The newest entry up to `acknowledged` that servers told of a node, or of an allocation, in.
    node_told: u64,
    alloc_told: u64,
    /// The newest index that a list has shown to anybody.
    shown: BTreeMap<&'static str, u64>,
    pub reads: u64,
}

impl Asks {
    /// Questions without an outcome.
    pub fn unanswered(&self) -> usize {
        self.open.len()
    }

    pub fn asked(&self, call: u64) -> bool {
        self.open.contains_key(&call)
    }

    /// What users know of a list: what was shown, and what they were answered to have changed it.
    fn known(&self, target: &str) -> u64 {
        let acknowledged = match target {
            "/v1/evaluations" => self.evaluated,
            "/v1/jobs" => self.jobs_changed,
            _ => 0,
        };
        self.shown.get(target).copied().unwrap_or(0).max(acknowledged)
    }

    /// What a list that is asked for now shows at least: that, and whatever else was done before the newest write that is acknowledged.
    fn least(&self, target: &str) -> u64 {
        let told = match target {
            "/v1/nodes" => self.node_told,
            "/v1/allocations" => self.alloc_told,
            _ => 0,
        };
        self.known(target).max(told)
    }

    /// The newest index that any write was acknowledged with.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// A write was acknowledged with that index. `before`: the newest one of all when it was asked for. Each write is an entry of
    /// its own, and the later one comes behind. `told`: what servers have told of entries.
    pub fn note_written(
        &mut self,
        what: impl Debug,
        index: u64,
        before: u64,
        told: &ToldEvents,
    ) -> Result<(), String> {
        if index <= before {
            return Err(format!("{before} was acknowledged, and {what:?}, which began later, got {index}"));
        }
        for (at, entry) in told.range(self.acknowledged.min(index)..=index) {
            for object in entry.iter().flat_map(|entry| &entry.objects) {
                match object {
                    Object::Node(_) => self.node_told = self.node_told.max(*at),
                    Object::Alloc(_) => self.alloc_told = self.alloc_told.max(*at),
                    _ => {}
                }
            }
        }
        self.acknowledged = self.acknowledged.max(index);
        Ok(())
    }

    pub fn note_job_changed(&mut self, index: u64) {
        self.jobs_changed = self.jobs_changed.max(index);
    }
}

/// How long a blocking query waits.
const BLOCKS: Span = Span::seconds(20);
const TARGETS: [&str; 4] = ["/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/nodes"];

impl World {
    /// A user asks its server for a write. What the API reads from the request: with what was left out.
    pub fn ask(&mut self, user: User, at: ServerAt, token: u64, action: WriteRequest) -> WriteRequest {
        let request = request_for(&action);
        let read = request.as_ref().map(|request| self.read_by_any_api(at, request));
        let (action, misread) = match read {
            Some(Some(Ok(read))) if is_meant(&action, &read) => (read, None),
            // no disk tells anything just now
            Some(None) => (action, None),
            Some(Some(Ok(read))) => (action, Some(format!("{read:?}"))),
            Some(Some(Err(refused))) => (action, Some(refused)),
            None => (action, Some("no request".into())),
        };
        self.faults.fired(Kind::AskedOverHttp);
        let call = self.call(self.agent_of(user, at), request.unwrap_or_else(|| get("/v1/jobs")));
        let (acknowledged, asked) = (self.asks.acknowledged, action.clone());
        self.asks.open.insert(call, Question::Write { user, token, action: asked, misread, acknowledged });
        action
    }

    /// By that server's, or by another one's, whose disk has not failed.
    fn read_by_any_api(&self, at: ServerAt, request: &Request) -> Option<Result<WriteRequest, String>> {
        let others = self.regions.servers_of(at.region).into_iter().filter(|other| *other != at);
        std::iter::once(at).chain(others).find_map(|at| self.read_by_api(at, request))
    }

    /// As a leader's API reads it. `None`: the state cannot be read.
    fn read_by_api(&self, at: ServerAt, request: &Request) -> Option<Result<WriteRequest, String>> {
        match self.route_as_leader(at, request)? {
            RouteOutcome::Write(action, _) => Some(Ok(action)),
            RouteOutcome::Respond(response) if response.status == 500 => None,
            RouteOutcome::Respond(response) => {
                Some(Err(format!("{} {}", response.status, text_of(&response))))
            }
            _ => Some(Err("no write".into())),
        }
    }

    /// A user reads a list, of which it wants what is so now; or, now and then, what is newer than anybody has seen.
    pub fn ask_for_a_list(&mut self, which: u64) {
        let Some(server) = self.server_of(User::Reader) else { return };
        let at = self.agent_of(User::Reader, server);
        let target = TARGETS[(which % TARGETS.len() as u64) as usize];
        let (known, least) = (self.asks.known(target), self.asks.least(target));
        let blocks = known > 0 && which.is_multiple_of(3);
        let query = if blocks { format!("index={known}&wait=20s") } else { String::new() };
        let call = self.call(at, Request { query, ..get(target) });
        let awaits = blocks.then(|| (known, self.now.after(BLOCKS)));
        self.asks.open.insert(call, Question::Read { at, target, least, awaits });
    }

    pub fn ask_answered(&mut self, call: u64, outcome: Outcome) -> Result<(), String> {
        match self.asks.open.remove(&call) {
            None => Err(format!("call {call} was answered twice, or never made")),
            Some(Question::Write { user, token, action, misread, acknowledged }) => {
                if let Some(misread) = misread {
                    return Err(format!("{action:?} is read by the API as {misread}"));
                }
                let result = match &outcome {
                    Outcome::Unknown => Err(unknown()),
                    Outcome::Answered(response) => answer_to(&action, response)?,
                };
                self.turn_away(user, &result);
                self.note_index(&action, &result, acknowledged)?;
                if let Ok(done) = &result {
                    self.check_done(&action, done.index())?;
                }
                self.answered(token, result)
            }
            Some(Question::Read { at, target, least, awaits }) => match outcome {
                Outcome::Unknown => Ok(()),
                Outcome::Answered(response) => {
                    self.list_read(at, target, least, &response)?;
                    let Some((known, _)) = awaits.filter(|(_, until)| self.now < *until) else {
                        return Ok(());
                    };
                    if response.status == 200 && index_of(&response).is_some_and(|i| i <= known) {
                        return Err(format!("{target} of {at} came with nothing newer than {known}"));
                    }
                    self.faults.fired(Kind::BlockingQueryWoken);
                    Ok(())
                }
            },
        }
    }

    fn turn_away(&mut self, user: User, result: &Result<WriteReply, Refusal>) {
        if result.as_ref().is_err_and(may_be_done) {
            self.users.turn_away(user, self.regions.servers_of(HOME_REGION).len());
        }
    }

    /// `before`: the newest index that was acknowledged when it began.
    fn note_index(
        &mut self,
        action: &WriteRequest,
        result: &Result<WriteReply, Refusal>,
        before: u64,
    ) -> Result<(), String> {
        let Ok(reply) = result else { return Ok(()) };
        let index = reply.index();
        // there was nothing to stop, and no entry says so; or the token has made its job before
        if index == 0 || matches!(reply, WriteReply::Dispatched { eval: None, .. }) {
            return Ok(());
        }
        let told = &self.regions[HOME_REGION].told_events;
        self.asks.note_written(action, index, before, told)?;
        if let WriteReply::Job { eval: Some(_), .. } | WriteReply::Dispatched { eval: Some(_), .. } = reply {
            self.asks.evaluated = self.asks.evaluated.max(index);
        }
        if changes_a_job(action, reply) {
            self.asks.note_job_changed(index);
        }
        Ok(())
    }

    fn list_read(
        &mut self,
        at: Machine,
        target: &'static str,
        least: u64,
        response: &Response,
    ) -> Result<(), String> {
        if response.status == 500 {
            return Ok(());
        }
        self.asks.reads += 1;
        let index = index_of(response).ok_or_else(|| format!("{target} told no index"))?;
        let said: Value = serde_json::from_slice(&response.body).map_err(|e| format!("{target}: {e}"))?;
        if !said.is_array() || response.status != 200 {
            return Err(format!("{target} answered {} and no list", response.status));
        }
        if index < least {
            return Err(format!("{target} of {at} shows index {index}, {least} was known when it was asked"));
        }
        let shown = self.asks.shown.entry(target).or_default();
        *shown = index.max(*shown);
        Ok(())
    }
}

#[test]
fn an_index_that_goes_back_is_found() {
    let mut world = World::new(1, 3, 1, false);
    let action = WriteRequest::CollectGarbage;
    let done = |index| Ok(WriteReply::Job { eval: None, job_modify_index: index, index });
    assert_eq!(world.note_index(&action, &done(7), 6), Ok(()));
    let nothing = |index| Ok(WriteReply::Nothing { index });
    assert_eq!(world.note_index(&action, &nothing(0), 7), Ok(()), "nothing was done");
    let dispatched =
        |eval| Ok(WriteReply::Dispatched { job: "form/1".into(), eval, create_index: 5, index: 5 });
    assert_eq!(world.note_index(&action, &dispatched(None), 7), Ok(()), "it was there already");
    assert!(world.note_index(&action, &dispatched(Some(Default::default())), 7).is_err());
    for done in [done(7), nothing(7)] {
        assert!(world.note_index(&action, &done, 7).is_err_and(|e| e.contains("which began later")));
    }
    assert_eq!((world.asks.least("/v1/jobs"), world.asks.least("/v1/evaluations")), (7, 0));
    let made = |index| Ok(WriteReply::Job { eval: Some(Default::default()), job_modify_index: 7, index });
    assert_eq!(world.note_index(&action, &made(9), 8), Ok(()));
    assert_eq!((world.asks.least("/v1/jobs"), world.asks.least("/v1/evaluations")), (7, 9));
    let at = Machine::Server(ServerAt { region: 0, server: 0 });
    let list = |index: u64| Response::json(&["a"], false).with("X-Nomad-Index", index);
    assert_eq!(world.list_read(at, "/v1/jobs", 7, &list(7)), Ok(()));
    assert!(world.list_read(at, "/v1/jobs", 7, &list(6)).is_err_and(|e| e.contains("7 was known")));
    assert!(world.ask_answered(99, Outcome::Unknown).is_err(), "nobody asked");
}

/// An acknowledged write says that all writes before it were done, too.
#[test]
fn a_list_older_than_an_acknowledged_write_is_found() {
    use super::broken::{calm, is_found, run_for};
    let mut world = calm(1);
    world.register_quietly("quiet-1", 1);
    run_for(&mut world, Span::seconds(20));
    assert_eq!((world.asks.least("/v1/nodes"), world.asks.least("/v1/allocations")), (0, 0));
    let request = wire::command::NodeUpdateRequest::Eligible(false);
    world.ask_for_node(super::place::NodeAt { region: HOME_REGION, node: 0 }, request);
    run_for(&mut world, Span::seconds(1));
    let index = world.asks.acknowledged();
    assert!(index > 0);
    let allocs = world.asks.least("/v1/allocations");
    assert!(allocs > 0 && allocs < index, "it was placed and runs");
    assert_eq!(world.asks.least("/v1/nodes"), index);
    assert_eq!(world.asks.known("/v1/nodes"), 0, "no query waits for what nobody was told");
    let at = Machine::Server(ServerAt { region: HOME_REGION, server: 0 });
    let list = |index: u64| Response::json(&["a"], false).with("X-Nomad-Index", index);
    for (target, least) in [("/v1/nodes", index), ("/v1/allocations", allocs)] {
        is_found(world.list_read(at, target, least, &list(least - 1)), "was known when it was asked");
        assert_eq!(world.list_read(at, target, least, &list(least)), Ok(()));
    }
}

#[test]
fn a_blocking_query_that_comes_with_nothing_new_is_found() {
    let at = Machine::Server(ServerAt { region: HOME_REGION, server: 0 });
    let answered = |index: u64, left: Span| {
        let mut world = World::new(1, 1, 1, false);
        let awaits = Some((7, world.now.after(left)));
        world.asks.open.insert(1, Question::Read { at, target: "/v1/jobs", least: 7, awaits });
        let list = Response::json(&["a"], false).with("X-Nomad-Index", index);
        let found = world.ask_answered(1, Outcome::Answered(list));
        (found, world.faults.counts().get(&Kind::BlockingQueryWoken).copied())
    };
    assert_eq!(answered(8, BLOCKS), (Ok(()), Some(1)));
    assert_eq!(answered(7, Span::ZERO), (Ok(()), None), "it has waited long enough");
    super::broken::is_found(answered(7, BLOCKS).0, "came with nothing newer than 7");
}

#[test]
fn a_request_that_says_something_else_is_found() {
    let job = |id: &str| WriteRequest::ForceLaunch { job: model::id::JobKey::new("default", id) };
    assert!(is_meant(&job("a"), &job("a")) && !is_meant(&job("a"), &job("b")));
}

/// The entry has left a job otherwise than it was. One that is stopped already is not stopped again, whatever the answer's index.
fn changes_a_job(action: &WriteRequest, reply: &WriteReply) -> bool {
    match (action, reply) {
        (WriteRequest::DeregisterJob { purge: false, .. } | WriteRequest::ForceLaunch { .. }, _) => false,
        (_, WriteReply::Job { job_modify_index, index, .. }) => job_modify_index == index,
        (_, WriteReply::Dispatched { create_index, index, .. }) => create_index == index,
        _ => false,
    }
}

/// A job gets its defaults on the way.
fn is_meant(action: &WriteRequest, read: &WriteRequest) -> bool {
    match (action, read) {
        (WriteRequest::RegisterJob { spec, .. }, WriteRequest::RegisterJob { spec: read, .. }) => {
            spec.key() == read.key() && spec.groups.len() == read.groups.len()
        }
        _ => action == read,
    }
}

fn get(target: &str) -> Request {
    Request { method: Method::Get, path: target.into(), query: String::new(), body: vec![], websocket: false }
}

fn text_of(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}
