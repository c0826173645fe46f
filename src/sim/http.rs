//! The users that speak HTTP: writes as JSON bodies and reads, both through `api` as a socket would bring them.
//!
//! Refuses to know: sockets. Checked here: a written job is the one that was meant, an index never goes back, and what was
//! acknowledged is visible to the next read.

use super::faults::Kind;
use super::place::ServerAt;
use super::users::User;
use super::world::World;
use api::agent::AgentInfo;
use api::response::Response;
use api::{RequestContext, RouteOutcome, WaitState, WriteResponder, route};
use model::job::{JobSpec, JobType};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::http::{Method, Request};
use wire::request::{WriteReply, WriteRequest};

/// What HTTP users remember.
#[derive(Default)]
pub struct Readers {
    agent: AgentInfo,
    answers: BTreeMap<u64, WriteResponder>,
    /// The newest index that each target of a server has shown.
    shown: BTreeMap<(ServerAt, &'static str), u64>,
    /// The newest index that a server acknowledged a write with, but of jobs that run nothing themselves.
    acknowledged: BTreeMap<ServerAt, u64>,
    pub reads: u64,
}

const TARGETS: [&str; 5] =
    ["/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/nodes", "/v1/agent/health"];

impl Readers {
    pub fn new() -> Self {
        let agent = AgentInfo {
            name: "server".into(),
            region: "global".into(),
            datacenter: "dc1".into(),
            server: true,
            job_max_priority: 100,
            job_default_priority: 50,
            job_max_source_bytes: 1_000_000,
            ..AgentInfo::default()
        };
        Readers { agent, ..Readers::default() }
    }
}

impl World {
    /// One step of a request at that server; `None`: it is down.
    pub fn route(&self, at: ServerAt, request: &Request, state: WaitState) -> Option<RouteOutcome> {
        let server = self.regions[at].brain.as_ref()?;
        let (reader, status) = (server.reader(), server.status());
        let agent = &self.readers.agent;
        let ctx = RequestContext {
            reader: &reader,
            status: &status,
            agent,
            threads: || None,
            zones: super::launches::zone,
            client: None,
            now: self.now,
            seed: self.now.0,
        };
        Some(route(request, &ctx, state))
    }

    fn ask(&self, at: ServerAt, request: &Request) -> Option<RouteOutcome> {
        self.route(at, request, WaitState::default())
    }

    /// The action that a registration by HTTP comes to. `None`: no leader just now.
    pub fn register_over_http(
        &mut self,
        at: ServerAt,
        token: u64,
        spec: &JobSpec,
    ) -> Result<Option<WriteRequest>, String> {
        let body = json!({ "Job": job(spec) }).to_string().into_bytes();
        let request = write(Method::Put, "/v1/jobs".into(), String::new(), body);
        self.write_over_http(at, token, &request)
    }

    pub fn deregister_over_http(
        &mut self,
        at: ServerAt,
        token: u64,
        id: &str,
        purge: bool,
    ) -> Result<Option<WriteRequest>, String> {
        let (path, query) = (format!("/v1/job/{id}"), format!("purge={purge}"));
        self.write_over_http(at, token, &write(Method::Delete, path, query, Vec::new()))
    }

    fn write_over_http(
        &mut self,
        at: ServerAt,
        token: u64,
        request: &Request,
    ) -> Result<Option<WriteRequest>, String> {
        match self.ask(at, request) {
            Some(RouteOutcome::Write(action, answer)) => {
                self.readers.answers.insert(token, answer);
                self.faults.fired(Kind::AskedOverHttp);
                Ok(Some(action))
            }
            Some(RouteOutcome::Respond(response)) if response.status != 500 => Err(format!(
                "a sound request got {}: {}",
                response.status,
                String::from_utf8_lossy(&response.body)
            )),
            _ => Ok(None),
        }
    }

    /// The response to a write, if it came by HTTP: what it says is what was done.
    pub fn respond(
        &mut self,
        at: ServerAt,
        token: u64,
        result: &Result<WriteReply, wire::request::Refusal>,
    ) -> Result<(), String> {
        let runs_nothing = matches!(result, Ok(WriteReply::Job { eval: None, .. }));
        if let Ok(done) = result
            && !runs_nothing
        {
            let newest = self.readers.acknowledged.entry(at).or_default();
            *newest = done.index().max(*newest);
        }
        let Some(answer) = self.readers.answers.remove(&token) else { return Ok(()) };
        let response = answer.response(result.clone());
        match (result, response.status) {
            (Ok(_), 200) => {
                let said: Value = serde_json::from_slice(&response.body).map_err(|e| e.to_string())?;
                let index = said.get("JobModifyIndex").and_then(Value::as_u64);
                if index.is_none() { Err(format!("an answer without an index: {said}")) } else { Ok(()) }
            }
            (Err(_), status) if status >= 400 => Ok(()),
            (result, status) => Err(format!("{result:?} became status {status}")),
        }
    }

    /// One list is read: its index has not gone back, and holds what was acknowledged before. Only a leader promises that.
    pub fn read_over_http(&mut self, which: u64) -> Result<(), String> {
        let Some(at) = self.server_of(User::Reader).filter(|at| self.regions[*at].leads()) else {
            return Ok(());
        };
        let target = TARGETS[(which % TARGETS.len() as u64) as usize];
        let request = Request {
            method: Method::Get,
            path: target.into(),
            query: String::new(),
            body: Vec::new(),
            websocket: false,
        };
        let Some(RouteOutcome::Respond(response)) = self.ask(at, &request) else { return Ok(()) };
        if target == "/v1/agent/health" || response.status == 500 {
            return Ok(());
        }
        self.readers.reads += 1;
        let index = index_of(&response).ok_or_else(|| format!("{target} told no index"))?;
        let said: Value = serde_json::from_slice(&response.body).map_err(|e| format!("{target}: {e}"))?;
        if !said.is_array() || response.status != 200 {
            return Err(format!("{target} answered {} and no list", response.status));
        }
        let shown = self.readers.shown.insert((at, target), index).unwrap_or(0);
        if index < shown {
            return Err(format!("{target} showed index {shown}, and now {index}"));
        }
        // every such write stores an evaluation under the index that it is acknowledged with
        let acknowledged = self.readers.acknowledged.get(&at).copied().unwrap_or(0);
        if target == "/v1/evaluations" && index < acknowledged {
            return Err(format!("{acknowledged} was acknowledged, but {target} shows {index}"));
        }
        Ok(())
    }
}

fn write(method: Method, path: String, query: String, body: Vec<u8>) -> Request {
    Request { method, path, query, body, websocket: false }
}

fn index_of(response: &Response) -> Option<u64> {
    response.header("X-Nomad-Index").and_then(|v| v.parse().ok())
}

/// The API's JSON of a job of the workload.
fn job(spec: &JobSpec) -> Value {
    let groups: Vec<Value> = spec
        .groups
        .iter()
        .map(|g| {
            let tasks: Vec<Value> = g
                .tasks
                .iter()
                .map(|t| {
                    json!({
                        "Name": t.name,
                        "Driver": t.driver,
                        "Config": t.config.iter().map(|(k, v)| (k.clone(), plain(v))).collect::<BTreeMap<_, _>>(),
                        "Resources": { "CPU": t.resources.cpu_mhz, "MemoryMB": t.resources.memory_mb },
                        "KillTimeout": t.kill_timeout.as_nanos(),
                        "LogConfig": { "MaxFiles": t.logs.max_files, "MaxFileSizeMB": t.logs.max_file_size_mb },
                    })
                })
                .collect();
            let limits = g.scaling.as_ref().map(|s| json!({ "Min": s.min, "Max": s.max, "Enabled": s.enabled }));
            json!({ "Name": g.name, "Count": g.count, "Tasks": tasks, "Scaling": limits })
        })
        .collect();
    let kind = if spec.job_type == JobType::Batch { "batch" } else { "service" };
    let mut job = json!({ "ID": spec.id, "Name": spec.id, "Type": kind, "Priority": spec.priority, "TaskGroups": groups });
    if let Some(p) = &spec.periodic {
        let rules = (p.enabled, p.prohibit_overlap);
        job["Periodic"] = json!({ "Enabled": rules.0, "ProhibitOverlap": rules.1, "Specs": p.specs, "TimeZone": p.time_zone });
    }
    job
}

fn plain(value: &model::value::Value) -> Value {
    use model::value::Value as V;
    match value {
        V::Text(text) => json!(text),
        V::List(list) => list.iter().map(plain).collect(),
        V::Int(n) => json!(n),
        V::Bool(b) => json!(b),
        V::Float(n) => json!(n),
        V::Null => Value::Null,
        V::Map(map) => map.iter().map(|(k, v)| (k.clone(), plain(v))).collect(),
    }
}
