//! Routing: one table of routes, the types of its columns, and the handlers, a file for each kind of object
//! (decision 0059).
//!
//! Refuses to know: sockets, and how an answer is written. Invariants: a route is declared once, in `table`; what is the same
//! for every route (the method, the filter, the wait for a leader, the namespace) is read from its line and nowhere else.

pub mod agent;
pub mod alloc;
pub mod client;
mod csi;
pub mod deployment;
pub mod eval;
mod fuzzy_search;
pub mod job;
pub mod join_token;
mod keyring;
pub mod namespace;
pub mod node;
mod node_pool;
pub mod operator;
mod pattern;
mod scaling;
pub mod scheduler_config;
mod search;
mod table;
#[cfg(test)]
mod tests;
pub mod why;

use crate::response::Response;
use crate::{Call, RouteOutcome};
use table::ROUTES;
use wire::http::Method;

/// A line of the table.
#[derive(Debug)]
pub struct Route {
    pub methods: Methods,
    /// Literal segments and names: what they mean is in `pattern`.
    pub pattern: &'static str,
    pub kind: RouteKind,
    pub answered_by: AnsweredBy,
    pub namespaces: Namespaces,
    pub handler: Handler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methods(u8);

impl Methods {
    pub const NONE: Methods = Methods(0);
    pub const GET: Methods = Methods(1);
    pub const PUT: Methods = Methods(2);
    pub const POST: Methods = Methods(4);
    pub const DELETE: Methods = Methods(8);
    pub const WRITE: Methods = Methods(2 | 4);
    /// Also those that have no name here.
    pub const EVERY: Methods = Methods(255);
    pub const BUT_GET: Methods = Methods(255 - 1);

    fn has(self, method: Method) -> bool {
        let Methods(bit) = match method {
            // whoever writes the answer leaves its body out
            Method::Get | Method::Head => Methods::GET,
            Method::Put => Methods::PUT,
            Method::Post => Methods::POST,
            Method::Delete => Methods::DELETE,
            Method::Options | Method::Other => Methods(16),
        };
        self.0 & bit != 0
    }
}

/// What a route answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// Elements that a `filter` chooses from.
    List,
    Single,
    /// An endless stream of lines.
    EventStream,
    /// Pieces while there are some, or a session.
    Stream,
}

impl RouteKind {
    /// Whether the answer has a length: only such a route is forwarded, and answers HEAD.
    pub fn is_whole(self) -> bool {
        match self {
            RouteKind::List | RouteKind::Single => true,
            RouteKind::EventStream | RouteKind::Stream => false,
        }
    }
}

/// Which agent may answer: of those with a server which one (server.md 5.2), and whether one without (http-api.md 0.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The leader, which has applied what came before its term: another server forwards the request to it.
    Leader,
    /// Each that has applied what was acknowledged before the request came; with `stale`, each.
    Read,
    /// Any server answers from what it knows.
    Any,
    /// Any agent answers from what it knows.
    Own,
    /// The agent whose node has the allocation that the path names.
    OfAlloc,
    /// The same for an allocation that the query names.
    OfNamedAlloc,
    /// The agent of the node that the request names, which is the asked one's own if it names none.
    OfNode,
    /// The agent that the request names by its node or its server, which is the asked one if it names none.
    OfAgent,
}

impl AnsweredBy {
    /// One agent alone can answer, wherever it is: others relay the request to it, and it answers what was relayed (http-api.md 3.0.13).
    pub fn is_one_agent(self) -> bool {
        match self {
            AnsweredBy::OfAlloc | AnsweredBy::OfNamedAlloc | AnsweredBy::OfNode | AnsweredBy::OfAgent => true,
            AnsweredBy::Leader | AnsweredBy::Read | AnsweredBy::Any | AnsweredBy::Own => false,
        }
    }
}

/// The namespace of a request that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Those of `default`.
    OneOrDefault,
    /// Those of every namespace.
    All,
    /// What lies in no namespace.
    NotNamespaced,
}

/// The handler. It takes as many names as the pattern has.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    NoObject(fn(&Call<'_>) -> Result<RouteOutcome, Response>),
    Object(fn(&Call<'_>, &str) -> Result<RouteOutcome, Response>),
    TwoObjects(fn(&Call<'_>, &str, &str) -> Result<RouteOutcome, Response>),
    /// Nomad's API has it; drover has not yet (http-api.md 0.1.2). Named as Nomad names it.
    NotBuilt(&'static str),
    /// A 404 for a part that never exists.
    UnknownPart,
}

/// A route and the names that a path holds for it.
#[derive(Debug)]
pub struct MatchedRoute {
    pub route: &'static Route,
    names: Vec<String>,
}

/// `path` is decoded, as `Request::decoded_path` does it. The refusal is 404 or 405.
pub fn find(path: &str, method: Method) -> Result<MatchedRoute, Response> {
    let path = pattern::segments(path);
    let fitting = |route: &'static Route| Some((route.pattern, pattern::names(route.pattern, &path)?));
    let Some((pattern, names)) = ROUTES.iter().find_map(fitting) else {
        return Err(Response::text(404, ""));
    };
    let takes = |route: &&Route| route.pattern == pattern && route.methods.has(method);
    let route = ROUTES.iter().find(takes).ok_or_else(Response::invalid_method)?;
    Ok(MatchedRoute { route, names })
}

impl MatchedRoute {
    /// The first of the names.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    pub fn answer(&self, call: &Call<'_>) -> Result<RouteOutcome, Response> {
        match (self.route.handler, self.names.as_slice()) {
            (Handler::NoObject(handler), _) => handler(call),
            (Handler::Object(handler), [id, ..]) => handler(call, id),
            (Handler::TwoObjects(handler), [first, second, ..]) => handler(call, first, second),
            (Handler::NotBuilt(name), _) => Err(Response::not_supported(name)),
            // a test holds the number of names against the handler's
            (Handler::UnknownPart | Handler::Object(_) | Handler::TwoObjects(_), _) => {
                Err(Response::text(404, "resource not found"))
            }
        }
    }
}
