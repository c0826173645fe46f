//! Hooks of single blocks, for what the schema table cannot say, once their keys are read (jobspec.md 2.4, jobspec.md 3.9.3, jobspec.md 4.2).

use super::{Decoder, Read, complete};
use model::job::TaskGroup;
use model::schema::{Declared, DecodeHook};
use serde_json::{Map, Value, json};

pub fn finish(decoder: &mut Decoder<'_>, hook: DecodeHook, read: &mut Read) {
    match hook {
        DecodeHook::Nothing => {}
        DecodeHook::Job => job(read),
        DecodeHook::Group => hand_down_vault(read),
        DecodeHook::Constraint | DecodeHook::Affinity => condition(read),
        DecodeHook::Network => network(read),
        DecodeHook::Periodic => fill(read, &[("SpecType", json!("cron"))]),
        DecodeHook::Template => fill(
            read,
            &[
                ("ChangeMode", json!("restart")),
                ("Perms", json!("0644")),
                ("Splay", json!(5_000_000_000_i64)),
            ],
        ),
        DecodeHook::ChangeScript => fill(
            read,
            &[("Args", json!([])), ("Timeout", json!(5_000_000_000_i64)), ("FailOnError", json!(false))],
        ),
        DecodeHook::GroupScaling => group_scaling(decoder, read),
        DecodeHook::TaskScaling => task_scaling(decoder, read),
        DecodeHook::Vault => fill(
            read,
            &[("Env", json!(true)), ("DisableFile", json!(false)), ("ChangeMode", json!("restart"))],
        ),
    }
}

fn fill(read: &mut Read, values: &[(&str, Value)]) {
    for (key, value) in values {
        read.json.entry(*key).or_insert_with(|| value.clone());
    }
}

/// The name is the id unless given; a task directly under the job is a group of its own.
fn job(read: &mut Read) {
    if let Some(id) = read.json.get("ID").cloned() {
        read.json.entry("Name").or_insert(id);
    }
    if let Some(Value::Array(tasks)) = read.extra.remove("task") {
        let groups = read.json.entry("TaskGroups").or_insert_with(|| json!([]));
        for task in tasks {
            let mut group = Map::new();
            group.insert("Name".into(), task.get("Name").cloned().unwrap_or_default());
            group.insert("Tasks".into(), json!([task]));
            complete(TaskGroup::BLOCK, &mut group);
            if let Value::Array(groups) = groups {
                groups.push(Value::Object(group));
            }
        }
    }
    if let Some(vault) = read.extra.remove("vault") {
        for group in items(read.json.get_mut("TaskGroups")) {
            give_vault(group.get_mut("Tasks"), &vault);
        }
    }
}

fn hand_down_vault(read: &mut Read) {
    if let Some(vault) = read.extra.remove("vault") {
        give_vault(read.json.get_mut("Tasks"), &vault);
    }
}

/// To every task that has none of its own.
fn give_vault(tasks: Option<&mut Value>, vault: &Value) {
    for task in items(tasks) {
        if let Some(own @ Value::Null) = task.get_mut("Vault") {
            *own = vault.clone();
        }
    }
}

fn items(list: Option<&mut Value>) -> &mut [Value] {
    match list {
        Some(Value::Array(items)) => items,
        _ => &mut [],
    }
}

/// `version = "v"` and its like stand for an operator and its value; so do `distinct_hosts`, `distinct_property`,
/// `is_set` and `is_not_set`.
fn condition(read: &mut Read) {
    for name in ["version", "semver", "regexp", "set_contains", "set_contains_all", "set_contains_any"] {
        if let Some(value) = read.extra.remove(name) {
            read.json.insert("Operand".into(), json!(name));
            read.json.insert("RTarget".into(), value);
        }
    }
    if let Some(Value::Bool(on)) = read.extra.remove("distinct_hosts") {
        read.json.insert("Operand".into(), json!("distinct_hosts"));
        read.json.insert("RTarget".into(), json!(on.to_string()));
    }
    if let Some(target) = read.extra.remove("distinct_property") {
        read.json.insert("Operand".into(), json!("distinct_property"));
        read.json.insert("LTarget".into(), target);
    }
    for (name, opposite) in [("is_set", "is_not_set"), ("is_not_set", "is_set")] {
        if let Some(Value::Bool(on)) = read.extra.remove(name) {
            read.json.insert("Operand".into(), json!(if on { name } else { opposite }));
        }
    }
    read.json.entry("Operand").or_insert_with(|| json!("="));
}

/// A port with a fixed number is reserved, any other is dynamic.
fn network(read: &mut Read) {
    let Some(Value::Array(ports)) = read.json.remove("DynamicPorts") else { return };
    let is_fixed = |p: &Value| p.get("Value").and_then(Value::as_i64).is_some_and(|v| v > 0);
    let (fixed, free): (Vec<Value>, Vec<Value>) = ports.into_iter().partition(is_fixed);
    if !free.is_empty() {
        read.json.insert("DynamicPorts".into(), Value::Array(free));
    }
    if !fixed.is_empty()
        && let Value::Array(all) = read.json.entry("ReservedPorts").or_insert_with(|| json!([]))
    {
        all.extend(fixed);
    }
}

fn group_scaling(decoder: &mut Decoder<'_>, read: &mut Read) {
    if !read.json.contains_key("Max") {
        decoder.fail(read.at.clone(), "Missing required argument", "scaling needs max");
    }
    match read.json.get("Type").and_then(Value::as_str) {
        None | Some("" | "horizontal") => {
            read.json.insert("Type".into(), json!("horizontal"));
        }
        Some(other) => {
            let detail = format!("it is \"horizontal\" for a group, not {other:?}");
            decoder.fail(read.at.clone(), "Invalid group scaling type", detail);
        }
    }
}

fn task_scaling(decoder: &mut Decoder<'_>, read: &mut Read) {
    let kind = match read.json.remove("Name").as_ref().and_then(Value::as_str) {
        Some("cpu") => "vertical_cpu",
        Some("mem") => "vertical_mem",
        other => {
            let detail =
                format!("a task's scaling is \"cpu\" or \"mem\", not {:?}", other.unwrap_or_default());
            return decoder.fail(read.at.clone(), "Invalid scaling policy name", detail);
        }
    };
    match read.json.get("Type").and_then(Value::as_str) {
        Some(given) if !given.is_empty() && given != kind => {
            let detail = format!("its label asks for {kind:?}, its type is {given:?}");
            decoder.fail(read.at.clone(), "Invalid scaling policy type", detail);
        }
        _ => {
            read.json.insert("Type".into(), json!(kind));
        }
    }
}
