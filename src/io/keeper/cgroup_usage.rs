//! What the files of a control group say of its use, for both versions of control groups.
//!
//! Refuses to know: where a group lies. A file that a kernel does not have leaves its figures out.

use std::fs;
use std::path::Path;
use wire::resource_usage::CgroupUsage;

/// `memory`, `cpu` and `cpuacct`: the group's directory in the hierarchy with that controller. Figures include those of groups
/// below, as version 2 has them.
pub fn v1(memory: Option<&Path>, cpu: Option<&Path>, cpuacct: Option<&Path>) -> CgroupUsage {
    let memory_stat = text(memory, "memory.stat");
    let cpu_stat = text(cpu, "cpu.stat");
    CgroupUsage {
        memory_bytes: number(memory, "memory.usage_in_bytes"),
        max_memory_bytes: number(memory, "memory.max_usage_in_bytes"),
        cache_bytes: value(&memory_stat, "total_cache"),
        swap_bytes: value(&memory_stat, "total_swap"),
        mapped_file_bytes: value(&memory_stat, "total_mapped_file"),
        kernel_bytes: number(memory, "memory.kmem.usage_in_bytes"),
        max_kernel_bytes: number(memory, "memory.kmem.max_usage_in_bytes"),
        throttled_periods: value(&cpu_stat, "nr_throttled"),
        throttled_nanos: value(&cpu_stat, "throttled_time"),
        cpu_nanos: number(cpuacct, "cpuacct.usage"),
    }
}

pub fn v2(group: &Path) -> CgroupUsage {
    let group = Some(group);
    let memory_stat = text(group, "memory.stat");
    let cpu_stat = text(group, "cpu.stat");
    let nanos = |name| value(&cpu_stat, name).map(|micros| micros.saturating_mul(1000));
    CgroupUsage {
        memory_bytes: number(group, "memory.current"),
        max_memory_bytes: number(group, "memory.peak"),
        cache_bytes: value(&memory_stat, "file"),
        swap_bytes: number(group, "memory.swap.current"),
        mapped_file_bytes: value(&memory_stat, "file_mapped"),
        kernel_bytes: value(&memory_stat, "kernel"),
        max_kernel_bytes: None,
        throttled_periods: value(&cpu_stat, "nr_throttled"),
        throttled_nanos: nanos("throttled_usec"),
        cpu_nanos: nanos("usage_usec"),
    }
}

fn text(dir: Option<&Path>, file: &str) -> String {
    dir.and_then(|dir| fs::read_to_string(dir.join(file)).ok()).unwrap_or_default()
}

fn number(dir: Option<&Path>, file: &str) -> Option<u64> {
    text(dir, file).trim().parse().ok()
}

/// The value of `name` in a file with a name and a value in each line.
pub fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A directory with these files, as the kernel writes them.
    fn group(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("drover-usage-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        for (file, text) in files {
            fs::write(dir.join(file), text).expect("a file");
        }
        dir
    }

    #[test]
    fn usage_of_version_2_is_read_from_its_files() {
        let memory_stat =
            "anon 8192\nfile 4096\nkernel 2048\nkernel_stack 16\nshmem 0\nfile_mapped 1024\nfile_dirty 5\n";
        let cpu_stat =
            "usage_usec 70\nuser_usec 50\nsystem_usec 20\nnr_periods 9\nnr_throttled 3\nthrottled_usec 40\n";
        let files = [
            ("memory.current", "16384\n"),
            ("memory.peak", "20480\n"),
            ("memory.swap.current", "512\n"),
            ("memory.stat", memory_stat),
            ("cpu.stat", cpu_stat),
        ];
        let dir = group("v2", &files);
        let read = v2(&dir);
        fs::remove_dir_all(&dir).expect("removed");
        let expected = CgroupUsage {
            memory_bytes: Some(16_384),
            max_memory_bytes: Some(20_480),
            cache_bytes: Some(4096),
            swap_bytes: Some(512),
            mapped_file_bytes: Some(1024),
            kernel_bytes: Some(2048),
            max_kernel_bytes: None,
            throttled_periods: Some(3),
            throttled_nanos: Some(40_000),
            cpu_nanos: Some(70_000),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn usage_of_version_1_is_read_from_three_hierarchies() {
        let memory_stat =
            "cache 1\nmapped_file 1\nswap 1\ntotal_cache 4096\ntotal_mapped_file 1024\ntotal_swap 512\n";
        let memory = group(
            "memory",
            &[
                ("memory.usage_in_bytes", "16384\n"),
                ("memory.max_usage_in_bytes", "20480\n"),
                ("memory.kmem.usage_in_bytes", "2048\n"),
                ("memory.kmem.max_usage_in_bytes", "3072\n"),
                ("memory.stat", memory_stat),
            ],
        );
        let cpu = group("cpu", &[("cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 40000\n")]);
        let cpuacct = group("cpuacct", &[("cpuacct.usage", "70000\n")]);
        let read = v1(Some(&memory), Some(&cpu), Some(&cpuacct));
        for dir in [memory, cpu, cpuacct] {
            fs::remove_dir_all(dir).expect("removed");
        }
        let expected = CgroupUsage {
            memory_bytes: Some(16_384),
            max_memory_bytes: Some(20_480),
            cache_bytes: Some(4096),
            swap_bytes: Some(512),
            mapped_file_bytes: Some(1024),
            kernel_bytes: Some(2048),
            max_kernel_bytes: Some(3072),
            throttled_periods: Some(3),
            throttled_nanos: Some(40_000),
            cpu_nanos: Some(70_000),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn usage_that_the_kernel_does_not_count_is_left_out() {
        assert_eq!(v1(None, None, None), CgroupUsage::default());
        // a group without the controllers cpu and memory
        let dir = group("bare", &[("cpu.stat", "usage_usec 70\nuser_usec 50\nsystem_usec 20\n")]);
        let read = v2(&dir);
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(read, CgroupUsage { cpu_nanos: Some(70_000), ..CgroupUsage::default() });
    }
}
