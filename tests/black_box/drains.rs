//! Nodes that are closed, drained and purged, on one machine: there is nowhere to go.

use crate::node::{Node, text};
use crate::wait;
use serde_json::{Value, json};

const SLEEPER: &str = "exec sleep 1000";

fn node_id(node: &Node) -> String {
    text(&node.get("/v1/nodes").json()[0]["ID"]).to_string()
}

fn shown(node: &Node, id: &str) -> Value {
    node.get(&format!("/v1/node/{id}")).json()
}

#[test]
fn a_closed_node_takes_nothing_new_and_keeps_what_it_has() {
    let node = Node::dev();
    let id = node_id(&node);
    node.run("old", SLEEPER);
    node.await_alloc("old", "running");
    let said = node.drover(&["node", "eligibility", "-disable", &id[..8]]);
    assert!(said.exits(0).contains("scheduling eligibility set: ineligible for scheduling"));
    node.drover(&["node", "eligibility", "-enable", "-disable", "-self"]).fails(1, "Either");
    node.run("new", SLEEPER);
    wait::until("it is blocked", || {
        let evals = node.get("/v1/job/new/evaluations").json();
        evals.as_array()?.iter().find(|e| e["Status"] == "blocked").map(|_| ())
    });
    assert_eq!((node.allocs("new").len(), text(&node.allocs("old")[0]["ClientStatus"])), (0, "running"));
    node.drover(&["node", "eligibility", "-enable", "-self"]).exits(0);
    node.await_alloc("new", "running");
    let status = node.drover(&["node", "status", "-self"]);
    assert!(status.exits(0).contains("Node marked as eligible for scheduling"), "{status:?}");
}

#[test]
fn a_drain_without_room_waits_until_its_deadline() {
    let node = Node::dev();
    let id = node_id(&node);
    node.run("web", SLEEPER);
    node.await_alloc("web", "running");
    let said = node.drover(&["node", "drain", "-enable", "-deadline", "15s", "-m", "new disk", &id]);
    let out = said.exits(0);
    for sentence in [
        "drain strategy set",
        "marked for migration",
        "it waits for room on another node; the deadline stops it in",
        "status running -> complete",
        "Drain complete for node",
    ] {
        assert!(out.contains(sentence), "{sentence}: {out}");
    }
    let after = shown(&node, &id);
    assert_eq!((&after["Drain"], &after["DrainStrategy"]), (&json!(false), &Value::Null));
    assert_eq!(text(&after["SchedulingEligibility"]), "ineligible");
    assert_eq!(text(&after["LastDrain"]["Status"]), "complete");
    assert_eq!(text(&after["LastDrain"]["Meta"]["message"]), "new disk");
    node.drover(&["node", "drain", "-monitor", &id]).exits(0);
    node.drover(&["node", "drain", "-disable", &id]).exits(0);
    let again = |a: &Value| a["ClientStatus"] == "running" && a["DesiredStatus"] == "run";
    wait::until("it runs again", || node.allocs("web").iter().any(again).then_some(()));
}

#[test]
fn a_drain_that_is_canceled_leaves_everything_as_it_was() {
    let node = Node::dev();
    let id = node_id(&node);
    node.run("web", SLEEPER);
    let alloc = node.await_alloc("web", "running");
    node.drover(&["node", "drain", "-enable", "-no-deadline", "-detach", "-self"]).exits(0);
    assert_eq!(shown(&node, &id)["Drain"], true);
    let refused = node.put(&format!("/v1/node/{id}/eligibility"), &json!({ "Eligibility": "eligible" }));
    assert!(refused.text().contains("while it is draining"), "{}", refused.text());
    node.drover(&["node", "drain", "-disable", "-self"]).exits(0);
    let after = shown(&node, &id);
    assert_eq!(
        (text(&after["SchedulingEligibility"]), text(&after["LastDrain"]["Status"])),
        ("eligible", "canceled")
    );
    let kept = node.get(&format!("/v1/allocation/{}", text(&alloc["ID"]))).json();
    assert_eq!((text(&kept["DesiredStatus"]), text(&kept["ClientStatus"])), ("run", "running"));
}

#[test]
fn force_stops_at_once_and_a_purged_node_that_lives_comes_back() {
    let node = Node::durable();
    let id = node_id(&node);
    node.run("web", SLEEPER);
    node.await_alloc("web", "running");
    let said = node.drover(&["node", "drain", "-enable", "-force", "-yes", &id[..8]]);
    assert!(said.exits(0).contains("Drain complete for node"), "{said:?}");
    let before = shown(&node, &id)["CreateIndex"].as_u64();
    let purged = node.put(&format!("/v1/node/{id}/purge"), &json!({}));
    assert_eq!(purged.status, 200, "{}", purged.text());
    wait::until("the node registers anew", || {
        let found = node.get(&format!("/v1/node/{id}"));
        (found.status == 200 && found.json()["CreateIndex"].as_u64() > before).then_some(())
    });
    let again = |a: &Value| a["ClientStatus"] == "running" && a["DesiredStatus"] == "run";
    wait::until("its work is placed", || node.allocs("web").iter().any(again).then_some(()));
}
