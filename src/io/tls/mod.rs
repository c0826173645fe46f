//! TLS with X.509 certificates, as the HTTP API speaks it: the server's side, the command line's, and the making of certificates
//! (decision 0095). The links between machines have their own, without certificates, in `quic`.
//!
//! Refuses to know: HTTP, where certificates lie, and the flags and keys that name them. Invariants: TLS 1.2 and 1.3 alone; nobody is
//! taken for verified who is not, unless the caller has said so; a private key is in no message.

mod authority;
mod client;
mod failure;
mod pem;
mod server;
#[cfg(test)]
mod tests;

pub use authority::{
    Authority, CertificatePair, CertificateUsage, NewCertificate, SubjectName, new_authority,
};
pub use client::{ClientTrust, TlsClient, TlsClientOptions, TlsSocket};
pub use failure::TlsFailure;
pub use server::{TlsProblem, TlsServer, TlsServerOptions, is_cipher_suite};

use rustls::crypto::CryptoProvider;

/// Sockets that TLS can stand on, and that it gives.
pub trait AsyncSocket: smol::io::AsyncRead + smol::io::AsyncWrite + Send + Unpin {}

impl<T: smol::io::AsyncRead + smol::io::AsyncWrite + Send + Unpin> AsyncSocket for T {}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}
