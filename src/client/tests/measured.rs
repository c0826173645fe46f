//! What the client counts of its allocations, for dashboards and alerts.

use super::fixtures::{assignment, restart, task};
use super::world::World;
use model::job::{RestartMode, Task};
use model::task::{Exit, ExitStatus};
use model::time::Span;

const COUNTED: [&str; 7] = ["start", "running", "restart", "oom_killed", "failed", "complete", "destroy"];

fn counted(w: &World) -> [u64; 7] {
    let measured = w.client().status().measured;
    let counter = |name| measured.counters.get(format!("client.allocs.{name}").as_str());
    COUNTED.map(|name| counter(name).expect("is there before its first event").total.sum)
}

#[test]
fn each_counter_of_allocations_counts_its_own_event() {
    let web = Task { restart: restart(1, RestartMode::Fail), ..task("web") };
    assert_eq!(counted(&World::new(&[])), [0; 7], "a rate is told of what begins with 0");
    let mut w = World::new(&[assignment(1, &[web])]);
    w.pass(Span::seconds(2));
    assert_eq!(counted(&w), [1, 1, 0, 0, 0, 0, 0], "{COUNTED:?}");
    w.exit("web", 1);
    w.pass(Span::minutes(1));
    let restarted = counted(&w);
    assert_eq!((restarted[0], &restarted[2..]), (2, &[1, 0, 0, 0, 0][..]), "{COUNTED:?}");
    let run = w.processes.last().expect("it runs").run;
    w.end_with(run, Exit { status: ExitStatus::Signal(9), oom_killed: true });
    w.pass(Span::minutes(1));
    assert_eq!(counted(&w)[2..], [1, 1, 1, 0, 0], "{COUNTED:?}");
    w.remove_alloc(1);
    w.pass(Span::minutes(1));
    assert_eq!(counted(&w)[2..], [1, 1, 1, 0, 1], "{COUNTED:?}");
}
