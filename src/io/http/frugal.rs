//! How hyper reads and writes a socket: without touching memory that it does not need, and without copying bodies.
//!
//! Refuses to know: HTTP, and how long anything may take.

use super::patience::Patient;
use hyper::rt::{Read, ReadBufCursor, Write};
use smol::io::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Read at a time.
const CHUNK_BYTES: usize = 8 << 10;

pub struct Frugal(pub Patient);

impl Read for Frugal {
    /// hyper offers 8 KiB that nobody has touched. Only what has come is put there, so that a connection that waits costs no
    /// page which it does not use.
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK_BYTES];
        let room = to.remaining().min(CHUNK_BYTES);
        let read = ready!(Pin::new(&mut self.0).poll_read(cx, &mut chunk[..room]))?;
        to.put_slice(&chunk[..read]);
        Poll::Ready(Ok(()))
    }
}

impl Write for Frugal {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }

    /// Head and body go out as they lie: otherwise hyper copies each body behind its head.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }
}
