//! `drover job periodic force`, and how periodic and parameterized jobs are shown: the next launch, and the children
//! (cli.md 3.2.1, 3.2.3).

use crate::CliCommand;
use crate::error::CommandResult;
use crate::eval::monitor;
use crate::render::layout;
use crate::render::screen::ScreenText;
use crate::session::{Session, argument, job_state, namespace_query, path};
use crate::shapes::{Job, JobStub, JobSummary, RegisterAnswer};
use ::io::zones;
use argh::{ArgsInfo, FromArgs};
use model::periodic::Periodic;
use model::time::Wall;
use serde_json::Value;
use std::process::ExitCode;

/// launch a periodic job now, whatever its times say
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job periodic force backup")]
pub struct JobPeriodicForceCommand {
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

impl CliCommand for JobPeriodicForceCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let periodic = [("filter", "Periodic is not nil")];
        let stub = session.job_among(argument(&self.job, "job id")?, &periodic)?;
        let target = format!("{}/periodic/force", path("job", &stub.id));
        let answer: RegisterAnswer = session.client.put(&target, &namespace_query(&stub), &Value::Null)?;
        if self.detach {
            session.out.line("Force periodic successful")?;
            session.out.line(&format!("Evaluation ID: {}", answer.eval_id))?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(monitor::follow(session, &answer.eval_id, self.verbose)?.into())
    }
}

/// The next launch, by this machine's clock and zones. `None`: never, or the zone is unknown here.
pub fn next_launch(session: &Session, periodic: &Value) -> Option<String> {
    let text = |name: &str| periodic[name].as_str().unwrap_or_default().to_string();
    let specs = periodic["Specs"].as_array().into_iter().flatten();
    let zone = text("TimeZone");
    let periodic = Periodic {
        enabled: periodic["Enabled"].as_bool().unwrap_or(true),
        spec: text("Spec"),
        specs: specs.filter_map(|s| Some(s.as_str()?.to_string())).collect(),
        prohibit_overlap: false,
        time_zone: if zone.is_empty() { Periodic::UTC.into() } else { zone },
    };
    let now = session.now();
    let next = periodic.schedule(zones::zone)?.next(Wall(now))?;
    Some(format!("{} ({})", session.time(next.0), layout::relative(next.0, now)))
}

/// The payload and meta rules of a parameterized job.
pub fn rules(job: &Job, page: &mut ScreenText) {
    let Some(rules) = job.parameterized_job.as_ref().filter(|_| !job.dispatched) else { return };
    let keys = |name: &str| {
        let listed = rules[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        let listed = listed.collect::<Vec<_>>().join(", ");
        if listed.is_empty() { "<none>".to_string() } else { listed }
    };
    page.section("Parameterized Job");
    page.text(&layout::key_values(&[
        ("Payload", rules["Payload"].as_str().unwrap_or_default().to_string()),
        ("Required Metadata", keys("MetaRequired")),
        ("Optional Metadata", keys("MetaOptional")),
    ]));
}

/// The words for the children of a periodic or parameterized job.
struct Words {
    summary: &'static str,
    /// What follows the parent's id in theirs.
    infix: &'static str,
    title: &'static str,
    none: &'static str,
}

const PERIODIC: Words = Words {
    summary: "Children Job Summary",
    infix: "periodic-",
    title: "Previously Launched Jobs",
    none: "No instances of periodic job found",
};

const PARAMETERIZED: Words = Words {
    summary: "Parameterized Job Summary",
    infix: "dispatch-",
    title: "Dispatched Jobs",
    none: "No dispatched instances of parameterized job found",
};

/// The children of a periodic or parameterized job.
pub fn children(
    session: &Session,
    parent: &JobStub,
    summary: &JobSummary,
    page: &mut ScreenText,
) -> CommandResult<()> {
    let words = if parent.parameterized_job { &PARAMETERIZED } else { &PERIODIC };
    page.section(words.summary);
    let children = &summary.children;
    let counts = [children.pending, children.running, children.dead].map(|n| n.to_string());
    page.text(&layout::table(&["Pending", "Running", "Dead"], &[counts.to_vec()]));
    let prefix = format!("{}/{}", parent.id, words.infix);
    let query: Vec<_> = namespace_query(parent).into_iter().chain([("prefix", prefix.as_str())]).collect();
    let mut launched: Vec<JobStub> = session.client.get("/v1/jobs", &query)?;
    launched.retain(|child| child.parent_id == parent.id);
    page.section(words.title);
    if launched.is_empty() {
        page.line(words.none);
        return Ok(());
    }
    let row = |child: &JobStub| vec![child.id.clone(), job_state(&child.status, child.stop)];
    page.text(&layout::table(&["ID", "Status"], &launched.iter().map(row).collect::<Vec<_>>()));
    Ok(())
}
