//! The agent's end of the keeper's socket: starts a keeper where none answers, connects, and reconnects for ever.
//!
//! Refuses to know: what runs are for. What was sent shortly before a connection broke may be lost: after each `Up` the
//! agent compares its runs with the keeper's and asks again. Every command may be repeated.

use super::keeper::{self, log_path};
use async_channel::{Receiver, Sender};
use model::id::Uuid;
use smol::future;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::{Async, Timer};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use wire::keeper::{Event, KeeperCommand, MAX_MESSAGE_BYTES, PROTOCOL, RunReport};
use wire::record;

/// How a keeper is started.
#[derive(Clone, Debug)]
pub enum KeeperStartMode {
    /// Someone else: systemd.
    External,
    /// This agent, detached: the keeper and its tasks outlive it. `exe`: this binary.
    Detached { exe: PathBuf },
    /// This agent, and everything ends with it (`-dev`).
    Owned { exe: PathBuf },
}

/// What the agent is told, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum KeeperNotice {
    /// Connected; `runs` are all that the keeper holds, except those that are just being started.
    Up {
        boot_id: Uuid,
        keeper_pid: u32,
        runs: Vec<RunReport>,
    },
    Event(Event),
    /// Not connected; tasks may run all the same. A sentence.
    Down {
        reason: String,
    },
}

/// Dropping this ends the connection and, with `KeeperStartMode::Owned`, every task.
pub struct KeeperConnection {
    /// Bounded: a full channel is the sender's to handle.
    pub commands: Sender<KeeperCommand>,
    pub notices: Receiver<KeeperNotice>,
}

const MAX_QUEUED: usize = 1024;
const FIRST_BACKOFF: Duration = Duration::from_millis(10);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Failures in a row before they are reported, about 0.3 s.
const UNREPORTED_FAILURES: u32 = 5;
/// Different reasons reported until a connection stands again.
const MAX_REPORTED_REASONS: usize = 16;
/// A keeper that does not greet within this is not one.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_LOG_BYTES: u64 = 1 << 20;

/// The link, and the future that drives it until the link is dropped.
pub fn open(
    data_dir: PathBuf,
    starter: KeeperStartMode,
) -> (KeeperConnection, impl Future<Output = ()> + Send) {
    let (commands, to_send) = async_channel::bounded(MAX_QUEUED);
    let (tell, notices) = async_channel::bounded(MAX_QUEUED);
    let connection_loop = ConnectionLoop { data_dir, starter, child: None, life: None, to_send, tell };
    (KeeperConnection { commands, notices }, connection_loop.drive())
}

/// Whether a keeper serves this data directory now.
pub fn answers(data_dir: &Path) -> bool {
    keeper::connect(data_dir).is_ok()
}

struct ConnectionLoop {
    data_dir: PathBuf,
    starter: KeeperStartMode,
    /// The keeper that we started, to be waited for.
    child: Option<Child>,
    /// With `KeeperStartMode::Owned`: both ends of the pipe by which the keeper sees our end.
    life: Option<(OwnedFd, OwnedFd)>,
    to_send: Receiver<KeeperCommand>,
    tell: Sender<KeeperNotice>,
}

impl ConnectionLoop {
    async fn drive(mut self) {
        let mut failures = 0u32;
        let mut told: Vec<String> = Vec::new();
        while !self.tell.is_closed() {
            let (reason, broke) = match self.attach().await {
                Ok((stream, up)) => {
                    if self.tell.send(up).await.is_err() {
                        return;
                    }
                    failures = 0;
                    told.clear();
                    (future::or(self.receive(&stream), self.send(&stream)).await, true)
                }
                Err(reason) => (reason, false),
            };
            if self.tell.is_closed() || (self.to_send.is_closed() && self.to_send.is_empty()) {
                return;
            }
            // A keeper that is just coming up is nothing to report; the same reasons, coming in turn, are reported once.
            let worth_telling = broke || failures >= UNREPORTED_FAILURES;
            if worth_telling && told.len() < MAX_REPORTED_REASONS && !told.contains(&reason) {
                told.push(reason.clone());
                if self.tell.send(KeeperNotice::Down { reason }).await.is_err() {
                    return;
                }
            }
            Timer::after(backoff(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    /// A greeted connection and what its greeting said.
    async fn attach(&mut self) -> Result<(Async<UnixStream>, KeeperNotice), String> {
        let stream = match keeper::connect(&self.data_dir) {
            Ok(stream) => stream,
            Err(e) => {
                return Err(self.start().unwrap_or_else(|why| format!("no keeper answers: {e}; {why}")));
            }
        };
        let stream = Async::new(stream).map_err(|e| format!("the keeper's socket: {e}"))?;
        let greeted = async {
            write(&stream, &record::encode(&KeeperCommand::Hello { protocol: PROTOCOL })).await?;
            read(&stream).await
        };
        let late = async {
            Timer::after(GREETING_TIMEOUT).await;
            Err(io::Error::from(io::ErrorKind::TimedOut))
        };
        match future::or(greeted, late).await {
            Ok(Event::Welcome { boot_id, keeper_pid, runs, .. }) => {
                Ok((stream, KeeperNotice::Up { boot_id, keeper_pid, runs }))
            }
            Ok(Event::Refused { message, .. }) => Err(message),
            Ok(_) => Err("the keeper does not greet as it should".into()),
            Err(e) => Err(format!("the keeper does not greet: {e}")),
        }
    }

    /// Starts a keeper unless one that we started is still coming up. `Ok`: what is being waited for.
    fn start(&mut self) -> Result<String, String> {
        let exe = match &self.starter {
            KeeperStartMode::External => {
                return Err("it is started by another: systemctl start drover-keeper".into());
            }
            KeeperStartMode::Detached { exe } | KeeperStartMode::Owned { exe } => exe.clone(),
        };
        if let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(None) => return Ok("the keeper is coming up".into()),
                Ok(Some(status)) => {
                    self.child = None;
                    if !status.success() {
                        return Err(format!(
                            "it ended with {status}: see {}",
                            log_path(&self.data_dir).display()
                        ));
                    }
                }
                Err(e) => return Err(format!("it cannot be waited for: {e}")),
            }
        }
        if matches!(self.starter, KeeperStartMode::Owned { .. }) && self.life.is_none() {
            let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
            self.life = Some(pipe.map_err(|e| format!("a pipe cannot be made: {e}"))?);
        }
        let life = self.life.as_ref().map(|(read, _)| read);
        self.child =
            Some(spawn(&exe, &self.data_dir, life).map_err(|e| format!("it cannot be started: {e}"))?);
        Ok("the keeper was started".into())
    }

    /// Receives until the connection breaks; gives the reason.
    async fn receive(&self, stream: &Async<UnixStream>) -> String {
        loop {
            match read(stream).await {
                Ok(event) => {
                    if self.tell.send(KeeperNotice::Event(event)).await.is_err() {
                        return "the agent is leaving".into();
                    }
                }
                Err(e) => return format!("the connection to the keeper broke: {e}"),
            }
        }
    }

    async fn send(&self, stream: &Async<UnixStream>) -> String {
        loop {
            let Ok(command) = self.to_send.recv().await else { return "the agent is leaving".into() };
            let message = record::encode(&command);
            if message.len() > MAX_MESSAGE_BYTES {
                let told = self.tell.send(KeeperNotice::Event(too_long(command, message.len()))).await;
                if told.is_err() {
                    return "the agent is leaving".into();
                }
            } else if let Err(e) = write(stream, &message).await {
                return format!("the connection to the keeper broke: {e}");
            }
        }
    }
}

/// 10 ms, doubled by each failure, up to 5 s.
fn backoff(failures: u32) -> Duration {
    (FIRST_BACKOFF * (1 << failures.min(10))).min(MAX_BACKOFF)
}

/// The answer to a command that is too long for a message.
fn too_long(command: KeeperCommand, bytes: usize) -> Event {
    let message =
        format!("{bytes} bytes of command, args and env are too many: {MAX_MESSAGE_BYTES} are allowed");
    match command {
        KeeperCommand::Start { run, .. } => Event::StartFailed { run, message, retryable: false },
        _ => Event::Refused { run: None, message },
    }
}

pub(super) async fn write(mut stream: &Async<UnixStream>, message: &[u8]) -> io::Result<()> {
    stream.write_all(&(message.len() as u32).to_le_bytes()).await?;
    stream.write_all(message).await
}

pub(super) async fn read(mut stream: &Async<UnixStream>) -> io::Result<Event> {
    let mut length = [0u8; 4];
    stream.read_exact(&mut length).await?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::other(format!("a message of {length} bytes is too long")));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    record::decode(&message).map_err(io::Error::other)
}

/// A keeper in a session of its own, away from our terminal and directory.
fn spawn(exe: &Path, data_dir: &Path, life: Option<&OwnedFd>) -> io::Result<Child> {
    let data_dir = std::path::absolute(data_dir)?;
    fs::create_dir_all(keeper::dir(&data_dir))?;
    let path = log_path(&data_dir);
    let large = fs::metadata(&path).is_ok_and(|m| m.len() > MAX_LOG_BYTES);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if large {
        log.set_len(0)?;
    }
    let mut command = std::process::Command::new(exe);
    command.args(["keeper", "run", "-data-dir"]).arg(&data_dir).current_dir("/");
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let life = life.map(AsRawFd::as_raw_fd);
    if let Some(fd) = life {
        command.arg("-dev-fd").arg(fd.to_string());
    }
    // SAFETY: setsid and fcntl are async-signal-safe and allocate nothing; `fd` is open in the child, which is a copy.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            match life {
                Some(fd) if libc::fcntl(fd, libc::F_SETFD, 0) == -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        });
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::RunId;
    use model::task::{Exit, ExitStatus};
    use model::time::Wall;
    use std::os::unix::net::UnixListener;

    const EXITED: Event = Event::Exited {
        run: RunId(Uuid::from_bytes([1; 16])),
        exit: Exit { status: ExitStatus::Unknown, oom_killed: false },
        at: Wall(1),
    };

    /// The keeper's side of one connection, from the greeting on.
    async fn greet(listener: &Async<UnixListener>) -> Async<UnixStream> {
        let (stream, _) = listener.accept().await.expect("a connection");
        assert_eq!(command(&stream).await, KeeperCommand::Hello { protocol: PROTOCOL });
        let welcome =
            Event::Welcome { protocol: PROTOCOL, boot_id: Uuid::default(), keeper_pid: 7, runs: vec![] };
        write(&stream, &record::encode(&welcome)).await.expect("written");
        stream
    }

    async fn command(mut stream: &Async<UnixStream>) -> KeeperCommand {
        let mut length = [0u8; 4];
        stream.read_exact(&mut length).await.expect("a length");
        let mut message = vec![0; u32::from_le_bytes(length) as usize];
        stream.read_exact(&mut message).await.expect("a message");
        record::decode(&message).expect("a command")
    }

    #[test]
    fn the_keeper_connection_reconnects_and_reports_it() {
        let dir = std::env::temp_dir().join(format!("drover-link-{}", std::process::id()));
        fs::create_dir_all(keeper::dir(&dir)).expect("a directory");
        let listener = Async::<UnixListener>::bind(keeper::socket_path(&dir)).expect("a socket");
        let (link, connection_loop) = open(dir.clone(), KeeperStartMode::External);
        let up = KeeperNotice::Up { boot_id: Uuid::default(), keeper_pid: 7, runs: vec![] };
        let script = async {
            let stream = greet(&listener).await;
            assert_eq!(link.notices.recv().await, Ok(up.clone()));
            link.commands.send(KeeperCommand::List).await.expect("queued");
            assert_eq!(command(&stream).await, KeeperCommand::List);
            write(&stream, &record::encode(&EXITED)).await.expect("written");
            assert_eq!(link.notices.recv().await, Ok(KeeperNotice::Event(EXITED)));
            drop(stream);
            assert!(matches!(link.notices.recv().await, Ok(KeeperNotice::Down { .. })));
            let _second = greet(&listener).await;
            assert_eq!(link.notices.recv().await, Ok(up));
            drop(link);
        };
        smol::block_on(future::zip(connection_loop, script));
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn a_bad_answer_is_reported_once() {
        let dir = std::env::temp_dir().join(format!("drover-link-none-{}", std::process::id()));
        let (link, connection_loop) = open(dir, KeeperStartMode::External);
        let script = async {
            let down = link.notices.recv().await;
            assert!(matches!(down, Ok(KeeperNotice::Down { reason }) if reason.contains("systemctl")));
            assert!(link.notices.is_empty());
            drop(link);
        };
        smol::block_on(future::zip(connection_loop, script));
    }

    #[test]
    fn reconnect_backoff_grows_up_to_a_bound() {
        assert_eq!(backoff(0), Duration::from_millis(10));
        assert_eq!(backoff(3), Duration::from_millis(80));
        assert_eq!(backoff(u32::MAX), MAX_BACKOFF);
    }
}
