//! Namespace files: HCL or JSON, to the body that the API takes. Unknown keys are refused with their place.
//!
//! Pure. Refuses to know which members drover has built: the agent says that.

use crate::agent::config::syntax::{self, Item, Node, Value as Written};
use crate::cli::output::{Failure, Outcome};
use crate::jobspec::nearest::nearest;
use crate::jobspec::{self, Diagnostic, Source};
use crate::model::gather::Gather;
use serde_json::{Map, Value};

/// A key of the file, its member in the API, and the keys of the block that it is, if it is one.
struct Key(&'static str, &'static str, Option<&'static [Key]>);

static TOP: &[Key] = &[
    Key("name", "Name", None),
    Key("description", "Description", None),
    Key("quota", "Quota", None),
    Key("meta", "Meta", Some(&[])),
    Key("capabilities", "Capabilities", Some(CAPABILITIES)),
    Key("node_pool_config", "NodePoolConfiguration", Some(&[])),
    Key("vault", "VaultConfiguration", Some(&[])),
    Key("consul", "ConsulConfiguration", Some(&[])),
];

static CAPABILITIES: &[Key] = &[
    Key("enabled_task_drivers", "EnabledTaskDrivers", None),
    Key("disabled_task_drivers", "DisabledTaskDrivers", None),
    Key("enabled_network_modes", "EnabledNetworkModes", None),
    Key("disabled_network_modes", "DisabledNetworkModes", None),
];

/// `name`: of the file, for what is wrong with it.
pub fn read(name: &str, text: &str, json: bool) -> Outcome<Value> {
    if json {
        let parsed = serde_json::from_str(text);
        return parsed.map_err(|e| Failure::new(format!("Error parsing namespace file {name}: {e}")));
    }
    let place = Source { name, text };
    let found = syntax::parse(text)
        .map_err(|e| Diagnostic::at(place, e.at, e.message, ""))
        .and_then(|items| object(place, TOP, &items));
    found.map_err(|wrong| {
        let shown = jobspec::render(&[wrong]);
        Failure::new(format!("Error parsing namespace file {name}:\n{}", shown.trim_end()))
    })
}

/// `keys` empty: any key is one.
fn object(place: Source<'_>, keys: &'static [Key], items: &[Item]) -> Result<Value, Diagnostic> {
    let mut members = Map::new();
    for item in items {
        if keys.is_empty() {
            members.insert(item.key.clone(), plain(&item.node));
            continue;
        }
        let Some(Key(name, member, block)) = keys.iter().find(|k| k.0 == item.key) else {
            let hint = nearest(&item.key, keys.iter().map(|k| k.0));
            let detail = hint.map(|name| format!("did you mean {name:?}?")).unwrap_or_default();
            let summary = format!("Unknown key {:?} of a namespace", item.key);
            return Err(Diagnostic::at(place, item.key_at.clone(), summary, detail));
        };
        let value = match (block, &item.node.value) {
            (None, _) => plain(&item.node),
            (Some(keys), Written::Object(items)) => object(place, keys, items)?,
            (Some(_), _) => {
                let summary = format!("{name} must be a block");
                return Err(Diagnostic::at(place, item.node.at.clone(), summary, ""));
            }
        };
        members.insert(member.to_string(), value);
    }
    Ok(Value::Object(members))
}

fn plain(node: &Node) -> Value {
    match &node.value {
        Written::Text(text) => Value::from(text.as_str()),
        Written::Number(digits) => Value::from(digits.as_str()),
        Written::Bool(flag) => Value::from(*flag),
        Written::Null => Value::Null,
        Written::List(items) => Value::Array(items.iter().map(plain).collect()),
        Written::Object(items) => {
            Value::Object(items.iter().map(|i| (i.key.clone(), plain(&i.node))).gather())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_becomes_the_apis_body() {
        let text = r#"
            name        = "team" # ours
            description = "a team"
            meta {
              owner = "ops"
              size  = 3
            }
            capabilities {
              enabled_task_drivers  = ["raw_exec"]
              disabled_task_drivers = []
            }
        "#;
        let expected = json!({
            "Name": "team",
            "Description": "a team",
            "Meta": {"owner": "ops", "size": "3"},
            "Capabilities": {"EnabledTaskDrivers": ["raw_exec"], "DisabledTaskDrivers": []},
        });
        assert_eq!(read("n.hcl", text, false).ok(), Some(expected));
        assert_eq!(read("n.json", r#"{"Name":"a"}"#, true).ok(), Some(json!({"Name": "a"})));
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        for (text, json, part) in [
            (
                "name = \"a\"\ndescripton = \"b\"",
                false,
                "n:2,1-11: Unknown key \"descripton\" of a namespace",
            ),
            ("capabilities {\n drivers = []\n}", false, "n:2,2-9: Unknown key \"drivers\""),
            ("meta = 1", false, "n:1,8-9: meta must be a block"),
            ("name = ", false, "n:1,"),
            ("{", true, "EOF"),
        ] {
            let said = read("n", text, json).map_err(|e| e.to_string()).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
    }
}
