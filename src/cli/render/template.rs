//! `-t`: the API's objects through a template in Go's syntax, with the names of the Go client's fields.
//!
//! Pure. Refuses to know: which command asks. Output is at most `MAX_OUTPUT_BYTES` long, and a template makes at most
//! `MAX_ROUNDS` iterations: more is an error.

use crate::error::{CommandError, CommandResult};
use crate::render::json::pretty;
use api::filter::OmitEmpty;
use gotmpl::{MissingKey, Template, TemplateError, Value};
use serde_json::{Map, Number, Value as Json};
use std::fmt;

const MAX_OUTPUT_BYTES: usize = 64 << 20;
const MAX_ROUNDS: u64 = 10_000_000;
const MAX_TEMPLATE_BYTES: usize = 1 << 20;

/// What `template` makes of `objects`. A name that an object does not have is an error, as a field that a Go type does not have;
/// `index` asks for what may be missing.
pub fn render(template: &str, objects: &Json) -> CommandResult<String> {
    if template.len() > MAX_TEMPLATE_BYTES {
        return Err(CommandError::new(format!(
            "The template is longer than {MAX_TEMPLATE_BYTES} bytes: shorten it"
        )));
    }
    let mut out = Bounded(String::new());
    let failed = |e: TemplateError| match e {
        TemplateError::Write => CommandError::new(format!(
            "Error formatting the data: it is longer than {MAX_OUTPUT_BYTES} bytes; choose less of it"
        )),
        other => CommandError::new(format!("Error formatting the data: {other}")),
    };
    let parsed = parse(template).map_err(failed)?;
    balanced(template)?;
    parsed.execute_fmt(&mut out, &from_json(objects)).map_err(failed)?;
    Ok(out.0)
}

fn parse(text: &str) -> Result<Template, TemplateError> {
    with_functions(Template::new("format"))
        .missing_key(MissingKey::Error)
        .max_range_iters(MAX_ROUNDS)
        .parse(text)
}

/// Refuses unbalanced `{{ end }}`: the engine accepts a missing one at the end of the text and ignores what follows a
/// superfluous one. An appended definition parses only at the right depth.
fn balanced(text: &str) -> CommandResult<()> {
    const MARK: &str = "drover mark";
    let reaches = |end: &str| {
        let marked = parse(&format!("{text}{end}{{{{ define {MARK:?} }}}}{{{{ end }}}}"));
        marked.is_ok_and(|parsed| parsed.lookup(MARK).is_some())
    };
    let what = match (reaches(""), reaches("{{ end }}")) {
        (true, false) => return Ok(()),
        (true, true) => "unexpected EOF: an {{ end }} is missing",
        (false, _) => "unexpected {{ end }} or {{ else }}: nothing is open that it belongs to",
    };
    Err(CommandError::new(format!("Error formatting the data: template: format: {what}")))
}

struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_OUTPUT_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Writes the members that the API leaves out when they are empty, as the Go client's types have them.
pub fn with_omitted(mut object: Json, omit_empty: &OmitEmpty) -> Json {
    let Json::Object(members) = &mut object else { return object };
    let kinds = [
        (omit_empty.text, Json::String(String::new())),
        (omit_empty.numbers, 0.into()),
        (omit_empty.flags, false.into()),
        (omit_empty.others, Json::Null),
    ];
    for (names, empty) in kinds {
        for name in names {
            members.entry(*name).or_insert_with(|| empty.clone());
        }
    }
    object
}

type Function = fn(&[Value]) -> Result<Value, TemplateError>;

/// The functions of the sprig library that are built, named as there with `sprig_` before it.
const FUNCTIONS: &[(&str, usize, Function)] = &[
    ("toJson", 1, |args| Ok(to_json(&args[0]).to_string().into())),
    ("toPrettyJson", 1, |args| Ok(pretty(&to_json(&args[0])).into())),
    ("upper", 1, |args| Ok(args[0].to_string().to_uppercase().into())),
    ("lower", 1, |args| Ok(args[0].to_string().to_lowercase().into())),
    ("trim", 1, |args| Ok(args[0].to_string().trim().into())),
    ("quote", 1, |args| Ok(format!("{:?}", args[0].to_string()).into())),
    ("default", 2, |args| Ok(if args[1].is_truthy() { args[1].clone() } else { args[0].clone() })),
    ("contains", 2, |args| Ok(Value::Bool(args[1].to_string().contains(&args[0].to_string())))),
    ("hasPrefix", 2, |args| Ok(Value::Bool(args[1].to_string().starts_with(&args[0].to_string())))),
    ("hasSuffix", 2, |args| Ok(Value::Bool(args[1].to_string().ends_with(&args[0].to_string())))),
    ("replace", 3, |args| Ok(args[2].to_string().replace(&args[0].to_string(), &args[1].to_string()).into())),
    ("trunc", 2, |args| Ok(args[1].to_string().chars().take(length(&args[0])).collect::<String>().into())),
    ("join", 2, |args| Ok(items(&args[1]).join(&args[0].to_string()).into())),
];

fn with_functions(mut template: Template) -> Template {
    for (name, arguments, function) in FUNCTIONS {
        template = template.func(&format!("sprig_{name}"), move |args: &[Value]| {
            if args.len() != *arguments {
                let given = args.len();
                return Err(TemplateError::Exec(format!(
                    "sprig_{name} takes {arguments} arguments, not {given}"
                )));
            }
            function(args)
        });
    }
    template
}

fn length(value: &Value) -> usize {
    value.as_int().and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
}

fn items(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.iter().map(ToString::to_string).collect(),
        Value::Nil => Vec::new(),
        one => vec![one.to_string()],
    }
}

fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match n.as_i64() {
            Some(whole) => Value::Int(whole),
            // beyond i64: a name, as JSON writes it
            None if n.is_u64() => Value::String(n.to_string().into()),
            None => Value::Float(n.as_f64().unwrap_or(0.0)),
        },
        Json::String(text) => Value::String(text.as_str().into()),
        Json::Array(items) => Value::List(items.iter().map(from_json).collect()),
        Json::Object(members) => Value::from(
            members
                .iter()
                .map(|(k, v)| (k.clone(), from_json(v)))
                .collect::<std::collections::BTreeMap<_, _>>(),
        ),
    }
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(whole) => Json::Number((*whole).into()),
        Value::Float(f) => Number::from_f64(*f).map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(text.to_string()),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Map(members) => {
            Json::Object(members.iter().map(|(k, v)| (k.to_string(), to_json(v))).collect::<Map<_, _>>())
        }
        _ => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn jobs() -> Json {
        json!([
            {"ID": "cache", "Status": "running", "Stop": false, "Priority": 50, "Meta": {"rack": "r1"},
             "Datacenters": ["dc1", "dc2"], "Deployment": null, "Score": 0.5, "Index": 18_446_744_073_709_551_615_u64},
            {"ID": "old", "Status": "dead", "Stop": true, "Priority": 70, "Meta": {},
             "Datacenters": [], "Deployment": null, "Score": 1.0, "Index": 7},
        ])
    }

    #[test]
    fn templates_render_as_in_go() {
        for (template, expected) in [
            ("{{range .}}{{.ID}} {{end}}", "cache old "),
            ("{{ range $i, $j := . }}{{ $i }}={{ $j.Status }};{{ end }}", "0=running;1=dead;"),
            ("{{ len . }}", "2"),
            ("{{ (index . 0).ID }}", "cache"),
            ("{{ with index . 1 }}{{ .Status }}{{ end }}", "dead"),
            (r#"{{ range . }}{{ if eq .Status "dead" }}{{ .ID }}{{ end }}{{ end }}"#, "old"),
            ("{{ range . }}{{ if and .Stop (gt .Priority 60) }}{{ .ID }}{{ end }}{{ end }}", "old"),
            (
                r#"{{ printf "%s-%03d %v" (index . 0).ID (index . 0).Priority (index . 0).Stop }}"#,
                "cache-050 false",
            ),
            (
                r#"{{ printf "%q %5.2f|%-6s|" (index . 0).ID (index . 0).Score "x" }}"#,
                "\"cache\"  0.50|x     |",
            ),
            (r#"{{ index (index . 0).Meta "rack" }}"#, "r1"),
            (r#"{{ with index (index . 1).Meta "rack" }}{{ . }}{{ else }}none{{ end }}"#, "none"),
            ("{{ (index . 0).Datacenters }}", "[dc1 dc2]"),
            ("{{ (index . 0).Meta }}", "map[rack:r1]"),
            ("{{ range . }}\n{{- .ID }}\n{{- end }}", "cacheold"),
            (r#"{{ range . }}{{ .ID | printf "%s!" }}{{ end }}"#, "cache!old!"),
            ("{{ if not (index . 0).Deployment }}none{{ end }}", "none"),
            (
                r#"{{ define "one" }}<{{ .ID }}>{{ end }}{{ range . }}{{ template "one" . }}{{ end }}"#,
                "<cache><old>",
            ),
            ("{{ (index . 0).Index }}", "18446744073709551615"),
            ("{{ slice (index . 0).ID 0 2 }}", "ca"),
            ("{{ range (index . 1).Datacenters }}x{{ else }}empty{{ end }}", "empty"),
            (r#"{{ (index . 0).Datacenters | sprig_join "," }}"#, "dc1,dc2"),
            ("{{ (index . 0).Meta | sprig_toJson }}", r#"{"rack":"r1"}"#),
            (r#"{{ sprig_upper (index . 0).ID | sprig_trunc 3 }}"#, "CAC"),
            (r#"{{ "" | sprig_default "x" }}"#, "x"),
        ] {
            assert_eq!(render(template, &jobs()).ok().as_deref(), Some(expected), "{template}");
        }
    }

    #[test]
    fn template_errors_are_told() {
        let endless = "{{ define \"r\" }}{{ template \"r\" . }}{{ end }}{{ template \"r\" . }}";
        let nested = "{{ if . }}".repeat(5000);
        for (template, part) in [
            ("{{ .ID", "unclosed action"),
            ("{{ range . }}", "unexpected EOF"),
            ("{{ range . }}{{ if . }}{{ end }}", "unexpected EOF"),
            ("a{{ end }}b", "unexpected {{ end }}"),
            ("{{ if . }}{{ end }}{{ else }}b", "unexpected {{ end }} or {{ else }}"),
            ("{{ range . }}{{ .Nmae }}{{ end }}", "Nmae"),
            ("{{ nothing . }}", "undefined function: nothing"),
            ("{{ . | sprig_env }}", "undefined function: sprig_env"),
            ("{{ sprig_join . }}", "sprig_join takes 2 arguments, not 1"),
            (endless, "recursion limit"),
            (&nested, "depth"),
        ] {
            let said = render(template, &jobs()).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(
                said.starts_with("Error formatting the data: ") && said.contains(part),
                "{template}: {said}"
            );
        }
    }

    #[test]
    fn no_template_fills_the_memory() {
        let long = Json::String("x".repeat(MAX_OUTPUT_BYTES / 2));
        let said = render("{{ . }}{{ . }}{{ . }}", &long).expect_err("too long").to_string();
        assert!(said.contains("choose less"), "{said}");
        assert!(render(&" ".repeat(MAX_TEMPLATE_BYTES + 1), &Json::Null).is_err());
    }
}
