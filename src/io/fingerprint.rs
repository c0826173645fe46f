//! The fingerprint of this machine: its node attributes and capacity (client.md 4.1).
//!
//! Refuses to know: the cluster. It reads this machine's files and contacts no other. What cannot be found out is left out,
//! never guessed, except where client.md 4.1 names a value to fall back on.

use super::interfaces;
use super::keeper::Cgroups;
use model::claims::{HOST_MODE, NodeOffers};
use model::node::{DriverInfo, NodeNetwork};
use model::resources::Amount;
use model::time::Wall;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What the agent's configuration says instead of the machine.
#[derive(Clone, Debug, Default)]
pub struct FingerprintConfig {
    pub alloc_dir: PathBuf,
    pub network_interface: Option<String>,
    pub cpu_total_compute_mhz: Option<i64>,
    pub memory_total_mb: Option<i64>,
    pub disk_total_mb: Option<i64>,
    pub disk_free_mb: Option<i64>,
    /// Whether the raw_exec driver is on.
    pub raw_exec: bool,
    pub host_networks: Vec<interfaces::HostNetwork>,
    /// What the configuration says of ports, volumes and cores, as it stands.
    pub offers: NodeOffers,
}

/// The machine's part of a `NodeInfo`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fingerprint {
    pub hostname: String,
    pub attributes: BTreeMap<String, String>,
    pub capacity: Amount,
    pub cpu_cores: u16,
    pub networks: Vec<NodeNetwork>,
    pub drivers: BTreeMap<String, DriverInfo>,
    pub not_enforced: Vec<String>,
    pub offers: NodeOffers,
}

/// The version whose job files, API and habits are spoken; constraints on `nomad.version` compare with it.
pub const COMPATIBLE_VERSION: &str = "2.0.5";
/// MHz of a machine that does not tell (client.md 4.1).
const UNKNOWN_COMPUTE_MHZ: i64 = 1000;
const MIB: i64 = 1 << 20;
/// What tasks can be sent by name.
const SIGNALS: &str = "SIGABRT,SIGALRM,SIGBUS,SIGCHLD,SIGCONT,SIGFPE,SIGHUP,SIGILL,SIGINT,SIGIO,SIGIOT,SIGKILL,\
    SIGPIPE,SIGPROF,SIGQUIT,SIGSEGV,SIGSTOP,SIGSYS,SIGTERM,SIGTRAP,SIGTSTP,SIGTTIN,SIGTTOU,SIGURG,SIGUSR1,SIGUSR2,\
    SIGWINCH,SIGXCPU,SIGXFSZ";

/// `at`: when drivers were fingerprinted.
pub fn fingerprint(config: &FingerprintConfig, at: Wall) -> Fingerprint {
    let mut attributes = BTreeMap::new();
    let mut set = |key: &str, value: String| {
        if !value.is_empty() {
            attributes.insert(key.to_string(), value);
        }
    };
    let uname = rustix::system::uname();
    let hostname = uname.nodename().to_string_lossy().into_owned();
    set("kernel.name", "linux".into());
    set("kernel.arch", uname.machine().to_string_lossy().into_owned());
    set("kernel.version", uname.release().to_string_lossy().into_owned());
    set("kernel.landlock", landlock());
    set("unique.hostname", hostname.clone());
    set("os.signals", SIGNALS.into());
    let release = read("/etc/os-release");
    set("os.name", release_field(&release, "ID"));
    set("os.version", release_field(&release, "VERSION_ID"));
    set("nomad.version", COMPATIBLE_VERSION.into());
    set("drover.version", env!("CARGO_PKG_VERSION").into());

    let cpu = Cpu::find();
    let compute_mhz = config.cpu_total_compute_mhz.unwrap_or_else(|| cpu.compute_mhz());
    set("cpu.arch", go_arch(std::env::consts::ARCH).into());
    set("cpu.modelname", cpu.model.clone());
    set("cpu.frequency", cpu.mhz.iter().max().map(ToString::to_string).unwrap_or_default());
    set("cpu.numcores", cpu.cores.to_string());
    set("cpu.totalcompute", compute_mhz.to_string());

    let memory_bytes = config.memory_total_mb.map_or_else(memory_bytes, |mb| mb.saturating_mul(MIB));
    set("memory.totalbytes", memory_bytes.to_string());
    let disk = DiskSpace::find(config);
    set("unique.storage.volume", disk.volume.clone());
    set("unique.storage.bytestotal", disk.total_bytes.to_string());
    set("unique.storage.bytesfree", disk.free_bytes.to_string());

    let cgroups = Cgroups::detect();
    if let Some(version) = cgroups.version() {
        set("os.cgroups.version", version.to_string());
        set("unique.cgroup.version", format!("v{version}"));
    }
    let chosen = interfaces::chosen(config.network_interface.as_deref(), &interfaces::addresses());
    let (networks, addresses) = interfaces::named(chosen, &config.host_networks);
    set(
        "unique.network.ip-address",
        networks.iter().flat_map(|n| n.addresses.first()).next().cloned().unwrap_or_default(),
    );
    if config.raw_exec {
        set("driver.raw_exec", "1".into());
    }
    Fingerprint {
        hostname,
        attributes,
        capacity: Amount {
            cpu_mhz: compute_mhz,
            memory_mb: memory_bytes / MIB,
            disk_mb: disk.free_bytes / MIB,
            ..Amount::ZERO
        },
        cpu_cores: cpu.cores,
        networks,
        drivers: drivers(config, at),
        not_enforced: cgroups.not_enforced,
        offers: NodeOffers { network_modes: vec![HOST_MODE.into()], addresses, ..config.offers.clone() },
    }
}

fn drivers(config: &FingerprintConfig, at: Wall) -> BTreeMap<String, DriverInfo> {
    let on = config.raw_exec;
    let attributes = on.then(|| ("driver.raw_exec".to_string(), "true".to_string()));
    let raw_exec = DriverInfo {
        detected: on,
        healthy: on,
        description: if on { "Healthy" } else { "disabled" }.into(),
        attributes: attributes.into_iter().collect(),
        updated: at,
    };
    [("raw_exec".to_string(), raw_exec)].into()
}

pub(super) fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The architecture as Go names it.
fn go_arch(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// os-release(5): `KEY=value`, perhaps in quotes.
fn release_field(text: &str, key: &str) -> String {
    let value = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_default().trim().trim_matches(['"', '\'']).to_string()
}

struct Cpu {
    model: String,
    cores: u16,
    /// Highest frequency of each core that tells.
    mhz: Vec<i64>,
}

impl Cpu {
    fn find() -> Cpu {
        let info = read("/proc/cpuinfo");
        let online = list_length(read("/sys/devices/system/cpu/online").trim());
        let counted = info.lines().filter(|l| l.starts_with("processor")).count();
        let cores = online.unwrap_or(counted).clamp(1, usize::from(u16::MAX)) as u16;
        let max_khz = |n: u16| read(format!("/sys/devices/system/cpu/cpu{n}/cpufreq/cpuinfo_max_freq"));
        let mut mhz: Vec<i64> = (0..cores).filter_map(|n| max_khz(n).trim().parse::<i64>().ok()).collect();
        mhz.iter_mut().for_each(|khz| *khz /= 1000);
        if mhz.is_empty() {
            mhz = field_values(&info, "cpu MHz")
                .filter_map(|v| v.parse::<f64>().ok())
                .map(|f| f as i64)
                .collect();
        }
        Cpu { model: model(&info), cores, mhz }
    }

    /// Sum over cores; cores that do not tell count as the fastest that does.
    fn compute_mhz(&self) -> i64 {
        let fastest = self.mhz.iter().max().copied().unwrap_or(0);
        let untold = i64::from(self.cores) - self.mhz.len() as i64;
        match self.mhz.iter().sum::<i64>() + untold.max(0) * fastest {
            0 => UNKNOWN_COMPUTE_MHZ,
            sum => sum,
        }
    }
}

pub(super) fn field_values<'a>(info: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let of_key =
        move |line: &'a str| line.split_once(':').filter(|(k, _)| k.trim() == key).map(|(_, v)| v.trim());
    info.lines().filter_map(of_key)
}

/// By name where the kernel gives one; 64-bit ARM kernels give a part number (Arm's main ID registers).
fn model(info: &str) -> String {
    if let Some(name) =
        ["model name", "Processor", "Hardware"].iter().find_map(|k| field_values(info, k).next())
    {
        return name.to_string();
    }
    match field_values(info, "CPU part").next().unwrap_or_default() {
        "0xb76" => "ARM1176".into(),
        "0xc07" => "Cortex-A7".into(),
        "0xd03" => "Cortex-A53".into(),
        "0xd04" => "Cortex-A35".into(),
        "0xd05" => "Cortex-A55".into(),
        "0xd07" => "Cortex-A57".into(),
        "0xd08" => "Cortex-A72".into(),
        "0xd0b" => "Cortex-A76".into(),
        "0xd0c" => "Neoverse-N1".into(),
        part => part.to_string(),
    }
}

/// How many numbers a kernel list such as `0-3,6` has.
fn list_length(list: &str) -> Option<usize> {
    let span = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.parse::<usize>().ok()?, to.parse::<usize>().ok()?);
        to.checked_sub(from)?.checked_add(1)
    };
    list.split(',').map(span).sum()
}

fn memory_bytes() -> i64 {
    let info = read("/proc/meminfo");
    let total =
        field_values(&info, "MemTotal").next().and_then(|v| v.strip_suffix("kB")?.trim().parse::<i64>().ok());
    total.unwrap_or(0).saturating_mul(1024)
}

struct DiskSpace {
    volume: String,
    total_bytes: i64,
    free_bytes: i64,
}

impl DiskSpace {
    fn find(config: &FingerprintConfig) -> DiskSpace {
        let dir = config.alloc_dir.ancestors().find(|d| d.exists()).unwrap_or(Path::new("/"));
        let bytes = |mb: i64| mb.saturating_mul(MIB);
        let found = rustix::fs::statvfs(dir).ok();
        let size = |blocks: u64, unit: u64| i64::try_from(blocks.saturating_mul(unit)).unwrap_or(i64::MAX);
        let (total, free) =
            found.map_or((0, 0), |s| (size(s.f_blocks, s.f_frsize), size(s.f_bavail, s.f_frsize)));
        DiskSpace {
            volume: volume(&fs::canonicalize(dir).unwrap_or_default(), &read("/proc/self/mountinfo")),
            total_bytes: config.disk_total_mb.map_or(total, bytes),
            free_bytes: config.disk_free_mb.map_or(free, bytes),
        }
    }
}

/// The source of the innermost mount that holds `dir`.
pub(super) fn volume(dir: &Path, mounts: &str) -> String {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let point = PathBuf::from(left.split(' ').nth(4)?.replace("\\040", " "));
        let source = right.split(' ').nth(1)?.to_string();
        dir.starts_with(&point).then_some((point.as_os_str().len(), source))
    };
    // The last of several mounts at one point covers the others.
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, s)| s).unwrap_or_default()
}

/// `v<n>`, or `unavailable`.
fn landlock() -> String {
    const GET_VERSION: u32 = 1;
    // SAFETY: landlock_create_ruleset(2) with a null pointer, size 0 and this flag only returns the version.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, GET_VERSION)
    };
    if version > 0 { format!("v{version}") } else { "unavailable".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let config = FingerprintConfig {
            alloc_dir: std::env::temp_dir().join("not/there/yet"),
            raw_exec: true,
            ..FingerprintConfig::default()
        };
        let got = fingerprint(&config, Wall(1));
        for key in [
            "cpu.arch",
            "cpu.numcores",
            "cpu.totalcompute",
            "memory.totalbytes",
            "unique.storage.volume",
            "unique.storage.bytestotal",
            "unique.storage.bytesfree",
            "kernel.name",
            "kernel.arch",
            "kernel.version",
            "kernel.landlock",
            "os.name",
            "os.signals",
            "unique.hostname",
            "nomad.version",
            "drover.version",
            "driver.raw_exec",
        ] {
            assert!(got.attributes.get(key).is_some_and(|v| !v.is_empty()), "{key}: {:#?}", got.attributes);
        }
        let (c, cores) = (got.capacity, got.cpu_cores);
        assert!(c.cpu_mhz > 0 && c.memory_mb > 0 && c.disk_mb > 0 && cores > 0, "{c:?}");
        assert!(got.drivers["raw_exec"].healthy && !got.networks.is_empty());
        assert_eq!(got.attributes["unique.network.ip-address"], got.networks[0].addresses[0]);
    }

    #[test]
    fn the_configuration_wins() {
        let config = FingerprintConfig {
            alloc_dir: "/".into(),
            network_interface: Some("lo".into()),
            cpu_total_compute_mhz: Some(4321),
            memory_total_mb: Some(512),
            disk_total_mb: Some(2000),
            disk_free_mb: Some(1000),
            raw_exec: false,
            ..FingerprintConfig::default()
        };
        let got = fingerprint(&config, Wall(1));
        assert_eq!(got.capacity, Amount { cpu_mhz: 4321, memory_mb: 512, disk_mb: 1000, ..Amount::ZERO });
        assert_eq!(got.attributes["cpu.totalcompute"], "4321");
        assert_eq!(got.attributes["memory.totalbytes"], "536870912");
        assert_eq!(got.attributes["unique.storage.bytestotal"], (2000 * MIB).to_string());
        assert_eq!(got.attributes["unique.network.ip-address"], "127.0.0.1");
        assert!(!got.drivers["raw_exec"].detected && !got.attributes.contains_key("driver.raw_exec"));
    }

    #[test]
    fn texts_of_many_machines_are_understood() {
        for (list, want) in
            [("0-3", Some(4)), ("0", Some(1)), ("0-1,4,6-7", Some(5)), ("", None), ("3-1", None)]
        {
            assert_eq!(list_length(list), want, "{list}");
        }
        for (info, want) in [
            ("processor\t: 0\nmodel name\t: Fast CPU: 2\n", "Fast CPU: 2"),
            ("CPU implementer\t: 0x41\nCPU part\t: 0xd08\n", "Cortex-A72"),
            ("CPU part\t: 0x123\n", "0x123"),
            ("", ""),
        ] {
            assert_eq!(model(info), want);
        }
        let release = "NAME=\"Big OS\"\nID=debian\nVERSION_ID=\"12\"\n";
        assert_eq!(
            (release_field(release, "ID"), release_field(release, "VERSION_ID")),
            ("debian".into(), "12".into())
        );
        let cpu = |cores, mhz: &[i64]| Cpu { model: String::new(), cores, mhz: mhz.to_vec() }.compute_mhz();
        assert_eq!([cpu(4, &[1500; 4]), cpu(2, &[]), cpu(4, &[2000, 1000])], [6000, 1000, 7000]);
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /data rw - ext4 /dev/b rw\n3 1 8:3 / /dat rw - x /dev/c rw\n";
        assert_eq!(volume(Path::new("/data/alloc"), mounts), "/dev/b");
        assert_eq!(volume(Path::new("/database"), mounts), "/dev/a");
    }
}
