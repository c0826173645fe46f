//! Job files as their authors write them: one group `g`, one task `t` that runs a line of shell.

/// What such a file says; lines of the author's own go into the job, its group and its task.
#[derive(Clone, Copy)]
pub struct JobFile<'a> {
    pub id: &'a str,
    pub script: &'a str,
    pub in_job: &'a str,
    pub in_group: &'a str,
    pub in_task: &'a str,
    /// An expression.
    pub memory: &'a str,
}

impl<'a> JobFile<'a> {
    pub fn new(id: &'a str, script: &'a str) -> JobFile<'a> {
        JobFile { id, script, in_job: "", in_group: "", in_task: "", memory: "16" }
    }

    pub fn text(&self) -> String {
        let JobFile { id, script, in_job, in_group, in_task, memory } = self;
        format!(
            "job {id:?} {{\n  {in_job}\n  group \"g\" {{\n    {in_group}\n    task \"t\" {{\n      driver = \"raw_exec\"\n      \
             {in_task}\n      config {{\n        command = \"/bin/sh\"\n        args    = [\"-c\", {script:?}]\n      }}\n      \
             resources {{\n        cpu    = 20\n        memory = {memory}\n      }}\n    }}\n  }}\n}}\n"
        )
    }
}
