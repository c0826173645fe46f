//! Keepers that died in the middle of a start, and journals that lost entries: what the next keeper makes of it.

use super::*;
use crate::mark::Marked;

fn marked(run: RunId, pid: u32) -> Marked {
    Marked { run, label: "alloc.task".into(), process: process(pid) }
}

fn process(pid: u32) -> Process {
    Process { pid, start_ticks: 1, since: Wall(1000) }
}

/// The journal without the entries that `lost` names, as damage leaves it.
fn without(journal: &[u8], lost: impl Fn(&JournalEntry) -> bool) -> Vec<u8> {
    let mut left = Vec::new();
    for entry in journal::read(journal).entries {
        let begins = left.len();
        journal::append(&mut left, &entry);
        if lost(&entry) {
            left[begins] ^= 1;
        }
    }
    left
}

/// All that is needed to say how a run stands.
fn stands(w: &mut World) -> Option<RunState> {
    w.states().pop()
}

#[test]
fn only_a_run_that_was_not_released_may_start_again() {
    let mut w = World::new();
    let run = id(1);
    w.turn(vec![start(run)]);
    w.turn(vec![Input::Spawned { run, pid: 1, start_ticks: 1 }]);
    // once is as often as it takes: the second keeper died at the same place
    let mut journal = w.journal.clone();
    for _ in 0..2 {
        let (mut next, restored) = World::from(BOOT, journal);
        assert_eq!(
            restored.ended,
            [(run, "alloc.task".to_string())],
            "what its process left is cleared away"
        );
        assert!(restored.running.is_empty() && restored.strays.is_empty());
        assert!(next.states().is_empty() && World::from(BOOT, next.journal.clone()).1.ended.is_empty());
        next.turn(vec![start(run)]);
        assert!(matches!(next.did[..], [Effect::Spawn { .. }]));
        next.turn(vec![Input::Spawned { run, pid: 2, start_ticks: 1 }]);
        journal = next.journal;
    }
    w.turn(vec![Input::Journaled { run }]);
    let (mut next, restored) = World::from(BOOT, w.journal.clone());
    assert_eq!(restored.running.len(), 1);
    next.turn(vec![start(run)]);
    assert!(next.did.is_empty());
}

#[test]
fn after_a_reboot_a_run_that_waited_counts_as_ended() {
    let mut w = World::new();
    let run = id(1);
    w.turn(vec![start(run)]);
    w.turn(vec![Input::Spawned { run, pid: 1, start_ticks: 1 }]);
    let (mut next, _) = World::from(OTHER_BOOT, w.journal);
    assert_eq!(stands(&mut next), Some(RunState::Exited { exit: UNKNOWN_EXIT, at: Wall(1000) }));
}

/// What is lost of the journal of one living run, and whether its process must be ended for it.
#[test]
fn only_processes_without_a_journal_entry_are_killed() {
    type Lost = fn(&JournalEntry) -> bool;
    let cases: [(Lost, bool); 4] = [
        (|_| false, false),
        (|_| true, true),
        (|e| matches!(e, JournalEntry::Waiting { .. }), true),
        (|e| matches!(e, JournalEntry::Released { .. }), false),
    ];
    for (n, (lost, stray)) in cases.into_iter().enumerate() {
        let mut w = World::new();
        let run = w.running(1);
        let (mut next, restored) = World::among(BOOT, without(&w.journal, lost), &[marked(run, 1)]);
        assert_eq!(restored.strays.len(), usize::from(stray), "case {n}");
        assert_eq!(restored.running.len(), usize::from(!stray), "case {n}");
        assert!(matches!(stands(&mut next), Some(RunState::Running { pid: 1, .. })), "case {n}");
        next.turn(vec![start(run)]);
        assert!(!next.did.iter().any(|e| matches!(e, Effect::Spawn { .. })), "case {n}");
    }
}

#[test]
fn a_stray_is_killed_and_reported_with_unknown_exit() {
    let run = id(1);
    let marks = [marked(run, 8), marked(run, 7)];
    let (keeper, restored) = Keeper::restore(BOOT, 99, &[], &marks, Wall(1000));
    assert_eq!(restored.strays[0].processes, [process(8), process(7)]);
    assert_eq!(restored.write, Write::Nothing, "whoever comes next finds it again");
    let mut w = World { keeper, journal: vec![], now: Mono(0), did: vec![], told: vec![], synced: false };
    w.turn(vec![command(KeeperCommand::Hello { protocol: PROTOCOL })]);
    assert_eq!(w.did, [Effect::Sweep { run }]);
    w.turn(vec![Input::Swept { run, empty: false }, stop(run, Span::ZERO)]);
    assert!(w.did.is_empty() && w.told.is_empty() && w.journal.is_empty());
    // looked at again and again, ever less often
    let mut looks = 0;
    for _ in 0..500 {
        w.after(Span::millis(20));
        looks += usize::from(w.did == [Effect::Sweep { run }]);
    }
    assert!((10..20).contains(&looks), "{looks} in 10 s");
    w.turn(vec![Input::Swept { run, empty: true }]);
    assert_eq!((&w.did[..], w.synced), (&[Effect::Close { run }][..], true));
    assert_eq!(w.told, [send(Event::Exited { run, exit: UNKNOWN_EXIT, at: Wall(500) })]);
    let (mut next, restored) = World::among(BOOT, w.journal.clone(), &[]);
    next.turn(vec![start(run)]);
    assert!(restored.strays.is_empty() && next.did.is_empty() && next.told.len() == 1);
}

#[test]
fn a_lost_release_entry_makes_the_process_a_stray() {
    let mut w = World::new();
    let run = w.running(1);
    // its process is gone, so it carries no mark
    let journal = without(&w.journal, |e| matches!(e, JournalEntry::Released { .. }));
    let (mut next, restored) = World::from(BOOT, journal);
    assert_eq!(restored.strays[0].processes, [process(1)]);
    next.turn(vec![Input::Swept { run, empty: true }]);
    assert_eq!(next.told, [send(Event::Exited { run, exit: UNKNOWN_EXIT, at: Wall(500) })]);
    let journal = without(&w.journal, |e| matches!(e, JournalEntry::Waiting { .. }));
    let (mut next, _) = World::from(BOOT, journal);
    assert_eq!(stands(&mut next), Some(RunState::Exited { exit: UNKNOWN_EXIT, at: Wall(1000) }));
}

#[test]
fn forged_marks_neither_fill_the_keeper_nor_change_runs() {
    let mut w = World::new();
    let (running, ended) = (w.running(1), w.ended(2));
    let made_up = (10..10 + MAX_RUNS as u32).map(|n| marked(id(n), n));
    let marks: Vec<Marked> = made_up.chain([marked(running, 5), marked(ended, 6)]).collect();
    let (mut next, restored) = World::among(BOOT, w.journal, &marks);
    assert_eq!(restored.strays.len(), MAX_RUNS - 2);
    assert!(restored.strays.iter().all(|s| s.run != running && s.run != ended));
    assert_eq!(restored.running[0].process.pid, 1);
    assert!(next.states().contains(&RunState::Exited { exit: CODE_0, at: Wall(500) }));
}
