//! The scheduler's configuration: read, and written by an operator (http-api.md 9.1, 9.2).
//!
//! Refuses to know: what the settings do.

use crate::response::Response;
use crate::shape::operator::{SchedulerSetConfigShape, SchedulerShape};
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, blocking, json};
use model::scheduling::{Algorithm, PreemptionConfig, SchedulerSettings};
use model::validate::multi_warning;
use serde_json::{Map, Value};
use wire::request::{WriteReply, WriteRequest};

pub fn configuration(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let config = view.scheduler_config()?;
    let shape = SchedulerShape::new(&config, call.ctx.status.leader.is_some());
    let response = Response::json(&shape, call.query.pretty);
    Ok(RouteOutcome::Respond(blocking::with_index(call, response, config.modify_index)))
}

/// What Nomad fills in by itself.
const DEFAULT_NODE_LIMIT: u64 = 100;
const LIMIT_WITHOUT_EFFECT: &str =
    "NodeLimitForFeasibilityChecks has no effect: every node is looked at for every placement";

/// Absent members are false.
pub fn configure(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let body = json::object(call.body()?).map_err(|bad| {
        let why = String::from_utf8_lossy(&bad.body).into_owned();
        Response::text(400, format!("Error parsing scheduler config: {why}"))
    })?;
    let cas = match call.query.text("cas") {
        None | Some("") => None,
        Some(text) => {
            let wrong = || Response::text(400, format!("Error parsing cas value: {text:?} is no index"));
            Some(text.parse::<u64>().map_err(|_| wrong())?)
        }
    };
    let settings = settings(&body)?;
    let limit = json::number(&body, "NodeLimitForFeasibilityChecks")?;
    let warnings = match limit {
        None | Some(0 | DEFAULT_NODE_LIMIT) => String::new(),
        Some(_) => multi_warning(&[LIMIT_WITHOUT_EFFECT.to_string()]),
    };
    let action = WriteRequest::ConfigureScheduler { settings, cas };
    let kind = WriteKind::SchedulerConfigured { warnings };
    Ok(RouteOutcome::Write(action, WriteResponder { kind, pretty: call.query.pretty }))
}

fn settings(body: &Map<String, Value>) -> Result<SchedulerSettings, Response> {
    let none = Map::new();
    let preemption = match json::member(body, "PreemptionConfig") {
        None => &none,
        Some(Value::Object(given)) => given,
        Some(_) => return Err(Response::text(400, "member PreemptionConfig must be an object")),
    };
    Ok(SchedulerSettings {
        algorithm: algorithm(body)?.unwrap_or_default(),
        memory_oversubscription: json::flag(body, "MemoryOversubscriptionEnabled")?,
        reject_job_registration: json::flag(body, "RejectJobRegistration")?,
        pause_eval_broker: json::flag(body, "PauseEvalBroker")?,
        preemption: PreemptionConfig {
            system: json::flag(preemption, "SystemSchedulerEnabled")?,
            sysbatch: json::flag(preemption, "SysBatchSchedulerEnabled")?,
            batch: json::flag(preemption, "BatchSchedulerEnabled")?,
            service: json::flag(preemption, "ServiceSchedulerEnabled")?,
        },
    })
}

/// `None`: absent.
pub fn algorithm(body: &Map<String, Value>) -> Result<Option<Algorithm>, Response> {
    match json::text(body, "SchedulerAlgorithm")?.unwrap_or_default() {
        "" => Ok(None),
        text => match Algorithm::parse(text) {
            Some(algorithm) => Ok(Some(algorithm)),
            None => {
                let why = format!("invalid scheduler algorithm: {text}: say \"binpack\" or \"spread\"");
                Err(Response::text(400, why))
            }
        },
    }
}

pub fn configured(done: &WriteReply, warnings: String, pretty: bool) -> Response {
    let updated = matches!(done, WriteReply::SchedulerConfig { updated: true, .. });
    let index = done.index();
    Response::json(&SchedulerSetConfigShape { updated, warnings, index }, pretty)
        .with("X-Nomad-Index", index.max(1))
}
