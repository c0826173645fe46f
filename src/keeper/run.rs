//! One run: what is known of it, and what a spec must be like to become one.
//!
//! Refuses to know: other runs, clients and the journal.

use super::journal::Process;
use model::id::RunId;
use model::task::Exit;
use model::time::{Mono, Span, Wall};
use wire::keeper::{Event, RunLogs, RunSpec, RunState};

/// A run that the keeper knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub label: String,
    pub phase: Phase,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// The process is being made. `stop`: a stop that was requested meanwhile, carried out once it runs.
    Starting {
        logs: Option<RunLogs>,
        stop: Option<(i32, Span)>,
    },
    /// Has a process that waits to be let go, once it is journaled.
    Waiting {
        logs: Option<RunLogs>,
        process: Process,
        stop: Option<(i32, Span)>,
    },
    /// Was let go, and is about to become the command.
    Released {
        logs: Option<RunLogs>,
        process: Process,
        stop: Option<(i32, Span)>,
    },
    Running {
        logs: Option<RunLogs>,
        process: Process,
        kill_at: Option<Mono>,
    },
    /// The main process ended (journaled); what it left behind is being killed.
    Sweeping {
        process: Process,
        exit: Exit,
        at: Wall,
        next: Mono,
        give_up: Mono,
    },
    /// Lives, but its journal entry is lost: it is being ended. Not journaled before that is done, so that a keeper that
    /// starts meanwhile finds it again.
    Stray {
        process: Process,
        next: Mono,
        /// After the next look.
        pause: Span,
    },
    Ended {
        exit: Exit,
        at: Wall,
    },
    Failed {
        message: String,
        retryable: bool,
    },
}

/// The first pause between two looks at a stray; it doubles up to the last.
const STRAY_PAUSE: Span = Span::millis(20);
const LAST_STRAY_PAUSE: Span = Span::seconds(1);

impl Phase {
    pub fn stray(process: Process) -> Phase {
        Phase::Stray { process, next: Mono(0), pause: STRAY_PAUSE }
    }
}

impl Run {
    /// The state as agents see it. `None` while it is not clear whether there is a process.
    pub fn state(&self) -> Option<RunState> {
        match &self.phase {
            Phase::Starting { .. } | Phase::Waiting { .. } | Phase::Released { .. } => None,
            // A run that is being swept still runs: its ports and files may be in use until everything of it is gone.
            Phase::Running { process, .. }
            | Phase::Sweeping { process, .. }
            | Phase::Stray { process, .. } => {
                Some(RunState::Running { pid: process.pid, since: process.since })
            }
            Phase::Ended { exit, at } => Some(RunState::Exited { exit: *exit, at: *at }),
            Phase::Failed { message, retryable } => {
                Some(RunState::StartFailed { message: message.clone(), retryable: *retryable })
            }
        }
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. } | Phase::Failed { .. })
    }

    /// Whether the run has no running process yet.
    pub fn is_starting(&self) -> bool {
        matches!(self.phase, Phase::Starting { .. } | Phase::Waiting { .. } | Phase::Released { .. })
    }

    /// The journal says that a waiting process was released.
    pub fn release(&mut self) {
        if let Phase::Waiting { logs, process, .. } = &mut self.phase {
            self.phase = Phase::Running { logs: logs.take(), process: *process, kill_at: None };
        }
    }

    /// Sets when the next sweep is due.
    pub fn schedule_sweep(&mut self, now: Mono, every: Span) {
        match &mut self.phase {
            Phase::Sweeping { next, .. } => *next = now.after(every),
            Phase::Stray { next, pause, .. } => {
                *next = now.after(*pause);
                *pause = (*pause + *pause).min(LAST_STRAY_PAUSE);
            }
            _ => {}
        }
    }

    /// The next deadline of this run.
    pub fn deadline(&self) -> Option<Mono> {
        match &self.phase {
            Phase::Running { kill_at, .. } => *kill_at,
            Phase::Sweeping { next, .. } | Phase::Stray { next, .. } => Some(*next),
            _ => None,
        }
    }
}

pub const MAX_LABEL_BYTES: usize = 160;
/// Texts of failures are cut to this, so that a full list of runs fits into one message.
pub const MAX_FAILURE_BYTES: usize = 240;
const MAX_PATH_BYTES: usize = 4095;
const MAX_LOG_NAME_BYTES: usize = 200;
const MIN_LOG_FILE_BYTES: u64 = 1024;
const MAX_LOG_FILES: u32 = 10_000;

/// Why a spec cannot be started, in a sentence.
pub fn check(spec: &RunSpec) -> Result<(), String> {
    if !is_label(&spec.label) {
        return Err(format!(
            "the label {:?} must be 1 to {MAX_LABEL_BYTES} of A-Z a-z 0-9 . _ - and not start with a dot",
            spec.label
        ));
    }
    if spec.command.is_empty() {
        return Err("the command is empty: name a program".into());
    }
    if !spec.cwd.starts_with('/') || spec.cwd.len() > MAX_PATH_BYTES {
        return Err(format!("the working directory {:?} must be an absolute path", spec.cwd));
    }
    let texts = [&spec.command, &spec.cwd].into_iter().chain(&spec.args).chain(&spec.search);
    if texts.chain(spec.env.iter().flat_map(|(k, v)| [k, v])).any(|t| t.contains('\0')) {
        return Err("command, args, paths and env must not contain NUL bytes".into());
    }
    if let Some((key, _)) = spec.env.iter().find(|(k, _)| k.is_empty() || k.contains('=')) {
        return Err(format!("{key:?} is no name for an environment variable: it is empty or has a '='"));
    }
    spec.logs.as_ref().map_or(Ok(()), check_logs)
}

pub fn is_label(label: &str) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=MAX_LABEL_BYTES).contains(&label.len()) && !label.starts_with('.') && label.bytes().all(known)
}

fn check_logs(logs: &RunLogs) -> Result<(), String> {
    let name = &logs.name;
    if name.is_empty() || name.len() > MAX_LOG_NAME_BYTES || name.contains(['/', '\0']) || name == ".." {
        return Err(format!(
            "the log name {name:?} must be 1 to {MAX_LOG_NAME_BYTES} bytes without '/' and NUL"
        ));
    }
    if !logs.dir.starts_with('/') || logs.dir.len() > MAX_PATH_BYTES || logs.dir.contains('\0') {
        return Err(format!("the log directory {:?} must be an absolute path", logs.dir));
    }
    if !(1..=MAX_LOG_FILES).contains(&logs.max_files) || logs.max_file_bytes < MIN_LOG_FILE_BYTES {
        return Err(format!(
            "logs must have 1 to {MAX_LOG_FILES} files of at least {MIN_LOG_FILE_BYTES} bytes each"
        ));
    }
    Ok(())
}

/// At most `limit` bytes of `text`, cut between characters.
pub fn truncate(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// The event that reports a state to clients.
pub fn event_of(run: RunId, state: RunState) -> Event {
    match state {
        RunState::Running { pid, since } => Event::Started { run, pid, at: since },
        RunState::Exited { exit, at } => Event::Exited { run, exit, at },
        RunState::StartFailed { message, retryable } => Event::StartFailed { run, message, retryable },
    }
}

/// Texts in a list are short, so that `MAX_RUNS` of them fit into one message.
pub fn shortened(state: RunState) -> RunState {
    const SHORT_BYTES: usize = 40;
    match state {
        RunState::StartFailed { message, retryable } => {
            RunState::StartFailed { message: truncate(message, SHORT_BYTES), retryable }
        }
        other => other,
    }
}

pub fn is_signal(signal: i32) -> bool {
    (1..=64).contains(&signal)
}

/// For tests: a valid spec.
#[cfg(any(test, feature = "testing"))]
pub fn sample() -> RunSpec {
    RunSpec {
        label: "alloc.task".into(),
        command: "/bin/true".into(),
        args: vec![],
        search: vec![],
        env: vec![("A".into(), "b".into())],
        cwd: "/".into(),
        user: String::new(),
        logs: Some(RunLogs { dir: "/logs".into(), name: "task".into(), max_files: 2, max_file_bytes: 4096 }),
        cpu_mhz: 0,
        memory_bytes: 0,
        memory_low_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::sample as spec;
    use super::*;

    #[test]
    fn specs_are_checked_before_anything_is_done() {
        assert_eq!(check(&spec()), Ok(()));
        type Break = fn(&mut RunSpec);
        let cases: [(Break, &str); 14] = [
            (|s| s.label.clear(), "label"),
            (|s| s.label = "../x".into(), "label"),
            (|s| s.label = "a/b".into(), "label"),
            (|s| s.label = "ä".into(), "label"),
            (|s| s.label = "a".repeat(161), "label"),
            (|s| s.command.clear(), "command is empty"),
            (|s| s.args = vec!["a\0".into()], "NUL"),
            (|s| s.cwd = "x".into(), "absolute"),
            (|s| s.env.push(("A=B".into(), "c".into())), "'='"),
            (|s| s.env.push((String::new(), "c".into())), "empty"),
            (|s| s.logs.as_mut().unwrap().name = "a/../b".into(), "log name"),
            (|s| s.logs.as_mut().unwrap().dir = "rel".into(), "log directory"),
            (|s| s.logs.as_mut().unwrap().max_files = 0, "files"),
            (|s| s.logs.as_mut().unwrap().max_file_bytes = 1, "files"),
        ];
        for (spoil, says) in cases {
            let mut bad = spec();
            spoil(&mut bad);
            let message = check(&bad).expect_err(says);
            assert!(message.contains(says), "{message}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(truncate("aää".into(), 4), "aä");
        assert_eq!(truncate("abc".into(), 3), "abc");
        assert_eq!(truncate("ä".into(), 1), "");
    }
}
