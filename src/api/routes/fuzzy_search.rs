//! Search by any part of a name, whatever its case (http-api.md 7.6, server.md 21). Each kind of object is looked at as far as the
//! rules allow, so that a search costs the same on a large region as on a small one.
//!
//! Refuses to know: prefixes; `search` looks those up.

use crate::response::Response;
use crate::routes::search::{self, Found};
use crate::shape::search::Match;
use crate::{Call, RouteOutcome, json, page};
use model::alloc::Allocation;
use model::job::{Job, Task, TaskGroup};
use model::value::Value;
use state::view::View;
use std::collections::BTreeMap;

/// The contexts of what is found in jobs.
const IN_JOBS: [&str; 7] = ["jobs", "groups", "tasks", "services", "images", "commands", "classes"];
/// The other contexts whose objects have names.
const NAMED: [&str; 4] = ["nodes", "node_pools", "namespaces", "allocs"];

pub fn search(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let rules = call.ctx.agent.search;
    if !rules.fuzzy_enabled {
        return Err(Response::text(500, "fuzzy search is not enabled"));
    }
    let body = json::object(call.body()?)?;
    let text = json::text(&body, "Text")?.unwrap_or_default();
    let (least, length) = (rules.min_term_length as usize, text.chars().count());
    if length < least {
        let sentence = format!("fuzzy search query must be at least {least} characters, got {length}");
        return Err(Response::text(500, sentence));
    }
    let known: Vec<&'static str> = search::CONTEXTS.into_iter().chain(IN_JOBS.into_iter().skip(1)).collect();
    let contexts = search::asked(json::text(&body, "Context")?.unwrap_or_default(), &known)?;
    let view = call.view()?;
    let most = rules.limit_results as usize;
    let mut found = Found::of(&contexts);
    let mut scan = Scan::new(text, rules.limit_query as usize);
    for kind in NAMED.into_iter().filter(|kind| contexts.contains(kind)) {
        scan.named(call, &view, kind)?;
    }
    if contexts.iter().any(|c| IN_JOBS.contains(c)) {
        scan.jobs(call, &view)?;
    }
    for context in contexts {
        let (matches, truncated) = match NAMED.contains(&context) || IN_JOBS.contains(&context) {
            true => scan.sorted(context, most),
            false => by_id(call, &view, context, text)?,
        };
        found.put(context, matches, truncated);
    }
    Ok(RouteOutcome::Respond(found.answer(call, &view)))
}

/// What has no name is found by the beginning of its id.
fn by_id(call: &Call<'_>, view: &View, context: &str, text: &str) -> Result<(Vec<Match>, bool), Response> {
    let (ids, truncated) = search::look_up(call, view, context, text)?;
    Ok((ids.into_iter().map(|id| Match { id, scope: vec![] }).collect(), truncated))
}

/// Matches by context, with where in the name the text begins.
struct Scan {
    text: String,
    /// Objects of a kind that are looked at.
    most: usize,
    matches: BTreeMap<&'static str, Vec<(usize, Match)>>,
    /// Contexts of which not every object was looked at.
    cut: Vec<&'static str>,
}

impl Scan {
    fn new(text: &str, most: usize) -> Scan {
        Scan { text: text.to_lowercase(), most, matches: BTreeMap::new(), cut: Vec::new() }
    }

    fn look(&mut self, context: &'static str, name: &str, scope: &[&str]) {
        if let Some(at) = name.to_lowercase().find(&self.text) {
            let scope = scope.iter().map(ToString::to_string).collect();
            let found = Match { id: name.to_string(), scope };
            self.matches.entry(context).or_default().push((at, found));
        }
    }

    /// As many as may be looked at. The rest is noted.
    fn bounded<T>(&mut self, contexts: &[&'static str], mut objects: Vec<T>) -> Vec<T> {
        if objects.len() > self.most {
            objects.truncate(self.most);
            self.cut.extend(contexts);
        }
        objects
    }

    fn named(&mut self, call: &Call<'_>, view: &View, kind: &'static str) -> Result<(), Response> {
        match kind {
            "nodes" => {
                for id in self.bounded(&["nodes"], view.node_ids("", self.most + 1)?) {
                    if let Some(node) = view.node(id)? {
                        self.look(kind, &node.info.name, &[&id.to_string()]);
                    }
                }
            }
            "node_pools" => {
                for pool in self.bounded(&["node_pools"], view.node_pools("")?) {
                    self.look(kind, &pool.spec.name, &[&pool.spec.name]);
                }
            }
            "namespaces" => {
                for namespace in self.bounded(&["namespaces"], view.namespaces("")?) {
                    self.look(kind, &namespace.spec.name, &[]);
                }
            }
            _ => {
                for alloc in self.allocs(call, view)? {
                    self.look(kind, &alloc.name, &[&alloc.job.namespace, &alloc.id.to_string()]);
                }
            }
        }
        Ok(())
    }

    fn allocs(&mut self, call: &Call<'_>, view: &View) -> Result<Vec<Allocation>, Response> {
        let read =
            |last: Option<&Allocation>| Ok(view.allocs(last.map(|a| (a.create_index, a.id)), page::CHUNK)?);
        let wanted = |row: &Result<Allocation, Response>| match row {
            Ok(alloc) => call.namespaces().is_none_or(|n| n == alloc.job.namespace),
            Err(_) => true,
        };
        let allocs = page::rows(read).filter(wanted).take(self.most + 1).collect::<Result<Vec<_>, _>>()?;
        Ok(self.bounded(&["allocs"], allocs))
    }

    fn jobs(&mut self, call: &Call<'_>, view: &View) -> Result<(), Response> {
        let jobs = view.jobs(call.namespaces(), "", None, self.most + 1)?;
        for job in self.bounded(&IN_JOBS, jobs) {
            let spec = &job.spec;
            self.look("jobs", &spec.name, &[&spec.namespace, &spec.id]);
            for group in &spec.groups {
                self.look("groups", &group.name, &[&spec.namespace, &spec.id]);
                group.tasks.iter().for_each(|task| self.task(&job, group, task));
            }
        }
        Ok(())
    }

    fn task(&mut self, job: &Job, group: &TaskGroup, task: &Task) {
        let (namespace, id) = (job.spec.namespace.as_str(), job.spec.id.as_str());
        self.look("tasks", &task.name, &[namespace, id, &group.name]);
        let (context, key) = match task.driver.as_str() {
            "docker" => ("images", "image"),
            "exec" | "raw_exec" => ("commands", "command"),
            "java" => ("classes", "class"),
            _ => return,
        };
        if let Some(Value::Text(value)) = task.config.get(key) {
            self.look(context, value, &[namespace, id, &group.name, &task.name]);
        }
    }

    /// Earlier in the name first, then shorter names, then by name; and whether there is more.
    fn sorted(&mut self, context: &str, most: usize) -> (Vec<Match>, bool) {
        let mut all = self.matches.remove(context).unwrap_or_default();
        all.sort_by(|(a, left), (b, right)| {
            (a, left.id.len(), &left.id).cmp(&(b, right.id.len(), &right.id))
        });
        let truncated = all.len() > most || self.cut.contains(&context);
        all.truncate(most);
        (all.into_iter().map(|(_, found)| found).collect(), truncated)
    }
}
