//! Samples of what is asked of a node over its connection, and of what it answers.

use super::Samples;
use state::local::DynamicMeta;
use state::samples::{AT, alloc_id};
use std::collections::BTreeMap;
use wire::ask::{FileInfo, LogStream, NodeAnswer, NodeAsk, Piece, Position, RestartScope};
use wire::figures::{AllocFigures, HostCpu, HostDisk, HostFigures, HostMemory, TaskFigures, Usage};
use wire::request::{Refusal, RefusalKind};

pub fn requests(s: &mut Samples) {
    let alloc = alloc_id(1);
    for (what, stream, from) in [
        ("logs", LogStream::Stdout, Position::FromStart(7)),
        ("logs from the end", LogStream::Stderr, Position::FromEnd(300)),
    ] {
        s.add(what, &NodeAsk::Logs { alloc, task: "t".into(), stream, from, follow: true });
    }
    for (what, scope) in [
        ("restart a task", RestartScope::Task("t".into())),
        ("restart what runs", RestartScope::Running),
        ("restart all", RestartScope::All),
    ] {
        s.add(what, &NodeAsk::Restart { alloc, scope });
    }
    s.add("signal", &NodeAsk::Signal { alloc, task: Some("t".into()), signal: "SIGHUP".into() });
    let path = "alloc/f".to_string();
    s.add("list", &NodeAsk::List { alloc, path: path.clone() });
    s.add("stat", &NodeAsk::Stat { alloc, path: path.clone() });
    let from = Position::FromStart(1);
    s.add("file", &NodeAsk::File { alloc, path: path.clone(), from, limit: Some(300), follow: false });
    let content_type = "text/plain".to_string();
    let file = FileInfo { name: "f".into(), size: 300, mode: 0o100_644, modified: AT, content_type };
    s.add("files", &NodeAnswer::Files(vec![file.clone()]));
    s.add("file", &NodeAnswer::File(file));
    s.add("alloc figures", &NodeAsk::AllocFigures { alloc, task: Some("t".into()) });
    s.add("host figures", &NodeAsk::HostFigures);
    s.add("collect", &NodeAsk::Collect { alloc: Some(alloc) });
    s.add("metadata", &NodeAsk::Metadata);
    let changes: BTreeMap<_, _> = [("a".to_string(), Some("b".to_string())), ("c".to_string(), None)].into();
    s.add("set metadata", &NodeAsk::SetMetadata { changes: changes.clone() });
    s.add("dynamic", &DynamicMeta(changes.clone()));
    let (meta, dynamic) = (BTreeMap::from([("a".to_string(), "b".to_string())]), changes);
    s.add("metadata", &NodeAnswer::Metadata { meta: meta.clone(), dynamic, configured: meta });
    s.add("deleted", &Piece::Deleted { file: path });
    s.add("done", &NodeAnswer::Done);
    s.add("data", &Piece::Data { bytes: vec![1, 2], file: "alloc/f".into(), offset: 300 });
    s.add("truncated", &Piece::Truncated { file: "alloc/f".into() });
    s.add("alive", &Piece::Alive);
    for kind in [
        RefusalKind::Invalid,
        RefusalKind::NotFound,
        RefusalKind::Conflict,
        RefusalKind::Validation,
        RefusalKind::Busy,
        RefusalKind::Unavailable,
        RefusalKind::Forbidden,
    ] {
        s.add(&format!("{kind:?}").to_lowercase(), &Refusal::new(kind, "no"));
    }
}

pub fn usage(s: &mut Samples) {
    let usage = Usage { user_percent: 1.5, rss_bytes: 300, memory_bytes: Some(400), ..Usage::default() };
    let task = TaskFigures { usage, processes: [(7, usage)].into() };
    let figures = AllocFigures { tasks: [("t".to_string(), task)].into(), at: AT };
    s.add("alloc figures", &NodeAnswer::AllocFigures(figures));
    let disk = HostDisk { device: "/dev/a".into(), mountpoint: "/".into(), ..HostDisk::default() };
    let cpu = HostCpu {
        name: "cpu0".into(),
        user_percent: 1.5,
        system_percent: 0.5,
        idle_percent: 98.0,
        mhz: 20.0,
    };
    let figures = HostFigures {
        memory: HostMemory { total_bytes: 300, ..HostMemory::default() },
        cpus: vec![cpu],
        disks: vec![disk.clone()],
        alloc_dir: disk,
        uptime_seconds: 300,
        at: AT,
    };
    s.add("host figures", &NodeAnswer::HostFigures(figures));
}
