//! Ports from a job file to a task and back to whoever looks for them; what a node does not offer.

use crate::node::{Node, shell_job, text};
use crate::wait;
use serde_json::{Value, json};

fn with_network(id: &str, network: Value) -> Value {
    let script = "echo $NOMAD_PORT_web $NOMAD_ADDR_web $NOMAD_HOST_PORT_rpc $NOMAD_PORT_rpc; exec sleep 600";
    let mut job = shell_job(id, script);
    job["TaskGroups"][0]["Networks"] = json!([network]);
    job
}

fn ports() -> Value {
    json!({"ReservedPorts": [{"Label": "web", "Value": 25_432}], "DynamicPorts": [{"Label": "rpc", "To": 80}]})
}

/// What no room was found for, in the words of the job's blocked evaluation.
fn short(node: &Node, job: &str) -> String {
    wait::until("nothing is placed, and it is told why", || {
        let evals = node.get(&format!("/v1/job/{job}/evaluations")).json();
        let group = evals
            .as_array()?
            .iter()
            .find_map(|e| e["FailedTGAllocs"].as_object()?.values().next().cloned())?;
        let reasons =
            ["DimensionExhausted", "ConstraintFiltered"].map(|name| group[name].as_object().cloned());
        reasons.into_iter().flatten().flat_map(|r| r.into_iter().map(|(text, _)| text)).next()
    })
}

#[test]
fn a_task_finds_its_ports_and_others_find_it() {
    let node = Node::dev();
    node.register(&with_network("web", ports()));
    let id = text(&node.await_alloc("web", "running")["ID"]).to_string();
    let alloc = node.get(&format!("/v1/allocation/{id}")).json();
    let shared = &alloc["AllocatedResources"]["Shared"];
    let held = shared["Ports"].as_array().expect("ports");
    let (web, rpc) = (&held[0], &held[1]);
    assert_eq!((&web["Label"], &web["Value"], &web["To"]), (&json!("web"), &json!(25_432), &json!(0)));
    let free = rpc["Value"].as_u64().expect("a number");
    assert!((20_000..=32_000).contains(&free) && rpc["To"] == 80, "{rpc}");
    let ip = text(&web["HostIP"]);
    assert_eq!(shared["Networks"][0]["IP"], *ip);
    let expected = format!("25432 {ip}:25432 {free} 80\n");
    wait::until_eq("the task sees its ports", &expected, || node.stdout("web"));

    let shown = node.drover(&["alloc", "status", text(&alloc["ID"])]);
    let shown = shown.exits(0);
    assert!(
        shown.contains("Allocation Addresses:") && shown.contains(&format!("{ip}:{free} -> 80")),
        "{shown}"
    );
    assert!(addresses(&node).iter().any(|a| a["Address"] == *ip));
}

#[test]
fn to_minus_one_is_answered_as_the_hosts_port() {
    let node = Node::dev();
    let mut asked = ports();
    asked["DynamicPorts"][0]["To"] = json!(-1);
    node.register(&with_network("web", asked));
    let id = text(&node.await_alloc("web", "running")["ID"]).to_string();
    let alloc = node.get(&format!("/v1/allocation/{id}")).json();
    let rpc = &alloc["AllocatedResources"]["Shared"]["Ports"][1];
    assert_eq!((&rpc["Label"], &rpc["To"]), (&json!("rpc"), &rpc["Value"]), "{rpc}");
    for holder in [&alloc["AllocatedResources"]["Shared"], &alloc["Resources"], &alloc["SharedResources"]] {
        let port = &holder["Networks"][0]["DynamicPorts"][0];
        assert_eq!((&port["Label"], &port["To"]), (&json!("rpc"), &rpc["Value"]), "{holder}");
    }
    let end = format!(" {0} {0}\n", rpc["Value"]);
    wait::until("the task sees the port", || node.stdout("web").ends_with(&end).then_some(()));
}

fn addresses(node: &Node) -> Vec<Value> {
    let id = text(&node.get("/v1/nodes").json()[0]["ID"]).to_string();
    let of_node = node.get(&format!("/v1/node/{id}")).json();
    of_node["NodeResources"]["NodeNetworks"][0]["Addresses"].as_array().expect("addresses").clone()
}

#[test]
fn a_port_is_held_until_its_task_is_gone() {
    let node = Node::dev();
    // one on each of the node's addresses
    let mut job = with_network("first", ports());
    let count = wait::until("the node is there", || {
        node.get("/v1/nodes").json().get(0).map(|_| addresses(&node).len())
    });
    job["TaskGroups"][0]["Count"] = count.into();
    node.register(&job);
    wait::until_eq("all run", &count, || {
        node.allocs("first").iter().filter(|a| a["ClientStatus"] == "running").count()
    });
    let fixed = json!({"ReservedPorts": [{"Label": "web", "Value": 25_432}]});
    node.register(&with_network("second", fixed));
    assert_eq!(short(&node, "second"), "network: reserved port collision web=25432");
    node.drover(&["job", "stop", "-detach", "first"]).exits(0);
    node.await_alloc("second", "running");
    assert!(node.allocs("first").iter().any(|a| a["ClientStatus"] == "complete"));
}

#[test]
fn another_version_takes_over_the_port_of_the_one_before() {
    let node = Node::dev();
    let mut job = with_network("web", ports());
    node.register(&job);
    let first = node.await_alloc("web", "running");
    job["TaskGroups"][0]["Tasks"][0]["Env"] = json!({"VERSION": "2"});
    node.register(&job);
    let second = wait::until("its successor runs", || {
        let next = node.allocs("web").into_iter().find(|a| a["ID"] != first["ID"])?;
        (next["ClientStatus"] == "running").then_some(next)
    });
    assert_eq!(second["JobVersion"], 1);
    let id = text(&second["ID"]).to_string();
    let second = node.get(&format!("/v1/allocation/{id}")).json();
    assert_eq!(second["AllocatedResources"]["Shared"]["Ports"][0]["Value"], 25_432);
    let first = node.get(&format!("/v1/allocation/{}", text(&first["ID"]))).json();
    assert_eq!(first["ClientStatus"], "complete", "two never hold one port");
}

#[test]
fn networks_that_a_node_lacks_are_told() {
    let node = Node::dev();
    let with = |id: &str, change: &dyn Fn(&mut Value)| {
        let mut job = shell_job(id, "exec sleep 600");
        change(&mut job["TaskGroups"][0]);
        node.register(&job);
        short(&node, id)
    };
    for (id, change, why) in [
        ("bridge", json!({"Networks": [{"Mode": "bridge"}]}), "missing network"),
        (
            "lan",
            json!({"Networks": [{"DynamicPorts": [{"Label": "x", "HostNetwork": "lan"}]}]}),
            "missing host network \"lan\" for port \"x\"",
        ),
        (
            "volume",
            json!({"Volumes": {"v": {"Type": "host", "Source": "nosuch"}}}),
            "missing compatible host volumes",
        ),
    ] {
        let told = with(id, &|group| {
            for (key, value) in change.as_object().expect("members") {
                group[key] = value.clone();
            }
        });
        assert_eq!(told, why);
    }
    for (id, resources, why) in [
        ("device", json!({"Devices": [{"Name": "nvidia/gpu"}]}), "missing devices"),
        ("cores", json!({"Cores": 1}), "cores cannot be reserved: the node does not enforce them yet"),
    ] {
        assert_eq!(with(id, &|group| group["Tasks"][0]["Resources"] = resources.clone()), why);
    }
}
