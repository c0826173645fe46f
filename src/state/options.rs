//! How a store is opened: what it may keep in memory, and when it makes durable what it has put off. Refuses to know disks.

use wire::feature_level::FEATURE_LEVEL;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The server's raft id, for a store that is new.
    pub new_server_id: u64,
    /// Which commands can be applied, and which states read.
    pub feature_level: u32,
    /// What the database may keep in memory of its file.
    pub cache_bytes: usize,
    /// A segment of the log that holds more is full. What a crash leaves to be applied again is at most about twice as
    /// much.
    pub segment_bytes: u64,
    /// A turn with which more rows have changed than this since the last durable commit makes them durable: what is put off must
    /// not become a long turn.
    pub unsaved_rows: usize,
    /// Checksums are off: shows that another check would find the corruption.
    #[cfg(any(test, feature = "testing"))]
    pub unverified: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            new_server_id: 1,
            feature_level: FEATURE_LEVEL,
            cache_bytes: 1 << 20,
            segment_bytes: 1 << 20,
            unsaved_rows: 2048,
            #[cfg(any(test, feature = "testing"))]
            unverified: false,
        }
    }
}

impl Options {
    /// A 256th of the machine's memory for the cache, from 1 MiB to 32: it is filled by what is stored, not by what is spared.
    pub fn on_machine(memory_bytes: u64, new_server_id: u64) -> Options {
        let cache_bytes = (memory_bytes / 256).clamp(1 << 20, 32 << 20) as usize;
        Options { new_server_id, cache_bytes, ..Options::default() }
    }
}
