//! A connection to an agent that goes on as a websocket.
//!
//! Refuses to know: what is said there.

use super::connector::UNIX_HOST;
use super::{ANSWER_TIMEOUT, HttpClient, QueryPairs, RequestError, failed};
use ::io::tls::AsyncSocket;
use async_tungstenite::WebSocketStream;
use async_tungstenite::tungstenite::Error as WebSocketError;
use async_tungstenite::tungstenite::handshake::client::generate_key;
use smol::Timer;
use smol::future::or;
use smol::net::TcpStream;
use smol::net::unix::UnixStream;
use std::io;
use ureq::http::{HeaderValue, Request, Uri};

/// A socket, whatever is below it.
pub type AgentSocket = Box<dyn AsyncSocket>;

impl HttpClient {
    /// A connection that goes on as a websocket.
    pub fn websocket(
        &self,
        path: &str,
        query: QueryPairs<'_>,
    ) -> Result<WebSocketStream<AgentSocket>, RequestError> {
        let request = self.request("GET", path, query).body(()).map_err(|e| self.no_answer(&e.into()))?;
        let (mut head, ()) = request.into_parts();
        let uri = head.uri.clone();
        let authority = uri.authority().map(|host| host.to_string()).unwrap_or_default();
        for (name, value) in [
            ("Host", authority.as_str()),
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", &generate_key()),
        ] {
            let value =
                HeaderValue::from_str(value).map_err(|e| self.no_answer(&ureq::Error::Http(e.into())))?;
            head.headers.insert(name, value);
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        head.uri = format!("ws://{authority}{target}")
            .parse()
            .map_err(|_| failed(format!("The agent at {} cannot be asked for {path}", self.address)))?;
        self.check_trust(&uri)?;
        let begin = async {
            let socket = self.socket(&uri).await.map_err(ureq::Error::Io)?;
            Ok(async_tungstenite::client_async(Request::from_parts(head, ()), socket).await)
        };
        let late = async {
            Timer::after(ANSWER_TIMEOUT).await;
            Err(ureq::Error::Timeout(ureq::Timeout::Global))
        };
        match smol::block_on(or(begin, late)).map_err(|e| self.no_answer(&e))? {
            Ok((socket, _)) => Ok(socket),
            Err(WebSocketError::Http(answer)) => {
                let (head, body) = answer.into_parts();
                let text = String::from_utf8_lossy(&body.unwrap_or_default()).trim().to_string();
                Err(RequestError::Status { code: head.status.as_u16(), text })
            }
            Err(WebSocketError::Io(error)) => Err(self.no_answer(&ureq::Error::Io(error))),
            Err(error) => {
                Err(failed(format!("The agent at {} does not begin a session: {error}", self.address)))
            }
        }
    }

    /// A socket to the host of this URI, with TLS where it says so.
    async fn socket(&self, uri: &Uri) -> io::Result<AgentSocket> {
        let host = uri.host().unwrap_or_default();
        let https = uri.scheme_str() == Some("https");
        if let Some(path) = self.unix.as_ref().filter(|_| host == UNIX_HOST && !https) {
            return Ok(Box::new(UnixStream::connect(path).await?));
        }
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let socket = TcpStream::connect((bare, port)).await?;
        socket.set_nodelay(true)?;
        if !https {
            return Ok(Box::new(socket));
        }
        let client = self.trust.client().map_err(io::Error::other)?;
        Ok(Box::new(client.connect(host, socket).await?))
    }
}
