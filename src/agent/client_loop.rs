//! The thread of the client's brain: collects inputs, runs turns, obeys effects through the keeper's link and the
//! directory work. A fault of its storage ends the agent: its supervisor starts it again, and the tasks do not notice.

use super::data_dir::DataDir;
use super::inbox;
use crate::api::agent::ClientReport;
use crate::client::effects::{DirSpec, Effect, Input};
use crate::client::{Client, ClientStatusReport};
use crate::io::clock;
use crate::io::dirs::AllocDirs;
use crate::io::http::Published;
use crate::io::keeper::users;
use crate::io::keeper_link::Notice;
use crate::model::id::AllocId;
use crate::model::time::{Mono, Span};
use crate::wire::keeper::{Command, Event, PROTOCOL};
use crate::wire::rpc::Peer;
use async_channel::{Receiver, Sender, TrySendError};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use super::server_loop;

/// What reaches the client's thread.
pub enum Mail {
    Brain(Input),
    Keeper(Notice),
    /// Answered: the thread is alive.
    Ping(Sender<()>),
}

pub fn frame(from: Peer, bytes: Vec<u8>) -> Mail {
    Mail::Brain(Input::Frame { from, bytes })
}

/// Where the client's effects go.
pub struct Ways {
    pub to_server: Sender<server_loop::Mail>,
    pub keeper: Sender<Command>,
    /// The results of directory work come back this way.
    pub own: Sender<Mail>,
    pub report: Arc<Published<Option<ClientReport>>>,
    pub executor: Arc<smol::Executor<'static>>,
    pub data_dir: PathBuf,
    pub alloc_dir: PathBuf,
}

/// How soon commands that found the keeper's queue full are tried again.
const KEEPER_RETRY: Span = Span::millis(10);

/// Directory entries that one step of a removal takes, and how many steps a removal may take: what is left is removed
/// when it is asked for again.
const REMOVAL_STEP: usize = 10_000;
const REMOVAL_STEPS: usize = 1_000;

pub struct ClientLoop {
    client: Client,
    ways: Ways,
    /// Commands that found the keeper's queue full, in order. Emptied when the connection breaks: the brain compares
    /// anew after each connection.
    backlog: VecDeque<Command>,
    reported: Option<ClientStatusReport>,
}

impl ClientLoop {
    pub fn new(client: Client, ways: Ways) -> ClientLoop {
        ClientLoop { client, ways, backlog: VecDeque::new(), reported: None }
    }

    /// Runs until the brain says that it is done.
    pub fn run(mut self, mail: &Receiver<Mail>) -> Result<(), String> {
        loop {
            let letters =
                inbox::collect(mail, self.deadline()).map_err(|_| "the agent's threads are gone")?;
            let mut inputs = Vec::with_capacity(letters.len());
            for letter in letters {
                match letter {
                    Mail::Brain(input) => inputs.push(input),
                    Mail::Keeper(notice) => self.notice(notice, &mut inputs),
                    Mail::Ping(answer) => answer.try_send(()).unwrap_or_default(),
                }
            }
            self.flush();
            let effects = self.client.turn(clock::now(), inputs).map_err(|fault| fault.to_string())?;
            self.publish();
            for effect in effects {
                if !self.obey(effect) {
                    return Ok(());
                }
            }
        }
    }

    fn deadline(&self) -> Option<Mono> {
        let retry = (!self.backlog.is_empty()).then(|| clock::mono().after(KEEPER_RETRY));
        self.client.next_deadline().into_iter().chain(retry).min()
    }

    fn notice(&mut self, notice: Notice, inputs: &mut Vec<Input>) {
        match notice {
            Notice::Up { boot_id, keeper_pid, runs } => {
                self.backlog.clear();
                inputs.push(Input::KeeperUp);
                inputs.push(Input::Keeper(Event::Welcome { protocol: PROTOCOL, boot_id, keeper_pid, runs }));
            }
            Notice::Event(event) => inputs.push(Input::Keeper(event)),
            Notice::Down { reason } => {
                tracing::warn!(reason, "no keeper: running tasks go on, nothing is started");
                self.backlog.clear();
                inputs.push(Input::KeeperDown { why: reason });
            }
        }
    }

    /// False when nothing more will come.
    fn obey(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Send { bytes, .. } => {
                let from = Peer::Node(self.client.status().node);
                let input = crate::server::effects::Input::Frame { from, bytes };
                inbox::send_or_lose(
                    &self.ways.to_server,
                    "a frame to the server",
                    server_loop::Mail::Brain(input),
                );
            }
            Effect::Keeper(command) => {
                self.backlog.push_back(command);
                self.flush();
            }
            Effect::BuildDir(spec) => self.build_dir(spec),
            Effect::RemoveDir { alloc } => self.remove_dir(alloc),
            Effect::Done => return false,
        }
        true
    }

    fn flush(&mut self) {
        while let Some(command) = self.backlog.pop_front() {
            if let Err(TrySendError::Full(command)) = self.ways.keeper.try_send(command) {
                return self.backlog.push_front(command);
            }
        }
    }

    fn build_dir(&self, spec: DirSpec) {
        let (own, alloc, root) = (self.ways.own.clone(), spec.alloc, self.ways.alloc_dir.clone());
        let data_dir = self.ways.data_dir.clone();
        let work = move || {
            if spec.tasks.iter().any(|t| !t.user.is_empty()) {
                DataDir::let_users_pass(&data_dir).map_err(|e| e.to_string())?;
            }
            let dirs = AllocDirs::open(&root).map_err(|e| format!("{}: {e}", root.display()))?;
            for task in &spec.tasks {
                let user = match task.user.as_str() {
                    "" => None,
                    name => Some(users::find(name)?),
                };
                dirs.build(spec.alloc, &task.name, user.map(|u| (u.uid, u.gid)))?;
            }
            Ok(())
        };
        self.spawn(own, work, move |result| Input::DirBuilt { alloc, result });
    }

    fn remove_dir(&self, alloc: AllocId) {
        let (own, root) = (self.ways.own.clone(), self.ways.alloc_dir.clone());
        let work = move || {
            let named = |e: std::io::Error| format!("{}: {e}", root.display());
            let dirs = AllocDirs::open(&root).map_err(named)?;
            for _ in 0..REMOVAL_STEPS {
                if dirs.remove(alloc, REMOVAL_STEP).map_err(named)? {
                    return Ok(());
                }
            }
            Err(format!("{}: too many files to be removed at once", root.display()))
        };
        self.spawn(own, work, move |result| Input::DirRemoved { alloc, result });
    }

    fn spawn(
        &self,
        own: Sender<Mail>,
        work: impl FnOnce() -> Result<(), String> + Send + 'static,
        done: impl FnOnce(Result<(), String>) -> Input + Send + 'static,
    ) {
        let task = async move {
            let result = smol::unblock(work).await;
            // the brain is gone when the agent ends: nobody is left to be told
            own.send(Mail::Brain(done(result))).await.unwrap_or_default();
        };
        self.ways.executor.spawn(task).detach();
    }

    fn publish(&mut self) {
        let status = self.client.status();
        if self.reported.as_ref() == Some(&status) {
            return;
        }
        self.ways.report.set(Some(ClientReport {
            node_id: status.node,
            known_servers: status.servers.iter().map(|id| format!("server {id}")).collect(),
            allocations: status.allocs as u64,
            since_heartbeat: status.last_heartbeat.map(|at| clock::mono().since(at)),
            heartbeat_ttl: Span::ZERO,
        }));
        self.reported = Some(status);
    }
}
