//! The value of a key that is marked secret is shown nowhere.

use super::*;
use crate::identity;
use jobspec::render;
use std::path::Path;

/// A key's words are found nowhere, whole or in part.
const KEY: &str = "cg8StVXbQJ0gPvMd9o7yrg==";
const PARTS: [&str; 3] = ["cg8StVXb", "QJ0gPvMd", "9o7yrg"];
/// What the key is, decoded, as `Debug` of bytes would show it.
const DECODED: &str = "114, 15, 18";

fn tells(shown: &str) -> bool {
    PARTS.iter().any(|part| shown.contains(part)) || shown.contains(DECODED)
}

fn source(text: &str) -> Sources {
    sources(false, &[("base.hcl", BASE), ("more.hcl", text)], &[])
}

#[test]
fn a_secret_is_shown_nowhere() {
    let text = format!("server {{ encrypt = \"{KEY}\" }} acl {{ replication_token = \"{KEY}\" }}");
    for sources in [source(&text), sources(false, &[("base.hcl", BASE)], &[("server.encrypt", KEY)])] {
        assert!(!tells(&format!("{sources:?}")));
        let loaded = Config::load(&sources, &machine()).unwrap();
        assert!(format!("{:?}", loaded.config).contains("<redacted>"));
        assert!(!tells(&format!("{loaded:?}")), "{loaded:?}");
        let agent = identity::agent_info(&loaded.config, &loaded.settings, Path::new("/data"));
        let shown = serde_json::to_string(&agent.config).unwrap();
        assert!(shown.contains("Region") && !shown.contains("ncrypt") && !tells(&shown), "{shown}");
    }
}

#[test]
fn a_join_token_is_shown_nowhere() {
    let token = super::keys::EXAMPLE_TOKEN.trim_matches('"');
    let body = &token["drover-join-".len()..];
    let tells = |shown: &str| shown.contains(&body[20..60]) || shown.contains(&body[100..]);
    for block in ["server", "client"] {
        let text = format!("{block} {{ server_join {{ join_token = \"{token}\" }} }}");
        let loaded = Config::load(&source(&text), &machine()).unwrap();
        assert!(!tells(&format!("{loaded:?}")) && !format!("{loaded:?}").contains("101, 120, 97"));
        let agent = identity::agent_info(&loaded.config, &loaded.settings, Path::new("/data"));
        assert!(!serde_json::to_string(&agent.config).unwrap().contains("oken"));
        let wrong = text.replace(token, &format!("{token}x"));
        let found = Config::load(&source(&wrong), &machine()).unwrap_err();
        let shown = format!("{}{found:?}", render(&found));
        assert!(shown.contains("is damaged") && !tells(&shown), "{shown}");
    }
}

#[test]
fn no_diagnostic_quotes_a_secret() {
    for text in [
        // a wrong value of the secret itself
        "server { encrypt = \"KEY9\" }",
        "server { encrypt = [\"KEY\"] }",
        "server { encrypt = { a = \"KEY\" } }",
        // something else on its line
        "server { encrypt = \"KEY\" regoin = 1 }",
        "server { regoin = 1, encrypt = \"KEY\" }",
        "server { encrypt = \"KEY\" num_schedulers = \"x\" } # it was KEY",
        "{\"server\": [{\"Encrypt\": \"KEY\", \"num_schedulers\": \"x\"}]}",
        "server { encrypt = <<K\nKEY\nK\n }\nregoin = 1",
        "acl { replication_token = \"KEY\" enabled = true }",
        "consul { token = \"KEY\" } regoin = 1",
        // a misspelt key, or one in another block
        "server { encrypt_key = \"KEY\" }",
        "encrypt = \"KEY\"",
        "region = { encrypt = \"KEY\" }",
        "server \"a\" { encrypt = \"KEY\" }",
        // what is no configuration at all
        "server { encrypt = \"KEY",
        "server { encrypt = \"KEY\"",
        "server { encrypt = \"KEY\" ? }",
        "server { encrypt \"KEY\" }",
        "server { encrypt = KEY }",
        "server { encrypt = 1KEY }",
        "server { encrypt =\n \"KEY\" ? }",
        "server { encrypt = <<KEY\nKEY }",
        "server { encrypt = \"KEY\\q\" }",
    ] {
        let text = text.replace("KEY", KEY);
        let found = Config::load(&source(&text), &machine()).unwrap_err();
        let shown = format!("{}{found:?}", render(&found));
        assert!(!tells(&shown), "{text}: {shown}");
    }
}

#[test]
fn no_diagnostic_quotes_a_secret_of_a_flag() {
    let wrong = format!("{KEY}9");
    let found = Config::load(&sources(true, &[], &[("server.encrypt", &wrong)]), &machine()).unwrap_err();
    let shown = format!("{}{found:?}", render(&found));
    assert!(shown.contains("server.encrypt") && !tells(&shown), "{shown}");
}

#[test]
fn other_lines_are_quoted_although_the_file_has_a_secret() {
    let text = format!("server {{\n  encrypt = \"{KEY}\"\n  num_schedulers = \"few\"\n}}");
    let found = Config::load(&source(&text), &machine()).unwrap_err();
    assert!(render(&found).contains("  3 |   num_schedulers = \"few\""), "{}", render(&found));
    let found = Config::load(&source("region = \"x"), &machine()).unwrap_err();
    assert!(render(&found).contains("region = \"x"), "{}", render(&found));
}

#[test]
fn a_changed_secret_is_a_changed_setting() {
    let settings = |key: &str| {
        let text = format!("server {{ encrypt = \"{key}\" }}");
        Config::load(&source(&text), &machine()).unwrap().settings
    };
    let other = "AAAAtVXbQJ0gPvMd9o7yrg==";
    assert_eq!(settings(KEY)["server.encrypt"], settings(KEY)["server.encrypt"]);
    assert_ne!(settings(KEY)["server.encrypt"], settings(other)["server.encrypt"]);
}
