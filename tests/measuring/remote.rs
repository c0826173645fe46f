//! What an evaluation costs a leader that plans it itself, and one that lets a follower's worker plan it: the plan, against the messages
//! to and fro (decision 0079). Refuses to know links: what a message takes on its way comes on top.

use crate::region_host::Host;
use crate::region_world::{World, service};
use crate::{NODES, Outcome};
use model::eval::EvalStatus;
use model::id::EvalToken;
use model::time::Wall;
use scheduler::Attempt;
use server::effects::ScheduleTask;
use server::reservations::Reservations;
use server::worker;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;
use wire::frame::{self, Body, Frame};
use wire::server_rpc::{RemoteDecision, RemoteTask, ServerReply, ServerRequest};

const ROUNDS: u32 = 20;

fn micros(work: impl Fn()) -> f64 {
    work();
    let began = Instant::now();
    (0..ROUNDS).for_each(|_| work());
    began.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
}

/// On 5,000 nodes with 100,000 allocations; nobody works on these evaluations.
pub fn planned_elsewhere(dir: &Path) -> Outcome {
    let dir = dir.join("remote");
    std::fs::create_dir(&dir)?;
    let mut world = World::new(Host::start(&dir, 2)?, false);
    world.register(0..NODES);
    world.submit((0..1_000).map(|n| service("runs", n, 100, 10, 10)));
    world.until("all is placed", |w| w.placed() >= 100_000 && w.at_rest());
    world.host.stop();
    let mut world = World::new(Host::start(&dir, 0)?, false);
    world.until("the server leads", |w| w.host.status().ready);
    println!("| allocations | plan | bytes to the worker | bytes back | messages cost the leader |");
    println!("|---:|---:|---:|---:|---:|");
    for (before, count) in (0_u64..).zip([1, 10, 100, 1_000, 3_000]) {
        let name = format!("asks-{count}");
        world.submit([service(&name, 1, count, 10, 10)].into_iter());
        world.until("it is registered", |w| w.host.status().broker.ready > before);
        let view = world.host.reader.view()?;
        let is_its =
            |e: &model::eval::Evaluation| e.job.id.starts_with(&name) && e.status == EvalStatus::Pending;
        let eval = view.open_evals()?.into_iter().find(is_its).ok_or("it has an evaluation")?;
        let (token, index, at, seed) = (EvalToken::from_random(7), view.index(), Wall(1), 7);
        let task = ScheduleTask {
            eval: eval.clone(),
            token,
            attempt: Attempt::first(index),
            min_index: index,
            at,
            seed,
        };
        let decide = || {
            let reservations = Mutex::new(Reservations::default());
            worker::decide(&task, &world.host.reader, || reservations.lock().expect("nobody panics with it"))
        };
        let planning = micros(|| drop(decide()));
        let remote = RemoteTask {
            eval,
            token,
            attempt: 1,
            snapshot_index: index,
            min_index: index,
            at,
            seed,
            in_flight: vec![],
        };
        let give = || {
            let tasks = vec![remote.clone()];
            frame::encode(&Frame { request: 1, body: Body::ServerReply(ServerReply::Deliver { tasks }) })
        };
        let result = Ok(*decide()?);
        let said = RemoteDecision { eval: task.eval.id, token, result, is_split: false };
        let body = Body::ServerRequest(ServerRequest::Planned(Box::new(said)));
        let back = frame::encode(&Frame { request: 0, body });
        let messages = micros(|| {
            drop(give());
            assert!(frame::decode(&back).is_ok());
        });
        println!("| {count} | {planning:.0} us | {} | {} | {messages:.0} us |", give().len(), back.len());
    }
    world.host.stop();
    Ok(true)
}
