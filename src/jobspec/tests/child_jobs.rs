//! The blocks of jobs that make others, from both languages.

use super::accepted::{changed, decode};
use super::*;
use crate::decode_job;
use model::dispatch::{DispatchPayload, Parameterized, PayloadRule};
use model::periodic::Periodic;
use serde_json::json;

#[test]
fn times_are_read_with_their_defaults() {
    let plain = Periodic {
        enabled: true,
        spec: "@daily".into(),
        specs: vec![],
        prohibit_overlap: false,
        time_zone: "UTC".into(),
    };
    let full = Periodic {
        enabled: false,
        spec: String::new(),
        specs: vec!["0 1 * * *".into(), "@weekly".into()],
        prohibit_overlap: true,
        time_zone: "Europe/Berlin".into(),
    };
    let words = "enabled = false\n crons = [\"0 1 * * *\", \"@weekly\"]\n prohibit_overlap = true\n \
                 time_zone = \"Europe/Berlin\"";
    let members = json!({"Enabled": false, "Specs": ["0 1 * * *", "@weekly"], "SpecType": "cron",
        "ProhibitOverlap": true, "TimeZone": "Europe/Berlin"});
    for (words, members, expected) in [
        ("cron = \"@daily\"", json!({"Spec": "@daily"}), plain.clone()),
        (
            "cron = \"@daily\"\n time_zone = \"\"",
            json!({"Spec": "@daily", "TimeZone": "", "SpecType": ""}),
            plain,
        ),
        (words, members, full),
    ] {
        let file = with(&format!("periodic {{\n{words}\n}}"));
        assert_eq!(decode(&file).periodic.as_ref(), Some(&expected), "{words}");
        let body = changed("/Periodic", members);
        assert_eq!(decode(&body).periodic, Some(expected), "{body}");
    }
    assert_eq!(decode(&changed("/Periodic", json!(null))).periodic, None);
}

#[test]
fn periodic_takes_cron_only_and_no_parent() {
    let refused = decode_job(&changed("/Periodic", json!({"SpecType": "moon"}))).expect_err("no such kind");
    assert!(refused.to_string().contains("Unknown periodic specification type \"moon\""), "{refused}");
    assert_eq!(decode(&changed("/ParentID", json!("other"))).parent, "");
}

#[test]
fn parameterized_blocks_have_their_defaults() {
    let rules = |payload, required: &[&str], optional: &[&str]| Parameterized {
        payload,
        meta_required: required.iter().map(ToString::to_string).collect(),
        meta_optional: optional.iter().map(ToString::to_string).collect(),
    };
    let words = "payload = \"forbidden\"\n meta_required = [\"a\"]\n meta_optional = [\"b\", \"c\"]";
    let members = json!({"Payload": "forbidden", "MetaRequired": ["a"], "MetaOptional": ["b", "c"]});
    for (words, members, expected) in [
        ("", json!({}), rules(PayloadRule::Optional, &[], &[])),
        ("payload = \"required\"", json!({"Payload": "required"}), rules(PayloadRule::Required, &[], &[])),
        (words, members, rules(PayloadRule::Forbidden, &["a"], &["b", "c"])),
    ] {
        let file = with(&format!("parameterized {{\n{words}\n}}"));
        assert_eq!(decode(&file).parameterized.as_ref(), Some(&expected), "{words}");
        let body = changed("/ParameterizedJob", members);
        assert_eq!(decode(&body).parameterized, Some(expected), "{body}");
    }
    let dispatched = changed("/Dispatched", json!(true));
    assert_eq!((decode(&dispatched).parameterized, decode(&dispatched).dispatch), (None, None));
    let file = changed("/TaskGroups/0/Tasks/0/DispatchPayload", json!({"File": "in/put"}));
    let payload = decode(&file).groups[0].tasks[0].dispatch_payload.clone();
    assert_eq!(payload, Some(DispatchPayload { file: "in/put".into() }));
    for (path, value, why) in [
        ("/ParameterizedJob", json!({"Payload": "never"}), "\"never\" is unknown"),
        ("/TaskGroups/0/Tasks/0/DispatchPayload", json!({"File": ""}), "a dispatch payload needs a file"),
    ] {
        let refused = decode_job(&changed(path, value)).expect_err(why);
        assert!(refused.to_string().contains(why), "{refused}");
    }
}
