//! `drover job init`: a job file to begin with.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::{Session, refuse_unsupported};
use argh::{ArgsInfo, FromArgs};
use std::io::Write as _;
use std::process::ExitCode;

const DEFAULT_PATH: &str = "example.nomad.hcl";

/// write an example of a job file, with remarks on what each part is for
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job init -short cache.nomad.hcl")]
pub struct JobInitCommand {
    /// without the remarks
    #[argh(switch)]
    short: bool,
    /// an example of the service mesh (not supported yet)
    #[argh(switch)]
    connect: bool,
    /// a template that the servers keep (not supported yet)
    #[argh(option)]
    template: Option<String>,
    /// list the templates that the servers keep (not supported yet)
    #[argh(switch)]
    list_templates: bool,
    /// path of the file to write (default example.nomad.hcl)
    #[argh(positional)]
    path: Option<String>,
}

impl CliCommand for JobInitCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        refuse_unsupported(&[
            (self.connect, "-connect"),
            (self.template.is_some(), "-template"),
            (self.list_templates, "-list-templates"),
        ])?;
        let path = self.path.as_deref().unwrap_or(DEFAULT_PATH);
        let fail = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                CommandError::new(format!("Job file {path:?} already exists"))
            }
            _ => CommandError::new(format!("Job file {path:?} cannot be written: {e}")),
        };
        let mut file = std::fs::File::create_new(path).map_err(fail)?;
        file.write_all(template(self.short).as_bytes()).map_err(fail)?;
        session.out.line(&format!("Example job file written to {path}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The example; `short`: without its remarks.
fn template(short: bool) -> String {
    let is_remark = |line: &&str| line.trim_start().starts_with('#');
    let lines = EXAMPLE.lines().filter(|line| !(short && is_remark(line)));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    text.trim_start().to_string()
}

const EXAMPLE: &str = r#"# A job is what you ask the servers to keep running. `drover job run` submits it, `drover job status` shows it.

job "example" {
  # "service" runs for ever, "batch" until it is done; "system" and "sysbatch" are their kin on every node.
  type = "service"

  # Globs of the datacenters that it may run in.
  datacenters = ["*"]

  # Tasks of a group run together on one node. Each instance of a group is an allocation.
  group "web" {
    count = 1

    # What the node does when a task ends: here at most two new starts within half an hour.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    task "server" {
      # How the task is run: raw_exec starts a program of the node.
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do date; sleep 10; done"]
      }

      # Added to the task's environment. ${} refers to what the node knows when the task starts.
      env {
        NODE = "${node.unique.name}"
      }

      # What placing counts with: MHz and MiB.
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_examples_are_the_same_valid_job() {
        let parse = |short| {
            let parsed = jobspec::parse("example", &template(short), &jobspec::Vars::default(), None);
            assert_eq!((parsed.diagnostics.len(), parsed.not_supported.len()), (0, 0));
            parsed.job.expect("a job")
        };
        assert_eq!(parse(true), parse(false));
        assert!(template(false).contains('#') && !template(true).contains('#'));
    }
}
