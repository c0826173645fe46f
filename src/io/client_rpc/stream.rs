//! Streams a file that may grow to its reader: chunks of bounded size through a bounded channel, and heartbeats while there is
//! nothing new.
//!
//! Refuses to know: what the file is and who reads.

use super::BrainHandle;
use crate::executor;
use async_channel::{Receiver, Sender};
use client::effects::RequestOutcome;
use rustix::io::Errno;
use smol::Timer;
use std::time::{Duration, Instant};
use wire::client_rpc::{ClientRequest, StreamFrame};

/// The most bytes of one frame.
pub const CHUNK_BYTES: usize = 64 << 10;
/// The most frames that wait for a slow reader.
const MAX_QUEUED_FRAMES: usize = 4;
/// How often a followed file is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A stream without news sends a heartbeat after this time.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What can be read piece by piece, on a thread that may wait for the disk.
pub trait ChunkSource: Send + 'static {
    /// The next piece, at most `CHUNK_BYTES`. `None`: nothing more at present.
    fn next(&mut self) -> Result<Option<StreamFrame>, Errno>;
}

/// `again`: asked of the brain to learn whether what is followed can still grow; `None` reads to the present end.
pub fn stream(
    executor: &smol::Executor<'static>,
    source: impl ChunkSource,
    again: Option<(BrainHandle, ClientRequest)>,
) -> Receiver<StreamFrame> {
    let (sender, pieces) = async_channel::bounded(MAX_QUEUED_FRAMES);
    executor::spawn(executor, pump(source, sender, again)).detach();
    pieces
}

/// Sends until the source ends, its reader leaves, or, for a follower, the allocation has ended and all was sent.
async fn pump(
    mut source: impl ChunkSource,
    sender: Sender<StreamFrame>,
    again: Option<(BrainHandle, ClientRequest)>,
) {
    let mut last_sent = Instant::now();
    let mut last_round = again.is_none();
    loop {
        let (back, piece) = executor::unblock(move || {
            let piece = source.next();
            (source, piece)
        })
        .await;
        source = back;
        match piece {
            Ok(Some(piece)) => {
                let last = matches!(piece, StreamFrame::Deleted { .. });
                if sender.send(piece).await.is_err() || last {
                    return;
                }
                last_sent = Instant::now();
                continue;
            }
            Ok(None) if last_round => return,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "a file that is being read along can no longer be read");
                return;
            }
        }
        if last_sent.elapsed() >= HEARTBEAT {
            // What was written before the end was seen is read in one more round.
            last_round = has_ended(again.as_ref()).await;
            if sender.send(StreamFrame::Alive).await.is_err() {
                return;
            }
            last_sent = Instant::now();
        }
        if !last_round {
            Timer::after(POLL_INTERVAL).await;
        }
    }
}

async fn has_ended(again: Option<&(BrainHandle, ClientRequest)>) -> bool {
    match again {
        Some((brain, ask)) => {
            !matches!(brain.ask(ask.clone()).await, Ok(RequestOutcome::Files { ended: false }))
        }
        None => true,
    }
}
