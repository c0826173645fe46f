//! A connection's socket with what has come and was not taken yet. Memory for what comes is there only while it is needed.
//!
//! Refuses to know: what the bytes mean.

use super::patience::Patient;
use smol::Timer;
use smol::future::or;
use smol::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Read at a time.
const CHUNK_BYTES: usize = 8 << 10;
/// So much may come before its turn; then the peer has to wait.
const MAX_AHEAD_BYTES: usize = 32 << 10;
/// How long a peer that is not listened to any more may go on talking, so that it can read the last answer.
const PARTING: Duration = Duration::from_secs(1);

pub struct Line {
    pub socket: Patient,
    pub came: Vec<u8>,
}

impl Line {
    pub fn new(socket: Patient) -> Line {
        Line { socket, came: vec![] }
    }

    /// Waits for more to come. False: the peer has said everything.
    pub async fn more(&mut self) -> io::Result<bool> {
        poll_fn(|cx| self.poll_more(cx)).await
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut chunk = [0; CHUNK_BYTES];
        let read = ready!(Pin::new(&mut self.socket).poll_read(cx, &mut chunk))?;
        self.came.extend_from_slice(&chunk[..read]);
        Poll::Ready(Ok(read > 0))
    }

    /// The first bytes of what has come; what is behind them stays.
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = if length == self.came.len() { vec![] } else { self.came.split_off(length) };
        std::mem::replace(&mut self.came, rest)
    }

    /// Waits until the peer has left. What it says meanwhile is kept.
    pub async fn left(&mut self) {
        while self.came.len() < MAX_AHEAD_BYTES {
            if !self.more().await.unwrap_or(false) {
                return;
            }
        }
        std::future::pending().await
    }

    /// One after the other, without copying them together.
    pub async fn write(&mut self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut left = parts;
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let written = poll_fn(|cx| Pin::new(&mut self.socket).poll_write_vectored(cx, left)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }

    /// The end of the connection. What the peer still sends is read: a reset would take the last answer from it.
    pub async fn part(mut self) {
        let listen = async {
            if self.socket.close().await.is_ok() {
                while self.more().await.unwrap_or(false) {
                    self.came.clear();
                }
            }
        };
        or(listen, async {
            Timer::after(PARTING).await;
        })
        .await;
    }
}
