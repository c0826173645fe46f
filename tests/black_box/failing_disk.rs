//! A disk whose syncs fail: the agent ends with a sentence instead of trusting it further, and is started again over tasks that went on.

use crate::node::{Node, is_alive, shell_job};
use crate::{wait, web};
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

/// Every sync of this file by one thread of the agent fails from the `nth` on, until the agent ends. Then nothing acknowledged is missing.
#[track_caller]
fn assert_ends_and_comes_back(file: &str, nth: u32, sentence: &str) {
    let mut node = Node::durable();
    node.run("kept", "echo pid $$; exec sleep 1000");
    node.await_alloc("kept", "running");
    let pid = node.await_pid("kept");
    node.signal(Signal::TERM);
    assert!(node.await_end().0.success());

    node.start_with_failing_syncs(file, nth);
    let mut acknowledged: Vec<String> = vec![];
    let refused = wait::within(Duration::from_secs(30), || {
        let id = format!("more-{}", acknowledged.len());
        let job = json!({"Job": shell_job(&id, "sleep 1000")}).to_string();
        let answer = web::try_send(node.port, "PUT", "/v1/jobs", &job);
        match answer {
            Ok(answer) if answer.status == 200 => acknowledged.push(id),
            Ok(_) => {}
            Err(_) => return Some(()),
        }
        None
    });
    assert!(refused.is_some(), "{file}: its syncs fail and the agent goes on");
    let (status, printed) = node.await_end();
    assert_eq!(status.code(), Some(1), "{printed}");
    assert!(printed.contains(sentence) && printed.contains("tasks go on"), "{printed}");
    assert!(is_alive(pid), "the task died with its agent");

    node.start();
    for id in acknowledged {
        assert_eq!(node.get(&format!("/v1/job/{id}")).status, 200, "{id} was acknowledged");
    }
    node.await_alloc("kept", "running");
    assert_eq!(node.await_pid("kept"), pid);
}

#[test]
fn a_failed_sync_of_the_servers_log_ends_the_agent() {
    assert_ends_and_comes_back("server/log.0", 12, "the disk under the server's state failed");
}

#[test]
fn a_failed_sync_of_the_clients_log_ends_the_agent() {
    assert_ends_and_comes_back("client/log.0", 3, "the disk under the client's store failed");
}
