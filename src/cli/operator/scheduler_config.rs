//! `drover operator scheduler get-config` and `set-config`.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::numbers;
use crate::output::objects;
use crate::render::layout;
use crate::session::Session;
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

pub const CONFIGURATION: &str = "/v1/operator/scheduler/configuration";

/// show how the scheduler works
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover operator scheduler get-config")]
pub struct GetConfigCommand {
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's object through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
}

/// change the scheduler configuration; what is not named stays as it is
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover operator scheduler set-config -scheduler-algorithm spread")]
pub struct SetConfigCommand {
    /// only if the configuration's modify index is this; 0: whatever it is
    #[argh(option, from_str_fn(numbers::index), default = "0")]
    check_index: u64,
    /// binpack: the fuller node first; spread: the emptier one
    #[argh(option)]
    scheduler_algorithm: Option<String>,
    /// memory oversubscription: tasks may use up to memory_max
    #[argh(option, arg_name = "bool")]
    memory_oversubscription: Option<bool>,
    /// only who manages the region may register jobs; without effect while there is no access control
    #[argh(option, arg_name = "bool")]
    reject_job_registration: Option<bool>,
    /// pause the evaluation broker: nothing is placed or replaced until this is false again
    #[argh(option, arg_name = "bool")]
    pause_eval_broker: Option<bool>,
    /// batch jobs may preempt allocations of lower priority
    #[argh(option, arg_name = "bool")]
    preempt_batch_scheduler: Option<bool>,
    /// service jobs may preempt allocations of lower priority
    #[argh(option, arg_name = "bool")]
    preempt_service_scheduler: Option<bool>,
    /// sysbatch jobs may preempt allocations of lower priority
    #[argh(option, arg_name = "bool")]
    preempt_sysbatch_scheduler: Option<bool>,
    /// system jobs may preempt allocations of lower priority
    #[argh(option, arg_name = "bool")]
    preempt_system_scheduler: Option<bool>,
    /// limit of nodes to consider (not supported yet: every node is considered)
    #[argh(option, from_str_fn(numbers::index))]
    node_limit_for_feasibility_checks: Option<u64>,
}

impl CliCommand for GetConfigCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let value = session.client.get_value(CONFIGURATION, &[])?;
        match objects {
            Some(objects) => session.out.objects(objects, &value)?,
            None => session.out.text(&shown(&value["SchedulerConfig"]))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(config: &Value) -> String {
    let preemption = &config["PreemptionConfig"];
    let said = |value: &Value| value.as_bool().unwrap_or(false).to_string();
    layout::key_values(&[
        ("Scheduler Algorithm", config["SchedulerAlgorithm"].as_str().unwrap_or_default().to_string()),
        ("Memory Oversubscription", said(&config["MemoryOversubscriptionEnabled"])),
        ("Reject Job Registration", said(&config["RejectJobRegistration"])),
        ("Pause Eval Broker", said(&config["PauseEvalBroker"])),
        ("Preemption System Scheduler", said(&preemption["SystemSchedulerEnabled"])),
        ("Preemption Service Scheduler", said(&preemption["ServiceSchedulerEnabled"])),
        ("Preemption Batch Scheduler", said(&preemption["BatchSchedulerEnabled"])),
        ("Preemption SysBatch Scheduler", said(&preemption["SysBatchSchedulerEnabled"])),
        ("Modify Index", config["ModifyIndex"].as_u64().unwrap_or(0).to_string()),
    ])
}

impl CliCommand for SetConfigCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let mut config = session.client.get_value(CONFIGURATION, &[])?["SchedulerConfig"].take();
        let found = config["ModifyIndex"].as_u64().unwrap_or(0);
        if !matches!(self.check_index, 0) && self.check_index != found {
            return Err(CommandError::new(format!(
                "Error performing check index set: check-index {} does not match current state value {found}",
                self.check_index
            )));
        }
        self.merge_into(&mut config);
        let cas = found.to_string();
        let answer: Value = session.client.put(CONFIGURATION, &[("cas", &cas)], &config)?;
        if answer["Updated"] != json!(true) {
            let why = "Scheduler configuration could not be atomically updated, please try again";
            return Err(CommandError::new(why));
        }
        session.out.line("Scheduler configuration updated!")?;
        Ok(ExitCode::SUCCESS)
    }
}

impl SetConfigCommand {
    fn merge_into(&self, config: &mut Value) {
        if let Some(algorithm) = &self.scheduler_algorithm {
            config["SchedulerAlgorithm"] = json!(algorithm);
        }
        if let Some(limit) = self.node_limit_for_feasibility_checks {
            config["NodeLimitForFeasibilityChecks"] = json!(limit);
        }
        let switches = [
            (self.memory_oversubscription, "MemoryOversubscriptionEnabled"),
            (self.reject_job_registration, "RejectJobRegistration"),
            (self.pause_eval_broker, "PauseEvalBroker"),
        ];
        for (on, name) in switches {
            put(config, name, on);
        }
        let preemption = [
            (self.preempt_batch_scheduler, "BatchSchedulerEnabled"),
            (self.preempt_service_scheduler, "ServiceSchedulerEnabled"),
            (self.preempt_sysbatch_scheduler, "SysBatchSchedulerEnabled"),
            (self.preempt_system_scheduler, "SystemSchedulerEnabled"),
        ];
        for (on, name) in preemption {
            put(&mut config["PreemptionConfig"], name, on);
        }
    }
}

fn put(object: &mut Value, name: &str, on: Option<bool>) {
    if let Some(on) = on {
        object[name] = json!(on);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_changes_in_the_configuration() {
        let preemption = json!({"SystemSchedulerEnabled": true, "BatchSchedulerEnabled": false,
            "ServiceSchedulerEnabled": false, "SysBatchSchedulerEnabled": false});
        let mut config = json!({"SchedulerAlgorithm": "binpack", "PreemptionConfig": preemption,
            "MemoryOversubscriptionEnabled": true, "RejectJobRegistration": false, "PauseEvalBroker": false,
            "ModifyIndex": 7});
        let args = ["--scheduler-algorithm", "spread", "--pause-eval-broker", "true"];
        let more = ["--preempt-system-scheduler", "false"];
        let parsed = SetConfigCommand::from_args(&["set-config"], &[&args[..], &more[..]].concat()).unwrap();
        parsed.merge_into(&mut config);
        let expected = "\
Scheduler Algorithm           = spread
Memory Oversubscription       = true
Reject Job Registration       = false
Pause Eval Broker             = true
Preemption System Scheduler   = false
Preemption Service Scheduler  = false
Preemption Batch Scheduler    = false
Preemption SysBatch Scheduler = false
Modify Index                  = 7
";
        assert_eq!(shown(&config), expected);
    }
}
