//! How a connection begins: with a TLS handshake, where that is spoken, within its own time.
//!
//! Refuses to know: certificates. A handshake holds the permit of its connection, so that there are no more of them than connections.

use super::HttpSettings;
use super::connection::{close_with, linger};
use super::stream::HttpStream;
use crate::tls::{TlsFailure, TlsServer};
use smol::Timer;
use smol::future::or;
use smol::net::TcpStream;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// What HTTPS is spoken with. A change holds for connections that come after it.
#[derive(Debug)]
pub struct Https {
    pub server: TlsServer,
    pub handshake_timeout: Duration,
}

impl HttpSettings {
    /// The stream that requests come by. `None`: the peer speaks another language, or nothing in time; where it is HTTP, it was told.
    pub(super) async fn begin(&self, socket: TcpStream) -> Option<HttpStream> {
        match &self.https {
            None => Some(HttpStream::Plain(socket)),
            Some(https) => Box::pin(handshake(&https.get(), socket)).await,
        }
    }
}

async fn handshake(https: &Https, socket: TcpStream) -> Option<HttpStream> {
    let begun = async {
        let mut first = [0; 1];
        if socket.peek(&mut first).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        // a record of TLS begins with a control character, a request's line with the letters of its method
        if first[0].is_ascii_alphabetic() {
            return Ok(None);
        }
        https.server.accept(socket.clone()).await.map(Some)
    };
    let late = async {
        Timer::after(https.handshake_timeout).await;
        Err(io::Error::from(ErrorKind::TimedOut))
    };
    match or(begun, late).await {
        Ok(Some(stream)) => Some(HttpStream::tls(stream)),
        Ok(None) => {
            const NO_TLS: &str = "Client sent an HTTP request to an HTTPS server.\n";
            close_with(HttpStream::Plain(socket), "400 Bad Request", NO_TLS).await;
            None
        }
        Err(error) => {
            let why = match TlsFailure::of(&error) {
                Some(TlsFailure::UnknownAuthority) => {
                    "a client certificate of an unknown authority".to_string()
                }
                Some(TlsFailure::Other(why)) => why,
                Some(failure) => format!("{failure:?}"),
                None => error.to_string(),
            };
            // at DEBUG, for anybody can fill a log so
            tracing::debug!(peer = %peer(&socket), why, "a TLS handshake failed");
            if error.kind() != ErrorKind::TimedOut {
                // for the peer to read the alert that says why
                linger(HttpStream::Plain(socket)).await;
            }
            None
        }
    }
}

fn peer(socket: &TcpStream) -> String {
    socket.peer_addr().map_or_else(|_| "unknown".to_string(), |peer| peer.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{HttpLimits, Published};
    use super::*;
    use crate::tls::{
        Authority, CertificateUsage, ClientTrust, NewCertificate, SubjectName, TlsClient, TlsClientOptions,
        TlsServerOptions, new_authority,
    };
    use smol::future::zip;
    use smol::io::{AsyncReadExt, AsyncWriteExt};
    use smol::net::TcpListener;
    use std::time::{SystemTime, UNIX_EPOCH};

    fn settings(handshake_timeout: Duration) -> HttpSettings {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let made = new_authority(&SubjectName::default(), 1, &[], now).unwrap();
        let authority =
            Authority::read(made.certificate.as_bytes(), made.key.as_bytes()).map_err(|e| e.1).unwrap();
        let wanted = NewCertificate {
            subject: SubjectName::default(),
            dns_names: vec!["localhost".into()],
            ip_addresses: vec![],
            usage: CertificateUsage::Agent,
            days: 1,
        };
        let pair = authority.sign(&wanted, now).unwrap();
        let options = TlsServerOptions {
            certificate: pair.certificate.into(),
            key: pair.key.into(),
            ..TlsServerOptions::default()
        };
        let server = TlsServer::new(&options).unwrap();
        HttpSettings {
            response_headers: Published::new(vec![]),
            limits: Published::new(HttpLimits::default()),
            https: Some(Published::new(Https { server, handshake_timeout })),
        }
    }

    /// What a peer that says this is told, and whether its requests would be read.
    fn told(said: &[u8], timeout: Duration) -> (Vec<u8>, bool) {
        let settings = settings(timeout);
        smol::block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            peer.write_all(said).await.unwrap();
            let hear = async {
                let mut heard = vec![];
                // a reset is an end, too
                let _reset = peer.read_to_end(&mut heard).await;
                heard
            };
            let (begun, heard) = zip(settings.begin(socket), hear).await;
            (heard, begun.is_some())
        })
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn plain_http_is_told_that_https_is_spoken() {
        let (heard, begun) = told(b"GET /v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n", LONG);
        let heard = String::from_utf8(heard).unwrap();
        assert!(heard.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{heard}");
        assert!(heard.ends_with("Client sent an HTTP request to an HTTPS server.\n") && !begun, "{heard}");
    }

    #[test]
    fn a_handshake_that_goes_wrong_or_nowhere_ends() {
        for (said, timeout) in [
            (&b"\x16\x03\x01\x00\x05hello"[..], LONG),
            (b"\x00\x01\x02", LONG),
            (b"", Duration::from_millis(20)),
            (b"\x16\x03\x01", Duration::from_millis(20)),
        ] {
            let (heard, begun) = told(said, timeout);
            assert!(!begun && !heard.starts_with(b"HTTP"), "{said:?}: {heard:?}");
        }
    }

    #[test]
    fn a_stream_carries_what_is_said() {
        let settings = settings(LONG);
        let options = TlsClientOptions { trust: ClientTrust::Anybody, own: None, server_name: None };
        let client = TlsClient::new(&options).unwrap();
        smol::block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            let (begun, asked) = zip(settings.begin(socket), client.connect("localhost", peer)).await;
            let (mut stream, mut peer) = (begun.unwrap(), asked.unwrap());
            stream.clone().write_all(b"one").await.unwrap();
            stream.close().await.unwrap();
            let mut heard = String::new();
            peer.read_to_string(&mut heard).await.unwrap();
            assert_eq!(heard, "one");
            // a peer that is gone without a word has closed
            drop(peer);
            assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
        });
    }
}
