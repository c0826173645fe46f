//! Each figure: what is done, and what is counted.

use crate::agent::{Agent, job, rest, scratch, submit};
use crate::crowd::{Crowd, percentile};
use crate::http::{Answer, Http};
use crate::kernel::{self, pss_kib};
use crate::table::{Table, Target};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MS: &str = "ms";
/// Jobs over which a cost per job is averaged.
const JOBS: u32 = 100;
/// Makes a job of 2 KB.
const PADDING: usize = 1400;
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
    Ok(())
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

/// What a job of 2 KB costs the disk under the agent's and the keeper's stores: bytes handed to the kernel, and syncs. Counted by strace, where
/// there is one: it slows everything down, so that nothing else is measured meanwhile. (`write_bytes` of `/proc` counts a large
/// folio whole for each page of it that is written.)
pub fn wear(binary: &Path, table: &mut Table) -> Result<(), String> {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        table.note("what a job writes is not counted: there is no strace".into());
        return Ok(());
    }
    let registered = ("written per job registered", "fsyncs per job registered", 12.0, 1.1);
    let running =
        ("written per job registered and running", "fsyncs per job registered and running", 64.0, 4.2);
    for (count, (written, synced, kib, syncs)) in [(0, registered), (1, running)] {
        let agent = Agent::start(binary, "wear")?;
        agent.ready()?;
        let keeper = agent.keeper().ok_or("the agent has no keeper")?;
        let file = scratch().join("strace");
        let mut strace = Command::new("strace")
            .args(["-f", "-q", "-y", "-s", "0", "-e", "trace=fsync,fdatasync,write,writev,pwrite64", "-o"])
            .arg(&file)
            .args(["-p", &agent.pid().to_string(), "-p", &keeper.to_string()])
            .spawn()
            .map_err(|e| format!("strace: {e}"))?;
        let http = &mut agent.http()?;
        rest(http, "2s")?;
        let so_far = || fs::read_to_string(&file).map(|trace| wear_in(&trace)).unwrap_or_default();
        let before = so_far();
        for n in 0..JOBS {
            let id = format!("wear-{n}");
            let body = job(&id, "service", count, "/bin/sleep", &["1000"]);
            let mut body: Value = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
            body["Job"]["Meta"] = json!({"padding": "x".repeat(PADDING)});
            submit(http, &id, body.to_string().as_bytes(), count as usize, "running")?;
        }
        rest(http, "1s")?;
        let after = so_far();
        let per_job = |n: u64| n as f64 / f64::from(JOBS);
        table.add(written, "KiB", Target::AtMost(kib), per_job(after.0 - before.0) / 1024.0);
        table.add(synced, "", Target::AtMost(syncs), per_job(after.1 - before.1));
        strace.kill().and_then(|()| strace.wait()).map_err(|e| format!("strace: {e}"))?;
    }
    Ok(())
}

/// Bytes written to stores and syncs of them, as strace shows them. A call that it shows in two parts counts where it ends.
fn wear_in(trace: &str) -> (u64, u64) {
    let (mut bytes, mut syncs) = (0, 0);
    let mut begun = BTreeMap::new();
    for line in trace.lines() {
        let Some((process, call)) = line.split_once(' ') else { continue };
        let call = match call.trim_start().strip_prefix("<... ") {
            Some(rest) => format!("{}{rest}", begun.remove(process).unwrap_or_default()),
            None => call.trim_start().to_string(),
        };
        if call.contains("<unfinished ...>") {
            begun.insert(process, call);
        } else if ["/data/server/", "/data/client/", "/data/keeper/"].iter().any(|dir| call.contains(dir)) {
            let result =
                call.rsplit_once("= ").and_then(|(_, result)| result.trim().parse().ok()).unwrap_or(0);
            match call.contains("sync(") {
                true => syncs += 1,
                false => bytes += result,
            }
        }
    }
    (bytes, syncs)
}
