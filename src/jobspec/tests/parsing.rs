//! What job files mean.

use super::*;
use crate::Diagnostic;
use crate::render;
use serde_json::json;

const EXAMPLE: &str = r#"variable "img" { default = "redis:7" }

job "cache" {
  group "g" {
    count = 2
    network {
      port "db" { to = 6379 }
    }
    service {
      name     = "cache"
      provider = "nomad"
      port     = "db"
    }
    task "r" {
      driver = "docker"
      config {
        image = var.img
        ports = ["db"]
        labels { team = "edge" }
      }
      env { NODE = "${node.unique.name}" }
    }
  }
}
"#;

#[test]
fn the_worked_example() {
    let parsed = read(EXAMPLE);
    let names: Vec<&str> = parsed.not_supported.iter().map(|d| d.summary.as_str()).collect();
    assert_eq!(names, ["not supported yet: service"]);
    let job = parsed.job.unwrap();
    assert_eq!((&job["ID"], &job["Name"], &job["Region"]), (&json!("cache"), &json!("cache"), &json!(null)));
    assert_eq!(job["Dispatched"], json!(false));
    let group = &job["TaskGroups"][0];
    assert_eq!(group["Count"], json!(2));
    assert_eq!(
        group["Networks"][0]["DynamicPorts"],
        json!([{"Label": "db", "Value": 0, "To": 6379, "HostNetwork": ""}])
    );
    assert_eq!(group["Networks"][0]["ReservedPorts"], json!(null));
    assert_eq!(group["Services"][0]["PortLabel"], json!("db"));
    let task = &group["Tasks"][0];
    let config = json!({"image": "redis:7", "ports": ["db"], "labels": [{"team": "edge"}]});
    assert_eq!(task["Config"], config);
    assert_eq!(task["Env"], json!({"NODE": "${node.unique.name}"}));
    assert_eq!(
        (&task["User"], &task["Resources"], &task["Leader"]),
        (&json!(""), &json!(null), &json!(false))
    );
    assert!(task.get("CSIPluginConfig").is_none());
}

/// The members that jobspec.md 10 lists.
#[test]
fn every_member_is_present() {
    let job = with("group \"g\" {\n task \"t\" {}\n}");
    let has = |v: &Value, names: &str| {
        for name in names.split(' ') {
            assert!(v.get(name).is_some(), "{name}");
        }
    };
    has(
        &job,
        "Affinities AllAtOnce Constraints ConsulNamespace ConsulToken CreateIndex Datacenters DispatchIdempotencyToken \
         Dispatched ID JobModifyIndex Meta ModifyIndex Multiregion Name Namespace NodePool NomadTokenID \
         ParameterizedJob ParentID Payload Periodic Priority Region Spreads Stable Status StatusDescription Stop \
         SubmitTime TaskGroups Type Update VaultNamespace VaultToken Version UI VersionTag",
    );
    has(
        &job["TaskGroups"][0],
        "Affinities Constraints Consul Count EphemeralDisk MaxClientDisconnect Meta Migrate Name Networks \
         ReschedulePolicy RestartPolicy Scaling Services ShutdownDelay Spreads StopAfterClientDisconnect Tasks Update \
         Volumes Disconnect MaxRunDuration PreventRescheduleOnLost",
    );
    has(
        &job["TaskGroups"][0]["Tasks"][0],
        "Affinities Artifacts Config Constraints DispatchPayload Driver Env Identity KillSignal KillTimeout Kind Leader \
         Lifecycle LogConfig Meta Name Resources RestartPolicy ScalingPolicies Services ShutdownDelay Templates User \
         Vault VolumeMounts Actions Consul Identities Schedule Secrets",
    );
}

#[test]
fn interpolation_of_run_time_values_stays_text() {
    for (text, expected) in [
        (r#""${attr.kernel.name}""#, "${attr.kernel.name}"),
        (r#""${ attr.kernel.name }""#, "${ attr.kernel.name }"),
        (r#"attr.kernel.name"#, "${attr.kernel.name}"),
        (r#""a-${NOMAD_ALLOC_INDEX}-${var.p}""#, "a-${NOMAD_ALLOC_INDEX}-v"),
        (r#""${env["HOME"]}""#, "${env[\"HOME\"]}"),
        (r#""${meta["x.y"]}/${node.unique.id}""#, "${meta[\"x.y\"]}/${node.unique.id}"),
        (r#""$${foo} %%{bar}""#, "${foo} %{bar}"),
        (r#"upper(attr.x)"#, "${ATTR.X}"),
        (r#""${upper(attr.x)}!""#, "${ATTR.X}!"),
        (r#""{{ env \"x\" }} {{key}}}""#, "{{ env \"x\" }} {{key}}}"),
        (r#""${NOMAD_PORT_http}}""#, "${NOMAD_PORT_http}}"),
        ("<<EOF\nx ${meta.a} y\nEOF", "x ${meta.a} y\n"),
        ("<<-EOF\n    a\n      ${var.p}\n    EOF", "a\n  v\n"),
        (r#""%{ if var.p == "v" }yes%{ else }no%{ endif }""#, "yes"),
        (r#""%{ for x in ["a", "b"] }${x},%{ endfor }""#, "a,b,"),
        (r#""a  ${~ var.p ~}  b""#, "avb"),
        (r#"join(",", [for k, v in { a = 1, b = 2 }: "${k}${v}" if v > 1])"#, "b2"),
        (r#"join(",", [{ n = "x" }, { n = "y" }][*].n)"#, "x,y"),
        (r#"join(",", local.list.*.n)"#, "1,2"),
        (r#"true ? 1 : "a""#, "1"),
        (r#"jsonencode({ for x in ["a", "b", "a"]: x => 1... })"#, r#"{"a":[1,1],"b":[1]}"#),
    ] {
        let file = format!(
            "variables {{\n p = \"v\"\n}}\nlocals {{\n list = [{{ n = 1 }}, {{ n = 2 }}]\n}}\n\
             job \"x\" {{\n group \"g\" {{\n task \"t\" {{\n user = {text}\n}}\n}}\n}}\n"
        );
        assert_eq!(job(&file)["TaskGroups"][0]["Tasks"][0]["User"], json!(expected), "{text}");
    }
}

#[test]
fn free_form_configuration() {
    let config = task(
        r#"config {
             n = 3
             f = 1.5
             b = true
             list = [1, "a", { k = "v" }]
             obj = { a = { b = 1 } }
             mount { type = "bind" }
             mount {
               type = "tmpfs"
               options { size = 1 }
             }
             auth "x" { user = "u" }
             auth "y" { user = "w" }
             cmd = "${NOMAD_TASK_DIR}/run"
           }"#,
    )["Config"]
        .clone();
    assert_eq!(
        config,
        json!({
            "n": 3, "f": 1.5, "b": true, "list": [1, "a", {"k": "v"}], "obj": [{"a": {"b": 1}}],
            "mount": [{"type": "bind"}, {"type": "tmpfs", "options": [{"size": 1}]}],
            "auth": [{"x": [{"user": "u"}]}, {"y": [{"user": "w"}]}],
            "cmd": "${NOMAD_TASK_DIR}/run"
        })
    );
    assert_eq!(task("config = { a = 1 }")["Config"], json!({"a": 1}));
}

#[test]
fn keys_have_their_types() {
    let t = task(
        "kill_timeout = \"1m30s\"\n leader = \"true\"\n shutdown_delay = 5\n env {\n A = 1\n B = true\n}\n \
         meta = { \"a.b\" = 2 }\n resources {\n cpu = \"500\"\n memory = 64\n}\n logs {\n max_files = 3\n}\n \
         lifecycle {\n hook = \"prestart\"\n sidecar = true\n}",
    );
    assert_eq!(t["KillTimeout"], json!(90_000_000_000_i64));
    assert_eq!((&t["Leader"], &t["ShutdownDelay"]), (&json!(true), &json!(5)));
    assert_eq!(t["Env"], json!({"A": "1", "B": "true"}));
    assert_eq!(t["Meta"], json!({"a.b": "2"}));
    assert_eq!((&t["Resources"]["CPU"], &t["Resources"]["MemoryMB"]), (&json!(500), &json!(64)));
    assert_eq!((&t["LogConfig"]["MaxFiles"], &t["LogConfig"]["MaxFileSizeMB"]), (&json!(3), &json!(null)));
    assert_eq!(t["Lifecycle"], json!({"Hook": "prestart", "Sidecar": true}));
    assert_eq!(
        with("update {\n healthy_deadline = \"1hr\"\n}")["Update"]["HealthyDeadline"],
        json!(3_600_000_000_000_i64)
    );
}

#[test]
fn conditions_have_short_forms() {
    let constraint = |body: &str| {
        let c = with(&format!("constraint {{\n{body}\n}}"))["Constraints"][0].clone();
        [&c["LTarget"], &c["Operand"], &c["RTarget"]].map(|v| v.as_str().unwrap_or_default().to_string())
    };
    for (body, expected) in [
        ("attribute = \"${attr.kernel.name}\"\n value = \"linux\"", ["${attr.kernel.name}", "=", "linux"]),
        ("attribute = attr.a\n operator = \"!=\"\n value = 3", ["${attr.a}", "!=", "3"]),
        ("attribute = \"${attr.a}\"\n version = \">= 1\"", ["${attr.a}", "version", ">= 1"]),
        ("attribute = \"${attr.a}\"\n regexp = \"^x\"", ["${attr.a}", "regexp", "^x"]),
        ("attribute = \"${attr.a}\"\n set_contains_any = \"a,b\"", ["${attr.a}", "set_contains_any", "a,b"]),
        ("attribute = \"${attr.a}\"\n is_set = true", ["${attr.a}", "is_set", ""]),
        ("distinct_hosts = true", ["", "distinct_hosts", "true"]),
        ("distinct_property = \"${meta.rack}\"\n value = 2", ["${meta.rack}", "distinct_property", "2"]),
    ] {
        assert_eq!(constraint(body), expected);
    }
}

#[test]
fn blocks_that_need_more_than_the_table() {
    let network = with("group \"g\" {\n network {\n port \"a\" {}\n port \"b\" { static = 80 }\n}\n}");
    let network = &network["TaskGroups"][0]["Networks"][0];
    assert_eq!(network["DynamicPorts"][0]["Label"], json!("a"));
    assert_eq!(network["ReservedPorts"][0]["Value"], json!(80));
    let periodic = with("periodic { cron = \"* * * * *\" }")["Periodic"].clone();
    assert_eq!((&periodic["SpecType"], &periodic["Spec"]), (&json!("cron"), &json!("* * * * *")));
    let template =
        task("template {\n data = \"x\"\n change_script {\n command = \"c\"\n}\n}")["Templates"][0].clone();
    assert_eq!((&template["ChangeMode"], &template["Perms"]), (&json!("restart"), &json!("0644")));
    assert_eq!(template["ChangeScript"]["Timeout"], json!(5_000_000_000_i64));
    let volumes =
        with("group \"g\" {\n volume \"v\" {\n type = \"host\"\n}\n}")["TaskGroups"][0]["Volumes"].clone();
    assert_eq!((&volumes["v"]["Name"], &volumes["v"]["Type"]), (&json!("v"), &json!("host")));
    let sugar = with("task \"t\" {\n driver = \"d\"\n}")["TaskGroups"].clone();
    assert_eq!((&sugar[0]["Name"], &sugar[0]["Tasks"][0]["Driver"]), (&json!("t"), &json!("d")));
    let vault = with("vault {\n role = \"r\"\n}\n group \"g\" {\n task \"t\" {}\n}");
    assert_eq!(vault["TaskGroups"][0]["Tasks"][0]["Vault"]["Role"], json!("r"));
    let scaling = task("scaling \"cpu\" {\n max = 3\n}")["ScalingPolicies"][0].clone();
    assert_eq!((&scaling["Type"], scaling.get("Name")), (&json!("vertical_cpu"), None));
    let headers = task("service {\n check {\n header { X = [\"a\"] }\n}\n}");
    assert_eq!(headers["Services"][0]["Checks"][0]["Header"], json!({"X": ["a"]}));
    assert_eq!(with("id = \"other\"")["ID"], json!("other"));
}

#[test]
fn line_endings_and_plain_labels_make_no_difference() {
    assert_eq!(job(&EXAMPLE.replace('\n', "\r\n")), job(EXAMPLE));
    assert_eq!(job(&EXAMPLE.replace("\"cache\" {", "cache {")), job(EXAMPLE));
    assert_eq!(job(EXAMPLE.trim_end()), job(EXAMPLE));
}

#[test]
fn dynamic_blocks() {
    let file = r#"
locals { sizes = { small = 1, big = 2 } }
job "x" {
  dynamic "group" {
    for_each = local.sizes
    iterator = size
    labels   = ["g-${size.key}"]
    content {
      count = size.value
      dynamic "task" {
        for_each = ["a", "b"]
        labels   = [task.value]
        content {
          driver = "d"
          env { AT = "${size.key}-${task.key}-${NOMAD_X}" }
          config {
            dynamic "mount" {
              for_each = range(2)
              content { source = "m${mount.value}" }
            }
          }
        }
      }
    }
  }
}"#;
    let groups = job(file)["TaskGroups"].clone();
    assert_eq!((&groups[0]["Name"], &groups[0]["Count"]), (&json!("g-big"), &json!(2)));
    assert_eq!(groups[1]["Tasks"][1]["Env"]["AT"], json!("small-1-${NOMAD_X}"));
    assert_eq!(groups[0]["Tasks"][0]["Config"]["mount"], json!([{"source": "m0"}, {"source": "m1"}]));
}

#[test]
fn the_json_syntax_means_the_same() {
    let file = r#"{
      "//": "a comment",
      "variable": {"n": {"type": "number", "default": 2}},
      "job": {"x": {
        "datacenters": ["dc1"],
        "group": {"g": {"count": "${var.n}", "task": [{"t": {
          "driver": "exec", "config": {"command": "/bin/sleep", "args": ["${NOMAD_META_t}"]},
          "env": {"A": "${var.n}-x"}, "constraint": [{"attribute": "${attr.a}", "value": "1"}]
        }}]}}
      }}
    }"#;
    let job = job(file);
    let group = &job["TaskGroups"][0];
    assert_eq!((&group["Count"], &group["Tasks"][0]["Env"]["A"]), (&json!(2), &json!("2-x")));
    assert_eq!(group["Tasks"][0]["Config"]["args"], json!(["${NOMAD_META_t}"]));
    assert_eq!(group["Tasks"][0]["Constraints"][0]["LTarget"], json!("${attr.a}"));
}

#[test]
fn job_file_errors_are_told_with_their_place() {
    for (text, expected) in [
        ("", "Missing job block"),
        ("job \"a\" {}\njob \"b\" {}\n", "t.nomad.hcl:2,1-4: Duplicate job block"),
        ("jobb \"a\" {}\n", "t.nomad.hcl:1,1-5: Unsupported block type; \"jobb\" is not expected here"),
        (
            "job \"a\" {\n prority = 3\n}\n",
            "2,2-9: Unsupported argument; job has no \"prority\"; did you mean \"priority\"?",
        ),
        (
            "job \"a\" {\n gruop \"g\" {}\n}\n",
            "Unsupported block type; job has no \"gruop\"; did you mean \"group\"?",
        ),
        ("job \"a\" {\n update = {}\n}\n", "\"update\" is a block"),
        ("job \"a\" {\n priority {}\n}\n", "\"priority\" is not a block"),
        (
            "job \"a\" {\n priority = \"high\"\n}\n",
            "2,13-19: Incorrect attribute value type; priority: a number is required",
        ),
        ("job \"a\" {\n priority = 1.5\n}\n", "a whole number is required"),
        ("job \"a\" {\n datacenters = \"dc1\"\n}\n", "a list of strings is required"),
        ("job \"a\" {\n update {}\n update {}\n}\n", "3,2-8: Duplicate update block"),
        ("job \"a\" {\n group \"g\" \"h\" {}\n}\n", "Extraneous label for group"),
        ("job \"a\" {\n group {}\n}\n", "Missing name for group"),
        ("job {}\n", "Missing name for job"),
        ("job \"a\" {\n group \"g\" {\n shutdown_delay = \"5 minutes\"\n}\n}\n", "Unsuitable duration value"),
        ("job \"a\" {\n name = var.x\n}\n", "Unsupported attribute; there is no \"x\" here"),
        ("job \"a\" {\n name = uper(\"x\")\n}\n", "Call to unknown function"),
        ("job \"a\" {\n name = \"x\"\n name = \"y\"\n}\n", "Invalid syntax"),
        ("job \"a\" { name = \"x\" region = \"y\" }\n", "1,22-23: Invalid single-argument block"),
        ("job \"a\" { name = \"x\"\n region = \"y\" }\n", "Invalid single-argument block"),
        (
            "job \"a\" {\n meta {\n  \"b.c\" = \"d\"\n }\n}\n",
            "3,3-4: Invalid argument name; argument names must",
        ),
        ("job \"a\" {\n meta = { b = \"c\" d = \"e\" }\n}\n", "Invalid syntax"),
        ("job \"${a}\" {}\n", "Invalid syntax"),
        ("job \"a\" {\n dynamic \"group\" {\n content {}\n}\n}\n", "for_each is missing"),
        (
            "job \"a\" {\n dynamic \"group\" {\n for_each = 1\n content {}\n}\n}\n",
            "a list or an object is required",
        ),
        ("job \"a\" {\n group \"g\" {\n scaling {\n}\n}\n}\n", "scaling needs max"),
        (
            "job \"a\" {\n group \"g\" {\n scaling {\n max = 1\n type = \"x\"\n}\n}\n}\n",
            "Invalid group scaling type",
        ),
        (
            "job \"a\" {\n group \"g\" {\n task \"t\" {\n scaling \"x\" {}\n}\n}\n}\n",
            "Invalid scaling policy name",
        ),
        ("{\"job\": {\"a\": 3}}", "is an object"),
        ("{\"job\": 3}", "is an object"),
        ("{\"job\": {\"a\": {\"name\": \"${\"}}}", "Invalid template"),
    ] {
        let found = problems(text);
        assert!(found.contains(expected), "{text}\n{found}");
    }
    let many = problems("job \"a\" {\n x = 1\n y = 2\n}\n");
    assert_eq!(many.lines().count(), 2);
}

#[test]
fn blocks_that_are_not_built_are_named_with_their_place() {
    let refused = |body: &str| {
        let parsed = read(&format!("job \"a\" {{\n{body}\n}}\n"));
        assert!(parsed.job.is_some(), "{}", render(&parsed.diagnostics));
        parsed.not_supported.iter().map(Diagnostic::to_string).collect::<Vec<_>>()
    };
    for (body, name) in [
        ("multiregion {}", "multiregion"),
        ("group \"g\" {\n volume \"v\" {\n per_alloc = true\n}\n}", "per_alloc"),
        ("group \"g\" {\n ephemeral_disk {\n sticky = true\n}\n}", "sticky"),
        ("group \"g\" {\n task \"t\" {\n template {}\n}\n}", "template"),
        ("group \"g\" {\n task \"t\" {\n artifact {}\n}\n}", "artifact"),
        ("group \"g\" {\n task \"t\" {\n resources {\n secrets = 1\n}\n}\n}", "secrets"),
    ] {
        let found = refused(body);
        assert!(found.len() == 1 && found[0].ends_with(&format!(" not supported yet: {name}")), "{found:?}");
    }
    for harmless in ["group \"g\" {\n ephemeral_disk {\n sticky = false\n}\n}", "consul_token = \"\""] {
        assert_eq!(refused(harmless), Vec::<String>::new());
    }
}

#[test]
fn numbers_of_a_job_file_are_added_as_decimals() {
    let parsed = read(
        r#"
locals { sum = 0.1 + 0.2 }
job "a" {
  meta { text = "${0.1 + 0.2}" }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        x          = 0.1 + 0.2
        y          = "${0.1 + 0.2}"
        z          = local.sum
        difference = 0.3 - 0.1
        text       = "${0.1 + 0.2}!"
      }
    }
  }
}
"#,
    );
    let job = parsed.job.unwrap_or_else(|| panic!("{}", render(&parsed.diagnostics)));
    let config = &job["TaskGroups"][0]["Tasks"][0]["Config"];
    assert_eq!(*config, json!({"x": 0.3, "y": 0.3, "z": 0.3, "difference": 0.2, "text": "0.3!"}));
    assert_eq!(job["Meta"]["text"], "0.3");
}
