//! What is not encrypted stays on the machine, unless somebody says otherwise (cli.md 4.10).

use super::*;

const OPEN: &str =
    "data_dir = \"/d\" server {\n enabled = true\n bootstrap_expect = 1\n}\nclient { enabled = true }\n";
const CERTIFICATE: &str = "tls { http = true cert_file = \"/c\" key_file = \"/k\" }";

fn open(more: &str) -> Result<Loaded, Vec<String>> {
    load(&sources(false, &[("open.hcl", OPEN), ("more.hcl", more)], &[]))
}

#[test]
fn plain_http_stays_on_the_machine() {
    for (more, refused) in [
        ("", true),
        ("bind_addr = \"10.0.0.1\"", true),
        ("bind_addr = \"::\"", true),
        ("addresses { http = \"127.0.0.1 10.0.0.1\" }", true),
        ("bind_addr = \"127.0.0.1\"", false),
        ("bind_addr = \"::1\"", false),
        ("bind_addr = \"::ffff:127.0.0.1\"", false),
        ("addresses { http = \"127.0.0.9 ::1\" }", false),
        ("insecure_http = true", false),
        (CERTIFICATE, false),
    ] {
        let found = open(more);
        assert_eq!(found.is_err(), refused, "{more}: {found:?}");
        for way_out in ["tls { http = true", "127.0.0.1", "insecure_http = true"] {
            let told = found.as_ref().err().is_none_or(|all| all.len() == 1 && all[0].contains(way_out));
            assert!(told, "{more}: {found:?}");
        }
    }
}

#[test]
fn dev_mode_is_no_exception() {
    let dev = |flags: &[(&'static str, &str)]| load(&sources(true, &[], flags));
    assert!(dev(&[]).is_ok());
    assert!(dev(&[("bind_addr", "0.0.0.0")]).is_err());
    assert_eq!(dev(&[("bind_addr", "0.0.0.0"), ("insecure_http", "true")]).unwrap().warnings.len(), 1);
}

#[test]
fn each_start_warns_of_what_is_not_encrypted() {
    for (more, warning) in [
        ("insecure_http = true", "the HTTP API is not encrypted at 0.0.0.0:4646"),
        ("insecure_http = true\nbind_addr = \"127.0.0.1\"", "insecure_http has no effect"),
        ("bind_addr = \"127.0.0.1\"\ntls { verify_https_client = true }", "without tls { http = true }"),
        (
            "bind_addr = \"127.0.0.1\"\ntls { tls_min_version = \"tls10\" }",
            "oldest that is spoken is TLS 1.2",
        ),
        ("bind_addr = \"127.0.0.1\"\ntls { rpc = true }", "encrypted with the region's own keys"),
    ] {
        let warnings = open(more).unwrap().warnings;
        assert!(warnings.len() == 1 && warnings[0].contains(warning), "{more}: {warnings:?}");
    }
    assert_eq!(open(CERTIFICATE).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn names_of_suites_may_be_gos() {
    let more = "tls { tls_cipher_suites = \"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, TLS_AES_128_GCM_SHA256\" }";
    let config = open(&format!("bind_addr = \"127.0.0.1\"\n{more}")).unwrap().config;
    assert_eq!(config.http.https.cipher_suites.len(), 2);
}

#[test]
fn wrong_settings_of_https_are_refused() {
    for (text, expected) in [
        ("tls { http = true }", "tls.http needs tls.cert_file and tls.key_file"),
        (
            "tls { http = true verify_https_client = true cert_file = \"c\" key_file = \"k\" }",
            "tls.verify_https_client needs tls.ca_file",
        ),
        ("tls { tls_min_version = \"ssl3\" }", "\"ssl3\" is no version of TLS"),
        (
            "tls { tls_cipher_suites = \"TLS_RSA_WITH_AES_128_CBC_SHA\" }",
            "\"TLS_RSA_WITH_AES_128_CBC_SHA\" is not offered",
        ),
    ] {
        let found = refusals(text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
    }
}
