//! Handshakes over loopback sockets, with certificates of an authority that was made for them.

use super::*;
use smol::future::zip;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn subject(name: &str) -> SubjectName {
    SubjectName { common_name: name.into(), organization: "drover".into(), ..SubjectName::default() }
}

fn authority(only_names: &[&str]) -> CertificatePair {
    let only_names: Vec<String> = only_names.iter().map(|name| name.to_string()).collect();
    new_authority(&subject("an authority"), 10, &only_names, now()).unwrap()
}

fn wanted(name: &str, usage: CertificateUsage) -> NewCertificate {
    NewCertificate {
        subject: subject(name),
        dns_names: vec![name.into()],
        ip_addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        usage,
        days: 1,
    }
}

fn signed(by: &CertificatePair, name: &str, usage: CertificateUsage) -> CertificatePair {
    let authority = Authority::read(by.certificate.as_bytes(), by.key.as_bytes()).map_err(|e| e.1).unwrap();
    authority.sign(&wanted(name, usage), now()).unwrap()
}

fn server_options(pair: &CertificatePair) -> TlsServerOptions {
    TlsServerOptions {
        certificate: pair.certificate.clone().into(),
        key: pair.key.clone().into(),
        ..TlsServerOptions::default()
    }
}

fn trusting(authority: &CertificatePair) -> TlsClientOptions {
    TlsClientOptions {
        trust: ClientTrust::Authorities(authority.certificate.clone().into()),
        own: None,
        server_name: None,
    }
}

/// Whether a word went through, and back.
fn talk(server: &TlsServerOptions, client: &TlsClientOptions) -> io::Result<()> {
    let server = TlsServer::new(server).unwrap();
    let client = TlsClient::new(client).map_err(io::Error::other)?;
    smol::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let answer = async {
            let (socket, _) = listener.accept().await?;
            let mut stream = server.accept(socket).await?;
            let mut word = [0; 4];
            stream.read_exact(&mut word).await?;
            stream.write_all(&word).await?;
            stream.close().await
        };
        let ask = async {
            let mut stream = client.connect("127.0.0.1", TcpStream::connect(at).await?).await?;
            stream.write_all(b"word").await?;
            stream.flush().await?;
            let mut word = [0; 4];
            stream.read_exact(&mut word).await?;
            assert_eq!(&word, b"word");
            io::Result::Ok(())
        };
        // the caller's failure tells more than that its connection is gone
        let (answered, asked) = zip(answer, ask).await;
        asked.and(answered)
    })
}

fn failure(server: &TlsServerOptions, client: &TlsClientOptions) -> Option<TlsFailure> {
    TlsFailure::of(&talk(server, client).unwrap_err())
}

#[test]
fn an_authoritys_certificates_are_taken() {
    let authority = authority(&[]);
    let server = signed(&authority, "server.global.nomad", CertificateUsage::Agent);
    talk(&server_options(&server), &trusting(&authority)).unwrap();
    let named = TlsClientOptions { server_name: Some("server.global.nomad".into()), ..trusting(&authority) };
    talk(&server_options(&server), &named).unwrap();
    let only_new = TlsServerOptions { only_tls13: true, ..server_options(&server) };
    talk(&only_new, &trusting(&authority)).unwrap();
}

#[test]
fn other_authorities_and_other_names_are_refused() {
    let (authority, other) = (authority(&[]), authority(&[]));
    let server = server_options(&signed(&authority, "server.global.nomad", CertificateUsage::Agent));
    assert_eq!(failure(&server, &trusting(&other)), Some(TlsFailure::UnknownAuthority));
    let named = TlsClientOptions { server_name: Some("elsewhere".into()), ..trusting(&authority) };
    let told = failure(&server, &named);
    assert!(
        matches!(&told, Some(TlsFailure::OtherName(has)) if has.contains(&"server.global.nomad".into())),
        "{told:?}"
    );
    talk(&server, &TlsClientOptions { trust: ClientTrust::Anybody, ..named }).unwrap();
}

#[test]
fn a_certificate_that_is_known_itself_is_taken() {
    let authority = authority(&[]);
    let server = signed(&authority, "server.global.nomad", CertificateUsage::Agent);
    talk(&server_options(&server), &trusting(&server)).unwrap();
    let named = TlsClientOptions { server_name: Some("elsewhere".into()), ..trusting(&server) };
    assert!(matches!(failure(&server_options(&server), &named), Some(TlsFailure::OtherName(_))));
}

#[test]
fn callers_show_certificates_where_that_is_demanded() {
    let (authority, other) = (authority(&[]), authority(&[]));
    let server = signed(&authority, "server.global.nomad", CertificateUsage::Agent);
    let demanding = TlsServerOptions {
        client_authorities: Some(authority.certificate.clone().into()),
        ..server_options(&server)
    };
    let showing = |pair: &CertificatePair| TlsClientOptions {
        own: Some((pair.certificate.clone().into(), pair.key.clone().into())),
        ..trusting(&authority)
    };
    let caller = |by: &CertificatePair| signed(by, "cli.global.nomad", CertificateUsage::Caller);
    talk(&demanding, &showing(&caller(&authority))).unwrap();
    talk(&demanding, &showing(&server)).unwrap();
    talk(&server_options(&server), &showing(&caller(&other))).unwrap();
    assert_eq!(failure(&demanding, &trusting(&authority)), Some(TlsFailure::CertificateWanted));
    assert!(talk(&demanding, &showing(&caller(&other))).is_err());
}

#[test]
fn a_callers_certificate_is_no_servers() {
    let authority = authority(&[]);
    let caller = signed(&authority, "cli.global.nomad", CertificateUsage::Caller);
    let named = TlsClientOptions { server_name: Some("cli.global.nomad".into()), ..trusting(&authority) };
    assert!(talk(&server_options(&caller), &named).is_err());
}

#[test]
fn a_constrained_authority_speaks_for_its_names_alone() {
    let pair = authority(&["nomad", "localhost"]);
    let authority =
        Authority::read(pair.certificate.as_bytes(), pair.key.as_bytes()).map_err(|e| e.1).unwrap();
    authority.sign(&wanted("server.global.nomad", CertificateUsage::Agent), now()).unwrap();
    let refused = authority.sign(&wanted("evil.example", CertificateUsage::Agent), now());
    assert!(refused.is_err_and(|why| why.contains("-name-constraint")));
}

#[test]
fn an_authority_without_its_key_signs_nothing() {
    let (one, other) = (authority(&[]), authority(&[]));
    let mixed = Authority::read(one.certificate.as_bytes(), other.key.as_bytes()).map_err(|e| e.1).unwrap();
    let refused = mixed.sign(&wanted("a", CertificateUsage::Agent), now());
    assert!(refused.is_err_and(|why| why.contains("do not belong together")));
    let late = Authority::read(one.certificate.as_bytes(), one.key.as_bytes()).map_err(|e| e.1).unwrap();
    let refused = late.sign(&wanted("a", CertificateUsage::Agent), now() + Duration::from_secs(11 * 86_400));
    assert!(refused.is_err_and(|why| why.contains("not valid now")));
}

#[test]
fn files_that_are_wrong_are_told_apart() {
    let authority = authority(&[]);
    let (one, other) =
        (signed(&authority, "a", CertificateUsage::Agent), signed(&authority, "b", CertificateUsage::Agent));
    let good = server_options(&one);
    for (options, expected) in [
        (TlsServerOptions { certificate: b"x".into(), ..good.clone() }, "Certificate"),
        (TlsServerOptions { certificate: one.key.clone().into(), ..good.clone() }, "Certificate"),
        (TlsServerOptions { key: one.certificate.clone().into(), ..good.clone() }, "Key"),
        (TlsServerOptions { key: other.key.clone().into(), ..good.clone() }, "NoPair"),
        (TlsServerOptions { client_authorities: Some(vec![]), ..good.clone() }, "ClientAuthorities"),
        (TlsServerOptions { cipher_suites: vec!["NULL".into()], ..good.clone() }, "Settings"),
    ] {
        let told = format!("{:?}", TlsServer::new(&options).unwrap_err());
        assert!(told.starts_with(expected), "{told}");
        assert!(!told.contains(one.key.lines().nth(1).unwrap()), "a key in a message: {told}");
    }
}

#[test]
fn suites_are_chosen_by_name() {
    for (name, known) in [
        ("TLS_AES_128_GCM_SHA256", true),
        ("TLS13_AES_128_GCM_SHA256", true),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", true),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", true),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", false),
        ("", false),
        ("TLS_", false),
    ] {
        assert_eq!(is_cipher_suite(name), known, "{name:?}");
    }
    let authority = authority(&[]);
    let server = signed(&authority, "a", CertificateUsage::Agent);
    let suites = ["TLS_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];
    let chosen = TlsServerOptions {
        cipher_suites: suites.map(String::from).into(),
        prefer_own_order: true,
        ..server_options(&server)
    };
    talk(&chosen, &trusting(&authority)).unwrap();
}
