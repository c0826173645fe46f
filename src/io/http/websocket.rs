//! Websockets: the upgrade of a connection, and the session with a process that it carries.
//!
//! Refuses to know: what is said; `api::session` does.

use super::body::ReplyBody;
use super::socket::TimedSocket;
use crate::client_rpc::ExecSession;
use api::session::{self, MAX_MESSAGE_BYTES};
use async_channel::{Receiver, Sender};
use async_tungstenite::tungstenite::handshake::derive_accept_key;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use async_tungstenite::tungstenite::{Error, Message};
use async_tungstenite::{WebSocketReceiver, WebSocketSender, WebSocketStream};
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, StatusCode, Version};
use smol::Timer;
use smol::future::or;
use smol::stream::StreamExt;
use std::time::Duration;
use wire::client_rpc::{SessionInput, SessionOutput};

/// Callers say every ten seconds that they are there (client.md 25.8): one that is silent for longer is gone.
const PING_INTERVAL: Duration = Duration::from_secs(60);
/// The longest reason that fits into a close frame (RFC 6455 section 5.5).
const MAX_REASON_BYTES: usize = 123;

/// A caller's request to upgrade to a websocket.
pub struct Upgrade {
    upgrade: OnUpgrade,
    accept: HeaderValue,
}

impl Upgrade {
    pub fn take(request: &mut hyper::Request<Incoming>) -> Option<Upgrade> {
        let headers = request.headers();
        let is_offer = lists(headers, UPGRADE, "websocket") && lists(headers, SEC_WEBSOCKET_VERSION, "13");
        let may_upgrade = request.method() == Method::GET && request.version() == Version::HTTP_11;
        if !is_offer || !may_upgrade || is_foreign(headers) {
            return None;
        }
        let accept = derive_accept_key(headers.get(SEC_WEBSOCKET_KEY)?.as_bytes());
        let accept = HeaderValue::from_str(&accept).ok()?;
        Some(Upgrade { upgrade: hyper::upgrade::on(request), accept })
    }

    /// Makes this answer accept it; the connection comes once the answer was sent.
    pub fn accept(self, reply: &mut hyper::Response<ReplyBody>) -> OnUpgrade {
        *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = reply.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        self.upgrade
    }
}

/// Whether one of the words of this header, which lists words, is `word`.
fn lists(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// Whether the page of another origin asks: a browser would let any page of the world have a session with this machine.
fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let Some(origin) = text(ORIGIN) else { return false };
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    !host.eq_ignore_ascii_case(text(HOST).unwrap_or_default())
}

pub async fn serve_session(upgraded: Upgraded, session: ExecSession) {
    let Ok(parts) = upgraded.downcast::<TimedSocket>() else { return };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let read = parts.read_buf.to_vec();
    let socket = WebSocketStream::from_partially_read(parts.io, read, Role::Server, Some(config)).await;
    let (mut sender, mut receiver) = socket.split();
    let ExecSession { input, output } = session;
    let last = or(receive_input(&mut receiver, &input), send_output(&mut sender, &output)).await;
    if let Some(frame) = last {
        // a caller that left needs no goodbye
        let _gone = sender.close(Some(frame)).await;
    }
}

/// Reads until the caller leaves, or says what cannot be understood.
async fn receive_input(
    from: &mut WebSocketReceiver<TimedSocket>,
    input: &Sender<SessionInput>,
) -> Option<CloseFrame> {
    loop {
        let said = or(async { from.next().await }, async {
            Timer::after(PING_INTERVAL).await;
            None
        });
        let text = match said.await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                continue;
            }
            Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed)) | None => return None,
            Some(Err(error)) => return Some(closing(CloseCode::Policy, &error.to_string())),
        };
        let said = match session::input(&text) {
            Ok(said) => said,
            Err(why) => return Some(closing(CloseCode::Policy, &why)),
        };
        for one in said {
            if input.send(one).await.is_err() {
                // the process has ended: what it said last is still on its way
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Sends the session's output, up to the end of its process.
async fn send_output(
    to: &mut WebSocketSender<TimedSocket>,
    output: &Receiver<SessionOutput>,
) -> Option<CloseFrame> {
    while let Ok(said) = output.recv().await {
        let last = matches!(said, SessionOutput::Exited { .. });
        match session::output(said) {
            Err(why) => return Some(closing(CloseCode::Error, &why)),
            Ok(text) => to.send(Message::text(text)).await.ok()?,
        }
        if last {
            return Some(closing(CloseCode::Normal, ""));
        }
    }
    Some(closing(CloseCode::Error, "the session broke off"))
}

fn closing(code: CloseCode, why: &str) -> CloseFrame {
    let end = (0..=MAX_REASON_BYTES.min(why.len())).rev().find(|at| why.is_char_boundary(*at)).unwrap_or(0);
    CloseFrame { code, reason: why[..end].into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn websockets_of_foreign_origins_are_refused() {
        for (origin, foreign) in [
            (None, false),
            (Some("http://localhost:4646"), false),
            (Some("http://LOCALHOST:4646"), false),
            (Some("http://evil.example"), true),
            (Some("http://localhost:4646.evil.example"), true),
            (Some("null"), true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost:4646"));
            headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
            assert_eq!(is_foreign(&headers), foreign, "{origin:?}");
        }
    }

    #[test]
    fn reasons_fit_into_a_close_frame() {
        assert_eq!(closing(CloseCode::Error, &"ö".repeat(100)).reason.len(), 122);
        assert_eq!(closing(CloseCode::Error, "no").reason.as_str(), "no");
    }
}
