//! The setters of what a client offers to tasks beyond cpu, memory and disk: host networks, ports, host volumes.

use super::{Config, HostNetwork};
use ::io::interfaces;
use model::claims::{self, HostVolume};

pub fn u16_of(v: u64) -> u16 {
    u16::try_from(v).unwrap_or(u16::MAX)
}

pub fn ports(value: &str, into: &mut String) -> Result<(), String> {
    claims::ports(value)?;
    *into = value.to_string();
    Ok(())
}

/// One or more, with commas between them.
pub fn cidrs(value: &str, into: &mut String) -> Result<(), String> {
    if let Some(bad) = value.split(',').find(|one| interfaces::parse_cidr(one.trim()).is_none()) {
        return Err(format!("{bad:?} is no range of addresses such as 10.0.0.0/8"));
    }
    *into = value.to_string();
    Ok(())
}

pub fn volume_path(value: &str, into: &mut String) -> Result<(), String> {
    if !value.starts_with('/') {
        return Err(format!("{value:?} must be an absolute path, one that begins with \"/\""));
    }
    *into = value.to_string();
    Ok(())
}

/// A block with a label that was used before adds to the earlier block.
pub fn host_network(config: &mut Config, label: &str) -> Result<(), String> {
    named(&mut config.client.host_networks, label)
}

pub fn host_volume(config: &mut Config, label: &str) -> Result<(), String> {
    named(&mut config.client.host_volumes, label)
}

/// Moves the entry with this label to the end of the list, where its keys' setters find it; adds it if it is new.
fn named<T: Default>(all: &mut Vec<(String, T)>, label: &str) -> Result<(), String> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if label.is_empty() || label.len() > 128 || !label.chars().all(word) {
        return Err(format!("{label:?} may only have letters, digits, \"-\", \"_\" and \".\""));
    }
    let known = all.iter().position(|(name, _)| name == label);
    let entry = known.map_or_else(|| (label.to_string(), T::default()), |at| all.remove(at));
    all.push(entry);
    Ok(())
}

pub fn last_network(config: &mut Config) -> &mut HostNetwork {
    last(&mut config.client.host_networks)
}

pub fn last_volume(config: &mut Config) -> &mut HostVolume {
    last(&mut config.client.host_volumes)
}

fn last<T: Default>(all: &mut Vec<(String, T)>) -> &mut T {
    if all.is_empty() {
        all.push((String::new(), T::default()));
    }
    let at = all.len() - 1;
    &mut all[at].1
}
