//! Writing to a terminal, a pipe or a file: colours where they are wanted, and a reader that went away is no error.

use crate::render::template;
use crate::settings::Settings;
use agent::config::files::os_error;
use api::indent::indented;
use std::fmt;
use std::io::{self, IsTerminal, Write};

/// Why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// Told on stderr; exit code 1. `hint`: followed by the line that names the command's help.
    Message { text: String, hint: bool },
    /// Nobody reads what we write: the end, without a word.
    OutputClosed,
}

pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub fn new(text: impl Into<String>) -> Failure {
        Failure::Message { text: text.into(), hint: false }
    }

    /// The command line was wrong.
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure::Message { text: text.into(), hint: true }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Message { text, .. } => f.write_str(text),
            Failure::OutputClosed => f.write_str("the output was closed"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::new(os_error(&e)),
        }
    }
}

/// How the API's objects are printed as they are, instead of as tables.
#[derive(Clone, Copy)]
pub enum Objects<'a> {
    Json,
    Template(&'a str),
}

/// What `-json` and `-t` ask for.
pub fn objects(json: bool, template: Option<&str>) -> Outcome<Option<Objects<'_>>> {
    match (json, template) {
        (true, Some(_)) => Err(Failure::usage("-json and -t exclude each other")),
        (_, Some("")) => Err(Failure::usage("-t needs a template in Go's syntax, as in -t '{{ .ID }}'")),
        (_, Some(template)) => Ok(Some(Objects::Template(template))),
        (true, None) => Ok(Some(Objects::Json)),
        (false, None) => Ok(None),
    }
}

/// Standard output and standard error, and whether they may be coloured.
pub struct Output {
    color_out: bool,
    color_err: bool,
}

impl Output {
    pub fn new(settings: &Settings) -> Output {
        let wanted = |terminal: bool| !settings.no_color && (settings.force_color || terminal);
        Output {
            color_out: wanted(io::stdout().is_terminal()),
            color_err: wanted(io::stderr().is_terminal()),
        }
    }

    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Text as it is; the caller ends its lines.
    pub fn text(&self, text: &str) -> Outcome<()> {
        self.bytes(text.as_bytes())
    }

    pub fn line(&self, text: &str) -> Outcome<()> {
        self.text(&format!("{text}\n"))
    }

    pub fn bytes(&self, bytes: &[u8]) -> Outcome<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// A blank line and the section's title.
    pub fn section(&self, title: &str) -> Outcome<()> {
        self.line("")?;
        self.title(title)
    }

    pub fn title(&self, title: &str) -> Outcome<()> {
        self.line(&paint(title, anstyle::Style::new().bold(), self.color_out))
    }

    pub fn bold(&self, text: &str) -> String {
        paint(text, anstyle::Style::new().bold(), self.color_out)
    }

    pub fn colored(&self, text: &str, color: anstyle::AnsiColor) -> String {
        paint(text, anstyle::Style::new().fg_color(Some(color.into())), self.color_out)
    }

    /// On stderr; a closed stderr leaves nothing to be done.
    pub fn error(&self, text: &str) {
        let red = anstyle::Style::new().fg_color(Some(anstyle::AnsiColor::Red.into()));
        self.stderr_line(&paint(text, red, self.color_err));
    }

    pub fn warning(&self, text: &str) {
        let yellow = anstyle::Style::new().fg_color(Some(anstyle::AnsiColor::Yellow.into()));
        self.stderr_line(&paint(text, yellow, self.color_err));
    }

    pub fn stderr_line(&self, text: &str) {
        let _closed = writeln!(io::stderr().lock(), "{text}");
    }

    pub fn stderr_bytes(&self, bytes: &[u8]) -> Outcome<()> {
        Ok(io::stderr().lock().write_all(bytes)?)
    }

    /// Four spaces of indentation, as the API's `?pretty`.
    pub fn json(&self, value: &serde_json::Value) -> Outcome<()> {
        self.line(&pretty(value))
    }

    pub fn objects(&self, how: Objects<'_>, value: &serde_json::Value) -> Outcome<()> {
        match how {
            Objects::Json => self.json(value),
            Objects::Template(template) => self.line(&template::render(template, value)?),
        }
    }

    /// The line that the user types, without its end.
    pub fn ask(&self, question: &str) -> Outcome<String> {
        self.text(&format!("{question} "))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(answer.trim().to_string())
    }
}

pub fn pretty(value: &serde_json::Value) -> String {
    String::from_utf8_lossy(&indented(value.to_string().as_bytes())).into_owned()
}

fn paint(text: &str, style: anstyle::Style, color: bool) -> String {
    if color { format!("{style}{text}{style:#}") } else { text.to_string() }
}
