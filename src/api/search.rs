//! Search by the beginnings of ids: what a command uses to find out what an id names.

use super::page::hex_digits;
use super::response::Response;
use super::shape::agent::SearchShape;
use super::{Call, allocs, blocking, evals, json};
use crate::state::view::View;
use std::collections::BTreeMap;

/// At most so many matches per context.
const MOST: usize = 20;

/// Every context that the API has. Those without objects here match nothing.
const CONTEXTS: [&str; 12] = [
    "allocs",
    "deployment",
    "evals",
    "jobs",
    "namespaces",
    "node_pools",
    "nodes",
    "plugins",
    "quotas",
    "scaling_policy",
    "vars",
    "volumes",
];

pub fn search(call: &Call<'_>) -> Result<Response, Response> {
    let body = json::object(call.body()?)?;
    let prefix = json::text(&body, "Prefix")?.unwrap_or_default();
    let context = json::text(&body, "Context")?.unwrap_or_default();
    let contexts: Vec<&'static str> = match context {
        "" | "all" => CONTEXTS.to_vec(),
        one => CONTEXTS.into_iter().filter(|c| *c == one).collect(),
    };
    if contexts.is_empty() {
        let known = CONTEXTS.join(", ");
        return Err(Response::text(500, format!("context must be one of {known} or all; got {context:?}")));
    }
    let view = call.view()?;
    let mut matches = BTreeMap::new();
    let mut truncations = BTreeMap::new();
    for context in contexts {
        let mut ids = look_up(call, &view, context, prefix)?;
        truncations.insert(context, ids.len() > MOST);
        ids.truncate(MOST);
        matches.insert(context, ids);
    }
    let shape = SearchShape {
        matches,
        truncations,
        index: view.index().max(1),
        last_contact: 0,
        known_leader: call.ctx.status.leader.is_some(),
        next_token: "",
    };
    Ok(blocking::mark(call, Response::json(&shape, call.query.pretty), view.index()))
}

/// At most one more than `MOST`. A prefix that no id can begin with matches nothing.
fn look_up(call: &Call<'_>, view: &View, context: &str, prefix: &str) -> Result<Vec<String>, Response> {
    let most = MOST + 1;
    let in_namespace = |n: &str| call.namespaces().is_none_or(|wanted| wanted == n);
    let digits = hex_digits(prefix);
    Ok(match (context, digits) {
        ("jobs", _) => {
            let jobs = view.jobs(call.namespaces(), prefix, None, most)?;
            jobs.iter().map(|job| job.spec.id.clone()).collect()
        }
        ("allocs", Some(d)) => {
            let found = allocs::by_prefix(view, &d)?;
            found
                .iter()
                .filter(|a| in_namespace(&a.job.namespace))
                .take(most)
                .map(|a| a.id.to_string())
                .collect()
        }
        ("evals", Some(d)) => {
            let found = evals::by_prefix(view, &d)?;
            found
                .iter()
                .filter(|e| in_namespace(&e.job.namespace))
                .take(most)
                .map(|e| e.id.to_string())
                .collect()
        }
        ("nodes", Some(d)) => view.node_ids(&d, most)?.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    })
}
