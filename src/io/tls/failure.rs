//! Why TLS did not come about, in kinds for which something can be done.
//!
//! Refuses to know: which flag or key does it.

use rustls::{AlertDescription, CertificateError, Error};
use std::io;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// The other side's certificate is signed by nobody whom this side trusts.
    UnknownAuthority,
    /// The certificate is for other names than the one that was asked for: for these, where that is known.
    OtherName(Vec<String>),
    Expired,
    NotValidYet,
    /// The other side wants to see a certificate.
    CertificateWanted,
    /// The other side does not take the certificate that it was shown.
    CertificateRefused,
    /// What came is no TLS.
    NoTls,
    Other(String),
}

impl TlsFailure {
    /// `None`: the failure is not one of TLS.
    pub fn of(error: &io::Error) -> Option<TlsFailure> {
        let error = error.get_ref()?.downcast_ref::<Error>()?;
        Some(match error {
            Error::InvalidCertificate(why) => of_certificate(why),
            Error::AlertReceived(AlertDescription::CertificateRequired) => TlsFailure::CertificateWanted,
            Error::AlertReceived(
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::DecryptError,
            ) => TlsFailure::CertificateRefused,
            Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => TlsFailure::NoTls,
            other => TlsFailure::Other(other.to_string()),
        })
    }
}

fn of_certificate(error: &CertificateError) -> TlsFailure {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFailure::UnknownAuthority,
        CertificateError::NotValidForName => TlsFailure::OtherName(Vec::new()),
        CertificateError::NotValidForNameContext { presented, .. } => {
            TlsFailure::OtherName(presented.iter().map(|name| bare(name)).collect())
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFailure::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            TlsFailure::NotValidYet
        }
        other => TlsFailure::Other(other.to_string()),
    }
}

/// `DnsName("a")` is `a`.
fn bare(presented: &str) -> String {
    let inner = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(presented);
    inner.trim_matches('"').to_string()
}
