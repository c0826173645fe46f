//! For tests of what reads files: a directory of their own, and a source read to its present end.

#[cfg(test)]
use super::stream::ChunkSource;
use std::fs;
use std::path::{Path, PathBuf};
#[cfg(test)]
use wire::client_rpc::StreamFrame;

/// Removed at its end.
pub struct Scratch(PathBuf);

impl Scratch {
    /// With these directories in it.
    pub fn new(name: &str, dirs: &[&str]) -> Scratch {
        let dir = std::env::temp_dir().join(format!("drover-node-{}-{name}", std::process::id()));
        for below in dirs {
            fs::create_dir_all(dir.join(below)).expect("a directory");
        }
        Scratch(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.0.join(file), bytes).expect("written");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // what stays in the directory for temporary files harms no test
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// All data up to the first piece that is none.
#[cfg(test)]
pub fn rest(source: &mut impl ChunkSource) -> String {
    let mut out = Vec::new();
    while let Some(StreamFrame::Data { bytes, .. }) = source.next().expect("it can be read") {
        out.extend(bytes);
    }
    String::from_utf8(out).expect("text")
}
