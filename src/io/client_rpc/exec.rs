//! A session with a process beside a task: started by the task's parent, its input and output carried here.
//!
//! Refuses to know: how its caller is reached. The connection to the keeper is the session: when it is dropped, for whatever
//! reason, the keeper ends the process.

use crate::executor;
use crate::keeper::{self, MAX_FDS};
use crate::keeper_connection::{read, write};
use async_channel::{Receiver, Sender};
use model::id::RunId;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::termios::{Winsize, tcsetwinsize};
use smol::future::{or, zip};
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::{Async, Timer};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use wire::client_rpc::{SessionInput, SessionOutput};
use wire::keeper::{Event, KeeperCommand, MAX_MESSAGE_BYTES, PROTOCOL, RunSpec};
use wire::record;
use wire::request::{Refusal, RefusalKind};

const CHUNK_BYTES: usize = 16 << 10;
/// Chunks that wait for a slow side.
const MAX_QUEUED_CHUNKS: usize = 8;
/// Once the process has ended, how long what it left behind may hold its output open.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the keeper may take to start the process.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A session ends when either channel is closed.
pub struct ExecSession {
    pub input: Sender<SessionInput>,
    pub output: Receiver<SessionOutput>,
}

/// The process's descriptors, on our side.
struct SessionFds {
    stdin: Async<File>,
    stdout: Async<File>,
    /// `None`: there is a terminal, which has one output.
    stderr: Option<Async<File>>,
}

pub async fn start(
    executor: &smol::Executor<'static>,
    data_dir: PathBuf,
    run: RunId,
    spec: Box<RunSpec>,
    tty: bool,
) -> Result<ExecSession, Refusal> {
    let unavailable = |why: String| Refusal::new(RefusalKind::Unavailable, why);
    let begun = async { begin(data_dir, KeeperCommand::Exec { run, spec, tty }).await };
    let late = async {
        Timer::after(TIMEOUT).await;
        Err(io::Error::from(io::ErrorKind::TimedOut))
    };
    match or(begun, late).await {
        Ok(SessionStart::Started(keeper, ends)) => {
            let (input, to_process) = async_channel::bounded(MAX_QUEUED_CHUNKS);
            let (from_process, output) = async_channel::bounded(MAX_QUEUED_CHUNKS);
            executor::spawn(executor, carry(keeper, ends, to_process, from_process)).detach();
            Ok(ExecSession { input, output })
        }
        Ok(SessionStart::Refused(why)) => Err(Refusal::new(RefusalKind::Conflict, why)),
        Err(e) => Err(unavailable(format!("the keeper starts no session: {e}"))),
    }
}

enum SessionStart {
    Started(Async<UnixStream>, SessionFds),
    Refused(String),
}

async fn begin(data_dir: PathBuf, exec: KeeperCommand) -> io::Result<SessionStart> {
    let stream = Async::new(keeper::connect(&data_dir)?)?;
    write(&stream, &record::encode(&KeeperCommand::Hello { protocol: PROTOCOL })).await?;
    match read(&stream).await? {
        Event::Welcome { .. } => {}
        Event::Refused { message, .. } => return Ok(SessionStart::Refused(message)),
        _ => return Err(io::Error::other("it does not greet as it should")),
    }
    write(&stream, &record::encode(&exec)).await?;
    loop {
        let (event, fds) = receive(&stream).await?;
        match event {
            Event::SessionStarted => return Ok(SessionStart::Started(stream, SessionFds::of(fds)?)),
            Event::Refused { message, .. } => return Ok(SessionStart::Refused(message)),
            // until its session has begun, this connection gets the events of every run
            _ => {}
        }
    }
}

/// The next event, and the descriptors that came with it.
async fn receive(stream: &Async<UnixStream>) -> io::Result<(Event, Vec<OwnedFd>)> {
    let (mut bytes, mut fds) = (Vec::new(), Vec::new());
    loop {
        let wanted = match bytes.first_chunk::<4>() {
            None => 4,
            Some(length) => 4 + u32::from_le_bytes(*length) as usize,
        };
        if wanted > MAX_MESSAGE_BYTES {
            return Err(io::Error::other("a message that is too long"));
        }
        if bytes.len() >= 4 && bytes.len() == wanted {
            let event = record::decode(&bytes[4..]).map_err(io::Error::other)?;
            return Ok((event, fds));
        }
        let mut part = vec![0; wanted - bytes.len()];
        let n = stream.read_with(|s| receive_bytes(s, &mut part, &mut fds)).await?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..n]);
    }
}

fn receive_bytes(stream: &UnixStream, part: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(stream, &mut [IoSliceMut::new(part)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    Ok(got.bytes)
}

impl SessionFds {
    fn of(fds: Vec<OwnedFd>) -> io::Result<SessionFds> {
        let mut files = fds.into_iter().map(File::from);
        match (files.next(), files.next(), files.next()) {
            (Some(terminal), None, None) => Ok(SessionFds {
                stdout: Async::new(terminal.try_clone()?)?,
                stdin: Async::new(terminal)?,
                stderr: None,
            }),
            (Some(stdin), Some(stdout), Some(stderr)) => Ok(SessionFds {
                stdin: Async::new(stdin)?,
                stdout: Async::new(stdout)?,
                stderr: Some(Async::new(stderr)?),
            }),
            _ => Err(io::Error::other("it came without its descriptors")),
        }
    }
}

/// Carries input and output until the process has ended and all it said was passed on, or the caller has left.
async fn carry(
    keeper: Async<UnixStream>,
    ends: SessionFds,
    input: Receiver<SessionInput>,
    output: Sender<SessionOutput>,
) {
    let SessionFds { stdin, stdout, stderr } = ends;
    let tty = stderr.is_none();
    let left = async {
        or(forward_input(stdin, tty, &input), output.closed()).await;
        None
    };
    let said = async {
        let errors = async {
            if let Some(stderr) = stderr {
                forward_output(stderr, &output, SessionOutput::Stderr).await;
            }
        };
        zip(forward_output(stdout, &output, SessionOutput::Stdout), errors).await;
    };
    let ended = async { Some(wait_for_end(&keeper, said).await) };
    let last = match or(ended, left).await {
        None => return,
        Some(Ok(Event::SessionEnded { exit })) => SessionOutput::Exited { code: exit.code() },
        Some(Ok(Event::Refused { message, .. })) => SessionOutput::Failed { why: message },
        Some(Ok(other)) => {
            SessionOutput::Failed { why: format!("the keeper ends the session with {other:?}") }
        }
        Some(Err(e)) => SessionOutput::Failed { why: format!("the keeper is gone: {e}") },
    };
    // a caller that left needs no end
    let _ = output.send(last).await;
}

/// The end of the process, once its output has ended too, or was waited for.
async fn wait_for_end(keeper: &Async<UnixStream>, said: impl Future<Output = ()>) -> io::Result<Event> {
    let mut said = pin!(said);
    let mut end = pin!(session_end(keeper));
    let first = or(async { Some(end.as_mut().await) }, async {
        said.as_mut().await;
        None
    });
    let Some(ended) = first.await else { return end.await };
    or(said, async {
        Timer::after(OUTPUT_DRAIN_TIMEOUT).await;
    })
    .await;
    ended
}

/// The event that ends the session. An event about a run may have been under way when the session began.
async fn session_end(keeper: &Async<UnixStream>) -> io::Result<Event> {
    loop {
        let event = read(keeper).await?;
        if matches!(event, Event::SessionEnded { .. } | Event::Refused { .. }) {
            return Ok(event);
        }
    }
}

/// Forwards until the output ends. A terminal whose last user is gone gives an error.
async fn forward_output(
    mut from: Async<File>,
    to: &Sender<SessionOutput>,
    as_what: fn(Vec<u8>) -> SessionOutput,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(n) = from.read(&mut chunk).await
        && n > 0
    {
        if to.send(as_what(chunk[..n].to_vec())).await.is_err() {
            return;
        }
    }
}

/// Forwards until the input ends. Input that the process does not read is dropped.
async fn forward_input(stdin: Async<File>, tty: bool, input: &Receiver<SessionInput>) {
    const END_OF_INPUT: &[u8] = &[4];
    let mut stdin = Some(stdin);
    while let Ok(said) = input.recv().await {
        let Some(file) = &mut stdin else { continue };
        let taken = match said {
            SessionInput::Stdin(bytes) => file.write_all(&bytes).await,
            SessionInput::CloseStdin if tty => file.write_all(END_OF_INPUT).await,
            SessionInput::CloseStdin => Err(io::ErrorKind::BrokenPipe.into()),
            SessionInput::Size { rows, columns } => {
                let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
                // a pipe has no size
                let _none = tcsetwinsize(&*file, size);
                Ok(())
            }
        };
        if taken.is_err() {
            stdin = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::task::{Exit, ExitStatus};

    #[test]
    fn events_of_runs_do_not_end_a_session() {
        smol::block_on(async {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            let (ours, theirs) = (Async::new(ours).expect("a socket"), Async::new(theirs).expect("a socket"));
            let exit = Exit { status: ExitStatus::Code(3), oom_killed: false };
            let of_a_run = Event::Exited { run: RunId::from_random(1), exit, at: model::time::Wall(0) };
            for event in [of_a_run, Event::SessionEnded { exit }] {
                write(&theirs, &record::encode(&event)).await.expect("written");
            }
            let end = wait_for_end(&ours, async {}).await.expect("an end");
            assert_eq!(end, Event::SessionEnded { exit });
        });
    }
}
