//! The rules of dispatches, one at a time.

use super::*;
use crate::job::{JobSpec, JobType};
use crate::time::Span;
use crate::validate;
use crate::validate::tests::job;

pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        map.insert(key.to_string(), value.to_string());
    }
    map
}

pub fn rules(payload: PayloadRule) -> Parameterized {
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    Parameterized { payload, meta_required: texts(&["who"]), meta_optional: texts(&["why", "when"]) }
}

#[test]
fn a_dispatchs_payload_and_meta_follow_the_rules() {
    use PayloadRule::{Forbidden, Optional, Required};
    let who = [("who", "")];
    let full = vec![7; MAX_PAYLOAD_BYTES];
    let over = vec![7; MAX_PAYLOAD_BYTES + 1];
    for (rule, payload, meta, refused) in [
        (Optional, &[][..], &who[..], None),
        (Optional, &full[..], &[("who", "me"), ("why", "because")], None),
        (Required, &[1], &who, None),
        (Required, &[], &who, Some("Payload is not provided but required by parameterized job")),
        (Forbidden, &[], &who, None),
        (Forbidden, &[1], &who, Some("Payload provided but forbidden by parameterized job")),
        (Optional, &over, &who, Some("Payload exceeds maximum size; 16385 > 16384")),
        (Optional, &[], &[], Some("Dispatch did not provide required meta keys: [who]")),
        (
            Optional,
            &[],
            &[("who", ""), ("z", ""), ("a", "")],
            Some("Dispatch request included unpermitted metadata keys: [a z]"),
        ),
    ] {
        assert_eq!(rules(rule).refuses(payload, &map(meta)).as_deref(), refused, "{rule:?} {meta:?}");
    }
}

/// As many keys as a request holds: each is looked up, and not compared with all others.
#[test]
fn very_many_keys_are_looked_at_once_each() {
    let keys = |first: char| (0..100_000).map(|n| format!("{first}{n}")).collect::<Vec<String>>();
    let many =
        Parameterized { meta_required: keys('r'), meta_optional: keys('o'), ..rules(PayloadRule::Optional) };
    let mut spec = JobSpec { parameterized: Some(many.clone()), ..job(JobType::Batch) };
    let told = |spec: &JobSpec| validate::validate(spec, &validate::Limits::default()).error_text();
    assert_eq!(told(&spec), "");
    let meta =
        |keys: Vec<String>| keys.into_iter().map(|key| (key, String::new())).collect::<BTreeMap<_, _>>();
    assert_eq!(many.refuses(&[], &meta(keys('r'))), None);
    let refusal = many.refuses(&[], &meta(keys('z'))).expect("none of them is known");
    assert!(
        refusal.starts_with("Dispatch request included unpermitted metadata keys: [z0 z1 z10 "),
        "{refusal:.99}"
    );
    spec.parameterized.iter_mut().for_each(|p| p.meta_optional.clone_from(&p.meta_required));
    assert!(told(&spec).contains("Following keys exist in both: [r0 r1 "));
}

#[test]
fn a_child_is_named_as_its_reference() {
    let at = Wall(0) + Span::seconds(1_700_000_000);
    assert_eq!(child_id("job", "", at, 0x1a2b_3c4d), "job/dispatch-1700000000-1a2b3c4d");
    assert_eq!(child_id("job", "p", at, 0x1a2b_3c4d), "job/dispatch-p-1700000000-1a2b3c4d");
    assert_eq!(child_id("job", "", at, 7), "job/dispatch-1700000000-00000007");
    assert_eq!(refuses_id("job/dispatch-p-1-00000007"), None);
    for bad in ["a b", "a\0", &"a".repeat(2000)] {
        assert!(refuses_id(bad).is_some_and(|why| why.contains("id_prefix_template")), "{bad:.20}");
    }
}

#[test]
fn a_payloads_file_stays_below_its_directory() {
    for (file, names) in [
        ("input", &["input"][..]),
        ("a/b/c.json", &["a", "b", "c.json"]),
        ("/etc/passwd", &["etc", "passwd"]),
        ("./a//b", &["a", "b"]),
        ("a/../b", &["b"]),
        ("...", &["..."]),
    ] {
        assert_eq!(payload_path(file).as_deref(), Ok(names), "{file}");
    }
    let long = "n".repeat(300);
    let deep = "d/".repeat(17) + "f";
    for bad in
        ["", "/", ".", "..", "../x", "a/../../x", "/../x", "a/", "a/.", "a/..", "a\0b", "a\nb", &long, &deep]
    {
        assert!(payload_path(bad).is_err(), "{bad:.20}");
    }
}
