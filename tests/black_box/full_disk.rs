//! A node whose disk is full, in life: its store and its allocations on a file system of some megabytes.
//!
//! Only root may mount one: for anybody else this test fails and says so.

use crate::node::{Node, is_alive, path, shell_job, text};
use crate::wait;
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system, gone when dropped.
struct Small(PathBuf);

impl Small {
    fn over(dir: PathBuf) -> Small {
        fs::create_dir_all(&dir).expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(&dir);
        let mounted = mount.status().is_ok_and(|status| status.success());
        assert!(
            mounted,
            "a tmpfs can't be mounted: run this as root, or leave it out with `--skip full_disk`"
        );
        Small(dir)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().expect("umount");
    }
}

/// Takes what is free to the last page.
fn fill(dir: &Path) -> PathBuf {
    let path = dir.join("fill");
    let mut file = File::options().create(true).append(true).open(&path).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
    path
}

fn driver(node: &Node) -> serde_json::Value {
    let id = node.get("/v1/nodes").json()[0]["ID"].clone();
    node.get(&format!("/v1/node/{}", text(&id))).json()["Drivers"]["raw_exec"].clone()
}

#[test]
fn a_node_with_a_full_disk_goes_on_and_comes_back_by_itself() {
    let mut node = Node::new();
    let small = Small::over(node.data_dir().with_file_name("small"));
    let place = |name: &str| small.0.join(name).display().to_string();
    fs::create_dir(place("state")).expect("a directory");
    let usual = fs::read_to_string(node.data_dir().with_file_name("agent.hcl")).expect("a configuration");
    let (state, allocs) = (place("state"), place("alloc"));
    let client = format!(
        "client {{\n enabled = true\n state_dir = \"{state}\"\n alloc_dir = \"{allocs}\"\n \
         disk_total_mb = 10000\n disk_free_mb = 10000\n}}"
    );
    node.write("agent.hcl", &usual.replace("client { enabled = true }", &client));
    node.start();
    node.run("runs", "echo pid $$; exec sleep 1000");
    let task = node.await_pid("runs");
    let agent = node.agent_pid();
    let mut paid = shell_job("paid", "sleep 1000");
    (paid["Type"], paid["ParameterizedJob"]) = ("batch".into(), json!({"Payload": "required"}));
    paid["TaskGroups"][0]["Tasks"][0]["DispatchPayload"] = json!({"File": "in"});
    node.register(&paid);
    let filler = fill(&small.0);

    // the client has room for these in its files, but the first one's payload finds none on the disk
    let child = node.put("/v1/job/paid/dispatch", &json!({"Payload": "eA=="})).json();
    let child = text(&child["DispatchedJobID"]).to_string();
    wait::until("the client gives up its reserve", || {
        node.printed().contains("the disk is full").then_some(())
    });
    let first = [child.as_str(), "new-1", "new-2"];
    first[1..].iter().for_each(|job| drop(node.run(job, "sleep 1000")));
    node.run("waits", "sleep 1000");
    wait::until("what waits says why", || {
        let waiting = node.allocs("waits").first()?.clone();
        text(&waiting["ClientDescription"]).contains("disk is full").then_some(())
    });
    wait::until("the node is unfit for new work and says why", || {
        let said = driver(&node);
        (said["Healthy"] == false && text(&said["HealthDescription"]).contains("disk is full")).then_some(())
    });
    // the room that was given up does not pass for room again
    assert_eq!(node.printed().matches("no new writes until there is room").count(), 1, "{}", node.printed());
    // from now on there is not a byte left, also not of the reserve
    fill(&small.0);
    let id = node.get("/v1/nodes").json()[0]["ID"].clone();
    let status = node.drover(&["node", "status", "-verbose", text(&id)]);
    assert!(status.exits(0).contains("disk is full"), "{status:?}");
    node.run("late", "sleep 1000");
    assert_eq!((node.agent_pid(), is_alive(agent), is_alive(task)), (agent, true, true));
    assert_eq!(node.await_alloc("runs", "running")["TaskStates"]["t"]["Restarts"], 0);
    assert_eq!(node.get("/v1/nodes").json()[0]["Status"], "ready");

    fs::remove_file(path(&filler)).expect("removed");
    for job in first.into_iter().chain(["waits", "late"]) {
        node.await_alloc(job, "running");
    }
    wait::until("the node is fit again", || (driver(&node)["Healthy"] == true).then_some(()));
    assert!(is_alive(agent) && is_alive(task), "{}", node.printed());
}
