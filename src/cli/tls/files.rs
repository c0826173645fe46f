//! A certificate and its key as two files that were not there before.

use crate::error::{CommandError, CommandResult};
use ::io::tls::CertificatePair;
use agent::config::files::os_error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For everybody to read, and for the owner alone.
const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;
/// 2024-01-01: a clock that says less was never set.
const EARLIEST_BELIEVED: Duration = Duration::from_secs(1_704_067_200);
/// A hundred years.
pub const MAX_DAYS: u32 = 36_500;

/// Writes both, or none.
pub fn write(pair: &CertificatePair, certificate: &str, key: &str) -> CommandResult<()> {
    write_new(key, &pair.key, PRIVATE)?;
    write_new(certificate, &pair.certificate, PUBLIC).inspect_err(|_| {
        // of no use without its certificate
        let _gone = fs::remove_file(key);
    })
}

/// Before anything is made: a name that is taken is told at once.
pub fn check_free(names: [&str; 2]) -> CommandResult<()> {
    match names.iter().find(|name| fs::symlink_metadata(name).is_ok()) {
        None => Ok(()),
        Some(name) => Err(CommandError::new(exists(name))),
    }
}

fn exists(name: &str) -> String {
    format!("{name} exists already, and is not overwritten: move it away, or work in another folder")
}

fn write_new(name: &str, text: &str, mode: u32) -> CommandResult<()> {
    let open = OpenOptions::new().write(true).create_new(true).mode(mode).open(name);
    let mut file: File = open.map_err(|e| {
        CommandError::new(match e.kind() {
            ErrorKind::AlreadyExists => exists(name),
            _ => format!("{name} cannot be written: {}", os_error(&e)),
        })
    })?;
    let written: io::Result<()> = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|e| {
        // half of it is of no use
        let _gone = fs::remove_file(name);
        CommandError::new(format!("{name} cannot be written: {}", os_error(&e)))
    })
}

/// The time since 1970, if the machine knows it.
pub fn now() -> CommandResult<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if now < EARLIEST_BELIEVED {
        return Err(CommandError::new(
            "This machine's clock was never set, and a certificate says from when on it is valid: set the clock first",
        ));
    }
    Ok(now)
}

/// How long a certificate is valid.
pub fn days(text: &str) -> Result<u32, String> {
    let days = text.parse().ok().filter(|days| (1..=MAX_DAYS).contains(days));
    days.ok_or_else(|| format!("it must be a whole number between 1 and {MAX_DAYS}"))
}

/// Names of regions and domains become names of files and of hosts.
pub fn host_name(what: &str, name: &str) -> CommandResult<()> {
    let label = |label: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty() && label.len() <= 63 && label.chars().all(known)
    };
    if name.len() <= 200 && name.split('.').all(label) {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "{what} {name:?} is no name of a host: use letters, digits, \"-\" and dots between words"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificates_days_are_bounded() {
        for (text, expected) in
            [("1", Some(1)), ("365", Some(365)), ("0", None), ("36501", None), ("-1", None), ("x", None)]
        {
            assert_eq!(days(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn names_that_are_no_hosts_are_refused() {
        for (name, is_host) in [
            ("nomad", true),
            ("a.b-c.d", true),
            ("", false),
            ("../x", false),
            ("a..b", false),
            ("a b", false),
        ] {
            assert_eq!(host_name("-domain", name).is_ok(), is_host, "{name:?}");
        }
    }
}
