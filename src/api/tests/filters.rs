//! Filters on every list: over whole objects, before pages are counted. What expressions mean: `filter::tests`.

use super::*;
use state::samples::alloc_id;

/// A query's value as it stands in a target.
fn escaped(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02x}")).collect()
}

fn filtered(target: &str, filter: &str) -> String {
    let joint = if target.contains('?') { '&' } else { '?' };
    format!("{target}{joint}filter={}", escaped(filter))
}

/// A list, an expression that its one element matches and one that it does not.
#[test]
fn every_list_takes_a_filter() {
    let world = World::running();
    let (eval, node) = (eval_id(1), node_id(1));
    for (target, yes, no) in [
        ("/v1/jobs", "ID == web and Type == \"service\"", "ID == db"),
        ("/v1/jobs", "any TaskGroups as g { any g.Tasks as t { t.Name == t } }", "Stop == true"),
        ("/v1/jobs?prefix=w", "Periodic is nil and ParentID == \"\"", "Periodic is not nil"),
        ("/v1/jobs?namespace=*", "Namespace == default and Datacenters is not empty", "Priority == 51"),
        ("/v1/job/web/versions", "Version == 0", "Version != 0"),
        ("/v1/allocations", "ClientStatus == running and Job.Type == service", "Job.Type == batch"),
        ("/v1/allocations", "TaskStates.t.State == running", "PreviousAllocation is not empty"),
        ("/v1/allocations?prefix=00", "DeploymentID == \"\"", "DeploymentStatus.Healthy == true"),
        ("/v1/job/web/allocations", "TaskGroup == g", "TaskGroup != g"),
        (&format!("/v1/evaluation/{eval}/allocations"), "Name matches `^web`", "Name matches `^x`"),
        (&format!("/v1/node/{node}/allocations"), "DesiredStatus == run", "DesiredStatus == stop"),
        ("/v1/evaluations", "TriggeredBy == \"job-register\" and NodeID == \"\"", "Wait != 0"),
        ("/v1/job/web/evaluations", "Status == complete", "BlockedEval is not empty"),
        ("/v1/nodes", "Status == ready and Meta is not nil", "Status == down"),
        ("/v1/namespaces", "Name == default", "Name == other"),
        ("/v1/nodes", "Attributes[\"driver.raw_exec\"] == 1", "Attributes.nosuch == x"),
    ] {
        let count = |filter: &str| {
            let list = world.json(&filtered(target, filter));
            list.get("Versions").unwrap_or(&list).as_array().map(Vec::len)
        };
        assert_eq!((count(yes), count(no)), (Some(1), Some(0)), "{target}: {yes} / {no}");
    }
    for target in ["/v1/deployments", "/v1/job/web/deployments"] {
        assert_eq!(text(&world.get(&filtered(target, "Status == running"))), "[]", "{target}");
    }
}

#[test]
fn a_filter_error_on_one_element_fails_the_list() {
    let world = World::running();
    for (target, filter, sentence) in [
        (
            "/v1/jobs",
            "Foo == 1",
            "failed to read result page: error finding value in datum: Foo: there is no \"Foo\"",
        ),
        (
            "/v1/allocations",
            "JobType == x",
            "failed to read result page: error finding value in datum: JobType",
        ),
        ("/v1/namespaces", "Nmae == x", "failed to read result page: error finding value in datum: Nmae"),
        ("/v1/nodes", "Drain == perhaps", "failed to read result page: Drain is a boolean"),
        (
            "/v1/evaluations",
            "a ==",
            "failed to create result paginator: failed to read filter expression: character 5",
        ),
        (
            "/v1/evaluations?job=web",
            "ID == x",
            "Filter expression cannot be used with other filter parameters",
        ),
        ("/v1/job/web", "ID == x", "a filter is for lists"),
        (&format!("/v1/allocation/{}", alloc_id(1)), "ID == x", "a filter is for lists"),
        ("/v1/agent/self", "ID == x", "a filter is for lists"),
    ] {
        let response = world.get(&filtered(target, filter));
        assert_eq!(response.status, 400, "{target} {filter}");
        assert!(text(&response).starts_with(sentence), "{target} {filter}: {}", text(&response));
    }
    assert_eq!(world.get("/v1/jobs?filter=").status, 200, "no filter at all");
}

#[test]
fn pages_count_only_matching_elements() {
    let mut world = World::new();
    for (n, id) in [(1, "a1"), (2, "b1"), (3, "a2"), (4, "a3")] {
        world.job(id, n);
    }
    let ids = |target: &str| -> (Vec<String>, Option<String>) {
        let response = world.get(&filtered(target, "ID matches `^a`"));
        let list: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
        let ids = list.iter().map(|v| v["ID"].as_str().unwrap_or_default().to_string()).collect();
        (ids, response.header("X-Nomad-NextToken").map(str::to_string))
    };
    let page = |of: &[&str], next: Option<&str>| {
        (of.iter().map(ToString::to_string).collect(), next.map(str::to_string))
    };
    assert_eq!(ids("/v1/jobs?per_page=2"), page(&["a1", "a2"], Some("default.a3")));
    assert_eq!(ids("/v1/jobs?per_page=2&next_token=default.a3"), page(&["a3"], None));
    assert_eq!(ids("/v1/jobs?per_page=2&reverse=true"), page(&["a3", "a2"], Some("default.a1")));
    assert_eq!(ids("/v1/jobs?per_page=3"), page(&["a1", "a2", "a3"], None), "b1 makes no next page");
}
