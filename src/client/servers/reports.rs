//! How much goes into one report: what the servers write of it, with the evaluations that follow, has to fit into one entry of
//! their log (client.md 3.7).
//!
//! Refuses to know: which updates are urgent, and when a report goes.

use super::Config;
use model::deployment::Verdict;
use wire::command::AllocUpdate;
use wire::record;
use wire::rpc::{MAX_REPORT_BYTES, NodeRequest};

/// The first of these updates, as many as fit, and how many they are. One that is too large alone goes without its oldest events.
pub fn fitting(
    config: &Config,
    seen: u64,
    mut updates: Vec<(AllocUpdate, Option<Verdict>)>,
) -> (NodeRequest, usize) {
    loop {
        let count = updates.len();
        let request = NodeRequest::report(config.node, config.secret, seen, &updates);
        if record::encoded_bytes("report", &request) <= MAX_REPORT_BYTES {
            return (request, count);
        }
        updates.truncate(count.div_ceil(2));
        if count == 1 && !keep_newer_half(&mut updates[0].0) {
            return (request, count);
        }
    }
}

/// Each task keeps the newer half of its events. False: none has any.
fn keep_newer_half(update: &mut AllocUpdate) -> bool {
    let mut dropped = 0;
    for state in update.task_states.values_mut() {
        dropped += state.events.drain(..state.events.len().div_ceil(2)).count();
    }
    dropped > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::{alloc_id, config};
    use model::alloc::ClientStatus;
    use model::task::{MAX_EVENTS, TaskEvent, TaskState};
    use model::time::{Span, Wall};

    /// An update of this many tasks, each with as many events as are kept, of the greatest length.
    fn update(n: u8, tasks: usize) -> (AllocUpdate, Option<Verdict>) {
        let event = |age: usize| TaskEvent {
            kind: "Driver Failure".into(),
            at: Wall(0) + Span::seconds(age as i64),
            message: "m".repeat(1024),
            details: [("driver_error".to_string(), "d".repeat(1024))].into(),
        };
        let state = TaskState { events: (0..MAX_EVENTS).map(event).collect(), ..TaskState::default() };
        let task_states = (0..tasks).map(|task| (format!("task-{task:03}"), state.clone())).collect();
        let client_description = String::new();
        (
            AllocUpdate { id: alloc_id(n), client: ClientStatus::Running, client_description, task_states },
            None,
        )
    }

    fn updates(request: &NodeRequest) -> &[AllocUpdate] {
        let NodeRequest::Report { updates, .. } = request else { panic!("a report") };
        updates
    }

    #[test]
    fn a_report_takes_as_many_updates_as_fit_into_an_entry() {
        let all: Vec<_> = (0..64).map(|n| update(n, 2)).collect();
        let (request, count) = fitting(&config(), 0, all.clone());
        assert!(record::encoded_bytes("report", &request) <= MAX_REPORT_BYTES);
        assert_eq!(count, 16, "64 and 32 of them are more than 1 MiB");
        let whole: Vec<_> = all[..16].iter().map(|(update, _)| update.clone()).collect();
        assert_eq!(updates(&request), whole);
    }

    #[test]
    fn an_update_that_is_too_large_alone_keeps_its_newest_events() {
        let all = vec![update(1, 150), update(2, 1)];
        let (request, count) = fitting(&config(), 0, all.clone());
        assert!(record::encoded_bytes("report", &request) <= MAX_REPORT_BYTES);
        assert_eq!(count, 1);
        let [told] = updates(&request) else { panic!("one update") };
        for (task, state) in &told.task_states {
            let known = &all[0].0.task_states[task].events;
            assert_eq!(state.events, known[8..], "the newest two of ten");
        }
    }
}
