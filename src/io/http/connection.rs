//! One connection: hyper reads its requests and writes their answers, one after the other, within our limits.

use super::body::ReplyBody;
use super::encoding::{self, ActiveCompressions, GzipStream};
use super::limits::ConnectionPermit;
use super::service::{Answer, Service};
use super::socket::{ConnectionPhase, ConnectionProgress, TimedSocket};
use super::stream::HttpStream;
use super::{BODY_TIMEOUT, GRACE, HEAD_TIMEOUT, HttpSettings, IDLE_TIMEOUT, websocket};
use crate::client_rpc::ExecSession;
use api::request::MAX_BODY_BYTES;
use api::response::Response;
use async_channel::Receiver;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    CACHE_CONTROL, CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{StatusCode, Uri, Version};
use smol::Timer;
use smol::future::or;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::TcpStream;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::http::{Method, Request};

/// How long a request's head may be: request line and headers together.
const MAX_HEAD_BYTES: usize = 32 << 10;
const MAX_HEADERS: usize = 64;
/// How much of a body that is too long is read and thrown away, for a peer that listens only when it has sent everything.
const MAX_DISCARDED_BYTES: usize = 16 << 20;
/// How long input is still read and dropped after the last answer, so that the peer can read it.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// What all connections share.
pub struct Host {
    pub executor: Arc<smol::Executor<'static>>,
    pub service: Arc<dyn Service>,
    pub settings: Arc<HttpSettings>,
    pub compressions: ActiveCompressions,
    /// Closed when the server is to end.
    pub stop: Receiver<()>,
}

/// What the requests of one connection share.
struct HttpConnection {
    host: Arc<Host>,
    permit: ConnectionPermit,
    progress: Arc<ConnectionProgress>,
    /// The session that takes the connection over once its answer was sent.
    upgrade: Mutex<Option<(OnUpgrade, ExecSession)>>,
}

/// Serves a connection until it ends, or for as long as a stop leaves it.
pub async fn serve(host: Arc<Host>, socket: TcpStream, permit: ConnectionPermit) {
    // Small answers shall not wait for more to send with them; where that cannot be set, they do.
    let _ = socket.set_nodelay(true);
    let stop = host.stop.clone();
    let progress = Arc::new(ConnectionProgress::new(HEAD_TIMEOUT));
    let connection = Arc::new(HttpConnection { host, permit, progress, upgrade: Mutex::default() });
    let serving = async {
        if let Some(stream) = connection.host.settings.begin(socket).await {
            connection.run(stream).await;
        }
    };
    or(serving, async {
        // nothing is sent: it is closed to stop
        let _ = stop.recv().await;
        Timer::after(GRACE).await;
    })
    .await;
}

/// Tells a connection that there are too many, and closes it.
pub async fn refuse(settings: &HttpSettings, socket: TcpStream) {
    const TOO_MANY_CONNECTIONS: &str =
        "Your IP is issuing too many concurrent connections, please rate limit your calls\n";
    if let Some(stream) = settings.begin(socket).await {
        close_with(stream, "429 Too Many Requests", TOO_MANY_CONNECTIONS).await;
    }
}

/// An answer outside of any request, and the end of the connection.
pub async fn close_with(mut stream: HttpStream, status: &str, text: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    );
    let write = async { stream.write_all(answer.as_bytes()).await.is_ok() && stream.flush().await.is_ok() };
    let tell = or(write, async {
        Timer::after(LINGER_TIMEOUT).await;
        false
    });
    if tell.await {
        linger(stream).await;
    }
}

/// What the peer still sends is read: a reset would take the last answer from it.
pub async fn linger(mut stream: HttpStream) {
    let listen = async {
        let mut chunk = [0; 1 << 10];
        if stream.close().await.is_ok() {
            while stream.read(&mut chunk).await.is_ok_and(|read| read > 0) {}
        }
    };
    or(listen, async {
        Timer::after(LINGER_TIMEOUT).await;
    })
    .await;
}

impl HttpConnection {
    async fn run(self: &Arc<Self>, stream: HttpStream) {
        let served = self.exchanges(stream.clone()).await;
        let session = self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((upgrade, session)) = session {
            drop(stream);
            return match upgrade.await {
                Ok(upgraded) => Box::pin(websocket::serve_session(upgraded, session)).await,
                Err(error) => tracing::warn!(%error, "a session's connection did not become a websocket"),
            };
        }
        if self.progress.head_timed_out() {
            let why = format!("the request's head did not come within {} seconds", HEAD_TIMEOUT.as_secs());
            return Box::pin(close_with(stream, "408 Request Timeout", &why)).await;
        }
        // what was malformed has its answer; a connection that broke has no reader
        if !self.progress.peer_closed() && served.is_none_or(|error| error.is_parse()) {
            Box::pin(linger(stream)).await;
        }
    }

    /// Runs until hyper is done with the connection, and gives the reason if that is a failure. A stop lets the present request finish.
    async fn exchanges(self: &Arc<Self>, stream: HttpStream) -> Option<hyper::Error> {
        let connection = self.clone();
        let service = service_fn(move |request| {
            let connection = connection.clone();
            async move { Ok::<_, Infallible>(connection.exchange(request).await) }
        });
        let mut serving = pin!(
            http1::Builder::new()
                .title_case_headers(true)
                .max_buf_size(MAX_HEAD_BYTES)
                .max_headers(MAX_HEADERS)
                .half_close(false)
                .serve_connection(TimedSocket::new(stream, self.progress.clone()), service)
                .with_upgrades()
        );
        let stopped = async {
            // nothing is sent: it is closed to stop
            let _ = self.host.stop.recv().await;
            None
        };
        match or(async { Some(serving.as_mut().await) }, stopped).await {
            Some(served) => served.err(),
            None => {
                serving.as_mut().graceful_shutdown();
                serving.await.err()
            }
        }
    }

    async fn exchange(&self, mut request: hyper::Request<Incoming>) -> hyper::Response<ReplyBody> {
        self.progress.enter(ConnectionPhase::Body);
        let upgrade = websocket::Upgrade::take(&mut request);
        let (head, body) = request.into_parts();
        let gzip = encoding::takes_gzip(&head.headers);
        let answer = match Box::pin(read(&head, body, upgrade.is_some())).await {
            Err(refused) => Answer::Whole(refused),
            Ok(request) => {
                self.progress.enter(match request.method {
                    Method::Get | Method::Head => ConnectionPhase::Read,
                    // A write is done even if its caller does not wait for the answer.
                    _ => ConnectionPhase::Write,
                });
                let answering = self.host.service.clone().call(&request, &head.headers);
                // hyper's buffer of the head is free again while the answer is waited for
                drop(head);
                answering.await
            }
        };
        let mut reply = Box::pin(self.reply(answer, upgrade, gzip)).await;
        for (name, value) in self.host.settings.response_headers.get().iter() {
            replace(reply.headers_mut(), name, value);
        }
        let crowded = self.permit.is_half_full(*self.host.settings.limits.get());
        self.progress.set_idle(if crowded { HEAD_TIMEOUT } else { IDLE_TIMEOUT });
        reply
    }

    async fn reply(
        &self,
        answer: Answer,
        upgrade: Option<websocket::Upgrade>,
        gzip: bool,
    ) -> hyper::Response<ReplyBody> {
        match (answer, upgrade) {
            (Answer::Whole(response), _) if gzip => self.whole(compress(response).await),
            (Answer::Whole(response), _) => self.whole(response),
            (Answer::Stream { headers, chunks }, _) => {
                let gzip = if gzip { GzipStream::new(&self.host.compressions) } else { None };
                self.stream(&headers, chunks, gzip)
            }
            (Answer::Session(session), Some(upgrade)) => {
                let mut reply = hyper::Response::new(ReplyBody::whole(vec![], self.progress.clone()));
                let upgrade = upgrade.accept(&mut reply);
                *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, session));
                reply
            }
            (Answer::Session(_), None) => self.whole(Response::text(400, "a session needs a websocket")),
        }
    }

    fn whole(&self, response: Response) -> hyper::Response<ReplyBody> {
        let mut reply = hyper::Response::new(ReplyBody::whole(response.body, self.progress.clone()));
        *reply.status_mut() =
            StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in response.headers {
            add(reply.headers_mut(), &name, &value);
        }
        reply
    }

    /// Streams must not be cached.
    fn stream(
        &self,
        more: &[(&'static str, String)],
        chunks: Receiver<Bytes>,
        gzip: Option<GzipStream>,
    ) -> hyper::Response<ReplyBody> {
        let is_compressed = gzip.is_some();
        let mut reply = hyper::Response::new(ReplyBody::stream(chunks, gzip, self.progress.clone()));
        let headers = reply.headers_mut();
        more.iter().for_each(|(name, value)| add(headers, name, value));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if is_compressed {
            encoding::HEADERS.iter().for_each(|(name, value)| add(headers, name, value));
        }
        reply
    }
}

/// Adds a header beside others of the same name. One that cannot be written is left out.
fn add(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
        headers.append(name, value);
    }
}

/// Sets a header that the operator wants on every answer, unless hyper owns it.
fn replace(headers: &mut HeaderMap, name: &str, value: &str) {
    const HYPER_OWNED_HEADERS: [&str; 3] = ["content-length", "transfer-encoding", "connection"];
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value))
        && !HYPER_OWNED_HEADERS.contains(&name.as_str())
    {
        headers.insert(name, value);
    }
}

/// The request with its whole body, or why it was not taken.
async fn read(head: &Parts, body: Incoming, websocket: bool) -> Result<Request, Response> {
    check(head)?;
    let announced = body.size_hint().lower();
    // A request with `Expect` is answered before its body is sent.
    let asks_first = head.headers.contains_key(EXPECT);
    if announced > MAX_BODY_BYTES as u64 && (asks_first || announced > MAX_DISCARDED_BYTES as u64) {
        return Err(too_long());
    }
    let body = match body.is_end_stream() {
        true => vec![],
        false => {
            or(collect(body), async {
                Timer::after(BODY_TIMEOUT).await;
                Err(closing(Response::text(408, "the request body did not come within 30 seconds")))
            })
            .await?
        }
    };
    let (path, query) = target(&head.uri);
    Ok(Request {
        method: method(&head.method),
        path: path.to_string(),
        query: query.to_string(),
        body,
        websocket,
    })
}

fn target(uri: &Uri) -> (&str, &str) {
    (uri.path(), uri.query().unwrap_or_default())
}

/// Refuses a head that hyper accepts, but that two readers could read differently.
fn check(head: &Parts) -> Result<(), Response> {
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if codings.next().is_some_and(|coding| !is_chunked(coding)) || codings.next().is_some() {
        return Err(malformed("its transfer encoding is not known"));
    }
    let mut hosts = head.headers.get_all(HOST).iter();
    if hosts.next().is_none() && head.version == Version::HTTP_11 {
        return Err(malformed("missing required Host header"));
    }
    if hosts.next().is_some() {
        return Err(malformed("it names two hosts"));
    }
    if !head.uri.path().starts_with(['/', '*']) {
        return Err(malformed("its target is no path"));
    }
    Ok(())
}

/// A body that is too long is read on and thrown away for a while: a peer that is still sending would otherwise see its
/// connection reset instead of the answer.
async fn collect(mut body: Incoming) -> Result<Vec<u8>, Response> {
    let (mut bytes, mut total) = (vec![], 0);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| malformed(&format!("its body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        total += data.len();
        if total <= MAX_BODY_BYTES {
            bytes.extend_from_slice(&data);
        } else {
            bytes = vec![];
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

fn malformed(why: &str) -> Response {
    closing(Response::text(400, format!("the request cannot be read: {why}")))
}

/// Closes the connection after the answer: where the next request would begin is not known, or not waited for.
fn closing(response: Response) -> Response {
    response.with(CONNECTION.as_str(), "close")
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

async fn compress(response: Response) -> Response {
    match encoding::compress(response.body).await {
        Err(body) => Response { body, ..response },
        Ok(body) => {
            let compressions = Response { body, ..response };
            encoding::HEADERS.iter().fold(compressions, |response, (name, value)| response.with(name, value))
        }
    }
}
