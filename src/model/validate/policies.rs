//! Whether restart, reschedule, update and migrate policies make sense each by itself, and which of them a type of jobs has.

use super::{names, system};
use crate::job::{
    DelayFunction, HealthCheck, JobType, MigratePolicy, ReschedulePolicy, RestartMode, RestartPolicy,
    TaskGroup, UpdatePolicy,
};
use crate::time::Span;

const MIN_RESTART_INTERVAL: Span = Span::seconds(5);
const MIN_RESCHEDULE_DELAY: Span = Span::seconds(5);
const MIN_RESCHEDULE_INTERVAL: Span = Span::seconds(15);

/// The policies that only some types of jobs have.
pub fn of_group(job_type: JobType, g: &TaskGroup, errors: &mut Vec<String>) {
    let name = job_type.as_str();
    match (&g.reschedule, job_type) {
        (Some(r), JobType::Service | JobType::Batch) => reschedule(r, errors),
        (Some(_), JobType::System) => errors.push("System jobs should not have a reschedule policy".into()),
        (Some(_), _) => errors.push("Sysbatch jobs should not have a reschedule policy".into()),
        (None, JobType::Service | JobType::Batch) => {
            errors.push(format!("Task Group {} should have a reschedule policy", names::shown(&g.name)));
        }
        (None, _) => {}
    }
    match (&g.update, job_type) {
        (Some(u), JobType::Service) => update(u, errors),
        (Some(u), JobType::System) => {
            update(u, errors);
            system::update(u, errors);
        }
        (Some(_), _) => errors.push(format!("Job type {name:?} does not allow update block")),
        (None, _) => {}
    }
    max_run_duration(job_type, g.max_run_duration, errors);
    match (&g.migrate, job_type) {
        (Some(m), JobType::Service) => migrate(m, errors),
        (Some(_), _) => errors.push(format!("Job type {name:?} does not allow migrate block")),
        (None, _) => {}
    }
}

/// What is to run until it is stopped has no time to end in.
fn max_run_duration(job_type: JobType, limit: Option<Span>, errors: &mut Vec<String>) {
    let Some(limit) = limit else { return };
    if !matches!(job_type, JobType::Batch | JobType::Sysbatch) {
        let name = job_type.as_str();
        errors.push(format!(
            "Job type {name:?} does not allow max_run_duration; it is for batch and sysbatch jobs, which end by themselves"
        ));
    }
    if limit <= Span::ZERO {
        errors.push(format!("max_run_duration must be greater than zero (got {limit})"));
    }
}

pub fn restart(r: &RestartPolicy, errors: &mut Vec<String>) {
    if r.attempts < 0 {
        errors.push("Restart attempts can't be negative".to_string());
    }
    if r.attempts == 0 && r.mode == RestartMode::Delay {
        errors.push("Restart policy \"delay\" with 0 attempts is ambiguous".to_string());
    }
    if r.interval < MIN_RESTART_INTERVAL {
        errors.push(format!("Interval can not be less than {MIN_RESTART_INTERVAL} (got {})", r.interval));
    }
    if r.delay < Span::ZERO {
        errors.push(format!("Restart delay can't be negative (got {})", r.delay));
    }
    if Span::nanos(r.delay.as_nanos().saturating_mul(r.attempts)) > r.interval {
        errors.push(format!(
            "Restart policy can't restart the task {} times in an interval of {} with a delay of {}",
            r.attempts, r.interval, r.delay
        ));
    }
}

fn reschedule(r: &ReschedulePolicy, errors: &mut Vec<String>) {
    if r.attempts < 0 {
        errors.push("Reschedule attempts can't be negative".to_string());
    }
    if r.attempts <= 0 && !r.unlimited {
        return;
    }
    if r.attempts > 0 && r.unlimited {
        errors.push("Reschedule Policy with Attempts > 0 and Unlimited = true is ambiguous".to_string());
        errors.push("If Interval is set, Attempts must be set and Unlimited = false".to_string());
    }
    if r.attempts > 0 && r.interval <= Span::ZERO {
        errors.push("Interval must be a non zero value if Attempts > 0".to_string());
    }
    if !r.unlimited && r.interval < MIN_RESCHEDULE_INTERVAL {
        errors.push(format!("Interval cannot be less than {MIN_RESCHEDULE_INTERVAL} (got {})", r.interval));
    }
    if r.delay < MIN_RESCHEDULE_DELAY {
        errors.push(format!("Delay cannot be less than {MIN_RESCHEDULE_DELAY} (got {})", r.delay));
    }
    if r.delay_function != DelayFunction::Constant {
        if r.max_delay < MIN_RESCHEDULE_DELAY {
            errors
                .push(format!("Max Delay cannot be less than {MIN_RESCHEDULE_DELAY} (got {})", r.max_delay));
        }
        if r.max_delay < r.delay {
            errors.push(format!("Max Delay cannot be less than Delay {} (got {})", r.delay, r.max_delay));
        }
    }
    if !r.unlimited && errors.is_empty() {
        feasible_attempts(r, errors);
    }
}

/// The attempts with their growing delays must fit the interval.
fn feasible_attempts(r: &ReschedulePolicy, errors: &mut Vec<String>) {
    let mut needed = Span::ZERO;
    let mut feasible = 0;
    let (mut delay, mut before) = (r.delay, Span::ZERO);
    let attempts = r.attempts.min(1000);
    for _ in 0..attempts {
        needed = needed + delay;
        feasible += i64::from(needed <= r.interval);
        let next = match r.delay_function {
            DelayFunction::Constant => delay,
            DelayFunction::Exponential => delay + delay,
            DelayFunction::Fibonacci => delay + before.max(if before == Span::ZERO { delay } else { before }),
        };
        before = delay;
        delay = if r.delay_function == DelayFunction::Constant { next } else { next.min(r.max_delay) };
    }
    if feasible < attempts {
        errors.push(format!(
            "Reschedule Policy can only make {feasible} attempts in {} with initial delay {} and delay function {:?}",
            r.interval,
            r.delay,
            r.delay_function.as_str()
        ));
        errors.push(format!("Set the interval to at least {needed} to accommodate {} attempts", r.attempts));
    }
}

fn update(u: &UpdatePolicy, errors: &mut Vec<String>) {
    let mut check = |bad: bool, text: String| {
        if bad {
            errors.push(text);
        }
    };
    check(u.max_parallel < 0, format!("Max parallel can not be less than zero: {} < 0", u.max_parallel));
    check(u.canary < 0, format!("Canary count can not be less than zero: {} < 0", u.canary));
    check(u.canary == 0 && u.auto_promote, "Auto Promote requires a Canary count greater than zero".into());
    check(
        u.min_healthy_time < Span::ZERO,
        format!("Minimum healthy time may not be less than zero: {}", u.min_healthy_time),
    );
    check(
        u.healthy_deadline <= Span::ZERO,
        format!("Healthy deadline must be greater than zero: {}", u.healthy_deadline),
    );
    check(
        u.progress_deadline < Span::ZERO,
        format!("Progress deadline must be zero or greater: {}", u.progress_deadline),
    );
    check(
        u.min_healthy_time >= u.healthy_deadline,
        format!(
            "Minimum healthy time must be less than healthy deadline: {} > {}",
            u.min_healthy_time, u.healthy_deadline
        ),
    );
    check(
        u.progress_deadline != Span::ZERO && u.healthy_deadline >= u.progress_deadline,
        format!(
            "Healthy deadline must be less than progress deadline: {} > {}",
            u.healthy_deadline, u.progress_deadline
        ),
    );
    check(u.stagger <= Span::ZERO, format!("Stagger must be greater than zero: {}", u.stagger));
}

fn migrate(m: &MigratePolicy, errors: &mut Vec<String>) {
    let mut check = |bad: bool, text: String| {
        if bad {
            errors.push(text);
        }
    };
    check(m.max_parallel < 0, format!("MaxParallel must be >= 0 but found {}", m.max_parallel));
    check(
        m.health_check == HealthCheck::Manual,
        "Invalid HealthCheck: \"manual\" is for updates only".into(),
    );
    check(
        m.min_healthy_time < Span::ZERO,
        format!("MinHealthyTime is {} and must be >= 0", m.min_healthy_time),
    );
    check(
        m.healthy_deadline < Span::ZERO,
        format!("HealthyDeadline is {} and must be >= 0", m.healthy_deadline),
    );
    check(
        m.min_healthy_time > m.healthy_deadline,
        "MinHealthyTime must be less than HealthyDeadline".to_string(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reschedule_attempts_must_fit_their_interval() {
        let policy = |attempts, interval, delay_function| ReschedulePolicy {
            attempts,
            interval,
            delay: Span::seconds(10),
            delay_function,
            max_delay: Span::seconds(60),
            unlimited: false,
        };
        for (attempts, interval, function, needed) in [
            (3, Span::seconds(30), DelayFunction::Constant, None),
            (4, Span::seconds(30), DelayFunction::Constant, Some("at least 40s")),
            (4, Span::seconds(60), DelayFunction::Exponential, Some("at least 2m10s")),
            (4, Span::minutes(3), DelayFunction::Exponential, None),
        ] {
            let mut errors = vec![];
            reschedule(&policy(attempts, interval, function), &mut errors);
            match needed {
                None => assert_eq!(errors, Vec::<String>::new()),
                Some(part) => assert!(errors[1].contains(part), "{errors:?}"),
            }
        }
    }
}
