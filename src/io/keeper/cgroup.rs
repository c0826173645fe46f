//! Control groups, v1 and v2: one group per run, for its limits and to find everything it started.
//!
//! Refuses to know: anything outside its own subtree, which it never writes to. Limits that the machine cannot enforce are
//! reported in sentences that say what to enable. See client.md 27.

use super::cgroup_usage;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use wire::resource_usage::CgroupUsage;

/// The control groups of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Cgroups {
    version: Version,
    /// Limits that are not enforced here, each with what to do about it.
    pub not_enforced: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Version {
    None,
    /// Our directory in each hierarchy.
    V1(Vec<(Controller, PathBuf)>),
    /// `own`: the keeper's delegated cgroup, where processes may only be in leaves.
    V2 {
        base: PathBuf,
        own: bool,
        controllers: Vec<Controller>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Cpu,
    /// Often of one hierarchy with `Cpu`.
    Cpuacct,
    Memory,
    Freezer,
}

/// 0 means: not limited.
#[derive(Clone, Copy, Debug, Default)]
pub struct CgroupLimits {
    pub cpu_mhz: u64,
    pub memory_bytes: u64,
    pub memory_low_bytes: u64,
}

/// A v1 `cpu.shares` below this is refused by the kernel.
const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 262_144;

impl Cgroups {
    /// Finds the control groups that can be written; changes nothing.
    pub fn detect() -> Cgroups {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let version = find(&mounts, &own);
        let not_enforced = not_enforced(&version);
        Cgroups { version, not_enforced }
    }

    /// `1` or `2`; `None` where there are none that can be used.
    pub fn version(&self) -> Option<u8> {
        match self.version {
            Version::None => None,
            Version::V1(_) => Some(1),
            Version::V2 { .. } => Some(2),
        }
    }

    /// No control groups: runs have no limits, and their processes are found by parents, groups and sessions.
    pub fn none() -> Cgroups {
        Cgroups { version: Version::None, not_enforced: not_enforced(&Version::None) }
    }

    /// Makes our part of the tree.
    pub fn prepare(&self) -> io::Result<()> {
        match &self.version {
            Version::None => Ok(()),
            Version::V1(dirs) => dirs.iter().try_for_each(|(_, dir)| make(dir)),
            Version::V2 { base, own, controllers } => {
                make(base)?;
                if *own {
                    let leaf = base.join("keeper");
                    make(&leaf)?;
                    fs::write(leaf.join("cgroup.procs"), "0")?;
                }
                controllers.iter().try_for_each(|c| {
                    let word = if *c == Controller::Cpu { "+cpu" } else { "+memory" };
                    fs::write(base.join("cgroup.subtree_control"), word)
                })
            }
        }
    }

    /// The group of one run. `name` is a label and part of an id: no slashes, no leading dot.
    pub fn group(&self, name: &str) -> Group {
        let dirs = match &self.version {
            Version::None => vec![],
            Version::V1(dirs) => dirs.iter().map(|(c, dir)| (Some(*c), dir.join(name))).collect(),
            Version::V2 { base, .. } => vec![(None, base.join(format!("{name}.scope")))],
        };
        let controllers = match &self.version {
            Version::V2 { controllers, .. } => controllers.clone(),
            _ => vec![],
        };
        Group { dirs, controllers }
    }
}

pub struct Group {
    /// v1: one for each controller. v2: one.
    dirs: Vec<(Option<Controller>, PathBuf)>,
    /// v2: what is on in it.
    controllers: Vec<Controller>,
}

impl Group {
    /// Whether the group exists: without it, a run's processes are found by parents, groups and sessions.
    pub fn exists(&self) -> bool {
        self.dirs.first().is_some_and(|(_, dir)| dir.is_dir())
    }

    /// Files to which a process writes `0` to become a member.
    pub fn create(&self, limits: CgroupLimits) -> io::Result<Vec<File>> {
        let mut procs = Vec::new();
        for (controller, dir) in &self.dirs {
            make(dir)?;
            match controller {
                Some(Controller::Cpu) if limits.cpu_mhz > 0 => {
                    fs::write(dir.join("cpu.shares"), shares(limits.cpu_mhz).to_string())?;
                }
                Some(Controller::Memory) => limit_memory_v1(dir, limits)?,
                None => self.limit_v2(dir, limits)?,
                _ => {}
            }
            procs.push(OpenOptions::new().write(true).open(dir.join("cgroup.procs"))?);
        }
        Ok(procs)
    }

    /// The files of a group that exists; none where there are no groups.
    pub fn join(&self) -> io::Result<Vec<File>> {
        let open = |dir: &PathBuf| OpenOptions::new().write(true).open(dir.join("cgroup.procs"));
        self.dirs.iter().map(|(_, dir)| open(dir)).collect()
    }

    fn limit_v2(&self, dir: &Path, limits: CgroupLimits) -> io::Result<()> {
        if limits.cpu_mhz > 0 && self.controllers.contains(&Controller::Cpu) {
            fs::write(dir.join("cpu.weight"), weight(limits.cpu_mhz).to_string())?;
        }
        if limits.memory_bytes > 0 && self.controllers.contains(&Controller::Memory) {
            fs::write(dir.join("memory.max"), limits.memory_bytes.to_string())?;
            // Absent without swap accounting; without swap there is nothing to limit.
            write_if_present(&dir.join("memory.swap.max"), "0")?;
        }
        if limits.memory_low_bytes > 0 && self.controllers.contains(&Controller::Memory) {
            fs::write(dir.join("memory.low"), limits.memory_low_bytes.to_string())?;
        }
        Ok(())
    }

    /// Sends SIGKILL to all members once. True if there were any, or may be: nobody says that a run has ended while nobody can tell.
    pub fn kill(&self) -> bool {
        if let Some((None, dir)) = self.dirs.first()
            && fs::write(dir.join("cgroup.kill"), "1").is_ok()
        {
            return self.may_have_members();
        }
        let freezer = self.dir_of(Controller::Freezer).map(|dir| dir.join("freezer.state"));
        let freeze = |state: &str| {
            if let Some(file) = &freezer {
                // a group that cannot be frozen is killed all the same, by repeating this until it is empty
                let _ = fs::write(file, state);
            }
        };
        if !self.may_have_members() {
            return false;
        }
        freeze("FROZEN");
        let members = self.members();
        for pid in members.iter().flatten() {
            super::process::signal(*pid, libc::SIGKILL);
        }
        freeze("THAWED");
        members.map_or(true, |members| !members.is_empty())
    }

    fn may_have_members(&self) -> bool {
        self.members().map_or(true, |members| !members.is_empty())
    }

    /// Zombies count: they leave when they are waited for. A group that is not there has none; one that cannot be read may have.
    pub fn members(&self) -> io::Result<Vec<u32>> {
        let mut all: Vec<u32> = Vec::new();
        for (_, dir) in &self.dirs {
            let text = match fs::read_to_string(dir.join("cgroup.procs")) {
                // ENODEV: removed since it was opened
                Err(e) if e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ENODEV) => {
                    continue;
                }
                text => text?,
            };
            all.extend(text.lines().filter_map(|l| l.parse::<u32>().ok()));
        }
        all.sort();
        all.dedup();
        Ok(all)
    }

    /// How many members the kernel has killed for memory.
    pub fn oom_kills(&self) -> u64 {
        let count = |file: PathBuf| {
            let text = fs::read_to_string(file).unwrap_or_default();
            cgroup_usage::value(&text, "oom_kill").unwrap_or(0)
        };
        let v1 = self.dir_of(Controller::Memory).map_or(0, |dir| count(dir.join("memory.oom_control")));
        let v2 = self.dirs.iter().find(|(c, _)| c.is_none());
        v1.max(v2.map_or(0, |(_, dir)| count(dir.join("memory.events"))))
    }

    /// The kernel's counts for the group's members.
    pub fn usage(&self) -> CgroupUsage {
        if let Some((None, dir)) = self.dirs.first() {
            return cgroup_usage::v2(dir);
        }
        let of = |controller| self.dir_of(controller);
        cgroup_usage::v1(of(Controller::Memory), of(Controller::Cpu), of(Controller::Cpuacct))
    }

    /// Removes what is empty.
    pub fn remove(&self) {
        for (_, dir) in &self.dirs {
            // Still populated: left for the next keeper's sweep.
            let _ = fs::remove_dir(dir);
        }
    }

    fn dir_of(&self, controller: Controller) -> Option<&Path> {
        self.dirs.iter().find(|(c, _)| *c == Some(controller)).map(|(_, dir)| dir.as_path())
    }
}

fn limit_memory_v1(dir: &Path, limits: CgroupLimits) -> io::Result<()> {
    if limits.memory_low_bytes > 0 {
        let bytes = limits.memory_low_bytes.to_string();
        write_if_present(&dir.join("memory.soft_limit_in_bytes"), &bytes)?;
    }
    if limits.memory_bytes == 0 {
        return Ok(());
    }
    let bytes = limits.memory_bytes.to_string();
    fs::write(dir.join("memory.limit_in_bytes"), &bytes)?;
    write_if_present(&dir.join("memory.memsw.limit_in_bytes"), &bytes)?;
    write_if_present(&dir.join("memory.swappiness"), "0")
}

fn write_if_present(file: &Path, text: &str) -> io::Result<()> {
    match OpenOptions::new().write(true).open(file) {
        Ok(mut f) => f.write_all(text.as_bytes()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

fn make(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            Err(io::Error::new(e.kind(), format!("the cgroup {} cannot be made: {e}", dir.display())))
        }
        _ => Ok(()),
    }
}

fn shares(mhz: u64) -> u64 {
    mhz.clamp(MIN_SHARES, MAX_SHARES)
}

/// `1 + (shares - 2) * 9999 / 262142`, in whole numbers (client.md 27.1).
fn weight(mhz: u64) -> u64 {
    1 + (shares(mhz) - 2) * 9999 / 262_142
}

/// `mounts`: /proc/self/mountinfo; `own`: /proc/self/cgroup. A hybrid tree counts as v1.
fn find(mounts: &str, own: &str) -> Version {
    let mut v1 = Vec::new();
    let mut v2 = None;
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let Some(mount) = left.split(' ').nth(4) else { continue };
        let mut right = right.split(' ');
        match right.next() {
            Some("cgroup") => {
                let options = right.next_back().unwrap_or_default();
                v1.extend(options.split(',').filter_map(controller).map(|c| (c, PathBuf::from(mount))));
            }
            Some("cgroup2") => v2 = Some(PathBuf::from(mount)),
            _ => {}
        }
    }
    if v1.iter().any(|(c, _)| matches!(c, Controller::Cpu | Controller::Memory)) {
        return usable_v1(v1);
    }
    v2.map_or(Version::None, |mount| usable_v2(&mount, own))
}

fn usable_v1(mut hierarchies: Vec<(Controller, PathBuf)>) -> Version {
    hierarchies.retain_mut(|(_, dir)| {
        let root = dir.clone();
        dir.push("drover");
        writable(dir) || (!dir.exists() && writable(&root))
    });
    if hierarchies.is_empty() { Version::None } else { Version::V1(hierarchies) }
}

fn usable_v2(mount: &Path, own: &str) -> Version {
    let slice = mount.join("drover.slice");
    if writable(&slice) || (!slice.exists() && writable(mount)) {
        return v2(slice, &mount.join("cgroup.subtree_control"), false);
    }
    let own =
        own.lines().find_map(|l| l.strip_prefix("0::/")).map(|p| mount.join(p.trim_end_matches("/keeper")));
    match own {
        Some(base) if writable(&base) && writable(&base.join("cgroup.subtree_control")) => {
            let offered = base.join("cgroup.controllers");
            v2(base, &offered, true)
        }
        _ => Version::None,
    }
}

fn v2(base: PathBuf, offered: &Path, own: bool) -> Version {
    let offered = fs::read_to_string(offered).unwrap_or_default();
    let controllers = offered.split_ascii_whitespace().filter_map(controller).collect();
    Version::V2 { base, own, controllers }
}

fn controller(name: &str) -> Option<Controller> {
    match name {
        "cpu" => Some(Controller::Cpu),
        "cpuacct" => Some(Controller::Cpuacct),
        "memory" => Some(Controller::Memory),
        "freezer" => Some(Controller::Freezer),
        _ => None,
    }
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

fn not_enforced(version: &Version) -> Vec<String> {
    let has = |wanted: Controller| match version {
        Version::None => false,
        Version::V1(dirs) => dirs.iter().any(|(c, _)| *c == wanted),
        Version::V2 { controllers, .. } => controllers.contains(&wanted),
    };
    if *version == Version::None {
        return vec![
            "cpu and memory limits are not enforced: no control group can be written; run drover as root, or under \
             systemd with Delegate=yes"
                .into(),
        ];
    }
    let mut sentences = Vec::new();
    if !has(Controller::Cpu) {
        sentences.push(
            "cpu weights are not enforced: the cpu controller is off for drover; run it under systemd with \
             Delegate=yes, or: echo +cpu > /sys/fs/cgroup/cgroup.subtree_control"
                .to_string(),
        );
    }
    if !has(Controller::Memory) {
        sentences.push(
            "memory limits are not enforced: the memory controller is off; on a Raspberry Pi append \
             cgroup_enable=memory cgroup_memory=1 to the line in /boot/firmware/cmdline.txt and reboot, elsewhere: \
             echo +memory > /sys/fs/cgroup/cgroup.subtree_control"
                .to_string(),
        );
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_weights_follow_the_reference() {
        let cases = [
            (0, 1),
            (2, 1),
            (100, 4),
            (250, 10),
            (500, 19),
            (1000, 39),
            (2000, 77),
            (4000, 153),
            (u64::MAX, 10_000),
        ];
        for (mhz, want) in cases {
            assert_eq!(weight(mhz), want, "{mhz}");
        }
        assert_eq!((shares(0), shares(1), shares(500)), (2, 2, 500));
    }

    #[test]
    fn missing_controllers_are_reported_with_their_remedy() {
        let v2 = |controllers| Version::V2 { base: PathBuf::from("/x"), own: false, controllers };
        let cases = [
            (Version::None, vec!["Delegate=yes"]),
            (v2(vec![]), vec!["+cpu", "cgroup_enable=memory"]),
            (v2(vec![Controller::Cpu]), vec!["cgroup_enable=memory"]),
            (v2(vec![Controller::Memory, Controller::Cpu]), vec![]),
            (Version::V1(vec![(Controller::Memory, PathBuf::new())]), vec!["+cpu"]),
        ];
        for (version, words) in cases {
            let told = not_enforced(&version);
            assert_eq!(told.len(), words.len(), "{version:?}");
            assert!(told.iter().zip(words).all(|(t, w)| t.contains(w)), "{told:?}");
        }
    }

    #[test]
    fn a_group_that_cannot_be_read_may_have_members() {
        let dir = std::env::temp_dir().join(format!("drover-cgroup-read-{}", std::process::id()));
        // neither v2's cgroup.kill nor a freezer
        let group = Group { dirs: vec![(Some(Controller::Memory), dir.clone())], controllers: vec![] };
        assert!(group.members().expect("it is not there").is_empty());
        assert!(!group.kill(), "nothing is left of what is not there");
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join("cgroup.procs"), "").expect("a file");
        assert!(group.members().expect("it can be read").is_empty());
        assert!(!group.kill(), "it is empty");
        fs::remove_file(dir.join("cgroup.procs")).expect("removed");
        fs::create_dir(dir.join("cgroup.procs")).expect("what no text can be read of");
        assert!(group.members().is_err());
        let of_v2 = Group { dirs: vec![(None, dir.clone())], controllers: vec![] };
        assert!(group.kill() && of_v2.kill(), "nobody can tell that they are empty");
        fs::remove_dir_all(&dir).expect("removed");
    }

    /// What stands in a group's files after it was made with these limits; `files` are there before, empty.
    fn written(group: &str, controller: Option<Controller>, files: &[&str]) -> Vec<String> {
        let dir = std::env::temp_dir().join(format!("drover-cgroup-{group}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        for file in files.iter().chain(&["cgroup.procs"]) {
            fs::write(dir.join(file), "").expect("a file");
        }
        let controllers = vec![Controller::Cpu, Controller::Memory];
        let made = Group { dirs: vec![(controller, dir.clone())], controllers };
        let limits = CgroupLimits { cpu_mhz: 250, memory_bytes: 64 << 20, memory_low_bytes: 32 << 20 };
        assert_eq!(made.create(limits).expect("written").len(), 1, "one file to join by");
        let read = |file: &&str| fs::read_to_string(dir.join(file)).expect("a file");
        let texts = files.iter().map(read).collect();
        fs::remove_dir_all(&dir).expect("removed");
        texts
    }

    #[test]
    fn every_limit_is_written_to_its_file() {
        let memory_v1 = [
            "memory.limit_in_bytes",
            "memory.memsw.limit_in_bytes",
            "memory.soft_limit_in_bytes",
            "memory.swappiness",
        ];
        assert_eq!(written("cpu", Some(Controller::Cpu), &["cpu.shares"]), ["250"]);
        let v1 = written("memory", Some(Controller::Memory), &memory_v1);
        assert_eq!(v1, ["67108864", "67108864", "33554432", "0"]);
        let v2 = written("v2", None, &["cpu.weight", "memory.max", "memory.swap.max", "memory.low"]);
        assert_eq!(v2, ["10", "67108864", "0", "33554432"]);
    }

    #[test]
    fn a_machine_without_cgroups_has_none() {
        assert_eq!(find("22 1 0:5 / /proc rw - proc proc rw\n", ""), Version::None);
        assert_eq!(find("garbage\n", "0::/"), Version::None);
    }
}
