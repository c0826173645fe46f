//! A certificate authority of one's own: its certificate, and those that it signs.
//!
//! Refuses to know: files, clocks and flags; the time comes in. Invariant: a certificate is given out only if whoever trusts the
//! authority takes it.

use super::{pem, provider};
use crate::entropy;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyIdMethod, KeyUsagePurpose, NameConstraints, PublicKeyData, SanType,
    SerialNumber, SignatureAlgorithm,
};
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::SigningKey;
use rustls::{Error, RootCertStore, SignatureScheme};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use yasna::models::ObjectIdentifier;
use yasna::tags::{TAG_IA5STRING, TAG_PRINTABLESTRING, TAG_TELETEXSTRING, TAG_UTCTIME, TAG_UTF8STRING};
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, Tag};

/// Clocks that are a little slow take a new certificate, too.
const BACKDATED: Duration = Duration::from_secs(3600);
const SECONDS_A_DAY: u64 = 86_400;
/// As RFC 7093 has it, method 1.
const KEY_ID_BYTES: usize = 20;
const STREET_ADDRESS: &[u64] = &[2, 5, 4, 9];
const POSTAL_CODE: &[u64] = &[2, 5, 4, 17];
const SUBJECT_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 14];

/// Whose certificate it is. What is empty is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectName {
    pub country: String,
    pub postal_code: String,
    pub province: String,
    pub locality: String,
    pub street_address: String,
    pub organization: String,
    pub organizational_unit: String,
    pub common_name: String,
}

/// Both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificatePair {
    pub certificate: String,
    pub key: String,
}

/// What a certificate is shown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUsage {
    /// An agent's: to its callers, and as a caller.
    Agent,
    /// A caller's alone.
    Caller,
}

#[derive(Clone, Debug)]
pub struct NewCertificate {
    pub subject: SubjectName,
    pub dns_names: Vec<String>,
    pub ip_addresses: Vec<IpAddr>,
    pub usage: CertificateUsage,
    pub days: u32,
}

/// An authority with its key.
pub struct Authority {
    certificate: CertificateDer<'static>,
    /// From when on and until when it is valid, in seconds since 1970.
    validity: (i64, i64),
    issuer: Issuer<'static, AuthorityKey>,
}

/// A new authority. `only_names`: it can speak for these domains and what is below them, and for no other. `now`: since 1970.
pub fn new_authority(
    subject: &SubjectName,
    days: u32,
    only_names: &[String],
    now: Duration,
) -> Result<CertificatePair, String> {
    let (key, text) = AuthorityKey::generate()?;
    let mut params = params(subject, &key, days, now)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.name_constraints = (!only_names.is_empty()).then(|| NameConstraints {
        permitted_subtrees: only_names.iter().cloned().map(GeneralSubtree::DnsName).collect(),
        excluded_subtrees: Vec::new(),
    });
    let certificate = params.self_signed(&key).map_err(|e| e.to_string())?;
    Ok(CertificatePair { certificate: pem::text("CERTIFICATE", certificate.der()), key: text })
}

impl Authority {
    /// `Err`: which of the two cannot be used, `certificate` or `key`, and why.
    pub fn read(certificate: &[u8], key: &[u8]) -> Result<Authority, (&'static str, String)> {
        let of_certificate = |why: String| ("certificate", why);
        let certificate = pem::certificates(certificate).map_err(of_certificate)?.swap_remove(0);
        let key =
            pem::private_key(key).and_then(|key| AuthorityKey::new(&key)).map_err(|why| ("key", why))?;
        let unlike = |_| of_certificate("its name or its extensions cannot be read".to_string());
        let read = read_certificate(&certificate).map_err(unlike)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = read.subject;
        params.key_identifier_method =
            KeyIdMethod::PreSpecified(read.key_id.unwrap_or_else(|| key.id.clone()));
        Ok(Authority { certificate, validity: read.validity, issuer: Issuer::new(params, key) })
    }

    /// `now`: since 1970.
    pub fn sign(&self, wanted: &NewCertificate, now: Duration) -> Result<CertificatePair, String> {
        let (from, until) = self.validity;
        if !(from..=until).contains(&i64::try_from(now.as_secs()).unwrap_or(i64::MAX)) {
            return Err("the authority's certificate is not valid now: is this machine's clock right?".into());
        }
        let (key, text) = AuthorityKey::generate()?;
        let mut params = params(&wanted.subject, &key, wanted.days, now)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = match wanted.usage {
            CertificateUsage::Agent => {
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
            }
            CertificateUsage::Caller => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        for name in &wanted.dns_names {
            let text = name.as_str().try_into().map_err(|_| format!("{name:?} is no name of a host"))?;
            params.subject_alt_names.push(SanType::DnsName(text));
        }
        params.subject_alt_names.extend(wanted.ip_addresses.iter().copied().map(SanType::IpAddress));
        let certificate = params.signed_by(&key, &self.issuer).map_err(|e| e.to_string())?;
        self.prove(certificate.der(), wanted, now).map_err(|e| refused(&e))?;
        Ok(CertificatePair { certificate: pem::text("CERTIFICATE", certificate.der()), key: text })
    }

    /// Looks at the certificate as those will who trust the authority.
    fn prove(
        &self,
        certificate: &CertificateDer<'_>,
        wanted: &NewCertificate,
        now: Duration,
    ) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let (roots, provider, now) = (Arc::new(roots), Arc::new(provider()), UnixTime::since_unix_epoch(now));
        let unusable = |e: rustls::client::VerifierBuilderError| Error::General(e.to_string());
        if wanted.usage == CertificateUsage::Caller {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots, provider).build().map_err(unusable)?;
            return verifier.verify_client_cert(certificate, &[], now).map(drop);
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots, provider).build().map_err(unusable)?;
        let names = wanted.dns_names.iter().map(|name| ServerName::try_from(name.as_str()).ok());
        let addresses = wanted.ip_addresses.iter().map(|ip| Some(ServerName::from(*ip)));
        for name in names.chain(addresses).flatten() {
            verifier.verify_server_cert(certificate, &[], &name, &[], now)?;
        }
        Ok(())
    }
}

fn refused(error: &Error) -> String {
    use rustls::CertificateError::{
        BadSignature, UnknownIssuer, UnsupportedSignatureAlgorithmForPublicKeyContext,
    };
    match error {
        Error::InvalidCertificate(BadSignature | UnsupportedSignatureAlgorithmForPublicKeyContext { .. }) => {
            "the authority's certificate and its key do not belong together".to_string()
        }
        Error::InvalidCertificate(UnknownIssuer) => {
            "the authority's name cannot be repeated in a certificate: two parts of it are of one kind"
                .to_string()
        }
        Error::InvalidCertificate(why) if why.to_string().contains("NameConstraint") => {
            "the authority may not speak for one of the names: it was made with -name-constraint".to_string()
        }
        other => format!("nobody who trusts the authority would take the certificate: {other}"),
    }
}

fn params(
    subject: &SubjectName,
    key: &AuthorityKey,
    days: u32,
    now: Duration,
) -> Result<CertificateParams, String> {
    let failed = |e| format!("the kernel gives no random numbers: {e}");
    let mut serial = entropy::bytes::<16>().map_err(failed)?;
    // positive, and of full length
    serial[0] = serial[0] & 0x7f | 0x40;
    let from_epoch = |at: Duration| rcgen::date_time_ymd(1970, 1, 1) + at;
    let mut params = CertificateParams::default();
    params.not_before = from_epoch(now.saturating_sub(BACKDATED));
    params.not_after = from_epoch(now + Duration::from_secs(u64::from(days) * SECONDS_A_DAY));
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = distinguished_name(subject);
    params.use_authority_key_identifier_extension = true;
    params.key_identifier_method = KeyIdMethod::PreSpecified(key.id.clone());
    Ok(params)
}

fn distinguished_name(subject: &SubjectName) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for (part, text) in [
        (DnType::CountryName, &subject.country),
        (DnType::CustomDnType(POSTAL_CODE.to_vec()), &subject.postal_code),
        (DnType::StateOrProvinceName, &subject.province),
        (DnType::LocalityName, &subject.locality),
        (DnType::CustomDnType(STREET_ADDRESS.to_vec()), &subject.street_address),
        (DnType::OrganizationName, &subject.organization),
        (DnType::OrganizationalUnitName, &subject.organizational_unit),
        (DnType::CommonName, &subject.common_name),
    ] {
        if !text.is_empty() {
            name.push(part, text.as_str());
        }
    }
    name
}

/// A key that signs, of any kind that rustls reads.
struct AuthorityKey {
    key: Arc<dyn SigningKey>,
    scheme: SignatureScheme,
    algorithm: &'static SignatureAlgorithm,
    /// Without what says of which kind it is.
    public: Vec<u8>,
    id: Vec<u8>,
}

static SCHEMES: [(SignatureScheme, &SignatureAlgorithm); 4] = [
    (SignatureScheme::ECDSA_NISTP256_SHA256, &rcgen::PKCS_ECDSA_P256_SHA256),
    (SignatureScheme::ECDSA_NISTP384_SHA384, &rcgen::PKCS_ECDSA_P384_SHA384),
    (SignatureScheme::ED25519, &rcgen::PKCS_ED25519),
    (SignatureScheme::RSA_PKCS1_SHA256, &rcgen::PKCS_RSA_SHA256),
];

impl AuthorityKey {
    /// A new key, and its PEM.
    fn generate() -> Result<(AuthorityKey, String), String> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| "the kernel gives no random numbers for a key")?;
        let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.as_ref().to_vec()));
        Ok((AuthorityKey::new(&der)?, pem::text("PRIVATE KEY", made.as_ref())))
    }

    fn new(key: &PrivateKeyDer<'_>) -> Result<AuthorityKey, String> {
        let unusable = "no key that can sign certificates: ECDSA with P-256 or P-384, Ed25519 and RSA can";
        let key = rustls::crypto::ring::sign::any_supported_type(key).map_err(|_| unusable)?;
        let (scheme, algorithm) =
            SCHEMES.iter().find(|(scheme, _)| key.choose_scheme(&[*scheme]).is_some()).ok_or(unusable)?;
        let whole = key.public_key().ok_or(unusable)?;
        let public = yasna::parse_der(&whole, |reader| {
            reader.read_sequence(|reader| {
                reader.next().read_der()?;
                reader.next().read_bitvec_bytes()
            })
        });
        let (public, _) = public.map_err(|_| unusable)?;
        let id = digest::digest(&digest::SHA256, &public).as_ref()[..KEY_ID_BYTES].to_vec();
        Ok(AuthorityKey { key, scheme: *scheme, algorithm, public, id })
    }
}

impl PublicKeyData for AuthorityKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl rcgen::SigningKey for AuthorityKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signer = self.key.choose_scheme(&[self.scheme]);
        let signature = signer.and_then(|signer| signer.sign(message).ok());
        signature.ok_or(rcgen::Error::RemoteKeyError)
    }
}

/// What others' certificates repeat of an authority's.
struct ReadCertificate {
    subject: DistinguishedName,
    validity: (i64, i64),
    key_id: Option<Vec<u8>>,
}

/// RFC 5280 section 4.1, as far as it goes.
fn read_certificate(der: &[u8]) -> ASN1Result<ReadCertificate> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            let read = reader.next().read_sequence(|reader| {
                reader.next().read_tagged(Tag::context(0), |reader| reader.read_u8())?;
                // serial number, algorithm, issuer
                for _ in 0..3 {
                    reader.next().read_der()?;
                }
                let validity = reader
                    .next()
                    .read_sequence(|reader| Ok((read_time(reader.next())?, read_time(reader.next())?)))?;
                let subject = read_name(reader.next())?;
                reader.next().read_der()?;
                let extensions = reader.read_optional(|reader| {
                    reader.read_tagged(Tag::context(3), |reader| reader.collect_sequence_of(read_extension))
                })?;
                let id = ObjectIdentifier::from_slice(SUBJECT_KEY_IDENTIFIER);
                let value = extensions.unwrap_or_default().into_iter().find(|(oid, _)| *oid == id);
                let key_id = value.map(|(_, value)| yasna::parse_der(&value, |reader| reader.read_bytes()));
                Ok(ReadCertificate { subject, validity, key_id: key_id.transpose()? })
            })?;
            // algorithm, signature
            reader.next().read_der()?;
            reader.next().read_der()?;
            Ok(read)
        })
    })
}

fn read_time(reader: BERReader<'_, '_>) -> ASN1Result<i64> {
    Ok(match reader.lookahead_tag()? {
        TAG_UTCTIME => reader.read_utctime()?.datetime().unix_timestamp(),
        _ => reader.read_generalized_time()?.datetime().unix_timestamp(),
    })
}

fn read_extension(reader: BERReader<'_, '_>) -> ASN1Result<(ObjectIdentifier, Vec<u8>)> {
    reader.read_sequence(|reader| {
        let id = reader.next().read_oid()?;
        reader.read_default(false, |reader| reader.read_bool())?;
        Ok((id, reader.next().read_bytes()?))
    })
}

fn read_name(reader: BERReader<'_, '_>) -> ASN1Result<DistinguishedName> {
    let mut name = DistinguishedName::new();
    reader.read_sequence_of(|reader| {
        reader.read_set_of(|reader| {
            let (kind, value) = reader.read_sequence(|reader| {
                let kind = reader.next().read_oid()?;
                Ok((kind, reader.next().read_tagged_der()?))
            })?;
            let unlike = || ASN1Error::new(ASN1ErrorKind::Invalid);
            let text = std::str::from_utf8(value.value()).map_err(|_| unlike())?;
            let value = match value.tag() {
                TAG_UTF8STRING => DnValue::Utf8String(text.to_string()),
                TAG_PRINTABLESTRING => DnValue::PrintableString(text.try_into().map_err(|_| unlike())?),
                TAG_IA5STRING => DnValue::Ia5String(text.try_into().map_err(|_| unlike())?),
                TAG_TELETEXSTRING => DnValue::TeletexString(text.try_into().map_err(|_| unlike())?),
                _ => return Err(unlike()),
            };
            name.push(DnType::from_oid(kind.components()), value);
            Ok(())
        })
    })?;
    Ok(name)
}
