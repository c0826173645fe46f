//! The server over real sockets on this machine: limits, waits, writes and streams.

mod encoding;
mod event_streams;
mod protocol;
mod reads;

use super::blocking_queries::BlockingQueries;
use super::server_call::{NotSent, ServerCall};
use super::*;
use ::io::client_rpc::GrantRequest;
use ::io::http::{self, GRACE, HEAD_TIMEOUT, HttpLimits, HttpSettings};
use api::agent::{AgentInfo, ClientReport};
use api::request::MAX_BODY_BYTES;
use async_channel::TrySendError;
use client::effects::RequestOutcome;
use model::alloc::ClientStatus;
use model::id::{EvalId, JobKey};
use model::time::{Mono, Span};
use smol::net::TcpListener;
use state::samples::{AT, Region, alloc, alloc_id, eval, eval_id, node_id, place, register, report, spec};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as Socket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use wire::change::Change;
use wire::command::Command;
use wire::job_plan::JobPlanReply;
use wire::metrics::MetricsSnapshot;
use wire::request::{Refusal, RefusalKind};
use wire::request::{WriteReply, WriteRequest};
use wire::status::ServerStatus;

/// A server on a port of its own, and what its service is connected to.
struct Server {
    address: SocketAddr,
    service: Arc<HttpService>,
    region: Region,
    asks: Receiver<ServerCall>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    alloc_dir: PathBuf,
    /// What is asked of the node's brain.
    questions: Receiver<GrantRequest>,
}

fn queue(calls: Sender<ServerCall>) -> CallQueue<ServerCall> {
    Box::new(move |call| {
        calls.try_send(call).map_err(|e| match e {
            TrySendError::Full(_) => NotSent::Full,
            TrySendError::Closed(_) => NotSent::Closed,
        })
    })
}

impl Server {
    fn start(name: &str, limits: HttpLimits) -> Server {
        let region = Region::default();
        let executor = Arc::new(smol::Executor::new());
        let (calls_of_server, asks) = async_channel::bounded(1);
        let (calls, to_answer) = async_channel::bounded(1);
        let (brain, questions) = async_channel::bounded(1);
        let alloc_dir = std::env::temp_dir().join(format!("drover-http-{}-{name}", std::process::id()));
        let began = Instant::now();
        let client = ClientReport {
            node_id: node_id(1),
            known_servers: vec![],
            allocs: vec![],
            since_heartbeat: None,
            heartbeat_ttl: Span::ZERO,
            measured: MetricsSnapshot::default(),
        };
        let status = ServerStatus { id: 1, leader: Some(1), ready: true, ..ServerStatus::default() };
        let agent = AgentInfo {
            region: "global".into(),
            server: true,
            job_max_priority: 100,
            ..AgentInfo::default()
        };
        let service = Arc::new(HttpService::new(HttpServiceParts {
            executor: executor.clone(),
            plan_job: Arc::new(|_, _| Ok(JobPlanReply::default())),
            explain: Arc::new(|_, _| Err(Refusal::new(RefusalKind::NotFound, "job not found"))),
            agent,
            status: Arc::new(Published::new(status)),
            client: Arc::new(Published::new(Some(client))),
            server: Some(ServerAccess { reader: region.store.reader(), calls: queue(calls_of_server) }),
            node: Some(NodeAccess { questions: calls, forwards: Box::new(|_| Err(NotSent::Closed)) }),
            clock: Box::new(move || Mono(began.elapsed().as_nanos() as u64)),
            seed: 1,
            event_buffer_entries: 4,
            monitor: Arc::default(),
            machine: Arc::new(HostStatsCollector::new(alloc_dir.clone())),
        }));
        let settings = Arc::new(HttpSettings {
            response_headers: Published::new(vec![
                ("X-Extra".into(), "yes".into()),
                ("bad\n".into(), "left out".into()),
            ]),
            limits: Published::new(limits),
            https: None,
        });
        let (stop, stopped) = async_channel::bounded(1);
        let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let served = service.clone();
        let places = client_rpc::NodeDirs { data_dir: alloc_dir.clone(), alloc_dir: alloc_dir.clone() };
        let thread = std::thread::spawn(move || {
            executor.spawn(client_rpc::serve(executor.clone(), to_answer, brain, places)).detach();
            smol::block_on(executor.run(http::serve(executor.clone(), listener, served, settings, stopped)));
        });
        Server {
            address,
            service,
            region,
            asks,
            stop: Some(stop),
            thread: Some(thread),
            alloc_dir,
            questions,
        }
    }

    /// One request on a connection of its own: the whole answer.
    fn ask(&self, request: &str) -> String {
        let mut socket = self.send(request);
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    fn send(&self, request: &str) -> Socket {
        let mut socket = Socket::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        socket
    }

    fn get(&self, target: &str) -> String {
        self.ask(&get(target))
    }

    /// Runs a command and tells the blocked queries.
    fn run(&mut self, command: &Command) {
        let outcome = self.region.run(command);
        outcome.reply.unwrap();
        self.service.blocking_queries.notify(outcome.index, &outcome.changes);
        self.service.events.publish(outcome.events.into_iter().collect());
    }

    /// Job `web` with allocation 1, whose task runs on this node.
    fn place_web(&mut self) {
        self.region.ready_node(1);
        self.run(&register(spec("web", 1), Some(eval(1, "web"))));
        let job = self.region.job("web");
        let nodes = place(vec![alloc(1, &job, node_id(1), eval_id(1))]);
        self.run(&Command::ApplyPlan {
            eval: eval_id(1),
            nodes,
            deployment: None,
            updates: vec![],
            evals: vec![],
            at: AT,
        });
        self.report(ClientStatus::Running);
    }

    fn report(&mut self, client: ClientStatus) {
        let mut update = report(1, client);
        for state in update.task_states.values_mut() {
            state.started_at = AT;
        }
        self.run(&Command::UpdateAllocs {
            seen: u64::MAX,
            node: node_id(1),
            updates: vec![update],
            verdicts: vec![],
            evals: vec![],
            at: AT,
        });
    }

    /// Answers as the node's brain does, as often as it is asked, while `act` goes on.
    fn granting<T>(&self, over: &AtomicBool, act: impl FnOnce() -> T) -> T {
        let answer = async {
            while let Ok(question) = self.questions.recv().await {
                let grant = RequestOutcome::Files { ended: over.load(Ordering::Relaxed) };
                let _ = question.reply.send(Ok(grant)).await;
            }
        };
        std::thread::scope(|scope| {
            let (done, is_done) = async_channel::bounded::<()>(1);
            scope.spawn(move || {
                smol::block_on(or(answer, async {
                    let _ = is_done.recv().await;
                }))
            });
            let result = act();
            drop(done);
            result
        })
    }

    fn logs(&self) -> PathBuf {
        let logs = self.alloc_dir.join(alloc_id(1).to_string()).join("alloc/logs");
        fs::create_dir_all(&logs).unwrap();
        logs
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        let ended = self.thread.take().map(JoinHandle::join);
        let _ = fs::remove_dir_all(&self.alloc_dir);
        assert!(matches!(ended, Some(Ok(()))), "the server's thread ended well");
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

fn put(target: &str, body: &str) -> String {
    format!(
        "PUT {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// Reads until the answer so far ends as `done` says.
fn read_until(socket: &mut Socket, done: impl Fn(&str) -> bool) -> String {
    let mut answer = String::new();
    let mut buffer = [0; 4096];
    while !done(&answer) {
        match socket.read(&mut buffer).unwrap() {
            0 => break,
            n => answer.push_str(&String::from_utf8_lossy(&buffer[..n])),
        }
    }
    answer
}

#[test]
fn requests_are_answered_with_the_agents_headers() {
    let mut server = Server::start("plain", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let answer = server.get("/v1/jobs?pretty");
    assert_eq!(status(&answer), "200");
    for part in ["X-Extra: yes", "X-Nomad-Index: 1", "Content-Type: application/json", "\"ID\": \"web\""] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
    assert_eq!(status(&server.get("/v1/nosuch")), "404");
    assert_eq!(status(&server.get("/v1/quotas")), "501");
    assert_eq!(status(&server.ask("BREW / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")), "404");
}

#[test]
fn long_bodies_and_heads_are_refused() {
    let server = Server::start("long", HttpLimits::default());
    let sent = server.ask(&put("/v1/jobs", &"a".repeat(MAX_BODY_BYTES + 1)));
    assert_eq!(status(&sent), "413", "told after it was sent");
    let announced = format!(
        "PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        MAX_BODY_BYTES + 1
    );
    let answer = server.ask(&announced);
    assert_eq!(status(&answer), "413", "{answer}");
    assert!(answer.contains("longer than 4194304 bytes"), "{answer}");
    let head = format!("GET /v1/jobs HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "a".repeat(64 << 10));
    assert_eq!(status(&server.ask(&head)), "431");
    let many: String = (0..200).map(|n| format!("X-{n}: a\r\n")).collect();
    assert_eq!(status(&server.ask(&format!("GET /v1/jobs HTTP/1.1\r\n{many}\r\n"))), "431");
}

#[test]
fn a_body_without_a_length_is_cut_off_at_the_limit() {
    let server = Server::start("chunked", HttpLimits::default());
    let mut socket = server.send("PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
    for _ in 0..=MAX_BODY_BYTES / 0x10000 {
        socket.write_all(chunk.as_bytes()).unwrap();
    }
    socket.write_all(b"0\r\n\r\n").unwrap();
    let answer = read_until(&mut socket, |a| a.contains("longer than"));
    assert_eq!(status(&answer), "413");
}

#[test]
fn connections_are_bounded() {
    let server = Server::start("bounded", HttpLimits { connections: 1, per_address: 0 });
    let mut first = server.send("GET /v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n");
    let answered = read_until(&mut first, |a| a.ends_with("[]"));
    assert_eq!(status(&answered), "200");
    let second = server.ask(&get("/v1/jobs"));
    assert_eq!(status(&second), "429");
    assert!(
        second
            .ends_with("Your IP is issuing too many concurrent connections, please rate limit your calls\n")
    );
}

#[test]
fn a_slow_head_is_not_waited_for() {
    let server = Server::start("slow", HttpLimits::default());
    let began = Instant::now();
    let mut socket = server.send("GET /v1/jobs HTTP/1.1\r\nHost:");
    let mut rest = Vec::new();
    // Closed, with or without an answer.
    let _ = socket.read_to_end(&mut rest);
    assert!(began.elapsed() < HEAD_TIMEOUT * 2, "{:?}", began.elapsed());
}

#[test]
fn a_blocking_query_is_woken_by_its_change_only() {
    let mut server = Server::start("blocking", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let mut socket = server.send(&get("/v1/job/web?index=1&wait=60s"));
    let began = Instant::now();
    // Notices for other objects must not wake it; the one for its own must.
    while server.service.blocking_queries.blocked() == 0 {
        std::thread::yield_now();
    }
    server.run(&register(spec("other", 1), None));
    assert_eq!(server.service.blocking_queries.blocked(), 1);
    let mut changed = spec("web", 1);
    changed.priority = 60;
    server.run(&register(changed, None));
    let answer = read_until(&mut socket, |_| false);
    assert_eq!(status(&answer), "200");
    assert!(answer.contains("X-Nomad-Index: 3") && answer.contains("\"Priority\":60"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(server.service.blocking_queries.blocked(), 0);
}

#[test]
fn a_caller_that_leaves_frees_its_place() {
    let mut server = Server::start("leaving", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let socket = server.send(&get("/v1/jobs?index=1"));
    while server.service.blocking_queries.blocked() == 0 {
        std::thread::yield_now();
    }
    drop(socket);
    let began = Instant::now();
    while server.service.blocking_queries.blocked() > 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "it still sleeps");
        std::thread::yield_now();
    }
}

const JOB: &str = r#"{"Job":{"ID":"a","Name":"a","Type":"batch","TaskGroups":[{"Name":"g","Tasks":[
    {"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"}}]}]}}"#;

#[test]
fn writes_go_to_the_servers_and_come_back() {
    let server = Server::start("writes", HttpLimits::default());
    let mut socket = server.send(&put("/v1/jobs", JOB));
    let ServerCall::Write(action, reply) = smol::block_on(server.asks.recv()).unwrap() else {
        panic!("no write");
    };
    assert!(matches!(action, WriteRequest::RegisterJob { .. }));
    reply.send(Ok(WriteReply::Job { eval: Some(EvalId::default()), job_modify_index: 3, index: 4 }));
    let answer = read_until(&mut socket, |_| false);
    assert!(answer.contains("\"JobModifyIndex\":3") && answer.contains("X-Nomad-Index: 4"), "{answer}");
}

#[test]
fn a_full_queue_and_a_dropped_call_are_answered() {
    let server = Server::start("full", HttpLimits::default());
    let mut first = server.send(&put("/v1/jobs", JOB));
    while server.asks.is_empty() {
        std::thread::yield_now();
    }
    let second = server.ask(&put("/v1/jobs", JOB));
    assert_eq!(status(&second), "429", "{second}");
    assert!(second.contains("Retry-After: 1"), "{second}");
    drop(smol::block_on(server.asks.recv()).unwrap());
    let given_up = read_until(&mut first, |_| false);
    assert_eq!(status(&given_up), "500");
    assert!(given_up.contains("may still have happened"), "{given_up}");
    server.asks.close();
    assert!(server.ask(&put("/v1/jobs", JOB)).contains("this agent is stopping"));
}

#[test]
fn logs_come_as_bytes_or_frames() {
    let mut server = Server::start("logs", HttpLimits::default());
    server.place_web();
    server.granting(&AtomicBool::new(true), || logs_in_both_forms(&server));
}

fn logs_in_both_forms(server: &Server) {
    let id = alloc_id(1);
    let target = format!("/v1/client/fs/logs/{id}?task=t&type=stdout");
    let missing = server.get(&target);
    assert_eq!(status(&missing), "404");
    assert!(missing.ends_with(&format!("state for allocation {id} not found on client")), "{missing}");
    let logs = server.logs();
    fs::write(logs.join("t.stdout.0"), "one\n").unwrap();
    fs::write(logs.join("t.stdout.1"), "two\n").unwrap();
    let plain = server.get(&format!("{target}&plain=true"));
    assert!(plain.contains("text/plain") && plain.contains("one\n") && plain.contains("two\n"), "{plain}");
    let frames = server.get(&target);
    assert!(frames.contains(r#"{"Offset":4,"Data":"b25lCg==","File":"alloc/logs/t.stdout.0"}"#), "{frames}");
    let tail = server.get(&format!("{target}&origin=end&offset=6&plain=true"));
    assert!(!tail.contains("one") && tail.contains("e\n") && tail.contains("two\n"), "{tail}");
    let empty = server.get(&target.replace("stdout", "stderr"));
    assert_eq!(status(&empty), "200");
}

#[test]
fn logs_are_followed_until_the_allocation_has_ended() {
    let mut server = Server::start("follow", HttpLimits::default());
    server.place_web();
    let over = AtomicBool::new(false);
    server.granting(&over, || follow_to_the_end(&server, &over));
}

fn follow_to_the_end(server: &Server, over: &AtomicBool) {
    let log = server.logs().join("t.stdout.0");
    fs::write(&log, "one\n").unwrap();
    let target = format!("/v1/client/fs/logs/{}?task=t&type=stdout&follow=true", alloc_id(1));
    let mut socket = server.send(&get(&target));
    let first = read_until(&mut socket, |a| a.contains("b25lCg=="));
    assert_eq!(status(&first), "200");
    let beat = read_until(&mut socket, |a| a.contains("{}"));
    assert!(beat.contains("{}"), "a heartbeat comes");
    fs::write(&log, "one\ntwo\n").unwrap();
    let second = read_until(&mut socket, |a| a.contains("dHdvCg=="));
    assert!(second.contains(r#""Offset":8"#), "{second}");
    over.store(true, Ordering::Relaxed);
    let end = read_until(&mut socket, |_| false);
    assert!(end.ends_with("0\r\n\r\n"), "the stream ends: {end}");
}

#[test]
fn a_stop_ends_idle_connections_and_sleeping_queries() {
    let mut server = Server::start("stop", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let mut blocked = server.send(&get("/v1/jobs?index=1&wait=60s"));
    while server.service.blocking_queries.blocked() == 0 {
        std::thread::yield_now();
    }
    let began = Instant::now();
    drop(server);
    assert!(began.elapsed() < GRACE * 3, "{:?}", began.elapsed());
    let mut rest = Vec::new();
    let _ = blocked.read_to_end(&mut rest);
    assert!(rest.is_empty(), "no answer was made up");
}

/// What is woken by which change: the keys come from `api`, so one example is enough.
#[test]
fn notices_carry_their_keys() {
    let waiting = BlockingQueries::default();
    let key = JobKey::new("default", "a");
    let query = waiting.register(vec![api::watch::WatchKey::Job(key.clone())], 1).ok().unwrap();
    waiting.notify(2, &[Change::Job { job: JobKey::new("default", "b") }]);
    assert_eq!(waiting.blocked(), 1);
    waiting.notify(3, &[Change::Job { job: key }]);
    smol::block_on(query.wait());
    assert_eq!(waiting.blocked(), 0);
}

/// Nobody can say what a snapshot has changed: queries read again, and streams end with a sentence.
#[test]
fn a_restored_snapshot_wakes_queries_and_ends_streams() {
    let waiting = BlockingQueries::default();
    let query = waiting.register(vec![api::watch::WatchKey::Jobs], 1).ok().unwrap();
    waiting.restored(40);
    smol::block_on(query.wait());
    assert_eq!(waiting.blocked(), 0);
    let server = Server::start("restored", HttpLimits::default());
    let mut stream = server.send(&get("/v1/event/stream"));
    let mut read_until = |wanted: &str| {
        let (mut said, mut bytes) = (String::new(), [0; 4096]);
        while !said.contains(wanted) {
            let length = stream.read(&mut bytes).unwrap();
            assert!(length > 0, "it ended with {said:?}");
            said.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    };
    read_until("{}");
    server.service.events.restored();
    read_until("replaced by a snapshot");
}
