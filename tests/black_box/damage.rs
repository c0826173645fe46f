//! A data directory that somebody else uses, a newer drover wrote or the disk has damaged: refused with a sentence, and
//! never emptied.

use crate::node::{Node, path};
use rustix::process::Signal;
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn stop(node: &mut Node) {
    node.signal(Signal::TERM);
    assert!(node.await_end().0.success());
}

/// Starts the agent on the directory; gives the sentence with which it ends.
#[track_caller]
fn refusal(node: &mut Node) -> String {
    ends_with(1, node)
}

fn ends_with(code: i32, node: &mut Node) -> String {
    let config = node.data_dir().with_file_name("agent.hcl");
    node.spawn(&["agent", "-config", path(&config)]);
    let (status, printed) = node.await_end();
    assert_eq!(status.code(), Some(code), "{printed}");
    assert!(!printed.contains("panicked"), "{printed}");
    printed
}

/// As an agent names it: a server's state is of several files.
fn named(state: &Path) -> &str {
    match state.parent().filter(|dir| dir.ends_with("server")) {
        Some(dir) => path(dir),
        None => path(state),
    }
}

#[test]
fn the_directory_is_the_owners_alone() {
    let node = Node::durable();
    let mode = |name: &str| {
        let path = node.data_dir().join(name);
        fs::metadata(&path).unwrap_or_else(|e| panic!("{name}: {e}")).permissions().mode() & 0o777
    };
    assert_eq!([mode(""), mode("server"), mode("client"), mode("keeper")], [0o700; 4]);
    for file in ["server/state.0", "server/state.1", "client/log.0", "client/log.1", "client/secret-id"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
}

#[test]
fn a_second_agent_is_refused() {
    let node = Node::durable();
    let mut second = Node::new();
    let config = fs::read_to_string(second.data_dir().with_file_name("agent.hcl")).expect("a file");
    let config = config.replace(path(&second.data_dir()), path(&node.data_dir()));
    second.write("agent.hcl", &config);
    let said = refusal(&mut second);
    assert!(said.contains("another drover agent is using it"), "{said}");
    assert_eq!(node.get("/v1/jobs").status, 200);
}

#[test]
fn a_newer_format_is_refused() {
    let mut node = Node::durable();
    stop(&mut node);
    fs::write(node.data_dir().join("format"), "99\n").expect("written");
    // as systemd/drover.service names it: the same build need not be started again
    let said = ends_with(78, &mut node);
    assert!(said.contains("format 99") && said.contains("newer drover"), "{said}");
    fs::write(node.data_dir().join("format"), "x").expect("written");
    let said = refusal(&mut node);
    assert!(said.contains("format number"), "{said}");
}

#[test]
fn a_damaged_state_is_refused_and_kept() {
    for (file, offset) in [("server/state.0", 0), ("server/state.0", 64)] {
        let mut node = Node::durable();
        node.run("kept", "sleep 1000");
        node.await_alloc("kept", "running");
        node.kill();
        let state = node.data_dir().join(file);
        let mut bytes = OpenOptions::new().write(true).open(&state).expect("a file");
        bytes.seek(SeekFrom::Start(offset)).expect("a place");
        bytes.write_all(&[0xa5; 512]).expect("written");
        drop(bytes);
        let before = fs::read(&state).expect("a file");
        let said = refusal(&mut node);
        assert!(said.contains(named(&state)), "{file} at {offset}: {said}");
        let after = fs::read(&state).expect("a file");
        assert!(before == after, "{file} at {offset} was changed");
    }
}

/// One bit of every page, after a crash and after an end in good order.
#[test]
fn rot_is_refused_and_kept() {
    for file in ["server/state.0", "client/log.0"] {
        for killed in [true, false] {
            let mut node = Node::durable();
            node.run("kept", "sleep 1000");
            node.await_alloc("kept", "running");
            if killed {
                node.kill()
            } else {
                stop(&mut node)
            }
            let state = node.data_dir().join(file);
            let sound = fs::read(&state).expect("a file");
            let mut rotten = sound.clone();
            rotten.iter_mut().skip(4096 + 20).step_by(4096).for_each(|byte| *byte ^= 1);
            fs::write(&state, &rotten).expect("written");
            let said = refusal(&mut node);
            assert!(said.contains(named(&state)) && said.contains("is damaged"), "{said}");
            assert!(said.contains("restore it"), "{said}");
            assert!(fs::read(&state).expect("a file") == rotten, "{file} was changed");
            fs::write(&state, &sound).expect("written");
            node.start();
            node.await_alloc("kept", "running");
        }
    }
}

/// What becomes of a file's bytes; `None`: of the file.
type Harm<'a> = &'a dyn Fn(&[u8]) -> Option<Vec<u8>>;

#[test]
fn a_log_that_is_gone_cut_or_rotten_is_refused_and_kept() {
    let rotten = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.iter_mut().skip(20).step_by(4096).for_each(|byte| *byte ^= 1);
        Some(bytes)
    };
    let cut = |bytes: &[u8]| Some(bytes[..4096].to_vec());
    let (empty, gone) = (|_: &[u8]| Some(vec![]), |_: &[u8]| None);
    let harms: [Harm<'_>; 4] = [&rotten, &cut, &empty, &gone];
    let mut node = Node::durable();
    node.run("kept", "sleep 1000");
    node.await_alloc("kept", "running");
    node.kill();
    let client = "/client/log.0: ";
    let cases: [(&str, &str, &[Harm<'_>]); 3] = [
        ("server/log.0", "/server: ", &harms),
        ("client/log.0", client, &harms[..3]),
        ("client/log.1", client, &harms[3..]),
    ];
    for (file, place, harms) in cases {
        let log = node.data_dir().join(file);
        let sound = fs::read(&log).expect("a file");
        for harm in harms {
            let harmed = harm(&sound);
            match &harmed {
                Some(bytes) => fs::write(&log, bytes).expect("written"),
                None => fs::remove_file(&log).expect("removed"),
            }
            let said = refusal(&mut node);
            assert!(said.contains(place) && said.contains("log") && said.contains("restore"), "{said}");
            assert!(fs::read(&log).ok() == harmed, "{file} was changed");
        }
        fs::write(&log, &sound).expect("written");
    }
    node.start();
    node.await_alloc("kept", "running");
}

#[test]
fn an_empty_or_cut_state_is_not_taken_for_a_new_one() {
    for file in ["server/state.0", "client/log.0"] {
        for length in [0, 100, 4096] {
            let mut node = Node::durable();
            node.run("kept", "sleep 1000");
            node.await_alloc("kept", "running");
            node.kill();
            let state = node.data_dir().join(file);
            OpenOptions::new().write(true).open(&state).expect("a file").set_len(length).expect("cut");
            let said = refusal(&mut node);
            assert!(said.contains(named(&state)), "{file} of {length} bytes: {said}");
        }
    }
}

/// The state is in one slot and the other one is empty: neither may be missing, and the state of a draft is told from both.
#[test]
fn a_slot_that_is_gone_or_a_drafts_state_is_refused() {
    let mut node = Node::durable();
    node.run("kept", "sleep 1000");
    node.await_alloc("kept", "running");
    stop(&mut node);
    let file = |name: &str| node.data_dir().join("server").join(name);
    let (first, second, draft) = (file("state.0"), file("state.1"), file("state.redb"));
    fs::remove_file(&second).expect("removed");
    let said = refusal(&mut node);
    assert!(said.contains("state.1 is missing") && !second.exists(), "{said}");
    fs::rename(&first, &second).expect("renamed");
    let said = refusal(&mut node);
    assert!(said.contains("state.0") && said.contains("is missing beside state.1"), "{said}");
    fs::rename(&second, &first).expect("renamed");
    fs::write(&second, []).expect("written");
    fs::write(&draft, "x").expect("written");
    let said = refusal(&mut node);
    assert!(said.contains("state.redb is of a draft of drover"), "{said}");
    fs::remove_file(&draft).expect("removed");
    node.start();
    node.await_alloc("kept", "running");
}

#[test]
fn a_place_that_cannot_hold_data_is_told() {
    let mut node = Node::new();
    let file = node.write("file", "");
    for (place, sentence) in [
        (path(&file), "cannot be created"),
        ("relative/path", "absolute"),
        ("/proc/drover", "cannot be created"),
        ("/dev/null/x", "cannot be created"),
    ] {
        let config = format!(
            "data_dir = \"{place}\"\nbind_addr = \"127.0.0.1\"\nports {{ http = {} }}\n\
             server {{\n enabled = true\n bootstrap_expect = 1\n}}\nclient {{ enabled = true }}\n",
            node.port
        );
        node.write("agent.hcl", &config);
        let said = refusal(&mut node);
        assert!(said.contains(sentence) && said.contains(place), "{place}: {said}");
    }
}
