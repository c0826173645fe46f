//! Users of a region who speak HTTP to any of its servers, or to a node's agent, write a value into a job, and read it back: by default, and
//! stale. The log is the witness: the index that a write was acknowledged with is the one at which the job has its value; a read
//! that began after an acknowledgement, or after the end of another read, shows nothing older; a write of which nobody
//! knows may have happened once, or never.
//!
//! Refuses to know: servers' states. What it says of them is what HTTP said.

use super::api_requests::index_of;
use super::faults::Kind;
use super::http_calls::Outcome;
use super::place::{Machine, NodeAt, ServerAt};
use super::users::HOME_REGION;
use super::world::{Event, World};
use api::response::Response;
use model::id::JobKey;
use model::random::Stream;
use model::time::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::http::{Method, Request};

const JOBS: u64 = 4;

/// A question under way.
enum Question {
    /// `acknowledged`: the newest index that any write was acknowledged with when it began.
    Write { job: String, value: u64, acknowledged: u64 },
    /// `least`: the newest index of the job that anybody had seen when it began; 0 for a stale read.
    Read { job: String, least: u64, stale: bool, at: Machine },
    /// An operator's. Whatever is answered is well; what succeeds is counted, if it has a kind.
    Operation(Option<Kind>),
}

pub struct Clients {
    draws: Stream,
    /// For each question: whether a node's agent is asked, and which. One in so many is.
    nodes: Option<(Stream, u64)>,
    on: bool,
    /// How long one of them thinks, at most.
    pause: Span,
    questions: BTreeMap<u64, Question>,
    values: u64,
    /// The value that each write has asked for, by job.
    asked: BTreeMap<String, Vec<u64>>,
    /// By job and index: the value that it has from there on, as anybody was told.
    known: BTreeMap<(String, u64), u64>,
    /// The newest index that was acknowledged for each job, or shown by a default read.
    newest: BTreeMap<String, u64>,
    pub acknowledged: u64,
    pub reads: u64,
    pub stale_reads: u64,
    pub unknown: u64,
    /// The answers to operators.
    pub operations: Vec<u16>,
}

impl Clients {
    pub fn new(seed: u64) -> Clients {
        Clients {
            draws: Stream::new(seed, 107),
            nodes: None,
            on: false,
            pause: Span::seconds(1),
            questions: BTreeMap::new(),
            values: 0,
            asked: BTreeMap::new(),
            known: BTreeMap::new(),
            newest: BTreeMap::new(),
            acknowledged: 0,
            reads: 0,
            stale_reads: 0,
            unknown: 0,
            operations: vec![],
        }
    }

    pub fn start(&mut self, pause: Span) {
        self.on = true;
        self.pause = pause;
    }

    /// One question in so many is asked of a node's agent.
    pub fn ask_nodes(&mut self, seed: u64, one_in: u64) {
        self.nodes = Some((Stream::new(seed, 123), one_in));
    }

    fn draw_node(&mut self, nodes: u64) -> Option<usize> {
        let (draws, one_in) = self.nodes.as_mut()?;
        let node = draws.below(nodes) as usize;
        (draws.below(*one_in) == 0).then_some(node)
    }

    pub fn stop(&mut self) {
        self.on = false;
    }

    /// As if a write at a later index than any had been acknowledged.
    pub fn believe_in_a_later_write(&mut self) {
        self.newest.values_mut().for_each(|index| *index += 1_000_000);
    }

    /// The job was found to have that value from that index on.
    fn learn(&mut self, job: &str, index: u64, value: u64) -> Result<(), String> {
        if !self.asked.get(job).is_some_and(|all| all.contains(&value)) {
            return Err(format!("{job} has the value {value} at {index}, which nobody wrote"));
        }
        let known = *self.known.entry((job.to_string(), index)).or_insert(value);
        if known != value {
            return Err(format!("{job} at {index} had the value {known}, and now {value}"));
        }
        let twice = self.known.iter().find(|((j, i), v)| j == job && *i != index && **v == value);
        match twice {
            Some(((_, other), _)) => Err(format!("{job} got the value {value} at {other} and at {index}")),
            None => Ok(()),
        }
    }
}

impl World {
    /// One of them asks any agent; then, after a while, again.
    pub fn client_asks(&mut self) -> Result<(), String> {
        if !self.clients.on {
            return Ok(());
        }
        let draws = &mut self.clients.draws;
        let servers = self.regions[HOME_REGION].servers.len() as u64;
        let server = draws.below(servers) as usize;
        let job = format!("http-{}", draws.below(JOBS));
        let (kind, pause) = (draws.below(5), draws.span_below(self.clients.pause));
        let at = ServerAt { region: HOME_REGION, server };
        let nodes = self.regions[HOME_REGION].nodes.len() as u64;
        let node = self.clients.draw_node(nodes).map(|node| NodeAt { region: HOME_REGION, node });
        let (at, is_up) = match node {
            Some(node) => (Machine::Node(node), self.regions[node].client.is_some()),
            None => (Machine::Server(at), self.regions[at].is_up()),
        };
        if is_up {
            match kind {
                0 | 1 => self.client_writes(at, job),
                2 | 3 => self.client_reads(at, job, false),
                _ => self.client_reads(at, job, true),
            }
        }
        self.after(pause, Event::ClientAsks);
        Ok(())
    }

    pub fn client_writes(&mut self, at: Machine, job: String) {
        self.client_writes_with(at, job, 0);
    }

    /// With so much that is of no consequence.
    pub fn client_writes_with(&mut self, at: Machine, job: String, bytes: usize) {
        self.clients.values += 1;
        let value = self.clients.values;
        self.clients.asked.entry(job.clone()).or_default().push(value);
        let task = json!({ "Name": "t", "Driver": "exec", "Config": { "command": "sim" } });
        let group = json!({ "Name": "g", "Count": 0, "Tasks": [task] });
        let meta = json!({ "value": value.to_string(), "ballast": "x".repeat(bytes) });
        let body = json!({ "Job": { "ID": job, "Name": job, "Type": "service", "Meta": meta, "TaskGroups": [group] } });
        let request = request(Method::Put, "/v1/jobs".into(), "", body.to_string().into_bytes());
        let id = self.call(at, request);
        self.note(|_| format!("client  {id} writes {value} into {job} at {at}"));
        let acknowledged = self.asks.acknowledged();
        self.clients.questions.insert(id, Question::Write { job, value, acknowledged });
    }

    pub fn client_reads(&mut self, at: Machine, job: String, stale: bool) {
        let least = if stale { 0 } else { self.clients.newest.get(&job).copied().unwrap_or(0) };
        let query = if stale { "stale" } else { "" };
        let id = self.call(at, request(Method::Get, format!("/v1/job/{job}"), query, vec![]));
        self.note(|_| format!("client  {id} reads {job} at {at}, stale: {stale}"));
        self.clients.questions.insert(id, Question::Read { job, least, stale, at });
    }

    /// An operator asks that server.
    pub fn operator_calls(&mut self, at: ServerAt, method: Method, path: &str, query: &str) {
        self.operator_calls_for(None, at, method, path, query);
    }

    pub fn operator_calls_for(
        &mut self,
        kind: Option<Kind>,
        at: ServerAt,
        method: Method,
        path: &str,
        query: &str,
    ) {
        let id = self.call(Machine::Server(at), request(method, path.into(), query, vec![]));
        self.note(|_| format!("operator {id} {path} {query} at {at}"));
        self.clients.questions.insert(id, Question::Operation(kind));
    }

    pub fn client_answered(&mut self, id: u64, outcome: Outcome) -> Result<(), String> {
        let Some(question) = self.clients.questions.remove(&id) else {
            return Err(format!("call {id} was answered twice, or never made"));
        };
        self.note(|_| match &outcome {
            Outcome::Answered(r) => format!("client  {id} got {}", r.status),
            Outcome::Unknown => format!("client  {id} got no answer"),
        });
        match (question, outcome) {
            (_, Outcome::Unknown) => {
                self.clients.unknown += 1;
                Ok(())
            }
            (Question::Operation(kind), Outcome::Answered(response)) => {
                if let Some(kind) = kind.filter(|_| response.status == 200) {
                    self.faults.fired(kind);
                }
                self.clients.operations.push(response.status);
                Ok(())
            }
            (Question::Write { job, value, acknowledged }, Outcome::Answered(response))
                if response.status == 200 =>
            {
                self.client_wrote(&job, value, acknowledged, &response)
            }
            // refused, or nobody knows: both are a status of 500, and the value may be there
            (Question::Write { .. }, Outcome::Answered(response)) => no_success(&response),
            (Question::Read { job, least, stale, at }, Outcome::Answered(response)) => {
                if let (Machine::Server(at), true, 200) = (at, stale, response.status) {
                    self.check_contact(at, &response)?;
                }
                self.client_read(&job, least, stale, &response)
            }
        }
    }

    fn client_wrote(
        &mut self,
        job: &str,
        value: u64,
        before: u64,
        response: &Response,
    ) -> Result<(), String> {
        let changed = number(&json_of(response)?, "JobModifyIndex")?;
        let index = index_of(response).ok_or("an answer to a write without its index")?;
        let (what, told) = (format!("a write of {value} into {job}"), &self.regions[HOME_REGION].told_events);
        self.asks.note_written(what, index, before, told)?;
        // each value is another one, and so each write is another version
        if changed != index {
            return Err(format!("{job} was written at {index}, and said to have changed at {changed}"));
        }
        self.asks.note_job_changed(index);
        self.check_value_witness(&JobKey::new("default", job), index, value)?;
        self.clients.acknowledged += 1;
        let newest = self.clients.newest.entry(job.to_string()).or_default();
        *newest = index.max(*newest);
        self.faults.fired(Kind::AskedOverHttp);
        self.clients.learn(job, index, value)
    }

    fn client_read(&mut self, job: &str, least: u64, stale: bool, response: &Response) -> Result<(), String> {
        match response.status {
            404 if least > 0 => {
                Err(format!("{job} was there at {least}, and a read that began later finds none"))
            }
            404 => Ok(()),
            200 => {
                let body = json_of(response)?;
                let index = number(&body, "JobModifyIndex")?;
                if index < least {
                    return Err(format!(
                        "{job} was known at {least}, and a read that began later shows {index}"
                    ));
                }
                let value = body["Meta"]["value"].as_str().and_then(|v| v.parse().ok());
                self.clients.learn(job, index, value.ok_or("a job without its value")?)?;
                if stale {
                    self.clients.stale_reads += 1;
                    return Ok(());
                }
                self.clients.reads += 1;
                let newest = self.clients.newest.entry(job.to_string()).or_default();
                *newest = index.max(*newest);
                Ok(())
            }
            _ => no_success(response),
        }
    }
}

fn request(method: Method, path: String, query: &str, body: Vec<u8>) -> Request {
    Request { method, path, query: query.into(), body, websocket: false }
}

fn json_of(response: &Response) -> Result<Value, String> {
    serde_json::from_slice(&response.body).map_err(|e| e.to_string())
}

fn number(body: &Value, key: &str) -> Result<u64, String> {
    body[key].as_u64().ok_or_else(|| format!("an answer without {key}: {body}"))
}

/// Servers refuse for want of a leader, of room, or of knowledge; a sound request is not called wrong.
fn no_success(response: &Response) -> Result<(), String> {
    match response.status {
        500 | 429 => Ok(()),
        status => Err(format!("a sound request got {status}: {}", String::from_utf8_lossy(&response.body))),
    }
}

#[test]
fn a_value_that_nobody_wrote_or_that_comes_twice_is_found() {
    let mut clients = Clients::new(1);
    clients.asked.insert("a".into(), vec![1, 2]);
    let mut learn = |job: &str, index, value| clients.learn(job, index, value);
    let found = |learnt: Result<(), String>, why: &str| learnt.is_err_and(|e| e.contains(why));
    assert_eq!(learn("a", 5, 1), Ok(()));
    assert_eq!(learn("a", 5, 1), Ok(()), "it is read again");
    assert!(found(learn("a", 6, 3), "which nobody wrote"));
    assert!(found(learn("b", 6, 1), "which nobody wrote"));
    assert!(found(learn("a", 5, 2), "had the value 1, and now 2"));
    assert!(found(learn("a", 6, 1), "got the value 1 at 5 and at 6"));
    assert_eq!(learn("a", 7, 2), Ok(()));
}

#[test]
fn an_answer_to_a_write_whose_indexes_contradict_is_found() {
    let answer = |index: u64, changed: u64, before: u64| {
        let mut world = World::new(1, 3, 1, false);
        world.clients.asked.insert("a".into(), vec![1]);
        let response =
            Response::json(&json!({ "JobModifyIndex": changed }), false).with("X-Nomad-Index", index);
        world.client_wrote("a", 1, before, &response)
    };
    assert_eq!(answer(7, 7, 6), Ok(()));
    assert!(answer(7, 7, 7).is_err_and(|e| e.contains("which began later, got 7")));
    assert!(answer(7, 6, 5).is_err_and(|e| e.contains("said to have changed at 6")));
}

#[test]
fn a_sound_request_that_is_called_wrong_is_found() {
    let answer = |status| no_success(&Response::text(status, "so it is said"));
    assert_eq!((answer(500), answer(429)), (Ok(()), Ok(())));
    for status in [400, 403, 404, 405, 501] {
        let found = answer(status);
        assert!(found.is_err_and(|e| e.contains("a sound request got")), "{status}");
    }
    let mut world = World::new(1, 1, 1, false);
    let at = Machine::Server(ServerAt { region: HOME_REGION, server: 0 });
    let read = Question::Read { job: "a".into(), least: 0, stale: false, at };
    let write = Question::Write { job: "a".into(), value: 1, acknowledged: 0 };
    for (id, question) in [(1, read), (2, write)] {
        world.clients.questions.insert(id, question);
        let found = world.client_answered(id, Outcome::Answered(Response::text(400, "no")));
        assert!(found.is_err_and(|e| e.contains("a sound request got 400: no")), "{id}");
    }
}
