//! Why an agent does not start, or ends: in a sentence, and in the exit status by which a supervisor knows whether to start it again.
//!
//! Refuses to know what led to it.

use state::fault::Fault;
use state::store::OpenError;
use std::fmt;
use std::process::ExitCode;

/// Starting the same build once more cannot help. EX_CONFIG of sysexits(3), which systemd prints as CONFIG;
/// `RestartPreventExitStatus=` of systemd/drover.service names it.
const NEEDS_NEWER_BUILD: u8 = 78;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentFailure {
    Failed(String),
    /// What lies on the disk, or in the region's log, is of a build that is newer than this one.
    NeedsNewerBuild(String),
}

impl AgentFailure {
    pub fn exit_code(&self) -> ExitCode {
        match self {
            AgentFailure::Failed(_) => ExitCode::FAILURE,
            AgentFailure::NeedsNewerBuild(_) => ExitCode::from(NEEDS_NEWER_BUILD),
        }
    }

    /// A running server's. What its store really holds, only another process can tell.
    pub fn of_server(fault: &Fault) -> AgentFailure {
        match fault {
            Fault::Newer(_) => AgentFailure::NeedsNewerBuild(format!("{fault}; the agent ends; tasks go on")),
            _ => AgentFailure::Failed(format!(
                "{fault}; the agent ends, to be started again on what the disk really holds; tasks go on"
            )),
        }
    }

    /// A store does not open. `why`: with the store's path.
    pub fn of_open(error: &OpenError, why: String) -> AgentFailure {
        let is_newer = match error {
            OpenError::Format { found, known } => found > known,
            OpenError::Fault(fault) => matches!(fault, Fault::Newer(_)),
        };
        if is_newer { AgentFailure::NeedsNewerBuild(why) } else { AgentFailure::Failed(why) }
    }
}

impl fmt::Display for AgentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (AgentFailure::Failed(why) | AgentFailure::NeedsNewerBuild(why)) = self;
        f.write_str(why)
    }
}

impl From<String> for AgentFailure {
    fn from(why: String) -> Self {
        AgentFailure::Failed(why)
    }
}

impl From<&str> for AgentFailure {
    fn from(why: &str) -> Self {
        AgentFailure::Failed(why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::fault::Detail;

    fn faults() -> [(Fault, bool); 4] {
        let detail = || Detail { message: "so it is said".into(), may_have_changed: false };
        [
            (Fault::needs_level(3, 2), true),
            (Fault::Full(detail()), false),
            (Fault::Storage(detail()), false),
            (Fault::Corrupt(detail()), false),
        ]
    }

    fn exits_with(failure: &AgentFailure, status: u8) -> bool {
        format!("{:?}", failure.exit_code()) == format!("{:?}", ExitCode::from(status))
    }

    #[test]
    fn needing_a_newer_build_has_its_own_exit_status() {
        for (fault, is_newer) in faults() {
            let status = if is_newer { 78 } else { 1 };
            let running = AgentFailure::of_server(&fault);
            assert!(exits_with(&running, status), "{running:?}");
            assert!(running.to_string().contains(&fault.to_string()), "{running}");
            let opened = AgentFailure::of_open(&OpenError::Fault(fault), "the store".into());
            assert!(exits_with(&opened, status), "{opened:?}");
        }
        for (found, status) in [(2, 78), (0, 1)] {
            let opened = AgentFailure::of_open(&OpenError::Format { found, known: 1 }, "the store".into());
            assert!(exits_with(&opened, status), "format {found}: {opened:?}");
        }
        assert!(exits_with(&AgentFailure::from("no such file"), 1));
    }
}
