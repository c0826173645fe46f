//! `${name}` in what users write (client.md 16). Two manners: in `env` and `meta` an unknown name stays as it
//! is written; in a driver's config it is an error that names it.
use model::value::Value;
use std::collections::BTreeMap;
use std::fmt;

/// What names stand for: the task's environment first, then the node (`node.*`, `attr.*`, `meta.*`).
#[derive(Clone, Copy)]
pub struct NameValues<'a> {
    pub env: &'a BTreeMap<String, String>,
    pub node: &'a BTreeMap<String, String>,
}

impl<'a> NameValues<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.env.get(name).or_else(|| self.node.get(name)).map(String::as_str)
    }

    /// An expression of a driver's config: a dotted name, `env.NAME`, or an index such as `env["odd name"]`.
    fn evaluate(&self, expression: &str) -> Option<&'a str> {
        let expression = expression.trim();
        if is_name(expression) {
            let in_env = || expression.strip_prefix("env.").and_then(|n| self.env.get(n)).map(String::as_str);
            return self.get(expression).or_else(in_env);
        }
        let (map, key) = expression.strip_suffix("\"]")?.split_once("[\"")?;
        if map == "env" {
            return self.env.get(key).map(String::as_str);
        }
        self.node.get(&format!("{map}.{key}")).map(String::as_str)
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// Unknown names stay as text. One pass: what a name stands for is not looked through again.
pub fn lenient(text: &str, names: NameValues<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let found = from[2..].split_once('}').filter(|(name, _)| is_name(name));
        match found.and_then(|(name, after)| Some((names.get(name)?, after))) {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => {
                out.push_str("${");
                rest = &from[2..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadTemplate {
    Unknown(String),
    Unclosed,
}

impl fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadTemplate::Unknown(name) => write!(
                f,
                "there is no variable named {name:?}; write $${{{name}}} for the text itself, or look at NOMAD_*, node.*, attr.* and meta.*"
            ),
            BadTemplate::Unclosed => write!(f, "a ${{ has no closing brace; write $${{ for the text itself"),
        }
    }
}

/// `$${` and `%%{` stand for `${` and `%{`; an unknown name is an error.
pub fn strict(text: &str, names: NameValues<'_>) -> Result<String, BadTemplate> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '%']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(after) = from.strip_prefix("$${") {
            out.push_str("${");
            rest = after;
        } else if let Some(after) = from.strip_prefix("%%{") {
            out.push_str("%{");
            rest = after;
        } else if let Some(inside) = from.strip_prefix("${") {
            let (expression, after) = inside.split_once('}').ok_or(BadTemplate::Unclosed)?;
            let unknown = || BadTemplate::Unknown(expression.trim().to_string());
            out.push_str(names.evaluate(expression).ok_or_else(unknown)?);
            rest = after;
        } else {
            out.push_str(&from[..1]);
            rest = &from[1..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// `strict` for every text within a value. Its depth is that of a decoded record, which is bounded.
pub fn strict_value(value: &Value, names: NameValues<'_>) -> Result<Value, BadTemplate> {
    Ok(match value {
        Value::Text(text) => Value::Text(strict(text, names)?),
        Value::List(list) => {
            Value::List(list.iter().map(|v| strict_value(v, names)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let one = |(k, v): (&String, &Value)| Ok((k.clone(), strict_value(v, names)?));
            Value::Map(map.iter().map(one).collect::<Result<_, _>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps() -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let map =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        (
            map(&[("NOMAD_TASK_NAME", "web"), ("odd name", "o"), ("X", "${NOMAD_TASK_NAME}")]),
            map(&[("node.class", "big"), ("attr.kernel.name", "linux"), ("meta.a b", "m")]),
        )
    }

    #[test]
    fn unknown_names_stay_in_env() {
        let (env, node) = maps();
        for (text, expected) in [
            ("plain", "plain"),
            ("${NOMAD_TASK_NAME}-${node.class}", "web-big"),
            ("${nosuch} ${attr.kernel.name}", "${nosuch} linux"),
            ("${X}", "${NOMAD_TASK_NAME}"),
            ("${a b} ${", "${a b} ${"),
            ("${${NOMAD_TASK_NAME}}", "${web}"),
            ("$${node.class}", "$big"),
            ("ö${node.class}ö", "öbigö"),
        ] {
            assert_eq!(lenient(text, NameValues { env: &env, node: &node }), expected);
        }
    }

    #[test]
    fn unknown_names_are_errors_in_config() {
        let (env, node) = maps();
        let names = NameValues { env: &env, node: &node };
        for (text, expected) in [
            ("100% $5 %{http_code} %%{x}", "100% $5 %{http_code} %{x}"),
            ("$${nosuch}", "${nosuch}"),
            ("${ node.class }${env[\"odd name\"]}${meta[\"a b\"]}", "bigom"),
            ("${env.NOMAD_TASK_NAME}", "web"),
        ] {
            assert_eq!(strict(text, names).as_deref(), Ok(expected));
        }
        for (text, unknown) in [("a ${nosuch} b", "nosuch"), ("${upper(\"x\")}", "upper(\"x\")")] {
            assert_eq!(strict(text, names), Err(BadTemplate::Unknown(unknown.into())));
        }
        assert_eq!(strict("${open", names), Err(BadTemplate::Unclosed));
    }
}
