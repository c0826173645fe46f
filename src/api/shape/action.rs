//! Actions of tasks as JSON: within a job, and in the list of a job's actions (jobspec.md 3.3, http-api.md 1.1.24).

use model::job::{JobSpec, TaskAction};
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ActionShape<'a> {
    name: &'a str,
    command: &'a str,
    args: Option<&'a [String]>,
    /// In a list only, as the group's: within a job it stands in its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_group_name: Option<&'a str>,
}

impl<'a> ActionShape<'a> {
    pub fn new(action: &'a TaskAction) -> Self {
        ActionShape {
            name: &action.name,
            command: &action.command,
            args: Some(action.args.as_slice()).filter(|args| !args.is_empty()),
            task_name: None,
            task_group_name: None,
        }
    }

    /// In the order of the job.
    pub fn of_job(spec: &'a JobSpec) -> Vec<Self> {
        let mut all = Vec::new();
        for group in &spec.groups {
            for task in &group.tasks {
                let (task_name, task_group_name) = (Some(task.name.as_str()), Some(group.name.as_str()));
                let listed = |action| ActionShape { task_name, task_group_name, ..ActionShape::new(action) };
                all.extend(task.actions.iter().map(listed));
            }
        }
        all
    }
}
