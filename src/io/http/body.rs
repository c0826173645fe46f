//! Bodies of responses: whole ones, and streams fed through a bounded channel.

use super::encoding::Squeezer;
use async_channel::Receiver;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub enum ReplyBody {
    /// `None` once it was sent.
    Whole(Option<Bytes>),
    /// Ends when its senders are gone. A slow reader holds its sender back.
    Stream(Pin<Box<Receiver<Bytes>>>),
    /// The same, compressed. Without its compressor it has ended.
    Squeezed(Pin<Box<Receiver<Bytes>>>, Option<Box<Squeezer>>),
}

impl ReplyBody {
    pub fn whole(bytes: Vec<u8>) -> ReplyBody {
        ReplyBody::Whole(Some(bytes.into()).filter(|b: &Bytes| !b.is_empty()))
    }

    pub fn stream(chunks: Receiver<Bytes>) -> ReplyBody {
        ReplyBody::Stream(Box::pin(chunks))
    }

    /// A stream goes on compressed, anything else as it is.
    pub fn squeezed(self, squeezer: Squeezer) -> ReplyBody {
        match self {
            ReplyBody::Stream(chunks) => ReplyBody::Squeezed(chunks, Some(Box::new(squeezer))),
            other => other,
        }
    }
}

impl ReplyBody {
    /// What ends a compressed stream.
    fn end(&mut self) -> Vec<u8> {
        match self {
            ReplyBody::Squeezed(_, squeezer) => squeezer.take().map_or_else(Vec::new, |s| s.end()),
            _ => Vec::new(),
        }
    }
}

fn next(chunks: &mut Pin<Box<Receiver<Bytes>>>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
    smol::stream::Stream::poll_next(chunks.as_mut(), cx)
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
                next(chunks, cx).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
            }
            ReplyBody::Squeezed(_, None) => Poll::Ready(None),
            ReplyBody::Squeezed(chunks, Some(squeezer)) => {
                let small = match ready!(next(chunks, cx)) {
                    Some(bytes) => squeezer.chunk(&bytes),
                    None => self.end(),
                };
                Poll::Ready(Some(Ok(Frame::data(small.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ReplyBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            ReplyBody::Stream(_) | ReplyBody::Squeezed(..) => SizeHint::default(),
        }
    }
}
