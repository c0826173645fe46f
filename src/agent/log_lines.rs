//! Log lines: what an event says, as text for people or as one JSON object for programs.
//!
//! Refuses to know: who reads them, and which events are told.

use jiff::Timestamp;
use serde_json::Value;
use std::fmt::{self, Debug, Write};
use tracing::Event;
use tracing::field::{Field, Visit};

/// The field that is the sentence itself.
const MESSAGE: &str = "message";

/// With the place in the source if `located`.
pub fn text(event: &Event<'_>, at: Timestamp, located: bool) -> String {
    let about = event.metadata();
    let mut line = Text { line: format!("{at:.6} {:>5} ", about.level().as_str()), begun: false };
    if let Some(file) = about.file().filter(|_| located) {
        let number = about.line().map_or_else(String::new, |number| format!("{number}:"));
        line.line.push_str(&format!("{file}:{number} "));
    }
    event.record(&mut line);
    line.line.push('\n');
    line.line
}

/// The same as JSON.
pub fn json(event: &Event<'_>, at: Timestamp, located: bool) -> String {
    let about = event.metadata();
    let mut line = Json(format!("{{\"timestamp\":\"{at:.6}\",\"level\":\"{}\",\"fields\":{{", about.level()));
    event.record(&mut line);
    line.0.push('}');
    if located {
        let file = about.file().map(|file| ("filename", Value::from(file)));
        let number = about.line().map(|number| ("line_number", Value::from(number)));
        file.into_iter().chain(number).for_each(|(name, value)| line.member(name, value));
    }
    line.0.push_str("}\n");
    line.0
}

struct Text {
    line: String,
    begun: bool,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            MESSAGE => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.begun {
            self.line.push(' ');
        }
        self.begun = true;
        let mut line = Harmless(&mut self.line);
        // a string takes all, and a value that cannot be shown is left out
        match field.name() {
            MESSAGE => write!(line, "{value:?}"),
            name => write!(line, "{}={value:?}", name.strip_prefix("r#").unwrap_or(name)),
        }
        .unwrap_or_default();
    }
}

/// What a terminal would obey is shown instead.
struct Harmless<'a>(&'a mut String);

impl Write for Harmless<'_> {
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

impl Json {
    fn member(&mut self, name: &str, value: Value) {
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
        // a string takes all
        write!(self.0, "{}:{value}", Value::from(name)).unwrap_or_default();
    }
}

impl Visit for Json {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.member(field.name(), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(field.name(), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(field.name(), Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(field.name(), Value::from(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.member(field.name(), Value::from(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.member(field.name(), Value::from(format!("{value:?}")));
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
        let begin = |level: &str| format!("2026-01-01T00:00:00.000042Z {level} ");
        let object = |level: &str, fields: &str| {
            format!(
                "{{\"timestamp\":\"2026-01-01T00:00:00.000042Z\",\"level\":\"{level}\",\"fields\":{{{fields}}}}}\n"
            )
        };
        let expected = [
            [
                begin(" INFO") + "a \"sentence\" name=\"a\\n\" count=3 below=-1 share=0.5 so=true\n",
                object(
                    "INFO",
                    r#""message":"a \"sentence\"","name":"a\n","count":3,"below":-1,"share":0.5,"so":true"#,
                ),
            ],
            [
                begin(" WARN") + "red: \\x1b[31m \\u{9b} error=it {broke} \\x07 shape=Some(\"x\")\n",
                object(
                    "WARN",
                    "\"message\":\"red: \\u001b[31m \u{9b}\",\"error\":\"it {broke} \\u0007\",\"shape\":\"Some(\\\"x\\\")\"",
                ),
            ],
            [begin("ERROR") + "nothing else\n", object("ERROR", r#""message":"nothing else""#)],
            [begin("DEBUG") + "type=\"t\"\n", object("DEBUG", r#""type":"t""#)],
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_name_their_place_where_they_shall() {
        let kept = Arc::new(Kept::default());
        let line = line!() + 1;
        tracing::subscriber::with_default(kept.clone(), || tracing::info!(located = true, "here"));
        let [text, json] = &kept.0.lock().expect("is whole")[0];
        assert!(text.ends_with(&format!(" INFO {}:{line}: here located=true\n", file!())), "{text}");
        let place = format!("}},\"filename\":\"{}\",\"line_number\":{line}}}\n", file!());
        assert!(json.ends_with(&place), "{json}");
    }
}
