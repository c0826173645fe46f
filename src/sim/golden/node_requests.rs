//! Samples of what is asked of a node over its connection, and of what it answers.

use super::Samples;
use state::client_store::DynamicMeta;
use state::samples::{AT, alloc_id};
use std::collections::BTreeMap;
use wire::client_rpc::{
    ClientReply, ClientRequest, FileInfo, LogStream, ReadOffset, RestartScope, StreamFrame,
};
use wire::request::{Refusal, RefusalKind};
use wire::resource_usage::{
    AllocResourceUsage, CgroupUsage, HostCpuStats, HostDiskStats, HostMemoryStats, HostStats, ResourceUsage,
    TaskResourceUsage,
};

pub fn requests(s: &mut Samples) {
    let alloc = alloc_id(1);
    for (what, stream, from) in [
        ("logs", LogStream::Stdout, ReadOffset::FromStart(7)),
        ("logs from the end", LogStream::Stderr, ReadOffset::FromEnd(300)),
    ] {
        s.add(what, &ClientRequest::Logs { alloc, task: "t".into(), stream, from, follow: true });
    }
    for (what, scope) in [
        ("restart a task", RestartScope::Task("t".into())),
        ("restart what runs", RestartScope::Running),
        ("restart all", RestartScope::All),
    ] {
        s.add(what, &ClientRequest::Restart { alloc, scope });
    }
    s.add("signal", &ClientRequest::Signal { alloc, task: Some("t".into()), signal: "SIGHUP".into() });
    let path = "alloc/f".to_string();
    s.add("list", &ClientRequest::List { alloc, path: path.clone() });
    s.add("stat", &ClientRequest::Stat { alloc, path: path.clone() });
    let from = ReadOffset::FromStart(1);
    s.add("file", &ClientRequest::File { alloc, path: path.clone(), from, limit: Some(300), follow: false });
    let content_type = "text/plain".to_string();
    let file = FileInfo { name: "f".into(), size: 300, mode: 0o100_644, modified: AT, content_type };
    s.add("files", &ClientReply::Files(vec![file.clone()]));
    s.add("file", &ClientReply::File(file));
    s.add("alloc figures", &ClientRequest::AllocResourceUsage { alloc, task: Some("t".into()) });
    s.add("host figures", &ClientRequest::HostStats);
    s.add("collect", &ClientRequest::GarbageCollect { alloc: Some(alloc) });
    s.add("metadata", &ClientRequest::Metadata);
    let changes: BTreeMap<_, _> = [("a".to_string(), Some("b".to_string())), ("c".to_string(), None)].into();
    s.add("set metadata", &ClientRequest::SetMetadata { changes: changes.clone() });
    s.add("dynamic", &DynamicMeta(changes.clone()));
    let (meta, dynamic) = (BTreeMap::from([("a".to_string(), "b".to_string())]), changes);
    s.add("metadata", &ClientReply::Metadata { meta: meta.clone(), dynamic, configured: meta });
    s.add("deleted", &StreamFrame::Deleted { file: path });
    s.add("done", &ClientReply::Done);
    s.add("data", &StreamFrame::Data { bytes: vec![1, 2], file: "alloc/f".into(), offset: 300 });
    s.add("truncated", &StreamFrame::Truncated { file: "alloc/f".into() });
    s.add("alive", &StreamFrame::Alive);
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
    let usage = ResourceUsage { user_percent: 1.5, rss_bytes: 300, ..ResourceUsage::default() };
    let cgroup = CgroupUsage { memory_bytes: Some(400), cpu_nanos: Some(500), ..CgroupUsage::default() };
    let task = TaskResourceUsage { usage, cgroup, processes: [(7, usage)].into() };
    let figures = AllocResourceUsage { tasks: [("t".to_string(), task)].into(), at: AT };
    s.add("alloc figures", &ClientReply::AllocResourceUsage(figures));
    let disk = HostDiskStats { device: "/dev/a".into(), mountpoint: "/".into(), ..HostDiskStats::default() };
    let cpu = HostCpuStats {
        name: "cpu0".into(),
        user_percent: 1.5,
        system_percent: 0.5,
        idle_percent: 98.0,
        mhz: 20.0,
    };
    let figures = HostStats {
        memory: HostMemoryStats { total_bytes: 300, ..HostMemoryStats::default() },
        cpus: vec![cpu],
        disks: vec![disk.clone()],
        alloc_dir: disk,
        uptime_seconds: 300,
        at: AT,
    };
    s.add("host figures", &ClientReply::HostStats(figures));
}
