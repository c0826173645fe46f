//! Names and paths of those who mean no good: what a task plants in its own directory, what callers write in a path, and
//! what a job calls itself. None leads to a file that is not the allocation's to show, and every refusal is a sentence.

use crate::node::{Node, shell_job, text};
use crate::{wait, web};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What nobody may see.
const SECRET: &str = "not yours to read";

/// A running allocation, and its directory.
struct Place {
    node: Node,
    id: String,
    dir: PathBuf,
}

impl Place {
    fn new() -> Place {
        let node = Node::durable();
        node.run("place", "echo here; echo hello > local/f; echo pid $$; sleep 1000");
        let id = text(&node.await_alloc("place", "running")["ID"]).to_string();
        node.await_pid("place");
        let dir = node.data_dir().join("alloc").join(&id);
        fs::write(dir.join("t/secrets/token"), SECRET).expect("written");
        node.write("outside", SECRET);
        Place { node, id, dir }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    /// `query` is encoded already.
    #[track_caller]
    fn ask(&self, how: &str, query: &str) -> web::Answer {
        let answer = self.node.get(&format!("/v1/client/fs/{how}/{}?{query}", self.id));
        assert!(!answer.text().contains(SECRET), "{how} {query}");
        answer
    }

    /// Every way to look at this path is refused with one of these.
    #[track_caller]
    fn refused(&self, path: &str, statuses: &[u16]) {
        for how in ["ls", "stat", "cat", "readat", "stream"] {
            let answer = self.ask(how, &format!("path={path}&follow=false"));
            assert!(statuses.contains(&answer.status), "{how} {path}: {} {}", answer.status, answer.text());
            assert!((1..2000).contains(&answer.body.len()), "{how} {path}: {:.200}", answer.text());
        }
    }
}

fn special(path: &Path, kind: FileType, device: u64) {
    mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device).expect("made");
}

#[test]
fn no_path_that_a_caller_writes_leads_out() {
    let place = Place::new();
    for path in [
        "..",
        "../",
        "../../../../../../etc/passwd",
        "%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "t/local/../../../../outside",
        "./t/./../..",
        "%2F..%2F..",
    ] {
        place.refused(path, &[500]);
    }
    // absolute, encoded twice, with a parameter, and letters that look like dots and slashes: names that nothing has
    for path in [
        "/etc/passwd",
        "//etc//passwd",
        "%252e%252e%252fetc%252fpasswd",
        "..;/",
        "..;/..;/etc/passwd",
        "%e2%80%a4%e2%80%a4/etc",
        "%ef%bc%8fetc",
        "%e2%88%95etc",
        "t%5c..%5c..%5coutside",
        "t/local/f%0a",
        "t/local/f%20",
        "~/x",
        "$HOME",
        "file:///etc/passwd",
        "t/local/f/.",
        "t/local/f/..",
    ] {
        place.refused(path, &[404]);
    }
    for path in ["t/local/f%00", "%00", "%", "%zz", "%ff", &"a/".repeat(2100), &"a/".repeat(9000)] {
        place.refused(path, &[400]);
    }
    place.refused(&"a".repeat(300), &[500]);
    for id in ["..", "%2e%2e%2f", "..;/", "/", "%00", "x", &place.id[..8]] {
        for how in ["ls", "cat", "logs"] {
            let target = format!("/v1/client/fs/{how}/{id}?path=/&task=t&type=stdout");
            let answer = place.node.get(&target);
            assert!(matches!(answer.status, 400 | 404), "{target}: {} {}", answer.status, answer.text());
        }
    }
    assert_eq!(place.ask("cat", "path=t/local/f").text(), "hello\n", "it still answers");
    assert_eq!(place.ask("cat", "path=%74%2flocal%2F%66").text(), "hello\n");
}

#[test]
fn links_that_a_task_plants_lead_nowhere_else() {
    let place = Place::new();
    let links = [
        ("alloc/passwd", "/etc/passwd"),
        ("alloc/self", "/proc/self/environ"),
        ("alloc/one", "two"),
        ("alloc/two", "../t/local/three"),
        ("t/local/three", "../../../../../outside"),
        ("t/local/root", "/"),
        ("t/local/loop", "loop"),
    ];
    for (link, target) in links {
        symlink(target, place.at(link)).expect("a link");
    }
    for (link, _) in links {
        place.refused(link, &[500]);
    }
    place.refused("t/local/root/etc/passwd", &[500]);
    symlink("../secrets", place.at("t/local/chain")).expect("a link");
    symlink("chain/token", place.at("t/local/token")).expect("a link");
    for path in ["t/secrets/token", "t/local/token", "t/local/chain/token"] {
        for how in ["cat", "readat", "stream"] {
            assert_eq!(place.ask(how, &format!("path={path}")).status, 403, "{how} {path}");
        }
    }
    special(&place.at("alloc/pipe"), FileType::Fifo, 0);
    let _socket = UnixListener::bind(place.at("alloc/socket")).expect("a socket");
    let mut planted = vec!["alloc/pipe", "alloc/socket"];
    if rustix::process::geteuid().is_root() {
        // /dev/mem and /dev/zero: one that must not be read, and one without an end
        special(&place.at("alloc/mem"), FileType::CharacterDevice, rustix::fs::makedev(1, 1));
        special(&place.at("alloc/zero"), FileType::CharacterDevice, rustix::fs::makedev(1, 5));
        planted.extend(["alloc/mem", "alloc/zero"]);
    }
    for path in planted {
        assert_eq!(place.ask("stat", &format!("path={path}")).status, 200, "{path}");
        for how in ["cat", "readat", "stream", "ls"] {
            assert_eq!(place.ask(how, &format!("path={path}")).status, 400, "{how} {path}");
        }
    }
    let listed = place.ask("ls", "path=alloc").json();
    assert!(listed.as_array().is_some_and(|l| l.len() >= 8), "links and pipes are listed: {listed}");
}

#[test]
fn files_of_odd_names_and_sizes_are_files() {
    let place = Place::new();
    for name in
        ["..;", "%2e%2e", "a\nb", "\u{1b}[2J", "\u{202e}txt", ".hidden", "...", "\u{2024}\u{2024}", "-rf"]
    {
        fs::write(place.at("t/local").join(name), name).expect("written");
        let encoded: String = name.bytes().map(|b| format!("%{b:02x}")).collect();
        assert_eq!(place.ask("cat", &format!("path=t/local/{encoded}")).text(), name);
    }
    fs::write(place.at("t/local").join(std::ffi::OsStr::from_bytes(b"\xff")), "x").expect("written");
    let listed = place.ask("ls", "path=t/local").json();
    assert_eq!(listed.as_array().map(Vec::len), Some(11));
    let said = place.node.drover(&["alloc", "fs", &place.id, "t/local"]);
    assert_eq!(said.exits(0).lines().count(), 12, "a name is no second row: {said:?}");
    assert!(!said.out.contains(['\u{1b}', '\u{202e}']), "a name moves no cursor: {said:?}");
    // a tebibyte of nothing
    File::create(place.at("t/local/sparse")).and_then(|f| f.set_len(1 << 40)).expect("a sparse file");
    assert_eq!(place.ask("stat", "path=t/local/sparse").json()["Size"], json!(1_u64 << 40));
    let middle = place.ask("readat", &format!("path=t/local/sparse&limit=5&offset={}", 1_u64 << 39));
    assert_eq!(middle.body, [0; 5]);
    let end = place.ask("readat", "path=t/local/sparse&origin=end&offset=3");
    assert_eq!(end.body, [0; 3]);
    for beyond in [1_u64 << 40, 1 << 62, u64::MAX >> 1] {
        let answer = place.ask("readat", &format!("path=t/local/sparse&offset={beyond}"));
        assert!(answer.body.is_empty() || answer.status != 200, "{beyond}: {}", answer.status);
    }
    for (query, status) in
        [("offset=-1", 400), ("offset=9999999999999999999999", 400), ("origin=../end", 400)]
    {
        assert_eq!(place.ask("readat", &format!("path=t/local/f&{query}")).status, status, "{query}");
    }
}

/// A directory is swapped for a link to somewhere else, again and again, while it is listed and read.
#[test]
fn a_directory_swapped_for_a_link_leaks_nothing() {
    let place = Place::new();
    let (dir, link) = (place.at("t/local/d"), place.at("t/local/other"));
    fs::create_dir(&dir).expect("made");
    for name in ["token", "outside"] {
        fs::write(dir.join(name), "plain").expect("written");
    }
    for target in ["../secrets", "../../../../.."] {
        symlink(target, &link).expect("a link");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).expect("swapped");
                }
            });
            for _ in 0..150 {
                for name in ["token", "outside"] {
                    // `ask` sees to it that it is no secret
                    let answer = place.ask("cat", &format!("path=t/local/d/{name}"));
                    assert!(answer.status != 200 || answer.text() == "plain", "{}", answer.text());
                }
                let listed = place.ask("ls", "path=t/local/d").text();
                assert!(!listed.contains("data") && !listed.contains("agent.hcl"), "{listed}");
            }
            done.store(true, Ordering::Relaxed);
        });
        let path = if link.is_symlink() { &link } else { &dir };
        fs::remove_file(path).expect("removed");
        if !dir.exists() {
            fs::rename(&link, &dir).expect("moved back");
        }
    }
}

#[test]
fn logs_are_those_of_the_task_that_is_named() {
    let place = Place::new();
    let logs = place.at("alloc/logs");
    fs::write(logs.join("%2e.stdout.0"), SECRET).expect("written");
    for (task, kind) in [
        ("..", "stdout"),
        ("%2e%2e%2ft", "stdout"),
        ("t/../t", "stdout"),
        ("t%00", "stdout"),
        ("%252e", "stdout"),
        ("t.stdout.0%0a", "stdout"),
        ("t", "stdout/../../../t/secrets/token"),
        ("t", "%2e%2e%2fstdout"),
        ("t", "..;/"),
        ("t", "stdout.0"),
    ] {
        let answer = place.ask("logs", &format!("task={task}&type={kind}&plain=true"));
        assert_eq!(answer.status, 400, "{task} {kind}: {}", answer.text());
    }
    let talk = || place.ask("logs", "task=t&type=stdout&plain=true").text();
    assert!(talk().starts_with("here\n"), "{}", talk());
    // newer files of the same stream that are none
    symlink("../../../../../outside", logs.join("t.stdout.1")).expect("a link");
    special(&logs.join("t.stdout.2"), FileType::Fifo, 0);
    fs::create_dir(logs.join("t.stdout.3")).expect("made");
    assert!(talk().starts_with("here\n"), "{}", talk());
    fs::rename(&logs, place.at("alloc/moved")).expect("moved");
    symlink("moved", &logs).expect("a link");
    let answer = place.ask("logs", "task=t&type=stdout&plain=true");
    assert_ne!(answer.status, 200, "a link in the place of the logs is not followed: {}", answer.text());
}

/// What the keeper writes for a task goes into files that it made, not into what a task has put in their place.
#[test]
fn a_log_file_that_became_a_link_is_not_written_through() {
    let node = Node::durable();
    let outside = node.write("outside", SECRET);
    let script = "echo pid $$; until [ -e ../go ]; do sleep 0.05; done; \
                  n=0; while [ $n -lt 40000 ]; do echo 0123456789012345678901234567890123456789; n=$((n+1)); done; \
                  echo done >&2; sleep 1000";
    let mut job = shell_job("writes", script);
    job["TaskGroups"][0]["Tasks"][0]["LogConfig"] = json!({"MaxFiles": 3, "MaxFileSizeMB": 1});
    node.register(&job);
    let id = text(&node.await_alloc("writes", "running")["ID"]).to_string();
    node.await_pid("writes");
    let logs = node.data_dir().join("alloc").join(&id).join("alloc/logs");
    symlink(&outside, logs.join("t.stdout.1")).expect("a link");
    fs::hard_link(&outside, logs.join("t.stdout.2")).expect("a link");
    node.allow(&id);
    wait::until("the task has written", || {
        let said = node.get(&format!("/v1/client/fs/logs/{id}?task=t&type=stderr&plain=true"));
        said.text().contains("done").then_some(())
    });
    wait::until("the keeper has gone past its first file", || {
        (fs::metadata(logs.join("t.stdout.0")).ok()?.len() >= 1 << 19).then_some(())
    });
    assert_eq!(fs::read_to_string(&outside).expect("there"), SECRET);
}

#[test]
fn jobs_and_groups_named_like_paths_can_be_run_seen_and_stopped() {
    let node = Node::durable();
    for (name, group) in [
        ("../../../../tmp/x", "../g"),
        ("a/summary", "a/b"),
        ("a/allocations", ".."),
        ("/etc/passwd", "/"),
        ("a/plan", "."),
        ("%2e%2e%2f", "%00"),
        ("..;/..", "\u{2024}\u{2024}"),
        ("\u{ff0f}etc", "\u{202e}"),
        ("versions/1/tag", "g"),
    ] {
        let mut job = shell_job(name, "echo here; sleep 1000");
        job["TaskGroups"][0]["Name"] = json!(group);
        node.register(&job);
        let encoded: String = name.bytes().map(|b| format!("%{b:02x}")).collect();
        let alloc = wait::until("it runs", || {
            let allocs = node.get(&format!("/v1/job/{encoded}/allocations")).json();
            allocs[0].as_object().filter(|a| a["ClientStatus"] == "running").cloned()
        });
        assert_eq!(alloc["TaskGroup"], group);
        assert!(node.data_dir().join("alloc").join(text(&alloc["ID"])).join("t/local").is_dir(), "{name}");
        assert_eq!(node.get(&format!("/v1/job/{encoded}")).json()["ID"], name);
        assert_eq!(node.get(&format!("/v1/job/{encoded}/summary")).json()["JobID"], name);
        let status = node.drover(&["job", "status", name]);
        assert!(!status.exits(0).contains('\u{202e}'), "{status:?}");
        node.drover(&["job", "stop", "-purge", "-detach", name]).exits(0);
        wait::until("it is gone", || (node.get(&format!("/v1/job/{encoded}")).status == 404).then_some(()));
    }
}

#[test]
fn no_job_file_that_is_sent_reads_the_servers_files() {
    let node = Node::dev();
    let secret = node.write("outside", SECRET);
    for function in ["file", "filebase64", "templatefile"] {
        for path in [secret.to_str().expect("UTF-8"), "../outside", "/etc/passwd"] {
            let more = if function == "templatefile" { ", {}" } else { "" };
            let hcl = format!("job \"a\" {{ meta {{ x = {function}(\"{path}\"{more}) }} }}");
            let answer = node.put("/v1/jobs/parse", &json!({ "JobHCL": hcl }));
            assert_eq!(answer.status, 400, "{function} {path}: {}", answer.text());
            assert!(!answer.text().contains(SECRET) && !answer.text().contains("root:"), "{}", answer.text());
        }
    }
    for (member, value) in [
        ("Env", json!({"A\0B": "x"})),
        ("Env", json!({"A": "x\0y"})),
        ("Env", json!({"": "x"})),
        ("Env", json!({"A=B": "x"})),
        ("Meta", json!({"../a": "x\0"})),
    ] {
        let mut job = shell_job("env", "sleep 1000");
        job["TaskGroups"][0]["Tasks"][0][member] = value.clone();
        let answer = node.put("/v1/jobs", &json!({ "Job": job }));
        if answer.status == 200 {
            let ended = wait::until("it runs or fails", || {
                let alloc = node.allocs("env").first().cloned()?;
                let status = text(&alloc["ClientStatus"]).to_string();
                (status != "pending").then_some(status)
            });
            assert!(matches!(ended.as_str(), "running" | "failed"), "{member} {value}: {ended}");
            node.drover(&["job", "stop", "-purge", "-detach", "env"]).exits(0);
            wait::until("it is gone", || (node.get("/v1/job/env").status == 404).then_some(()));
        } else {
            assert!(matches!(answer.status, 400 | 500), "{member} {value}: {}", answer.text());
        }
    }
    assert_eq!(node.get("/v1/nodes").json()[0]["Status"], "ready", "the node lives");
}
