//! The caller's side: whom to trust, what to show, and the handshake over any socket, waiting or not.
//!
//! Refuses to know: where certificates lie, and flags.

use super::server::authorities;
use super::{AsyncSocket, pem, provider};
use futures_rustls::TlsConnector;
use futures_rustls::client::TlsStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, StreamOwned,
};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Which servers are believed to be who they say they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientTrust {
    /// Those with a certificate of one of these authorities (PEM). A certificate that stands here itself is trusted as it is, too.
    Authorities(Vec<u8>),
    /// Those that the machine trusts.
    Machine,
    /// All. Whoever is in between can read and change what is said.
    Anybody,
}

#[derive(Clone, Debug)]
pub struct TlsClientOptions {
    pub trust: ClientTrust,
    /// Certificate and key in PEM, for servers that ask for them.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
    /// The name that a server has to have, instead of the host that is asked for.
    pub server_name: Option<String>,
}

#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// A blocking socket that speaks TLS.
pub struct TlsSocket<S: Read + Write>(StreamOwned<ClientConnection, S>);

impl TlsClient {
    /// `Err`: a sentence on what of the options is wrong.
    pub fn new(options: &TlsClientOptions) -> Result<TlsClient, String> {
        let provider = Arc::new(provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .map_err(|e| e.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ServerVerifier::new(options)?));
        let mut config = match &options.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(pem::certificates(certificate)?, pem::private_key(key)?)
                .map_err(|e| match e {
                    Error::InconsistentKeys(_) => "the key is another certificate's".to_string(),
                    other => other.to_string(),
                })?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::in_memory_sessions(4);
        let server_name = options.server_name.as_deref().map(name).transpose()?;
        Ok(TlsClient { config: Arc::new(config), server_name })
    }

    /// The handshake with a server that is asked for as `host`, over a socket that has its own deadlines.
    pub fn begin<S: Read + Write>(&self, host: &str, mut socket: S) -> io::Result<TlsSocket<S>> {
        let mut connection =
            ClientConnection::new(self.config.clone(), self.name(host)?).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(TlsSocket(StreamOwned::new(connection, socket)))
    }

    /// The same without waiting. Whoever calls bounds its time.
    pub async fn connect<S: AsyncSocket>(&self, host: &str, socket: S) -> io::Result<TlsStream<S>> {
        TlsConnector::from(self.config.clone()).connect(self.name(host)?, socket).await
    }

    fn name(&self, host: &str) -> io::Result<ServerName<'static>> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => name(host.trim_start_matches('[').trim_end_matches(']')).map_err(io::Error::other),
        }
    }
}

fn name(text: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(text.to_string())
        .map_err(|_| format!("{text:?} is neither a host's name nor an IP address"))
}

impl<S: Read + Write> TlsSocket<S> {
    /// What it stands on.
    pub fn inner(&mut self) -> &mut S {
        &mut self.0.sock
    }
}

impl<S: Read + Write> Read for TlsSocket<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Read + Write> Write for TlsSocket<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Takes a server that has the name, from one of the authorities; or anybody. That a server has the key of its certificate is
/// checked in any case.
#[derive(Debug)]
struct ServerVerifier {
    /// `None`: anybody is taken.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    /// Trusted as they are.
    known: Vec<CertificateDer<'static>>,
    algorithms: rustls::crypto::WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    fn new(options: &TlsClientOptions) -> Result<ServerVerifier, String> {
        let (roots, known) = match &options.trust {
            ClientTrust::Anybody => (None, Vec::new()),
            ClientTrust::Authorities(pem) => (Some(authorities(pem)?), pem::certificates(pem)?),
            ClientTrust::Machine => (Some(of_machine()), Vec::new()),
        };
        // a machine that trusts no authority takes nobody, which a verifier of nothing cannot say
        let authorities = match roots {
            None => None,
            Some(roots) if roots.is_empty() => {
                return Err("this machine trusts no authority of its own".to_string());
            }
            Some(roots) => {
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider()));
                Some(verifier.build().map_err(|e| e.to_string())?)
            }
        };
        let algorithms = provider().signature_verification_algorithms;
        Ok(ServerVerifier { authorities, known, algorithms })
    }
}

/// What the distribution keeps, or `SSL_CERT_FILE` and `SSL_CERT_DIR` name. What cannot be read is left out.
fn of_machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        if self.known.iter().any(|known| known == certificate) {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        authorities.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
