//! The server's side: a certificate with its key, what is spoken, and whose certificates callers have to show.
//!
//! Refuses to know: connections. A handshake that began with one `TlsServer` ends with it, whatever has replaced it meanwhile.

use super::{pem, provider};
use futures_rustls::TlsAcceptor;
use futures_rustls::server::TlsStream;
use rustls::crypto::CryptoProvider;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{Error, RootCertStore, ServerConfig, SupportedCipherSuite};
use smol::net::TcpStream;
use std::fmt;
use std::io;
use std::sync::Arc;

/// HTTP/2 is not spoken.
const ALPN: &[u8] = b"http/1.1";
/// Callers that come back within hours need no whole handshake. A session is a few KiB, with a client's certificate.
const KEPT_SESSIONS: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct TlsServerOptions {
    /// PEM: the server's certificate, and then those that lead to its authority.
    pub certificate: Vec<u8>,
    /// PEM.
    pub key: Vec<u8>,
    /// PEM: the authorities of which callers have to show a certificate. `None`: callers need none.
    pub client_authorities: Option<Vec<u8>>,
    /// TLS 1.2 is not spoken.
    pub only_tls13: bool,
    /// By name, the preferred first. A version of TLS of which none is named has all of its suites.
    pub cipher_suites: Vec<String>,
    /// The order of `cipher_suites` decides, and not the caller's.
    pub prefer_own_order: bool,
}

/// Which of the options is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsProblem {
    Certificate(String),
    Key(String),
    /// The key is another certificate's.
    NoPair,
    ClientAuthorities(String),
    Settings(String),
}

/// Accepts TLS connections.
#[derive(Clone)]
pub struct TlsServer(Arc<ServerConfig>);

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsServer")
    }
}

impl TlsServer {
    pub fn new(options: &TlsServerOptions) -> Result<TlsServer, TlsProblem> {
        let chain = pem::certificates(&options.certificate).map_err(TlsProblem::Certificate)?;
        let key = pem::private_key(&options.key).map_err(TlsProblem::Key)?;
        let settings = |e: Error| TlsProblem::Settings(e.to_string());
        let provider = Arc::new(CryptoProvider { cipher_suites: suites(options)?, ..provider() });
        let versions = if options.only_tls13 { &[&TLS13][..] } else { &[&TLS13, &TLS12] };
        let verifier = match &options.client_authorities {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(pem) => {
                let roots = authorities(pem).map_err(TlsProblem::ClientAuthorities)?;
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|e| TlsProblem::ClientAuthorities(e.to_string()))?
            }
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(settings)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|e| match e {
                Error::InconsistentKeys(_) => TlsProblem::NoPair,
                Error::InvalidCertificate(_) => TlsProblem::Certificate(e.to_string()),
                other => TlsProblem::Key(other.to_string()),
            })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.ignore_client_order = options.prefer_own_order;
        config.session_storage = ServerSessionMemoryCache::new(KEPT_SESSIONS);
        config.send_tls13_tickets = 1;
        Ok(TlsServer(Arc::new(config)))
    }

    /// The handshake. Whoever calls bounds its time.
    pub async fn accept(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.0.clone()).accept(socket).await
    }
}

/// What whoever verifies trusts.
pub(super) fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(pem)? {
        roots.add(certificate).map_err(|e| e.to_string())?;
    }
    Ok(roots)
}

/// Whether a suite of this name can be asked for.
pub fn is_cipher_suite(name: &str) -> bool {
    suite(name).is_some()
}

/// Names are IANA's, or Go's, whose two of ChaCha20 lack the hash.
fn suite(name: &str) -> Option<SupportedCipherSuite> {
    let name = name.trim();
    let whole =
        if name.ends_with("_CHACHA20_POLY1305") { format!("{name}_SHA256") } else { name.to_string() };
    let is_named = |suite: &SupportedCipherSuite| {
        let known = suite.suite().as_str().unwrap_or_default();
        // rustls names those of TLS 1.3 apart
        known == whole || known.strip_prefix("TLS13_").is_some_and(|rest| whole == format!("TLS_{rest}"))
    };
    provider().cipher_suites.into_iter().find(is_named)
}

fn suites(options: &TlsServerOptions) -> Result<Vec<SupportedCipherSuite>, TlsProblem> {
    let find = |name: &String| {
        suite(name).ok_or_else(|| TlsProblem::Settings(format!("the cipher suite {name:?} is not known")))
    };
    let named = options.cipher_suites.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let mut chosen = Vec::new();
    for of_version in [&TLS13, &TLS12] {
        let is_of = |suite: &SupportedCipherSuite| suite.version() == of_version;
        let mut some: Vec<_> = named.iter().copied().filter(is_of).collect();
        if some.is_empty() {
            some = provider().cipher_suites.into_iter().filter(is_of).collect();
        }
        chosen.extend(some);
    }
    Ok(chosen)
}
