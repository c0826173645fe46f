//! Output to a terminal, a pipe or a file: colours where they are wanted, and a closed pipe is no error.

use crate::error::{CommandError, CommandResult};
use crate::render::json::pretty;
use crate::render::template;
use crate::settings::CliSettings;
use std::io::{self, IsTerminal, Write};

/// How the API's objects are printed as they are, instead of as tables.
#[derive(Clone, Copy)]
pub enum Objects<'a> {
    Json,
    Template(&'a str),
}

/// What `-json` and `-t` ask for.
pub fn objects(json: bool, template: Option<&str>) -> CommandResult<Option<Objects<'_>>> {
    match (json, template) {
        (true, Some(_)) => Err(CommandError::usage("-json and -t exclude each other")),
        (_, Some("")) => Err(CommandError::usage("-t needs a template in Go's syntax, as in -t '{{ .ID }}'")),
        (_, Some(template)) => Ok(Some(Objects::Template(template))),
        (true, None) => Ok(Some(Objects::Json)),
        (false, None) => Ok(None),
    }
}

/// Standard output and standard error, and whether they may be coloured.
pub struct Printer {
    color_out: bool,
    color_err: bool,
}

impl Printer {
    pub fn new(settings: &CliSettings) -> Printer {
        let wanted = |terminal: bool| !settings.no_color && (settings.force_color || terminal);
        Printer {
            color_out: wanted(io::stdout().is_terminal()),
            color_err: wanted(io::stderr().is_terminal()),
        }
    }

    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Text as it is; the caller ends its lines.
    pub fn text(&self, text: &str) -> CommandResult<()> {
        self.bytes(text.as_bytes())
    }

    pub fn line(&self, text: &str) -> CommandResult<()> {
        self.text(&format!("{text}\n"))
    }

    pub fn bytes(&self, bytes: &[u8]) -> CommandResult<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// A blank line and the section's title.
    pub fn section(&self, title: &str) -> CommandResult<()> {
        self.line("")?;
        self.title(title)
    }

    pub fn title(&self, title: &str) -> CommandResult<()> {
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

    pub fn stderr_bytes(&self, bytes: &[u8]) -> CommandResult<()> {
        Ok(io::stderr().lock().write_all(bytes)?)
    }

    /// Four spaces of indentation, as the API's `?pretty`.
    pub fn json(&self, value: &serde_json::Value) -> CommandResult<()> {
        self.line(&pretty(value))
    }

    pub fn objects(&self, how: Objects<'_>, value: &serde_json::Value) -> CommandResult<()> {
        match how {
            Objects::Json => self.json(value),
            Objects::Template(template) => self.line(&template::render(template, value)?),
        }
    }

    /// The line that the user types, without its end.
    pub fn ask(&self, question: &str) -> CommandResult<String> {
        self.text(&format!("{question} "))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(answer.trim().to_string())
    }
}

fn paint(text: &str, style: anstyle::Style, color: bool) -> String {
    if color { format!("{style}{text}{style:#}") } else { text.to_string() }
}
