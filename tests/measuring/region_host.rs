//! A server as its agent runs it: the brain's thread with a store on a real file, the scheduler's workers on theirs.
//! Refuses to know nodes, jobs, and what is measured.

use ::io::clock;
use ::io::disk::Disk;
use agent::inbox;
use async_channel::{Receiver, Sender};
use model::id::NodeId;
use model::job::JobType;
use model::member::ServerInfo;
use server::effects::{Effect, Input, ScheduleTask};
use server::heartbeat::HeartbeatRules;
use server::reservations::Reservations;
use server::{Config, Server, Turn, worker};
use state::store::{Options, Reader, Recovered, Store, StoreFiles};
use state::wal::WalFile;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use wire::change::Change;
use wire::frame::{self, Body};
use wire::request::{Refusal, WriteReply};
use wire::rpc::{NodeReply, Peer};
use wire::status::ServerStatus;

const SERVER: u64 = 1;
/// More than are ever under way: what the server says is never lost here.
const SAID: usize = 1 << 17;
const LONG_TURN_US: u64 = 20_000;

/// What the server says to the world outside.
pub enum Said {
    Replied(Result<WriteReply, Refusal>),
    ToNode(NodeId, NodeReply),
}

/// What happened so far.
#[derive(Default)]
pub struct Counts {
    pub turns: AtomicU64,
    /// How many workers.
    pub decisions: AtomicU64,
    /// Plans that touch a node.
    pub plans: AtomicU64,
    pub nodes_in_plans: AtomicU64,
    /// Allocations that the state has taken in.
    pub placed: AtomicU64,
    /// The longest turn since somebody looked: on the clock, and on a processor. How many took more than 20 ms of each.
    pub longest_turn_us: AtomicU64,
    pub long_turns: AtomicU64,
    pub longest_work_us: AtomicU64,
    pub long_work: AtomicU64,
}

pub struct Host {
    pub mail: Sender<Input>,
    pub said: Receiver<Said>,
    pub counts: Arc<Counts>,
    pub reader: Reader,
    status: Arc<Mutex<ServerStatus>>,
    threads: Vec<JoinHandle<()>>,
}

/// A store on real files.
fn open(dir: &Path) -> Result<(Store, Recovered), Box<dyn Error>> {
    let state = Disk::open_slots(dir, false)?;
    let pending_create = state[0].pending_create();
    let log =
        [Box::new(state[0].sibling("log.0")?) as WalFile, Box::new(state[0].sibling("log.1")?) as WalFile];
    let free_bytes = Box::new(|| Ok(u64::MAX));
    let memory = rustix::system::sysinfo();
    let options = Options::on_machine(memory.totalram * u64::from(memory.mem_unit), SERVER);
    let opened = Store::open(StoreFiles { state, log, free_bytes }, options)?;
    pending_create.complete()?;
    Ok(opened)
}

/// The same, of a directory that is empty.
pub fn open_store(dir: &Path) -> Result<Store, Box<dyn Error>> {
    std::fs::create_dir(dir)?;
    open(dir).map(|(store, _)| store)
}

impl Host {
    pub fn start(dir: &Path, workers: usize) -> Result<Host, Box<dyn Error>> {
        let (store, recovered) = open(dir)?;
        let config = Config {
            bootstrap_expect: 1,
            knows_others: false,
            info: ServerInfo::default(),
            heartbeats: HeartbeatRules::default(),
            workers,
            enabled_schedulers: JobType::ALL.into(),
            ready_per_worker: 2,
            rows_per_turn: server::ROWS_PER_TURN,
            tracked_versions: 6,
            scheduler: Default::default(),
            garbage: Default::default(),
            zones: |_| None,
        };
        let server = Server::new(config, store, recovered, 7).map_err(|e| e.to_string())?;
        let reader = server.reader();
        let looked_at = reader.clone();

        let (mail, inbox) = async_channel::bounded(inbox::CAPACITY);
        let (to_workers, tasks) = async_channel::bounded(inbox::CAPACITY);
        let (says, said) = async_channel::bounded(SAID);
        let (counts, status) = (Arc::new(Counts::default()), Arc::default());
        let reservations: Arc<Mutex<Reservations>> = Arc::default();
        let mut threads = vec![];
        for _ in 0..workers {
            let (tasks, results, reader, counts) =
                (tasks.clone(), mail.clone(), reader.clone(), counts.clone());
            let reservations = reservations.clone();
            threads.push(thread::spawn(move || work(&tasks, &results, &reservations, &reader, &counts)));
        }
        let (counts_of_brain, status_of_brain) = (counts.clone(), Arc::clone(&status));
        let brain = Brain {
            server,
            reservations,
            to_workers,
            says,
            counts: counts_of_brain,
            status: status_of_brain,
        };
        threads.push(thread::Builder::new().name("brain".into()).spawn(move || brain.run(&inbox))?);
        Ok(Host { mail, said, counts, reader: looked_at, status, threads })
    }

    pub fn status(&self) -> ServerStatus {
        self.status.lock().map(|s| s.clone()).unwrap_or_default()
    }

    /// Ends all threads; the store is closed as on a shutdown.
    pub fn stop(self) {
        self.mail.close();
        for thread in self.threads {
            thread.join().unwrap_or_else(|_| println!("a thread of the server has panicked"));
        }
    }
}

struct Brain {
    server: Server,
    reservations: Arc<Mutex<Reservations>>,
    to_workers: Sender<ScheduleTask>,
    says: Sender<Said>,
    counts: Arc<Counts>,
    status: Arc<Mutex<ServerStatus>>,
}

impl Brain {
    fn run(mut self, inbox: &Receiver<Input>) {
        while let Ok(inputs) = inbox::collect(inbox, self.server.next_deadline()) {
            let (began, worked) = (Instant::now(), worked_us());
            let prepared = self.server.prepare(clock::now(), inputs).expect("the storage has no fault");
            let turn = self.server.commit(prepared).expect("the storage has no fault");
            let took = began.elapsed().as_micros() as u64;
            self.counts.longest_turn_us.fetch_max(took, Relaxed);
            self.counts.long_turns.fetch_add(u64::from(took > LONG_TURN_US), Relaxed);
            let work = worked_us().saturating_sub(worked);
            self.counts.longest_work_us.fetch_max(work, Relaxed);
            self.counts.long_work.fetch_add(u64::from(work > LONG_TURN_US), Relaxed);
            self.execute(turn);
        }
    }

    fn execute(&mut self, turn: Turn) {
        self.reservations.lock().expect("no worker panics").apply(&turn.reservations);
        let created = |c: &&Change| matches!(c, Change::Alloc(alloc) if alloc.for_node);
        self.counts.placed.fetch_add(turn.changes.iter().filter(created).count() as u64, Relaxed);
        self.counts.turns.fetch_add(1, Relaxed);
        *self.status.lock().expect("nobody panics with it") = self.server.status();
        for effect in turn.effects {
            let said = match effect {
                Effect::Schedule(task) => {
                    self.to_workers.try_send(*task).expect("there are as many as workers");
                    continue;
                }
                Effect::Reply { result, .. } => Said::Replied(result),
                Effect::Send { to: Peer::Node(node), bytes } => match frame::decode(&bytes) {
                    Ok(frame::Frame { body: Body::Reply(reply), .. }) => Said::ToNode(node, reply),
                    other => panic!("no answer to a node: {other:?}"),
                },
                // this region signs nothing, and has one server
                Effect::MakeSigningKey | Effect::Send { .. } | Effect::SendSnapshot { .. } => continue,
                Effect::ReadConfirmed { .. } | Effect::Forwarded { .. } | Effect::Serve { .. } => {
                    unreachable!("nobody reads here, and no other server forwards")
                }
            };
            self.says.try_send(said).expect("the world listens");
        }
    }
}

/// How long this thread has been on a processor so far.
fn worked_us() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0) / 1_000
}

fn work(
    tasks: &Receiver<ScheduleTask>,
    results: &Sender<Input>,
    reservations: &Mutex<Reservations>,
    reader: &Reader,
    counts: &Counts,
) {
    while let Ok(task) = tasks.recv_blocking() {
        let lock = || reservations.lock().expect("no worker panics");
        let decision = worker::decide(&task, reader, lock).expect("the storage has no fault");
        counts.decisions.fetch_add(1, Relaxed);
        let touched = decision.plan.nodes.len() as u64;
        counts.plans.fetch_add(u64::from(touched > 0), Relaxed);
        counts.nodes_in_plans.fetch_add(touched, Relaxed);
        let (eval, token) = (task.eval.id, task.token);
        if results.send_blocking(Input::Planned { eval, token, result: Ok(decision) }).is_err() {
            return;
        }
    }
}
