//! Log lines: what an event says, as text for people or as one JSON object for programs, in the layout of Nomad's log, so that
//! programs that parse that log parse this one (cli.md 4.9).
//!
//! Refuses to know: who reads them, and which events are logged.

use jiff::Timestamp;
use serde_json::Value;
use std::fmt::{self, Debug, Write};
use tracing::Event;
use tracing::field::{Field, Visit};

/// The field that is the sentence itself.
const MESSAGE: &str = "message";

/// An event as text, with the place in the source if `located`.
pub fn text(event: &Event<'_>, at: Timestamp, located: bool) -> String {
    let about = event.metadata();
    let level = format!("[{}]", about.level());
    let mut line = Text { line: format!("{at:.3} {level:<7} "), fields: String::new() };
    if let Some(place) = place(event).filter(|_| located) {
        line.line.push_str(&format!("{place}: "));
    }
    line.line.push_str(&format!("{}: ", module(about.target())));
    event.record(&mut line);
    let Text { mut line, fields } = line;
    if !fields.is_empty() {
        line.push(':');
        line.push_str(&fields);
    }
    line.push('\n');
    line
}

/// The event's place in the source.
fn place(event: &Event<'_>) -> Option<String> {
    let about = event.metadata();
    Some(format!("{}:{}", about.file()?, about.line().unwrap_or(0)))
}

/// The module that a line names: the event's own target, or Nomad's name for the part of the agent that a crate is.
fn module(target: &str) -> &str {
    match target.split("::").next() {
        Some("server" | "state" | "raft" | "scheduler") => "nomad",
        Some("io") if target.starts_with("io::http") => "http",
        Some("io" | "drover") => "agent",
        Some(name) => name,
        None => target,
    }
}

/// The same as JSON.
pub fn json(event: &Event<'_>, at: Timestamp, located: bool) -> String {
    let about = event.metadata();
    let mut line = Json("{".to_string());
    line.member("@level", Value::from(about.level().as_str().to_ascii_lowercase()));
    line.member("@module", Value::from(module(about.target())));
    line.member("@timestamp", Value::from(format!("{at:.6}")));
    if let Some(place) = place(event).filter(|_| located) {
        line.member("@caller", Value::from(place));
    }
    event.record(&mut line);
    line.0.push_str("}\n");
    line.0
}

/// `line` ends with the event's message; the fields are collected apart, to follow it.
struct Text {
    line: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &shown(value));
    }

    /// Writes a value in quotes, unless it is one word or has them already.
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            return write!(Escaped(&mut self.line), "{value}").expect("a string takes all");
        }
        let strange = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '=');
        let quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
        let plain = quoted || (!value.is_empty() && !value.contains(strange));
        let (name, mut fields) = (name_of(field), Escaped(&mut self.fields));
        let written =
            if plain { write!(fields, " {name}={value}") } else { write!(fields, " {name}={value:?}") };
        written.expect("a string takes all");
    }
}

/// As far as its own formatting gets: a value that fails at it ends no agent.
fn shown(value: &dyn Debug) -> String {
    let mut text = String::new();
    if write!(text, "{value:?}").is_err() {
        text.push_str("(cannot be shown)");
    }
    text
}

/// The field's name, without the prefix that makes a name of a keyword.
fn name_of(field: &Field) -> &'static str {
    field.name().strip_prefix("r#").unwrap_or(field.name())
}

/// Writes the control characters that a terminal would obey as escapes.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '\x1b' | '\x07' | '\x08' | '\x0c' | '\x7f' => write!(self.0, "\\x{:02x}", u32::from(c))?,
                '\u{80}'..='\u{9f}' => write!(self.0, "\\u{{{:x}}}", u32::from(c))?,
                _ => self.0.push(c),
            }
        }
        Ok(())
    }
}

/// An object that is being written.
struct Json(String);

fn json_name(field: &Field) -> &'static str {
    if field.name() == MESSAGE { "@message" } else { name_of(field) }
}

impl Json {
    fn member(&mut self, name: &str, value: Value) {
        if self.0 != "{" {
            self.0.push(',');
        }
        write!(self.0, "{}:{value}", Value::from(name)).expect("a string takes all");
    }
}

impl Visit for Json {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.member(json_name(field), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(json_name(field), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(json_name(field), Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(json_name(field), Value::from(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.member(json_name(field), Value::from(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.member(json_name(field), Value::from(shown(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::span;

    /// Both forms of each event.
    #[derive(Default)]
    struct Kept(Mutex<Vec<[String; 2]>>);

    impl tracing::Subscriber for Kept {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            let at = Timestamp::from_microsecond(1_767_225_600_000_042).expect("is a time");
            let located = event.fields().any(|field| field.name() == "located");
            self.0.lock().expect("is whole").push([text(event, at, located), json(event, at, located)]);
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn lines_say_time_level_sentence_and_fields() {
        let kept = Arc::new(Kept::default());
        tracing::subscriber::with_default(kept.clone(), || {
            tracing::info!(name = "a\n", count = 3_u64, below = -1, share = 0.5, so = true, "a \"sentence\"");
            tracing::warn!(error = %"it {broke} \x07", shape = ?Some("x"), "red: \x1b[31m \u{9b}");
            tracing::error!("nothing else");
            tracing::debug!(r#type = "t");
        });
        let lines = kept.0.lock().expect("is whole").clone();
        let begin = |level: &str| format!("2026-01-01T00:00:00.000Z {level} agent: ");
        let object = |level: &str, fields: &str| {
            let at = "2026-01-01T00:00:00.000042Z";
            format!("{{\"@level\":\"{level}\",\"@module\":\"agent\",\"@timestamp\":\"{at}\",{fields}}}\n")
        };
        let expected = [
            [
                begin("[INFO] ") + "a \"sentence\": name=\"a\\n\" count=3 below=-1 share=0.5 so=true\n",
                object(
                    "info",
                    r#""@message":"a \"sentence\"","name":"a\n","count":3,"below":-1,"share":0.5,"so":true"#,
                ),
            ],
            [
                begin("[WARN] ")
                    + "red: \\x1b[31m \\u{9b}: error=\"it {broke} \\u{7}\" shape=\"Some(\\\"x\\\")\"\n",
                object(
                    "warn",
                    "\"@message\":\"red: \\u001b[31m \u{9b}\",\"error\":\"it {broke} \\u0007\",\"shape\":\"Some(\\\"x\\\")\"",
                ),
            ],
            [begin("[ERROR]") + "nothing else\n", object("error", r#""@message":"nothing else""#)],
            [begin("[DEBUG]") + ": type=t\n", object("debug", r#""type":"t""#)],
        ];
        assert_eq!(lines, expected);
    }

    /// A value as a library may have one: `format!` panics at it.
    struct Unwritable;

    impl Debug for Unwritable {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("begins ")?;
            Err(fmt::Error)
        }
    }

    #[test]
    fn a_value_that_cannot_be_formatted_ends_no_agent() {
        let kept = Arc::new(Kept::default());
        tracing::subscriber::with_default(kept.clone(), || {
            tracing::info!(value = ?Unwritable, "{Unwritable:?}");
        });
        let [text, json] = &kept.0.lock().expect("is whole")[0];
        let shown = "begins (cannot be shown)";
        assert!(text.ends_with(&format!("agent: {shown}: value=\"{shown}\"\n")), "{text}");
        assert!(json.contains(&format!("\"@message\":\"{shown}\",\"value\":\"{shown}\"")), "{json}");
    }

    #[test]
    fn lines_name_their_source_if_configured() {
        let kept = Arc::new(Kept::default());
        let line = line!() + 1;
        tracing::subscriber::with_default(kept.clone(), || tracing::info!(located = true, "here"));
        let [text, json] = &kept.0.lock().expect("is whole")[0];
        assert!(
            text.ends_with(&format!(" [INFO]  {}:{line}: agent: here: located=true\n", file!())),
            "{text}"
        );
        assert!(json.contains(&format!(",\"@caller\":\"{}:{line}\",", file!())), "{json}");
    }

    #[test]
    fn modules_have_the_names_of_the_field() {
        for (target, name) in [
            ("nomad.worker", "nomad.worker"),
            ("server::log", "nomad"),
            ("client", "client"),
            ("io::http::connection", "http"),
            ("io::disk", "agent"),
            ("agent::reload", "agent"),
        ] {
            assert_eq!(module(target), name, "{target}");
        }
    }
}
