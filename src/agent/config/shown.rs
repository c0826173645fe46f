//! The settings that hold, as `agent/self` shows them: nested, and named as Nomad's are.
//!
//! Refuses to know: any single key. Names and types follow from the declarations.

use super::keys::{ConfigKey, KeyType, TOP};
use super::{Setting, Settings};
use serde_json::{Map, Value};

/// All settings but secrets as one JSON object. Durations and sizes stand as they were written.
pub fn shown(settings: &Settings) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, setting) in settings {
        let Setting::Shown(text) = setting else { continue };
        let mut path = Vec::new();
        if let Some(kind) = place(TOP, name, &mut path) {
            put(&mut all, &path, value(kind, text));
        }
    }
    all
}

/// The kind of the key with this full name. `path`: where it is shown; labels and entries keep the user's spelling.
fn place(keys: &'static [ConfigKey], name: &str, path: &mut Vec<String>) -> Option<&'static KeyType> {
    let (first, after) = name.split_once('.').unwrap_or((name, ""));
    let kind = &keys.iter().find(|key| key.name == first)?.kind;
    path.push(pascal_case(first));
    match kind {
        KeyType::Block(inner) => place(inner, after, path),
        KeyType::Labelled { label, keys, .. } => {
            path.push(label.to_string());
            place(keys, after.strip_prefix(label)?.strip_prefix('.')?, path)
        }
        KeyType::Named(_, inner) => {
            let (label, member) = after.rsplit_once('.')?;
            path.push(label.to_string());
            place(inner, member, path)
        }
        KeyType::Map(_) => {
            path.push(after.to_string());
            Some(kind)
        }
        _ => Some(kind),
    }
}

fn put(object: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => drop(object.insert(last.clone(), value)),
        [first, rest @ ..] => {
            let inner = object.entry(first.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

fn value(kind: &KeyType, text: &str) -> Value {
    match kind {
        KeyType::Bool(_) | KeyType::Switch(_) => matches!(text, "true" | "1").into(),
        KeyType::Int(..) => text.parse::<u64>().map_or_else(|_| text.into(), Value::from),
        KeyType::Float(_) => text.parse::<f64>().map_or_else(|_| text.into(), Value::from),
        KeyType::List(_) => text.split(',').map(Value::from).collect(),
        _ => text.into(),
    }
}

/// `job_gc_interval` is `JobGCInterval`.
fn pascal_case(name: &str) -> String {
    const WHOLE: [&str; 6] = ["api", "gc", "http", "mb", "ttl", "url"];
    let word = |word: &str| match WHOLE.contains(&word) {
        true => word.to_uppercase(),
        false => word[..1.min(word.len())].to_uppercase() + word.get(1..).unwrap_or(""),
    };
    name.split('_').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::super::secret::Secret;
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_nested_typed_and_named_as_nomads() {
        let settings = [
            ("region", "global"),
            ("ports.http", "4646"),
            ("http_api_response_headers.X-A", "b"),
            ("server.job_gc_interval", "5m"),
            ("server.max_heartbeats_per_second", "50"),
            ("server.search.fuzzy_enabled", "true"),
            ("client.memory_total_mb", "64"),
            ("client.options.docker.cleanup", "1"),
            ("client.host_volume.a.b.read_only", "true"),
            ("plugin.raw_exec.config.enabled", "false"),
            ("telemetry.prefix_filter", "+a,-b"),
        ];
        let settings =
            settings.map(|(name, text)| (name.to_string(), Setting::Shown(text.to_string()))).into();
        let expected = json!({
            "Region": "global",
            "Ports": {"HTTP": 4646},
            "HTTPAPIResponseHeaders": {"X-A": "b"},
            "Server": {"JobGCInterval": "5m", "MaxHeartbeatsPerSecond": 50.0, "Search": {"FuzzyEnabled": true}},
            "Client": {
                "MemoryTotalMB": 64, "Options": {"docker.cleanup": "1"}, "HostVolume": {"a.b": {"ReadOnly": true}},
            },
            "Plugin": {"raw_exec": {"Config": {"Enabled": false}}},
            "Telemetry": {"PrefixFilter": ["+a", "-b"]},
        });
        assert_eq!(Value::Object(shown(&settings)), expected);
        let key = [("server.encrypt".to_string(), Setting::Hidden(Secret::new("a key")))];
        assert_eq!(Value::Object(shown(&key.into())), json!({}));
    }
}
