//! Users by name, from /etc/passwd and /etc/group: the same in a static binary as in any other.
//!
//! Refuses to know: directories of users elsewhere (LDAP and the like); their users must also be in the files.

use std::fs;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// The primary group first, then those that list the user.
    pub groups: Vec<u32>,
}

/// The most groups a user is given; the kernel allows 65536.
const MAX_GROUPS: usize = 1024;

pub fn find(name: &str) -> Result<User, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|e| format!("{path} cannot be read: {e}"));
    lookup(name, &read("/etc/passwd")?, &read("/etc/group")?).ok_or_else(|| {
        format!("the user {name:?} is not known to this system: it must be in /etc/passwd by name")
    })
}

fn lookup(name: &str, passwd: &str, group: &str) -> Option<User> {
    let fields = passwd.lines().map(|l| l.split(':').collect::<Vec<_>>());
    let (uid, gid) = fields.filter(|f| f.len() >= 4 && f[0] == name).find_map(|f| {
        let ids = (f[2].parse().ok()?, f[3].parse().ok()?);
        Some(ids)
    })?;
    let listed = group.lines().filter_map(|line| {
        let mut f = line.split(':').skip(2);
        let (id, members) = (f.next()?.parse::<u32>().ok()?, f.next()?);
        members.split(',').any(|m| m.trim() == name).then_some(id)
    });
    let mut groups = vec![gid];
    groups.extend(listed.filter(|id| *id != gid).take(MAX_GROUPS - 1));
    Some(User { uid, gid, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_come_with_all_their_groups() {
        let passwd = "root:x:0:0::/:/bin/sh\nbroken\nann:x:7:8:A,B:/home:/bin/sh\nbad:x:y:1::\n";
        let group = "root:x:0:\nann:x:8:\nfiles:x:9:bob,ann\nmine:x:8:ann\nnone:x:10:annette\nbroken\n";
        assert_eq!(lookup("ann", passwd, group), Some(User { uid: 7, gid: 8, groups: vec![8, 9] }));
        assert_eq!(lookup("root", passwd, group), Some(User { uid: 0, gid: 0, groups: vec![0] }));
        for unknown in ["", "7", "bad", "broken", "ann:x", "nobody"] {
            assert_eq!(lookup(unknown, passwd, group), None, "{unknown}");
        }
    }
}
