//! Metrics: what the brains published and what the state and the machine say, under the names that the field's dashboards
//! and alerts know, as JSON or as Prometheus' text (http-api.md 12).
//!
//! Refuses to know: where the machine's figures come from. Invariant: no figure is made up; what is not measured has no name
//! here. Gauges are as of now, JSON's counters and samples of the last complete ten seconds, Prometheus' since the start.

mod allocs;
pub mod names;

use crate::agent::Telemetry;
use crate::response::{Response, content_type};
use crate::shape::metrics::{Counted, Gauge, MetricsShape};
use crate::{Call, RouteOutcome};
use allocs::RunningAlloc;
use model::id::{AllocId, JobKey};
use model::node::Node;
use model::time::{Mono, Wall};
pub use names::PrefixFilter;
use names::{Labels, full_name};
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeMap;
use std::fmt::Write;
use wire::metrics::{MetricsSnapshot, Sample, Series};
use wire::resource_usage::AllocResourceUsage;

/// What a request for metrics found, before the machine is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsReport {
    gauges: Vec<(String, Labels, f64)>,
    counters: Vec<(String, Series)>,
    samples: Vec<(String, Sample)>,
    node: Labels,
    /// What one core of the node has.
    core_mhz: Option<f64>,
    running: Vec<RunningAlloc>,
    telemetry: Telemetry,
    now: Mono,
    prometheus: bool,
    pretty: bool,
}

/// Figures of the process and its machine, as `io` read them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostMetrics {
    pub wall: Option<Wall>,
    pub process: ProcessMetrics,
    pub cpus: Vec<CpuMetrics>,
    pub memory: Option<MemoryMetrics>,
    pub disks: Vec<DiskMetrics>,
    pub uptime_seconds: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessMetrics {
    pub resident_memory_bytes: Option<u64>,
    pub virtual_memory_bytes: Option<u64>,
    pub cpu_seconds: Option<f64>,
    pub open_fds: Option<u64>,
    pub threads: Option<u64>,
}

/// Per cent of the time since the figures were last asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuMetrics {
    pub name: String,
    pub user: f64,
    pub system: f64,
    pub idle: f64,
    pub total: f64,
    /// Since the machine was started.
    pub busy_seconds: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryMetrics {
    pub total_bytes: u64,
    pub available_bytes: u64,
    pub free_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskMetrics {
    pub name: String,
    pub size_bytes: u64,
    pub used_bytes: u64,
    pub available_bytes: u64,
    pub used_percent: f64,
    pub inodes_percent: f64,
}

pub(super) fn collect(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let ctx = call.ctx;
    let mut metrics = MetricsReport {
        gauges: vec![],
        counters: vec![],
        samples: vec![],
        node: Labels::new(),
        core_mhz: None,
        running: vec![],
        telemetry: ctx.agent.telemetry.clone(),
        now: ctx.now,
        prometheus: wants_prometheus(call)?,
        pretty: call.query.pretty,
    };
    // without a server, what the state says is the servers' to tell
    let view = ctx.reader.map(|_| call.view()).transpose()?;
    if let Some(client) = ctx.client {
        let node = view.as_ref().map(|view| view.node(client.node_id)).transpose()?.flatten();
        metrics.core_mhz = node.as_deref().and_then(core_mhz);
        metrics.node = node_labels(client.node_id.to_string(), node.as_deref());
        metrics.add(&client.measured, &metrics.node.clone());
        if let Some(view) = view.as_ref().filter(|_| ctx.agent.telemetry.publish_allocations) {
            metrics.running = allocs::running(view, client.node_id)?;
        }
    }
    if let Some(view) = view.as_ref().filter(|_| ctx.agent.server) {
        metrics.add(&ctx.status.measured, &Labels::new());
        if ctx.status.leader == Some(ctx.status.id) {
            metrics.add_jobs(view)?;
        }
    }
    Ok(RouteOutcome::Metrics(Box::new(metrics)))
}

fn wants_prometheus(call: &Call<'_>) -> Result<bool, Response> {
    match call.query.text("format") {
        None | Some("") => Ok(false),
        Some("prometheus") if call.ctx.agent.telemetry.prometheus => Ok(true),
        Some("prometheus") => Err(Response::text(415, "Prometheus is not enabled")),
        Some(other) => {
            let why = format!("format {other:?} is not known: say prometheus, or leave it out for JSON");
            Err(Response::text(400, why))
        }
    }
}

fn node_labels(id: String, node: Option<&Node>) -> Labels {
    let mut labels = [("node_id", id)].into_iter().collect::<Labels>();
    if let Some(node) = node {
        labels.insert("datacenter", node.info.datacenter.clone());
        labels.insert("node_class", node.info.class.clone());
        labels.insert("node_pool", node.info.pool.clone());
        labels.insert("node_status", node.status.as_str().to_string());
        let eligibility = if node.eligible { "eligible" } else { "ineligible" };
        labels.insert("node_scheduling_eligibility", eligibility.to_string());
    }
    labels
}

fn core_mhz(node: &Node) -> Option<f64> {
    let cores = f64::from(node.info.cpu_cores);
    (cores > 0.0).then(|| node.info.capacity.cpu_mhz as f64 / cores)
}

/// A child carries its parent and the rest of its id.
fn job_labels(key: &JobKey, parent: &str) -> Labels {
    let mut labels = Labels::new();
    labels.insert("job", key.id.clone());
    labels.insert("namespace", key.namespace.clone());
    let added = key.id.strip_prefix(parent).filter(|_| !parent.is_empty()).unwrap_or_default();
    for (label, infix) in [("periodic_id", "/periodic-"), ("dispatch_id", "/dispatch-")] {
        if let Some(id) = added.strip_prefix(infix) {
            labels.insert("parent_id", parent.to_string());
            labels.insert(label, id.to_string());
        }
    }
    labels
}

impl MetricsReport {
    fn add(&mut self, measured: &MetricsSnapshot, labels: &Labels) {
        for (name, value) in &measured.gauges {
            self.gauge(name, labels, *value as f64);
        }
        self.counters.extend(measured.counters.iter().map(|(name, series)| (name.to_string(), *series)));
        self.samples.extend(measured.samples.iter().map(|(name, sample)| (name.to_string(), sample.clone())));
    }

    fn gauge(&mut self, name: &str, labels: &Labels, value: f64) {
        self.gauges.push((name.to_string(), labels.clone(), value));
    }

    /// How many jobs are in each status, and the summary of each group.
    fn add_jobs(&mut self, view: &View) -> Result<(), Fault> {
        let mut by_status: BTreeMap<&str, u64> =
            [("pending", 0), ("running", 0), ("dead", 0)].into_iter().collect::<BTreeMap<_, _>>();
        for (key, parent, status, summary) in view.job_summaries()? {
            *by_status.entry(status.as_str()).or_default() += 1;
            let of_job = job_labels(&key, &parent);
            if self.telemetry.hide_dispatched && of_job.contains_key("dispatch_id") {
                continue;
            }
            for (group, g) in &summary.groups {
                let mut labels = of_job.clone();
                labels.insert("task_group", group.clone());
                for (name, n) in [
                    ("queued", g.queued),
                    ("starting", g.starting),
                    ("running", g.running),
                    ("complete", g.complete),
                    ("failed", g.failed),
                    ("lost", g.lost),
                    ("unknown", g.unknown),
                ] {
                    self.gauge(&format!("nomad.job_summary.{name}"), &labels, n as f64);
                }
            }
        }
        for (status, n) in by_status {
            self.gauge(&format!("nomad.job_status.{status}"), &Labels::new(), n as f64);
        }
        Ok(())
    }

    /// The allocations to measure.
    pub fn allocs(&self) -> impl Iterator<Item = AllocId> {
        self.running.iter().map(|alloc| alloc.id)
    }

    /// The usage of an allocation of `allocs`; one that ended meanwhile is left out.
    pub fn add_alloc_usage(&mut self, id: AllocId, figures: &AllocResourceUsage) {
        let alloc = self.running.iter().find(|alloc| alloc.id == id);
        self.gauges.extend(alloc.into_iter().flat_map(|alloc| alloc.gauges(figures, self.core_mhz)));
    }

    /// Reads that this agent answered: requests and queries that no brain hears of.
    pub fn add_reads(&mut self, reads: Series) {
        for name in ["nomad.rpc.request", "nomad.rpc.query"] {
            match self.counters.iter_mut().find(|(known, _)| known == name) {
                Some((_, series)) => *series = series.plus(reads),
                None => self.counters.push((name.to_string(), reads)),
            }
        }
    }

    /// The response, with the machine's figures.
    pub fn response(mut self, machine: &HostMetrics) -> Response {
        if self.telemetry.publish_node && !self.node.is_empty() {
            self.add_host(machine);
        }
        if let Some(host) = self.telemetry.host.clone() {
            for (_, labels, _) in &mut self.gauges {
                labels.insert("host", host.clone());
            }
        }
        self.add_process(&machine.process);
        let filter = &self.telemetry.filter;
        self.gauges.retain(|(name, ..)| filter.allows(name));
        self.counters.retain(|(name, _)| filter.allows(name));
        self.samples.retain(|(name, _)| filter.allows(name));
        if self.prometheus { self.text() } else { self.json(machine.wall) }
    }

    fn add_host(&mut self, machine: &HostMetrics) {
        let node = self.node.clone();
        let with = |name: &'static str, value: &str| {
            let mut labels = node.clone();
            labels.insert(name, value.to_string());
            labels
        };
        for cpu in &machine.cpus {
            let labels = with("cpu", &cpu.name);
            self.gauge("client.host.cpu.user", &labels, cpu.user);
            self.gauge("client.host.cpu.system", &labels, cpu.system);
            self.gauge("client.host.cpu.idle", &labels, cpu.idle);
            self.gauge("client.host.cpu.total_percent", &labels, cpu.total);
            if let Some(core_mhz) = self.core_mhz {
                self.gauge("client.host.cpu.total_ticks", &labels, cpu.total / 100.0 * core_mhz);
                self.gauge("client.host.cpu.total_ticks_count", &labels, cpu.busy_seconds * core_mhz);
            }
        }
        if let Some(memory) = machine.memory {
            let used = memory.total_bytes.saturating_sub(memory.available_bytes);
            self.gauge("client.host.memory.total", &node, memory.total_bytes as f64);
            self.gauge("client.host.memory.available", &node, memory.available_bytes as f64);
            self.gauge("client.host.memory.used", &node, used as f64);
            self.gauge("client.host.memory.free", &node, memory.free_bytes as f64);
        }
        for disk in &machine.disks {
            let labels = with("disk", &disk.name);
            self.gauge("client.host.disk.size", &labels, disk.size_bytes as f64);
            self.gauge("client.host.disk.used", &labels, disk.used_bytes as f64);
            self.gauge("client.host.disk.available", &labels, disk.available_bytes as f64);
            self.gauge("client.host.disk.used_percent", &labels, disk.used_percent);
            self.gauge("client.host.disk.inodes_percent", &labels, disk.inodes_percent);
        }
        if let Some(seconds) = machine.uptime_seconds {
            self.gauge("client.uptime", &node, seconds);
        }
    }

    /// Under the names of Prometheus' own collector of processes; and what a Go runtime would say of the same, for dashboards
    /// that know nothing else.
    fn add_process(&mut self, process: &ProcessMetrics) {
        let whole = |n: Option<u64>| n.map(|n| n as f64);
        let runtime = [
            ("runtime.alloc_bytes", whole(process.resident_memory_bytes)),
            ("runtime.sys_bytes", whole(process.virtual_memory_bytes)),
            ("runtime.num_goroutines", whole(process.threads)),
        ];
        let host = self.telemetry.host.iter().map(|host| ("host", host.clone())).collect::<Labels>();
        for (name, value) in runtime.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            self.gauge(name, &host, value);
        }
        let figures = [
            ("process_resident_memory_bytes", whole(process.resident_memory_bytes)),
            ("process_virtual_memory_bytes", whole(process.virtual_memory_bytes)),
            ("process_cpu_seconds_total", process.cpu_seconds),
            ("process_open_fds", whole(process.open_fds)),
            ("process_threads", whole(process.threads)),
        ];
        for (name, value) in figures {
            if let Some(value) = value {
                self.gauge(name, &Labels::new(), value);
            }
        }
    }

    fn json(&self, wall: Option<Wall>) -> Response {
        let mut gauges: Vec<Gauge<'_>> = self
            .gauges
            .iter()
            .map(|(name, labels, value)| Gauge { name: full_name(name), value: *value, labels })
            .collect();
        gauges.sort_by(|a, b| (&a.name, a.labels).cmp(&(&b.name, b.labels)));
        let counter = |(name, series): &(String, Series)| {
            let last = series.last(self.now);
            (last.count > 0).then(|| Counted::new(full_name(name), &last, 1.0))
        };
        let sample = |(name, sample): &(String, Sample)| {
            let sampled = sample.series.last(self.now).count > 0;
            sampled.then(|| Counted::sample(full_name(name), sample, self.now, NANOS_PER_MILLI))
        };
        let shape = MetricsShape {
            timestamp: timestamp(wall),
            gauges,
            points: [],
            precision_gauges: [],
            counters: self.counters.iter().filter_map(counter).collect(),
            samples: self.samples.iter().filter_map(sample).collect(),
        };
        Response::json(&shape, self.pretty)
    }

    /// Text exposition format 0.0.4. Durations are in milliseconds, as the field has them.
    fn text(&self) -> Response {
        let mut families: BTreeMap<String, (&'static str, Vec<String>)> = BTreeMap::new();
        let mut add = |name: &str, kind: &'static str, lines: Vec<String>| {
            families.entry(name.to_string()).or_insert((kind, vec![])).1.extend(lines);
        };
        for (name, labels, value) in &self.gauges {
            let name = prometheus_name(name);
            let kind = if grows(&name) { "counter" } else { "gauge" };
            add(&name, kind, vec![format!("{name}{} {value}", prometheus_labels(labels))]);
        }
        for (name, series) in &self.counters {
            let name = prometheus_name(name);
            add(&name, "counter", vec![format!("{name} {}", series.total.sum)]);
        }
        for (name, sample) in &self.samples {
            let name = prometheus_name(name);
            let lines = summary(&name, sample, self.now);
            add(&name, "summary", lines);
        }
        let mut text = String::new();
        for (name, (kind, lines)) in families {
            // a String takes whatever is written
            let _written = write!(text, "# HELP {name} {name}\n# TYPE {name} {kind}\n{}\n", lines.join("\n"));
        }
        let response = Response::text(200, text);
        Response { headers: content_type("text/plain; version=0.0.4; charset=utf-8"), ..response }
    }
}

const NANOS_PER_MILLI: f64 = 1e6;
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Quantiles are of the last 10 to 20 seconds, and not a number when nothing was sampled in them.
fn summary(name: &str, sample: &Sample, now: Mono) -> Vec<String> {
    let quantile = |q: f64| {
        let value = sample.quantile(q, now).map_or(f64::NAN, |nanos| nanos / NANOS_PER_MILLI);
        format!("{name}{{quantile=\"{q}\"}} {value}")
    };
    let total = sample.series.total;
    let sum = total.sum as f64 / NANOS_PER_MILLI;
    let totals = [format!("{name}_sum {sum}"), format!("{name}_count {}", total.count)];
    QUANTILES.into_iter().map(quantile).chain(totals).collect()
}

/// Whether a figure counts from a start on, and only grows.
fn grows(name: &str) -> bool {
    (name.ends_with("_total") && name.starts_with("process_")) || name.ends_with("_cpu_total_ticks_count")
}

fn prometheus_name(name: &str) -> String {
    full_name(name).replace(['.', '-'], "_")
}

fn prometheus_labels(labels: &Labels) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |v: &str| v.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = labels.iter().map(|(k, v)| format!("{k}=\"{}\"", escaped(v))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// As Go prints a time in UTC; the year 1970 on a machine that has no clock.
fn timestamp(wall: Option<Wall>) -> String {
    let nanos = wall.map_or(0, |w| w.0);
    let at = jiff::Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
}
