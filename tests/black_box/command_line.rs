//! The command line as scripts know it: exit codes, spellings of flags, layouts, and sentences that say what to do.

use crate::node::{Node, path, shell_job, text};
use crate::wait;

const HELLO: &str = "config/examples/hello.nomad.hcl";

/// The lines of a table's row that begins so, by cells.
fn row<'a>(table: &'a str, first: &str) -> Vec<&'a str> {
    let line = table.lines().find(|l| l.split_whitespace().next() == Some(first));
    line.unwrap_or_else(|| panic!("no row {first:?} in:\n{table}"))
        .split("  ")
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .collect()
}

#[test]
fn exit_codes_are_the_known_ones() {
    let node = Node::new();
    for (args, code, sentence) in [
        (&["bogus"][..], 127, "Unknown command"),
        (&["job", "bogus"], 1, "Unknown command"),
        (&["job", "rnu"], 1, "job run"),
        (&["job", "plan"], 255, "takes one argument"),
        (&["job", "plan", HELLO], 255, "No agent answers at"),
        (&["job", "plan", "-bogus", HELLO], 255, "-bogus"),
        (&["server", "join"], 1, "not supported yet: server join"),
        (&["job", "run"], 1, "takes one argument"),
        (&["job", "run", "-bogus", HELLO], 1, "-bogus"),
        (&["job", "run", "/no/such/file"], 1, "Error reading /no/such/file: no such file or directory\n"),
        (&["agent", "-config", "/no/such"], 1, "no such file or directory\n"),
        (&["job", "status"], 1, "No agent answers at"),
        (&["version", "extra"], 1, ""),
    ] {
        node.drover(args).fails(code, sentence);
    }
    for args in [&["-h"][..], &["--help"], &["job", "-h"], &["job", "run", "-h"], &["version"], &["-version"]]
    {
        let said = node.drover(args);
        assert!(said.code == 0 && !said.out.is_empty(), "{args:?}: {said:?}");
    }
    assert!(node.drover(&["version"]).exits(0).starts_with("drover v"));
}

#[test]
fn a_job_is_run_shown_and_stopped() {
    let node = Node::dev();
    assert_eq!(node.drover(&["job", "status"]).exits(0), "No running jobs\n");
    let said = node.drover(&["job", "run", HELLO]);
    let out = said.exits(0);
    for part in [
        "Monitoring evaluation \"",
        "Evaluation triggered by job \"hello\"",
        "created: node \"",
        "Evaluation status changed: \"pending\" -> \"complete\"",
        "finished with status \"complete\"\n",
    ] {
        assert!(out.contains(part), "no {part:?} in:\n{out}");
    }
    let alloc = node.await_alloc("hello", "running");
    let short = &text(&alloc["ID"])[..8];

    let list = node.drover(&["job", "status"]);
    assert!(list.out.starts_with("ID     Type     Priority  Status   Submit Date\n"), "{list:?}");
    assert_eq!(row(&list.out, "hello")[..4], ["hello", "service", "50", "running"]);
    let one = node.drover(&["job", "status", "hel"]);
    let shown = one.exits(0);
    assert!(shown.starts_with("ID            = hello\nName          = hello\nSubmit Date   = 2"), "{shown}");
    assert!(
        shown.contains("\nSummary\nTask Group  Queued  Starting  Running  Failed  Complete  Lost  Unknown\n")
    );
    assert_eq!(row(shown, "hello"), ["hello", "0", "0", "1", "0", "0", "0", "0"]);
    assert_eq!(row(shown, short)[2..6], ["hello", "0", "run", "running"]);
    assert_eq!(node.drover(&["status", "hello"]).exits(0).lines().next(), shown.lines().next());

    let status = node.drover(&["alloc", "status", short]);
    assert!(status.exits(0).contains("\nTask \"hello\" is \"running\"\nTask Resources:\n"), "{status:?}");
    assert!(status.out.contains("Client Status       = running\n"), "{status:?}");
    assert_eq!(
        status.out.lines().next(),
        Some(format!("ID                  = {}", text(&alloc["ID"])).as_str())
    );
    let events: Vec<&str> = status.out.lines().skip_while(|l| !l.starts_with("Time  ")).skip(1).collect();
    let kinds: Vec<&str> = events.iter().filter_map(|l| l.split("  ").nth(1)).map(str::trim).collect();
    assert_eq!(kinds[..3], ["Started", "Task Setup", "Received"], "newest first: {status:?}");

    node.drover(&["job", "stop", "-global", "hello"]).fails(1, "not supported yet: -global");
    assert_eq!(node.get("/v1/job/hello").json()["Status"], "running", "what is refused has changed nothing");
    let stopped = node.drover(&["job", "stop", "hello"]);
    assert!(stopped.exits(0).contains("finished with status \"complete\""), "{stopped:?}");
    node.await_alloc("hello", "complete");
    assert_eq!(row(node.drover(&["job", "status"]).exits(0), "hello")[3], "dead (stopped)");
    node.drover(&["job", "stop", "-purge", "-detach", "hello"]).exits(0);
    wait::until_eq("the job is gone", &"No running jobs\n".to_string(), || {
        node.drover(&["job", "status"]).out
    });
    node.drover(&["job", "status", "hello"]).fails(1, "No job(s) with prefix or ID \"hello\" found");
    node.drover(&["job", "stop", "hello"]).fails(1, "No job(s) with prefix or ID \"hello\" found");
    node.drover(&["alloc", "status", "ffffffff"]).fails(1, "No allocation(s) with prefix or id");
}

#[test]
fn ids_may_be_given_by_any_number_of_digits() {
    let node = Node::dev();
    node.register(&shell_job("long", "exec sleep 1000"));
    node.await_alloc("long", "running");
    let first = |list: &str| {
        let all = node.get(list).json();
        all[0]["ID"].as_str().unwrap_or_else(|| panic!("an id in {list}: {all}")).to_string()
    };
    let (alloc, eval) = (first("/v1/job/long/allocations"), first("/v1/job/long/evaluations"));
    let (deployment, own) = (first("/v1/job/long/deployments"), first("/v1/nodes"));
    for digits in [7, 8, 11, 12, 14, 35] {
        for (command, id) in [
            (&["alloc", "status"][..], &alloc),
            (&["alloc", "logs"], &alloc),
            (&["alloc", "fs"], &alloc),
            (&["alloc", "checks"], &alloc),
            (&["alloc", "why"], &alloc),
            (&["eval", "status"], &eval),
            (&["deployment", "status"], &deployment),
            (&["node", "status"], &own),
            (&["node", "eligibility", "-enable"], &own),
            (&["status"], &alloc),
        ] {
            let shown = node.drover(&[command, &[&id[..digits]]].concat());
            assert!(shown.code == 0, "{command:?} of {digits}: {shown:?}");
        }
    }
    let upper = alloc[..9].to_ascii_uppercase();
    assert!(node.drover(&["alloc", "status", "-verbose", &upper]).exits(0).contains(&alloc));
    node.drover(&["alloc", "status", &alloc[..1]]).fails(1, "at least two characters");
    // three digits, of which the first two are the allocation's: nothing else begins so, and it does not either
    let other = if alloc.as_bytes()[2] == b'0' { '1' } else { '0' };
    node.drover(&["alloc", "status", &format!("{}{other}", &alloc[..2])]).fails(1, "No allocation(s) with");
}

#[test]
fn a_stop_that_cancels_a_deployment_exits_1() {
    let node = Node::dev();
    node.register(&shell_job("long", "exec sleep 1000"));
    node.await_alloc("long", "running");
    let stopped = node.drover(&["job", "stop", "long"]);
    assert!(stopped.code == 1 && stopped.out.contains("Cancelled because job is stopped"), "{stopped:?}");
}

#[test]
fn detached_commands_name_the_evaluation() {
    let node = Node::dev();
    let run = node.drover(&["job", "run", "-detach", HELLO]);
    let id = run.exits(0).lines().find_map(|l| l.strip_prefix("Evaluation ID: ")).expect("an id").to_string();
    assert!(run.out.contains("Job registration successful\nEvaluation ID: "), "{run:?}");
    assert_eq!(node.get(&format!("/v1/evaluation/{id}")).json()["JobID"], "hello");
    let stop = node.drover(&["job", "stop", "-detach", "hello"]);
    assert_eq!(stop.exits(0).trim().len(), 36, "{stop:?}");
}

#[test]
fn flags_are_spelt_as_in_go() {
    let node = Node::new();
    let file = node.write(
        "v.nomad.hcl",
        "variable \"n\" { type = string }\njob \"v\" {\n group \"g\" {\n task \"t\" {\n driver = \"raw_exec\"\n\
         config { command = \"/bin/${var.n}\" }\n}\n}\n}\n",
    );
    let file = path(&file);
    for args in [
        &["job", "run", "-output", "-var", "n=x", file][..],
        &["job", "run", "--output", "--var", "n=x", file],
        &["job", "run", "-output=true", "-var=n=x", file],
        &["run", "--output", "--var=n=x", file],
    ] {
        let said = node.drover(args);
        assert!(said.exits(0).contains("\"/bin/x\""), "{args:?}: {said:?}");
    }
    let said = node.drover_with(&["job", "run", "-output", file], &[("NOMAD_VAR_n", "y")]);
    assert!(said.exits(0).contains("\"/bin/y\""), "{said:?}");
    node.drover(&["job", "run", "-output", file]).fails(1, "\"n\"");
}

#[test]
fn the_agents_address_comes_from_flag_or_environment() {
    let node = Node::dev();
    let address = format!("http://127.0.0.1:{}", node.port);
    let nowhere = "http://127.0.0.1:9";
    let ask = |args: &[&str], env: &[(&str, &str)]| node.drover_with(args, env).code;
    assert_eq!(ask(&["node", "status"], &[("NOMAD_ADDR", &address)]), 0);
    assert_eq!(ask(&["node", "status"], &[("NOMAD_ADDR", nowhere)]), 1);
    assert_eq!(ask(&["node", "status"], &[("NOMAD_ADDR", nowhere), ("DROVER_ADDR", &address)]), 0);
    assert_eq!(ask(&["node", "status", "-address", &address], &[("NOMAD_ADDR", nowhere)]), 0);
    assert_eq!(ask(&["node", "status", &format!("-address={nowhere}")], &[("NOMAD_ADDR", &address)]), 1);
}

#[test]
fn a_node_is_shown() {
    let node = Node::dev();
    let list = node.drover(&["node", "status"]);
    let mut lines = list.exits(0).lines();
    let header: Vec<&str> = lines.next().expect("a header").split_whitespace().collect();
    assert_eq!(header.join(" "), "ID Node Pool DC Name Class Drain Eligibility Status");
    let cells: Vec<&str> = lines.next().expect("a node").split_whitespace().collect();
    assert_eq!(
        (cells[1], cells[2], &cells[4..]),
        ("default", "dc1", &["<none>", "false", "eligible", "ready"][..])
    );
    for args in [&["node", "status", cells[0]][..], &["node", "status", "-self"]] {
        let one = node.drover(args);
        for part in [
            "ID              = ",
            "Driver Status   = raw_exec\n",
            "\nAllocated Resources\nCPU ",
            "\nNode Events\n",
        ] {
            assert!(one.exits(0).contains(part), "no {part:?} in {one:?}");
        }
    }
    let own = node.drover(&["node", "status", "-self"]);
    let id = own.exits(0).lines().next().and_then(|l| l.split_whitespace().last()).unwrap_or_default();
    assert!(id.len() == 36 && id.starts_with(cells[0]), "{own:?}");
    let used = ["Allocation Resource Utilization\nCPU ", "Host Resource Utilization\nCPU "];
    let detailed =
        ["CPU Stats\nCPU    = ", "Memory Stats\nTotal ", "Disk Stats\n", "Allocation Directory Stats\n"];
    let brief = node.drover(&["node", "status", "-short", cells[0]]);
    let plain = node.drover(&["node", "status", cells[0]]);
    let stats = node.drover(&["node", "status", "-stats", "-self"]);
    for part in used {
        assert!(!brief.exits(0).contains(part) && plain.exits(0).contains(part), "{part:?}: {plain:?}");
    }
    for part in used.iter().chain(&detailed) {
        assert!(stats.exits(0).contains(part), "no {part:?} in {stats:?}");
    }
    assert!(detailed.iter().all(|part| !plain.out.contains(part)), "{plain:?}");
    let os = node.drover(&["node", "status", "-os", "-allocs"]);
    let header =
        os.exits(0).lines().next().expect("a header").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(header, "ID Node Pool DC Name Class OS Drain Eligibility Status Running Allocs");
    assert_eq!(node.drover(&["node", "status", "-quiet"]).exits(0), format!("{}\n", cells[0]));
    assert!(node.drover(&["node", "status", "-per-page", "1"]).exits(0).contains(cells[0]));
    for flag in ["-os", "-allocs", "-quiet", "-per-page=1", "-page-token=x"] {
        node.drover(&["node", "status", flag, "-self"]).fails(1, "is for the list of nodes");
    }
    node.drover(&["node", "status", "-stats"]).fails(1, "is for one node");
    let servers = node.drover(&["node", "config", "-servers"]);
    assert!(servers.exits(0).ends_with(":4647\n"), "{servers:?}");
    node.drover(&["node", "config", "-update-servers", "10.0.0.1"])
        .fails(1, "not supported yet: -update-servers");
    node.drover(&["node", "config"]).fails(1, "say what is wanted");
    assert!(node.drover(&["node", "status", "-verbose", cells[0]]).exits(0).contains("kernel.name"));
    let filtered = |filter: &str| node.drover(&["node", "status", "-filter", filter]);
    assert!(filtered("Status == ready and Attributes[\"kernel.name\"] == linux").exits(0).contains(cells[0]));
    assert_eq!(filtered("Status == down").exits(0), "No nodes match the filter\n");
    filtered("Status = down").fails(1, "character 8: expected an operator");
    node.drover(&["node", "status", "-filter", "Status == ready", cells[0]]).fails(1, "leave the node out");
    node.drover(&["node", "status", "ffffffff"]).fails(1, "No node(s) with prefix or id");
}

#[test]
fn a_job_without_room_exits_2_and_says_why() {
    let node = Node::dev();
    let job = |id: &str, extra: &str, memory: &str| {
        node.write(
            &format!("{id}.nomad.hcl"),
            &format!(
                "job \"{id}\" {{\n {extra}\n group \"g\" {{\n task \"t\" {{\n driver = \"raw_exec\"\n\
                 config {{ command = \"/bin/true\" }}\n resources {{ memory = {memory} }}\n}}\n}}\n}}\n"
            ),
        )
    };
    let constraint = "constraint {\n attribute = \"${attr.kernel.name}\"\n value = \"plan9\"\n }";
    for (file, bullets) in [
        (
            job("large", "", "999999999"),
            &["* Resources exhausted on 1 nodes", "* Dimension \"memory\" exhausted on 1 nodes"][..],
        ),
        (
            job("elsewhere", constraint, "10"),
            &["* Constraint \"${attr.kernel.name} = plan9\": 1 nodes excluded by filter"],
        ),
        (job("far", "datacenters = [\"mars\"]", "10"), &["* No nodes were eligible for evaluation"]),
    ] {
        let said = node.drover(&["job", "run", path(&file)]);
        let out = said.exits(2);
        for part in bullets {
            assert!(out.contains(part), "no {part:?} in:\n{out}");
        }
        assert!(out.contains("but failed to place all allocations:"), "{out}");
        assert!(out.contains("Task Group \"g\" (failed to place 1 allocation):"), "{out}");
        assert!(out.contains("waiting for additional capacity to place remainder"), "{out}");
    }
    assert_eq!(row(node.drover(&["job", "status"]).exits(0), "large")[3], "running");
    let shown = node.drover(&["job", "status", "large"]);
    assert!(shown.exits(0).contains("\nPlacement Failure\nTask Group \"g\":\n"), "{shown:?}");
}

#[test]
fn mistakes_in_a_job_file_are_shown_where_they_are() {
    let node = Node::new();
    for (name, text, parts) in [
        (
            "unknown",
            "job \"a\" {\n  gruop \"g\" {\n  }\n}\n",
            &[":2,3-8:", "gruop", "did you mean \"group\"", "^^^^^"][..],
        ),
        ("syntax", "job \"a\" {\n  group \"g\" {\n", &[":2,14-15:", "syntax.nomad.hcl"]),
        ("value", "job \"a\" {\n  priority = \"high\"\n}\n", &[":2,", "priority", "^"]),
        ("variable", "job \"a\" {\n  name = var.nope\n}\n", &[":2,", "nope"]),
        ("twice", "job \"a\" {}\njob \"b\" {}\n", &[":2,", "job"]),
        ("empty", "", &["job"]),
        ("soon", "job \"a\" {\n  group \"g\" {\n    vault {}\n  }\n}\n", &[":3,", "not supported yet"]),
    ] {
        let file = node.write(&format!("{name}.nomad.hcl"), text);
        let said = node.drover(&["job", "run", path(&file)]);
        assert_eq!(said.code, 1, "{name}: {said:?}");
        for part in parts {
            assert!(said.err.contains(part), "{name}: no {part:?} in:\n{}", said.err);
        }
    }
}

#[test]
fn a_job_comes_through_a_pipe_too() {
    let node = Node::dev();
    let file = std::fs::File::open(HELLO).expect("the example");
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_drover"));
    run.args(["job", "run", "-detach", "-address", &format!("http://127.0.0.1:{}", node.port), "-"]);
    let output = run.stdin(file).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    node.await_alloc("hello", "running");
}

#[test]
fn a_check_index_guards_against_others() {
    let node = Node::dev();
    node.drover(&["job", "run", "-check-index", "0", "-detach", HELLO]).exits(0);
    node.drover(&["job", "run", "-check-index", "0", "-detach", HELLO])
        .fails(1, "Enforcing job modify index 0: job already exists");
    let index = node.get("/v1/job/hello").json()["JobModifyIndex"].to_string();
    node.drover(&["job", "run", "-check-index", "999999", "-detach", HELLO])
        .fails(1, "Enforcing job modify index 999999: job exists with conflicting job modify index");
    node.drover(&["job", "run", "-check-index", &index, "-detach", HELLO]).exits(0);
}
