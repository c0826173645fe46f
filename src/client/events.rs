//! Task events in the words of Nomad's API (client.md 8.2).
use super::run_limit;
use model::task::{Exit, ExitStatus, TaskEvent};
use model::time::{Span, Wall};

pub const MAX_RUN_DURATION: &str = "Max Run Duration Exceeded";
/// The longest sentence kept in an event, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

fn event(kind: &str, at: Wall, message: impl Into<String>, details: &[(&str, String)]) -> TaskEvent {
    let details = details.iter().map(|(k, v)| (k.to_string(), clipped(v.clone()))).collect();
    TaskEvent { kind: kind.to_string(), at, message: clipped(message.into()), details }
}

fn clipped(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

pub fn received(at: Wall) -> TaskEvent {
    event("Received", at, "Task received by client", &[])
}

pub fn task_setup(at: Wall) -> TaskEvent {
    event("Task Setup", at, "Building Task Directory", &[("message", "Building Task Directory".into())])
}

pub fn setup_failure(at: Wall, why: &str) -> TaskEvent {
    event("Setup Failure", at, why, &[("setup_error", why.into()), ("fails_task", "true".into())])
}

pub fn alloc_unhealthy(at: Wall, why: &str) -> TaskEvent {
    event("Alloc Unhealthy", at, why, &[("message", why.into())])
}

pub fn failed_validation(at: Wall, why: &str) -> TaskEvent {
    event("Failed Validation", at, why, &[("validation_error", why.into())])
}

pub fn driver_failure(at: Wall, why: &str) -> TaskEvent {
    event("Driver Failure", at, why, &[("driver_error", why.into())])
}

pub fn started(at: Wall) -> TaskEvent {
    event("Started", at, "Task started by client", &[])
}

pub fn terminated(at: Wall, exit: Exit) -> TaskEvent {
    let mut message = format!("Exit Code: {}", exit.code());
    if exit.signal() != 0 {
        message.push_str(&format!(", Signal: {}", exit.signal()));
    }
    let mut details = vec![
        ("exit_code", exit.code().to_string()),
        ("signal", exit.signal().to_string()),
        ("oom_killed", exit.oom_killed.to_string()),
    ];
    let why = match exit {
        Exit { oom_killed: true, .. } => Some("OOM Killed"),
        Exit { status: ExitStatus::Unknown, .. } => Some("nobody saw how it ended"),
        _ => None,
    };
    if let Some(why) = why {
        message.push_str(&format!(", Exit Message: {why:?}"));
        details.push(("exit_message", why.into()));
    }
    event("Terminated", at, message, &details)
}

/// `in_policy`: the reason says nothing that a user does not expect, and is left out of the sentence.
pub fn restarting(at: Wall, delay: Span, reason: &str, in_policy: bool) -> TaskEvent {
    let plain = format!("Task restarting in {delay}");
    let message = if in_policy { plain } else { format!("{reason} - {plain}") };
    let details = [("restart_reason", reason.into()), ("start_delay", delay.as_nanos().to_string())];
    event("Restarting", at, message, &details)
}

pub fn not_restarting(at: Wall, reason: &str) -> TaskEvent {
    event("Not Restarting", at, reason, &[("restart_reason", reason.into()), ("fails_task", "true".into())])
}

pub fn restart_signaled(at: Wall, why: &str) -> TaskEvent {
    event("Restart Signaled", at, why, &[("restart_reason", why.into())])
}

pub fn signaling(at: Wall, signal: &str) -> TaskEvent {
    event("Signaling", at, "Task being sent a signal", &[("signal", signal.into())])
}

pub fn killing(at: Wall, timeout: Span) -> TaskEvent {
    let message = format!("Sent interrupt. Waiting {timeout} before force killing");
    event("Killing", at, message, &[("kill_timeout", timeout.to_string())])
}

pub fn killed(at: Wall) -> TaskEvent {
    event("Killed", at, "Task successfully killed", &[])
}

pub fn shutdown_delay(at: Wall, delay: Span) -> TaskEvent {
    let message = format!("Waiting for shutdown_delay of {delay} before killing the task.");
    event("Waiting for shutdown delay", at, message, &[])
}

pub fn skipped_shutdown_delay(at: Wall, delay: Span) -> TaskEvent {
    let message = format!("Skipping shutdown_delay of {delay} before killing the task.");
    event("Skipping shutdown delay", at, message, &[])
}

pub fn sibling_failed(at: Wall, sibling: &str) -> TaskEvent {
    let message = format!("Task's sibling {sibling:?} failed");
    event("Sibling Task Failed", at, message, &[("failed_sibling", sibling.into())])
}

pub fn disconnected(at: Wall) -> TaskEvent {
    let message = "No server was heard of for as long as stop_on_client_after says";
    event("Disconnected", at, message, &[])
}

pub fn max_run_duration(at: Wall) -> TaskEvent {
    event(MAX_RUN_DURATION, at, run_limit::EXCEEDED, &[])
}

pub fn leader_dead(at: Wall) -> TaskEvent {
    event("Leader Task Dead", at, "Leader Task in Group dead", &[])
}

pub fn main_tasks_dead(at: Wall) -> TaskEvent {
    event("Main Tasks Dead", at, "Main tasks in the group died", &[])
}

pub fn failed_restoring(at: Wall, why: &str) -> TaskEvent {
    event("Failed Restoring Task", at, why, &[("message", why.into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_events_have_nomads_texts() {
        let cases = [
            (ExitStatus::Code(0), false, "Exit Code: 0", "0", "0"),
            (ExitStatus::Signal(9), false, "Exit Code: 137, Signal: 9", "137", "9"),
            (
                ExitStatus::Signal(9),
                true,
                "Exit Code: 137, Signal: 9, Exit Message: \"OOM Killed\"",
                "137",
                "9",
            ),
            (
                ExitStatus::Unknown,
                false,
                "Exit Code: -1, Exit Message: \"nobody saw how it ended\"",
                "-1",
                "0",
            ),
        ];
        for (status, oom_killed, message, code, signal) in cases {
            let made = terminated(Wall::NEVER, Exit { status, oom_killed });
            assert_eq!(made.message, message);
            assert_eq!(made.details["exit_code"], code);
            assert_eq!(made.details["signal"], signal);
            assert_eq!(made.details["oom_killed"], oom_killed.to_string());
        }
    }

    #[test]
    fn long_sentences_are_cut_between_characters() {
        let made = driver_failure(Wall::NEVER, &"ö".repeat(5000));
        assert_eq!(made.message.len(), MAX_MESSAGE_BYTES + '…'.len_utf8());
        assert!(made.message.ends_with("ö…"));
    }
}
