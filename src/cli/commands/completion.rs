//! Shell completion: a short script for each shell, and the command that all of them ask what may come next.
//!
//! Candidates come from the table of commands, so no script grows old. Names of jobs, allocations and nodes are asked of the agent,
//! when one answers; where nothing is known the shell offers files.

use crate::CliCommand;
use crate::commands::{COMMANDS, CommandSpec, MAX_WORDS, unalias};
use crate::error::{CommandError, CommandResult};
use crate::flags::{GLOBAL_FLAGS, takes_value};
use crate::node::shapes::NodeStub;
use crate::session::{Session, path};
use crate::shapes::{Alloc, JobAction, JobStub};
use argh::{ArgsInfo, FromArgs};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The most candidates that are printed.
const MAX_CANDIDATES: usize = 200;

const BASH: &str = r#"_drover() {
    local IFS=$'\n'
    COMPREPLY=($(drover complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _drover drover
"#;

const ZSH: &str = r#"#compdef drover
_drover() {
    local -a found
    found=("${(@f)$(drover complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _drover drover
"#;

const FISH: &str = r#"complete -c drover -a '(drover complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
"#;

/// print the completion script of a shell: bash, zsh or fish
#[derive(FromArgs, ArgsInfo)]
#[argh(
    name = "completion",
    example = "drover completion bash > /etc/bash_completion.d/drover",
    example = "drover completion zsh > /usr/local/share/zsh/site-functions/_drover",
    example = "drover completion fish > ~/.config/fish/completions/drover.fish"
)]
pub struct CompletionCommand {
    /// bash, zsh or fish
    #[argh(positional)]
    shell: Option<String>,
}

impl CliCommand for CompletionCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let script = match self.shell.as_deref() {
            Some("bash") => BASH,
            Some("zsh") => ZSH,
            Some("fish") => FISH,
            Some(other) => {
                return Err(CommandError::usage(format!("not supported yet: completion for {other:?}")));
            }
            None => return Err(CommandError::usage("This command takes one argument: bash, zsh or fish")),
        };
        session.out.text(script)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// print what may come next on a command line, one candidate a line; completion scripts ask this
#[derive(FromArgs, ArgsInfo)]
#[argh(name = "complete", example = "drover complete job st")]
pub struct CompleteCommand {
    /// the words after "drover"; the last one, which may be empty, is the one to be completed
    #[argh(positional)]
    word: Vec<String>,
}

impl CliCommand for CompleteCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let (last, before) = match self.word.split_last() {
            Some((last, before)) => (last.as_str(), before),
            None => ("", &[][..]),
        };
        let found = candidates(before, last, &|kind, prefix| names(session, kind, prefix));
        for candidate in found.into_iter().take(MAX_CANDIDATES) {
            session.out.line(&candidate)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What an argument names, by the argument's own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    Job,
    Alloc,
    Node,
    /// An action of the job that is asked for.
    Action,
}

impl NameKind {
    fn of(argument: &str) -> Option<NameKind> {
        match argument {
            "job" => Some(NameKind::Job),
            "alloc" | "target" => Some(NameKind::Alloc),
            "node" => Some(NameKind::Node),
            "action" => Some(NameKind::Action),
            _ => None,
        }
    }
}

/// None when no agent answers. `prefix`: of the names; of actions, the job that has them.
fn names(session: &Session, kind: NameKind, prefix: &str) -> Vec<String> {
    let query = [("prefix", prefix)];
    let client = &session.client;
    match kind {
        NameKind::Job => ids(client.get::<Vec<JobStub>>("/v1/jobs", &query).ok(), |job| job.id),
        NameKind::Alloc => ids(client.get::<Vec<Alloc>>("/v1/allocations", &query).ok(), |alloc| alloc.id),
        NameKind::Node => ids(client.get::<Vec<NodeStub>>("/v1/nodes", &query).ok(), |node| node.id),
        NameKind::Action => {
            let list = format!("{}/actions", path("job", prefix));
            ids(client.get::<Vec<JobAction>>(&list, &[]).ok(), |action| action.name)
        }
    }
}

fn ids<T>(found: Option<Vec<T>>, id: fn(T) -> String) -> Vec<String> {
    found.unwrap_or_default().into_iter().map(id).collect()
}

/// `before`: the words between "drover" and the one to be completed.
fn candidates(
    before: &[String],
    last: &str,
    names: &dyn Fn(NameKind, &str) -> Vec<String>,
) -> BTreeSet<String> {
    let found = match command_of(before) {
        None => next_words(before),
        Some((command, given)) if last.starts_with('-') => flags_of(command, given),
        Some((command, given)) => {
            let named = match given.last().filter(|_| wants_value(command, given.last())) {
                Some(flag) => NameKind::of(flag.trim_start_matches('-')).filter(|_| command.networked),
                None => (command.info)().positionals.first().and_then(|p| NameKind::of(p.name)),
            };
            let of_job = given.iter().skip_while(|word| word.as_str() != "-job").nth(1);
            match named {
                None => BTreeSet::new(),
                Some(NameKind::Action) => {
                    of_job.map(|job| names(NameKind::Action, job)).unwrap_or_default().into_iter().collect()
                }
                Some(kind) => names(kind, last).into_iter().collect(),
            }
        }
    };
    found.into_iter().filter(|candidate| candidate.starts_with(last)).collect()
}

/// The command that the words name, and what follows its name.
fn command_of(words: &[String]) -> Option<(&'static CommandSpec, &[String])> {
    (1..=words.len().min(MAX_WORDS)).rev().find_map(|length| {
        let name = words[..length].join(" ");
        let command = COMMANDS.iter().find(|c| c.name == unalias(&name))?;
        Some((command, &words[length..]))
    })
}

/// The words that continue what was typed towards the name of a command.
fn next_words(before: &[String]) -> BTreeSet<String> {
    let next = |command: &CommandSpec| {
        let mut words = command.name.split(' ');
        before.iter().all(|typed| words.next() == Some(typed)).then(|| words.next().map(str::to_string))?
    };
    COMMANDS.iter().filter_map(next).collect()
}

/// Those that were not given yet, and those that may be repeated.
fn flags_of(command: &CommandSpec, given: &[String]) -> BTreeSet<String> {
    let own = (command.info)().flags.iter().map(|f| {
        let repeats = matches!(f.optionality, argh::Optionality::Repeating);
        (f.long.trim_start_matches('-'), repeats)
    });
    let global = GLOBAL_FLAGS.iter().filter(|_| command.networked).map(|g| (g.name, false));
    let flags = own.chain(global).map(|(name, repeats)| (format!("-{name}"), repeats));
    flags.filter(|(flag, repeats)| *repeats || !given.contains(flag)).map(|(flag, _)| flag).collect()
}

fn wants_value(command: &CommandSpec, previous: Option<&String>) -> bool {
    let Some(name) = previous.and_then(|word| word.strip_prefix('-')) else { return false };
    let name = name.trim_start_matches('-');
    takes_value(&(command.info)(), name)
        || command.networked && GLOBAL_FLAGS.iter().any(|g| g.name == name && g.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        let (last, before) = words.split_last().expect("a split has a part");
        let names = |kind: NameKind, prefix: &str| vec![format!("{prefix}{kind:?}"), "zzz".to_string()];
        candidates(before, last, &names).into_iter().collect()
    }

    #[test]
    fn words_flags_and_names_are_completed() {
        for (line, expected) in [
            ("versi", &["version"][..]),
            ("job st", &["start", "status", "stop"]),
            ("keeper ", &["run", "status", "stop"]),
            ("job status we", &["weJob"]),
            ("alloc logs -f 4", &["4Alloc"]),
            ("node status ", &["Node", "zzz"]),
            ("job run -check", &["-check-index"]),
            ("job run -check-index ", &[]),
            ("job run -address ", &[]),
            ("job run -detach -det", &[]),
            ("job run -var a=1 -va", &["-var", "-var-file"]),
            ("job run x", &[]),
            ("logs -tai", &["-tail"]),
            ("bogus x", &[]),
            ("job action -job we", &["weJob"]),
            ("job action -alloc 4", &["4Alloc"]),
            ("job action -job web -group g we", &["webAction"]),
            ("job action we", &[]),
            ("agent -dev -job we", &[]),
        ] {
            assert_eq!(complete(line), expected, "{line}");
        }
    }
}
