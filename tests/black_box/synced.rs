//! Nothing is answered before it is synced: strace sees in which order the real system calls come.

use crate::node::{Node, shell_job};
use crate::{wait, web};

/// The task's name: it shows which message is about it.
const MARK: &str = "is-it-synced";

/// One line of the trace: a process and its call. A call that strace shows in two parts counts where it ends.
struct Calls(Vec<(u32, String)>);

impl Calls {
    fn of(trace: &str) -> Calls {
        let mut begun: Vec<(u32, String)> = vec![];
        let mut calls = vec![];
        for line in trace.lines() {
            let Some((pid, call)) = line.split_once(' ') else { continue };
            let (Ok(pid), call) = (pid.parse::<u32>(), call.trim_start()) else { continue };
            if let Some(first) = call.strip_suffix("<unfinished ...>") {
                begun.push((pid, first.to_string()));
            } else if call.starts_with("<... ") {
                let Some(at) = begun.iter().position(|(of, _)| *of == pid) else { continue };
                calls.push((pid, begun.remove(at).1 + call));
            } else {
                calls.push((pid, call.to_string()));
            }
        }
        Calls(calls)
    }

    /// The first call from `from` on that has all of these words in it.
    #[track_caller]
    fn find(&self, from: usize, words: &[&str]) -> usize {
        let found = self.0[from..].iter().position(|(_, call)| words.iter().all(|word| call.contains(word)));
        let shown = || self.0[from..].iter().map(|(pid, call)| format!("{pid} {call}\n")).collect::<String>();
        from + found.unwrap_or_else(|| panic!("no {words:?} in\n{}", shown()))
    }

    /// The first message from `from` on that this process sends on a socket, about the task or about anything.
    #[track_caller]
    fn sent(&self, from: usize, by: Option<u32>, word: &str) -> usize {
        let sends = |call: &str| {
            let (name, rest) = call.split_once('(').unwrap_or_default();
            matches!(name, "write" | "writev" | "sendto" | "sendmsg")
                && rest.split(',').next().is_some_and(|fd| fd.contains("<UNIX") || fd.contains("<socket"))
        };
        let meant = |(pid, call): &(u32, String)| {
            by.is_none_or(|by| by == *pid) && sends(call) && call.contains(word)
        };
        from + self.0[from..].iter().position(meant).unwrap_or_else(|| panic!("nothing is sent: {word}"))
    }

    #[track_caller]
    fn assert_synced(&self, between: (usize, usize), file: &str) {
        let synced = |(_, call): &(u32, String)| {
            call.starts_with("fdatasync") && call.contains(file) && call.ends_with("= 0")
        };
        let calls = &self.0[between.0..between.1];
        assert!(calls.iter().any(synced), "no sync of {file}: {calls:#?}");
    }
}

#[test]
fn nothing_is_answered_before_its_sync() {
    let mut node = Node::new();
    let trace = node.start_traced("trace=fdatasync,fsync,read,recvfrom,recvmsg,write,writev,sendto,sendmsg");
    let mut job = shell_job("synced", "sleep 1000");
    job["TaskGroups"][0]["Tasks"][0]["Name"] = MARK.into();
    node.register(&job);
    node.await_alloc("synced", "running");
    web::send(node.port, "DELETE", "/v1/job/synced", "").json();
    node.await_alloc("synced", "complete");
    let read = || std::fs::read_to_string(&trace).unwrap_or_default();
    let trace = wait::until("the trace shows the answer of the keeper", || {
        let trace = read();
        let is_synced = |line: &str| line.contains("fdatasync") && line.contains("keeper/journal");
        trace.lines().any(is_synced).then_some(trace)
    });
    let calls = Calls::of(&trace);

    let asked = calls.find(0, &["\"PUT /v1/jobs"]);
    let answered = calls.find(asked, &["HTTP/1.1 200"]);
    calls.assert_synced((asked, answered), "/data/server/");

    let start = calls.sent(asked, None, MARK);
    calls.assert_synced((asked, start), "/data/client/");

    // the keeper reads what the agent has sent: what it starts is in its journal before it tells, and how that ends is synced there
    let heard = calls.find(start + 1, &[MARK]);
    let keeper = calls.0[heard].0;
    let told = calls.sent(heard, Some(keeper), "");
    let written = calls.find(heard, &["write(", "/keeper/journal"]);
    assert!(written < told, "it tells of a start that no journal knows");
    let stopped = calls.find(told, &["DELETE /v1/job/synced"]);
    let told = calls.sent(stopped, Some(keeper), "");
    calls.assert_synced((stopped, told), "/keeper/journal");
}
