//! The table of routes: where paths lead, and that every line of it can be reached and says nothing twice.

use super::*;
use std::collections::BTreeSet;

const EACH: [Method; 4] = [Method::Get, Method::Put, Method::Post, Method::Delete];

/// The pattern and the names, or the status of the refusal by path alone.
fn lead(path: &str) -> Result<(&'static str, Vec<String>), u16> {
    let answers = EACH.map(|method| find(path, method));
    let refusal = answers.iter().filter_map(|a| a.as_ref().err()).map(|r| r.status).min();
    let found = answers.into_iter().find_map(Result::ok);
    found.map(|f| (f.route.pattern, f.names)).ok_or(refusal.unwrap_or_default())
}

/// A path that this pattern is for.
fn sample(pattern: &str) -> String {
    let segment = |segment: &str| match segment.as_bytes().first() {
        Some(b':') => "x".to_string(),
        Some(b'*') => "x/y".to_string(),
        _ => segment.to_string(),
    };
    pattern.split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[test]
fn every_line_is_reached_by_its_own_path_and_methods() {
    for route in ROUTES {
        let path = sample(route.pattern);
        for method in EACH {
            let found = find(&path, method);
            let reached = found.as_ref().is_ok_and(|f| std::ptr::eq(f.route, route));
            assert_eq!(reached, route.methods.has(method), "{method:?} {} by {path}", route.pattern);
        }
    }
}

#[test]
fn no_line_has_a_method_of_another_with_its_pattern() {
    let mut seen = BTreeSet::new();
    for route in ROUTES {
        for method in EACH.into_iter().filter(|m| route.methods.has(*m)) {
            assert!(seen.insert((route.pattern, format!("{method:?}"))), "{method:?} {}", route.pattern);
        }
    }
    assert!(seen.len() > 100);
}

#[test]
fn handlers_take_as_many_names_as_their_pattern_has() {
    for route in ROUTES {
        let names = route.pattern.split('/').filter(|s| s.starts_with([':', '*'])).count();
        let taken = match route.handler {
            Handler::NoObject(_) => 0,
            Handler::Object(_) => 1,
            Handler::TwoObjects(_) => 2,
            Handler::NotBuilt(_) | Handler::UnknownPart => names,
        };
        assert_eq!(taken, names, "{}", route.pattern);
    }
}

#[test]
fn routes_that_are_not_built_are_named_by_their_path() {
    for route in ROUTES {
        if let Handler::NotBuilt(name) = route.handler {
            let path = route.pattern.trim_start_matches("/v1/").replace("*id", ":id");
            assert!(path.starts_with(name), "{name} stands for {path}");
        }
    }
}

fn assert_leads(cases: &[(&str, &'static str, &[&str])]) {
    for (path, pattern, names) in cases {
        let names = names.iter().map(ToString::to_string).collect();
        assert_eq!(lead(path), Ok((*pattern, names)), "{path}");
    }
}

#[test]
fn paths_below_a_job_are_recognised_by_their_end() {
    assert_leads(&[
        ("/v1/jobs", "/v1/jobs", &[]),
        ("/v1/jobs/parse", "/v1/jobs/parse", &[]),
        ("/v1/job/a", "/v1/job/*id", &["a"]),
        ("/v1/job/", "/v1/job/*id", &[""]),
        ("/v1/job/a/periodic-170", "/v1/job/*id", &["a/periodic-170"]),
        ("/v1/job/a/b/allocations", "/v1/job/*id/allocations", &["a/b"]),
        ("/v1/job/a\0b/allocations", "/v1/job/*id/allocations", &["a/b"]),
        ("/v1/job/a\0allocations", "/v1/job/*id", &["a/allocations"]),
        ("/v1/job/a\0plan", "/v1/job/*id", &["a/plan"]),
        ("/v1/job/a\0summary/summary", "/v1/job/*id/summary", &["a/summary"]),
        ("/v1\0jobs", "/v1/jobs", &[]),
        ("/v1/job/a/deployment", "/v1/job/*id/deployment", &["a"]),
        ("/v1/job/a/deployments", "/v1/job/*id/deployments", &["a"]),
        ("/v1/job/a/b/plan", "/v1/job/*id/plan", &["a/b"]),
        ("/v1/job/a/periodic/force", "/v1/job/*id/periodic/force", &["a"]),
        ("/v1/job/a/b/scale", "/v1/job/*id/scale", &["a/b"]),
        ("/v1/job/a/b/submission", "/v1/job/*id/submission", &["a/b"]),
        ("/v1/job/a/b/evaluate", "/v1/job/*id/evaluate", &["a/b"]),
        ("/v1/job/a/b/revert", "/v1/job/*id/revert", &["a/b"]),
        ("/v1/job/a/b/actions", "/v1/job/*id/actions", &["a/b"]),
        ("/v1/job/a/b/action", "/v1/job/*id/action", &["a/b"]),
        ("/v1/job/a\0action", "/v1/job/*id", &["a/action"]),
        ("/v1/job/a/dispatch", "/v1/job/*id/dispatch", &["a"]),
        ("/v1/job/a/dispatch-1700000000-1a2b3c4d", "/v1/job/*id", &["a/dispatch-1700000000-1a2b3c4d"]),
        ("/v1/job/a\0revert", "/v1/job/*id", &["a/revert"]),
        ("/v1/job/a/b/versions/v\0x/tag", "/v1/job/*id/versions/*tag/tag", &["a/b", "v/x"]),
        ("/v1/job/a/tag", "/v1/job/*id", &["a/tag"]),
        ("/v1/job/a/b/why", "/v1/job/*id/why", &["a/b"]),
        ("/v1/job/a\0why", "/v1/job/*id", &["a/why"]),
        ("/v1/job/a/stable", "/v1/job/*id/stable", &["a"]),
    ]);
}

#[test]
fn paths_lead_to_their_patterns() {
    assert_leads(&[
        ("/v1/scaling/policies", "/v1/scaling/policies", &[]),
        ("/v1/scaling/policy/x", "/v1/scaling/policy/*id", &["x"]),
        ("/v1/allocation/x/checks", "/v1/allocation/:id/checks", &["x"]),
        ("/v1/allocation/x/stop", "/v1/allocation/:id/stop", &["x"]),
        ("/v1/allocation/x/why", "/v1/allocation/:id/why", &["x"]),
        ("/v1/allocation/x/other", "/v1/allocation/*rest", &["x/other"]),
        ("/v1/evaluation/x/allocations", "/v1/evaluation/*id/allocations", &["x"]),
        ("/v1/evaluation/x/why", "/v1/evaluation/*id/why", &["x"]),
        ("/v1/evaluations/count", "/v1/evaluations/count", &[]),
        ("/v1/node/x/evaluate", "/v1/node/*id/evaluate", &["x"]),
        ("/v1/node/x/allocations", "/v1/node/*id/allocations", &["x"]),
        ("/v1/node/x/drain", "/v1/node/*id/drain", &["x"]),
        ("/v1/node/x/eligibility", "/v1/node/*id/eligibility", &["x"]),
        ("/v1/node/x/purge", "/v1/node/*id/purge", &["x"]),
        ("/v1/node/pools", "/v1/node/pools", &[]),
        ("/v1/node/pool/p", "/v1/node/pool/*name", &["p"]),
        ("/v1/node/pool/p/nodes", "/v1/node/pool/*name/nodes", &["p"]),
        ("/v1/node/pool/p/jobs", "/v1/node/pool/*name/jobs", &["p"]),
        ("/v1/node/pool/a/b", "/v1/node/pool/*name", &["a/b"]),
        ("/v1/node/pooled", "/v1/node/*id", &["pooled"]),
        ("/v1/jobs/statuses", "/v1/jobs/statuses", &[]),
        ("/v1/system/reconcile/summaries", "/v1/system/reconcile/summaries", &[]),
        ("/v1/system/gc", "/v1/system/gc", &[]),
        ("/v1/system/gc/x", "/v1/system/*rest", &["gc/x"]),
        ("/v1/operator/snapshot", "/v1/operator/snapshot", &[]),
        ("/v1/operator/other", "/v1/operator/*rest", &["other"]),
        ("/v1/operator/scheduler/configuration", "/v1/operator/scheduler/configuration", &[]),
        ("/v1/deployment/x", "/v1/deployment/:id", &["x"]),
        ("/v1/deployment/fail/x", "/v1/deployment/fail/*id", &["x"]),
        ("/v1/deployment/allocations/x", "/v1/deployment/allocations/*id", &["x"]),
        ("/v1/client/fs/logs/x", "/v1/client/fs/logs/*id", &["x"]),
        ("/v1/client/fs/ls/x", "/v1/client/fs/ls/*id", &["x"]),
        ("/v1/client/fs/cat/x", "/v1/client/fs/cat/*id", &["x"]),
        ("/v1/client/fs/nope/x", "/v1/client/fs/*rest", &["nope/x"]),
        ("/v1/client/allocation/x/stats", "/v1/client/allocation/:id/stats", &["x"]),
        ("/v1/client/allocation/x/restart", "/v1/client/allocation/:id/restart", &["x"]),
        ("/v1/client/allocation/x/signal", "/v1/client/allocation/:id/signal", &["x"]),
        ("/v1/client/allocation/x/exec", "/v1/client/allocation/:id/exec", &["x"]),
        ("/v1/client/allocation/x/pause", "/v1/client/allocation/*rest", &["x/pause"]),
        ("/v1/client/metadata", "/v1/client/metadata", &[]),
        ("/v1/search/fuzzy", "/v1/search/fuzzy", &[]),
        ("/v1/validate/job", "/v1/validate/job", &[]),
        ("/v1/namespaces", "/v1/namespaces", &[]),
        ("/v1/namespace", "/v1/namespace", &[]),
        ("/v1/namespace/n", "/v1/namespace/*name", &["n"]),
        ("/v1/namespace/../n", "/v1/namespace/*name", &["../n"]),
        ("/v1/agent/self", "/v1/agent/self", &[]),
        ("/ui/jobs", "/ui/*rest", &["jobs"]),
    ]);
}

#[test]
fn unknown_paths_are_404_and_no_method_of_a_known_one_405() {
    for path in [
        "/v1/scaling/other",
        "/v1/namespacex",
        "/v1/deployment/other/x",
        "/v1/nosuch",
        "/v1/",
        "/v1",
        "/",
        "",
        "/v2/jobs",
        "/v1/jobs/",
    ] {
        assert_eq!(lead(path), Err(404), "{path}");
    }
    assert_eq!(lead("/v1/job/a/dispatch/payload"), Err(405));
}
