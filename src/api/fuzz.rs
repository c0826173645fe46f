//! What holds of any request, of any job that is registered and of any filter.

use super::agent::{AgentInfo, ClientReport};
use super::filter::{Filter, OmitEmpty};
use super::response::Response;
use super::shape::job::JobShape;
use super::{RequestContext, RouteOutcome, WaitState, may_be_relayed, route};
use jobspec::{decode_job, decode_register};
use model::alloc::ClientStatus;
use model::canonical::{Defaults, complete};
use model::time::{Mono, Span};
use model::validate::validate;
use serde_json::{Value, json};
use state::samples::{
    AT, Region, alloc, alloc_id, eval, eval_id, namespace, node_id, place, register, report, spec, submit,
};
use wire::command::Command;
use wire::http::{MAX_HOLD, Method, Request};
use wire::metrics::MetricsSnapshot;
use wire::record;
use wire::status::ServerStatus;

/// No answer of a region this small is longer; a refusal is a sentence or a few.
const MAX_ANSWER_BYTES: usize = 16 << 20;
const MAX_REFUSAL_BYTES: usize = 256 << 10;

/// A job that is taken is canonical, and what is shown and stored of it means the same.
pub fn job(bytes: &[u8]) {
    let spec = match decode_register(bytes) {
        Ok(register) if register.flaws.is_empty() => register.spec,
        Ok(register) => return assert!(register.flaws.refusal(vec![]).is_some()),
        Err(refused) => {
            return assert!(!refused.to_string().is_empty());
        }
    };
    let mut again = spec.clone();
    complete(&mut again, &Defaults::default());
    assert_eq!(again, spec, "canonical twice is canonical once");
    assert_eq!(record::decode(&record::encode(&spec)).as_ref(), Ok(&spec));
    if !validate(&spec, &Default::default()).is_ok() {
        return;
    }
    let shown = serde_json::to_value(JobShape::of_spec(&spec)).expect("a job is JSON");
    assert_eq!(decode_job(&shown).map_err(|r| r.to_string()), Ok(spec), "{shown}");
}

/// A filter answers, and its negation answers the contrary.
pub fn filter(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(filter) = Filter::parse(&text).map_err(|why| assert!(!why.is_empty())) else { return };
    let negated = Filter::parse(&format!("not ({text})")).ok();
    for object in [thing(), json!({}), json!({"ID": null, "Meta": [], "Tags": {"a": {"N": -1}}})] {
        match filter.matches(&object, &OmitEmpty::NOTHING) {
            Ok(matched) => {
                let contrary = negated.as_ref().map(|n| n.matches(&object, &OmitEmpty::NOTHING));
                assert!(contrary.is_none_or(|c| c == Ok(!matched)), "{text}");
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}

fn thing() -> Value {
    json!({
        "ID": "web-1", "Name": "web", "Status": "running", "Priority": 50, "Stop": false, "Score": 1.5,
        "Meta": {"a": "b", "os.name": "linux"}, "Tags": ["blue", "green"], "Nums": [1, 2, 10], "Nil": null,
        "Groups": [{"N": 1, "Tags": ["one"]}], "Map": {"k": {"N": 5, "Tags": []}}
    })
}

/// A request is answered at once, with a status and within bounds, twice the same; or it becomes something that can be sent. So it
/// is at an agent with a server and at one without.
pub fn request(bytes: &[u8]) {
    let Some(request) = read(bytes) else { return };
    [true, false].into_iter().for_each(|has_server| request_at(has_server, &request));
}

fn request_at(has_server: bool, request: &Request) {
    thread_local!(static WORLD: World = World::new());
    WORLD.with(|world| match (world.step(request, has_server), world.step(request, has_server)) {
        (RouteOutcome::Respond(first), RouteOutcome::Respond(second)) => answered(&first, &second),
        (RouteOutcome::Compute(first), RouteOutcome::Compute(second)) => answered(&first(), &second()),
        (RouteOutcome::AskClient(ask, _), _) => assert_eq!(record::decode(&record::encode(&ask)), Ok(ask)),
        (RouteOutcome::ForwardToServer { hold, .. }, _) => assert!(!has_server && hold <= MAX_HOLD),
        (RouteOutcome::Relay(_, asked), _) => assert!(may_be_relayed(&asked)),
        (RouteOutcome::Wait(wait), _) => assert!(wait.wake_at.since(NOW) <= Span::minutes(11)),
        _ => {}
    });
}

fn answered(first: &Response, second: &Response) {
    assert!((200..600).contains(&first.status), "{}", first.status);
    let most = if first.status < 300 { MAX_ANSWER_BYTES } else { MAX_REFUSAL_BYTES };
    assert!(first.body.len() <= most, "{} bytes", first.body.len());
    // of a path that nobody knows there is nothing to say
    let speaks = first.status < 300 || first.status == 404 || !first.body.is_empty();
    assert!(speaks, "{} says nothing", first.status);
    assert_eq!(first, second);
}

fn read(bytes: &[u8]) -> Option<Request> {
    let end = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    let (line, body) = bytes.split_at(end);
    let line = std::str::from_utf8(line).ok()?;
    let (method, target) = line.split_once(' ')?;
    let method = match method {
        "GET" => Method::Get,
        "PUT" => Method::Put,
        "POST" => Method::Post,
        "DELETE" => Method::Delete,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        _ => Method::Other,
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let body = body.get(1..).unwrap_or_default().to_vec();
    Some(Request { method, path: path.into(), query: query.into(), body, websocket: query.contains("tty") })
}

const NOW: Mono = Mono(1_000_000_000);

/// A leader with a node, two jobs, an allocation that runs, and a second namespace.
struct World {
    region: Region,
    status: ServerStatus,
    agent: AgentInfo,
    client: ClientReport,
}

impl World {
    fn new() -> World {
        let mut region = Region::default();
        region.ready_node(1);
        region.run(&namespace("other", "for more"));
        region.run(&submit(spec("told", 2), "job \"told\" {}", 6));
        region.run(&register(spec("web", 1), Some(eval(1, "web"))));
        let job = region.job("web");
        let nodes = place(vec![alloc(1, &job, node_id(1), eval_id(1))]);
        region.run(&Command::ApplyPlan {
            eval: eval_id(1),
            nodes,
            deployment: None,
            updates: vec![],
            evals: vec![],
            at: AT,
        });
        let updates = vec![report(1, ClientStatus::Running)];
        region.run(&Command::UpdateAllocs {
            seen: u64::MAX,
            node: node_id(1),
            updates,
            verdicts: vec![],
            evals: vec![],
            at: AT,
        });
        let agent = AgentInfo {
            name: "edge-1".into(),
            region: "global".into(),
            server: true,
            client: true,
            job_max_priority: 100,
            job_default_priority: 50,
            job_max_source_bytes: 1_000_000,
            enable_debug: true,
            ..AgentInfo::default()
        };
        let client = ClientReport {
            node_id: node_id(1),
            known_servers: vec![],
            allocs: vec![alloc_id(1)],
            since_heartbeat: None,
            heartbeat_ttl: Span::seconds(10),
            measured: MetricsSnapshot::default(),
        };
        let status =
            ServerStatus { id: 7, leader: Some(7), ready: true, voters: vec![7], ..ServerStatus::default() };
        World { region, status, agent, client }
    }

    fn step(&self, request: &Request, has_server: bool) -> RouteOutcome {
        let reader = self.region.store.reader();
        let context = RequestContext {
            reader: has_server.then_some(&reader),
            status: &self.status,
            agent: &self.agent,
            zones: |_| None,
            random: || Some([7; 48]),
            threads: || None,
            client: Some(&self.client),
            now: NOW,
            seed: 3,
        };
        route(request, &context, WaitState::default())
    }
}
