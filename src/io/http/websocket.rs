//! A connection that goes on as a websocket, and carries a session with a process.
//!
//! Refuses to know: what is said; `api::session` does.

use super::head::Headers;
use super::line::Line;
use super::patience::Patient;
use crate::node::Session;
use api::session::{self, MAX_MESSAGE_BYTES};
use async_channel::{Receiver, Sender};
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use async_tungstenite::tungstenite::{Error, Message};
use async_tungstenite::{WebSocketReceiver, WebSocketSender, WebSocketStream};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use smol::Timer;
use smol::future::or;
use smol::stream::StreamExt;
use std::time::Duration;
use wire::ask::{SessionInput, SessionOutput};

/// Callers say every ten seconds that they are there (client.md 25.8): one that is silent for longer is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// The longest reason that fits into a close frame (RFC 6455 section 5.5).
const MAX_REASON_BYTES: usize = 123;

/// A caller's offer to go on by websocket.
pub struct Offer {
    accept: String,
}

impl Offer {
    pub fn read(headers: Headers<'_>) -> Option<Offer> {
        let is_offer = headers.lists("Upgrade", "websocket") && headers.lists("Sec-WebSocket-Version", "13");
        if !is_offer || is_foreign(headers.get("Origin"), headers.get("Host")) {
            return None;
        }
        Some(Offer { accept: accept_key(headers.get("Sec-WebSocket-Key")?) })
    }

    /// What accepts it.
    pub fn answer(self) -> [(&'static str, String); 2] {
        [("Upgrade", "websocket".to_string()), ("Sec-WebSocket-Accept", self.accept)]
    }
}

/// What shows that an offer was understood (RFC 6455 section 4.2.2).
pub fn accept_key(key: &str) -> String {
    STANDARD.encode(Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11")))
}

/// A browser says whose page asks, and would let any page of the world have a session with this machine.
fn is_foreign(origin: Option<&str>, own: Option<&str>) -> bool {
    let Some(origin) = origin else { return false };
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    !host.eq_ignore_ascii_case(own.unwrap_or_default())
}

pub async fn converse(line: Line, session: Session) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let Line { socket, came } = line;
    let socket = WebSocketStream::from_partially_read(socket, came, Role::Server, Some(config)).await;
    let (mut sender, mut receiver) = socket.split();
    let Session { input, output } = session;
    let last = or(listen(&mut receiver, &input), tell(&mut sender, &output)).await;
    if let Some(frame) = last {
        // a caller that left needs no goodbye
        let _gone = sender.close(Some(frame)).await;
    }
}

/// Until the caller leaves, or says what cannot be understood.
async fn listen(from: &mut WebSocketReceiver<Patient>, input: &Sender<SessionInput>) -> Option<CloseFrame> {
    loop {
        let said = or(async { from.next().await }, async {
            Timer::after(SILENCE).await;
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

/// Until the session's last word.
async fn tell(to: &mut WebSocketSender<Patient>, output: &Receiver<SessionOutput>) -> Option<CloseFrame> {
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
    fn only_pages_of_this_agent_may_ask_from_a_browser() {
        for (origin, foreign) in [
            (None, false),
            (Some("http://localhost:4646"), false),
            (Some("http://LOCALHOST:4646"), false),
            (Some("http://evil.example"), true),
            (Some("http://localhost:4646.evil.example"), true),
            (Some("null"), true),
        ] {
            assert_eq!(is_foreign(origin, Some("localhost:4646")), foreign, "{origin:?}");
        }
    }

    /// The example of RFC 6455, section 1.3.
    #[test]
    fn an_offer_is_accepted_with_its_key() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn reasons_fit_into_a_close_frame() {
        assert_eq!(closing(CloseCode::Error, &"ö".repeat(100)).reason.len(), 122);
        assert_eq!(closing(CloseCode::Error, "no").reason.as_str(), "no");
    }
}
