//! The processes of sessions: each beside a run, in its control group, with pipes or a terminal whose other end its client gets.
//!
//! Refuses to know: who may have one, and what flows through it.

use super::cgroup::Group;
use super::process;
use super::spawn::{self, ExecStatus, SpawnError, Stdio, WaitingChild};
use keeper::effects::{ClientId, Input};
use model::task::{Exit, ExitStatus};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use wire::keeper::RunSpec;

#[derive(Default)]
pub struct ExecSessions(BTreeMap<ClientId, Session>);

struct Session {
    pid: u32,
    waiting: WaitingChild,
}

impl ExecSessions {
    /// `mark`: of the run that it is beside. Gives what the client gets: the terminal, or its ends of stdin, stdout and stderr.
    pub fn start(
        &mut self,
        client: ClientId,
        group: &Group,
        spec: &RunSpec,
        mark: &str,
        tty: bool,
        open_files: &libc::rlimit,
    ) -> Result<Vec<OwnedFd>, SpawnError> {
        let failed =
            |what: &str, e: io::Error| SpawnError { message: format!("{what}: {e}"), retryable: true };
        let prepared = spawn::prepare(spec, mark)?;
        let (ours, theirs) =
            if tty { terminal() } else { pipes() }.map_err(|e| failed("its descriptors", e))?;
        let join = group.join().map_err(|e| failed("the task's cgroup", e))?;
        let mut waiting = spawn::fork(&prepared, theirs, join, open_files)?;
        waiting.release();
        self.0.insert(client, Session { pid: waiting.pid, waiting });
        Ok(ours)
    }

    /// What the end of a child means, if it was a session's.
    pub fn reaped(&mut self, pid: u32, status: ExitStatus) -> Option<Input> {
        let client = self.0.iter().find(|(_, s)| s.pid == pid).map(|(client, _)| *client)?;
        let mut session = self.0.remove(&client)?;
        Some(match session.waiting.executed() {
            ExecStatus::No(SpawnError { message, .. }) => Input::SessionFailed { client, message },
            ExecStatus::Yes | ExecStatus::NotYet => {
                Input::SessionEnded { client, exit: Exit { status, oom_killed: false } }
            }
        })
    }

    /// Kills a session; its end is reported once it was reaped.
    pub fn kill(&self, client: ClientId) {
        if let Some(session) = self.0.get(&client) {
            // not waited for yet, so the pid is the session's own; what it started is found by its session id
            process::descendants(session.pid).iter().for_each(|p| process::signal(p.pid, libc::SIGKILL));
        }
    }

    pub fn kill_all(&self) {
        self.0.keys().for_each(|client| self.kill(*client));
    }
}

fn terminal() -> io::Result<(Vec<OwnedFd>, Stdio)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    Ok((vec![ours], Stdio::terminal(theirs)?))
}

fn pipes() -> io::Result<(Vec<OwnedFd>, Stdio)> {
    let (their_in, our_in) = pipe_with(PipeFlags::CLOEXEC)?;
    let (our_out, their_out) = pipe_with(PipeFlags::CLOEXEC)?;
    let (our_err, their_err) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((vec![our_in, our_out, our_err], Stdio::pipes([their_in, their_out, their_err])))
}
