//! What a user sees on a terminal: a page that is drawn again in place, never higher or wider than the terminal; in a pipe plain lines.

use crate::job_file::JobFile;
use crate::node::{Node, path};
use crate::wait;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::Stdio;

const ROWS: u16 = 6;
const COLUMNS: u16 = 40;

/// A terminal of six short lines: our end, and the program's.
fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("it can be opened");
    let name = ptsname(&ours, Vec::new()).expect("its name");
    let name = name.into_string().expect("text");
    let theirs = OpenOptions::new().read(true).write(true).open(name).expect("its other end");
    let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).expect("its size");
    (File::from(ours), theirs)
}

/// What a command writes on a terminal, to its end.
fn seen(node: &Node, args: &[&str]) -> String {
    let (mut ours, theirs) = terminal();
    let mut command = node.drover_command(args);
    let mut child = command.stdin(Stdio::null()).stdout(theirs).spawn().expect("it runs");
    // or the terminal would never end
    drop(command);
    let mut out = Vec::new();
    if let Err(e) = ours.read_to_end(&mut out) {
        assert_eq!(e.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{:?}", e.kind());
    }
    assert!(child.wait().expect("its end").success(), "{args:?}");
    String::from_utf8_lossy(&out).replace("\r\n", "\n")
}

#[test]
fn a_terminal_is_drawn_on_in_place_and_a_pipe_gets_plain_lines() {
    let node = Node::dev();
    // deaf to its signal: stopping takes until the kill timeout, so that there is more than one look at it, also where the first one
    // comes seconds late
    let script = "trap '' INT; echo deaf; while :; do sleep 0.05; done";
    let job =
        JobFile { in_group: "count = 9", in_task: "kill_timeout = \"8s\"", ..JobFile::new("many", script) };
    let file = node.write("many.nomad.hcl", &job.text());
    let run = seen(&node, &["job", "run", path(&file)]);
    assert!(run.contains(" is complete, of") && run.contains("finished with status"), "{run:?}");
    let piped = node.drover(&["job", "eval", "many"]);
    assert!(!piped.exits(0).contains('\x1b') && piped.out.contains("Monitoring evaluation"), "{piped:?}");
    node.drover(&["job", "status", "-monitor", "many"]).fails(1, "-monitor needs a terminal");
    node.drover(&["job", "status", "-monitor"]).fails(1, "-monitor is for one job");

    wait::until("a task is deaf", || node.stdout("many").contains("deaf").then_some(()));
    let stop = seen(&node, &["job", "stop", "many"]);
    assert!(stop.contains("finished with status \"complete\""), "{stop:?}");
    let frames: Vec<&str> =
        stop.split("\x1b[?7l").skip(1).map(|f| f.split("\x1b[J").next().unwrap_or(f)).collect();
    assert!(frames.len() > 1 && frames[1..].iter().all(|f| f.starts_with("\r\x1b[")), "in place: {stop:?}");
    for frame in frames {
        let lines: Vec<&str> = frame.split("\x1b[K\n").filter(|line| !line.is_empty()).collect();
        assert!(lines.len() < usize::from(ROWS), "no higher than the screen: {frame:?}");
        let bare = |line: &str| line.rsplit('m').next().map_or(0, |text| text.chars().count());
        assert!(lines.iter().all(|line| bare(line) <= usize::from(COLUMNS)), "nor wider: {frame:?}");
    }
    let dead = seen(&node, &["job", "status", "-monitor", "many"]);
    assert!(dead.contains("Job \"many\" (service) is dead (stopped)"), "{dead:?}");
}
