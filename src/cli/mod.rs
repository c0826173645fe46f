//! The command line: finds the command, sorts out its flags, runs it and turns what comes of it into an exit code.
//!
//! Refuses to know: what an agent does with a request. Exit codes: 0 done, 1 any error, 2 not everything was placed, 127 unknown
//! command. Formatting is pure and apart from I/O.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod agent;
mod alloc;
mod answer;
mod commands;
mod deployment;
mod error;
mod eval;
mod flags;
mod frames;
mod http;
mod job;
mod node;
mod numbers;
mod operator;
mod output;
mod render;
mod session;
mod settings;
mod shapes;
mod status;
mod tls;
mod version;
mod why;

use commands::{COMMANDS, CommandSpec, NOT_SUPPORTED};
use error::{CommandError, CommandResult};
use jobspec::nearest::nearest;
use output::Printer;
use session::Session;
use settings::CliSettings;
use std::io::Write as _;
use std::process::ExitCode;

const UNKNOWN_COMMAND: u8 = 127;
/// The group is known, its member is not.
const UNKNOWN_SUBCOMMAND: u8 = 1;

/// A parsed command.
pub trait CliCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode>;
}

/// Text for the user, and the end.
#[derive(Debug, PartialEq, Eq)]
pub enum EarlyEnd {
    /// What was asked for: on stdout, exit code 0.
    Help(String),
    /// What is wrong: on stderr, with an exit code.
    Wrong(String, u8),
}

/// A command that is ready to be run.
pub struct Prepared {
    settings: CliSettings,
    run: Ready,
}

type Ready = Box<dyn FnOnce(&mut Session) -> CommandResult<ExitCode>>;

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

pub fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let env = |name: &str| std::env::var(name).ok();
    let prepared = choose(&args).and_then(|(command, rest)| Ok((command, prepare(command, rest, &env)?)));
    match prepared {
        Ok((command, prepared)) => {
            let outcome = (prepared.run)(&mut Session::new(&prepared.settings));
            finish(command, &prepared.settings, outcome)
        }
        Err(say) => print_early_end(&say),
    }
}

/// The command that is meant, and what is left of the arguments.
fn choose(args: &[String]) -> Result<(&'static CommandSpec, &[String]), EarlyEnd> {
    match args.first().map(String::as_str) {
        Some("-h" | "-help" | "--help") => return Err(EarlyEnd::Help(overview(""))),
        Some("-v" | "-version" | "--version") => {
            return Err(EarlyEnd::Help(format!("drover {}\n", version::text())));
        }
        _ => {}
    }
    let words: Vec<&str> = args
        .iter()
        .map(String::as_str)
        .take_while(|w| !w.starts_with('-'))
        .take(commands::MAX_WORDS)
        .collect();
    for length in (1..=words.len()).rev() {
        let name = words[..length].join(" ");
        let name = commands::unalias(&name);
        if let Some(command) = COMMANDS.iter().find(|c| c.name == name) {
            return Ok((command, &args[length..]));
        }
        if NOT_SUPPORTED.contains(&name) {
            return Err(EarlyEnd::Wrong(format!("not supported yet: {name}"), 1));
        }
    }
    Err(no_command(args, &words))
}

/// `drover`, `drover job` and `drover jbo run`.
fn no_command(args: &[String], words: &[&str]) -> EarlyEnd {
    let group = words.first().copied().unwrap_or("");
    let members = overview(group);
    let help = args.iter().any(|a| matches!(a.as_str(), "-h" | "-help" | "--help"));
    match (words, members.is_empty()) {
        (_, false) if help => return EarlyEnd::Help(members),
        ([], _) => return EarlyEnd::Wrong(members, UNKNOWN_COMMAND),
        ([_], false) => return EarlyEnd::Wrong(members, 1),
        _ => {}
    }
    let typed = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    let known = || COMMANDS.iter().map(|c| c.name).chain(NOT_SUPPORTED.iter().copied());
    let hint = match nearest(&typed, known()).or_else(|| nearest(group, known())) {
        Some(name) => format!("Did you mean \"drover {name}\"?"),
        None => "\"drover -h\" lists the commands.".to_string(),
    };
    let code = if members.is_empty() { UNKNOWN_COMMAND } else { UNKNOWN_SUBCOMMAND };
    EarlyEnd::Wrong(format!("Unknown command \"drover {typed}\". {hint}"), code)
}

/// The commands of a group (all of them: ""), one a line; empty when there are none.
fn overview(group: &str) -> String {
    let inside =
        |c: &&CommandSpec| group.is_empty() || c.name.split(' ').next() == Some(group) && c.name != group;
    let width = COMMANDS.iter().filter(inside).map(|c| c.name.len()).max().unwrap_or(0);
    let line = |c: &CommandSpec| format!("  {:<width$}  {}\n", c.name, c.about);
    let lines: String = COMMANDS.iter().filter(inside).map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    let usage = if group.is_empty() { "drover <command>" } else { &format!("drover {group} <command>") };
    format!(
        "Usage: {usage} [-flag ...] [argument ...]\n\nCommands:\n{lines}\n\"drover <command> -h\" says more.\n"
    )
}

/// Parses `args` as what `command` wants. Only `command.parse` knows the type: what is done here is compiled once.
fn prepare(command: &CommandSpec, args: &[String], env: Env<'_>) -> Result<Prepared, EarlyEnd> {
    let name = format!("drover {}", command.name);
    let help = || {
        let text = (command.parse)(&[&name], &["--help"]).err().map(|e| e.output).unwrap_or_default();
        flags::help_text(&text, command.networked)
    };
    let usage = |text: String| EarlyEnd::Wrong(format!("{text}\n\n{}", help()), command.failure);
    let split = flags::split(args, &(command.info)(), command.networked, command.flags_first)
        .map_err(|e| usage(e.of(command.name).to_string()))?;
    if split.help {
        return Err(EarlyEnd::Help(help()));
    }
    let words: Vec<&str> = split.args.iter().map(String::as_str).collect();
    let refused = |text: &str| match flags::wrong_value(text) {
        Some(why) => EarlyEnd::Wrong(format!("{why}\n{}", more_help(command)), command.failure),
        None => usage(text.to_string()),
    };
    let run = (command.parse)(&[&name], &words).map_err(|e| refused(e.output.trim_end()))?;
    let settings =
        CliSettings::new(&split.globals, env).map_err(|text| EarlyEnd::Wrong(text, command.failure))?;
    Ok(Prepared { settings, run })
}

fn more_help(command: &CommandSpec) -> String {
    format!("For additional help try \"drover {} -h\"", command.name)
}

fn finish(command: &CommandSpec, settings: &CliSettings, outcome: CommandResult<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(CommandError::OutputClosed) => ExitCode::SUCCESS,
        Err(CommandError::Message { text, hint }) => {
            let out = Printer::new(settings);
            out.error(&text);
            if hint {
                out.stderr_line(&more_help(command));
            }
            ExitCode::from(command.failure)
        }
    }
}

/// A closed pipe needs no message.
fn print_early_end(end: &EarlyEnd) -> ExitCode {
    match end {
        EarlyEnd::Help(text) => {
            let _closed = std::io::stdout().lock().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        EarlyEnd::Wrong(text, code) => {
            let _closed = writeln!(std::io::stderr().lock(), "{}", text.trim_end());
            ExitCode::from(*code)
        }
    }
}

#[cfg(test)]
mod tests;
