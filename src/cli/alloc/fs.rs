//! `drover alloc fs`: lists an allocation's directory, or prints a file in it (cli.md 2.2.1, 3.7).

use crate::CliCommand;
use crate::alloc::tail::TailOptions;
use crate::error::{CommandError, CommandResult};
use crate::numbers;
use crate::render::layout;
use crate::session::{Session, path};
use crate::shapes::File;
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// list a directory of an allocation, or print a file
#[derive(FromArgs, ArgsInfo)]
#[argh(
    example = "drover alloc fs 1a2b3c4d alloc/logs",
    example = "drover alloc fs -tail -n 20 -f 1a2b3c4d web/local/app.log"
)]
pub struct AllocFsCommand {
    /// sizes in bytes; -H is short for it
    #[argh(switch)]
    machine: bool,
    /// ids in full
    #[argh(switch)]
    verbose: bool,
    /// the argument is a job: take one of its allocations
    #[argh(switch)]
    job: bool,
    /// describe the file or directory itself
    #[argh(switch)]
    stat: bool,
    /// follow the file as it grows
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
    /// an allocation's id or the beginning of one (with -job a job), and a path in its directory
    #[argh(positional)]
    target: Vec<String>,
}

impl CliCommand for AllocFsCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let (target, path_there) = match &self.target[..] {
            [target] => (target, "/"),
            [target, path] => (target, path.as_str()),
            _ => {
                return Err(CommandError::usage(
                    "This command takes one or two arguments: <alloc-id> (<job> with -job), <path>",
                ));
            }
        };
        let tail_options =
            TailOptions { tail: self.tail, follow: self.follow, lines: self.lines, bytes: self.bytes };
        tail_options.check()?;
        let id = session.alloc_or_of_job(target, self.job)?;
        if self.verbose {
            session.out.stderr_line(&format!("==> Allocation {id}"));
        }
        let query = [("path", path_there)];
        let file: File = session.client.get(&path("client/fs/stat", &id), &query)?;
        if self.stat {
            session.out.text(&self.table(&[file], true, session))?;
        } else if file.is_dir {
            let files: Vec<File> = session.client.get(&path("client/fs/ls", &id), &query)?;
            session.out.text(&self.table(&files, false, session))?;
        } else {
            self.print(session, &tail_options, &id, path_there)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl AllocFsCommand {
    fn print(
        &self,
        session: &Session,
        tail_options: &TailOptions,
        id: &str,
        path_there: &str,
    ) -> CommandResult<()> {
        let (_, origin, offset) = tail_options.beginning();
        let offset = offset.to_string();
        let follow = if self.follow { "true" } else { "false" };
        let query = [("path", path_there), ("follow", follow), ("origin", origin), ("offset", &offset)];
        let stream = session.client.stream(&path("client/fs/stream", id), &query)?;
        tail_options.copy(&session.out, "stdout", stream)
    }

    fn table(&self, files: &[File], with_type: bool, session: &Session) -> String {
        let size = |file: &File| if self.machine { file.size.to_string() } else { layout::size(file.size) };
        let row = |file: &File| {
            let modified = session.time(layout::unix_nanos(&file.mod_time));
            let name = if file.is_dir { format!("{}/", file.name) } else { file.name.clone() };
            let mut row = vec![file.file_mode.clone(), size(file), modified, name];
            if with_type {
                row.insert(3, file.content_type.clone());
            }
            row
        };
        let mut header = vec!["Mode", "Size", "Modified Time", "Name"];
        if with_type {
            header.insert(3, "Content Type");
        }
        layout::table(&header, &files.iter().map(row).collect::<Vec<_>>())
    }
}
