//! `drover alloc logs`.

use crate::CliCommand;
use crate::alloc::tail::{TailOptions, write_out};
use crate::error::{CommandError, CommandResult};
use crate::frames::{self, Chunk};
use crate::numbers;
use crate::session::{Session, path};
use crate::shapes::Alloc;
use argh::{ArgsInfo, FromArgs};
use std::io::Read;
use std::process::ExitCode;
use std::sync::mpsc;

/// Chunks of two followed streams that wait to be written.
const MAX_WAITING: usize = 16;

/// print what a task wrote to stdout and stderr
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover alloc logs -f 1a2b3c4d web", example = "drover alloc logs -tail -n 20 -job cache")]
pub struct AllocLogsCommand {
    /// follow both streams, or the one that is named
    #[argh(switch, long = "f")]
    follow: bool,
    /// show only the end
    #[argh(switch)]
    tail: bool,
    /// lines from the end, with -tail
    #[argh(option, from_str_fn(numbers::integer), long = "n", default = "-1")]
    lines: i64,
    /// bytes from the end, with -tail
    #[argh(option, from_str_fn(numbers::integer), long = "c", default = "-1")]
    bytes: i64,
    /// stderr
    #[argh(switch)]
    stderr: bool,
    /// stdout (the default)
    #[argh(switch)]
    stdout: bool,
    /// the argument is a job: take one of its allocations
    #[argh(switch)]
    job: bool,
    /// the task's name
    #[argh(option)]
    task: Option<String>,
    /// print the allocation and the task to stderr first
    #[argh(switch)]
    verbose: bool,
    /// an allocation's id or the beginning of one (with -job a job), and a task's name if there are several
    #[argh(positional)]
    target: Vec<String>,
}

impl CliCommand for AllocLogsCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let (Some(target), true) = (self.target.first(), self.target.len() <= 2) else {
            return Err(CommandError::usage(
                "This command takes one or two arguments: <alloc-id> (<job> with -job), <task>",
            ));
        };
        self.check()?;
        let id = session.alloc_or_of_job(target, self.job)?;
        let alloc: Alloc = session.client.get(&path("allocation", &id), &[])?;
        let task = alloc.task_named(self.task.as_ref().or(self.target.get(1)))?;
        if self.verbose {
            session.out.stderr_line(&format!("==> Allocation {id}, task {task:?}"));
        }
        let request = LogsRequest { session, command: &self, alloc: &alloc, task: &task };
        match (self.follow, self.stdout, self.stderr) {
            (true, out, err) if out == err => request.both()?,
            // the only one asked for can be piped, whichever it is
            (_, _, true) if !self.stdout => request.one("stderr", "stdout")?,
            (_, true, true) => {
                request.one("stdout", "stdout")?;
                request.one("stderr", "stderr")?;
            }
            _ => request.one("stdout", "stdout")?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl AllocLogsCommand {
    fn check(&self) -> CommandResult<()> {
        self.tail_options().check()?;
        if self.task.is_some() && self.target.len() > 1 {
            return Err(CommandError::usage("the task is named twice: by -task and by an argument"));
        }
        Ok(())
    }

    fn tail_options(&self) -> TailOptions {
        TailOptions { tail: self.tail, follow: self.follow, lines: self.lines, bytes: self.bytes }
    }
}

struct LogsRequest<'a> {
    session: &'a Session,
    command: &'a AllocLogsCommand,
    alloc: &'a Alloc,
    task: &'a str,
}

impl LogsRequest<'_> {
    fn open(&self, kind: &str, origin: &str, offset: i64) -> CommandResult<impl Read + Send + use<>> {
        let offset = offset.to_string();
        let follow = if self.command.follow { "true" } else { "false" };
        let query = [
            ("task", self.task),
            ("type", kind),
            ("follow", follow),
            ("origin", origin),
            ("offset", &offset),
        ];
        Ok(self.session.client.stream(&path("client/fs/logs", &self.alloc.id), &query)?)
    }

    /// One stream of the task, to our own stdout or stderr.
    fn one(&self, kind: &str, to: &str) -> CommandResult<()> {
        let tail_options = self.command.tail_options();
        let (_, origin, offset) = tail_options.beginning();
        tail_options.copy(&self.session.out, to, self.open(kind, origin, offset)?)
    }

    /// Both streams followed at once, each chunk whole.
    fn both(&self) -> CommandResult<()> {
        let (_, origin, offset) = self.command.tail_options().beginning();
        // without -tail from the beginning of the newest log file (http-api.md 3.2.2)
        let origin = if self.command.tail { origin } else { "end" };
        let streams = [
            ("stdout", self.open("stdout", origin, offset)?),
            ("stderr", self.open("stderr", origin, offset)?),
        ];
        let (sender, receiver) = mpsc::sync_channel(MAX_WAITING);
        for (kind, stream) in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for chunk in frames::chunks(stream) {
                    if sender.send((kind, chunk)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (kind, chunk) in receiver {
            match chunk.map_err(frames::lost)? {
                Chunk::Data(data) => write_out(&self.session.out, kind, &data)?,
                Chunk::Event(text) => self.session.out.stderr_line(&format!("drover: {text}")),
            }
        }
        Ok(())
    }
}
