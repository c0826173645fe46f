//! Samples of commands beside tasks: what is asked for, what is said in a session, and tasks that have some prepared.

use super::Samples;
use model::job::{JobSpec, TaskAction};
use state::samples::{alloc_id, spec};
use wire::client_rpc::{ClientRequest, SessionInput, SessionOutput};

fn acting() -> JobSpec {
    let mut spec = spec("acting", 1);
    let args = vec!["-c".to_string(), "echo $1".to_string()];
    spec.groups[0].tasks[0].actions =
        vec![TaskAction { name: "flush".into(), command: "/bin/sh".into(), args }, TaskAction::default()];
    spec
}

pub fn sessions(s: &mut Samples) {
    let command = vec!["sh".to_string(), "-i".to_string()];
    s.add("exec", &ClientRequest::Exec { alloc: alloc_id(1), task: "t".into(), command, tty: true });
    s.add(
        "action",
        &ClientRequest::Action { alloc: alloc_id(1), task: "t".into(), action: "flush".into(), tty: true },
    );
    s.add::<JobSpec>("actions", &acting());
    s.add("stdin", &SessionInput::Stdin(vec![1, 2]));
    s.add("close stdin", &SessionInput::CloseStdin);
    s.add("size", &SessionInput::Size { rows: 24, columns: 300 });
    s.add("stdout", &SessionOutput::Stdout(vec![1, 2]));
    s.add("stderr", &SessionOutput::Stderr(vec![1, 2]));
    s.add("exited", &SessionOutput::Exited { code: 137 });
    s.add("failed", &SessionOutput::Failed { why: "no".into() });
}
