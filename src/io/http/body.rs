//! Bodies of answers: whole ones, and streams fed through a bounded channel.

use super::encoding::GzipStream;
use super::socket::ConnectionProgress;
use async_channel::Receiver;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use smol::stream::Stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

pub struct ReplyBody {
    content: Content,
    progress: Arc<ConnectionProgress>,
}

enum Content {
    /// `None` once it was sent.
    Whole(Option<Bytes>),
    /// Ends when its senders are gone. A slow reader holds its sender back. Without its compressor it goes out as it is.
    Stream(Pin<Box<Receiver<Bytes>>>, Option<Box<GzipStream>>),
    Ended,
}

impl ReplyBody {
    pub fn whole(bytes: Vec<u8>, progress: Arc<ConnectionProgress>) -> ReplyBody {
        let bytes = Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty());
        ReplyBody { content: Content::Whole(bytes), progress }
    }

    pub fn stream(
        chunks: Receiver<Bytes>,
        gzip: Option<GzipStream>,
        progress: Arc<ConnectionProgress>,
    ) -> ReplyBody {
        ReplyBody { content: Content::Stream(Box::pin(chunks), gzip.map(Box::new)), progress }
    }
}

/// hyper drops a body when it has taken all of it.
impl Drop for ReplyBody {
    fn drop(&mut self) {
        self.progress.answered();
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.content {
            Content::Whole(bytes) => bytes.take(),
            Content::Ended => None,
            Content::Stream(chunks, gzip) => match (ready!(chunks.as_mut().poll_next(cx)), gzip) {
                (Some(bytes), None) => Some(bytes),
                (Some(bytes), Some(gzip)) => Some(gzip.chunk(&bytes).into()),
                (None, gzip) => {
                    let end = gzip.take().map(|gzip| gzip.end().into());
                    self.content = Content::Ended;
                    end
                }
            },
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None) | Content::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Content::Stream(..) | Content::Ended => SizeHint::default(),
        }
    }
}
