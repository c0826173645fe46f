//! The `Service` of an HTTP connection: a request comes in, an answer goes out.

use crate::client_rpc::ExecSession;
use api::response::Response;
use async_channel::Receiver;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use std::pin::Pin;
use std::sync::Arc;
use wire::http::Request;

/// An answer that is still to come.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

pub trait Service: Send + Sync + 'static {
    /// The future is dropped when the caller of a read leaves. `headers`: the request's; they are gone while the answer is waited for.
    fn call<'a>(self: Arc<Self>, request: &'a Request, headers: &HeaderMap) -> AnswerFuture<'a>;
}

/// What becomes of a request.
pub enum Answer {
    Whole(Response),
    /// Chunks until the stream ends; the head of the answer has these headers.
    Stream {
        headers: Vec<(&'static str, String)>,
        chunks: Receiver<Bytes>,
    },
    /// The connection goes on as this session, if the caller offered a websocket.
    Session(ExecSession),
}
