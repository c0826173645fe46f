//! The blocks of jobs that make others, from both languages.

use super::accepted::{changed, decode};
use super::*;
use crate::jobspec::decode_job;
use crate::model::family::Periodic;
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
fn times_of_another_kind_are_refused_and_servers_alone_name_parents() {
    let refused = decode_job(&changed("/Periodic", json!({"SpecType": "moon"}))).expect_err("no such kind");
    assert!(refused.to_string().contains("Unknown periodic specification type \"moon\""), "{refused}");
    assert_eq!(decode(&changed("/ParentID", json!("other"))).parent, "");
}
