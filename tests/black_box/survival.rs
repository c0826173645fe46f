//! A durable agent's death, restart and upgrade: tasks do not notice, output has no gap, what was acknowledged is there.

use crate::node::{Node, is_alive, path, shell_job, signal_process, text};
use crate::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

const COUNTER: &str = "echo pid $$; n=0; while :; do n=$((n+1)); echo line $n; sleep 0.01; done";

fn last_number(node: &Node, job: &str) -> u64 {
    let out = node.stdout(job);
    out.lines().rev().find_map(|l| l.strip_prefix("line ")?.parse().ok()).unwrap_or(0)
}

#[track_caller]
fn await_more_lines(node: &Node, job: &str) {
    let before = last_number(node, job);
    wait::until("more lines are written", || (last_number(node, job) > before + 20).then_some(()));
}

#[track_caller]
fn assert_contiguous(node: &Node, job: &str) {
    let out = node.stdout(job);
    let numbers: Vec<u64> = out.lines().filter_map(|l| l.strip_prefix("line ")?.parse().ok()).collect();
    let gap = numbers.iter().zip(1..).find(|(is, wanted)| **is != *wanted);
    assert!(gap.is_none(), "found and expected: {gap:?} of {}", numbers.len());
}

#[test]
fn a_task_outlives_agent_and_keeper_and_loses_no_line() {
    let mut node = Node::durable();
    node.run("count", COUNTER);
    let alloc = node.await_alloc("count", "running");
    let pid = node.await_pid("count");
    await_more_lines(&node, "count");

    node.restart();
    assert!(is_alive(pid), "the task died with its agent");
    assert_eq!(node.await_alloc("count", "running")["ID"], alloc["ID"]);
    await_more_lines(&node, "count");

    let keeper = node.keeper_pid();
    signal_process(keeper, Signal::USR2);
    await_more_lines(&node, "count");
    assert_eq!(node.keeper_pid(), keeper, "an upgrade keeps the process");

    signal_process(keeper, Signal::KILL);
    wait::until("the agent starts another keeper", || {
        let said = node.keeper_status();
        (said.code == 0 && !said.out.starts_with(&format!("keeper {keeper},"))).then_some(())
    });
    assert!(is_alive(pid), "the task died with its keeper");
    await_more_lines(&node, "count");

    let allocs = node.allocs("count");
    assert_eq!(allocs.len(), 1, "{allocs:#?}");
    assert_eq!(allocs[0]["ClientStatus"], "running");
    assert_eq!(allocs[0]["TaskStates"]["t"]["Restarts"], 0);
    assert_eq!(node.await_pid("count"), pid);
    assert_contiguous(&node, "count");
}

#[test]
fn an_end_that_the_agent_missed_is_reported_with_its_code() {
    let mut node = Node::durable();
    node.run("brief", "echo pid $$; until [ -e ../go ]; do sleep 0.05; done; echo last words; exit 42");
    let alloc = node.await_alloc("brief", "running");
    let pid = node.await_pid("brief");
    node.kill();
    std::fs::write(node.data_dir().join("alloc").join(text(&alloc["ID"])).join("go"), "").expect("written");
    wait::until("the task has ended", || (!is_alive(pid)).then_some(()));
    node.start();
    let ended = node.await_alloc("brief", "failed");
    let events = ended["TaskStates"]["t"]["Events"].as_array().expect("events").clone();
    let end = events.iter().find(|e| e["Type"] == "Terminated").expect("an end");
    assert_eq!(end["ExitCode"], 42, "{end:#}");
    assert!(text(&end["DisplayMessage"]).contains("Exit Code: 42"), "{end:#}");
    assert!(ended["TaskStates"]["t"]["StartedAt"].is_string(), "{ended:#}");
    assert_eq!(node.stdout("brief"), format!("pid {pid}\nlast words\n"));
}

#[test]
fn an_end_that_nobody_saw_is_unknown_and_no_success() {
    let mut node = Node::durable();
    let mut job = shell_job("unseen", "echo pid $$; sleep 1000");
    job["Type"] = "batch".into();
    node.register(&job);
    let pid = node.await_pid("unseen");
    let keeper = node.keeper_pid();
    node.kill();
    signal_process(keeper, Signal::KILL);
    wait::until("the keeper is gone", || (!is_alive(keeper)).then_some(()));
    signal_process(pid, Signal::KILL);
    wait::until("the task is gone", || (!is_alive(pid)).then_some(()));
    node.start();
    let ended = node.await_alloc("unseen", "failed");
    let task = &ended["TaskStates"]["t"];
    assert_eq!((&task["State"], &task["Failed"]), (&json!("dead"), &json!(true)), "{ended:#}");
    let events = task["Events"].as_array().expect("events");
    let end = events.iter().find(|e| e["Type"] == "Terminated").expect("an end");
    assert!(text(&end["DisplayMessage"]).contains("nobody saw how it ended"), "{end:#}");
    assert_ne!(end["ExitCode"], 0, "{end:#}");
}

#[test]
fn a_stopped_agent_leaves_its_tasks_and_says_nothing_failed() {
    let mut node = Node::durable();
    node.run("stays", COUNTER);
    let pid = node.await_pid("stays");
    for signal in [Signal::TERM, Signal::INT] {
        node.signal(signal);
        let (status, printed) = node.await_end();
        assert!(status.success(), "{signal:?}: {status}: {printed}");
        assert!(is_alive(pid), "{signal:?}");
        node.start();
        node.await_alloc("stays", "running");
    }
    await_more_lines(&node, "stays");
    assert_contiguous(&node, "stays");
}

#[test]
fn keeper_stop_ends_all_tasks() {
    let mut node = Node::durable();
    node.run("one", COUNTER);
    node.run("two", COUNTER);
    let pids = [node.await_pid("one"), node.await_pid("two")];
    let status = node.keeper_status();
    assert!(status.exits(0).contains("2 runs"), "{status:?}");
    for pid in pids {
        assert!(status.out.contains(&pid.to_string()), "{status:?}");
    }
    node.signal(Signal::TERM);
    node.await_end();
    node.drover(&["keeper", "stop", "-data-dir", path(&node.data_dir())]).exits(0);
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    wait::until("the keeper is gone", || node.processes().is_empty().then_some(()));
    node.keeper_status().fails(1, "keeper");
}

#[test]
fn acknowledged_jobs_survive_kills_at_any_moment() {
    let mut node = Node::durable();
    let mut acknowledged: Vec<String> = vec![];
    for round in 0..5_u64 {
        let port = node.port;
        let writer = std::thread::spawn(move || {
            let mut done = vec![];
            for n in 0.. {
                let id = format!("job-{round}-{n}");
                let mut job = shell_job(&id, "sleep 1000");
                job["TaskGroups"][0]["Count"] = 0.into();
                let body = json!({"Job": job}).to_string();
                match crate::web::try_send(port, "PUT", "/v1/jobs", &body) {
                    Ok(answer) if answer.status == 200 => done.push(id),
                    _ => return done,
                }
            }
            done
        });
        // another moment in each round
        let enough = acknowledged.len() + 1 + round as usize * 7;
        wait::until("jobs are registered", || {
            let jobs = crate::web::try_send(port, "GET", "/v1/jobs", "").ok()?.json();
            (jobs.as_array()?.len() >= enough).then_some(())
        });
        node.kill();
        acknowledged.extend(writer.join().expect("the writer"));
        node.start();
        let jobs = node.get("/v1/jobs").json();
        let ids: Vec<&str> = jobs.as_array().expect("a list").iter().map(|j| text(&j["ID"])).collect();
        let lost: Vec<&String> = acknowledged.iter().filter(|id| !ids.contains(&id.as_str())).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?} of {}", acknowledged.len());
    }
    assert!(acknowledged.len() > 5);
}

/// Dispatches and scales until it gets no answer; gives the tokens with what was dispatched, and the counts that may be the last.
/// `last`: those of the round before.
fn dispatch_and_scale(port: u16, round: usize, mut last: Vec<u64>) -> (Vec<(String, String)>, Vec<u64>) {
    let mut dispatched = vec![];
    let ask = |target: &str, body: Value| {
        let answer = crate::web::try_send(port, "PUT", target, &body.to_string()).ok()?;
        (answer.status == 200).then(|| answer.json())
    };
    for n in 0.. {
        let token = format!("{round}-{n}");
        let target = format!("/v1/job/form/dispatch?idempotency_token={token}");
        let Some(answer) = ask(&target, json!({})) else { break };
        dispatched.push((token, text(&answer["DispatchedJobID"]).to_string()));
        let count = 1 + n % 7;
        let answer = ask("/v1/job/off/scale", json!({"Count": count, "Target": {"Group": "g"}}));
        match answer {
            Some(_) => last = vec![count],
            // it may have happened, or what was acknowledged before it may still hold
            None => {
                last.push(count);
                break;
            }
        }
    }
    (dispatched, last)
}

#[test]
fn acknowledged_dispatches_and_counts_survive_kills() {
    let mut node = Node::durable();
    let batch = |id: &str, more: &str, value: Value| {
        let mut job = shell_job(id, "true");
        (job["Type"], job[more], job["TaskGroups"][0]["Count"]) = ("batch".into(), value, 0.into());
        node.register(&job);
    };
    batch("form", "ParameterizedJob", json!({}));
    batch("off", "Periodic", json!({"Enabled": false, "Specs": ["@daily"]}));
    let mut dispatched: Vec<(String, String)> = vec![];
    let mut counts = vec![0];
    for round in 0..4 {
        let (port, last) = (node.port, counts);
        let writer = std::thread::spawn(move || dispatch_and_scale(port, round, last));
        // another moment in each round
        let enough = dispatched.len() + 1 + round * 5;
        wait::until("jobs are dispatched", || {
            let jobs = node.get("/v1/jobs?prefix=form%2F").json();
            (jobs.as_array()?.len() >= enough).then_some(())
        });
        node.kill();
        let (more, last) = writer.join().expect("the writer");
        assert!(!last.is_empty(), "some count was acknowledged, in this round or before");
        dispatched.extend(more);
        node.start();
        for (token, id) in &dispatched {
            let again =
                node.put(&format!("/v1/job/form/dispatch?idempotency_token={token}"), &json!({})).json();
            assert_eq!(
                (text(&again["DispatchedJobID"]), text(&again["EvalID"])),
                (id.as_str(), ""),
                "{token}"
            );
        }
        let count = node.get("/v1/job/off").json()["TaskGroups"][0]["Count"].as_u64().expect("a count");
        assert!(last.contains(&count), "{count} is none of {last:?}");
        counts = vec![count];
    }
    assert!(dispatched.len() > 4);
}

#[test]
fn a_job_that_was_stopped_stays_stopped() {
    let mut node = Node::durable();
    node.run("gone", COUNTER);
    let pid = node.await_pid("gone");
    node.drover(&["job", "stop", "-detach", "gone"]).exits(0);
    wait::until("the task is gone", || (!is_alive(pid)).then_some(()));
    node.restart();
    assert_eq!(node.await_alloc("gone", "complete")["DesiredStatus"], "stop");
    // a job that comes after the restart has its task running: whatever the agent would start again, it has started by then
    node.run("after", COUNTER);
    node.await_alloc("after", "running");
    let running = node.keeper_status().out.lines().filter(|line| line.contains("running")).count();
    assert_eq!(running, 1, "{:?}", node.keeper_status());
}
