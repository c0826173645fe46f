//! Bodies of responses: whole ones, and streams fed through a bounded channel.

use async_channel::Receiver;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

pub enum ReplyBody {
    /// `None` once it was sent.
    Whole(Option<Bytes>),
    /// Ends when its senders are gone. A slow reader holds its sender back.
    Stream(Pin<Box<Receiver<Bytes>>>),
}

impl ReplyBody {
    pub fn whole(bytes: Vec<u8>) -> ReplyBody {
        ReplyBody::Whole(Some(bytes.into()).filter(|b: &Bytes| !b.is_empty()))
    }

    pub fn stream(chunks: Receiver<Bytes>) -> ReplyBody {
        ReplyBody::Stream(Box::pin(chunks))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            ReplyBody::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            ReplyBody::Stream(chunks) => {
                let next = smol::stream::Stream::poll_next(chunks.as_mut(), cx);
                next.map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ReplyBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            ReplyBody::Stream(_) => SizeHint::default(),
        }
    }
}
