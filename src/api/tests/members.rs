//! The servers of a region, as they are listed and as they fare; and how they are removed, or made to lead.

use super::*;
use state::samples::server_info;
use wire::command::MemberChange;
use wire::status::FollowerStatus;

/// A region of three, of which one does not vote yet.
fn of_three() -> World {
    let mut world = World::new();
    let others = [member(8, "edge-2", "10.0.0.2:4647"), member(9, "edge-3", "10.0.0.3:4647")];
    let members = world.status.members.iter().cloned().chain(others);
    let learns =
        |m: ServerMember| if m.id == 9 { ServerMember { suffrage: Suffrage::Learner, ..m } } else { m };
    world.status.members = Arc::new(members.map(learns).collect());
    world
}

#[test]
fn every_server_of_the_region_is_listed() {
    let mut world = of_three();
    let raft = world.json("/v1/operator/raft/configuration");
    let told = |n: usize, key: &str| raft["Servers"][n][key].clone();
    assert_eq!((told(1, "ID"), told(1, "Node")), ("8".into(), "edge-2.eu".into()));
    assert_eq!((told(1, "Address"), told(2, "Address")), ("10.0.0.2:4647".into(), "10.0.0.3:4647".into()));
    assert_eq!([told(0, "Leader"), told(1, "Leader")], [true, false].map(Value::from));
    assert_eq!([told(0, "Voter"), told(2, "Voter")], [true, false].map(Value::from));
    assert_eq!(world.json("/v1/status/peers"), serde_json::json!(["127.0.0.1:4647", "10.0.0.2:4647"]));
    let members = world.json("/v1/agent/members");
    assert_eq!(members["Members"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        (&members["Members"][2]["Name"], &members["Members"][2]["Tags"]["id"]),
        (&"edge-3.eu".into(), &"9".into())
    );
    world.status.leader = Some(8);
    assert_eq!(world.json("/v1/status/leader"), "10.0.0.2:4647");
}

#[test]
fn servers_out_of_reach_or_behind_are_told_as_such() {
    let mut world = of_three();
    let follows = |id, is_behind| FollowerStatus { id, matched_index: 30 + id, is_behind };
    world.status.voters = vec![7, 8, 9];
    let mut told = |links: &[u64], is_behind: [bool; 2]| {
        world.status.links = links.to_vec();
        world.status.followers = vec![follows(8, is_behind[0]), follows(9, is_behind[1])];
        let listed = world.json("/v1/agent/members");
        let health = world.get("/v1/operator/autopilot/health");
        let status = health.status;
        let health: Value = serde_json::from_str(&text(&health)).expect("is JSON");
        let each = |list: &Value, key: &str| {
            let list = list.as_array().expect("a list");
            list.iter().map(|one| one[key].to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(each(&health["Servers"], "LastIndex"), format!("{} 38 39", world.status.applied_index));
        let members = each(&listed["Members"], "Status").replace('"', "");
        (members, each(&health["Servers"], "Healthy"), health["FailureTolerance"].to_string(), status)
    };
    let said = |members: &str, healthy: &str, tolerance: &str, status| {
        (members.to_string(), healthy.to_string(), tolerance.to_string(), status)
    };
    assert_eq!(told(&[8, 9], [false, false]), said("alive alive alive", "true true true", "1", 200));
    assert_eq!(told(&[9], [false, false]), said("alive failed alive", "true false true", "0", 429));
    assert_eq!(told(&[8, 9], [false, true]), said("alive alive alive", "true true false", "0", 429));
    assert_eq!(told(&[], [true, true]), said("alive failed failed", "true false false", "0", 429));
}

#[test]
fn servers_are_removed_and_lead_by_id_or_address() {
    let mut world = of_three();
    world.region.change_member(MemberChange::Add { id: 4, info: server_info("gone") });
    world.region.change_member(MemberChange::Remove { id: 4 });
    let asked = |method, target: &str| match world.step(&request(method, target, ""), WaitState::default()) {
        RouteOutcome::Write(request, _) => Ok(request),
        RouteOutcome::Respond(response) => Err((response.status, text(&response).to_string())),
        _ => panic!("{target}"),
    };
    let peer = |query: &str| asked(Method::Delete, &format!("/v1/operator/raft/peer{query}"));
    assert_eq!(peer("?id=8"), Ok(WriteRequest::RemoveServer { id: 8 }));
    assert_eq!(peer("?address=10.0.0.3:4647"), Ok(WriteRequest::RemoveServer { id: 9 }));
    assert_eq!(peer("?id=4"), Ok(WriteRequest::RemoveServer { id: 4 }), "who asks again is told the same");
    for (query, status, says) in [
        ("", 400, "Must specify either ?id"),
        ("?id=8&address=10.0.0.2:4647", 400, "Must specify only one"),
        ("?id=5", 500, "id \"5\" was not found in the Raft configuration"),
        ("?address=10.0.0.9:1", 500, "was not found in the Raft configuration"),
    ] {
        let (code, why) = peer(query).unwrap_err();
        assert!(code == status && why.contains(says), "{query}: {code} {why}");
    }
    let transfer =
        |query: &str| asked(Method::Post, &format!("/v1/operator/raft/transfer-leadership{query}"));
    assert_eq!(transfer(""), Ok(WriteRequest::TransferLeadership { to: None }));
    assert_eq!(transfer("?id=8"), Ok(WriteRequest::TransferLeadership { to: Some(8) }));
    let (code, noop) = transfer("?id=7").unwrap_err();
    assert!(code == 200 && noop.contains("\"Noop\":true"), "{noop}");
}
