//! `drover alloc logs`.

use crate::cli::Run;
use crate::cli::frames::{self, Chunk, Tail};
use crate::cli::output::{Failure, Outcome, Output};
use crate::cli::session::{Session, path};
use crate::cli::shapes::Alloc;
use argh::{ArgsInfo, FromArgs};
use std::io::Read;
use std::process::ExitCode;
use std::sync::mpsc;

/// Lines that `-tail` shows when nothing else is said.
const TAIL_LINES: i64 = 10;
/// The length of a line that the offset for `-n` reckons with.
const LINE_BYTES: i64 = 120;
/// Chunks of two followed streams that wait to be written.
const MAX_WAITING: usize = 16;

/// print what a task wrote to stdout and stderr
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover alloc logs -f 1a2b3c4d web", example = "drover alloc logs -tail -n 20 -job cache")]
pub struct AllocLogs {
    /// go on as more is written: of both streams, unless one is named
    #[argh(switch, long = "f")]
    follow: bool,
    /// begin near the end
    #[argh(switch)]
    tail: bool,
    /// lines from the end, with -tail
    #[argh(option, long = "n", default = "-1")]
    lines: i64,
    /// bytes from the end, with -tail
    #[argh(option, long = "c", default = "-1")]
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
    /// name the allocation and the task on stderr first
    #[argh(switch)]
    verbose: bool,
    /// an allocation's id or the beginning of one (with -job a job), and a task's name if there are several
    #[argh(positional)]
    target: Vec<String>,
}

impl Run for AllocLogs {
    fn run(self, session: &mut Session) -> Outcome<ExitCode> {
        let (Some(target), true) = (self.target.first(), self.target.len() <= 2) else {
            return Err(Failure::usage(
                "This command takes one or two arguments: <alloc-id> (<job> with -job), <task>",
            ));
        };
        self.check()?;
        let id = if self.job { self.alloc_of_job(session, target)? } else { session.alloc_id(target)? };
        let alloc: Alloc = session.client.get(&path("allocation", &id), &[])?;
        let task = self.task_of(&alloc)?;
        if self.verbose {
            session.out.stderr_line(&format!("==> Allocation {id}, task {task:?}"));
        }
        let request = Request { session, command: &self, alloc: &alloc, task: &task };
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

impl AllocLogs {
    fn check(&self) -> Outcome<()> {
        if self.lines >= 0 && self.bytes >= 0 {
            return Err(Failure::usage("-n and -c exclude each other"));
        }
        if !self.tail && (self.lines >= 0 || self.bytes >= 0) {
            return Err(Failure::usage("-n and -c are of use with -tail only"));
        }
        if self.task.is_some() && self.target.len() > 1 {
            return Err(Failure::usage("the task is named twice: by -task and by an argument"));
        }
        Ok(())
    }

    /// A running one if there is one, or else the newest.
    fn alloc_of_job(&self, session: &Session, prefix: &str) -> Outcome<String> {
        let job = session.job(prefix)?;
        let mut allocs: Vec<Alloc> =
            session.client.get(&format!("{}/allocations", path("job", &job.id)), &[])?;
        allocs.sort_by_key(|a| (a.client_status != "running", std::cmp::Reverse(a.create_index)));
        let first =
            allocs.first().ok_or_else(|| Failure::new(format!("Job {:?} has no allocations", job.id)))?;
        Ok(first.id.clone())
    }

    /// The named one, or the only one.
    fn task_of(&self, alloc: &Alloc) -> Outcome<String> {
        let groups = alloc.job.iter().flat_map(|j| &j.task_groups).filter(|g| g.name == alloc.task_group);
        let mut known: Vec<&str> = groups.flat_map(|g| &g.tasks).map(|t| t.name.as_str()).collect();
        if known.is_empty() {
            known = alloc.task_states.keys().map(String::as_str).collect();
        }
        let list = known.join(", ");
        match (self.task.as_ref().or(self.target.get(1)), &known[..]) {
            (Some(name), _) if known.is_empty() || known.contains(&name.as_str()) => Ok(name.clone()),
            (Some(name), _) => Err(Failure::new(format!("Allocation has no task {name:?}; it has: {list}"))),
            (None, [only]) => Ok(only.to_string()),
            (None, []) => Err(Failure::new("Allocation has no tasks yet")),
            (None, _) => Err(Failure::new(format!("Allocation has several tasks, name one: {list}"))),
        }
    }

    /// Lines to cut to, origin and offset of the first byte asked for.
    fn beginning(&self) -> (Option<usize>, &'static str, i64) {
        if !self.tail {
            return (None, "start", 0);
        }
        if self.bytes >= 0 {
            return (None, "end", self.bytes);
        }
        let lines = if self.lines >= 0 { self.lines } else { TAIL_LINES };
        (usize::try_from(lines).ok(), "end", lines.saturating_mul(LINE_BYTES))
    }
}

struct Request<'a> {
    session: &'a Session,
    command: &'a AllocLogs,
    alloc: &'a Alloc,
    task: &'a str,
}

impl Request<'_> {
    fn open(&self, kind: &str, origin: &str, offset: i64) -> Outcome<impl Read + Send + use<>> {
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
    fn one(&self, kind: &str, to: &str) -> Outcome<()> {
        let (lines, origin, offset) = self.command.beginning();
        let stream = self.open(kind, origin, offset)?;
        // what is followed has no end to count lines from: there the offset must do
        let mut tail = lines.filter(|_| !self.command.follow).map(Tail::new);
        for chunk in frames::chunks(stream) {
            match (chunk.map_err(lost)?, &mut tail) {
                (Chunk::Data(data), Some(tail)) => tail.add(&data),
                (Chunk::Data(data), None) => write(&self.session.out, to, &data)?,
                (Chunk::Event(text), _) => self.session.out.stderr_line(&format!("drover: {text}")),
            }
        }
        match tail {
            Some(tail) => write(&self.session.out, to, tail.bytes()),
            None => Ok(()),
        }
    }

    /// Both streams followed at once, each chunk whole.
    fn both(&self) -> Outcome<()> {
        let (_, origin, offset) = self.command.beginning();
        // without -tail only what comes from now on is wanted (reference: http-api 3.2)
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
            match chunk.map_err(lost)? {
                Chunk::Data(data) => write(&self.session.out, kind, &data)?,
                Chunk::Event(text) => self.session.out.stderr_line(&format!("drover: {text}")),
            }
        }
        Ok(())
    }
}

fn write(out: &Output, to: &str, data: &[u8]) -> Outcome<()> {
    if to == "stderr" { out.stderr_bytes(data) } else { out.bytes(data) }
}

fn lost(e: std::io::Error) -> Failure {
    Failure::new(format!("The log stream broke off: {e}"))
}
