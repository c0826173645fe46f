//! One connection: requests read within their limits, answers written, one after the other.
//!
//! What a request that waits costs is what is alive across its wait: `a_waiting_query_is_small` holds the size.

use super::encoding::{self, Squeezer};
use super::gate::{Gate, Served};
use super::head::{self, Framing, Head, MAX_HEAD_BYTES};
use super::incoming::Incoming;
use super::limits::Pass;
use super::line::Line;
use super::patience::{Patient, WRITE_TIMEOUT};
use super::reply::{Length, ReplyHead};
use super::{BODY_TIMEOUT, Bytes, GRACE, HEAD_TIMEOUT, IDLE_TIMEOUT, events, monitor, websocket};
use crate::aside;
use crate::node::Session;
use api::presentation::Presentation;
use api::request::{MAX_BODY_BYTES, Method, Request};
use api::response::Response;
use async_channel::Receiver;
use smol::Timer;
use smol::future::or;
use smol::net::TcpStream;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;
use wire::ask::Piece;

/// How much of a body that is too long is read and thrown away, for a peer that listens only when it has sent everything.
const MAX_DISCARDED_BYTES: u64 = 16 << 20;

/// What all connections share.
pub struct Host {
    pub executor: Arc<smol::Executor<'static>>,
    pub gate: Arc<Gate>,
    /// Closed when the server is to end.
    pub stop: Receiver<()>,
}

/// Until it ends, or for as long as a stop leaves it.
pub async fn serve(host: Arc<Host>, socket: TcpStream, pass: Pass) {
    // Small answers shall not wait for more to send with them.
    let _ = socket.set_nodelay(true);
    let line = Line::new(Patient::new(socket, WRITE_TIMEOUT));
    or(converse(&host, line, &pass), async {
        let _ = host.stop.recv().await;
        Timer::after(GRACE).await;
    })
    .await;
}

const CROWDED: &str = "Your IP is issuing too many concurrent connections, please rate limit your calls\n";

/// Tells a connection that there are too many, and closes it.
pub async fn refuse(socket: TcpStream) {
    let mut line = Line::new(Patient::new(socket, Duration::from_secs(1)));
    let refused = Response::text(429, CROWDED);
    let head = ReplyHead::new(429, &refused.headers, &[]).end(Length::Bytes(CROWDED.len()), Some("close"));
    if line.write(&mut [IoSlice::new(&head), IoSlice::new(&refused.body)]).await.is_ok() {
        line.part().await;
    }
}

/// What becomes of a connection after an answer.
enum After {
    Again,
    End,
    Websocket(Session),
}

async fn converse(host: &Host, mut line: Line, pass: &Pass) {
    let mut idle = HEAD_TIMEOUT;
    loop {
        let head = match next(host, &mut line, idle).await {
            Some(Ok(head)) => head,
            Some(Err(refused)) => {
                if host.tell(&mut line, None, refused).await.is_ok() {
                    line.part().await;
                }
                return;
            }
            None => return,
        };
        match exchange(host, &mut line, head).await {
            Ok(After::Again) => {}
            Ok(After::End) => return line.part().await,
            Ok(After::Websocket(session)) => return Box::pin(websocket::converse(line, session)).await,
            // A connection that ends badly ends all the same.
            Err(_) => return,
        }
        idle = if pass.is_crowded(*host.gate.limits.get()) { HEAD_TIMEOUT } else { IDLE_TIMEOUT };
    }
}

/// The next request's head; `None` when there will be none.
async fn next(host: &Host, line: &mut Line, idle: Duration) -> Option<Result<Box<Head>, Response>> {
    if line.came.is_empty() {
        let silent = async {
            or(Timer::after(idle), async {
                let _ = host.stop.recv().await;
                std::time::Instant::now()
            })
            .await;
            Ok(false)
        };
        if !or(line.more(), silent).await.unwrap_or(false) {
            return None;
        }
    }
    or(whole_head(line), async {
        Timer::after(HEAD_TIMEOUT).await;
        Some(Err(Response::text(408, "the request's head did not come within 5 seconds")))
    })
    .await
}

async fn whole_head(line: &mut Line) -> Option<Result<Box<Head>, Response>> {
    let mut looked = 0;
    loop {
        // Empty lines before a request mean nothing (RFC 9112 section 2.2).
        let blank = line.came.iter().take_while(|b| b"\r\n".contains(b)).count();
        if blank > 0 {
            line.came.drain(..blank);
        }
        match head::end(&line.came, looked) {
            Some(end) if end <= MAX_HEAD_BYTES => {
                let bytes = line.take(end);
                return Some(head::parse(&bytes).map(Box::new));
            }
            None if line.came.len() <= MAX_HEAD_BYTES => {}
            _ => return Some(Err(head::too_long())),
        }
        if line.came.first().is_some_and(|b| !b.is_ascii_graphic()) {
            return Some(Err(head::malformed("it does not begin with a method")));
        }
        looked = line.came.len();
        if !line.more().await.unwrap_or(false) {
            return None;
        }
    }
}

async fn exchange(host: &Host, line: &mut Line, mut head: Box<Head>) -> io::Result<After> {
    if head.framing != Framing::Length(0) {
        match Box::pin(body(line, &head)).await? {
            Ok(body) => head.request.body = body,
            Err(refused) => {
                host.tell(line, None, refused).await?;
                return Ok(After::End);
            }
        }
    }
    if let Some(preflight) = head.preflight.take() {
        return host.tell(line, Some(&head), preflight).await;
    }
    // A write is done even if its caller does not wait for the answer.
    let may_leave = matches!(head.request.method, Method::Get | Method::Head);
    let answered = or(async { Some(host.answer(&head.request).await) }, async {
        match may_leave {
            true => line.left().await,
            false => std::future::pending().await,
        }
        None
    });
    match answered.await {
        None => Err(io::ErrorKind::ConnectionAborted.into()),
        Some(Answered::Whole(response)) => host.tell(line, Some(&head), response).await,
        Some(Answered::Stream(content_type, chunks)) => host.stream(line, &head, content_type, chunks).await,
        Some(Answered::Session(session)) => match head.offer.take() {
            Some(offer) => {
                let head = ReplyHead::new(101, &offer.answer(), &host.gate.response_headers.get());
                line.write(&mut [IoSlice::new(&head.end(Length::Nothing, Some("Upgrade")))]).await?;
                Ok(After::Websocket(session))
            }
            None => {
                let refused = Response::text(400, "a session needs a websocket");
                host.tell(line, Some(&head), refused).await
            }
        },
    }
}

/// The body, or why it was not taken.
async fn body(line: &mut Line, head: &Head) -> io::Result<Result<Vec<u8>, Response>> {
    let mut body = Incoming::new(head.framing, MAX_BODY_BYTES);
    let announced = match head.framing {
        Framing::Length(length) => length,
        Framing::Chunks => 0,
    };
    // Who asks first is told before sending anything.
    if announced > MAX_BODY_BYTES as u64 && (head.expects || announced > MAX_DISCARDED_BYTES) {
        return Ok(Err(too_long()));
    }
    if head.expects && line.came.is_empty() {
        line.write(&mut [IoSlice::new(b"HTTP/1.1 100 Continue\r\n\r\n")]).await?;
    }
    let came = async {
        loop {
            if let Err(why) = body.take(&mut line.came) {
                return Ok(Err(head::malformed(why)));
            }
            if body.total > MAX_BODY_BYTES as u64 + MAX_DISCARDED_BYTES
                || (body.is_whole() && body.is_too_long())
            {
                return Ok(Err(too_long()));
            }
            if body.is_whole() {
                return Ok(Ok(std::mem::take(&mut body.bytes)));
            }
            if !line.more().await? {
                return Ok(Err(head::malformed("its body ended early")));
            }
        }
    };
    or(came, async {
        Timer::after(BODY_TIMEOUT).await;
        Ok(Err(Response::text(408, "the request body did not come within 30 seconds")))
    })
    .await
}

fn too_long() -> Response {
    Response::text(413, format!("the request body is longer than {MAX_BODY_BYTES} bytes"))
}

enum Answered {
    Whole(Response),
    /// A content type, and what comes until the stream ends.
    Stream(&'static str, Receiver<Bytes>),
    Session(Session),
}

impl Host {
    async fn answer(&self, request: &Request) -> Answered {
        let stream = match self.gate.answer(request).await {
            Served::Whole(response) => return Answered::Whole(response),
            Served::Session(session) => return Answered::Session(session),
            Served::Pieces(pieces, presentation) => {
                Ok((presentation.content_type(), shown(&self.executor, pieces, presentation)))
            }
            Served::Monitor(request) => monitor::log(&self.executor, &self.gate.monitor, request),
            Served::Events(subscription) => events::events(&self.executor, &self.gate, subscription)
                .map(|lines| ("application/json", lines)),
        };
        match stream {
            Ok((content_type, chunks)) => Answered::Stream(content_type, chunks),
            Err(refused) => Answered::Whole(refused),
        }
    }

    /// Writes an answer; without the request's head, the connection's last one.
    async fn tell(&self, line: &mut Line, head: Option<&Head>, response: Response) -> io::Result<After> {
        let mut response = match head {
            Some(head) if head.gzip => squeeze(response).await,
            _ => response,
        };
        response.headers.extend(head.iter().flat_map(|head| head.browser.clone()));
        let length = match response.status {
            204 => Length::Nothing,
            _ => Length::Bytes(response.body.len()),
        };
        let keeps = head.is_some_and(|head| head.keeps) && !self.stop.is_closed();
        let reply = ReplyHead::new(response.status, &response.headers, &self.gate.response_headers.get());
        let reply = reply.end(length, word(keeps, head));
        let body = match head {
            Some(head) if head.request.method == Method::Head => &[],
            _ if length == Length::Nothing => &[],
            _ => response.body.as_slice(),
        };
        line.write(&mut [IoSlice::new(&reply), IoSlice::new(body)]).await?;
        Ok(if keeps { After::Again } else { After::End })
    }

    /// What goes on for as long as there is something to say is never kept by anyone on the way.
    async fn stream(
        &self,
        line: &mut Line,
        head: &Head,
        content_type: &'static str,
        chunks: Receiver<Bytes>,
    ) -> io::Result<After> {
        let mut squeezer = if head.gzip { Squeezer::new(&self.gate.squeezed).map(Box::new) } else { None };
        let keeps = head.keeps && !head.old && !self.stop.is_closed();
        let reply = self.stream_head(head, content_type, squeezer.is_some(), keeps);
        line.write(&mut [IoSlice::new(&reply)]).await?;
        loop {
            let next = or(async { Some(chunks.recv().await.ok()) }, async {
                line.left().await;
                None
            });
            let (last, bytes) = match next.await {
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
                Some(Some(bytes)) => (false, bytes),
                Some(None) => (true, Bytes::default()),
            };
            let small = squeezer.as_mut().map(|squeezer| squeezer.chunk(&bytes));
            write_chunk(line, head.old, small.as_ref().unwrap_or(&bytes)).await?;
            if last {
                let end = squeezer.map_or_else(Vec::new, |squeezer| squeezer.end());
                write_chunk(line, head.old, &end).await?;
                break;
            }
        }
        if !head.old {
            line.write(&mut [IoSlice::new(b"0\r\n\r\n")]).await?;
        }
        Ok(if keeps { After::Again } else { After::End })
    }

    fn stream_head(&self, head: &Head, content_type: &str, squeezed: bool, keeps: bool) -> Vec<u8> {
        let mut headers =
            vec![("Content-Type", content_type.to_string()), ("Cache-Control", "no-cache".to_string())];
        if squeezed {
            headers.extend(encoding::HEADERS.map(|(name, value)| (name, value.to_string())));
        }
        headers.extend(head.browser.iter().cloned());
        let reply = ReplyHead::new(200, &headers, &self.gate.response_headers.get());
        reply.end(if head.old { Length::Open } else { Length::Chunks }, word(keeps, Some(head)))
    }
}

/// What has to be said of the connection: each version of HTTP takes something else for granted.
fn word(keeps: bool, head: Option<&Head>) -> Option<&'static str> {
    match (keeps, head.is_some_and(|head| head.old)) {
        (true, false) => None,
        (true, true) => Some("keep-alive"),
        (false, _) => Some("close"),
    }
}

/// One without bytes would end the body.
async fn write_chunk(line: &mut Line, old: bool, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    if old {
        return line.write(&mut [IoSlice::new(bytes)]).await;
    }
    let size = format!("{:x}\r\n", bytes.len());
    line.write(&mut [IoSlice::new(size.as_bytes()), IoSlice::new(bytes), IoSlice::new(b"\r\n")]).await
}

/// Pieces as their caller wants to see them. Ends with them, or when the caller leaves.
fn shown(
    executor: &smol::Executor<'static>,
    pieces: Receiver<Piece>,
    presentation: Presentation,
) -> Receiver<Bytes> {
    let (sender, chunks) = async_channel::bounded(1);
    let pass_on = async move {
        while let Ok(piece) = pieces.recv().await {
            let sent = match presentation.bytes(piece) {
                Some(bytes) => sender.send(bytes.into()).await.is_ok(),
                None => !sender.is_closed(),
            };
            if !sent {
                return;
            }
        }
    };
    aside::spawn(executor, pass_on).detach();
    chunks
}

async fn squeeze(response: Response) -> Response {
    match encoding::squeeze(response.body).await {
        Err(body) => Response { body, ..response },
        Ok(body) => {
            let squeezed = Response { body, ..response };
            encoding::HEADERS.iter().fold(squeezed, |response, (name, value)| response.with(name, value))
        }
    }
}
