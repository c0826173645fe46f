//! One connection: requests read within their limits, answers written, one after the other.

use super::body::ReplyBody;
use super::encoding::{self, Squeezer};
use super::frugal::Frugal;
use super::gate::{Gate, Served};
use super::patience::{Patient, WRITE_TIMEOUT};
use super::{BODY_TIMEOUT, GRACE, HEAD_TIMEOUT, events, monitor, websocket};
use crate::api::cors;
use crate::api::request::{MAX_BODY_BYTES, Method, Request};
use crate::api::response::Response;
use crate::api::showing::Showing;
use crate::wire::ask::Piece;
use async_channel::Receiver;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use smol::Timer;
use smol::future::or;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::TcpStream;
use smol_hyper::rt::SmolTimer;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a head may be, in bytes: request line and headers together.
const MAX_HEAD_BYTES: usize = 32 << 10;
const MAX_HEADERS: usize = 64;
/// How much of a body that is too long is read and thrown away.
const MAX_DISCARDED_BYTES: usize = 16 << 20;

pub async fn serve(
    executor: Arc<smol::Executor<'static>>,
    gate: Arc<Gate>,
    socket: TcpStream,
    stop: Receiver<()>,
) {
    // Small answers shall not wait for more to send with them.
    let _ = socket.set_nodelay(true);
    let service = service_fn(move |request| {
        let (executor, gate) = (executor.clone(), gate.clone());
        async move { Ok::<_, Infallible>(reply(executor, gate, request).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(SmolTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .half_close(false)
            .serve_connection(Frugal(Patient::new(socket, WRITE_TIMEOUT)), service)
            .with_upgrades()
    );
    let ended = or(
        async {
            // A connection that ends badly ends all the same.
            let _ = connection.as_mut().await;
            true
        },
        async {
            let _ = stop.recv().await;
            false
        },
    )
    .await;
    if !ended {
        connection.as_mut().graceful_shutdown();
        or(async { connection.await.is_ok() }, async {
            Timer::after(GRACE).await;
            false
        })
        .await;
    }
}

const CROWDED: &str = "Your IP is issuing too many concurrent connections, please rate limit your calls\n";

/// Tells a connection that there are too many, and closes it.
pub async fn refuse(mut socket: TcpStream) {
    let head = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nConnection: close\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{CROWDED}", CROWDED.len());
    let tell = async {
        if socket.write_all(answer.as_bytes()).await.is_ok() && socket.close().await.is_ok() {
            // What the peer still sends is read, so that the answer is not lost to a reset.
            let _ = smol::io::copy(socket.take(MAX_DISCARDED_BYTES as u64), &mut smol::io::sink()).await;
        }
    };
    or(tell, async {
        Timer::after(Duration::from_secs(1)).await;
    })
    .await;
}

async fn reply(
    executor: Arc<smol::Executor<'static>>,
    gate: Arc<Gate>,
    mut request: hyper::Request<Incoming>,
) -> hyper::Response<ReplyBody> {
    let offer = websocket::offer(&mut request);
    let (extra, squeezed) = (gate.response_headers.get(), gate.squeezed.clone());
    let gzip = encoding::takes_gzip(request.headers());
    let (browser, preflight) = browser(&request);
    let answered = match preflight {
        Some(response) => Answered::Whole(response),
        None => match read(request, offer.is_some()).await {
            Err(response) => Answered::Whole(response),
            Ok(request) => answer(&executor, gate, &request, offer).await,
        },
    };
    let mut reply = match answered {
        Answered::Whole(response) if gzip => whole(squeeze(response).await),
        Answered::Whole(response) => whole(response),
        Answered::Ready(reply) => reply,
        Answered::Stream(stream) => streamed(stream, gzip.then(|| Squeezer::new(&squeezed)).flatten()),
    };
    for (name, value) in browser {
        add(&mut reply, name, &value);
    }
    for (name, value) in extra.iter() {
        set(&mut reply, name, value);
    }
    reply
}

/// Pieces as their caller wants to see them. Ends with them, or when the caller leaves.
fn shown(executor: &smol::Executor<'static>, pieces: Receiver<Piece>, showing: Showing) -> Receiver<Bytes> {
    let (sender, chunks) = async_channel::bounded(1);
    let pass_on = async move {
        while let Ok(piece) = pieces.recv().await {
            let sent = match showing.bytes(piece) {
                Some(bytes) => sender.send(bytes.into()).await.is_ok(),
                None => !sender.is_closed(),
            };
            if !sent {
                return;
            }
        }
    };
    executor.spawn(pass_on).detach();
    chunks
}

/// A content type, and what comes until the stream ends.
type Stream = (&'static str, Receiver<Bytes>);

enum Answered {
    Whole(Response),
    Ready(hyper::Response<ReplyBody>),
    Stream(Stream),
}

async fn answer(
    executor: &Arc<smol::Executor<'static>>,
    gate: Arc<Gate>,
    request: &Request,
    offer: Option<websocket::Offer>,
) -> Answered {
    let stream = match gate.answer(request).await {
        Served::Whole(response) => return Answered::Whole(response),
        Served::Session(session) => {
            return match offer {
                Some(offer) => Answered::Ready(websocket::take(executor, offer, session)),
                None => Answered::Whole(Response::text(400, "a session needs a websocket")),
            };
        }
        Served::Pieces(pieces, showing) => Ok((showing.content_type(), shown(executor, pieces, showing))),
        Served::Monitor(request) => monitor::log(executor, &gate.monitor, request),
        Served::Events(subscription) => {
            events::events(executor, &gate, subscription).map(|lines| ("application/json", lines))
        }
    };
    stream.map_or_else(Answered::Whole, Answered::Stream)
}

/// What a browser has to be told, and the answer if that was all it asked.
fn browser<B>(request: &hyper::Request<B>) -> (Vec<(&'static str, String)>, Option<Response>) {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let asked = cors::Asked {
        path: request.uri().path(),
        method: request.method().as_str(),
        origin: header("origin"),
        wanted_method: header("access-control-request-method"),
        wanted_headers: header("access-control-request-headers"),
    };
    cors::answer(&asked)
}

async fn squeeze(response: Response) -> Response {
    match encoding::squeeze(response.body).await {
        Err(body) => Response { body, ..response },
        Ok(body) => {
            Response { body, ..response }.with("Content-Encoding", "gzip").with("Vary", "Accept-Encoding")
        }
    }
}

/// What goes on for as long as there is something to say is never kept by anyone on the way.
fn streamed((content_type, chunks): Stream, squeezer: Option<Squeezer>) -> hyper::Response<ReplyBody> {
    let body = ReplyBody::stream(chunks);
    let mut reply = match squeezer {
        None => hyper::Response::new(body),
        Some(squeezer) => {
            let mut reply = hyper::Response::new(body.squeezed(squeezer));
            set(&mut reply, "content-encoding", "gzip");
            set(&mut reply, "vary", "Accept-Encoding");
            reply
        }
    };
    set(&mut reply, "content-type", content_type);
    set(&mut reply, "cache-control", "no-cache");
    reply
}

fn whole(response: Response) -> hyper::Response<ReplyBody> {
    let mut reply = hyper::Response::new(ReplyBody::whole(response.body));
    *reply.status_mut() =
        hyper::StatusCode::from_u16(response.status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in response.headers {
        set(&mut reply, name, &value);
    }
    reply
}

/// A header that cannot be written is left out.
fn set(reply: &mut hyper::Response<ReplyBody>, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
        reply.headers_mut().insert(name, value);
    }
}

/// Beside others of the same name.
fn add(reply: &mut hyper::Response<ReplyBody>, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().append(name, value);
    }
}

/// The request with its whole body, or why it was not taken.
async fn read(request: hyper::Request<Incoming>, websocket: bool) -> Result<Request, Response> {
    let (head, body) = request.into_parts();
    // Who asks first is told before sending anything.
    let asks_first = head.headers.contains_key(hyper::header::EXPECT);
    if asks_first && body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(too_long());
    }
    let body = or(collect(body), async {
        Timer::after(BODY_TIMEOUT).await;
        Err(closing(Response::text(408, "the request body did not come within 30 seconds")))
    })
    .await?;
    Ok(Request {
        method: method(&head.method),
        path: head.uri.path().to_string(),
        query: head.uri.query().unwrap_or_default().to_string(),
        body,
        websocket,
    })
}

/// A body that is too long is read on and thrown away for a while: a peer that is still sending would otherwise see its
/// connection reset instead of the answer.
async fn collect(mut body: Incoming) -> Result<Vec<u8>, Response> {
    let (mut bytes, mut total) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            closing(Response::text(400, format!("the request body could not be read: {error}")))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        total += data.len();
        if total <= MAX_BODY_BYTES {
            bytes.extend_from_slice(&data);
        } else {
            bytes = Vec::new();
            if total > MAX_BODY_BYTES + MAX_DISCARDED_BYTES {
                break;
            }
        }
    }
    if total > MAX_BODY_BYTES { Err(too_long()) } else { Ok(bytes) }
}

fn too_long() -> Response {
    closing(Response::text(413, format!("the request body is longer than {MAX_BODY_BYTES} bytes")))
}

/// What is left of the body is not read: the connection cannot go on.
fn closing(response: Response) -> Response {
    response.with("Connection", "close")
}

fn method(method: &hyper::Method) -> Method {
    match *method {
        hyper::Method::GET => Method::Get,
        hyper::Method::PUT => Method::Put,
        hyper::Method::POST => Method::Post,
        hyper::Method::DELETE => Method::Delete,
        hyper::Method::HEAD => Method::Head,
        hyper::Method::OPTIONS => Method::Options,
        _ => Method::Other,
    }
}
