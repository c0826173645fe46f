//! What a connection's bytes go through: a TCP socket, or TLS on one.
//!
//! Refuses to know: time. Clones are the same connection, as those of a socket are.

use crate::tls::AsyncSocket;
use futures_rustls::server::TlsStream;
use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpStream;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

#[derive(Clone)]
pub enum HttpStream {
    Plain(TcpStream),
    /// Locked for the length of a poll; the clones are used one after the other.
    Tls(Arc<Mutex<TlsStream<TcpStream>>>),
}

impl HttpStream {
    pub fn tls(stream: TlsStream<TcpStream>) -> HttpStream {
        HttpStream::Tls(Arc::new(Mutex::new(stream)))
    }

    fn poll<T>(
        &mut self,
        poll: impl FnOnce(Pin<&mut dyn AsyncSocket>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self {
            HttpStream::Plain(socket) => poll(Pin::new(socket as &mut dyn AsyncSocket)),
            HttpStream::Tls(stream) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                poll(Pin::new(&mut *stream as &mut dyn AsyncSocket))
            }
        }
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.poll(|stream| stream.poll_read(cx, buffer)) {
            // A peer that closes without a word of TLS has closed: what a request holds, its own head says.
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => Poll::Ready(Ok(0)),
            read => read,
        }
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write_vectored(cx, parts))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_flush(cx))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_close(cx))
    }
}
