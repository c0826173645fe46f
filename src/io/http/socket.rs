//! A connection's socket under its timeouts, as hyper reads and writes it.
//!
//! Refuses to know: HTTP beyond where a connection is between two requests. Invariants: a connection that says nothing, a
//! head that does not come and a write that does not move have an end each; memory that hyper offers is touched only where
//! bytes have come.

use super::HEAD_TIMEOUT;
use super::stream::HttpStream;
use hyper::rt::{Read, ReadBufCursor, Write};
use smol::Timer;
use smol::io::{AsyncRead, AsyncWrite};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// How long a write may not move: long enough for somebody who stopped their terminal to read.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(300);
/// For how many turns the peer's end of input is delayed, so that the handler has read the whole request.
const TURNS_BEFORE_END: u8 = 3;
/// Read at a time.
const CHUNK_BYTES: usize = 8 << 10;

/// Where a connection is. What is read while a request is handled belongs to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionPhase {
    /// Between requests.
    Idle,
    /// A head has begun to come.
    Head,
    Body,
    /// Handled; the answer is dropped when the peer leaves.
    Read,
    /// Handled, and answered though the peer says no more.
    Write,
}

const PHASES: [ConnectionPhase; 5] = [
    ConnectionPhase::Idle,
    ConnectionPhase::Head,
    ConnectionPhase::Body,
    ConnectionPhase::Read,
    ConnectionPhase::Write,
];

/// State that a connection's socket and its requests share.
#[derive(Debug)]
pub struct ConnectionProgress {
    phase: AtomicU8,
    idle_millis: AtomicU64,
    /// Something of the next request came while this one was handled.
    is_ahead: AtomicBool,
    peer_closed: AtomicBool,
    head_timed_out: AtomicBool,
}

impl ConnectionProgress {
    pub fn new(idle: Duration) -> ConnectionProgress {
        ConnectionProgress {
            phase: AtomicU8::new(ConnectionPhase::Idle as u8),
            idle_millis: AtomicU64::new(idle.as_millis() as u64),
            is_ahead: AtomicBool::new(false),
            peer_closed: AtomicBool::new(false),
            head_timed_out: AtomicBool::new(false),
        }
    }

    fn phase(&self) -> ConnectionPhase {
        PHASES[usize::from(self.phase.load(Ordering::Relaxed)) % PHASES.len()]
    }

    pub fn enter(&self, phase: ConnectionPhase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// The answer is on its way. `idle`: how long the next request may take to begin.
    pub fn answered(&self) {
        let next = if self.is_ahead.swap(false, Ordering::Relaxed) {
            ConnectionPhase::Head
        } else {
            ConnectionPhase::Idle
        };
        self.enter(next);
    }

    pub fn set_idle(&self, idle: Duration) {
        self.idle_millis.store(idle.as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether the peer has closed its side.
    pub fn peer_closed(&self) -> bool {
        self.peer_closed.load(Ordering::Relaxed)
    }

    /// Whether a head began and did not come whole.
    pub fn head_timed_out(&self) -> bool {
        self.head_timed_out.load(Ordering::Relaxed)
    }

    fn read_timeout(&self, phase: ConnectionPhase) -> Option<Duration> {
        match phase {
            ConnectionPhase::Idle => Some(Duration::from_millis(self.idle_millis.load(Ordering::Relaxed))),
            ConnectionPhase::Head => Some(HEAD_TIMEOUT),
            // a body's time is its reader's
            ConnectionPhase::Body | ConnectionPhase::Read | ConnectionPhase::Write => None,
        }
    }
}

pub struct TimedSocket {
    socket: HttpStream,
    progress: std::sync::Arc<ConnectionProgress>,
    write_timeout: Duration,
    /// Runs while a read waits, for the phase in which it began.
    read_timer: Option<(ConnectionPhase, Timer)>,
    /// Runs while a write waits.
    write_timer: Option<Timer>,
    /// How often the end was kept back.
    turns: u8,
}

impl TimedSocket {
    pub fn new(socket: HttpStream, progress: std::sync::Arc<ConnectionProgress>) -> TimedSocket {
        TimedSocket {
            socket,
            progress,
            write_timeout: WRITE_TIMEOUT,
            read_timer: None,
            write_timer: None,
            turns: 0,
        }
    }

    /// The peer has closed its side. hyper gives up a request as soon as it hears that, even a write that has just come whole and is to be
    /// done: the request's handler has a few turns to enter `ConnectionPhase::Write`.
    fn poll_end(&mut self, cx: &mut Context<'_>, phase: ConnectionPhase) -> Poll<io::Result<usize>> {
        match phase {
            // the answer wakes the connection again
            ConnectionPhase::Write => return Poll::Pending,
            ConnectionPhase::Head | ConnectionPhase::Body if self.turns < TURNS_BEFORE_END => {
                self.turns += 1;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            _ => {}
        }
        self.progress.peer_closed.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(0))
    }

    /// Bytes were read: a head begins, continues, or is read ahead.
    fn note_read(&mut self, phase: ConnectionPhase) {
        match phase {
            ConnectionPhase::Idle => {
                self.read_timer = None;
                self.progress.enter(ConnectionPhase::Head);
            }
            ConnectionPhase::Read | ConnectionPhase::Write => {
                self.progress.is_ahead.store(true, Ordering::Relaxed)
            }
            ConnectionPhase::Head | ConnectionPhase::Body => {}
        }
    }

    /// Nothing came yet: when the time for it is over, the connection ends.
    fn poll_silence(&mut self, cx: &mut Context<'_>, phase: ConnectionPhase) -> Poll<io::Result<usize>> {
        let Some(timeout) = self.progress.read_timeout(phase) else {
            self.read_timer = None;
            return Poll::Pending;
        };
        if self.read_timer.as_ref().is_none_or(|(of, _)| *of != phase) {
            self.read_timer = Some((phase, Timer::after(timeout)));
        }
        if let Some((_, timer)) = &mut self.read_timer {
            ready!(Pin::new(timer).poll(cx));
        }
        if phase == ConnectionPhase::Idle {
            return Poll::Ready(Ok(0));
        }
        self.progress.head_timed_out.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// What a write came to, or the end of the time in which it has to move.
    fn limit<T>(&mut self, cx: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.write_timer = None;
            return write;
        }
        let timeout = self.write_timeout;
        let timer = self.write_timer.get_or_insert_with(|| Timer::after(timeout));
        ready!(Pin::new(timer).poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let phase = self.progress.phase();
        match Pin::new(&mut self.socket).poll_read(cx, buffer) {
            Poll::Pending => self.poll_silence(cx, phase),
            Poll::Ready(Ok(0)) => self.poll_end(cx, phase),
            Poll::Ready(Ok(read)) => {
                self.turns = 0;
                self.note_read(phase);
                Poll::Ready(Ok(read))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for TimedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.limit(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.socket).poll_write_vectored(cx, parts);
        self.limit(cx, write)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.socket).poll_flush(cx);
        self.limit(cx, flush)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let close = Pin::new(&mut self.socket).poll_close(cx);
        self.limit(cx, close)
    }
}

impl Read for TimedSocket {
    /// hyper offers 8 KiB that nobody has touched. Only what has come is put there, so that a connection that waits costs no
    /// page which it does not use.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK_BYTES];
        let room = to.remaining().min(CHUNK_BYTES);
        let read = ready!(AsyncRead::poll_read(self, cx, &mut chunk[..room]))?;
        to.put_slice(&chunk[..read]);
        Poll::Ready(Ok(()))
    }
}

impl Write for TimedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(self, cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(self, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_close(self, cx)
    }

    /// Head and body go out as they lie: otherwise hyper copies each body behind its head.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write_vectored(self, cx, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smol::io::AsyncWriteExt;
    use smol::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    #[test]
    fn a_peer_that_never_reads_times_out() {
        let result = smol::block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let _silent = TcpStream::connect(listener.local_addr()?).await?;
            let (socket, _) = listener.accept().await?;
            let progress = Arc::new(ConnectionProgress::new(HEAD_TIMEOUT));
            let mut timed = TimedSocket::new(HttpStream::Plain(socket), progress);
            timed.write_timeout = Duration::from_millis(50);
            timed.write_all(&vec![0; 64 << 20]).await
        });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn bytes_read_ahead_begin_the_next_request() {
        let progress = ConnectionProgress::new(HEAD_TIMEOUT);
        for (ahead, next) in
            [(false, ConnectionPhase::Idle), (true, ConnectionPhase::Head), (false, ConnectionPhase::Idle)]
        {
            progress.enter(ConnectionPhase::Read);
            progress.is_ahead.store(ahead, Ordering::Relaxed);
            progress.answered();
            assert_eq!(progress.phase(), next);
        }
    }
}
