//! Namespaces, what jobs were and what they were made from, and finding things by their names.

use crate::node::{Node, path, shell_job, text};
use crate::{wait, web};
use serde_json::{Value, json};

const HELLO: &str = "config/examples/hello.nomad.hcl";

#[test]
fn a_namespace_lives_from_apply_to_delete() {
    let node = Node::dev();
    assert_eq!(
        node.drover(&["namespace", "list"]).exits(0),
        "Name     Description\ndefault  Default shared namespace\n"
    );
    let applied = node.drover(&["namespace", "apply", "-description", "ours", "team"]);
    assert_eq!(applied.exits(0), "Successfully applied namespace \"team\"!\n");
    let file = node.write(
        "team.hcl",
        "name = \"team\"\ndescription = \"all ours\"\nmeta {\n owner = \"ops\"\n}\n\
         capabilities {\n disabled_task_drivers = [\"docker\"]\n}\n",
    );
    node.drover(&["namespace", "apply", path(&file)]).exits(0);
    let shown = node.drover(&["namespace", "status", "te"]);
    for part in ["Description     = all ours\n", "DisabledDrivers = docker\n", "\nMetadata\nowner = ops\n"] {
        assert!(shown.exits(0).contains(part), "no {part:?} in {shown:?}");
    }
    // a name changes the description alone
    node.drover(&["namespace", "apply", "-description", "theirs", "team"]).exits(0);
    let inspected = node.drover(&["namespace", "inspect", "team"]);
    let inspected: Value = serde_json::from_str(inspected.exits(0)).expect("JSON");
    assert_eq!((&inspected["Description"], &inspected["Meta"]), (&json!("theirs"), &json!({"owner": "ops"})));

    node.drover(&["job", "run", "-namespace", "team", "-detach", HELLO]).exits(0);
    let listed = node.drover(&["job", "status", "-namespace", "*"]);
    assert!(listed.exits(0).contains("hello  team"), "{listed:?}");
    assert_eq!(node.drover(&["job", "status"]).exits(0), "No running jobs\n");
    node.drover(&["namespace", "delete", "team"])
        .fails(1, "namespace \"team\" has non-terminal jobs in regions: [global]");
    node.drover(&["job", "stop", "-namespace", "team", "-purge", "-detach", "hello"]).exits(0);
    assert_eq!(
        node.drover(&["namespace", "delete", "team"]).exits(0),
        "Successfully deleted namespace \"team\"!\n"
    );
    node.drover(&["job", "run", "-namespace", "team", HELLO])
        .fails(1, "job \"hello\" is in nonexistent namespace \"team\"");
    node.drover(&["namespace", "delete", "team"]).fails(1, "Namespace not found");
    node.drover(&["namespace", "delete", "default"]).fails(1, "can not delete default namespace");
}

#[test]
fn a_namespace_refuses_what_it_does_not_allow() {
    let node = Node::dev();
    let strict = json!({"Name": "strict", "Capabilities": {"EnabledTaskDrivers": ["exec"]}});
    assert_eq!(node.put("/v1/namespace", &strict).status, 200);
    node.drover(&["job", "run", "-namespace", "strict", HELLO])
        .fails(1, "used task driver \"raw_exec\" is not allowed in namespace \"strict\"");
    for args in [&["-quota", "q", "a"][..], &["../a"], &["a b"], &["-description", "x", "a/b"]] {
        let said = node.drover(&[&["namespace", "apply"][..], args].concat());
        assert_eq!(said.code, 1, "{args:?}: {said:?}");
    }
    let json = node.drover(&["namespace", "list", "-json"]);
    let json: Value = serde_json::from_str(json.exits(0)).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(2), "{json}");
    node.put("/v1/namespace", &json!({"Name": "stricter"}));
    node.drover(&["namespace", "status", "stric"]).fails(
        1,
        "Prefix \"stric\" matched multiple namespaces\n\nName      Description\nstrict    <none>\n",
    );
    node.drover(&["namespace", "status", "strict"]).exits(0);
    node.drover(&["namespace", "status", "nope"]).fails(1, "matched no namespaces");
}

#[test]
fn a_stopped_job_starts_with_its_source_and_variables() {
    let node = Node::dev();
    let source = "variable \"n\" {\n type = number\n}\njob \"v\" {\n type = \"batch\"\n group \"g\" {\n count = var.n\n \
                  task \"t\" {\n driver = \"raw_exec\"\n config {\n command = \"/bin/sleep\"\n args = [\"1000\"]\n}\n}\n}\n}\n";
    let file = node.write("v.nomad.hcl", source);
    node.drover(&["job", "run", "-detach", "-var", "n=2", path(&file)]).exits(0);
    node.drover(&["job", "start", "v"]).fails(1, "Job \"v\" has not been stopped");
    node.drover(&["job", "stop", "v"]).exits(0);
    let started = node.drover(&["job", "start", "v"]);
    assert!(started.exits(0).contains("finished with status \"complete\""), "{started:?}");
    let job = node.get("/v1/job/v").json();
    let got = (&job["Version"], &job["Stop"], &job["TaskGroups"][0]["Count"]);
    assert_eq!(got, (&json!(2), &json!(false), &json!(2)));
    node.await_alloc("v", "running");
    let shown = node.drover(&["job", "inspect", "-hcl", "-with-vars", "v"]);
    assert_eq!(shown.exits(0), source);
    let again = "drover job inspect -namespace default -hcl -version 2 v | drover job run -namespace default -var=n=2 -";
    assert!(shown.err.contains(again), "{shown:?}");
    node.drover(&["job", "inspect", "-with-vars", "v"]).fails(1, "-with-vars needs -hcl");

    let mut form = shell_job("form", "true");
    form["Type"] = json!("batch");
    form["ParameterizedJob"] = json!({});
    node.register(&form);
    node.drover(&["job", "stop", "form"]).exits(0);
    let both = node.drover(&["job", "start", "v", "form"]);
    both.fails(1, "Job \"v\" has not been stopped");
    assert_eq!(both.out, "Job start successful\n", "the other one did");
}

#[test]
fn namespaces_and_texts_outlive_a_restart() {
    let mut node = Node::durable();
    node.drover(&["namespace", "apply", "team"]).exits(0);
    node.drover(&["job", "run", "-namespace", "team", "-detach", HELLO]).exits(0);
    node.restart();
    let kept = node.drover(&["job", "inspect", "-namespace", "team", "-hcl", "hello"]);
    let file = std::fs::read_to_string(HELLO).expect("the example");
    assert_eq!(kept.exits(0).trim_end(), file.trim_end());
}

#[test]
fn a_submission_is_kept_as_long_as_its_version() {
    let mut node = Node::new();
    node.configure("server {\n job_tracked_versions = 2\n job_max_source_size = \"300B\"\n}\n");
    node.start();
    let file = |count: u32, remark: &str| {
        let body = "task \"t\" {\n driver = \"raw_exec\"\n config { command = \"/bin/true\" }\n }";
        let text = format!(
            "# {remark}\njob \"v\" {{\n type = \"batch\"\n group \"g\" {{\n count = {count}\n {body}\n }}\n}}\n"
        );
        node.write(&format!("v{count}.nomad.hcl"), &text)
    };
    let run = |count, remark: &str| node.drover(&["job", "run", "-detach", path(&file(count, remark))]);
    for count in 0..3 {
        run(count, "short").exits(0);
    }
    let history = node.drover(&["job", "history", "v"]);
    let versions: Vec<&str> = history.exits(0).lines().filter(|l| l.starts_with("Version ")).collect();
    assert_eq!(versions, ["Version     = 2", "Version     = 1"]);
    assert_eq!(history.out.split("\n\n").count(), 2, "a blank line between: {history:?}");
    let source = node.drover(&["job", "inspect", "-hcl", "-version", "1", "v"]);
    assert!(source.exits(0).starts_with("# short\njob \"v\""), "{source:?}");
    assert_eq!(node.get("/v1/job/v/submission?version=0").status, 404, "no longer tracked");
    node.drover(&["job", "inspect", "-version", "0", "v"])
        .fails(1, "Job \"v\" has no version 0; it has 2, 1");

    let warned = run(3, &"long ".repeat(100));
    assert!(warned.exits(0).contains("that job_max_source_size allows: it is not kept"), "{warned:?}");
    let written = node.drover(&["job", "inspect", "-hcl", "v"]);
    let same = node.write("written.nomad.hcl", written.exits(0));
    let planned = node.drover(&["job", "plan", path(&same)]);
    assert!(planned.exits(0).contains("Job: \"v\""), "a file that says the same: {written:?} {planned:?}");
    let inspected = node.drover(&["job", "inspect", "v"]);
    let inspected: Value = serde_json::from_str(inspected.exits(0)).expect("JSON");
    assert_eq!((&inspected["Job"]["ID"], &inspected["Job"]["Version"]), (&json!("v"), &json!(3)));
    let bare: Value =
        serde_json::from_str(node.drover(&["job", "inspect", "-json", "v"]).exits(0)).expect("JSON");
    assert_eq!(bare["Version"], 3);
    let one = node.drover(&["job", "history", "-version", "2", "-full", "v"]);
    assert!(one.exits(0).contains("\"Version\": 2"), "{one:?}");
    let all: Value =
        serde_json::from_str(node.drover(&["job", "history", "-json", "v"]).exits(0)).expect("JSON");
    assert_eq!(all.as_array().map(Vec::len), Some(2));
    let differences = node.drover(&["job", "history", "-p", "v"]);
    assert!(differences.exits(0).contains("+/- Count: \"2\" => \"3\""), "{differences:?}");
    node.drover(&["job", "history", "nope"]).fails(1, "No job(s) with prefix or ID \"nope\" found");
}

#[test]
fn a_job_file_is_begun_checked_and_run() {
    let node = Node::dev();
    let nobody = "-address=http://127.0.0.1:9";
    for (name, flags) in [("full", &[][..]), ("short", &["-short"])] {
        let file = node.write("removed", "").with_file_name(format!("{name}.nomad.hcl"));
        let init = [&["job", "init"][..], flags, &[path(&file)]].concat();
        let said = node.drover(&init);
        assert_eq!(said.exits(0), format!("Example job file written to {}\n", path(&file)));
        node.drover(&init).fails(1, "already exists");
        let said = node.drover(&["job", "validate", path(&file)]);
        assert!(said.exits(0).ends_with("Job validation successful\n"), "{said:?}");
        let alone = node.drover(&["job", "validate", nobody, path(&file)]);
        assert!(alone.exits(0).ends_with("Job validation successful\n"), "{alone:?}");
        assert!(alone.err.contains("Only the file is checked"), "{alone:?}");
    }
    assert_eq!(node.get("/v1/jobs").json(), json!([]), "nothing was registered");
    let bad = node.write(
        "bad.nomad.hcl",
        "job \"b\" {\n priority = 700\n group \"g\" {\n task \"..\" {\n driver = \"raw_exec\"\n}\n}\n}\n",
    );
    for address in [format!("-address=http://127.0.0.1:{}", node.port), nobody.to_string()] {
        let said = node.drover(&["job", "validate", &address, path(&bad)]);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        for part in ["Job validation errors:\n2 errors occurred:", "between [1, 100]", "Task name cannot be"]
        {
            assert!(said.err.contains(part), "no {part:?} in {said:?}");
        }
    }
    for flag in ["-connect", "-list-templates", "-template=x"] {
        node.drover(&["job", "init", flag, "x"]).fails(1, "not supported yet: -");
    }
}

#[test]
fn allocations_and_evaluations_are_shown() {
    let node = Node::dev();
    node.run("shown", "sleep 1000");
    let alloc = node.await_alloc("shown", "running");
    let allocs = node.drover(&["job", "allocs", "sho"]);
    assert!(allocs.exits(0).starts_with("ID        Node ID "), "{allocs:?}");
    assert!(allocs.out.contains(&text(&alloc["ID"])[..8]), "{allocs:?}");
    let full = node.drover(&["job", "allocs", "-json", "-all", "shown"]);
    let full: Value = serde_json::from_str(full.exits(0)).expect("JSON");
    assert_eq!(full[0]["ID"], alloc["ID"]);

    let eval = text(&alloc["EvalID"]);
    let list = node.drover(&["eval", "list", "-job", "shown", "-status", "complete"]);
    let header =
        "ID        Priority  Triggered By  Job ID  Namespace  Node ID  Status    Placement Failures\n";
    assert!(list.exits(0).starts_with(header), "{list:?}");
    assert!(list.out.contains(&eval[..8]), "{list:?}");
    assert_eq!(node.drover(&["eval", "list", "-job", "nope"]).exits(0), "No evals found\n");
    let one = node.drover(&["eval", "status", &eval[..7]]);
    for part in
        ["Job ID             = shown\n", "Status             = complete\n", "\nPlaced Allocations\nID "]
    {
        assert!(one.exits(0).contains(part), "no {part:?} in {one:?}");
    }
    assert_eq!(node.drover(&["status", eval]).exits(0).lines().nth(3), one.out.lines().nth(3));
    let watched = node.drover(&["eval", "status", "-monitor", eval]);
    assert!(watched.exits(0).contains("finished with status \"complete\""), "{watched:?}");
    let json = node.drover(&["eval", "status", "-json", eval]);
    let json: Value = serde_json::from_str(json.exits(0)).expect("JSON");
    assert_eq!(json["ID"].as_str(), Some(eval));
    node.drover(&["eval", "status", "ffffffff"])
        .fails(1, "No evaluation(s) with prefix or id \"ffffffff\" found");
    node.drover(&["eval", "status"]).fails(1, "takes one argument");

    node.run("more", "sleep 1000");
    node.await_alloc("more", "running");
    let page = node.drover(&["eval", "list", "-per-page", "1"]);
    let token = page.exits(0).trim_end().rsplit(' ').next().expect("a token").to_string();
    assert!(page.out.contains("There are more: add -page-token "), "{page:?}");
    let next = node.drover(&["eval", "list", "-per-page", "1", "-page-token", &token]);
    assert_ne!(next.exits(0).lines().nth(1), page.out.lines().nth(1));
}

#[test]
fn names_are_found_by_beginning_and_by_part() {
    let node = Node::dev();
    node.run("searched", "sleep 1000");
    node.await_alloc("searched", "running");
    let ask = |target: &str, body: Value| node.put(target, &body).json()["Matches"].clone();
    assert_eq!(ask("/v1/search", json!({"Prefix": "sea", "Context": "jobs"})), json!({"jobs": ["searched"]}));
    assert_eq!(ask("/v1/search", json!({"Prefix": "def"}))["namespaces"], json!(["default"]));
    let found = ask("/v1/search/fuzzy", json!({"Text": "ARCH"}));
    assert_eq!(found["jobs"], json!([{"ID": "searched", "Scope": ["default", "searched"]}]));
    assert_eq!(found["allocs"][0]["ID"], "searched.g[0]");
    let found = ask("/v1/search/fuzzy", json!({"Text": "bin/s", "Context": "commands"}));
    assert_eq!(found["commands"][0]["Scope"], json!(["default", "searched", "g", "t"]));
    let short = node.put("/v1/search/fuzzy", &json!({"Text": "a"}));
    let sentence = "fuzzy search query must be at least 2 characters, got 1".to_string();
    assert_eq!((short.status, short.text()), (500, sentence));
}

#[test]
fn a_job_id_may_hold_what_terminals_and_paths_stumble_over() {
    let node = Node::dev();
    let id = "job-id/with\\troublesome:characters\n?&\u{5b57}";
    let in_path = "job-id%2Fwith%5Ctroublesome:characters%0A%3F%26%E5%AD%97";
    let mut job = shell_job(id, "sleep 1000");
    (job["Name"], job["TaskGroups"][0]["Name"]) = (json!("a\u{1b}[2Jb"), json!("g\nh"));
    node.register(&job);
    assert_eq!(node.get(&format!("/v1/job/{in_path}")).json()["ID"], id);
    wait::until("it runs", || {
        let allocs = node.get(&format!("/v1/job/{in_path}/allocations")).json();
        (allocs[0]["ClientStatus"] == "running").then_some(())
    });
    for args in [&["job", "status"][..], &["job", "status", id]] {
        let said = node.drover(args);
        assert!(said.exits(0).contains("troublesome:characters\\n?&\u{5b57}"), "{said:?}");
        assert!(!said.out.contains('\u{1b}'), "{said:?}");
    }
    node.drover(&["job", "stop", "-purge", "-detach", id]).exits(0);
    assert_eq!(node.get("/v1/jobs").json(), json!([]));
}

#[test]
fn hostile_names_of_jobs_end_in_a_sentence() {
    let node = Node::dev();
    let huge = "a".repeat(1 << 20);
    for (place, names) in [
        ("/ID", &["a\0b", "", "a b", &huge][..]),
        ("/Name", &["a\0", &huge]),
        ("/TaskGroups/0/Name", &["a\0", "", &huge]),
        ("/TaskGroups/0/Tasks/0/Name", &["..", ".", "../../x", "a/b", "alloc", "a\0", "", &huge]),
        ("/Namespace", &["..", "../default", "a\0", "a\nb", "nope", &huge]),
    ] {
        for name in names {
            let mut job = shell_job("hostile", "true");
            job["Namespace"] = json!("default");
            *job.pointer_mut(place).expect("a member") = json!(name);
            let answer = node.put("/v1/jobs", &json!({ "Job": job }));
            assert!(matches!(answer.status, 400 | 500), "{place} {name:.50}: {}", answer.status);
            assert!(
                !answer.body.is_empty() && answer.body.len() < 2000,
                "{place} {name:.50}: {:.300}",
                answer.text()
            );
        }
    }
    for name in ["..", "%2e%2e%2f", "a%00", "a%0a", ".a", "%c3%a4", "a%2fb"] {
        let target = format!("/v1/namespace/{name}");
        let body = json!({"Name": name}).to_string();
        for method in ["GET", "DELETE", "PUT"] {
            let answer = web::send(node.port, method, &target, if method == "PUT" { &body } else { "" });
            assert!((400..=500).contains(&answer.status), "{method} {target}: {}", answer.status);
        }
    }
    assert_eq!(node.get("/v1/jobs?namespace=*").json(), json!([]), "none was taken");
    let odd = [".hidden", "\u{e4}\u{4e2d}", "...", "a..b"];
    for name in odd {
        let mut job = shell_job(name, "echo here; sleep 1000");
        job["TaskGroups"][0]["Tasks"][0]["Name"] = json!(name);
        node.register(&job);
        let jobs = node.get("/v1/jobs").json();
        assert!(jobs.as_array().expect("a list").iter().any(|j| j["ID"] == name), "{jobs}");
        node.drover(&["job", "inspect", name]).exits(0);
        node.drover(&["job", "stop", "-purge", "-detach", name]).exits(0);
    }
}

/// Each command that prints JSON, through a template, with the names of the Go client's fields.
#[test]
fn templates_in_gos_syntax_choose_what_is_printed() {
    let node = Node::dev();
    node.run("web", "sleep 1000");
    let alloc = node.await_alloc("web", "running");
    let (id, eval, on) = (text(&alloc["ID"]), text(&alloc["EvalID"]), text(&alloc["NodeID"]));
    let said = |words: &str, template: &str| {
        let words: Vec<&str> = words.split(' ').chain(["-t", template]).collect();
        let said = node.drover(&words);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{words:?}: {said:?}");
        said.out.trim_end().to_string()
    };
    let each = "{{ range . }}{{ .ID }} {{ end }}";
    for (words, template, expected) in [
        ("job status", "{{ range . }}{{ .Summary.JobID }}{{ end }}", "web"),
        ("job status web", "{{ range (index . 0).Allocations }}{{ .ID }}{{ end }}", id),
        ("job inspect", each, "web"),
        ("job inspect web", "{{ .ID }}/{{ (index .TaskGroups 0).Name }}", "web/g"),
        ("job history web", "{{ len . }} {{ (index . 0).Version }}", "1 0"),
        ("job history -version 0 web", "{{ .Version }}", "0"),
        ("job allocs web", each, id),
        ("alloc status", each, id),
        (format!("alloc status {id}").as_str(), "{{ .ClientStatus }}{{ .FollowupEvalID }}", "running"),
        ("eval list", each, eval),
        ("eval status", each, eval),
        (&format!("eval status {eval}"), r#"{{ if eq .Status "complete" }}{{ .JobID }}{{ end }}"#, "web"),
        ("node status", each, on),
        ("node status -self", "{{ .ID }}", on),
        (&format!("alloc checks {id}"), "{{ if not . }}none{{ end }}", "none"),
        ("node meta read", "{{ len .Dynamic }}", "0"),
        ("namespace list", "{{ range . }}{{ .Name }}{{ end }}", "default"),
        ("namespace status default", "{{ .Name | sprig_upper }}", "DEFAULT"),
        ("namespace inspect default", "{{ .Name }}", "default"),
        ("server members", "{{ range . }}{{ .Status }}{{ end }}", "alive"),
        ("agent-info", "{{ .Stats.client.node_id }} {{ .Config.Region }}", &format!("{on} global")),
        ("operator metrics", "{{ with .Gauges }}some{{ end }}", "some"),
    ] {
        assert_eq!(said(words, template), expected, "{words} {template}");
    }
    assert_eq!(node.drover(&["alloc", "checks", id]).exits(0), "The allocation has no service checks\n");
    for (args, sentence) in [
        (&["job", "status", "-t", "{{ range . }}"][..], "unexpected EOF"),
        (&["node", "status", "-t", "{{ range . }}{{ .Nmae }}{{ end }}"], "Nmae"),
        (&["eval", "list", "-json", "-t", "x"], "-json and -t exclude each other"),
        (&["job", "run", "-t", "x", "y"], "unknown flag -t"),
        (&["job", "run", "-hcl1", "y"], "not supported yet: -hcl1"),
        (&["node", "status", "-ui"], "not supported yet: -ui"),
    ] {
        node.drover(args).fails(1, sentence);
    }
}
