//! A socket whose peer may read slowly, but not stop reading for good: a write that does not move for `WRITE_TIMEOUT`
//! ends the connection, and gives back what it held.

use smol::Timer;
use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpStream;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Long enough for somebody who stopped their terminal to read.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(300);

pub struct Patient {
    socket: TcpStream,
    timeout: Duration,
    /// Runs while a write waits.
    timer: Option<Timer>,
}

impl Patient {
    pub fn new(socket: TcpStream, timeout: Duration) -> Patient {
        Patient { socket, timeout, timer: None }
    }

    /// What a write came to, or the end of patience with it.
    fn limit<T>(&mut self, cx: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.timer = None;
            return write;
        }
        let timeout = self.timeout;
        let timer = self.timer.get_or_insert_with(|| Timer::after(timeout));
        ready!(Pin::new(timer).poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Patient {
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

#[cfg(test)]
mod tests {
    use super::*;
    use smol::io::AsyncWriteExt;
    use smol::net::TcpListener;

    #[test]
    fn a_peer_that_never_reads_is_given_up() {
        let result = smol::block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let _silent = TcpStream::connect(listener.local_addr()?).await?;
            let (socket, _) = listener.accept().await?;
            let mut patient = Patient::new(socket, Duration::from_millis(50));
            patient.write_all(&vec![0; 64 << 20]).await
        });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
