//! TLS 1.3 with raw public keys (RFC 7250) on both sides. The handshake proves that each side has the key that it names; whose key
//! that is, the credential says that follows.
//!
//! Refuses to know: whose keys they are. Invariant: nothing but Ed25519, no resumption, no early data.

use super::machine_key::key_of_spki;
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::io;
use std::sync::Arc;

/// Builds that speak another protocol on their links name another one.
pub const LINKS: &[u8] = b"drover/1";
/// Machines that have a join token and nothing else.
pub const ENROLMENT: &[u8] = b"drover-join/1";

pub fn accepting(own: &Arc<CertifiedKey>) -> io::Result<QuicServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(RawKeyVerifier(provider.signature_verification_algorithms));
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own.clone())));
    config.alpn_protocols = vec![LINKS.to_vec(), ENROLMENT.to_vec()];
    config.send_tls13_tickets = 0;
    QuicServerConfig::try_from(config).map_err(io::Error::other)
}

/// `protocol`: what this side wants to speak.
pub fn dialing(own: &Arc<CertifiedKey>, protocol: &[u8]) -> io::Result<QuicClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(RawKeyVerifier(provider.signature_verification_algorithms));
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(own.clone())));
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    QuicClientConfig::try_from(config).map_err(io::Error::other)
}

/// The key that the other side has proved to have. `None`: it has shown none, which the verifier does not let pass.
pub fn proved_key(connection: &quinn::Connection) -> Option<[u8; 32]> {
    let shown = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    key_of_spki(shown.first()?)
}

/// What the two sides have agreed to speak.
pub fn protocol(connection: &quinn::Connection) -> Option<Vec<u8>> {
    connection.handshake_data()?.downcast::<HandshakeData>().ok()?.protocol
}

/// Checks signatures with the key that is shown, and that it is of the kind that credentials name.
#[derive(Debug)]
struct RawKeyVerifier(WebPkiSupportedAlgorithms);

impl RawKeyVerifier {
    fn check_key(spki: &CertificateDer<'_>) -> Result<(), Error> {
        match key_of_spki(spki) {
            Some(_) => Ok(()),
            None => Err(Error::InvalidCertificate(CertificateError::BadEncoding)),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        spki: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(spki.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.0)
    }
}

/// TLS 1.2 is not offered.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("TLS 1.2 is not spoken here".into()))
}

impl ServerCertVerifier for RawKeyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        RawKeyVerifier::check_key(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for RawKeyVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        RawKeyVerifier::check_key(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
