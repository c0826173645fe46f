//! Namespaces, the texts that jobs were made from, validation, and the searches.

use super::*;
use model::namespace::Capabilities;
use model::value::Value as Config;
use serde_json::json;
use state::samples::{alloc_id, namespace, submit};
use wire::request::WriteReply;

fn found(world: &World, target: &str, body: &Value) -> Value {
    let response = world.respond(Method::Post, target, &body.to_string());
    assert_eq!(response.status, 200, "{body}: {}", text(&response));
    serde_json::from_slice(&response.body).unwrap()
}

fn fuzzy(world: &World, body: &Value) -> Value {
    found(world, "/v1/search/fuzzy", body)
}

#[test]
fn namespaces_are_read() {
    let mut world = World::new();
    let default = world.json("/v1/namespace/default");
    assert_eq!(
        (&default["Name"], &default["Quota"], &default["Meta"]),
        (&json!("default"), &json!(""), &json!(null))
    );
    world.region.run(&namespace("team", "ours"));
    let names = |target: &str| -> Vec<Value> {
        world.json(target).as_array().unwrap().iter().map(|n| n["Name"].clone()).collect()
    };
    assert_eq!(names("/v1/namespaces"), ["default", "team"]);
    assert_eq!(names("/v1/namespaces?prefix=te"), ["team"]);
    let team = world.json("/v1/namespace/team");
    assert_eq!((&team["Description"], &team["ModifyIndex"]), (&json!("ours"), &json!(1)));
    assert_eq!(world.get("/v1/namespace/team").header("X-Nomad-Index"), Some("1"));
    assert_ne!(team["Hash"], default["Hash"]);
    let missing = world.get("/v1/namespace/tea");
    assert_eq!((missing.status, text(&missing).as_str()), (404, "Namespace not found"));
    assert!(world.wait("/v1/namespaces?index=1", WaitState::default()).is_some());
    assert!(world.wait("/v1/namespace/team?index=1", WaitState::default()).is_some());
}

#[test]
fn namespace_upsert_becomes_a_write_request() {
    let world = World::new();
    let body = r#"{"Name":"team","description":"ours","Meta":{"k":"v"},"Quota":"","NodePoolConfiguration":null,
        "Capabilities":{"EnabledTaskDrivers":["raw_exec"],"DisabledTaskDrivers":null},"Hash":"x","CreateIndex":7}"#;
    for target in ["/v1/namespace", "/v1/namespace/team"] {
        let (action, answer) = world.act(Method::Put, target, body);
        let WriteRequest::UpsertNamespace { namespace } = action else { panic!("{action:?}") };
        assert_eq!((namespace.name.as_str(), namespace.description.as_str()), ("team", "ours"));
        assert_eq!(namespace.meta["k"], "v");
        let capabilities =
            Capabilities { enabled_task_drivers: vec!["raw_exec".into()], ..Capabilities::default() };
        assert_eq!(namespace.capabilities, Some(capabilities));
        let written = answer.response(Ok(WriteReply::Written { index: 9 }));
        assert_eq!(
            (written.status, written.body.len(), written.header("X-Nomad-Index")),
            (200, 0, Some("9"))
        );
    }
    let (action, _) = world.act(Method::Delete, "/v1/namespace/team", "");
    assert_eq!(action, WriteRequest::DeleteNamespace { name: "team".into() });
}

#[test]
fn invalid_namespaces_are_refused_with_the_reason() {
    let world = World::new();
    let huge = json!({ "Name": "a".repeat(1 << 20) }).to_string();
    for (target, body, status, part) in [
        ("/v1/namespace", "", 400, "Request body is empty"),
        ("/v1/namespace", "[]", 400, "must be a JSON object"),
        ("/v1/namespace", "{}", 500, "Invalid namespace \"\": 1 error occurred:"),
        ("/v1/namespace/b", r#"{"Name":"a"}"#, 400, "Namespace name does not match request path"),
        ("/v1/namespace", r#"{"Name":"../a"}"#, 500, "1 to 128 letters, digits and dashes"),
        ("/v1/namespace", r#"{"Name":"*"}"#, 500, "invalid name \"*\""),
        ("/v1/namespace", r#"{"Name":"a\u0000"}"#, 500, "letters, digits and dashes"),
        ("/v1/namespace", r#"{"Name":"a\nb"}"#, 500, "Invalid namespace \"a\\nb\""),
        ("/v1/namespace", &huge, 500, "Invalid namespace \"aaaa"),
        ("/v1/namespace", r#"{"Name":5}"#, 400, "member Name must be a string"),
        ("/v1/namespace", r#"{"Name":"a","Meta":{"k":1}}"#, 400, "member Meta must be an object of strings"),
        ("/v1/namespace", r#"{"Name":"a","Meta":[]}"#, 400, "member Meta"),
        ("/v1/namespace", r#"{"Name":"a","Capabilities":[]}"#, 400, "member Capabilities"),
        (
            "/v1/namespace",
            r#"{"Name":"a","Capabilities":{"EnabledTaskDrivers":[1]}}"#,
            400,
            "member EnabledTaskDrivers must be a list of strings",
        ),
        ("/v1/namespace", r#"{"Name":"a","Quota":"q"}"#, 501, "not supported yet: Quota of a namespace"),
        (
            "/v1/namespace",
            r#"{"Name":"a","NodePoolConfiguration":{"Default":"x"}}"#,
            501,
            "not supported yet: NodePoolConfiguration of a namespace",
        ),
        (
            "/v1/namespace",
            r#"{"Name":"a","Capabilities":{"DisabledNetworkModes":["host"]}}"#,
            501,
            "not supported yet: DisabledNetworkModes of a namespace",
        ),
    ] {
        let response = world.respond(Method::Post, target, body);
        assert_eq!(response.status, status, "{body:.100}: {:.300}", text(&response));
        assert!(text(&response).contains(part), "{body:.100}: {:.300}", text(&response));
        assert!(response.body.len() < 1000, "the refusal is short");
    }
    assert_eq!(world.get("/v1/namespace").status, 405);
}

#[test]
fn the_submission_of_a_version_is_shown() {
    let mut world = World::new();
    world.region.run(&submit(spec("web", 1), "job \"web\" {}", 6));
    world.region.run(&register(spec("web", 2), None));
    let told = world.json("/v1/job/web/submission?version=0");
    assert_eq!((&told["Source"], &told["Format"]), (&json!("job \"web\" {}"), &json!("hcl2")));
    assert_eq!(
        (&told["JobID"], &told["Version"], &told["JobModifyIndex"]),
        (&json!("web"), &json!(0), &json!(1))
    );
    for (target, status, sentence) in [
        ("/v1/job/web/submission", 400, "Unable to parse job submission version parameter"),
        ("/v1/job/web/submission?version=x", 400, "Unable to parse job submission version parameter"),
        ("/v1/job/web/submission?version=-1", 400, "Unable to parse job submission version parameter"),
        ("/v1/job/web/submission?version=1", 404, "job source not found"),
        ("/v1/job/web/submission?version=2", 404, "job source not found"),
        ("/v1/job/nope/submission?version=0", 404, "job source not found"),
        ("/v1/job/web/submission?version=0&namespace=team", 404, "job source not found"),
    ] {
        let response = world.get(target);
        assert_eq!((response.status, text(&response).as_str()), (status, sentence), "{target}");
    }
}

/// A job that needs no defaults, with its text.
fn with_source(source: &str) -> String {
    let task = json!({"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}});
    let job = json!({"ID": "a", "Name": "a", "Type": "batch", "TaskGroups": [{"Name": "g", "Count": 1, "Tasks": [task]}]});
    json!({"Job": job, "Submission": {"Source": source, "Format": "hcl2", "Variables": "", "VariableFlags": null}})
        .to_string()
}

#[test]
fn a_submission_over_the_limit_is_dropped_with_a_warning() {
    let mut world = World::new();
    world.agent.job_max_source_bytes = 20;
    for (source, kept) in [("", false), ("0123456789abcdef", true), ("0123456789abcdefg", false)] {
        let (action, answer) = world.act(Method::Put, "/v1/jobs", &with_source(source));
        let WriteRequest::RegisterJob { submission, .. } = action else { panic!("{action:?}") };
        assert_eq!(submission.map(|s| s.source), kept.then(|| source.to_string()), "{source}");
        let done = WriteReply::Job { eval: None, job_modify_index: 1, index: 1 };
        let told: Value = serde_json::from_slice(&answer.response(Ok(done)).body).unwrap();
        let warned = told["Warnings"].as_str().unwrap().contains("has 21 bytes, more than the 20");
        assert_eq!(warned, !kept && !source.is_empty(), "{told}");
    }
}

#[test]
fn a_job_is_validated_without_being_registered() {
    let world = World::new();
    let good = with_source("");
    let validate = |body: &str| found(&world, "/v1/validate/job", &serde_json::from_str(body).unwrap());
    let told = validate(&good);
    assert_eq!(told["DriverConfigValidated"], true);
    assert_eq!((&told["ValidationErrors"], &told["Error"]), (&json!(null), &json!("")));
    let told = validate(&good.replace("\"raw_exec\"", "\"\""));
    assert_eq!(told["ValidationErrors"].as_array().map(Vec::len), Some(1));
    assert!(told["Error"].as_str().unwrap().contains("* Missing task driver"), "{told}");
    let told =
        validate(&good.replace("\"batch\"", "\"batch\",\"Multiregion\":{\"Regions\":[{\"Name\":\"a\"}]}"));
    assert!(told["Error"].as_str().unwrap().contains("not supported yet: "), "{told}");
    let restart = good.replace("\"raw_exec\"", "\"\",\"RestartPolicy\":{\"Mode\":\"later\"}");
    let wrong = restart.replace("\"batch\"", "\"batch\",\"Priority\":999,\"UI\":{\"Description\":\"x\"}");
    let all = ["\"later\" is unknown", "priority must be between", "Missing task driver"];
    let told = validate(&wrong);
    let error = told["Error"].as_str().unwrap();
    assert!(all.iter().all(|part| error.contains(part)), "{error}");
    let refused = world.respond(Method::Put, "/v1/jobs", &wrong);
    assert_eq!(refused.status, 400);
    assert!(all.iter().all(|part| text(&refused).contains(part)), "{}", text(&refused));
    let told = validate(r#"{"Job":{"Type":"batch"}}"#);
    assert!(told["Error"].as_str().unwrap().contains("* Missing job ID"), "{told}");
    for (body, part) in [("", "Request body is empty"), ("{}", "Job must be specified"), ("{", "EOF")] {
        let response = world.respond(Method::Put, "/v1/validate/job", body);
        assert_eq!(response.status, 400, "{body}");
        assert!(text(&response).contains(part), "{}", text(&response));
    }
}

/// Job `Web` in `default` and job `web-2` in `team`, beside the job of `World::running`.
fn searched() -> World {
    let mut world = World::running();
    world.region.run(&namespace("team", ""));
    let mut big = spec("web-2", 1);
    big.namespace = "team".into();
    big.name = "The WEB".into();
    big.groups[0].name = "front".into();
    big.groups[0].tasks[0].name = "nginx".into();
    big.groups[0].tasks[0].config.insert("command".into(), Config::Text("/usr/sbin/nginx".into()));
    world.region.run(&register(big, None)).reply.unwrap();
    world
}

#[test]
fn fuzzy_search_finds_names_with_their_scope() {
    let world = searched();
    let all = fuzzy(&world, &json!({"Text": "WEB", "Context": "all"}));
    assert_eq!(all["Matches"]["jobs"], json!([{"ID": "web", "Scope": ["default", "web"]}]));
    let name = json!([{"ID": "web.g[0]", "Scope": ["default", alloc_id(1).to_string()]}]);
    assert_eq!(all["Matches"]["allocs"], name);
    assert_eq!(all["Matches"].as_object().unwrap().len(), 19, "every context is there: {all}");
    assert_eq!(all["Matches"]["vars"], json!([]));
    let star = |body: Value| found(&world, "/v1/search/fuzzy?namespace=*", &body)["Matches"].clone();
    let both =
        json!([{"ID": "web", "Scope": ["default", "web"]}, {"ID": "The WEB", "Scope": ["team", "web-2"]}]);
    assert_eq!(star(json!({"Text": "web", "Context": "jobs"})), json!({ "jobs": both }), "earlier first");
    let nginx = star(json!({"Text": "ngin"}));
    assert_eq!(nginx["tasks"], json!([{"ID": "nginx", "Scope": ["team", "web-2", "front"]}]));
    let command = json!([{"ID": "/usr/sbin/nginx", "Scope": ["team", "web-2", "front", "nginx"]}]);
    assert_eq!(nginx["commands"], command);
    assert_eq!(star(json!({"Text": "ron"}))["groups"], json!([{"ID": "front", "Scope": ["team", "web-2"]}]));
    let here = fuzzy(&world, &json!({"Text": "nginx"}));
    assert_eq!(here["Matches"]["tasks"], json!([]), "that is another namespace");
    let node = json!([{"ID": "node-1", "Scope": [node_id(1).to_string()]}]);
    assert_eq!(fuzzy(&world, &json!({"Text": "ODE-", "Context": "nodes"}))["Matches"]["nodes"], node);
    assert_eq!(star(json!({"Text": "ea"}))["namespaces"], json!([{"ID": "team"}]));
    assert_eq!(
        star(json!({"Text": "fau", "Context": "node_pools"}))["node_pools"],
        json!([{"ID": "default", "Scope": ["default"]}])
    );
    let eval = eval_id(1).to_string();
    assert_eq!(star(json!({"Text": eval[..7], "Context": "evals"}))["evals"], json!([{ "ID": eval }]));
}

#[test]
fn fuzzy_search_is_bounded() {
    let mut world = World::new();
    for n in 0..5 {
        world.job(&format!("job-{n}"), n + 1);
    }
    let jobs = |world: &World| {
        let all = fuzzy(world, &json!({"Text": "job", "Context": "jobs"}));
        (all["Matches"]["jobs"].as_array().unwrap().len(), all["Truncations"]["jobs"].clone())
    };
    assert_eq!(jobs(&world), (5, json!(false)));
    world.agent.search.limit_results = 3;
    assert_eq!(jobs(&world), (3, json!(true)));
    world.agent.search.limit_query = 2;
    assert_eq!(jobs(&world), (2, json!(true)), "two were looked at");
    let refused = |world: &World, body: &str| {
        let response = world.respond(Method::Put, "/v1/search/fuzzy", body);
        (response.status, text(&response))
    };
    let short = "fuzzy search query must be at least 2 characters, got 1";
    for body in [r#"{"Text":"j"}"#, "{\"Text\":\"\u{4e2d}\"}"] {
        assert_eq!(refused(&world, body), (500, short.into()), "characters are counted");
    }
    assert_eq!(refused(&world, r#"{"Text":"jo","Context":"cats"}"#).0, 500);
    assert_eq!(refused(&world, r#"{"Text":5}"#).0, 400);
    assert_eq!(refused(&world, "").0, 400);
    world.agent.search.fuzzy_enabled = false;
    assert_eq!(refused(&world, r#"{"Text":"job"}"#), (500, "fuzzy search is not enabled".into()));
}

#[test]
fn prefix_search_covers_every_context() {
    let world = searched();
    let matches = |target: &str, body: Value| found(&world, target, &body)["Matches"].clone();
    assert_eq!(
        matches("/v1/search", json!({"Prefix": "te", "Context": "namespaces"})),
        json!({"namespaces": ["team"]})
    );
    assert_eq!(
        matches("/v1/search", json!({"Prefix": "d", "Context": "node_pools"})),
        json!({"node_pools": ["default"]})
    );
    assert_eq!(matches("/v1/search", json!({"Prefix": "web"}))["jobs"], json!(["web"]));
    assert_eq!(matches("/v1/search?namespace=*", json!({"Prefix": "web"}))["jobs"], json!(["web", "web-2"]));
    let id = alloc_id(1).to_string();
    let by_id = json!({"Prefix": id[..5], "Context": "allocs"});
    assert_eq!(matches("/v1/search?namespace=team", by_id.clone()), json!({"allocs": []}));
    assert_eq!(matches("/v1/search", by_id), json!({ "allocs": [id] }));
}

/// Names that try to be something else: each is a plain text that names nothing.
#[test]
fn hostile_names_are_only_names() {
    let world = World::running();
    for name in [
        "..",
        ".",
        "../web",
        "%2e%2e",
        "%2e%2e%2fweb",
        "a%0ab",
        "%0d%0aX-Nomad-Index:%201",
        "%c3%a4",
        "%20web",
        ".web",
        "web%2f",
        "%2f",
        "web%2fsubmission",
        "%e2%80%ae",
        "*",
    ] {
        for target in
            [format!("/v1/job/{name}"), format!("/v1/namespace/{name}"), format!("/v1/job/{name}/versions")]
        {
            let response = world.get(&target);
            assert!(matches!(response.status, 400 | 404), "{target}: {}", response.status);
        }
        assert_eq!(world.json(&format!("/v1/jobs?namespace=x{name}")), json!([]), "{name}");
        assert_eq!(world.json(&format!("/v1/namespaces?prefix=x{name}")), json!([]), "{name}");
        let log = format!("/v1/client/fs/logs/{}?type=stdout&task={name}", alloc_id(1));
        let refusal = world.ask(Method::Get, &log, "").unwrap_err();
        assert!(refusal.starts_with("400 unknown task name"), "{name}: {refusal}");
    }
    for kind in ["..%2fstdout", "stdout%00", "stdout/../stderr", "STDOUT"] {
        let log = format!("/v1/client/fs/logs/{}?task=t&type={kind}", alloc_id(1));
        assert!(world.ask(Method::Get, &log, "").unwrap_err().starts_with("400 "), "{kind}");
    }
    for target in ["/v1/job/a%00/versions", "/v1/namespace/a%00", "/v1/jobs?namespace=a%00"] {
        assert_eq!(world.get(target).status, 400, "{target}");
    }
    let long = "a".repeat(1 << 20);
    for target in [format!("/v1/namespace/{long}"), format!("/v1/jobs?namespace={long}")] {
        assert_eq!(world.get(&target).status, 400);
    }
}
