//! Each figure: what is done, and what is counted.

use crate::agent::{Agent, job, rest, scratch, submit};
use crate::crowd::{Crowd, percentile};
use crate::http::{Answer, Http};
use crate::kernel::{self, pss_kib, written_bytes};
use crate::table::{Table, Target};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MS: &str = "ms";
/// Jobs over which a cost per job is averaged.
const JOBS: u32 = 100;
/// How long registrations are counted.
const LOAD: Duration = Duration::from_secs(2);

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

pub fn binary_size(binary: &Path, table: &mut Table) -> Result<(), String> {
    let bytes = fs::metadata(binary).map_err(|e| e.to_string())?.len();
    table.add("release binary", "MB", Target::AtMost(12.0), bytes as f64 / 1e6);
    Ok(())
}

/// The sync time of the disk that everything else is measured on.
pub fn fsync_latency(table: &mut Table) -> Result<(), String> {
    let dir = scratch();
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    for _ in 0..50 {
        let took = kernel::fsync(&dir).map_err(|e| e.to_string())?;
        table.add("this disk: write 4 KiB, fdatasync", MS, Target::None, ms(took));
    }
    Ok(())
}

/// Everything that one fresh node shows of itself.
pub fn one_node(binary: &Path, table: &mut Table) -> Result<(), String> {
    let agent = Agent::start(binary, "node")?;
    table.add("exec to first HTTP answer", MS, Target::AtMost(50.0), ms(agent.first_answer));
    table.add("exec to node ready", MS, Target::AtMost(200.0), ms(agent.ready()?));
    memory(&agent, table)?;
    let http = &mut agent.http()?;
    for n in 0..5 {
        let id = format!("one-{n}");
        let body = job(&id, "service", 1, "/bin/sleep", &["1000"]);
        let took = submit(http, &id, &body, 1, "running")?;
        table.add("submit to running", MS, Target::AtMost(50.0), ms(took));
    }
    let body = job("true", "batch", 100, "/bin/true", &[]);
    let took = submit(http, "true", &body, 100, "complete")?;
    table.add("submit to 100 x /bin/true complete", MS, Target::AtMost(400.0), ms(took));
    bytes_written(&agent, table)
}

/// Idle, and what 50 sleeping tasks add.
fn memory(agent: &Agent, table: &mut Table) -> Result<(), String> {
    let http = &mut agent.http()?;
    rest(http, "2s")?;
    let keeper = agent.keeper().ok_or("the agent has no keeper")?;
    let (of_agent, of_keeper) = (pss_kib(agent.pid())? / 1024.0, pss_kib(keeper)? / 1024.0);
    let idle = of_agent + of_keeper;
    table.add("idle, agent and keeper, PSS", "MiB", Target::AtMost(10.0), idle);
    table.add("  of it the keeper", "MiB", Target::None, of_keeper);
    let body = job("sleep", "service", 50, "/bin/sleep", &["1000"]);
    let took = submit(http, "sleep", &body, 50, "running")?;
    table.add("submit to 50 running", MS, Target::AtMost(200.0), ms(took));
    rest(http, "2s")?;
    let busy = pss_kib(agent.pid())? / 1024.0 + pss_kib(keeper)? / 1024.0;
    table.add("per sleeping task, PSS", "MiB", Target::AtMost(0.1), (busy - idle) / 50.0);
    let of_both = [kernel::children(agent.pid()), kernel::children(keeper)].concat();
    let helpers = of_both.iter().filter(|(pid, name)| *pid != keeper && name != "sleep").count();
    table.add("helper processes of 50 tasks", "", Target::AtMost(0.0), helpers as f64);
    Ok(())
}

/// The memory of agent and keeper: jobs registered one after the other, without and with a task that runs.
fn bytes_written(agent: &Agent, table: &mut Table) -> Result<(), String> {
    let http = &mut agent.http()?;
    let keeper = agent.keeper().ok_or("the agent has no keeper")?;
    let written = || Ok::<f64, String>((written_bytes(agent.pid())? + written_bytes(keeper)?) / 1024.0);
    for (name, count) in [("written per job registered", 0), ("written per job registered and running", 1)] {
        let before = written()?;
        for n in 0..JOBS {
            let id = format!("bytes-{count}-{n}");
            let body = job(&id, "service", count, "/bin/sleep", &["1000"]);
            submit(http, &id, &body, count as usize, "running")?;
        }
        rest(http, "1s")?;
        table.add(name, "KiB", Target::None, (written()? - before) / f64::from(JOBS));
    }
    Ok(())
}

/// As many as a number of clients can; then the agent is killed, and what was acknowledged has to be there.
pub fn registrations(binary: &Path, table: &mut Table) -> Result<(), String> {
    for (name, slowest, clients, target) in [
        ("registrations from 1 client", "  99 of 100 within", 1, 2000.0),
        ("registrations from 16 clients", "  99 of 100 of 16 clients within", 16, 5000.0),
    ] {
        let mut agent = Agent::start(binary, "load")?;
        agent.ready()?;
        let (mut asked, mut counts) = (vec![0; clients], vec![0; clients]);
        let register = |client: usize, http: &mut Http| {
            let id = format!("load-{client}-{}", asked[client]);
            asked[client] += 1;
            http.send("PUT", "/v1/jobs", &job(&id, "service", 0, "/bin/sleep", &["1000"]))
        };
        let count = |client: usize, answer: Answer| {
            counts[client] += 1;
            answer.json().map(|_| ())
        };
        let start = Instant::now();
        let mut took = Crowd::connect(&agent, clients)?.ask_for(LOAD, register, count)?;
        let rate = took.len() as f64 / start.elapsed().as_secs_f64();
        table.add(name, "1/s", Target::AtLeast(target), rate);
        table.add(slowest, MS, Target::AtMost(20.0), ms(percentile(&mut took, 99)));
        agent.crash_and_restart()?;
        all_there(&agent, &counts)?;
    }
    Ok(())
}

fn all_there(agent: &Agent, counts: &[u32]) -> Result<(), String> {
    let mut http = agent.http()?;
    for (client, count) in counts.iter().enumerate() {
        for n in 0..*count {
            let id = format!("load-{client}-{n}");
            if http.get(&format!("/v1/job/{id}"))?.status != 200 {
                return Err(format!("job {id} was acknowledged and is gone after kill -9"));
            }
        }
    }
    Ok(())
}

/// Counted by strace, where there is one: it slows everything down, so that nothing else is measured meanwhile.
pub fn syncs(binary: &Path, table: &mut Table) -> Result<(), String> {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        table.note("fsyncs are not counted: there is no strace".into());
        return Ok(());
    }
    for (name, count) in [("fsyncs per job registered", 0), ("fsyncs per job registered and running", 1)] {
        let agent = Agent::start(binary, "syncs")?;
        agent.ready()?;
        let keeper = agent.keeper().ok_or("the agent has no keeper")?;
        let file = scratch().join("strace");
        let mut strace = Command::new("strace")
            .args(["-f", "-q", "-e", "trace=fsync,fdatasync", "-o"])
            .arg(&file)
            .args(["-p", &agent.pid().to_string(), "-p", &keeper.to_string()])
            .spawn()
            .map_err(|e| format!("strace: {e}"))?;
        let http = &mut agent.http()?;
        rest(http, "2s")?;
        let lines = || fs::read_to_string(&file).map(|t| t.matches("sync(").count()).unwrap_or(0);
        let before = lines();
        for n in 0..JOBS {
            let id = format!("syncs-{n}");
            let body = job(&id, "service", count, "/bin/sleep", &["1000"]);
            submit(http, &id, &body, count as usize, "running")?;
        }
        rest(http, "1s")?;
        table.add(name, "", Target::None, (lines() - before) as f64 / f64::from(JOBS));
        strace.kill().and_then(|()| strace.wait()).map_err(|e| format!("strace: {e}"))?;
    }
    Ok(())
}
