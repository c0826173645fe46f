//! The table of routes: every path of Nomad's API, what is built and what is not yet. A new route is a line here.
//!
//! Refuses to know: how a path is taken apart (`pattern`) and what an answer is. The first pattern that a path fits decides,
//! so longer ones stand before shorter ones; a test walks the table and finds a line that no path reaches.

use super::AnsweredBy::{self, Any, Leader, OfAgent, OfAlloc, OfNamedAlloc, OfNode, Own, Read};
use super::Handler::{self, NoObject, NotBuilt, Object, TwoObjects, UnknownPart};
use super::Methods;
use super::Namespaces::{self, All, NotNamespaced as No, OneOrDefault as One};
use super::Route;
use super::RouteKind::{self, EventStream, List, Single, Stream};
use super::client::{self, FilesRequest};
use super::deployment::{self, DeploymentAction};
use super::job::{self, actions, dispatch, history, plan, statuses, submission, versions};
use super::{agent, alloc, csi, eval, fuzzy_search, join_token, keyring, namespace, node, node_pool};
use super::{operator, scaling, scheduler_config, search, why};
use crate::{events, metrics};

const GET: Methods = Methods::GET;
/// PUT and POST mean the same nearly everywhere (http-api.md 0.1.4).
const WRITE: Methods = Methods::WRITE;
const PUT: Methods = Methods::PUT;
const POST: Methods = Methods::POST;
const DELETE: Methods = Methods::DELETE;
/// Every method is refused.
const NONE: Methods = Methods::NONE;
const EVERY: Methods = Methods::EVERY;
/// Every one but GET.
const OTHER: Methods = Methods::BUT_GET;

const fn row(
    methods: Methods,
    pattern: &'static str,
    kind: RouteKind,
    answered_by: AnsweredBy,
    namespaces: Namespaces,
    handler: Handler,
) -> Route {
    Route { methods, pattern, kind, answered_by, namespaces, handler }
}

#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    // methods, path, what it answers, who may answer, namespace, handler
    row(GET,    "/v1/jobs",                                List,   Read,    One, NoObject(|c| job::list(c, None))),
    row(WRITE,  "/v1/jobs",                                Single, Leader,  One, NoObject(|c| job::register(c, None))),
    row(WRITE,  "/v1/jobs/parse",                          Single, Own,     One, NoObject(job::parse)),
    row(GET,    "/v1/jobs/statuses",                       List,   Read,    One, NoObject(statuses::list)),
    row(POST,   "/v1/jobs/statuses",                       List,   Read,    One, NoObject(statuses::list)),
    row(WRITE,  "/v1/validate/job",                        Single, Any,     One, NoObject(job::validated)),
    row(GET,    "/v1/job/*id/allocations",                 List,   Read,    One, Object(alloc::of_job)),
    row(GET,    "/v1/job/*id/evaluations",                 List,   Read,    One, Object(eval::of_job)),
    row(GET,    "/v1/job/*id/summary",                     Single, Read,    One, Object(job::summary)),
    row(GET,    "/v1/job/*id/versions",                    List,   Read,    One, Object(history::versions)),
    row(WRITE,  "/v1/job/*id/versions/*tag/tag",           Single, Leader,  One, TwoObjects(versions::set_tag)),
    row(DELETE, "/v1/job/*id/versions/*tag/tag",           Single, Leader,  One, TwoObjects(versions::unset_tag)),
    row(GET,    "/v1/job/*id/submission",                  Single, Read,    One, Object(submission::one)),
    row(GET,    "/v1/job/*id/deployment",                  Single, Read,    One, Object(deployment::latest_of_job)),
    row(GET,    "/v1/job/*id/deployments",                 List,   Read,    One, Object(deployment::of_job)),
    row(WRITE,  "/v1/job/*id/evaluate",                    Single, Leader,  One, Object(job::evaluate)),
    row(WRITE,  "/v1/job/*id/plan",                        Single, Read,    One, Object(plan::plan)),
    row(WRITE,  "/v1/job/*id/revert",                      Single, Leader,  One, Object(versions::revert)),
    row(WRITE,  "/v1/job/*id/stable",                      Single, Leader,  One, Object(versions::set_stability)),
    row(WRITE,  "/v1/job/*id/periodic/force",              Single, Leader,  One, Object(dispatch::force)),
    // the payload is the dispatched job's
    row(NONE,   "/v1/job/*id/dispatch/payload",            Single, Read,    One, UnknownPart),
    row(WRITE,  "/v1/job/*id/dispatch",                    Single, Leader,  One, Object(dispatch::dispatch)),
    row(GET,    "/v1/job/*id/scale",                       Single, Read,    One, Object(scaling::status)),
    row(WRITE,  "/v1/job/*id/scale",                       Single, Leader,  One, Object(scaling::scale)),
    row(GET,    "/v1/job/*id/actions",                     Single, Read,    One, Object(actions::list)),
    row(GET,    "/v1/job/*id/action",                      Stream, OfNamedAlloc, All, Object(actions::run)),
    row(GET,    "/v1/job/*id/why",                         Single, Read,    One, Object(why::job)),
    row(EVERY,  "/v1/job/*id/services",                    List,   Any,     One, NotBuilt("job/:id/services")),
    row(GET,    "/v1/job/*id",                             Single, Read,    One, Object(job::one)),
    row(WRITE,  "/v1/job/*id",                             Single, Leader,  One, Object(|c, id| job::register(c, Some(id)))),
    row(DELETE, "/v1/job/*id",                             Single, Leader,  One, Object(job::deregister)),

    row(GET,    "/v1/allocations",                         List,   Read,    One, NoObject(alloc::list)),
    row(GET,    "/v1/allocation/:id/checks",               Single, OfAlloc, All, Object(client::checks)),
    row(WRITE,  "/v1/allocation/:id/stop",                 Single, Leader,  All, Object(alloc::stop)),
    row(GET,    "/v1/allocation/:id/why",                  Single, Read,    All, Object(why::alloc)),
    row(EVERY,  "/v1/allocation/:id/services",             List,   Any,     All, NotBuilt("allocation/:id/services")),
    row(GET,    "/v1/allocation/:id",                      Single, Read,    All, Object(alloc::one)),
    row(EVERY,  "/v1/allocation/*rest",                    Single, Own,     All, UnknownPart),

    row(GET,    "/v1/evaluations",                         List,   Read,    One, NoObject(eval::list)),
    row(DELETE, "/v1/evaluations",                         Single, Leader,  All, NoObject(eval::delete)),
    row(GET,    "/v1/evaluations/count",                   List,   Read,    One, NoObject(eval::count)),
    row(GET,    "/v1/evaluation/*id/allocations",          List,   Read,    All, Object(alloc::of_eval)),
    row(GET,    "/v1/evaluation/*id/why",                  Single, Read,    All, Object(why::eval)),
    row(GET,    "/v1/evaluation/*id",                      Single, Read,    All, Object(eval::one)),

    row(GET,    "/v1/deployments",                         List,   Read,    One, NoObject(deployment::list)),
    row(GET,    "/v1/deployment/allocations/*id",          List,   Read,    All, Object(alloc::of_deployment)),
    row(WRITE,  "/v1/deployment/fail/*id",                 Single, Leader,  All, Object(|c, id| deployment::step(c, DeploymentAction::Fail, id))),
    row(WRITE,  "/v1/deployment/pause/*id",                Single, Leader,  All, Object(|c, id| deployment::step(c, DeploymentAction::Pause, id))),
    row(WRITE,  "/v1/deployment/promote/*id",              Single, Leader,  All, Object(|c, id| deployment::step(c, DeploymentAction::Promote, id))),
    row(WRITE,  "/v1/deployment/unblock/*id",              Single, Leader,  All, Object(|c, id| deployment::step(c, DeploymentAction::Unblock, id))),
    row(WRITE,  "/v1/deployment/allocation-health/*id",    Single, Leader,  All, Object(|c, id| deployment::step(c, DeploymentAction::AllocationHealth, id))),
    row(GET,    "/v1/deployment/:id",                      Single, Read,    All, Object(deployment::one)),

    row(GET,    "/v1/nodes",                               List,   Read,    No,  NoObject(|c| node::list(c, None))),
    row(GET,    "/v1/node/pools",                          List,   Read,    No,  NoObject(node_pool::list)),
    row(WRITE,  "/v1/node/pools",                          Single, Leader,  No,  NoObject(|c| node_pool::write(c, None))),
    row(GET,    "/v1/node/pool/*name/nodes",               List,   Read,    No,  Object(|c, name| node::list(c, Some(name)))),
    row(GET,    "/v1/node/pool/*name/jobs",                List,   Read,    One, Object(|c, name| job::list(c, Some(name)))),
    row(GET,    "/v1/node/pool/*name",                     Single, Read,    No,  Object(node_pool::one)),
    row(WRITE,  "/v1/node/pool/*name",                     Single, Leader,  No,  Object(|c, name| node_pool::write(c, Some(name)))),
    row(DELETE, "/v1/node/pool/*name",                     Single, Leader,  No,  Object(node_pool::delete)),
    row(GET,    "/v1/node/*id/allocations",                List,   Read,    All, Object(alloc::of_node)),
    row(WRITE,  "/v1/node/*id/evaluate",                   Single, Leader,  No,  Object(node::evaluate)),
    row(WRITE,  "/v1/node/*id/eligibility",                Single, Leader,  No,  Object(node::eligibility)),
    row(WRITE,  "/v1/node/*id/drain",                      Single, Leader,  No,  Object(node::drain)),
    row(WRITE,  "/v1/node/*id/purge",                      Single, Leader,  No,  Object(node::purge)),
    row(GET,    "/v1/node/*id",                            Single, Read,    No,  Object(node::one)),

    row(GET,    "/v1/scaling/policies",                    Single, Read,    One, NoObject(scaling::policies)),
    row(GET,    "/v1/scaling/policy/*id",                  Single, Read,    One, Object(scaling::policy)),

    row(GET,    "/v1/namespaces",                          List,   Read,    No,  NoObject(namespace::list)),
    row(WRITE,  "/v1/namespace",                           Single, Leader,  No,  NoObject(|c| namespace::write(c, None))),
    row(GET,    "/v1/namespace/*name",                     Single, Read,    No,  Object(namespace::one)),
    row(WRITE,  "/v1/namespace/*name",                     Single, Leader,  No,  Object(|c, name| namespace::write(c, Some(name)))),
    row(DELETE, "/v1/namespace/*name",                     Single, Leader,  No,  Object(namespace::delete)),

    row(WRITE,  "/v1/search",                              Single, Read,    One, NoObject(search::search)),
    row(WRITE,  "/v1/search/fuzzy",                        Single, Read,    One, NoObject(fuzzy_search::search)),
    row(GET,    "/v1/event/stream",                        EventStream, Any,     One, NoObject(events::subscribe)),
    row(GET,    "/v1/metrics",                             Single, Own,     No,  NoObject(metrics::collect)),

    row(GET,    "/v1/client/fs/logs/*id",                  Stream, OfAlloc, All, Object(client::logs)),
    row(GET,    "/v1/client/fs/ls/*id",                    Single, OfAlloc, All, Object(|c, id| client::files(c, FilesRequest::List, id))),
    row(GET,    "/v1/client/fs/stat/*id",                  Single, OfAlloc, All, Object(|c, id| client::files(c, FilesRequest::Stat, id))),
    row(GET,    "/v1/client/fs/cat/*id",                   Stream, OfAlloc, All, Object(|c, id| client::files(c, FilesRequest::Cat, id))),
    row(GET,    "/v1/client/fs/readat/*id",                Stream, OfAlloc, All, Object(|c, id| client::files(c, FilesRequest::ReadAt, id))),
    row(GET,    "/v1/client/fs/stream/*id",                Stream, OfAlloc, All, Object(|c, id| client::files(c, FilesRequest::Stream, id))),
    row(EVERY,  "/v1/client/fs/*rest",                     Single, Any,     All, NotBuilt("client/fs")),
    row(GET,    "/v1/client/allocation/:id/exec",          Stream, OfAlloc, All, Object(client::exec)),
    row(GET,    "/v1/client/allocation/:id/stats",         Single, OfAlloc, All, Object(client::alloc_stats)),
    row(GET,    "/v1/client/allocation/:id/checks",        Single, OfAlloc, All, Object(client::checks)),
    row(GET,    "/v1/client/allocation/:id/gc",            Single, OfAlloc, All, Object(|c, id| client::collect(c, Some(id)))),
    row(WRITE,  "/v1/client/allocation/:id/restart",       Single, OfAlloc, All, Object(client::restart)),
    row(WRITE,  "/v1/client/allocation/:id/signal",        Single, OfAlloc, All, Object(client::signal)),
    row(EVERY,  "/v1/client/allocation/*rest",             Single, Any,     All, NotBuilt("client/allocation")),
    row(GET,    "/v1/client/stats",                        Single, OfNode,  No,  NoObject(client::host_stats)),
    row(GET,    "/v1/client/metadata",                     Single, OfNode,  No,  NoObject(client::metadata)),
    row(POST,   "/v1/client/metadata",                     Single, OfNode,  No,  NoObject(client::set_metadata)),
    row(GET,    "/v1/client/gc",                           Single, OfNode,  No,  NoObject(|c| client::collect(c, None))),
    row(EVERY,  "/v1/client/identity",                     Single, Any,     No,  NotBuilt("client/identity")),

    row(GET,    "/v1/status/leader",                       Single, Any,     No,  NoObject(agent::leader)),
    row(GET,    "/v1/status/peers",                        Single, Any,     No,  NoObject(agent::peers)),
    row(GET,    "/v1/regions",                             Single, Any,     No,  NoObject(agent::regions)),
    row(GET,    "/v1/agent/self",                          Single, Own,     No,  NoObject(agent::own_self)),
    row(GET,    "/v1/agent/health",                        Single, Own,     No,  NoObject(agent::health)),
    row(GET,    "/v1/agent/host",                          Single, OfAgent, No,  NoObject(agent::host)),
    row(GET,    "/v1/agent/members",                       Single, Any,     No,  NoObject(agent::members)),
    row(GET,    "/v1/agent/monitor",                       Stream, OfAgent, No,  NoObject(agent::monitor)),
    row(GET,    "/v1/agent/servers",                       Single, Own,     No,  NoObject(agent::servers)),
    row(EVERY,  "/v1/agent/force-leave",                   Single, Any,     No,  NotBuilt("agent/force-leave")),
    row(EVERY,  "/v1/agent/join",                          Single, Any,     No,  NotBuilt("agent/join")),
    row(EVERY,  "/v1/agent/keyring/*rest",                 Single, Any,     No,  NotBuilt("agent/keyring")),
    row(EVERY,  "/v1/agent/monitor/export",                Single, Any,     No,  NotBuilt("agent/monitor/export")),
    row(EVERY,  "/v1/agent/pprof/*rest",                   Single, Any,     No,  NotBuilt("agent/pprof")),
    row(EVERY,  "/v1/agent/reload",                        Single, Any,     No,  NotBuilt("agent/reload")),
    row(EVERY,  "/v1/agent/schedulers",                    Single, Any,     No,  NotBuilt("agent/schedulers")),
    row(EVERY,  "/v1/agent/schedulers/config",             Single, Any,     No,  NotBuilt("agent/schedulers")),

    row(GET,    "/v1/operator/scheduler/configuration",    Single, Read,    No,  NoObject(scheduler_config::configuration)),
    row(WRITE,  "/v1/operator/scheduler/configuration",    Single, Leader,  No,  NoObject(scheduler_config::configure)),
    row(GET,    "/v1/operator/autopilot/health",           Single, Leader,    No,  NoObject(operator::autopilot_health)),
    row(EVERY,  "/v1/operator/autopilot/configuration",    Single, Any,     No,  NotBuilt("operator/autopilot/configuration")),
    row(GET,    "/v1/operator/raft/configuration",         Single, Any,     No,  NoObject(operator::raft_configuration)),
    row(DELETE, "/v1/operator/raft/peer",                  Single, Leader,  No,  NoObject(operator::remove_server)),
    row(WRITE,  "/v1/operator/raft/transfer-leadership",   Single, Leader,  No,  NoObject(operator::transfer_leadership)),
    row(GET,    "/v1/operator/join-tokens",                List,   Read,    No,  NoObject(join_token::list)),
    row(WRITE,  "/v1/operator/join-tokens",                Single, Leader,  No,  NoObject(join_token::create)),
    row(WRITE,  "/v1/operator/join-token/*id/redeem",      Single, Leader,  No,  Object(join_token::redeem)),
    row(DELETE, "/v1/operator/join-token/*id",             Single, Leader,  No,  Object(join_token::revoke)),
    row(GET,    "/v1/operator/keyring/keys",               List,   Read,    No,  NoObject(keyring::list)),
    row(EVERY,  "/v1/operator/keyring/key/*id",            Single, Any,     No,  NotBuilt("operator/keyring/key")),
    row(EVERY,  "/v1/operator/keyring/rotate",             Single, Any,     No,  NotBuilt("operator/keyring/rotate")),
    row(EVERY,  "/v1/operator/license",                    Single, Any,     No,  NotBuilt("operator/license")),
    row(EVERY,  "/v1/operator/snapshot",                   Single, Any,     No,  NotBuilt("operator/snapshot")),
    row(EVERY,  "/v1/operator/*rest",                      Single, Any,     No,  NotBuilt("operator")),
    row(WRITE,  "/v1/system/reconcile/summaries",          Single, Leader,  No,  NoObject(operator::reconcile_summaries)),
    row(PUT,    "/v1/system/gc",                           Single, Leader,  No,  NoObject(operator::collect_garbage)),
    row(EVERY,  "/v1/system/*rest",                        Single, Any,     No,  NotBuilt("system")),
    row(GET,    "/.well-known/jwks.json",                  Single, Read,    No,  NoObject(keyring::jwks)),

    row(EVERY,  "/v1/acl/*rest",                           Single, Any,     No,  NotBuilt("acl")),
    row(GET,    "/v1/plugins",                             List,   Read,    No,  NoObject(csi::none)),
    row(EVERY,  "/v1/plugin/*rest",                        Single, Any,     No,  NotBuilt("plugin")),
    row(GET,    "/v1/volumes",                             List,   Read,    One, NoObject(csi::none)),
    row(OTHER,  "/v1/volumes",                             Single, Any,     One, NotBuilt("volume")),
    row(EVERY,  "/v1/volumes/*rest",                       List,   Any,     One, NotBuilt("volume")),
    row(EVERY,  "/v1/volume/*rest",                        Single, Any,     One, NotBuilt("volume")),
    row(EVERY,  "/v1/services",                            List,   Any,     One, NotBuilt("service")),
    row(EVERY,  "/v1/service/*name",                       Single, Any,     One, NotBuilt("service")),
    row(EVERY,  "/v1/vars",                                List,   Any,     One, NotBuilt("var")),
    row(EVERY,  "/v1/var/*path",                           Single, Any,     One, NotBuilt("var")),
    row(EVERY,  "/v1/quotas",                              List,   Any,     No,  NotBuilt("quota")),
    row(EVERY,  "/v1/quota-usages",                        List,   Any,     No,  NotBuilt("quota")),
    row(EVERY,  "/v1/quota",                               Single, Any,     No,  NotBuilt("quota")),
    row(EVERY,  "/v1/quota/*name",                         Single, Any,     No,  NotBuilt("quota")),
    row(EVERY,  "/v1/recommendations",                     List,   Any,     One, NotBuilt("recommendation")),
    row(EVERY,  "/v1/recommendations/apply",               Single, Any,     One, NotBuilt("recommendation")),
    row(EVERY,  "/v1/recommendation",                      Single, Any,     One, NotBuilt("recommendation")),
    row(EVERY,  "/v1/recommendation/*id",                  Single, Any,     One, NotBuilt("recommendation")),
    row(EVERY,  "/v1/sentinel/*rest",                      Single, Any,     No,  NotBuilt("sentinel")),
    row(EVERY,  "/ui",                                     Single, Any,     No,  NotBuilt("/ui")),
    row(EVERY,  "/ui/*rest",                               Single, Any,     No,  NotBuilt("/ui")),
    row(EVERY,  "/.well-known/*rest",                      Single, Any,     No,  NotBuilt("/.well-known")),
];
