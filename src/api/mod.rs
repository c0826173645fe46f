//! The HTTP API without sockets: a request and what is known at present in, an answer or the work that leads to one out.
//!
//! Refuses to know: sockets, files, clocks and who runs it. Reads go through a view of the state and the published
//! status; writes become a `WriteRequest` for the servers. Invariants: nothing here panics on any request; a view lives for
//! one call only, a waiting query holds no more than its keys, an index and a deadline; every refusal is a sentence.

pub mod agent;
mod blocking;
mod consistency;
pub mod cors;
pub mod events;
pub mod filter;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
pub mod host;
pub mod indent;
mod json;
pub mod metrics;
pub mod monitor;
mod page;
pub mod presentation;
pub mod query;
pub mod request;
pub mod response;
mod routes;
pub mod session;
pub mod shape;
#[cfg(test)]
mod tests;
pub mod watch;

use agent::{AgentInfo, ClientReport};
use events::Subscription;
use host::HostRequest;
use metrics::MetricsReport;
use model::cron::Zones;
use model::id::NodeId;
use model::member::ServerMember;
use model::time::{Mono, Span};
use monitor::MonitorRequest;
use presentation::Presentation;
use query::Query;
use response::Response;
use routes::job::plan::JobPlanResponder;
use routes::job::{self, dispatch, versions};
use routes::why::WhyResponder;
use routes::{Handler, Namespaces, RouteKind};
use routes::{alloc, deployment, eval, join_token, namespace, node, operator, scheduler_config};
use state::store::Reader;
use state::view::View;
use std::sync::Arc;
use watch::WatchKey;
use wire::bearer_token::BearerToken;
use wire::client_rpc::ClientRequest;
use wire::http::{Method, Request};
use wire::job_plan::JobPlanRequest;
use wire::request::{Refusal, WriteReply, WriteRequest};
use wire::status::ServerStatus;
use wire::why::Subject;

/// What routing may read, as values.
pub struct RequestContext<'a> {
    /// `None` when this agent runs no server.
    pub reader: Option<&'a Reader>,
    /// Without a server: of one that knows nothing.
    pub status: &'a ServerStatus,
    pub agent: &'a AgentInfo,
    pub zones: Zones,
    /// Bytes that nobody can guess: an id and a secret. `None`: there are none now.
    pub random: fn() -> Option<[u8; 48]>,
    /// How many threads the process has; `None` where that cannot be found out.
    pub threads: fn() -> Option<u64>,
    /// `None` when this agent runs no node.
    pub client: Option<&'a ClientReport>,
    pub now: Mono,
    /// Spreads the ends of waits that began together.
    pub seed: u64,
}

/// The outcome of routing a request.
pub enum RouteOutcome {
    Respond(Response),
    /// A write: give it to the servers, and their answer to `WriteResponder::response`.
    Write(WriteRequest, WriteResponder),
    /// A job plan, which writes nothing: give it to the scheduler, and its result to `JobPlanResponder::response`.
    PlanJob(JobPlanRequest, JobPlanResponder),
    /// A `why` question, for the scheduler in the same way.
    Explain(Subject, WhyResponder),
    /// A blocking query without an answer yet: route again, with `state`, once a key changed past `seen` or `wake_at` has come.
    Wait(Wait),
    /// Another server is to answer: give the request to the leader. If nobody leads, wait and ask again.
    Forward(Wait),
    /// This agent has no server: give the request to the one that its node is connected to, which may hold the answer back for so
    /// long. If none is in reach, wait and ask again.
    ForwardToServer {
        hold: Span,
        otherwise: Wait,
    },
    /// First this server has to have applied all that was acknowledged before: then ask again with `WaitState::confirmed`. If that
    /// cannot be found out, wait and ask again.
    ConfirmRead(Wait),
    /// A stream of events.
    Events(Subscription),
    /// Metrics, to be completed with the machine's figures.
    Metrics(Box<MetricsReport>),
    /// `agent/host`, which needs the machine's figures.
    Host(HostRequest),
    /// The agent's own log.
    Monitor(MonitorRequest),
    /// An answer that takes long to work out: beside the thread that serves other requests.
    Compute(Box<dyn FnOnce() -> Response + Send>),
    /// A question to this agent's node: its answer is shown as `Presentation` says.
    AskClient(ClientRequest, Presentation),
    /// Another agent is to answer this: give it the request, and the caller its answer, whether that has an end or not.
    Relay(RelayTarget, Box<Request>),
}

/// The agent that a request is relayed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayTarget {
    Node(NodeId),
    /// By its raft id.
    Server(u64),
    /// The one that this agent's node asks, which finds the agent that is meant.
    OwnServer,
}

pub struct Wait {
    /// Empty: only the time matters.
    pub keys: Vec<WatchKey>,
    /// The state's index that the keys were read at.
    pub seen: u64,
    pub wake_at: Mono,
    pub state: WaitState,
}

/// The state that a waiting request carries to its next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitState {
    /// When a blocking query is answered with what there is.
    query_until: Option<Mono>,
    /// When a request is refused because there is no leader.
    leader_until: Option<Mono>,
    /// The state holds all that was acknowledged before the request came.
    confirmed: bool,
}

impl WaitState {
    pub fn confirmed(self) -> WaitState {
        WaitState { confirmed: true, ..self }
    }
}

/// How the servers' answer to an action becomes a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteResponder {
    kind: WriteKind,
    pretty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WriteKind {
    Registered {
        warnings: String,
    },
    Deregistered,
    /// An empty answer.
    Written,
    /// `from`: who led. `servers`: of the region.
    LeadershipTransferred {
        from: Option<u64>,
        servers: Arc<Vec<ServerMember>>,
    },
    SchedulerConfigured {
        warnings: String,
    },
    EvalsDeleted,
    JobEvaluated,
    JobLaunched,
    JobDispatched,
    StabilitySet,
    Tagged {
        name: String,
        description: String,
    },
    /// The token with its secret.
    JoinTokenCreated {
        token: Box<BearerToken>,
    },
    JoinTokenRedeemed,
    NodeEvaluated,
    NodeChanged,
    AllocStopped,
    DeploymentStepped,
}

impl WriteResponder {
    pub fn response(self, result: Result<WriteReply, Refusal>) -> Response {
        match result {
            Err(refusal) => refusal.into(),
            Ok(done) => match self.kind {
                WriteKind::Registered { warnings } => job::registered(&done, warnings, self.pretty),
                WriteKind::Deregistered => job::deregistered(&done, self.pretty),
                WriteKind::Written => namespace::written(&done),
                WriteKind::LeadershipTransferred { from, servers } => {
                    operator::transferred(&done, from, &servers, self.pretty)
                }
                WriteKind::SchedulerConfigured { warnings } => {
                    scheduler_config::configured(&done, warnings, self.pretty)
                }
                WriteKind::EvalsDeleted => eval::deleted(&done, self.pretty),
                WriteKind::JobEvaluated => job::registered(&done, String::new(), self.pretty),
                WriteKind::JobLaunched => dispatch::launched(&done, self.pretty),
                WriteKind::JobDispatched => dispatch::dispatched(&done, self.pretty),
                WriteKind::Tagged { name, description } => {
                    versions::tagged(&done, &name, &description, self.pretty)
                }
                WriteKind::StabilitySet => versions::stability_set(&done, self.pretty),
                WriteKind::AllocStopped => alloc::stopped(&done, self.pretty),
                WriteKind::DeploymentStepped => deployment::stepped(&done, self.pretty),
                WriteKind::JoinTokenCreated { token } => join_token::created(&done, &token, self.pretty),
                WriteKind::JoinTokenRedeemed => join_token::redeemed(&done, self.pretty),
                WriteKind::NodeEvaluated => node::evaluated(&done, self.pretty),
                WriteKind::NodeChanged => node::changed(&done, self.pretty),
            },
        }
    }
}

/// Routes a request. Called again, with the `state` of the `Wait`, when the wait is over.
pub fn route(request: &Request, ctx: &RequestContext<'_>, state: WaitState) -> RouteOutcome {
    step(request, ctx, state).unwrap_or_else(RouteOutcome::Respond)
}

/// Whether an agent answers the request when another one has relayed it: what its node or its process alone can say.
pub fn may_be_relayed(request: &Request) -> bool {
    let Ok(path) = request::decoded_path(request) else { return false };
    routes::find(&path, request.method).is_ok_and(|found| found.route.answered_by.is_one_agent())
}

/// Whether routing it may take long, so that it must not run on the thread that serves other requests: a filter is
/// evaluated on each object of a list, as JSON, however large the objects are.
pub fn may_take_long(request: &Request) -> bool {
    let filters = |(name, text): &(String, String)| name == "filter" && !text.is_empty();
    request::parameters(request).is_ok_and(|asked| asked.iter().any(filters))
}

fn step(request: &Request, ctx: &RequestContext<'_>, state: WaitState) -> Result<RouteOutcome, Response> {
    let bad = |why: request::BadTarget| Response::text(400, why.to_string());
    let found = routes::find(&request::decoded_path(request).map_err(bad)?, request.method)?;
    let route = found.route;
    if let Handler::NotBuilt(name) = route.handler {
        return Err(Response::not_supported(name));
    }
    // a stream has no length to send
    if request.method == Method::Head && !route.kind.is_whole() {
        return Err(Response::invalid_method());
    }
    let parameters = request::parameters(request).map_err(bad)?;
    if route.kind == RouteKind::EventStream {
        events::check_index(&parameters)?;
    }
    let query = Query::new(parameters)?;
    query.check_region(&ctx.agent.region)?;
    if query.filter.is_some() && route.kind != RouteKind::List {
        return Err(Response::text(400, "a filter is for lists: this request has none to choose from"));
    }
    let call = Call { request, query, ctx, state, namespaces: route.namespaces };
    if let Some(first) = consistency::before_answer(&call, &found)? {
        return Ok(first);
    }
    found.answer(&call)
}

/// A request on its way to its answer.
struct Call<'a> {
    request: &'a Request,
    query: Query,
    ctx: &'a RequestContext<'a>,
    state: WaitState,
    namespaces: Namespaces,
}

impl Call<'_> {
    /// As it came.
    fn relayed_to(&self, to: RelayTarget) -> RouteOutcome {
        RouteOutcome::Relay(to, Box::new(self.request.clone()))
    }

    fn view(&self) -> Result<View, Response> {
        let reader =
            self.ctx.reader.ok_or_else(|| Response::text(501, "this agent runs no server: ask one"))?;
        Ok(reader.view()?)
    }

    /// The namespace that a single object is looked for in.
    fn namespace(&self) -> &str {
        self.query.namespace.as_deref().unwrap_or("default")
    }

    /// The namespace that a list is of; `None`: every one.
    fn namespaces(&self) -> Option<&str> {
        match (self.query.namespace.as_deref(), self.namespaces) {
            (Some("*"), _) => None,
            (None, Namespaces::All) => None,
            (named, _) => Some(named.unwrap_or("default")),
        }
    }

    fn body(&self) -> Result<&[u8], Response> {
        match self.request.body.as_slice() {
            [] => Err(Response::text(400, "Request body is empty")),
            body => Ok(body),
        }
    }
}
