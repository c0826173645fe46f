//! Validation of periodic and parameterized jobs (jobspec.md 8).

use super::names;
use crate::cron::{Cron, Zones};
use crate::dispatch::payload_path;
use crate::job::{JobSpec, JobType, Task};
use crate::periodic::{MAX_EXPRESSIONS, Periodic};
use std::collections::BTreeSet;

pub fn periodic(spec: &JobSpec, zones: Zones, errors: &mut Vec<String>) {
    let Some(periodic) = &spec.periodic else { return };
    if !matches!(spec.job_type, JobType::Batch | JobType::Sysbatch) {
        errors.push("Periodic can only be used with \"batch\" or \"sysbatch\" scheduler".into());
    }
    // what is switched off may be anything
    if periodic.enabled {
        times(periodic, zones, errors);
    }
}

pub fn parameterized(spec: &JobSpec, errors: &mut Vec<String>) {
    let Some(rules) = &spec.parameterized else { return };
    if !matches!(spec.job_type, JobType::Batch | JobType::Sysbatch) {
        errors.push("Parameterized job can only be used with \"batch\" or \"sysbatch\" scheduler".into());
    }
    let mut optional: BTreeSet<&str> = BTreeSet::new();
    optional.extend(rules.meta_optional.iter().map(String::as_str));
    let mut both = rules.meta_required.iter().filter(|key| optional.contains(key.as_str())).peekable();
    if both.peek().is_some() {
        let both = both.map(String::as_str).collect::<Vec<_>>().join(" ");
        errors.push(format!(
            "Required and optional meta keys should be disjoint. Following keys exist in both: [{both}]"
        ));
    }
}

pub fn payload_file(task: &Task, errors: &mut Vec<String>) {
    if let Some(payload) = &task.dispatch_payload
        && let Err(why) = payload_path(&payload.file)
    {
        errors.push(format!("Dispatch Payload validation failed: {why}"));
    }
}

fn times(periodic: &Periodic, zones: Zones, errors: &mut Vec<String>) {
    if !periodic.spec.is_empty() && !periodic.specs.is_empty() {
        errors.push("Only cron or crons may be used".into());
    }
    if periodic.expressions().next().is_none() {
        errors.push("Must specify a spec".into());
    }
    if periodic.zone(zones).is_none() {
        let name = names::shown(&periodic.time_zone);
        errors.push(format!(
            "Invalid time zone \"{name}\": this machine knows no such zone; its names are those below /usr/share/zoneinfo"
        ));
    }
    let said = periodic.expressions().count();
    if said > MAX_EXPRESSIONS {
        errors.push(format!("crons has {said} expressions; at most {MAX_EXPRESSIONS} are allowed"));
    }
    for text in periodic.expressions().take(MAX_EXPRESSIONS) {
        if let Err(why) = Cron::parse(text) {
            errors.push(format!("Invalid cron spec \"{}\": {why}", names::shown(text)));
        }
    }
}

pub fn warnings(spec: &JobSpec) -> Option<String> {
    let single = spec.periodic.as_ref().is_some_and(|p| !p.spec.is_empty());
    single.then(|| "cron is deprecated and may be removed in a future release. Use crons instead".into())
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::super::{Limits, validate};
    use super::*;

    fn every(spec: &str) -> Periodic {
        Periodic {
            enabled: true,
            spec: String::new(),
            specs: vec![spec.into()],
            prohibit_overlap: false,
            time_zone: Periodic::UTC.into(),
        }
    }

    #[test]
    fn invalid_periodic_blocks_are_told() {
        let good = every("*/5 * * * *");
        for (job_type, periodic, why) in [
            (JobType::Batch, good.clone(), None),
            (JobType::Sysbatch, good.clone(), None),
            (
                JobType::Service,
                good.clone(),
                Some("Periodic can only be used with \"batch\" or \"sysbatch\""),
            ),
            (JobType::Batch, Periodic { specs: vec![], ..good.clone() }, Some("Must specify a spec")),
            (JobType::Batch, Periodic { spec: "@daily".into(), ..good.clone() }, Some("Only cron or crons")),
            (JobType::Batch, every("* * *"), Some("Invalid cron spec \"* * *\": it has 3 fields")),
            (
                JobType::Batch,
                Periodic { time_zone: "Mars/Olympus".into(), ..good.clone() },
                Some("Invalid time zone \"Mars/Olympus\""),
            ),
            (
                JobType::Batch,
                Periodic { time_zone: "A".repeat(9_999), ..good.clone() },
                Some("AAA...\": this machine knows no such zone"),
            ),
            (JobType::Batch, Periodic { specs: vec!["@daily".into(); 64], ..good.clone() }, None),
            (
                JobType::Batch,
                Periodic { specs: vec!["@daily".into(); 65], ..good.clone() },
                Some("crons has 65 expressions; at most 64 are allowed"),
            ),
            (JobType::Batch, Periodic { enabled: false, ..every("nonsense") }, None),
        ] {
            let spec = JobSpec { periodic: Some(periodic.clone()), ..job(job_type) };
            let told = validate(&spec, &Limits::default()).error_text();
            match why {
                Some(why) => assert!(told.contains(why), "{periodic:?}: {told}"),
                None => assert_eq!(told, "", "{periodic:?}"),
            }
        }
    }

    #[test]
    fn the_older_spelling_is_warned_of() {
        let old = Periodic { spec: "@daily".into(), specs: vec![], ..every("") };
        let warned = |periodic| {
            let spec = JobSpec { periodic: Some(periodic), ..job(JobType::Batch) };
            validate(&spec, &Limits::default()).warning_text().contains("cron is deprecated")
        };
        assert!(warned(old) && !warned(every("@daily")));
    }

    #[test]
    fn parameterized_blocks_have_rules_of_their_own() {
        use crate::dispatch::{DispatchPayload, Parameterized, PayloadRule};
        let rules = |required: &[&str], optional: &[&str]| Parameterized {
            payload: PayloadRule::Optional,
            meta_required: required.iter().map(ToString::to_string).collect(),
            meta_optional: optional.iter().map(ToString::to_string).collect(),
        };
        for (job_type, rules, file, why) in [
            (JobType::Batch, rules(&["a"], &["b"]), "in/put", ""),
            (JobType::Sysbatch, rules(&[], &[]), "", ""),
            (JobType::Service, rules(&[], &[]), "", "Parameterized job can only be used with \"batch\""),
            (JobType::System, rules(&[], &[]), "", "Parameterized job can only be used with \"batch\""),
            (JobType::Batch, rules(&["a", "b"], &["b"]), "", "Following keys exist in both: [b]"),
            (JobType::Batch, rules(&[], &[]), "../out", "Dispatch Payload validation failed: file escapes"),
        ] {
            let mut spec = JobSpec { parameterized: Some(rules), ..job(job_type) };
            let payload = DispatchPayload { file: file.into() };
            spec.groups[0].tasks[0].dispatch_payload = (!file.is_empty()).then_some(payload);
            let told = validate(&spec, &Limits::default()).error_text();
            assert!(told.contains(why) && told.is_empty() == why.is_empty(), "{why}: {told}");
        }
    }
}
