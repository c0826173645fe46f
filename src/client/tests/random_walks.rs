//! Stream lives of a node: whatever happens in whatever order, no task ever runs twice at a time, and once the world is
//! whole again, what runs is what is wanted. A failing seed is named and repeats itself.

use super::fixtures::{alloc_id, assignment, restart, task};
use super::full_disk::set_room;
use super::world::{Process, World};
use model::alloc::DesiredStatus;
use model::job::{RestartMode, Task};
use model::random::Stream;
use model::resources::{Hook, Lifecycle};
use model::time::Span;
use wire::keeper::RunState;
use wire::rpc::Assignment;

const SEEDS: u64 = 100;
const STEPS: usize = 60;

fn group(n: u8) -> Assignment {
    let mut side =
        Task { lifecycle: Some(Lifecycle { hook: Hook::Prestart, sidecar: true }), ..task("side") };
    let mut web = task("web");
    for task in [&mut side, &mut web] {
        task.restart = restart(1000, RestartMode::Delay);
        task.restart.delay = Span::seconds(1);
    }
    assignment(n, &[web, side])
}

fn living(w: &World) -> Vec<usize> {
    let alive = |p: &Process| matches!(p.state, RunState::Running { .. });
    (0..w.processes.len()).filter(|i| alive(&w.processes[*i])).collect()
}

/// One thing happens. Returns its name.
fn happen(w: &mut World, dice: &mut Stream) -> &'static str {
    let pick = |dice: &mut Stream, n: usize| (dice.next_u64() % n as u64) as usize;
    match pick(dice, 16) {
        0 => {
            w.crash_agent();
            "agent crash"
        }
        1 => {
            if pick(dice, 2) == 0 {
                w.processes.clear();
            }
            w.reboot();
            "reboot"
        }
        2 if w.keeper_up => {
            w.drop_keeper();
            "keeper away"
        }
        2 | 3 if !w.keeper_up => {
            w.raise_keeper();
            "keeper back"
        }
        4 => {
            w.server_up = !w.server_up;
            "server"
        }
        5 => {
            w.lose_every = [None, Some(2), Some(3)][pick(dice, 3)];
            w.duplicate = !w.duplicate;
            "network"
        }
        6 => {
            let n = pick(dice, 4) as u8 + 1;
            if let Some(wanted) = w.assigned.get(&alloc_id(n)).map(|a| a.desired) {
                match wanted {
                    DesiredStatus::Run => w.stop_alloc(n),
                    DesiredStatus::Stop | DesiredStatus::Evict => w.remove_alloc(n),
                }
            }
            "stop or remove"
        }
        7 | 8 => {
            let lives = living(w);
            if !lives.is_empty() {
                let run = w.processes[lives[pick(dice, lives.len())]].run;
                w.exit_run(run, pick(dice, 2) as i32);
            }
            "exit"
        }
        9 => {
            w.slow_start = pick(dice, 8) as u32;
            w.stubborn = if w.stubborn.is_empty() { vec!["web".into()] } else { Vec::new() };
            "slow and stubborn"
        }
        12 => {
            set_room(w, dice.next_u64().is_multiple_of(2));
            "disk"
        }
        10 | 11 => {
            w.pass(Span::millis(pick(dice, 30_000) as i64));
            "time"
        }
        _ => {
            for _ in 0..pick(dice, 6) {
                w.step();
            }
            "steps"
        }
    }
}

fn assert_single(w: &World, story: &[&str]) {
    let labels = w.living_labels();
    let twice = labels.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "{story:?} {:#?}", w.trace);
}

fn heal(w: &mut World) {
    (w.server_up, w.lose_every, w.duplicate) = (true, None, false);
    if !w.keeper_up {
        w.raise_keeper();
    }
    set_room(w, true);
    w.pass(Span::minutes(12));
}

#[test]
fn random_faults_end_with_the_desired_state() {
    let mut happened = std::collections::BTreeMap::new();
    for seed in 0..SEEDS {
        let mut dice = Stream::new(seed, 0);
        let mut w = World::new(&[group(1), group(2), group(3), group(4)]);
        let mut story = Vec::new();
        for _ in 0..STEPS {
            story.push(happen(&mut w, &mut dice));
            assert_single(&w, &story);
        }
        heal(&mut w);
        let wanted = w.assigned.values().filter(|a| a.desired == DesiredStatus::Run);
        let mut labels: Vec<_> =
            wanted.flat_map(|a| ["side", "web"].map(|t| format!("{}.{t}", a.id))).collect();
        labels.sort();
        assert_eq!(w.living_labels(), labels, "seed {seed}: {story:?} {:#?}", w.trace);
        for a in w.assigned.values() {
            let status = if a.desired == DesiredStatus::Run { "running" } else { "complete" };
            assert_eq!(w.told[&a.id].client.as_str(), status, "seed {seed}: {story:?}");
        }
        assert_eq!(
            w.client().status().allocs.len(),
            w.assigned.len(),
            "seed {seed}: {story:?} {:#?} {:#?}",
            w.trace,
            w.client()
        );
        let unforgotten = w.processes.iter().filter(|p| !p.label.is_empty()).count();
        assert_eq!(unforgotten, labels.len(), "seed {seed}: runs are kept that have ended");
        for event in story {
            *happened.entry(event).or_insert(0) += 1;
        }
    }
    assert_eq!(happened.len(), 12, "something never happened: {happened:?}");
}
