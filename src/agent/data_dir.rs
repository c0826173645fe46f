//! The data directory: who owns it, in which format it is, where things lie in it. What cannot be read is refused or set
//! aside with a sentence, never emptied.

use super::failure::AgentFailure;
use ::io::entropy;
use ::io::keeper::EPHEMERAL_MARKER;
use model::id::{NodeId, NodeSecret};
use rustix::fs::{FlockOperation, flock};
use std::fmt::Display;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The format that this build writes. See docs/ondisk.md.
const FORMAT: u32 = 1;

pub struct DataDir {
    root: PathBuf,
    /// Held as long as the agent lives.
    _lock: File,
    ephemeral: bool,
}

impl DataDir {
    /// Takes the directory for this agent alone, creating what is missing (0700).
    pub fn open(root: &Path, ephemeral: bool) -> Result<DataDir, AgentFailure> {
        let at = |what: &str, e: io::Error| format!("data directory {}: {what}: {e}", root.display());
        make_dir(root, 0o700).map_err(|e| at("cannot be created", e))?;
        let lock = lock(&root.join("lock")).map_err(|e| at("cannot be locked", e))?.ok_or_else(|| {
            format!(
                "data directory {}: another drover agent is using it; stop that one or choose another",
                root.display()
            )
        })?;
        check_format(root)?;
        if ephemeral {
            File::create(root.join(EPHEMERAL_MARKER)).map_err(|e| at(EPHEMERAL_MARKER, e))?;
        }
        for (name, mode) in [("server", 0o700), ("client", 0o700), ("keeper", 0o700), ("alloc", 0o711)] {
            make_dir(&root.join(name), mode).map_err(|e| at(name, e))?;
        }
        Ok(DataDir { root: root.to_path_buf(), _lock: lock, ephemeral })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn server_store(&self) -> PathBuf {
        self.root.join("server")
    }

    /// The node's identity, made at the first start.
    pub fn identity(&self) -> Result<(NodeId, NodeSecret), String> {
        let dir = self.root.join("client");
        let (id, new_id) = kept(&dir.join("client-id"), NodeId::from_random)?;
        let (secret, new_secret) = kept(&dir.join("secret-id"), NodeSecret::from_random)?;
        if new_id || new_secret {
            File::open(&dir).and_then(|d| d.sync_all()).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        Ok((id, secret))
    }

    /// Lets tasks of other users pass through to their own directories, without letting them list anything: done when the
    /// first such task is placed here, so that a node without any keeps its directory closed.
    pub fn allow_traversal(root: &Path) -> io::Result<()> {
        fs::set_permissions(root, fs::Permissions::from_mode(0o711))
    }
}

/// A throw-away directory goes, also when the agent could not start; any other stays as it is.
impl Drop for DataDir {
    fn drop(&mut self) {
        if self.ephemeral
            && let Err(error) = fs::remove_dir_all(&self.root)
        {
            tracing::warn!(path = %self.root.display(), %error, "the throw-away data directory could not be removed");
        }
    }
}

pub fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).recursive(path.parent().is_some_and(|p| !p.exists())).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// `None` when somebody else holds it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn check_format(root: &Path) -> Result<(), AgentFailure> {
    let path = root.join("format");
    match fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(FORMAT) => Ok(()),
            Ok(found) if found > FORMAT => Err(AgentFailure::NeedsNewerBuild(format!(
                "data directory {}: written in format {found}, this drover reads format {FORMAT}; use a newer drover",
                root.display()
            ))),
            _ => Err(format!(
                "{} does not hold a format number: this is no drover data directory, or it is damaged; restore it or \
                 choose another data_dir",
                path.display()
            )
            .into()),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => write_whole(&path, format!("{FORMAT}\n").as_bytes())
            .and_then(|()| File::open(root)?.sync_all())
            .map_err(|e| format!("{}: {e}", path.display()).into()),
        Err(e) => Err(format!("{}: {e}", path.display()).into()),
    }
}

/// The id in the file, or a new one put there, and whether it is new: then the caller syncs the directory.
fn kept<T: FromStr + Display>(path: &Path, make: impl Fn(u128) -> T) -> Result<(T, bool), String> {
    let named = |e: &dyn Display| format!("{}: {e}", path.display());
    match fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map(|id| (id, false)).map_err(|_| {
            named(&"does not hold an id: restore the file, or remove it to make this machine a new node")
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let id = make(entropy::u128().map_err(|e| named(&e))?);
            write_whole(path, id.to_string().as_bytes()).map_err(|e| named(&e))?;
            Ok((id, true))
        }
        Err(e) => Err(named(&e)),
    }
}

/// Writes a file whole or not at all: one that a power cut leaves half-written would be taken for damage. It is there for good once
/// its directory is synced.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}
