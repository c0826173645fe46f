//! Follows a deployment to its end: on a terminal in place, otherwise a block whenever something has changed (cli.md 3.4.6).

use crate::deployment::progress::page;
use crate::deployment::shapes::Deployment;
use crate::error::{CommandError, CommandResult};
use crate::eval::watch::{POLL_INTERVAL, changed, changed_within};
use crate::http::decode;
use crate::render::layout;
use crate::render::lists::alloc_table;
use crate::render::screen::{Screen, ScreenText, Size};
use crate::session::{Session, path};
use crate::shapes::Alloc;
use std::time::{Duration, Instant};

/// A rollback makes another deployment, which is monitored, too.
const MAX_FOLLOWED: usize = 8;
/// How long to wait for the rollback's deployment.
const PATIENCE: Duration = Duration::from_secs(5);

/// The value is the exit code: 0 only if the deployment was successful, whatever became of the job afterwards.
pub fn follow(session: &Session, id: &str, verbose: bool) -> CommandResult<u8> {
    follow_within(session, id, verbose, POLL_INTERVAL)
}

/// `wait`: how long one look at the deployment waits for a change of it.
pub fn follow_within(session: &Session, id: &str, verbose: bool, wait: &str) -> CommandResult<u8> {
    let mut id = id.to_string();
    let mut code = 0;
    for _ in 0..MAX_FOLLOWED {
        let now = session.time(session.now());
        let text = format!("==> {now}: Monitoring deployment {:?}", layout::id(&id, verbose));
        session.out.line(&session.out.bold(&text))?;
        let deployment = follow_one(session, &id, verbose, wait)?;
        code = code.max(u8::from(deployment.status != "successful"));
        match after_rollback(session, &deployment)? {
            Some(next) => id = next,
            None => return Ok(code),
        }
    }
    Err(CommandError::new(format!("Stopped monitoring after {MAX_FOLLOWED} deployments in a row")))
}

fn follow_one(session: &Session, id: &str, verbose: bool, wait: &str) -> CommandResult<Deployment> {
    let (mut screen, mut index) = (Screen::default(), 0);
    let target = path("deployment", id);
    loop {
        let (value, seen) = changed_within(session, &target, &[], index, wait)?;
        let deployment: Deployment = decode(&value)?;
        let mut page = page(&deployment, session.zone(), verbose);
        if verbose {
            allocations(session, id, &mut page)?;
        }
        if session.out.is_terminal() {
            screen.draw(&session.out, &page, Size::now())?;
        } else if seen != index {
            session.out.line(&session.time(session.now()))?;
            page.print(&session.out)?;
            session.out.line("")?;
        }
        if deployment.has_ended() {
            return Ok(deployment);
        }
        index = seen;
    }
}

fn allocations(session: &Session, id: &str, page: &mut ScreenText) -> CommandResult<()> {
    let allocs: Vec<Alloc> = session.client.get(&path("deployment/allocations", id), &[])?;
    page.section("Allocations");
    match allocs.is_empty() {
        true => page.line("No allocations placed"),
        false => page.text(&alloc_table(&allocs, session.now(), true)),
    }
    Ok(())
}

/// The deployment of a rollback.
fn after_rollback(session: &Session, failed: &Deployment) -> CommandResult<Option<String>> {
    if failed.status != "failed" || !failed.status_description.contains(" - rolling back to job version") {
        return Ok(None);
    }
    let target = format!("{}/deployment", path("job", &failed.job_id));
    let (query, until) = ([("namespace", failed.namespace.as_str())], Instant::now() + PATIENCE);
    let mut index = 0;
    while Instant::now() < until {
        let (value, seen) = changed(session, &target, &query, index)?;
        let latest: Option<Deployment> = decode(&value)?;
        if let Some(next) = latest.filter(|d| d.create_index > failed.create_index) {
            return Ok(Some(next.id));
        }
        index = seen;
    }
    Ok(None)
}
