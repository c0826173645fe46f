//! Dispatches: as fast as several clients can, each with a payload and a token of its own; then the agent is killed, and what was
//! acknowledged has to be there, once.

use crate::agent::{Agent, job};
use crate::crowd::Crowd;
use crate::table::{Table, Target};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const DISPATCHES: usize = 10_000;
const CLIENTS: usize = 16;
/// One kilobyte, in base64.
const PAYLOAD_TEXT: usize = 1_368;

pub fn dispatches(binary: &Path, table: &mut Table) -> Result<(), String> {
    let mut agent = Agent::start(binary, "dispatch")?;
    agent.ready()?;
    let mut form: Value =
        serde_json::from_slice(&job("form", "batch", 0, "/bin/true", &[])).map_err(|e| e.to_string())?;
    form["Job"]["ParameterizedJob"] = serde_json::json!({"Payload": "required"});
    agent.http()?.put("/v1/jobs", form.to_string().as_bytes())?.json()?;
    let took = ask_all(&mut Crowd::connect(&agent, CLIENTS)?)?;
    let rate = DISPATCHES as f64 / took.as_secs_f64();
    table.add("10,000 dispatches from 16 clients", "1/s", Target::AtLeast(3000.0), rate);
    agent.crash_and_restart()?;
    let summary = agent.http()?.get("/v1/job/form/summary")?.json()?;
    let count = |state: &str| summary["Children"][state].as_u64().unwrap_or(0);
    match count("Pending") + count("Running") + count("Dead") {
        there if there == DISPATCHES as u64 => Ok(()),
        there => Err(format!("{DISPATCHES} dispatches were acknowledged, {there} are there")),
    }
}

fn ask_all(crowd: &mut Crowd) -> Result<Duration, String> {
    let start = Instant::now();
    let body = format!("{{\"Payload\":\"{}\"}}", "A".repeat(PAYLOAD_TEXT));
    let (mut asked, mut answered) = (0, 0);
    let mut next = |http: &mut crate::http::Http| {
        asked += 1;
        match asked > DISPATCHES {
            true => Ok(()),
            false => http.send(
                "PUT",
                &format!("/v1/job/form/dispatch?idempotency_token=t{asked}"),
                body.as_bytes(),
            ),
        }
    };
    crowd.each(|_, http| next(http))?;
    while answered < DISPATCHES {
        let ready = crowd.readable(Duration::from_secs(30))?;
        if ready.is_empty() {
            return Err("no answer within 30 seconds".into());
        }
        for n in ready {
            crowd.one(n).take_answer()?.json()?;
            answered += 1;
            next(crowd.one(n))?;
        }
    }
    Ok(start.elapsed())
}
