//! A relay stream: one user's request to another agent, and its answer, on a two-way stream of a link (decision 0098).
//!
//! Refuses to know: what is asked. Invariants: a stream that ends without its last word is reset, so that half an answer is never taken for
//! a whole one; either side's end is the other one's; nothing is kept here of what the reader has not taken.

use hyper::body::Bytes;
use quinn::{RecvStream, SendStream, VarInt};
use smol::Timer;
use smol::future::or;
use std::time::Duration;
use wire::record::{self, Record};
use wire::relay::{MAX_HEADER_BYTES, RelayHeader, RelayRefusal, RelayWelcome};
use wire::rpc::Peer;

/// How long the other side may take to say whether it takes a stream.
pub const RELAY_OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The code that tells a reader who waits for more that the answer is not whole.
const BROKEN_OFF: VarInt = VarInt::from_u32(1);
/// What is made room for before anything has come, and what is taken at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Relays come after all that machines say to each other themselves.
const PRIORITY: i32 = -100;

/// The other side, or the link, is gone, or what it says cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayBroken;

/// Why no stream came to be. Nothing was asked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayNotOpened {
    Refused(RelayRefusal),
    /// The link has ended, or nothing was heard in time.
    Silent,
}

pub struct RelayStream {
    pub sender: RelaySender,
    pub receiver: RelayReceiver,
}

pub struct RelaySender {
    stream: SendStream,
    is_finished: bool,
}

pub struct RelayReceiver(RecvStream);

/// A stream that another machine has opened.
pub struct RelayAsked {
    /// The link's peer.
    pub from: Peer,
    pub header: RelayHeader,
    stream: RelayStream,
}

impl RelayStream {
    pub(super) fn new((sender, receiver): (SendStream, RecvStream)) -> RelayStream {
        // a stream that has ended needs none
        let _ = sender.set_priority(PRIORITY);
        let sender = RelaySender { stream: sender, is_finished: false };
        RelayStream { sender, receiver: RelayReceiver(receiver) }
    }

    pub(super) async fn welcomed(&mut self, header: RelayHeader) -> Result<(), RelayNotOpened> {
        let silent = |_| RelayNotOpened::Silent;
        self.sender.send(&header).await.map_err(silent)?;
        match self.receiver.receive(MAX_HEADER_BYTES).await.map_err(silent)? {
            RelayWelcome::Taken => Ok(()),
            RelayWelcome::Refused(refusal) => Err(RelayNotOpened::Refused(refusal)),
        }
    }

    /// Reads whom it is for. Whoever says something else is told so.
    pub(super) async fn asked(mut self, from: Peer) -> Option<RelayAsked> {
        let header = or(self.receiver.receive(MAX_HEADER_BYTES), async {
            Timer::after(RELAY_OPEN_TIMEOUT).await;
            Err(RelayBroken)
        });
        match header.await {
            Ok(header) => Some(RelayAsked { from, header, stream: self }),
            Err(RelayBroken) => {
                self.refuse(RelayRefusal::Malformed).await;
                None
            }
        }
    }

    async fn refuse(mut self, refusal: RelayRefusal) {
        if self.sender.send(&RelayWelcome::Refused(refusal)).await.is_ok() {
            self.sender.finish();
        }
    }

    /// Carries what two sides say to each other, until one of them ends: `self` has asked, `other` answers.
    pub async fn join(self, other: RelayStream) {
        let (asking, answering) = (self, other);
        let (mut to_answerer, mut to_asker) = (answering.sender, asking.sender);
        let (mut from_answerer, mut from_asker) = (answering.receiver, asking.receiver);
        let asker_left = to_asker.left();
        let asked = async {
            if carry(&mut from_asker, &mut to_answerer).await.is_ok() {
                // it has said all: the answer is still to come
                std::future::pending::<()>().await;
            }
        };
        let answered = async {
            // whoever is lost is reset when the streams are dropped
            let _ = carry(&mut from_answerer, &mut to_asker).await;
        };
        or(answered, or(asked, asker_left)).await;
    }
}

async fn carry(from: &mut RelayReceiver, to: &mut RelaySender) -> Result<(), RelayBroken> {
    while let Some(bytes) = from.piece().await? {
        to.send_piece(bytes).await?;
    }
    to.finish();
    Ok(())
}

impl RelayAsked {
    /// The stream to carry on with. `None`: whoever opened it has left.
    pub async fn take(self) -> Option<RelayStream> {
        let mut stream = self.stream;
        stream.sender.send(&RelayWelcome::Taken).await.ok()?;
        Some(stream)
    }

    pub async fn refuse(self, refusal: RelayRefusal) {
        self.stream.refuse(refusal).await;
    }
}

impl RelaySender {
    /// Waits while the other side reads nothing.
    pub async fn send<R: Record>(&mut self, message: &R) -> Result<(), RelayBroken> {
        let bytes = record::encode(message);
        let length = u32::try_from(bytes.len()).map_err(|_| RelayBroken)?.to_le_bytes();
        self.send_piece(Bytes::from([length.as_slice(), &bytes].concat())).await
    }

    /// As above, bytes as they are.
    pub async fn send_piece(&mut self, bytes: Bytes) -> Result<(), RelayBroken> {
        self.stream.write_chunk(bytes).await.map_err(|_| RelayBroken)
    }

    /// Nothing more comes, and all of it is to be read.
    pub fn finish(&mut self) {
        // a stream that the other side has stopped needs no end
        self.is_finished = self.stream.finish().is_ok();
    }

    /// Ends when the other side reads no more, or has read all.
    pub fn left(&self) -> impl Future<Output = ()> + Send + use<> {
        let stopped = self.stream.stopped();
        async move {
            // whether it stopped or was lost changes nothing
            let _ = stopped.await;
        }
    }
}

impl Drop for RelaySender {
    fn drop(&mut self) {
        if !self.is_finished {
            // one that the other side has stopped is over already
            let _ = self.stream.reset(BROKEN_OFF);
        }
    }
}

impl RelayReceiver {
    /// `limit`: the longest message that is taken.
    pub async fn receive<R: Record>(&mut self, limit: usize) -> Result<R, RelayBroken> {
        let bytes = self.message(limit).await?;
        record::decode(&bytes).map_err(|_| RelayBroken)
    }

    async fn message(&mut self, limit: usize) -> Result<Vec<u8>, RelayBroken> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).await.map_err(|_| RelayBroken)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > limit {
            return Err(RelayBroken);
        }
        let mut bytes = Vec::with_capacity(length.min(PIECE_BYTES));
        while bytes.len() < length {
            let left = (length - bytes.len()).min(PIECE_BYTES);
            let chunk = self.0.read_chunk(left, true).await.map_err(|_| RelayBroken)?;
            bytes.extend_from_slice(&chunk.ok_or(RelayBroken)?.bytes);
        }
        Ok(bytes)
    }

    /// The next bytes; `None` at the stream's proper end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, RelayBroken> {
        let chunk = self.0.read_chunk(PIECE_BYTES, true).await.map_err(|_| RelayBroken)?;
        Ok(chunk.map(|chunk| chunk.bytes))
    }
}
