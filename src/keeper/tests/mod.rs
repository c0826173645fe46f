//! Whole traces of the keeper's brain.

mod lost;

use super::brain::Keeper;
use super::effects::*;
use super::journal::{self, JournalEntry, Process};
use super::mark::Marked;
use super::restore::UNKNOWN_EXIT;
use super::run::sample as spec;
use model::id::{RunId, Uuid};
use model::task::{Exit, ExitStatus};
use model::time::{Mono, Span, Wall};
use wire::keeper::{Event, KeeperCommand, MAX_RUNS, MAX_SESSIONS, PROTOCOL, RunState};

const BOOT: Uuid = Uuid::from_bytes([7; 16]);
const OTHER_BOOT: Uuid = Uuid::from_bytes([8; 16]);
const AGENT: ClientId = 1;
const CODE_0: Exit = Exit { status: ExitStatus::Code(0), oom_killed: false };

/// A keeper with its journal, at a time.
struct World {
    keeper: Keeper,
    journal: Vec<u8>,
    now: Mono,
    /// What the last turn did: at once, and once durable.
    did: Vec<Effect>,
    told: Vec<Effect>,
    synced: bool,
}

impl World {
    fn new() -> World {
        World::from(BOOT, vec![]).0
    }

    fn from(boot: Uuid, journal: Vec<u8>) -> (World, Restored) {
        World::among(boot, journal, &[])
    }

    /// The next keeper, where processes with marks live.
    fn among(boot: Uuid, journal: Vec<u8>, marked: &[Marked]) -> (World, Restored) {
        let (keeper, restored) = Keeper::restore(boot, 99, &journal, marked, Wall(1000));
        let mut world = World { keeper, journal, now: Mono(0), did: vec![], told: vec![], synced: false };
        world.write(restored.write.clone());
        world.turn(vec![command(KeeperCommand::Hello { protocol: PROTOCOL })]);
        (world, restored)
    }

    fn write(&mut self, write: Write) {
        self.synced = !matches!(write, Write::Nothing | Write::Append { sync: false, .. });
        match write {
            Write::Nothing => {}
            Write::Append { bytes, .. } => self.journal.extend(bytes),
            Write::Replace(bytes) => self.journal = bytes,
        }
    }

    fn turn(&mut self, inputs: Vec<Input>) {
        let mut turn = self.keeper.turn(self.now, Wall(500), inputs);
        self.did = std::mem::take(&mut turn.now);
        self.write(turn.write.clone());
        self.told = turn.deferred(Durable);
    }

    fn after(&mut self, span: Span) {
        self.now = self.now.after(span);
        self.turn(vec![]);
    }

    /// A run that executes its command.
    fn running(&mut self, n: u32) -> RunId {
        let run = id(n);
        self.turn(vec![start(run)]);
        self.released(run, n);
        self.turn(vec![Input::Executed { run }]);
        run
    }

    /// From its fork to its release.
    fn released(&mut self, run: RunId, pid: u32) {
        self.turn(vec![Input::Spawned { run, pid, start_ticks: 1 }]);
        self.turn(vec![Input::Journaled { run }]);
        assert_eq!(self.told, [Effect::Release { run }]);
    }

    fn ended(&mut self, n: u32) -> RunId {
        let run = self.running(n);
        self.turn(vec![Input::Exited { run, exit: CODE_0 }]);
        self.turn(vec![Input::Swept { run, empty: true }]);
        run
    }

    fn states(&mut self) -> Vec<RunState> {
        self.turn(vec![command(KeeperCommand::List)]);
        match self.told.first() {
            Some(Effect::Send { event: Event::Welcome { runs, .. }, .. }) => {
                runs.iter().map(|r| r.state.clone()).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn id(n: u32) -> RunId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    RunId(Uuid::from_bytes(bytes))
}

fn command(command: KeeperCommand) -> Input {
    Input::Command { client: AGENT, command }
}

fn start(run: RunId) -> Input {
    command(KeeperCommand::Start { run, spec: Box::new(spec()) })
}

fn stop(run: RunId, timeout: Span) -> Input {
    command(KeeperCommand::Stop { run, signal: 15, timeout })
}

fn send(event: Event) -> Effect {
    Effect::Send { client: AGENT, event }
}

fn refused(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Send { event: Event::Refused { .. }, .. }, ..])
}

#[test]
fn a_run_from_start_to_forgotten() {
    let mut w = World::new();
    let run = id(1);
    w.turn(vec![start(run)]);
    assert_eq!(w.did, [Effect::Spawn { run, spec: Box::new(spec()) }]);
    assert!(w.told.is_empty() && w.journal.is_empty());
    // Its process is let go only once it is journaled, and after the journal says so; and told only once it executed.
    w.turn(vec![Input::Spawned { run, pid: 5, start_ticks: 6 }]);
    assert!(w.did.is_empty() && !w.synced && !w.journal.is_empty(), "nothing of a start outlives the boot");
    assert_eq!(w.told, [Effect::ConfirmJournaled { run }]);
    let waiting = w.journal.len();
    w.turn(vec![Input::Journaled { run }]);
    assert!(w.did.is_empty() && !w.synced && w.journal.len() > waiting);
    assert_eq!(w.told, [Effect::Release { run }]);
    w.turn(vec![Input::Executed { run }]);
    assert_eq!(w.told, [send(Event::Started { run, pid: 5, at: Wall(500) })]);
    // An end is journaled at once and told when nothing is left of the run.
    w.turn(vec![Input::Exited { run, exit: CODE_0 }]);
    assert_eq!((&w.did[..], &w.told[..], w.synced), (&[Effect::Sweep { run }][..], &[][..], true));
    w.turn(vec![Input::Swept { run, empty: false }]);
    assert!(w.told.is_empty());
    w.after(Span::millis(20));
    assert_eq!(w.did, [Effect::Sweep { run }]);
    w.turn(vec![Input::Swept { run, empty: true }]);
    assert_eq!(w.did, [Effect::Close { run }]);
    assert_eq!(w.told, [send(Event::Exited { run, exit: CODE_0, at: Wall(500) })]);
    assert_eq!(w.keeper.next_deadline(), None);
    w.turn(vec![command(KeeperCommand::Forget { run })]);
    assert!(!w.synced && w.states().is_empty());
}

#[test]
fn a_whole_journal_says_what_was_written_bit_by_bit() {
    let mut w = World::new();
    w.turn(vec![start(id(1)), start(id(2))]);
    w.turn(vec![Input::Spawned { run: id(1), pid: 5, start_ticks: 6 }]);
    w.turn(vec![Input::Spawned { run: id(2), pid: 7, start_ticks: 8 }]);
    let Write::Replace(whole) = w.keeper.whole_journal() else { panic!("it is not replaced") };
    assert_eq!(journal::read(&whole).entries, journal::read(&w.journal).entries);
    w.turn(vec![Input::Journaled { run: id(1) }]);
    w.turn(vec![Input::Executed { run: id(1) }, Input::Exited { run: id(1), exit: CODE_0 }]);
    let Write::Replace(whole) = w.keeper.whole_journal() else { panic!("it is not replaced") };
    let entries = journal::read(&whole).entries;
    assert!(matches!(entries[..], [JournalEntry::Ended { .. }, JournalEntry::Waiting { .. }]), "{entries:?}");
}

#[test]
fn commands_are_idempotent_and_an_idle_keeper_writes_nothing() {
    let mut w = World::new();
    let run = w.running(1);
    w.turn(vec![start(run)]);
    assert_eq!((w.did.len(), w.told.len()), (0, 1), "told what it came to");
    w.turn(vec![
        Input::Spawned { run, pid: 9, start_ticks: 9 },
        Input::Journaled { run },
        Input::Executed { run },
    ]);
    assert!(w.did.is_empty() && w.told.is_empty());
    let before = w.journal.clone();
    w.after(Span::hours(24));
    assert!(w.did.is_empty() && w.told.is_empty() && w.journal == before);
    w.turn(vec![Input::Exited { run, exit: CODE_0 }, Input::Exited { run, exit: UNKNOWN_EXIT }]);
    w.turn(vec![Input::Swept { run, empty: true }, Input::Swept { run, empty: true }]);
    assert_eq!(w.told, [send(Event::Exited { run, exit: CODE_0, at: Wall(500) })]);
    w.turn(vec![stop(run, Span::ZERO)]);
    assert_eq!((w.did.len(), w.told.len()), (0, 1), "told how it ended");
}

#[test]
fn a_stop_kills_in_time_and_again() {
    let mut w = World::new();
    let run = w.running(1);
    w.turn(vec![stop(run, Span::seconds(5))]);
    assert_eq!(w.did, [Effect::Signal { run, signal: 15 }]);
    // A later stop does not push the end away; an earlier one brings it nearer.
    w.turn(vec![stop(run, Span::seconds(60)), stop(run, Span::seconds(2))]);
    w.after(Span::millis(1999));
    assert!(w.did.is_empty());
    w.after(Span::millis(1));
    assert_eq!(w.did, [Effect::Kill { run }]);
    w.after(Span::seconds(1));
    assert_eq!(w.did, [Effect::Kill { run }]);
}

#[test]
fn a_stop_that_comes_before_the_process_is_kept() {
    let mut w = World::new();
    let run = id(1);
    w.turn(vec![start(run), stop(run, Span::seconds(1))]);
    assert!(!w.did.contains(&Effect::Signal { run, signal: 15 }));
    w.released(run, 5);
    w.turn(vec![Input::Executed { run }]);
    assert_eq!(w.did, [Effect::Signal { run, signal: 15 }]);
    w.after(Span::seconds(1));
    assert_eq!(w.did, [Effect::Kill { run }]);
}

#[test]
fn an_unkillable_process_delays_the_exit_only_for_a_bound() {
    let mut w = World::new();
    let run = w.running(1);
    w.turn(vec![Input::Exited { run, exit: CODE_0 }]);
    w.after(Span::millis(9_999));
    w.turn(vec![Input::Swept { run, empty: false }]);
    assert!(w.told.is_empty());
    w.after(Span::millis(1));
    w.turn(vec![Input::Swept { run, empty: false }]);
    assert_eq!(w.told.len(), 1);
}

#[test]
fn refusals_have_a_sentence_and_no_effect() {
    let mut w = World::new();
    let (running, unknown) = (w.running(1), id(9));
    for input in [
        command(KeeperCommand::Signal { run: running, signal: 0 }),
        command(KeeperCommand::Signal { run: running, signal: 65 }),
        command(KeeperCommand::Signal { run: unknown, signal: 15 }),
        command(KeeperCommand::Stop { run: unknown, signal: 15, timeout: Span::ZERO }),
        command(KeeperCommand::Stop { run: running, signal: -1, timeout: Span::ZERO }),
        command(KeeperCommand::Forget { run: running }),
        Input::Command { client: 7, command: KeeperCommand::List },
        Input::Command { client: 7, command: KeeperCommand::Hello { protocol: PROTOCOL + 1 } },
    ] {
        w.turn(vec![input.clone()]);
        assert!(w.did.is_empty() && refused(&w.told), "{input:?}: {:?}", w.told);
    }
    let mut bad = spec();
    bad.cwd = "relative".into();
    w.turn(vec![command(KeeperCommand::Start { run: unknown, spec: Box::new(bad) })]);
    assert!(matches!(&w.did[..], [Effect::Send { event: Event::StartFailed { retryable: false, .. }, .. }]));
}

#[test]
fn a_failed_start_is_kept_like_an_end() {
    let mut w = World::new();
    let run = id(1);
    w.turn(vec![start(run)]);
    w.turn(vec![Input::SpawnFailed { run, message: "é".repeat(500), retryable: false }]);
    assert!(w.synced && w.did == [Effect::Close { run }]);
    let (mut again, _) = World::from(BOOT, w.journal.clone());
    assert!(
        matches!(&again.states()[..], [RunState::StartFailed { message, retryable: false }] if !message.is_empty())
    );
    again.turn(vec![start(run)]);
    assert!(again.did.is_empty() && again.told.len() == 1);
}

#[test]
fn a_start_that_may_work_later_is_tried_again() {
    let mut w = World::new();
    let run = id(1);
    for _ in 0..2 {
        w.turn(vec![start(run)]);
        assert_eq!(w.did.len(), 1);
        w.released(run, 5);
        w.turn(vec![Input::SpawnFailed { run, message: "no memory".into(), retryable: true }]);
        assert_eq!(w.told, [send(Event::StartFailed { run, message: "no memory".into(), retryable: true })]);
        assert!(World::from(BOOT, w.journal.clone()).1.running.is_empty());
    }
}

#[test]
fn a_journal_that_cannot_be_written_stops_starts_only() {
    let mut w = World::new();
    w.turn(vec![Input::Journal { fault: Some("no space".into()) }, start(id(1))]);
    assert!(
        matches!(&w.did[..], [Effect::Send { event: Event::StartFailed { message, retryable: true, .. }, .. }] if message.contains("no space"))
    );
    w.turn(vec![Input::Journal { fault: None }, start(id(1))]);
    assert_eq!(w.did.len(), 1);
}

#[test]
fn runs_are_bounded_and_their_list_fits_into_a_message() {
    let mut w = World::new();
    let long = "l".repeat(super::run::MAX_LABEL_BYTES);
    for n in 0..MAX_RUNS as u32 {
        let mut spec = spec();
        spec.label = long.clone();
        let run = id(n);
        w.turn(vec![command(KeeperCommand::Start { run, spec: Box::new(spec) })]);
        w.turn(vec![Input::SpawnFailed { run, message: "m".repeat(999), retryable: false }]);
    }
    w.turn(vec![start(id(u32::MAX))]);
    assert!(matches!(w.did[..], [Effect::Send { event: Event::StartFailed { retryable: true, .. }, .. }]));
    w.turn(vec![command(KeeperCommand::List)]);
    let Some(Effect::Send { event, .. }) = w.told.first() else { panic!("{:?}", w.told) };
    assert!(wire::record::encode(event).len() <= wire::keeper::MAX_MESSAGE_BYTES);
    w.turn(vec![command(KeeperCommand::Forget { run: id(0) }), start(id(u32::MAX))]);
    assert_eq!(w.did.len(), 1);
}

#[test]
fn another_keeper_of_the_same_boot_goes_on() {
    let mut w = World::new();
    let (running, ended) = (w.running(1), w.ended(2));
    let (mut next, restored) = World::from(BOOT, w.journal.clone());
    let adopted: Vec<(RunId, Process)> = restored.running.iter().map(|a| (a.run, a.process)).collect();
    assert_eq!(adopted, [(running, Process { pid: 1, start_ticks: 1, since: Wall(500) })]);
    assert_eq!(restored.ended, [(ended, "alloc.task".to_string())]);
    assert_eq!(restored.write, Write::Nothing);
    next.turn(vec![start(running), start(ended)]);
    assert!(next.did.is_empty() && next.told.len() == 2);
    // The process was not found: an end that nobody saw.
    next.turn(vec![Input::Exited { run: running, exit: UNKNOWN_EXIT }]);
    next.turn(vec![Input::Swept { run: running, empty: true }]);
    assert_eq!(next.told, [send(Event::Exited { run: running, exit: UNKNOWN_EXIT, at: Wall(500) })]);
}

#[test]
fn after_a_reboot_every_run_has_an_unknown_exit() {
    let mut w = World::new();
    let (running, ended) = (w.running(1), w.ended(2));
    let (mut next, restored) = World::from(OTHER_BOOT, w.journal.clone());
    assert!(restored.running.is_empty() && matches!(restored.write, Write::Replace(_)));
    assert_eq!(
        next.states(),
        [
            RunState::Exited { exit: UNKNOWN_EXIT, at: Wall(1000) },
            RunState::Exited { exit: CODE_0, at: Wall(500) }
        ]
    );
    next.turn(vec![start(running), start(ended)]);
    assert!(next.did.is_empty());
}

#[test]
fn a_journal_cut_anywhere_starts_no_reported_run_twice() {
    let mut w = World::new();
    let mut journaled = vec![];
    for n in 1..=5 {
        let run = w.running(n);
        journaled.push((run, w.journal.len()));
    }
    for cut in 0..=w.journal.len() {
        let (mut next, _) = World::from(BOOT, w.journal[..cut].to_vec());
        for (run, _) in journaled.iter().filter(|(_, at)| *at <= cut) {
            next.turn(vec![start(*run)]);
            assert!(next.did.is_empty(), "cut at {cut}");
        }
    }
}

#[test]
fn the_journal_does_not_grow_with_what_is_forgotten() {
    let mut w = World::new();
    let kept = w.running(0);
    let mut largest = 0;
    for n in 1..3000 {
        let run = w.ended(n);
        w.turn(vec![command(KeeperCommand::Forget { run })]);
        largest = largest.max(w.journal.len());
    }
    assert!((60_000..70_000).contains(&largest), "{largest}");
    let entries = journal::read(&w.journal).entries;
    assert!(entries.iter().any(|e| matches!(e, JournalEntry::Started { run, .. } if *run == kept)));
    assert_eq!(World::from(BOOT, w.journal.clone()).1.running.len(), 1);
}

#[test]
fn a_shutdown_ends_all_runs_first() {
    for input in
        [command(KeeperCommand::Shutdown { signal: 15, timeout: Span::millis(500) }), Input::AgentGone]
    {
        let mut w = World::new();
        let (a, b) = (w.running(1), w.running(2));
        w.turn(vec![input]);
        assert_eq!(w.did, [Effect::Signal { run: a, signal: 15 }, Effect::Signal { run: b, signal: 15 }]);
        w.turn(vec![start(id(3))]);
        assert!(matches!(
            w.did[..],
            [Effect::Send { event: Event::StartFailed { retryable: true, .. }, .. }]
        ));
        w.turn(vec![Input::Exited { run: a, exit: CODE_0 }]);
        w.turn(vec![Input::Swept { run: a, empty: true }]);
        assert!(!w.told.contains(&Effect::Exit));
        w.after(Span::millis(500));
        assert_eq!(w.did, [Effect::Kill { run: b }]);
        w.turn(vec![Input::Exited { run: b, exit: CODE_0 }]);
        w.turn(vec![Input::Swept { run: b, empty: true }]);
        assert_eq!(w.told.last(), Some(&Effect::Exit));
    }
}

fn exec(client: ClientId, run: RunId) -> Input {
    Input::Command { client, command: KeeperCommand::Exec { run, spec: Box::new(spec()), tty: true } }
}

/// Another connection.
fn guest(w: &mut World, client: ClientId) -> ClientId {
    w.turn(vec![Input::Command { client, command: KeeperCommand::Hello { protocol: PROTOCOL } }]);
    client
}

#[test]
fn a_session_lasts_as_long_as_its_connection_and_its_run() {
    let mut w = World::new();
    let run = w.running(1);
    let journal = w.journal.clone();
    let client = guest(&mut w, 2);
    w.turn(vec![exec(client, run)]);
    assert_eq!(w.did, [Effect::Exec { client, run, spec: Box::new(spec()), tty: true }]);
    w.turn(vec![exec(client, run)]);
    assert!(refused(&w.did), "one for each connection");
    w.turn(vec![Input::SessionEnded { client, exit: CODE_0 }]);
    let told = Effect::Send { client, event: Event::SessionEnded { exit: CODE_0 } };
    assert_eq!(w.did, [told, Effect::Disconnect { client }]);
    w.turn(vec![Input::Gone { client }]);
    assert_eq!(w.did, [], "it has ended already");

    let client = guest(&mut w, 3);
    w.turn(vec![exec(client, run), Input::Gone { client }]);
    assert_eq!(w.did[1..], [Effect::EndSession { client }]);

    let client = guest(&mut w, 4);
    w.turn(vec![exec(client, run)]);
    w.turn(vec![Input::SessionFailed { client, message: "no such file".into() }]);
    assert!(refused(&w.did) && w.did.contains(&Effect::Disconnect { client }), "{:?}", w.did);

    let client = guest(&mut w, 5);
    assert_eq!(w.journal, journal, "nothing of it is written down");
    w.turn(vec![exec(client, run)]);
    w.turn(vec![Input::Exited { run, exit: CODE_0 }]);
    assert!(w.did.contains(&Effect::EndSession { client }), "{:?}", w.did);
}

#[test]
fn clients_with_a_session_get_no_events_of_runs() {
    let mut w = World::new();
    let (run, other) = (w.running(1), w.running(2));
    let (listener, client) = (guest(&mut w, 8), guest(&mut w, 9));
    w.turn(vec![exec(client, run)]);
    w.turn(vec![Input::Exited { run: other, exit: CODE_0 }]);
    w.turn(vec![Input::Swept { run: other, empty: true }]);
    let heard = |who| w.told.iter().any(|e| matches!(e, Effect::Send { client, .. } if *client == who));
    assert!(heard(listener) && !heard(client), "{:?}", w.told);
}

#[test]
fn sessions_are_bounded_and_need_a_process() {
    let mut w = World::new();
    let ended = w.ended(1);
    for run in [ended, id(9)] {
        let client = guest(&mut w, 7);
        w.turn(vec![exec(client, run)]);
        assert!(refused(&w.did), "{:?}", w.did);
    }
    let run = w.running(2);
    for client in (0..MAX_SESSIONS as ClientId).map(|n| 10 + n) {
        guest(&mut w, client);
        w.turn(vec![exec(client, run)]);
        assert!(matches!(w.did[..], [Effect::Exec { .. }]), "{:?}", w.did);
    }
    let client = guest(&mut w, 99);
    w.turn(vec![exec(client, run)]);
    assert!(refused(&w.did), "{:?}", w.did);
    w.turn(vec![Input::Gone { client: 10 }]);
    w.turn(vec![exec(client, run)]);
    assert!(matches!(w.did[..], [Effect::Exec { .. }]), "{:?}", w.did);
}
