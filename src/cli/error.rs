//! Why a command ends early, and what its result is.

use agent::config::files::os_error;
use std::fmt;
use std::io;

/// Why a command ends early.
#[derive(Debug)]
pub enum CommandError {
    /// Told on stderr; exit code 1. `hint`: followed by the line that names the command's help.
    Message { text: String, hint: bool },
    /// The reader of our output went away: end silently.
    OutputClosed,
}

pub type CommandResult<T> = Result<T, CommandError>;

impl CommandError {
    pub fn new(text: impl Into<String>) -> CommandError {
        CommandError::Message { text: text.into(), hint: false }
    }

    /// The command line was wrong.
    pub fn usage(text: impl Into<String>) -> CommandError {
        CommandError::Message { text: text.into(), hint: true }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Message { text, .. } => f.write_str(text),
            CommandError::OutputClosed => f.write_str("the output was closed"),
        }
    }
}

impl From<io::Error> for CommandError {
    fn from(e: io::Error) -> CommandError {
        match e.kind() {
            io::ErrorKind::BrokenPipe => CommandError::OutputClosed,
            _ => CommandError::new(os_error(&e)),
        }
    }
}
