//! The figures of those who look: lists and objects, queries and streams that are held open, and a store opened again.

use crate::agent::{Agent, job, rest, until};
use crate::crowd::{Crowd, percentile};
use crate::kernel::pss_kib;
use crate::table::{Table, Target};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long each is asked for.
const LOAD: Duration = Duration::from_secs(2);
/// Jobs in the list that is read.
const JOBS: usize = 1_000;
/// Queries, and followers of events, that are held open together.
const HELD: usize = 1_000;
/// Jobs in the store that is opened again.
const STORED: usize = 10_000;
/// Changes that everybody who follows is told of.
const CHANGES: usize = 10;
/// What one reader who does not read leaves lying.
const UNREAD: usize = 300;

fn name(n: usize) -> String {
    format!("job-{n}")
}

/// Jobs that place nothing.
fn register(crowd: &mut Crowd, count: usize) -> Result<(), String> {
    let mut next = 0;
    while next < count {
        let mut asked = 0;
        crowd.each(|_, http| {
            if next < count {
                http.send("PUT", "/v1/jobs", &job(&name(next), "service", 0, "/bin/sleep", &["1000"]))?;
                (next, asked) = (next + 1, asked + 1);
            }
            Ok(())
        })?;
        for n in 0..asked {
            crowd.one(n).take_answer()?.json()?;
        }
    }
    Ok(())
}

pub fn reads(binary: &Path, table: &mut Table) -> Result<(), String> {
    let agent = Agent::start(binary, "reads")?;
    agent.ready()?;
    register(&mut Crowd::connect(&agent, 16)?, JOBS)?;
    rest(&mut agent.http()?, "1s")?;
    let is_fine = |_, answer: crate::http::Answer| match (answer.status, answer.body.len()) {
        (200, 100..) => Ok(()),
        (status, length) => Err(format!("HTTP status {status} with {length} bytes")),
    };
    let mut one = Crowd::connect(&agent, 1)?;
    let took = one.ask_for(LOAD, |_, http| http.send("GET", "/v1/jobs", b""), is_fine)?;
    let rate = |took: &[Duration]| took.len() as f64 / LOAD.as_secs_f64();
    table.add("GET /v1/jobs of 1,000 jobs", "1/s", Target::AtLeast(300.0), rate(&took));
    for (figure, clients, target) in [
        ("GET /v1/job/:id, 1 client", 1, Target::None),
        ("GET /v1/job/:id, 8 clients", 8, Target::AtLeast(10_000.0)),
    ] {
        let mut number = 0;
        let mut crowd = Crowd::connect(&agent, clients)?;
        let ask = |_: usize, http: &mut crate::http::Http| {
            number = (number + 7) % JOBS;
            http.send("GET", &format!("/v1/job/{}", name(number)), b"")
        };
        let took = crowd.ask_for(LOAD, ask, is_fine)?;
        table.add(figure, "1/s", target, rate(&took));
    }
    held(&agent, table)?;
    followed(&agent, table)
}

/// Queries that wait for one job each. A change of one of these jobs wakes one of them.
fn held(agent: &Agent, table: &mut Table) -> Result<(), String> {
    rest(&mut agent.http()?, "1s")?;
    let index = agent.http()?.get("/v1/jobs")?.index;
    let before = pss_kib(agent.pid())?;
    let query = |n: usize| format!("/v1/job/{}?index={index}&wait=120s", name(n));
    let mut crowd = Crowd::asking(agent, HELD, query)?;
    rest(&mut agent.http()?, "2s")?;
    let early = crowd.readable(Duration::ZERO)?.len();
    if early > 0 {
        return Err(format!("{early} blocking queries were answered before anything changed"));
    }
    let each = (pss_kib(agent.pid())? - before) / HELD as f64;
    table.add("per blocking query held open, PSS", "KiB", Target::AtMost(16.0), each);
    let changed = job(&name(HELD / 2), "service", 0, "/bin/sleep", &["1"]);
    let start = Instant::now();
    agent.http()?.put("/v1/jobs", &changed)?.json()?;
    let woken = crowd.readable(Duration::from_secs(5))?;
    table.add(
        "  a change is told to who waits after",
        "ms",
        Target::None,
        start.elapsed().as_secs_f64() * 1e3,
    );
    rest(&mut agent.http()?, "1s")?;
    let all = crowd.readable(Duration::ZERO)?;
    if woken != [HELD / 2] || all != woken {
        return Err(format!("one change woke {} queries instead of the one it concerns", all.len()));
    }
    crowd.one(HELD / 2).take_answer()?.json()?;
    crowd.leave()
}

/// Followers of one job each hears of; one of them follows everything and does not read.
fn followed(agent: &Agent, table: &mut Table) -> Result<(), String> {
    rest(&mut agent.http()?, "1s")?;
    let before = pss_kib(agent.pid())?;
    let topic = |n: usize| if n == 0 { "*" } else { "Job:job-1" };
    let mut crowd = Crowd::asking(agent, HELD, |n| format!("/v1/event/stream?topic={}", topic(n)))?;
    // the first line of each says that it follows
    crowd.each(|_, http| http.take_head().and_then(|()| http.take_piece()).map(|_| ()))?;
    let each = (pss_kib(agent.pid())? - before) / HELD as f64;
    table.add("per follower of events, PSS", "KiB", Target::None, each);
    let http = &mut agent.http()?;
    let start = Instant::now();
    for n in 0..UNREAD {
        let large = job(&format!("large-{n}"), "service", 0, &"x".repeat(60_000), &[]);
        http.put("/v1/jobs", &large)?.json()?;
    }
    let took = start.elapsed() / UNREAD as u32;
    table.add("registered beside them (60 KB), each", "ms", Target::None, took.as_secs_f64() * 1e3);
    let mut delays = vec![];
    for n in 0..CHANGES {
        let start = Instant::now();
        agent
            .http()?
            .put("/v1/jobs", &job(&name(1), "service", 0, "/bin/sleep", &[&n.to_string()]))?
            .json()?;
        for follower in 1..HELD {
            while !piece(&mut crowd, follower)?.starts_with(b"{\"Index") {}
        }
        delays.push(start.elapsed());
    }
    let slowest = percentile(&mut delays, 100).as_secs_f64() * 1e3;
    table.add("all followers have heard after, slowest", "ms", Target::AtMost(500.0), slowest);
    let mut unread = 0;
    while let Some(line) = crowd.one(0).take_piece()? {
        unread += line.len();
        if line.starts_with(b"{\"Error") {
            return Ok(());
        }
    }
    Err(format!("who did not read was not told so after {unread} bytes"))
}

fn piece(crowd: &mut Crowd, follower: usize) -> Result<Vec<u8>, String> {
    crowd.one(follower).take_piece()?.ok_or_else(|| format!("follower {follower} was cut"))
}

/// `kill -9` of a server that holds many jobs, until it answers reads that need a leader.
pub fn reopened(binary: &Path, table: &mut Table) -> Result<(), String> {
    let mut agent = Agent::start(binary, "stored")?;
    agent.ready()?;
    register(&mut Crowd::connect(&agent, 16)?, STORED)?;
    agent.crash_and_restart()?;
    until(&mut agent.http()?, "/v1/jobs", |jobs| jobs.as_array().is_some_and(|jobs| jobs.len() == STORED))?;
    for _ in 0..3 {
        agent.crash_and_restart()?;
        let answer = agent.http()?.get("/v1/jobs?per_page=1")?;
        if answer.status != 200 {
            return Err(format!("HTTP status {} after a crash", answer.status));
        }
        let took = agent.started.elapsed().as_secs_f64() * 1e3;
        table.add("kill -9 to a consistent read, 10,000 jobs", "ms", Target::AtMost(300.0), took);
    }
    Ok(())
}
