//! A deployment as the command line shows it: what it is, and how far each group has come (cli.md 3.2.4, 3.7). Pure but for
//! the look at the API.

use crate::deployment::shapes::{DeployedGroup, Deployment};
use crate::error::CommandResult;
use crate::render::layout;
use crate::render::screen::ScreenText;
use crate::session::Session;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

impl Deployment {
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "failed" | "successful" | "cancelled" | "blocked")
    }
}

impl Session {
    /// The deployment with this id, or the only one whose id begins so.
    pub fn deployment_id(&self, prefix: &str) -> CommandResult<String> {
        let table = |many: &[Deployment]| table(many, false);
        self.only(prefix, "/v1/deployments", "deployment", |d: &Deployment| &d.id, table)
    }
}

pub fn table(deployments: &[Deployment], verbose: bool) -> String {
    let row = |d: &Deployment| {
        vec![
            layout::id(&d.id, verbose),
            d.job_id.clone(),
            d.job_version.to_string(),
            d.status.clone(),
            d.status_description.clone(),
        ]
    };
    let header = ["ID", "Job ID", "Job Version", "Status", "Description"];
    layout::table(&header, &deployments.iter().map(row).collect::<Vec<_>>())
}

/// All of it.
pub fn page(deployment: &Deployment, zone: &TimeZone, verbose: bool) -> ScreenText {
    let mut page = ScreenText::default();
    page.text(&layout::key_values(&[
        ("ID", layout::id(&deployment.id, verbose)),
        ("Job ID", deployment.job_id.clone()),
        ("Job Version", deployment.job_version.to_string()),
        ("Status", deployment.status.clone()),
        ("Description", deployment.status_description.clone()),
    ]));
    deployed(&mut page, deployment, zone);
    page
}

/// As a part of its job's page.
pub fn latest(page: &mut ScreenText, deployment: &Deployment, zone: &TimeZone, verbose: bool) {
    page.section("Latest Deployment");
    page.text(&layout::key_values(&[
        ("ID", layout::id(&deployment.id, verbose)),
        ("Status", deployment.status.clone()),
        ("Description", deployment.status_description.clone()),
    ]));
    deployed(page, deployment, zone);
}

fn deployed(page: &mut ScreenText, deployment: &Deployment, zone: &TimeZone) {
    if deployment.task_groups.is_empty() {
        return;
    }
    page.section("Deployed");
    page.text(&groups(&deployment.task_groups, zone));
}

/// Columns that say nothing of any group are left out.
fn groups(groups: &BTreeMap<String, DeployedGroup>, zone: &TimeZone) -> String {
    let any = |says: fn(&DeployedGroup) -> bool| groups.values().any(says);
    let (reverts, canaries) = (any(|g| g.auto_revert), any(|g| g.desired_canaries > 0));
    let deadline = any(|g| g.require_progress_by.is_some());
    let mut header = vec!["Task Group"];
    header.extend(reverts.then_some("Auto Revert"));
    header.extend(canaries.then_some("Promoted"));
    header.push("Desired");
    header.extend(canaries.then_some("Canaries"));
    header.extend(["Placed", "Healthy", "Unhealthy"]);
    header.extend(deadline.then_some("Progress Deadline"));
    let row = |(name, g): (&String, &DeployedGroup)| {
        let mut row = vec![name.clone()];
        row.extend(reverts.then(|| g.auto_revert.to_string()));
        row.extend(canaries.then(|| match g.desired_canaries {
            0 => "N/A".to_string(),
            _ => g.promoted.to_string(),
        }));
        row.push(g.desired_total.to_string());
        row.extend(canaries.then(|| g.desired_canaries.to_string()));
        row.extend([g.placed_allocs, g.healthy_allocs, g.unhealthy_allocs].map(|n| n.to_string()));
        row.extend(deadline.then(|| {
            let by = g.require_progress_by.as_deref().unwrap_or_default();
            layout::time(layout::unix_nanos(by), zone)
        }));
        row
    };
    layout::table(&header, &groups.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> DeployedGroup {
        DeployedGroup {
            desired_total: 2,
            placed_allocs: 2,
            healthy_allocs: 1,
            require_progress_by: Some("2024-05-01T08:31:00Z".into()),
            ..DeployedGroup::default()
        }
    }

    #[test]
    fn groups_are_laid_out_as_their_reference() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let shown = groups(&[("g".to_string(), group())].into(), &zone);
        let expected = "\
Task Group  Desired  Placed  Healthy  Unhealthy  Progress Deadline
g           2        2       1        0          2024-05-01T10:31:00+02:00
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn columns_appear_when_a_group_has_something_to_say_there() {
        let canary =
            DeployedGroup { auto_revert: true, desired_canaries: 1, require_progress_by: None, ..group() };
        let plain = DeployedGroup { require_progress_by: None, ..group() };
        let shown = groups(&[("a".to_string(), canary), ("b".to_string(), plain)].into(), &TimeZone::UTC);
        let expected = "\
Task Group  Auto Revert  Promoted  Desired  Canaries  Placed  Healthy  Unhealthy
a           true         false     2        1         2       1        0
b           false        N/A       2        0         2       1        0
";
        assert_eq!(shown, expected);
    }
}
