//! Files of namespaces and node pools: HCL or JSON, to the body that the API takes. Unknown keys are refused with their place.
//!
//! Pure. Refuses to know which members drover has built: the agent says that.

use crate::error::{CommandError, CommandResult};
use agent::config::syntax::{self, ConfigValue, Item, SyntaxNode};
use jobspec::nearest::nearest;
use jobspec::{self, Diagnostic, Source};
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

static POOL: &[Key] = &[
    Key("description", "Description", None),
    Key("meta", "Meta", Some(&[])),
    Key("scheduler_config", "SchedulerConfiguration", Some(SCHEDULER)),
];

static SCHEDULER: &[Key] = &[
    Key("scheduler_algorithm", "SchedulerAlgorithm", None),
    Key("memory_oversubscription_enabled", "MemoryOversubscriptionEnabled", None),
];

/// What a file speaks of.
#[derive(Clone, Copy)]
pub enum ObjectKind {
    /// The keys of a namespace stand alone.
    Namespace,
    /// `node_pool "name" { .. }`
    NodePool,
}

impl ObjectKind {
    fn noun(self) -> &'static str {
        match self {
            ObjectKind::Namespace => "namespace",
            ObjectKind::NodePool => "node pool",
        }
    }

    fn body(self, place: Source<'_>, items: &[Item]) -> Result<Value, Diagnostic> {
        match self {
            ObjectKind::Namespace => object(place, self, TOP, items),
            ObjectKind::NodePool => {
                let (label, items) = labelled(place, items)?;
                let mut body = object(place, self, POOL, items)?;
                body["Name"] = Value::from(label);
                Ok(body)
            }
        }
    }
}

/// `name`: of the file, for what is wrong with it.
pub fn read(kind: ObjectKind, name: &str, text: &str, json: bool) -> CommandResult<Value> {
    let noun = kind.noun();
    if json {
        let parsed = serde_json::from_str(text);
        return parsed.map_err(|e| CommandError::new(format!("Error parsing {noun} file {name}: {e}")));
    }
    let place = Source { name, text };
    let found = syntax::parse(text)
        .map_err(|e| Diagnostic::at(place, e.at, e.message, ""))
        .and_then(|items| kind.body(place, &items));
    found.map_err(|wrong| {
        let shown = jobspec::render(&[wrong]);
        CommandError::new(format!("Error parsing {noun} file {name}:\n{}", shown.trim_end()))
    })
}

/// The label and the insides of the one block that there has to be.
fn labelled<'a>(place: Source<'_>, items: &'a [Item]) -> Result<(&'a str, &'a [Item]), Diagnostic> {
    let wrong = |at| {
        let summary = "The file must be one block with one label";
        Diagnostic::at(place, at, summary, "node_pool \"name\" { ... }")
    };
    let [block] = items else { return Err(wrong(items.get(1).map_or(0..0, |i| i.key_at.clone()))) };
    let named = block.key == "node_pool";
    match &block.node.value {
        ConfigValue::Object(labels) if named && labels.len() == 1 => match &labels[0].node.value {
            ConfigValue::Object(inner) => Ok((&labels[0].key, inner)),
            _ => Err(wrong(labels[0].key_at.clone())),
        },
        _ => Err(wrong(block.key_at.clone())),
    }
}

/// `keys` empty: any key is one.
fn object(
    place: Source<'_>,
    kind: ObjectKind,
    keys: &'static [Key],
    items: &[Item],
) -> Result<Value, Diagnostic> {
    let mut members = Map::new();
    for item in items {
        if keys.is_empty() {
            members.insert(item.key.clone(), plain(&item.node));
            continue;
        }
        let Some(Key(name, member, block)) = keys.iter().find(|k| k.0 == item.key) else {
            let hint = nearest(&item.key, keys.iter().map(|k| k.0));
            let detail = hint.map(|name| format!("did you mean {name:?}?")).unwrap_or_default();
            let summary = format!("Unknown key {:?} of a {}", item.key, kind.noun());
            return Err(Diagnostic::at(place, item.key_at.clone(), summary, detail));
        };
        let value = match (block, &item.node.value) {
            (None, _) => plain(&item.node),
            (Some(keys), ConfigValue::Object(items)) => object(place, kind, keys, items)?,
            (Some(_), _) => {
                let summary = format!("{name} must be a block");
                return Err(Diagnostic::at(place, item.node.at.clone(), summary, ""));
            }
        };
        members.insert(member.to_string(), value);
    }
    Ok(Value::Object(members))
}

fn plain(node: &SyntaxNode) -> Value {
    match &node.value {
        ConfigValue::Text(text) => Value::from(text.as_str()),
        ConfigValue::Number(digits) => Value::from(digits.as_str()),
        ConfigValue::Bool(flag) => Value::from(*flag),
        ConfigValue::Null => Value::Null,
        ConfigValue::List(items) => Value::Array(items.iter().map(plain).collect()),
        ConfigValue::Object(items) => {
            Value::Object(items.iter().map(|i| (i.key.clone(), plain(&i.node))).collect())
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
        assert_eq!(read(ObjectKind::Namespace, "n.hcl", text, false).ok(), Some(expected));
        assert_eq!(
            read(ObjectKind::Namespace, "n.json", r#"{"Name":"a"}"#, true).ok(),
            Some(json!({"Name": "a"}))
        );
    }

    #[test]
    fn a_node_pool_is_one_block_whose_label_is_its_name() {
        let text = r#"
            node_pool "boards" {
              description = "small ones"
              meta {
                owner = "ops"
              }
              scheduler_config {
                scheduler_algorithm             = "spread"
                memory_oversubscription_enabled = true
              }
            }
        "#;
        let expected = json!({
            "Name": "boards",
            "Description": "small ones",
            "Meta": {"owner": "ops"},
            "SchedulerConfiguration": {"SchedulerAlgorithm": "spread", "MemoryOversubscriptionEnabled": true},
        });
        assert_eq!(read(ObjectKind::NodePool, "p.hcl", text, false).ok(), Some(expected));
        for (text, part) in [
            ("", "must be one block with one label"),
            ("node_pool {\n description = \"x\"\n}", "p:2,"),
            ("node_pool \"a\" {}\nnode_pool \"b\" {}", "p:"),
            ("pool \"a\" {}", "p:1,1-5: The file must be one block"),
            ("node_pool \"a\" {\n quota = 1\n}", "p:2,2-7: Unknown key \"quota\" of a node pool"),
        ] {
            let said = read(ObjectKind::NodePool, "p", text, false).map_err(|e| e.to_string()).unwrap_err();
            assert!(said.starts_with("Error parsing node pool file p:") && said.contains(part), "{said}");
        }
    }

    #[test]
    fn errors_are_shown_with_their_position() {
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
            let said = read(ObjectKind::Namespace, "n", text, json).map_err(|e| e.to_string()).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
    }
}
