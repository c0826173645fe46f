//! The HTTP API without sockets: a request and what is known at present in, an answer or the work that leads to one out.
//!
//! Refuses to know: sockets, files, clocks and who runs it. Reads go through a view of the state and the published
//! status; writes become an `Action` for the servers. Invariants: nothing here panics on any request; a view lives for
//! one call only, a waiting query holds no more than its keys, an index and a deadline; every refusal is a sentence.

mod actions;
pub mod agent;
mod alloc_metrics;
mod allocs;
mod blocking;
pub mod cors;
mod deployments;
mod evals;
pub mod events;
mod family;
pub mod filter;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod fuzzy;
pub mod host;
pub mod indent;
mod jobs;
mod json;
mod keys;
mod methods;
pub mod metrics;
pub mod monitor;
mod namespaces;
mod nodes;
mod on_node;
mod operator;
mod page;
mod path;
pub mod plan;
mod pools;
pub mod query;
pub mod request;
pub mod response;
mod scaling;
mod scheduler;
mod search;
pub mod session;
pub mod shape;
pub mod showing;
mod statuses;
mod submissions;
#[cfg(test)]
mod tests;
mod versions;
pub mod watch;
pub mod why;

use agent::{AgentInfo, ClientReport};
use events::Subscription;
use host::HostRequest;
use methods::{is_list, takes};
use metrics::Metrics;
use model::cron::Zones;
use model::time::{Mono, Span};
use monitor::MonitorRequest;
use path::{AgentRoute, PoolRoute, Route};
use plan::Planned;
use query::Query;
use request::{Method, Request};
use response::Response;
use showing::Showing;
use state::store::Reader;
use state::view::View;
use watch::WatchKey;
use why::Explained;
use wire::ask::NodeAsk;
use wire::rehearsal::Rehearse;
use wire::request::{Action, Done, Refusal, RefusalKind};
use wire::status::ServerStatus;
use wire::why::Subject;

/// What is known at present, as values.
pub struct Context<'a> {
    pub reader: &'a Reader,
    pub status: &'a ServerStatus,
    pub agent: &'a AgentInfo,
    pub zones: Zones,
    /// `None` when this agent runs no node.
    pub client: Option<&'a ClientReport>,
    pub now: Mono,
    /// Spreads the ends of waits that began together.
    pub seed: u64,
}

/// What shall happen with a request.
pub enum Outcome {
    Respond(Response),
    /// A write: give it to the servers, and their answer to `Answer::response`.
    Act(Action, Answer),
    /// Something to be found out, without writing: give it to the scheduler, and what it says to `Planned::response`.
    Rehearse(Rehearse, Planned),
    /// Why something is as it is: to be found out in the same way.
    Explain(Subject, Explained),
    /// Nothing to tell yet: ask again, with `held`, once a key changed past `seen` or `wake_at` has come.
    Wait(Wait),
    /// A stream of events.
    Events(Subscription),
    /// To be completed by what the machine says.
    Metrics(Box<Metrics>),
    /// The same, of the machine alone.
    Host(HostRequest),
    /// The agent's own log.
    Monitor(MonitorRequest),
    /// A question to this agent's node: its answer is shown as `Showing` says.
    Ask(NodeAsk, Showing),
}

pub struct Wait {
    /// Empty: only the time matters.
    pub keys: Vec<WatchKey>,
    /// The state's index that the keys were read at.
    pub seen: u64,
    pub wake_at: Mono,
    pub held: Held,
}

/// What a request that waited brings back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// When a blocking query is answered with what there is.
    query_until: Option<Mono>,
    /// When a read is refused for want of a leader.
    leader_until: Option<Mono>,
}

/// How the servers' answer to an action becomes a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    kind: AnswerKind,
    pretty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AnswerKind {
    Registered {
        warnings: String,
    },
    Deregistered,
    /// Nothing is said of it.
    Written,
    SchedulerConfigured,
    EvalsDeleted,
    JobEvaluated,
    JobLaunched,
    JobDispatched,
    StabilitySet,
    Tagged {
        name: String,
        description: String,
    },
    NodeEvaluated,
    NodeChanged,
    AllocStopped,
    DeploymentStepped,
}

impl Answer {
    pub fn response(self, result: Result<Done, Refusal>) -> Response {
        match result {
            Err(refusal) => refusal.into(),
            Ok(done) => match self.kind {
                AnswerKind::Registered { warnings } => jobs::registered(&done, warnings, self.pretty),
                AnswerKind::Deregistered => jobs::deregistered(&done, self.pretty),
                AnswerKind::Written => namespaces::written(&done),
                AnswerKind::SchedulerConfigured => scheduler::configured(&done, self.pretty),
                AnswerKind::EvalsDeleted => evals::deleted(&done, self.pretty),
                AnswerKind::JobEvaluated => jobs::registered(&done, String::new(), self.pretty),
                AnswerKind::JobLaunched => family::launched(&done, self.pretty),
                AnswerKind::JobDispatched => family::dispatched(&done, self.pretty),
                AnswerKind::Tagged { name, description } => {
                    versions::tagged(&done, &name, &description, self.pretty)
                }
                AnswerKind::StabilitySet => versions::stability_set(&done, self.pretty),
                AnswerKind::AllocStopped => allocs::stopped(&done, self.pretty),
                AnswerKind::DeploymentStepped => deployments::stepped(&done, self.pretty),
                AnswerKind::NodeEvaluated => nodes::evaluated(&done, self.pretty),
                AnswerKind::NodeChanged => nodes::changed(&done, self.pretty),
            },
        }
    }
}

/// How long a read waits for a leader (http-api.md 0.6.5, server.md 5), and how often it looks.
const LEADER_HOLD: Span = Span::seconds(5);
const LEADER_LOOK: Span = Span::millis(100);

/// The sentence for want of a leader.
fn no_leader() -> &'static str {
    "No cluster leader"
}

/// One step of a request. Called again, with the `held` of the `Wait`, when the wait is over.
pub fn route(request: &Request, ctx: &Context<'_>, held: Held) -> Outcome {
    match step(request, ctx, held) {
        Ok(outcome) => outcome,
        Err(response) => Outcome::Respond(response),
    }
}

fn step(request: &Request, ctx: &Context<'_>, held: Held) -> Result<Outcome, Response> {
    let bad = |why: request::BadTarget| Response::text(400, why.to_string());
    let route = path::route(&request.decoded_path().map_err(bad)?);
    match route {
        Route::Unknown => return Err(Response::text(404, "")),
        Route::UnknownPart => return Err(Response::text(404, "resource not found")),
        Route::NotBuilt(name) => return Err(Response::not_supported(name)),
        _ if !takes(&route, request.method) => return Err(Response::invalid_method()),
        _ => {}
    }
    let query = Query::new(request.parameters().map_err(bad)?)?;
    query.check_region(&ctx.agent.region)?;
    let lists = is_list(&route) && (request.method == Method::Get || route == Route::JobsStatuses);
    if query.filter.is_some() && !lists {
        return Err(Response::text(400, "a filter is for lists: this request has none to choose from"));
    }
    if let Some(wait) = await_leader(&route, &query, ctx, held)? {
        return Ok(Outcome::Wait(wait));
    }
    Call { request, query, ctx, held }.answer(route)
}

/// Reads are consistent unless the caller takes stale ones: without a leader that has applied what came before it, they
/// wait a little, then are refused.
fn await_leader(
    route: &Route,
    query: &Query,
    ctx: &Context<'_>,
    held: Held,
) -> Result<Option<Wait>, Response> {
    let stateless = matches!(
        route,
        Route::JobsParse
            | Route::ValidateJob
            | Route::Leader
            | Route::Peers
            | Route::Regions
            | Route::Agent(_)
            | Route::Logs(_)
            | Route::EventStream
            | Route::Metrics
            | Route::AutopilotHealth
            | Route::RaftConfiguration
            | Route::Files(..)
            | Route::AllocExec(_)
            | Route::JobAction(_)
            | Route::AllocFigures(_)
            | Route::AllocChecks(_)
            | Route::AllocCollect(_)
            | Route::HostFigures
            | Route::Metadata
            | Route::Collect
            | Route::AllocRestart(_)
            | Route::AllocSignal(_)
    );
    if stateless || query.stale || (ctx.status.leader.is_some() && ctx.status.ready) {
        return Ok(None);
    }
    let until = held.leader_until.unwrap_or(ctx.now.after(LEADER_HOLD));
    if ctx.now < until {
        let held = Held { leader_until: Some(until), ..held };
        let wake_at = ctx.now.after(LEADER_LOOK).min(until);
        return Ok(Some(Wait { keys: vec![], seen: 0, wake_at, held }));
    }
    let why = match ctx.status.leader {
        None => no_leader(),
        Some(_) => "Not ready to serve consistent reads",
    };
    Err(Refusal::new(RefusalKind::Unavailable, why).into())
}

/// A request on its way to its answer.
struct Call<'a> {
    request: &'a Request,
    query: Query,
    ctx: &'a Context<'a>,
    held: Held,
}

impl Call<'_> {
    fn answer(&self, route: Route) -> Result<Outcome, Response> {
        let write = self.request.method != Method::Get;
        match route {
            Route::Jobs => self.jobs(write),
            Route::JobsParse => jobs::parse(self).map(Outcome::Respond),
            Route::Job(id) => self.one_job(id),
            Route::JobAllocations(id) => allocs::of_job(self, id),
            Route::JobEvaluations(id) => evals::of_job(self, id),
            Route::JobSummary(id) => jobs::summary(self, id),
            Route::JobEvaluate(id) => jobs::evaluate(self, id),
            Route::JobPlan(id) => plan::plan(self, &id),
            Route::JobWhy(_) | Route::AllocWhy(_) | Route::EvalWhy(_) => why::answer(self, route),
            Route::JobRevert(_) | Route::JobStability(_) => versions::judge(self, route),
            Route::JobTag { job, tag } => versions::tag(self, job, tag),
            Route::JobLaunch(_) | Route::JobDispatch(_) => family::make(self, route),
            Route::JobActions(_) | Route::JobAction(_) => actions::answer(self, route),
            Route::JobScale(id) => scaling::of_job(self, id, write),
            Route::ScalingPolicies | Route::ScalingPolicy(_) => scaling::policies(self, route),
            Route::JobsStatuses => statuses::list(self),
            Route::JobVersions(id) => jobs::versions(self, id),
            Route::JobSubmission(id) => submissions::one(self, id),
            Route::ValidateJob => jobs::validated(self).map(Outcome::Respond),
            Route::JobDeployment(id) => deployments::latest_of_job(self, id),
            Route::JobDeployments(id) => deployments::of_job(self, id),
            Route::Deployments => deployments::list(self),
            Route::Deployment(id) => deployments::one(self, &id),
            Route::DeploymentAllocations(id) => allocs::of_deployment(self, &id),
            Route::DeploymentStep(verb, id) => deployments::step(self, verb, &id),
            Route::Allocations => allocs::list(self),
            Route::Allocation(id) => allocs::one(self, &id),
            Route::Evaluations | Route::EvaluationsCount => self.evaluations(&route, write),
            Route::Evaluation(id) => evals::one(self, &id),
            Route::EvaluationAllocations(id) => allocs::of_eval(self, &id),
            Route::Nodes => nodes::list(self, None),
            Route::NodePools => self.node_pools(write),
            Route::NodePool(what, name) => self.of_node_pool(what, name),
            Route::Node(id) => nodes::one(self, &id),
            Route::NodeAllocations(id) => allocs::of_node(self, &id),
            Route::NodeWish(what, id) => nodes::wish(self, what, &id),
            Route::Logs(id) => on_node::logs(self, &id),
            Route::AllocExec(id) => on_node::exec(self, &id),
            Route::AllocFigures(id) => on_node::alloc_figures(self, &id),
            Route::AllocChecks(id) => on_node::checks(self, &id),
            Route::AllocCollect(id) => on_node::collect(self, Some(&id)),
            Route::HostFigures => on_node::host_figures(self),
            Route::Metadata if write => on_node::set_metadata(self),
            Route::Metadata => on_node::metadata(self),
            Route::Collect => on_node::collect(self, None),
            Route::Files(how, id) => on_node::files(self, how, &id),
            Route::AllocStop(id) => allocs::stop(self, &id),
            Route::AllocRestart(id) => on_node::restart(self, &id),
            Route::AllocSignal(id) => on_node::signal(self, &id),
            Route::Leader | Route::Peers | Route::Regions => Ok(self.of_servers(&route)),
            Route::AutopilotHealth | Route::RaftConfiguration => Ok(self.of_servers(&route)),
            Route::ReconcileSummaries | Route::CollectGarbage => Ok(self.of_servers(&route)),
            Route::Agent(what) => self.of_agent(what),
            Route::SchedulerConfiguration => scheduler::answer(self, write),
            Route::Jwks => keys::jwks(self),
            Route::KeyringKeys => keys::list(self),
            Route::Metrics => metrics::collect(self),
            Route::EventStream => events::subscribe(self),
            Route::Search => search::search(self).map(Outcome::Respond),
            Route::SearchFuzzy => fuzzy::search(self).map(Outcome::Respond),
            Route::Namespaces => namespaces::list(self),
            Route::NamespaceWrite => namespaces::write(self, None),
            Route::Namespace(name) => self.one_namespace(name),
            Route::NotBuilt(name) => Err(Response::not_supported(name)),
            Route::Unknown | Route::UnknownPart | Route::JobDispatchPayload => Err(Response::text(404, "")),
        }
    }

    fn of_servers(&self, route: &Route) -> Outcome {
        let (ctx, q) = (self.ctx, &self.query);
        Outcome::Respond(match route {
            Route::CollectGarbage => return operator::collect_garbage(q),
            Route::Leader => agent::leader(ctx, q),
            Route::Peers => agent::peers(ctx, q),
            Route::Regions => agent::regions(ctx, q),
            Route::AutopilotHealth => operator::autopilot_health(ctx, q),
            Route::RaftConfiguration => operator::raft_configuration(ctx, q),
            // summaries: they are exact
            _ => Response::text(200, ""),
        })
    }

    fn jobs(&self, write: bool) -> Result<Outcome, Response> {
        if write { jobs::register(self, None) } else { jobs::list(self, None) }
    }

    fn evaluations(&self, route: &Route, write: bool) -> Result<Outcome, Response> {
        match route {
            Route::EvaluationsCount => evals::count(self),
            _ if write => evals::delete(self),
            _ => evals::list(self),
        }
    }

    fn node_pools(&self, write: bool) -> Result<Outcome, Response> {
        if write { pools::write(self, None) } else { pools::list(self) }
    }

    fn one_job(&self, id: String) -> Result<Outcome, Response> {
        match self.request.method {
            Method::Get => jobs::one(self, id),
            Method::Delete => jobs::deregister(self, id),
            _ => jobs::register(self, Some(id)),
        }
    }

    fn one_namespace(&self, name: String) -> Result<Outcome, Response> {
        match self.request.method {
            Method::Get => namespaces::one(self, &name),
            Method::Delete => namespaces::delete(self, name),
            _ => namespaces::write(self, Some(&name)),
        }
    }

    fn of_node_pool(&self, what: PoolRoute, name: String) -> Result<Outcome, Response> {
        match (what, self.request.method) {
            (PoolRoute::Nodes, _) => nodes::list(self, Some(&name)),
            (PoolRoute::Jobs, _) => jobs::list(self, Some(&name)),
            (PoolRoute::Itself, Method::Get) => pools::one(self, &name),
            (PoolRoute::Itself, Method::Delete) => pools::delete(self, name),
            (PoolRoute::Itself, _) => pools::write(self, Some(&name)),
        }
    }

    fn of_agent(&self, what: AgentRoute) -> Result<Outcome, Response> {
        let (ctx, q) = (self.ctx, &self.query);
        match what {
            AgentRoute::Itself => Ok(Outcome::Respond(agent::own_self(ctx, q))),
            AgentRoute::Health => Ok(Outcome::Respond(agent::health(ctx, q))),
            AgentRoute::Host => host::request(ctx, q),
            AgentRoute::Members => Ok(Outcome::Respond(agent::members(ctx, q))),
            AgentRoute::Monitor => monitor::request(self),
            AgentRoute::Servers => agent::servers(ctx, q).map(Outcome::Respond),
        }
    }

    fn view(&self) -> Result<View, Response> {
        Ok(self.ctx.reader.view()?)
    }

    /// The namespace that a single object is looked for in, and that lists are of unless it is `*`.
    fn namespace(&self) -> &str {
        self.query.namespace.as_deref().unwrap_or("default")
    }

    /// `None`: every namespace.
    fn namespaces(&self) -> Option<&str> {
        Some(self.namespace()).filter(|n| *n != "*")
    }

    fn body(&self) -> Result<&[u8], Response> {
        match self.request.body.as_slice() {
            [] => Err(Response::text(400, "Request body is empty")),
            body => Ok(body),
        }
    }
}
