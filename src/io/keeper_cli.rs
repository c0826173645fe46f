//! What `drover keeper status` and `drover keeper stop` ask of the keeper.
//!
//! Refuses to know: the command line.

use super::keeper;
use model::time::Span;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use wire::keeper::{Event, KeeperCommand, MAX_MESSAGE_BYTES, PROTOCOL, RunReport, RunState};
use wire::record;

/// What `stop` gives tasks between the signal and SIGKILL.
const STOP_TIMEOUT: Span = Span::seconds(5);
const SIGTERM: i32 = 15;
/// How long `stop` waits beyond the tasks' own time.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// Errors are sentences for standard error.
pub fn status(data_dir: &Path) -> Result<(), String> {
    let (_, welcome) = greet(data_dir)?;
    let Event::Welcome { keeper_pid, runs, .. } = welcome else {
        return Err("the keeper answered something else".into());
    };
    let mut out = io::stdout().lock();
    let table = || -> io::Result<()> {
        writeln!(out, "keeper {keeper_pid}, {} runs", runs.len())?;
        runs.iter().try_for_each(|r| writeln!(out, "{}  {:<60}  {}", r.run.0.short(), r.label, shown(r)))
    };
    let mut table = table;
    table().map_err(|e| e.to_string())
}

fn shown(report: &RunReport) -> String {
    match &report.state {
        RunState::Running { pid, .. } => format!("running, pid {pid}"),
        RunState::Exited { exit, .. } if exit.oom_killed => {
            format!("killed for memory, exit {}", exit.code())
        }
        RunState::Exited { exit, .. } => format!("exit {}", exit.code()),
        RunState::StartFailed { message, .. } => format!("not started: {message}"),
    }
}

pub fn stop(data_dir: &Path) -> Result<(), String> {
    let (mut stream, _) = greet(data_dir)?;
    let shutdown = KeeperCommand::Shutdown { signal: SIGTERM, timeout: STOP_TIMEOUT };
    send(&mut stream, &shutdown).map_err(|e| e.to_string())?;
    loop {
        match receive(&mut stream) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(e) => return Err(format!("the keeper did not end: {e}")),
        }
    }
}

fn greet(data_dir: &Path) -> Result<(UnixStream, Event), String> {
    let none = |e| format!("no keeper answers in {}: {e}", data_dir.display());
    let mut stream = keeper::connect(data_dir).map_err(none)?;
    stream.set_read_timeout(Some(STOP_GRACE)).map_err(|e| e.to_string())?;
    send(&mut stream, &KeeperCommand::Hello { protocol: PROTOCOL }).map_err(none)?;
    match receive(&mut stream).map_err(none)? {
        Some(Event::Refused { message, .. }) => Err(message),
        Some(event) => Ok((stream, event)),
        None => Err("the keeper closed the connection".into()),
    }
}

fn send(stream: &mut UnixStream, command: &KeeperCommand) -> io::Result<()> {
    let message = record::encode(command);
    stream.write_all(&(message.len() as u32).to_le_bytes())?;
    stream.write_all(&message)
}

/// `None`: the keeper closed the connection.
fn receive(stream: &mut UnixStream) -> io::Result<Option<Event>> {
    let mut length = [0u8; 4];
    match stream.read_exact(&mut length) {
        Err(e) if matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            return Ok(None);
        }
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::other("a message that is too long"));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    record::decode(&message).map(Some).map_err(io::Error::other)
}
