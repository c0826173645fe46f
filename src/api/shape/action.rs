//! Actions of tasks as JSON, in the list of a job's actions (jobspec.md 3.3, http-api.md 1.1.24).

use super::block::BlockShape;
use model::job::{JobSpec, TaskAction};
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ActionShape<'a> {
    #[serde(flatten)]
    fields: BlockShape<'a>,
    task_name: &'a str,
    task_group_name: &'a str,
}

impl<'a> ActionShape<'a> {
    /// In the order of the job.
    pub fn of_job(spec: &'a JobSpec) -> Vec<Self> {
        let mut all = Vec::new();
        for group in &spec.groups {
            for task in &group.tasks {
                let (task_name, task_group_name) = (task.name.as_str(), group.name.as_str());
                let listed = |action: &'a TaskAction| {
                    let fields = BlockShape::new(action);
                    ActionShape { fields, task_name, task_group_name }
                };
                all.extend(task.actions.iter().map(listed));
            }
        }
        all
    }
}
