//! A task's environment: how much of it a node can hand to a process, and what meta is called there (server.md 11.2,
//! client.md 15).
//!
//! Refuses to know: what else a node puts there, and how a process is started.

use crate::validate::names;
use std::collections::BTreeMap;

/// The most bytes of arguments and environment (names and values) that a node hands on to a process.
pub const MAX_TEXT_BYTES: usize = 512 * 1024;
/// The longest `name=value` that Linux takes (MAX_ARG_STRLEN, without the NUL at its end).
pub const MAX_VARIABLE_BYTES: usize = 128 * 1024 - 1;
/// What meta leaves for the rest: the task's ids, directories and ports, the node's own variables, arguments.
const OTHER_TEXT_BYTES: usize = 16 * 1024;
/// The most bytes that meta may have in an environment.
pub const MAX_META_BYTES: usize = MAX_TEXT_BYTES - OTHER_TEXT_BYTES;
const META_PREFIX: &str = "NOMAD_META_";

/// What a task knows the meta of that key by: in capitals, and as it is written.
pub fn meta_variables(key: &str) -> [String; 2] {
    [key.to_uppercase(), key.to_string()].map(|key| format!("{META_PREFIX}{}", cleaned(&key)))
}

/// A name without what shells do not take in one.
pub fn cleaned(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') { c } else { '_' }).collect()
}

/// Why no task could be started with that meta in its environment, if none could.
pub fn refuses_meta(meta: &BTreeMap<String, String>) -> Option<String> {
    meta.iter().find_map(|(key, value)| refuses_variable(key, value)).or_else(|| refuses_size(meta))
}

fn refuses_variable(key: &str, value: &str) -> Option<String> {
    let shown = names::shown(key);
    if key.is_empty() {
        return Some("Meta has an empty key, which no environment variable can be named by".to_string());
    }
    if key.contains(['=', '\0']) {
        return Some(format!(
            "Meta key {shown} contains '=' or a NUL character, which no environment variable's name can"
        ));
    }
    if value.contains('\0') {
        return Some(format!(
            "the value of Meta key {shown} contains a NUL character, which no environment variable can: send it as the payload"
        ));
    }
    let bytes = META_PREFIX.len() + key.len() + 1 + value.len();
    (bytes > MAX_VARIABLE_BYTES).then(|| {
        format!(
            "Meta key {shown} makes an environment variable of {bytes} bytes; at most {MAX_VARIABLE_BYTES} are possible: send the value as the payload"
        )
    })
}

/// Why that meta is too much for an environment, if it is: each key counts as often as a task sees it.
pub fn refuses_size(meta: &BTreeMap<String, String>) -> Option<String> {
    let mut variables = BTreeMap::new();
    for (key, value) in meta {
        // two keys of one cleaned name are one variable
        variables.extend(meta_variables(key).map(|name| (name, value.len())));
    }
    let bytes: usize = variables.iter().map(|(name, value_bytes)| name.len() + value_bytes).sum();
    (bytes > MAX_META_BYTES).then(|| {
        format!(
            "Meta, with that of the job, makes {bytes} bytes of environment variables, as each key is there as written and in capitals; at most {MAX_META_BYTES} are possible: send large values as the payload, or let the payload say where they are"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        BTreeMap::from_iter(pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())))
    }

    #[test]
    fn meta_that_no_environment_can_hold_is_refused() {
        let (fits, long) = ("v".repeat(MAX_VARIABLE_BYTES - 13), "v".repeat(MAX_VARIABLE_BYTES - 12));
        for (key, value, refused) in [
            ("who", "a=b \u{1} \n", None),
            ("a.b-c", "", None),
            ("k", &fits[..], None),
            ("k", &long[..], Some("Meta key k makes an environment variable of 131072 bytes")),
            ("", "me", Some("Meta has an empty key")),
            ("a=b", "me", Some("Meta key a=b contains '=' or a NUL")),
            ("a\0b", "me", Some("contains '=' or a NUL")),
            ("who", "m\0e", Some("the value of Meta key who contains a NUL")),
        ] {
            let found = refuses_meta(&map(&[(key, value)]));
            match (&found, refused) {
                (Some(why), Some(part)) => assert!(why.contains(part), "{key:?}: {why}"),
                _ => assert_eq!(found.as_deref(), refused, "{key:?}"),
            }
        }
    }

    #[test]
    fn meta_that_fits_singly_is_refused_for_its_sum() {
        let value = "v".repeat(MAX_META_BYTES / 4 - 12);
        let fits = map(&[("a", &value), ("b", &value)]);
        assert_eq!(refuses_meta(&fits), None);
        let why = refuses_meta(&map(&[("a", &value), ("b", &value), ("C", "")])).expect("has 12 bytes more");
        for part in ["makes 507916 bytes of environment", "at most 507904 are possible", "as the payload"] {
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn meta_counts_as_often_as_a_task_sees_it() {
        for (keys, value_bytes, fits) in [
            (&["a"][..], MAX_META_BYTES / 2 - 12, true),
            (&["a"], MAX_META_BYTES / 2 - 11, false),
            (&["A"], MAX_META_BYTES - 12, true),
            (&["A"], MAX_META_BYTES - 11, false),
            // called the same in an environment
            (&["A-", "A_"], MAX_META_BYTES - 13, true),
        ] {
            let value = "v".repeat(value_bytes);
            let meta: Vec<_> = keys.iter().map(|key| (*key, value.as_str())).collect();
            assert_eq!(refuses_size(&map(&meta)).is_none(), fits, "{keys:?} {value_bytes}");
        }
    }
}
