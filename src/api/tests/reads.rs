//! Every read: what it answers, and with which status and headers.

use super::*;
use model::garbage::{Cutoffs, Garbage};
use state::samples::alloc_id;
use wire::command::CollectGarbageCommand;
use wire::status::LogStatus;

/// Paths of the present objects, with a member of the answer to look for.
#[test]
fn reads_answer() {
    let world = World::running();
    let (eval, alloc, node) = (eval_id(1), alloc_id(1), node_id(1));
    let cases: [(String, &str, Value); 24] = [
        ("/v1/jobs".into(), "/0/ID", "web".into()),
        ("/v1/jobs?prefix=we".into(), "/0/JobSummary/Summary/g/Running", 1.into()),
        ("/v1/jobs?namespace=*".into(), "/0/Namespace", "default".into()),
        ("/v1/job/web".into(), "/TaskGroups/0/Tasks/0/Resources/CPU", 100.into()),
        ("/v1/job/web?namespace=default&region=eu".into(), "/Status", "running".into()),
        ("/v1/job/web?region=global".into(), "/Version", 0.into()),
        ("/v1/job/web/summary".into(), "/Children/Dead", 0.into()),
        ("/v1/job/web/versions".into(), "/Versions/0/ID", "web".into()),
        ("/v1/job/web/allocations".into(), "/0/JobType", "service".into()),
        ("/v1/job/web/evaluations".into(), "/0/TriggeredBy", "job-register".into()),
        ("/v1/job/web/deployment".into(), "", Value::Null),
        ("/v1/allocations".into(), "/0/TaskStates/t/State", "running".into()),
        ("/v1/allocations?resources=true".into(), "/0/AllocatedResources/Shared/DiskMB", 300.into()),
        (format!("/v1/allocation/{alloc}"), "/Job/ID", "web".into()),
        ("/v1/evaluations".into(), "/0/JobID", "web".into()),
        ("/v1/evaluations?job=web&status=complete".into(), "/0/Status", "complete".into()),
        (format!("/v1/evaluation/{eval}"), "/Type", "service".into()),
        (format!("/v1/evaluation/{eval}/allocations"), "/0/Name", "web.g[0]".into()),
        ("/v1/nodes".into(), "/0/Name", "node-1".into()),
        (format!("/v1/node/{node}"), "/SecretID", "".into()),
        (format!("/v1/node/{node}/allocations"), "/0/Resources/CPU", 100.into()),
        ("/v1/status/leader".into(), "", "127.0.0.1:4647".into()),
        ("/v1/status/peers".into(), "/0", "127.0.0.1:4647".into()),
        ("/v1/regions".into(), "/0", "eu".into()),
    ];
    for (target, pointer, value) in cases {
        assert_eq!(world.json(&target).pointer(pointer), Some(&value), "{target}");
    }
}

#[test]
fn absent_objects_and_lists_answer_as_clients_expect() {
    let world = World::running();
    let other = eval_id(9);
    for (target, status, body) in [
        ("/v1/job/nosuch", 404, "job not found"),
        ("/v1/job/", 404, "job not found"),
        ("/v1/job/web?namespace=other", 404, "job not found"),
        ("/v1/job/nosuch/summary", 404, "job not found"),
        ("/v1/job/nosuch/versions", 404, "job versions not found"),
        ("/v1/job/nosuch/allocations", 200, "[]"),
        ("/v1/job/nosuch/evaluations", 200, "[]"),
        ("/v1/job/nosuch/deployment", 200, "null"),
        ("/v1/job/nosuch/deployments?all=true", 200, "[]"),
        ("/v1/deployments", 200, "[]"),
        (&format!("/v1/deployment/{other}"), 404, "deployment not found"),
        (&format!("/v1/deployment/allocations/{other}"), 200, "[]"),
        (&format!("/v1/allocation/{other}"), 404, "alloc not found"),
        (&format!("/v1/evaluation/{other}"), 404, "eval not found"),
        (&format!("/v1/evaluation/{other}/allocations"), 200, "[]"),
        (&format!("/v1/node/{other}"), 404, "node not found"),
        (&format!("/v1/node/{other}/allocations"), 200, "[]"),
        ("/v1/node/nosuch/allocations", 200, "[]"),
        ("/v1/volumes?type=csi", 200, "[]"),
        ("/v1/plugins?type=csi", 200, "[]"),
        ("/v1/volume/csi/data", 501, "not supported yet: volume"),
        ("/v1/jobs?prefix=x", 200, "[]"),
        ("/v1/jobs?namespace=other", 200, "[]"),
        ("/v1/allocations?namespace=other", 200, "[]"),
        ("/v1/jobs?region=us", 500, "No path to region"),
        (
            "/v1/jobs?filter=Status",
            400,
            "failed to create result paginator: failed to read filter expression: character 7: expected an operator (==, !=, contains, in, matches, is empty, is nil, or their opposites with not), found the end",
        ),
        ("/v1/job/web/versions?diff_tag=a", 404, "tag \"a\" not found"),
        ("/v1/job/web/versions?diff_version=9", 404, "job version 9 not found"),
        ("/v1/quotas", 501, "not supported yet: quota"),
        ("/v1/job/web/plan", 405, "Invalid method"),
        ("/v1/nosuch", 404, ""),
    ] {
        let response = world.get(target);
        assert_eq!((response.status, text(&response).as_str()), (status, body), "{target}");
    }
}

#[test]
fn reads_tell_where_they_stand() {
    let mut world = World::new();
    let empty = world.get("/v1/jobs");
    assert_eq!(empty.header("X-Nomad-Index"), Some("1"), "never 0");
    world.job("web", 1);
    let job = world.get("/v1/job/web");
    assert_eq!(job.header("X-Nomad-Index"), Some("1"));
    assert_eq!(job.header("X-Nomad-KnownLeader"), Some("true"));
    assert_eq!(job.header("X-Nomad-LastContact"), Some("0"));
    assert_eq!(job.header("Content-Type"), Some("application/json"));
    world.job("db", 2);
    assert_eq!(world.get("/v1/jobs").header("X-Nomad-Index"), Some("2"));
    assert_eq!(world.get("/v1/job/web").header("X-Nomad-Index"), Some("1"), "its own index");
    assert_eq!(world.get("/v1/job/nosuch").header("X-Nomad-Index"), Some("2"), "the table's");
    assert_eq!(world.get("/v1/jobs").header("X-Nomad-NextToken"), None);
}

#[test]
fn lists_come_in_pages() {
    let mut world = World::new();
    for (n, id) in [(1, "a"), (2, "b"), (3, "c")] {
        world.job(id, n);
    }
    let ids = |response: &Response, member: &str| -> Vec<String> {
        let list: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
        list.iter().map(|v| v[member].as_str().unwrap_or_default().to_string()).collect()
    };
    let first = world.get("/v1/jobs?per_page=2");
    assert_eq!(ids(&first, "ID"), ["a", "b"]);
    assert_eq!(first.header("X-Nomad-NextToken"), Some("default.c"));
    let second = world.get("/v1/jobs?per_page=2&next_token=default.c");
    assert_eq!((ids(&second, "ID"), second.header("X-Nomad-NextToken")), (vec!["c".to_string()], None));
    assert_eq!(ids(&world.get("/v1/jobs?reverse=true&per_page=1"), "ID"), ["c"]);
    assert_eq!(ids(&world.get("/v1/jobs?next_token=default.bb"), "ID"), ["c"], "a vanished token goes on");

    let first = world.get("/v1/evaluations?per_page=2");
    let token = format!("3.{}", eval_id(3));
    assert_eq!((ids(&first, "JobID").len(), first.header("X-Nomad-NextToken")), (2, Some(token.as_str())));
    let second = world.get(&format!("/v1/evaluations?per_page=2&next_token={token}"));
    assert_eq!(ids(&second, "JobID"), ["c"]);
    assert_eq!(ids(&world.get("/v1/evaluations?reverse=true"), "JobID"), ["c", "b", "a"]);
}

#[test]
fn id_prefixes_find_their_objects() {
    let world = World::running();
    let id = alloc_id(1).to_string();
    let found = |target: &str| world.json(target).as_array().map_or(0, Vec::len);
    assert_eq!(found(&format!("/v1/allocations?prefix={}", &id[..8])), 1);
    assert_eq!(found(&format!("/v1/allocations?prefix={id}")), 1);
    assert_eq!(found("/v1/allocations?prefix=ff"), 0);
    assert_eq!(found(&format!("/v1/nodes?prefix={}", &node_id(1).to_string()[..4])), 1);
    assert_eq!(found(&format!("/v1/evaluations?prefix={}", &eval_id(1).to_string()[..4])), 1);
    for digits in [1, 3, 7, 35] {
        assert_eq!(found(&format!("/v1/allocations?prefix={}", &id[..digits])), 1, "{digits} characters");
        let node = node_id(1).to_string();
        assert_eq!(found(&format!("/v1/nodes?prefix={}", &node[..digits])), 1, "{digits} characters");
    }
    for list in ["allocations", "nodes", "evaluations", "deployments"] {
        let refused = world.get(&format!("/v1/{list}?prefix=xy"));
        assert_eq!(refused.status, 400, "{list}: {}", text(&refused));
        let refused = world.get(&format!("/v1/{list}?prefix={id}0"));
        assert_eq!(refused.status, 400, "{list}: {}", text(&refused));
    }
}

#[test]
fn head_answers_as_get() {
    let world = World::running();
    for target in
        ["/v1/jobs", "/v1/job/web", "/v1/job/nosuch", "/v1/agent/health", "/v1/nosuch", "/v1/jobs?index=x"]
    {
        assert_eq!(world.respond(Method::Head, target, ""), world.get(target), "{target}");
    }
}

#[test]
fn search_finds_by_any_beginning() {
    let world = World::running();
    let search = |body: &str| {
        let response = world.respond(Method::Put, "/v1/search", body);
        (response.status, serde_json::from_slice(&response.body).unwrap_or(Value::Null))
    };
    let (status, all) = search(r#"{"Prefix":"w","Context":"all"}"#);
    assert_eq!((status, &all["Matches"]["jobs"][0]), (200, &Value::from("web")));
    assert_eq!(all["Matches"]["vars"], Value::Array(vec![]), "every context is there");
    let id = alloc_id(1).to_string();
    let (_, odd) = search(&format!(r#"{{"prefix":"{}","context":"allocs"}}"#, &id[..7]));
    assert_eq!(odd["Matches"]["allocs"][0], Value::from(id));
    assert_eq!(odd["Truncations"]["allocs"], Value::from(false));
    assert_eq!(odd["Matches"].as_object().unwrap().len(), 1);
    assert_eq!(search(r#"{"Prefix":"a","Context":"cats"}"#).0, 500);
    assert_eq!(search("").0, 400);
}

#[test]
fn search_is_cut_off_at_twenty() {
    let mut world = World::new();
    for n in 0..21 {
        world.job(&format!("job-{n:02}"), n + 1);
    }
    let response = world.respond(Method::Post, "/v1/search", r#"{"Prefix":"job","Context":"jobs"}"#);
    let found: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(found["Matches"]["jobs"].as_array().unwrap().len(), 20);
    assert_eq!(found["Truncations"]["jobs"], Value::from(true));
    for (name, value) in
        [("X-Nomad-Index", "21"), ("X-Nomad-KnownLeader", "true"), ("X-Nomad-LastContact", "0")]
    {
        assert_eq!(response.header(name), Some(value), "clients read a search like any other read: {name}");
    }
}

#[test]
fn each_raft_index_of_an_agent_is_told_under_its_name() {
    let mut world = World::running();
    let log =
        LogStatus { last_index: 45, last_term: 6, commit_index: 43, compacted_index: 30, compacted_term: 4 };
    world.status = ServerStatus { log, applied_index: 41, term: 7, ..world.status };
    let raft = &world.json("/v1/agent/self")["stats"]["raft"];
    for (name, value) in [
        ("last_log_index", "45"),
        ("last_log_term", "6"),
        ("commit_index", "43"),
        ("applied_index", "41"),
        ("fsm_pending", "2"),
        ("last_snapshot_index", "30"),
        ("last_snapshot_term", "4"),
        ("term", "7"),
        ("state", "Leader"),
    ] {
        assert_eq!(raft[name], value, "{name}");
    }
}

#[test]
fn an_agent_tells_of_itself() {
    let mut world = World::running();
    let own = world.json("/v1/agent/self");
    assert_eq!(own["config"]["Region"], "eu");
    assert_eq!(own["config"]["Version"]["Version"], "2.0.5");
    assert_eq!(own["stats"]["client"]["node_id"], node_id(1).to_string());
    assert_eq!(own["stats"]["nomad"]["leader"], "true");
    assert_eq!(own["stats"]["runtime"]["goroutines"], "3", "the process's threads");
    for clock in ["member_time", "event_time", "query_time"] {
        assert_eq!(own["stats"]["serf"][clock], "1", "{clock}");
    }
    assert_eq!(world.json("/v1/agent/health")["server"]["ok"], true);
    world.status.leader = None;
    let health = world.get("/v1/agent/health");
    assert_eq!(health.status, 500);
    let health: Value = serde_json::from_slice(&health.body).unwrap();
    assert_eq!(health["server"]["message"], "No cluster leader");
    assert_eq!(health["client"]["ok"], true);
    assert_eq!(world.get("/v1/agent/health?type=client").status, 200);
    assert_eq!(text(&world.get("/v1/status/leader")), "\"\"");
}

#[test]
fn a_job_registered_anew_hides_the_old_ones_allocs() {
    let world = World::running();
    assert_eq!(world.json("/v1/job/web/allocations").as_array().unwrap().len(), 1);
    assert_eq!(world.json("/v1/job/web/allocations?all=true").as_array().unwrap().len(), 1);
    assert_eq!(world.get("/v1/job/web/allocations?all=maybe").status, 400);
}

#[test]
fn the_index_of_a_jobs_allocs_never_goes_back() {
    let mut world = World::running();
    let job = world.region.job("web");
    world.region.run(&Command::UpdateEvals { evals: vec![eval(2, "web")], at: AT });
    world.region.run(&Command::ApplyPlan {
        eval: eval_id(2),
        nodes: place(vec![alloc(2, &job, node_id(1), eval_id(2))]),
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    let updates = vec![report(2, ClientStatus::Complete)];
    let ended = Command::UpdateAllocs {
        seen: u64::MAX,
        node: node_id(1),
        updates,
        verdicts: vec![],
        evals: vec![],
        at: AT,
    };
    world.region.run(&ended);
    let listed = |world: &World| {
        let response = world.get("/v1/job/web/allocations");
        let list: Value = serde_json::from_slice(&response.body).unwrap();
        let index: u64 = response.header("X-Nomad-Index").unwrap().parse().unwrap();
        (list.as_array().unwrap().len(), index)
    };
    let (before, index) = listed(&world);
    let order = CollectGarbageCommand {
        garbage: Garbage::Allocs(vec![alloc_id(2)]),
        before: Cutoffs::FORCED,
        tracked_versions: 6,
        at: AT,
    };
    world.region.run(&Command::CollectGarbage(Box::new(order))).reply.unwrap();
    let (after, later) = listed(&world);
    assert_eq!((before, after), (2, 1), "the newest one is collected");
    assert!(later >= index, "{later} after {index}");
}

#[test]
fn related_evaluations_are_followed_both_ways() {
    let mut world = World::running();
    let mut second = eval(2, "web");
    second.previous_eval = Some(eval_id(1));
    let mut first = eval(1, "web");
    first.blocked_eval = Some(eval_id(2));
    world.region.run(&Command::UpdateEvals { evals: vec![first, second, eval(3, "web")], at: AT });
    let answer = world.json(&format!("/v1/evaluation/{}?related=true", eval_id(2)));
    let related = answer["RelatedEvals"].as_array().unwrap();
    assert_eq!(related.len(), 1);
    assert_eq!(related[0]["ID"], eval_id(1).to_string());
}

#[test]
fn versions_come_with_what_changed_from_one_to_the_next() {
    let mut world = World::new();
    for count in [1, 2, 5] {
        world.region.run(&register(spec("web", count), None)).reply.unwrap();
    }
    let changes = |query: &str| -> Vec<(String, String)> {
        let answer = world.json(&format!("/v1/job/web/versions?{query}"));
        let diffs = answer["Diffs"].as_array().cloned().unwrap_or_default();
        let field = |d: &Value| d["TaskGroups"][0]["Fields"][0].clone();
        let text = |v: &Value| v.as_str().unwrap_or("").to_string();
        diffs.iter().map(|d| (text(&field(d)["Old"]), text(&field(d)["New"]))).collect()
    };
    let pair = |old: &str, new: &str| (old.to_string(), new.to_string());
    let step = |query: &str| {
        let target = format!("/v1/job/web/versions?{query}");
        world.step(&request(Method::Get, &target, ""), WaitState::default())
    };
    for query in ["diffs=true", "diff_version=0"] {
        assert!(matches!(step(query), RouteOutcome::Compute(_)), "{query} is worked out beside HTTP");
    }
    assert!(matches!(step(""), RouteOutcome::Respond(_)));
    assert_eq!(changes(""), []);
    assert_eq!(changes("diffs=true"), [pair("2", "5"), pair("1", "2")]);
    assert_eq!(changes("diff_version=0"), [pair("1", "5"), pair("1", "2"), pair("", "")]);
}
