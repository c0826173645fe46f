//! Search by the beginnings of ids and names: a command finds out what an id names (http-api.md 7.5, server.md 21).
//!
//! Refuses to know: parts of names; `fuzzy_search` looks at those.

use crate::page::hex_digits;
use crate::response::Response;
use crate::shape::MetaShape;
use crate::shape::search::SearchShape;
use crate::{Call, RouteOutcome, blocking, json};
use state::view::View;
use std::collections::BTreeMap;

/// At most so many matches per context.
const MOST: usize = 20;

/// Every context that the API has. Those without objects here match nothing.
pub const CONTEXTS: [&str; 13] = [
    "allocs",
    "deployment",
    "evals",
    "jobs",
    "namespaces",
    "node_pools",
    "nodes",
    "plugins",
    "quotas",
    "recommendations",
    "scaling_policy",
    "vars",
    "volumes",
];

/// What was found, by context, and of which contexts there is more.
pub struct SearchResults<M> {
    pub matches: BTreeMap<&'static str, Vec<M>>,
    pub truncations: BTreeMap<&'static str, bool>,
}

impl<M> SearchResults<M> {
    pub fn of(contexts: &[&'static str]) -> SearchResults<M> {
        SearchResults {
            matches: contexts.iter().map(|c| (*c, Vec::new())).collect(),
            truncations: contexts.iter().map(|c| (*c, false)).collect(),
        }
    }

    pub fn put(&mut self, context: &'static str, matches: Vec<M>, truncated: bool) {
        self.matches.insert(context, matches);
        self.truncations.insert(context, truncated);
    }
}

impl<M: serde::Serialize> SearchResults<M> {
    pub fn answer(self, call: &Call<'_>, view: &View) -> Response {
        let shape = SearchShape {
            matches: self.matches,
            truncations: self.truncations,
            meta: MetaShape::new(view.index().max(1), call.ctx.status.leader.is_some()),
        };
        blocking::with_index(call, Response::json(&shape, call.query.pretty), view.index())
    }
}

pub fn search(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let body = json::object(call.body()?)?;
    let prefix = json::text(&body, "Prefix")?.unwrap_or_default();
    let contexts = parse_context(json::text(&body, "Context")?.unwrap_or_default(), &CONTEXTS)?;
    let view = call.view()?;
    let mut found = SearchResults::of(&contexts);
    for context in contexts {
        let (ids, truncated) = look_up(call, &view, context, prefix)?;
        found.put(context, ids, truncated);
    }
    Ok(RouteOutcome::Respond(found.answer(call, &view)))
}

/// Nothing, and `all`, ask for every context.
pub fn parse_context(context: &str, known: &[&'static str]) -> Result<Vec<&'static str>, Response> {
    if matches!(context, "" | "all") {
        return Ok(known.to_vec());
    }
    match known.iter().find(|c| **c == context) {
        Some(one) => Ok(vec![one]),
        None => {
            let known = known.join(", ");
            let context: String = context.chars().take(MAX_SHOWN_CHARS).collect();
            Err(Response::text(500, format!("context must be one of {known} or all; got {context:?}")))
        }
    }
}

/// How much of a refused context the refusal repeats.
const MAX_SHOWN_CHARS: usize = 64;

/// At most `MOST` ids, and whether there are more. A prefix that no id can begin with matches nothing.
pub fn look_up(
    call: &Call<'_>,
    view: &View,
    context: &str,
    prefix: &str,
) -> Result<(Vec<String>, bool), Response> {
    let most = MOST + 1;
    let mut found: Vec<String> = match (context, hex_digits(prefix)) {
        ("jobs", _) => {
            let jobs = view.jobs(call.namespaces(), prefix, None, most)?;
            jobs.iter().map(|job| job.spec.id.clone()).collect()
        }
        ("namespaces", _) => view.namespaces(prefix)?.into_iter().map(|n| n.spec.name).collect(),
        ("node_pools", _) => view.node_pools(prefix)?.into_iter().map(|p| p.spec.name).collect(),
        ("allocs", Some(digits)) => {
            let ids = view.alloc_ids(&digits, usize::MAX)?;
            in_namespace(call, ids, |id| Ok(view.alloc(id)?.map(|a| a.job.namespace)))?
        }
        ("evals", Some(digits)) => {
            let ids = view.eval_ids(&digits, usize::MAX)?;
            in_namespace(call, ids, |id| Ok(view.eval(id)?.map(|e| e.job.namespace)))?
        }
        ("deployment", Some(digits)) => {
            let ids = view.deployment_ids(&digits, usize::MAX)?;
            in_namespace(call, ids, |id| Ok(view.deployment(id)?.map(|d| d.job.namespace)))?
        }
        ("scaling_policy", Some(digits)) => {
            let ids = view.scaling_policy_ids(&digits, usize::MAX)?;
            in_namespace(call, ids, |id| Ok(view.scaling_policy(id)?.map(|p| p.job.namespace)))?
        }
        ("nodes", Some(digits)) => view.node_ids(&digits, most)?.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let truncated = found.len() > MOST;
    found.truncate(MOST);
    Ok((found, truncated))
}

/// The first of `ids` that lie in the asked namespace: one more than `MOST`, so that no more rows are read than that takes.
fn in_namespace<Id: Copy + ToString>(
    call: &Call<'_>,
    ids: Vec<Id>,
    namespace_of: impl Fn(Id) -> Result<Option<String>, Response>,
) -> Result<Vec<String>, Response> {
    let mut found = Vec::new();
    for id in ids {
        let namespace = namespace_of(id)?;
        if namespace.is_some_and(|n| call.namespaces().is_none_or(|wanted| wanted == n)) {
            found.push(id.to_string());
        }
        if found.len() > MOST {
            break;
        }
    }
    Ok(found)
}
