//! Paths to routes. The whole list of what the API has, with what is built and what is not yet.
//!
//! Ids of jobs may hold slashes, so a job's sub-resource is recognised by how the path ends (http-api.md 0.1.3). What
//! was escaped there is part of the id: the job `a/summary` is not the summary of the job `a`.

use super::request::SLASH_OF_A_NAME;

use super::deployments::Verb;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Jobs,
    JobsParse,
    Job(String),
    JobAllocations(String),
    JobEvaluations(String),
    JobSummary(String),
    JobVersions(String),
    JobSubmission(String),
    ValidateJob,
    JobDeployment(String),
    JobDeployments(String),
    JobEvaluate(String),
    JobPlan(String),
    JobRevert(String),
    JobStability(String),
    JobLaunch(String),
    JobDispatch(String),
    /// Its children have the payloads.
    JobDispatchPayload,
    JobScale(String),
    JobTag {
        job: String,
        tag: String,
    },
    ScalingPolicies,
    ScalingPolicy(String),
    JobsStatuses,
    Allocations,
    Allocation(String),
    Evaluations,
    EvaluationsCount,
    Evaluation(String),
    EvaluationAllocations(String),
    JobWhy(String),
    AllocWhy(String),
    EvalWhy(String),
    Nodes,
    Node(String),
    NodeAllocations(String),
    NodeWish(WishRoute, String),
    NodePools,
    NodePool(PoolRoute, String),
    Deployments,
    Deployment(String),
    DeploymentAllocations(String),
    DeploymentStep(Verb, String),
    Logs(String),
    Files(FilesRoute, String),
    AllocExec(String),
    JobActions(String),
    JobAction(String),
    AllocFigures(String),
    AllocChecks(String),
    AllocCollect(String),
    HostFigures,
    Metadata,
    Collect,
    AllocRestart(String),
    AllocStop(String),
    AllocSignal(String),
    Leader,
    Peers,
    Regions,
    Agent(AgentRoute),
    AutopilotHealth,
    RaftConfiguration,
    SchedulerConfiguration,
    /// Every entry of the log leaves them exact: there is nothing to count anew.
    ReconcileSummaries,
    CollectGarbage,
    Jwks,
    KeyringKeys,
    EventStream,
    Metrics,
    Search,
    SearchFuzzy,
    Namespaces,
    Namespace(String),
    /// Writes the one that the body names.
    NamespaceWrite,
    /// Nomad's API has it; drover has not yet (http-api.md 0.1.2). Named as Nomad names it.
    NotBuilt(&'static str),
    /// Nothing is there.
    Unknown,
    /// Of an object of a kind that has parts.
    UnknownPart,
}

/// What the agent that is asked tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentRoute {
    Itself,
    Health,
    Host,
    Members,
    Monitor,
    Servers,
}

/// What of a node pool is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolRoute {
    Itself,
    Nodes,
    Jobs,
}

/// Ways to look at an allocation's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesRoute {
    List,
    Stat,
    Cat,
    ReadAt,
    Stream,
}

/// What may be wanted of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WishRoute {
    Evaluate,
    Eligibility,
    Drain,
    Purge,
}

/// `path` is decoded, as `Request::decoded_path` does it.
pub fn route(path: &str) -> Route {
    match path.strip_prefix("/v1/job/") {
        Some(rest) => job(rest),
        // nothing else has a slash in its name
        None => plain(&path.replace(SLASH_OF_A_NAME, "/")),
    }
}

/// Every path but those below a job.
fn plain(path: &str) -> Route {
    let Some(path) = path.strip_prefix("/v1/") else {
        return match path {
            "/.well-known/jwks.json" => Route::Jwks,
            _ => not_built(path, OUTSIDE),
        };
    };
    match path {
        "jobs" => Route::Jobs,
        "jobs/parse" => Route::JobsParse,
        "jobs/statuses" => Route::JobsStatuses,
        "allocations" => Route::Allocations,
        "evaluations" => Route::Evaluations,
        "evaluations/count" => Route::EvaluationsCount,
        "nodes" => Route::Nodes,
        "node/pools" => Route::NodePools,
        "deployments" => Route::Deployments,
        "status/leader" => Route::Leader,
        "status/peers" => Route::Peers,
        "regions" => Route::Regions,
        "agent/self" => Route::Agent(AgentRoute::Itself),
        "agent/health" => Route::Agent(AgentRoute::Health),
        "agent/host" => Route::Agent(AgentRoute::Host),
        "agent/members" => Route::Agent(AgentRoute::Members),
        "agent/monitor" => Route::Agent(AgentRoute::Monitor),
        "agent/servers" => Route::Agent(AgentRoute::Servers),
        "operator/autopilot/health" => Route::AutopilotHealth,
        "operator/scheduler/configuration" => Route::SchedulerConfiguration,
        "operator/raft/configuration" => Route::RaftConfiguration,
        "system/reconcile/summaries" => Route::ReconcileSummaries,
        "system/gc" => Route::CollectGarbage,
        "operator/keyring/keys" => Route::KeyringKeys,
        "metrics" => Route::Metrics,
        "event/stream" => Route::EventStream,
        "scaling/policies" => Route::ScalingPolicies,
        "search" => Route::Search,
        "search/fuzzy" => Route::SearchFuzzy,
        "validate/job" => Route::ValidateJob,
        "namespaces" => Route::Namespaces,
        "namespace" => Route::NamespaceWrite,
        "client/stats" => Route::HostFigures,
        "client/metadata" => Route::Metadata,
        "client/gc" => Route::Collect,
        _ => below(path),
    }
}

/// Paths that carry an id.
fn below(path: &str) -> Route {
    if let Some(id) = path.strip_prefix("allocation/").and_then(|rest| rest.strip_suffix("/checks")) {
        Route::AllocChecks(id.to_string())
    } else if let Some(id) = path.strip_prefix("allocation/") {
        match id.strip_suffix("/stop") {
            Some(id) => Route::AllocStop(id.to_string()),
            None if id.ends_with("/why") => Route::AllocWhy(id.trim_end_matches("/why").to_string()),
            None if id.ends_with("/services") => Route::NotBuilt("allocation/:id/services"),
            None if id.contains('/') => Route::UnknownPart,
            None => Route::Allocation(id.to_string()),
        }
    } else if let Some(id) = path.strip_prefix("evaluation/") {
        match id.strip_suffix("/allocations") {
            Some(id) => Route::EvaluationAllocations(id.to_string()),
            None if id.ends_with("/why") => Route::EvalWhy(id.trim_end_matches("/why").to_string()),
            None => Route::Evaluation(id.to_string()),
        }
    } else if let Some(name) = path.strip_prefix("node/pool/") {
        part_of(name, POOL_PARTS, |name| Route::NodePool(PoolRoute::Itself, name))
    } else if let Some(id) = path.strip_prefix("node/") {
        part_of(id, NODE_PARTS, Route::Node)
    } else if let Some(id) = path.strip_prefix("deployment/allocations/") {
        Route::DeploymentAllocations(id.to_string())
    } else if let Some(rest) = path.strip_prefix("deployment/") {
        deployment(rest)
    } else if let Some(id) = path.strip_prefix("scaling/policy/") {
        Route::ScalingPolicy(id.to_string())
    } else if let Some(name) = path.strip_prefix("namespace/") {
        Route::Namespace(name.to_string())
    } else if let Some(route) = on_node(path) {
        route
    } else {
        not_built(path, KNOWN)
    }
}

fn deployment(rest: &str) -> Route {
    let Some((verb, id)) = rest.split_once('/') else { return Route::Deployment(rest.to_string()) };
    let verb = match verb {
        "fail" => Verb::Fail,
        "pause" => Verb::Pause,
        "promote" => Verb::Promote,
        "unblock" => Verb::Unblock,
        "allocation-health" => Verb::AllocationHealth,
        _ => return Route::Unknown,
    };
    Route::DeploymentStep(verb, id.to_string())
}

/// What a node is asked. Ids there are without slashes.
fn on_node(path: &str) -> Option<Route> {
    if let Some((how, id)) = path.strip_prefix("client/fs/").and_then(|rest| rest.split_once('/')) {
        let how = match how {
            "logs" => return Some(Route::Logs(id.to_string())),
            "ls" => FilesRoute::List,
            "stat" => FilesRoute::Stat,
            "cat" => FilesRoute::Cat,
            "readat" => FilesRoute::ReadAt,
            "stream" => FilesRoute::Stream,
            _ => return None,
        };
        return Some(Route::Files(how, id.to_string()));
    }
    let (id, what) = path.strip_prefix("client/allocation/")?.split_once('/')?;
    match what {
        "exec" => Some(Route::AllocExec(id.to_string())),
        "stats" => Some(Route::AllocFigures(id.to_string())),
        "checks" => Some(Route::AllocChecks(id.to_string())),
        "gc" => Some(Route::AllocCollect(id.to_string())),
        "restart" => Some(Route::AllocRestart(id.to_string())),
        "signal" => Some(Route::AllocSignal(id.to_string())),
        _ => None,
    }
}

type Make = fn(String) -> Route;

/// What the path's end asks of the object, or the object itself.
fn part_of(rest: &str, parts: &[(&str, Make)], whole: Make) -> Route {
    let part = parts.iter().find_map(|(ending, make)| Some((rest.strip_suffix(ending)?, *make)));
    let (id, make) = part.unwrap_or((rest, whole));
    make(id.replace(SLASH_OF_A_NAME, "/"))
}

fn job(rest: &str) -> Route {
    const PARTS: [(&str, Make); 18] = [
        ("/allocations", Route::JobAllocations),
        ("/evaluations", Route::JobEvaluations),
        ("/summary", Route::JobSummary),
        ("/versions", Route::JobVersions),
        ("/submission", Route::JobSubmission),
        ("/deployment", Route::JobDeployment),
        ("/deployments", Route::JobDeployments),
        ("/evaluate", Route::JobEvaluate),
        ("/plan", Route::JobPlan),
        ("/why", Route::JobWhy),
        ("/revert", Route::JobRevert),
        ("/stable", Route::JobStability),
        ("/periodic/force", Route::JobLaunch),
        ("/dispatch", Route::JobDispatch),
        ("/dispatch/payload", |_| Route::JobDispatchPayload),
        ("/scale", Route::JobScale),
        ("/actions", Route::JobActions),
        ("/action", Route::JobAction),
    ];
    if PARTS.iter().any(|(ending, _)| rest.ends_with(ending)) {
        return part_of(rest, &PARTS, Route::Job);
    }
    if let Some((job, tag)) = rest.strip_suffix("/tag").and_then(|rest| rest.rsplit_once("/versions/")) {
        let [job, tag] = [job, tag].map(|name| name.replace(SLASH_OF_A_NAME, "/"));
        return Route::JobTag { job, tag };
    }
    match JOB_PARTS.iter().find(|(ending, _)| rest.ends_with(ending)) {
        Some((_, name)) => Route::NotBuilt(name),
        None => Route::Job(rest.replace(SLASH_OF_A_NAME, "/")),
    }
}

/// Those that are not built.
const JOB_PARTS: &[(&str, &str)] = &[("/services", "job/:id/services")];

const POOL_PARTS: &[(&str, Make)] = &[
    ("/nodes", |name| Route::NodePool(PoolRoute::Nodes, name)),
    ("/jobs", |name| Route::NodePool(PoolRoute::Jobs, name)),
];

const NODE_PARTS: &[(&str, Make)] = &[
    ("/allocations", Route::NodeAllocations),
    ("/evaluate", |id| Route::NodeWish(WishRoute::Evaluate, id)),
    ("/eligibility", |id| Route::NodeWish(WishRoute::Eligibility, id)),
    ("/drain", |id| Route::NodeWish(WishRoute::Drain, id)),
    ("/purge", |id| Route::NodeWish(WishRoute::Purge, id)),
];

/// Beginnings of paths below `/v1/` that the API has and drover has not built: longer ones first where they overlap.
const KNOWN: &[&str] = &[
    "acl/",
    "agent/force-leave",
    "agent/join",
    "agent/keyring/",
    "agent/monitor/export",
    "agent/pprof/",
    "agent/reload",
    "agent/schedulers",
    "client/allocation/",
    "client/fs/",
    "client/identity",
    "operator/autopilot/configuration",
    "operator/keyring/key/",
    "operator/keyring/rotate",
    "operator/license",
    "operator/raft/peer",
    "operator/raft/transfer-leadership",
    "operator/snapshot",
    "operator/",
    "plugin",
    "quota",
    "recommendation",
    "sentinel/",
    "service",
    "system/",
    "var",
    "volume",
];

/// Paths outside of `/v1/`.
const OUTSIDE: &[&str] = &["/ui", "/.well-known/"];

fn not_built(path: &str, known: &[&'static str]) -> Route {
    let found = known.iter().find(|beginning| path.starts_with(**beginning));
    found.map_or(Route::Unknown, |beginning| Route::NotBuilt(beginning.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_the_reference_says() {
        let id = |text: &str| text.to_string();
        for (path, expected) in [
            ("/v1/jobs", Route::Jobs),
            ("/v1/jobs/parse", Route::JobsParse),
            ("/v1/job/a", Route::Job(id("a"))),
            ("/v1/job/", Route::Job(id(""))),
            ("/v1/job/a/periodic-170", Route::Job(id("a/periodic-170"))),
            ("/v1/job/a/b/allocations", Route::JobAllocations(id("a/b"))),
            ("/v1/job/a\0b/allocations", Route::JobAllocations(id("a/b"))),
            ("/v1/job/a\0allocations", Route::Job(id("a/allocations"))),
            ("/v1/job/a\0plan", Route::Job(id("a/plan"))),
            ("/v1/job/a\0summary/summary", Route::JobSummary(id("a/summary"))),
            ("/v1\0jobs", Route::Jobs),
            ("/v1/job/a/deployment", Route::JobDeployment(id("a"))),
            ("/v1/job/a/deployments", Route::JobDeployments(id("a"))),
            ("/v1/job/a/b/plan", Route::JobPlan(id("a/b"))),
            ("/v1/job/a/periodic/force", Route::JobLaunch(id("a"))),
            ("/v1/job/a/b/scale", Route::JobScale(id("a/b"))),
            ("/v1/scaling/policies", Route::ScalingPolicies),
            ("/v1/scaling/policy/x", Route::ScalingPolicy(id("x"))),
            ("/v1/scaling/other", Route::Unknown),
            ("/v1/allocation/x/checks", Route::AllocChecks(id("x"))),
            ("/v1/allocation/x/stop", Route::AllocStop(id("x"))),
            ("/v1/allocation/x/other", Route::UnknownPart),
            ("/v1/evaluation/x/allocations", Route::EvaluationAllocations(id("x"))),
            ("/v1/evaluations/count", Route::EvaluationsCount),
            ("/v1/job/a/b/evaluate", Route::JobEvaluate(id("a/b"))),
            ("/v1/node/x/evaluate", Route::NodeWish(WishRoute::Evaluate, id("x"))),
            ("/v1/jobs/statuses", Route::JobsStatuses),
            ("/v1/system/reconcile/summaries", Route::ReconcileSummaries),
            ("/v1/operator/snapshot", Route::NotBuilt("operator/snapshot")),
            ("/v1/operator/other", Route::NotBuilt("operator")),
            ("/v1/node/x/allocations", Route::NodeAllocations(id("x"))),
            ("/v1/node/x/drain", Route::NodeWish(WishRoute::Drain, id("x"))),
            ("/v1/node/x/eligibility", Route::NodeWish(WishRoute::Eligibility, id("x"))),
            ("/v1/node/x/purge", Route::NodeWish(WishRoute::Purge, id("x"))),
            ("/v1/deployment/x", Route::Deployment(id("x"))),
            ("/v1/deployment/fail/x", Route::DeploymentStep(Verb::Fail, id("x"))),
            ("/v1/deployment/allocations/x", Route::DeploymentAllocations(id("x"))),
            ("/v1/client/fs/logs/x", Route::Logs(id("x"))),
            ("/v1/job/a/b/submission", Route::JobSubmission(id("a/b"))),
            ("/v1/search/fuzzy", Route::SearchFuzzy),
            ("/v1/validate/job", Route::ValidateJob),
            ("/v1/namespaces", Route::Namespaces),
            ("/v1/namespace", Route::NamespaceWrite),
            ("/v1/namespace/n", Route::Namespace(id("n"))),
            ("/v1/namespace/../n", Route::Namespace(id("../n"))),
            ("/v1/namespacex", Route::Unknown),
            ("/v1/client/allocation/x/stats", Route::AllocFigures(id("x"))),
            ("/v1/client/metadata", Route::Metadata),
            ("/v1/client/allocation/x/restart", Route::AllocRestart(id("x"))),
            ("/v1/client/allocation/x/signal", Route::AllocSignal(id("x"))),
            ("/v1/client/allocation/x/exec", Route::AllocExec(id("x"))),
            ("/v1/client/allocation/x/pause", Route::NotBuilt("client/allocation")),
            ("/v1/client/fs/ls/x", Route::Files(FilesRoute::List, id("x"))),
            ("/v1/client/fs/cat/x", Route::Files(FilesRoute::Cat, id("x"))),
            ("/v1/client/fs/nope/x", Route::NotBuilt("client/fs")),
            ("/ui/jobs", Route::NotBuilt("/ui")),
            ("/v1/nosuch", Route::Unknown),
            ("/v1/", Route::Unknown),
            ("/v1", Route::Unknown),
            ("/", Route::Unknown),
            ("", Route::Unknown),
            ("/v2/jobs", Route::Unknown),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }

    #[test]
    fn what_operators_ask_for_has_its_place() {
        let id = |text: &str| text.to_string();
        let pool = |what, name: &str| Route::NodePool(what, name.to_string());
        for (path, expected) in [
            ("/v1/job/a/b/revert", Route::JobRevert(id("a/b"))),
            ("/v1/job/a/b/actions", Route::JobActions(id("a/b"))),
            ("/v1/job/a/b/action", Route::JobAction(id("a/b"))),
            ("/v1/job/a\0action", Route::Job(id("a/action"))),
            ("/v1/job/a/dispatch", Route::JobDispatch(id("a"))),
            ("/v1/job/a/dispatch/payload", Route::JobDispatchPayload),
            ("/v1/job/a/dispatch-1700000000-1a2b3c4d", Route::Job(id("a/dispatch-1700000000-1a2b3c4d"))),
            ("/v1/job/a\0revert", Route::Job(id("a/revert"))),
            ("/v1/job/a/b/versions/v\0x/tag", Route::JobTag { job: id("a/b"), tag: id("v/x") }),
            ("/v1/job/a/tag", Route::Job(id("a/tag"))),
            ("/v1/job/a/b/why", Route::JobWhy(id("a/b"))),
            ("/v1/job/a\0why", Route::Job(id("a/why"))),
            ("/v1/allocation/x/why", Route::AllocWhy(id("x"))),
            ("/v1/evaluation/x/why", Route::EvalWhy(id("x"))),
            ("/v1/system/gc", Route::CollectGarbage),
            ("/v1/system/gc/x", Route::NotBuilt("system")),
            ("/v1/job/a/stable", Route::JobStability(id("a"))),
            ("/v1/operator/scheduler/configuration", Route::SchedulerConfiguration),
            ("/v1/node/pools", Route::NodePools),
            ("/v1/node/pool/p", pool(PoolRoute::Itself, "p")),
            ("/v1/node/pool/p/nodes", pool(PoolRoute::Nodes, "p")),
            ("/v1/node/pool/p/jobs", pool(PoolRoute::Jobs, "p")),
            ("/v1/node/pool/a/b", pool(PoolRoute::Itself, "a/b")),
            ("/v1/node/pooled", Route::Node(id("pooled"))),
            ("/v1/agent/self", Route::Agent(AgentRoute::Itself)),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
