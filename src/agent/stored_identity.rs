//! Where a machine keeps its place in its region: `identity` in the data directory (docs/ondisk.md).
//!
//! Refuses to know: how it came by it. Invariants: a key is on the disk before anybody is shown it; what cannot be read is refused with a
//! sentence, never made anew.

use super::data_dir::{make_dir, write_whole};
use ::io::quic::MachineKey;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use wire::record::{self, Record};
use wire::stored_identity::{StoredIdentity, StoredKey};

pub struct IdentityFiles {
    dir: PathBuf,
}

impl IdentityFiles {
    pub fn in_data_dir(root: &Path) -> IdentityFiles {
        IdentityFiles { dir: root.join("identity") }
    }

    /// The identity, once the machine has enrolled.
    pub fn path(&self) -> PathBuf {
        self.dir.join("identity")
    }

    /// The key of a machine that has not enrolled yet.
    fn key_path(&self) -> PathBuf {
        self.dir.join("key")
    }

    /// From when this machine makes its region's key until the region has begun: the public half of that key.
    fn founder_path(&self) -> PathBuf {
        self.dir.join("founder")
    }

    /// `None`: the machine has not enrolled.
    pub fn load(&self) -> Result<Option<StoredIdentity>, String> {
        read(&self.path())
    }

    /// What others on this machine can do with the identity, if they can read it.
    pub fn exposure(&self) -> Option<String> {
        let path = self.path();
        let mode = fs::metadata(&path).ok()?.permissions().mode();
        (mode & 0o077 != 0).then(|| {
            format!(
                "{}: others may read it (mode {:o}), and be this machine; with a server's, any machine of the region: chmod 600 it",
                path.display(),
                mode & 0o777
            )
        })
    }

    /// The key to enrol with: the same one until the machine is let in, so that a lost answer costs no use of a token.
    pub fn key(&self) -> Result<MachineKey, String> {
        let path = self.key_path();
        let named = |e: &dyn Display| format!("{}: {e}", path.display());
        if let Some(stored) = read::<StoredKey>(&path)? {
            return MachineKey::from_stored(&stored).map_err(|e| named(&e));
        }
        let key = MachineKey::generate().map_err(|e| named(&e))?;
        self.write(&path, &record::encode(key.stored())).map_err(|e| named(&e))?;
        Ok(key)
    }

    /// Whether this machine is to begin the region of that key. What is left of an attempt to found another one says nothing.
    pub fn is_founder_of(&self, region_key: &[u8; 32]) -> bool {
        fs::read(self.founder_path()).is_ok_and(|marked| marked == region_key)
    }

    pub fn mark_founder_of(&self, region_key: &[u8; 32]) -> Result<(), String> {
        let path = self.founder_path();
        self.write(&path, region_key).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// The region has begun: a copy of this directory on an empty disk is not to begin a second one.
    pub fn unmark_founder(&self) -> Result<(), String> {
        let path = self.founder_path();
        let removed = fs::remove_file(&path).and_then(|()| File::open(&self.dir)?.sync_all());
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
            _ => Ok(()),
        }
    }

    pub fn store(&self, identity: &StoredIdentity) -> Result<(), String> {
        let path = self.path();
        self.write(&path, &record::encode(identity)).map_err(|e| format!("{}: {e}", path.display()))?;
        // it is in the identity; one that stays does no harm
        let _ = fs::remove_file(self.key_path());
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        make_dir(&self.dir, 0o700)?;
        write_whole(path, bytes)?;
        File::open(&self.dir)?.sync_all()?;
        match self.dir.parent() {
            Some(root) => File::open(root)?.sync_all(),
            None => Ok(()),
        }
    }
}

fn read<R: Record>(path: &Path) -> Result<Option<R>, String> {
    let named = |e: &dyn Display| format!("{}: {e}", path.display());
    match fs::read(path) {
        Ok(bytes) => record::decode(&bytes).map(Some).map_err(|e| {
            named(&format!("{e}: restore the file, or remove it and join once more with a new token"))
        }),
        // a place that is no directory is refused when it is opened, with what to do
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(named(&e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that goes when it is dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("drover-identity-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            // a test that has failed says why itself
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn a_machine_keeps_one_key_until_it_has_enrolled() {
        let scratch = Scratch::new("key");
        let files = IdentityFiles::in_data_dir(&scratch.0);
        assert_eq!(files.load(), Ok(None));
        let key = files.key().expect("a key");
        assert_eq!(files.key().expect("the same").public(), key.public());
        assert_eq!((mode(&files.dir), mode(&files.key_path())), (0o700, 0o600));
        let identity = StoredIdentity {
            key: key.stored().clone(),
            credential: vec![1],
            region_key: [2; 32],
            region_secret: None,
        };
        files.store(&identity).expect("it is written");
        assert_eq!(files.load(), Ok(Some(identity)));
        assert_eq!((mode(&files.path()), files.key_path().exists()), (0o600, false));
        assert_eq!(files.exposure(), None);
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o640)).expect("it is ours");
        let why = files.exposure().expect("its group can read it");
        assert!(why.contains("mode 640") && why.contains("chmod 600"), "{why}");
        assert_ne!(files.key().expect("another").public(), key.public(), "it would be another machine");
    }

    #[test]
    fn a_founder_is_one_of_its_own_region_until_that_has_begun() {
        let scratch = Scratch::new("founder");
        let files = IdentityFiles::in_data_dir(&scratch.0);
        let (own, other) = ([1; 32], [2; 32]);
        assert!(!files.is_founder_of(&own));
        files.mark_founder_of(&own).expect("it is written");
        assert_eq!((files.is_founder_of(&own), files.is_founder_of(&other)), (true, false));
        assert_eq!([files.unmark_founder(), files.unmark_founder()], [Ok(()), Ok(())]);
        assert!(!files.is_founder_of(&own));
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_stays() {
        let scratch = Scratch::new("damaged");
        let files = IdentityFiles::in_data_dir(&scratch.0);
        files.key().expect("a key");
        for path in [files.path(), files.key_path()] {
            fs::write(&path, [1, 2]).expect("it is written");
        }
        let why = files.load().expect_err("it is damaged");
        assert!(why.contains("identity/identity") && why.contains("join once more"), "{why}");
        assert!(files.key().err().is_some_and(|why| why.contains("identity/key")));
        assert_eq!(fs::read(files.path()).expect("it is there"), [1, 2]);
    }
}
