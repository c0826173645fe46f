//! `drover alloc exec`: a command beside a task, with our own input and output (cli.md 2.2.1, http-api.md 3.1). And our side
//! of such a session, whatever began it.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::http::AgentSocket;
use crate::output::Printer;
use crate::render::terminal;
use crate::render::terminal::{Escape, Raw};
use crate::session::{Session, path};
use crate::shapes::Alloc;
use argh::{ArgsInfo, FromArgs};
use async_channel::{Receiver, Sender};
use async_tungstenite::tungstenite::Message;
use async_tungstenite::{WebSocketReceiver, WebSocketSender, WebSocketStream};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use smol::future::or;
use smol::io::AsyncReadExt;
use smol::stream::StreamExt;
use smol::{Timer, Unblock};
use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;
use std::time::Duration;

/// The interval of heartbeats to the agent.
const HEARTBEAT: Duration = Duration::from_secs(10);
const CHUNK_BYTES: usize = 16 << 10;
/// Messages that wait to be sent.
const QUEUED: usize = 8;

/// run a command beside a task: with its environment, in its directory, as its user. The exit code is the command's
#[derive(FromArgs, ArgsInfo)]
#[argh(
    example = "drover alloc exec -task web 1a2b3c4d /bin/sh",
    example = "drover alloc exec -job cache env"
)]
pub struct AllocExecCommand {
    /// pass standard input on (the default)
    #[argh(option, long = "i", arg_name = "bool", default = "true")]
    interactive: bool,
    /// allocate a terminal (the default if standard input is one)
    #[argh(option, long = "t", arg_name = "bool")]
    tty: Option<bool>,
    /// the task's name
    #[argh(option)]
    task: Option<String>,
    /// the argument is a job: take one of its allocations
    #[argh(switch)]
    job: bool,
    /// the character that, typed with a dot at the beginning of a line, leaves; none to have no way out (~)
    #[argh(option, long = "e", default = "String::from(\"~\")")]
    escape: String,
    /// an allocation's id or the beginning of one (with -job a job), a command and its arguments
    #[argh(positional)]
    words: Vec<String>,
}

impl CliCommand for AllocExecCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let Some((target, command)) = self.words.split_first().filter(|(_, command)| !command.is_empty())
        else {
            return Err(CommandError::usage(
                "This command takes two arguments at least: <alloc-id> (<job> with -job), <command>",
            ));
        };
        let manner = ExecOptions::new(self.interactive, self.tty, &self.escape)?;
        let id = session.alloc_or_of_job(target, self.job)?;
        let alloc: Alloc = session.client.get(&path("allocation", &id), &[])?;
        let task = alloc.task_named(self.task.as_ref())?;
        let command = json!(command).to_string();
        let way = format!("{}/exec", path("client/allocation", &id));
        manner.run_session(session, &way, vec![("task", &task), ("command", &command)])
    }
}

/// How a session is to be.
pub struct ExecOptions {
    interactive: bool,
    tty: bool,
    escape: Option<u8>,
}

impl ExecOptions {
    /// `tty`: `None` is with a terminal if ours is one. `escape`: as typed.
    pub fn new(interactive: bool, tty: Option<bool>, escape: &str) -> CommandResult<ExecOptions> {
        let escape = match escape.as_bytes() {
            [] => None,
            _ if escape == "none" => None,
            [one] => Some(*one),
            _ => return Err(CommandError::usage("-e takes one character, or none")),
        };
        if tty == Some(true) && !interactive {
            return Err(CommandError::usage("-i must be enabled if running with tty"));
        }
        let tty = tty.unwrap_or(interactive && stdin().is_terminal() && stdout().is_terminal());
        Ok(ExecOptions { interactive, tty, escape })
    }

    /// Runs until the command ends, and exits with its code.
    pub fn run_session(
        self,
        session: &Session,
        way: &str,
        mut query: Vec<(&str, &str)>,
    ) -> CommandResult<ExitCode> {
        query.push(("tty", if self.tty { "true" } else { "false" }));
        let socket = session.client.websocket(way, &query)?;
        let code = smol::block_on(Ends { manner: self, out: &session.out }.run_session(socket))?;
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
    }
}

/// Our side of the session.
struct Ends<'a> {
    manner: ExecOptions,
    out: &'a Printer,
}

impl Ends<'_> {
    /// The command's exit code.
    async fn run_session(&self, socket: WebSocketStream<AgentSocket>) -> CommandResult<i32> {
        let (mut to, mut from) = socket.split();
        let _raw = if self.manner.tty && stdin().is_terminal() { Some(Raw::new()?) } else { None };
        let (queue, queued) = async_channel::bounded(QUEUED);
        let ours = or(
            send_all(&mut to, &queued),
            or(self.listen(&queue), or(send_heartbeats(&queue), resize(self.manner.tty, &queue))),
        );
        or(self.print_output(&mut from), ours).await
    }

    /// Ends with the escape sequence.
    async fn listen(&self, queue: &Sender<String>) -> CommandResult<i32> {
        let mut escape = Escape::new(self.manner.escape.filter(|_| self.manner.tty));
        let mut input = Unblock::new(stdin());
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut open = self.manner.interactive;
        while open {
            let n = input.read(&mut chunk).await?;
            open = n > 0;
            let typed = escape.take(&chunk[..n]);
            if !typed.bytes.is_empty() {
                send(queue, json!({"stdin": {"data": STANDARD.encode(&typed.bytes)}})).await;
            }
            if typed.out {
                return Err(CommandError::new("The session was left"));
            }
        }
        send(queue, json!({"stdin": {"close": true}})).await;
        std::future::pending().await
    }

    /// Until the command has ended.
    async fn print_output(&self, from: &mut WebSocketReceiver<AgentSocket>) -> CommandResult<i32> {
        loop {
            let text = match from.next().await {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Close(Some(frame)))) if !frame.reason.is_empty() => {
                    return Err(CommandError::new(frame.reason.to_string()));
                }
                Some(Ok(Message::Close(_))) | None => {
                    return Err(CommandError::new("The session ended before its command did"));
                }
                Some(Ok(_)) => continue,
                Some(Err(e)) => return Err(CommandError::new(format!("The session broke off: {e}"))),
            };
            let told: SessionMessage = serde_json::from_str(&text)
                .map_err(|e| CommandError::new(format!("The agent says what no session says: {e}")))?;
            if let Some(bytes) = told.stdout {
                self.out.bytes(&bytes.decoded()?)?;
            }
            if let Some(bytes) = told.stderr {
                self.out.stderr_bytes(&bytes.decoded()?)?;
            }
            if told.exited {
                return Ok(told.result.exit_code);
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SessionMessage {
    stdout: Option<Data>,
    stderr: Option<Data>,
    exited: bool,
    result: Exit,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    data: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Exit {
    exit_code: i32,
}

impl Data {
    fn decoded(&self) -> CommandResult<Vec<u8>> {
        STANDARD
            .decode(&self.data)
            .map_err(|e| CommandError::new(format!("The session's output is no base64: {e}")))
    }
}

async fn send(queue: &Sender<String>, what: serde_json::Value) {
    // nobody sends any more when the session is over
    let _over = queue.send(what.to_string()).await;
}

async fn send_all(to: &mut WebSocketSender<AgentSocket>, queued: &Receiver<String>) -> CommandResult<i32> {
    while let Ok(text) = queued.recv().await {
        if to.send(Message::text(text)).await.is_err() {
            break;
        }
    }
    // what comes from the other side says why
    std::future::pending().await
}

async fn send_heartbeats(queue: &Sender<String>) -> CommandResult<i32> {
    loop {
        Timer::after(HEARTBEAT).await;
        send(queue, json!({})).await;
    }
}

async fn resize(tty: bool, queue: &Sender<String>) -> CommandResult<i32> {
    if !tty {
        return std::future::pending().await;
    }
    let mut changes = async_signal::Signals::new([async_signal::Signal::Winch])?;
    loop {
        if let Some((height, width)) = terminal::size() {
            send(queue, json!({"tty_size": {"height": height, "width": width}})).await;
        }
        changes.next().await;
    }
}
