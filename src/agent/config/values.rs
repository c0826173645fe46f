//! Setters of single configuration values: those of `keys` that are more than an assignment. Each says in a sentence what
//! is wrong with a value.

use super::secret::Secret;
use super::{Advertised, Config, LogLevel};
use api::request::MAX_BODY_BYTES;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::job::JobType;
use model::scheduling::Algorithm;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use wire::bearer_token::BearerToken;

pub fn u32_of(v: u64) -> u32 {
    u32::try_from(v).unwrap_or(u32::MAX)
}

pub fn i64_of(v: u64) -> i64 {
    i64::try_from(v).unwrap_or(i64::MAX)
}

/// `1M`, `512KiB`, `1000000`: bytes, at most what a request may hold.
pub fn size(value: &str) -> Result<usize, String> {
    let text = value.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "ki" | "kib" => 1 << 10,
        "m" | "mb" => 1_000_000,
        "mi" | "mib" => 1 << 20,
        _ => return Err(format!("{value:?} is no size: write it like 1M, 512KiB or 1000000")),
    };
    let count: usize = digits.parse().map_err(|_| format!("{value:?} is no size: write it like 1M"))?;
    let bytes = count.saturating_mul(unit);
    if bytes > MAX_BODY_BYTES {
        return Err(format!("{value:?} is more than a request may hold: at most {MAX_BODY_BYTES} bytes"));
    }
    Ok(bytes)
}

pub fn name(value: &str, into: &mut String, refused: &[char]) -> Result<(), String> {
    if let Some(c) = value.chars().find(|c| refused.contains(c)) {
        return Err(format!("it may not contain {c:?}"));
    }
    if value.len() > 128 {
        return Err("it may have at most 128 bytes".to_string());
    }
    *into = value.to_string();
    Ok(())
}

pub fn directory(value: &str, into: &mut Option<PathBuf>) -> Result<(), String> {
    let path = PathBuf::from(value);
    if !path.is_absolute() {
        return Err(format!("{value:?} must be an absolute path, one that begins with \"/\""));
    }
    *into = Some(path);
    Ok(())
}

pub fn address(value: &str) -> Result<IpAddr, String> {
    if value.contains("{{") {
        return Err("not supported yet: address templates; write the IP address itself".to_string());
    }
    let bare = value.trim().trim_start_matches('[').trim_end_matches(']');
    bare.parse().map_err(|_| format!("{value:?} is not an IP address"))
}

pub fn addresses(value: &str, into: &mut Vec<IpAddr>) -> Result<(), String> {
    if value.contains("unix:") {
        return Err("not supported yet: unix sockets; write IP addresses, separated by spaces".to_string());
    }
    let found: Result<Vec<IpAddr>, String> = value.split_whitespace().map(address).collect();
    *into = found?;
    Ok(())
}

/// The lengths that Nomad's gossip takes; `drover operator gossip keyring generate` makes the longest.
const KEY_BYTES: [usize; 3] = [16, 24, 32];

/// A key in base64. What is wrong is told without the key.
pub fn encrypt(value: &str, into: &mut Option<Secret>) -> Result<(), String> {
    let wrong = "it must be a key of 32 bytes (or 16 or 24) in base64: `drover operator gossip keyring generate` makes one";
    let key = STANDARD.decode(value.trim()).map_err(|_| wrong)?;
    if !KEY_BYTES.contains(&key.len()) {
        return Err(format!("{wrong}; this one has {} bytes", key.len()));
    }
    *into = Some(Secret::new(key));
    Ok(())
}

/// What is wrong is told without the token.
pub fn join_token(value: &str, into: &mut Option<BearerToken>) -> Result<(), String> {
    *into = Some(BearerToken::parse(value).map_err(|wrong| wrong.to_string())?);
    Ok(())
}

pub fn algorithm(text: &str, into: &mut Algorithm) -> Result<(), String> {
    *into = Algorithm::parse(text).ok_or("it must be \"binpack\" or \"spread\"")?;
    Ok(())
}

/// Nomad's name for the garbage collector, which every server has.
const CORE: &str = "_core";

pub fn enabled_schedulers(config: &mut Config, value: &str) -> Result<(), String> {
    let named = JobType::ALL.into_iter().find(|job_type| job_type.as_str() == value);
    if named.is_none() && value != CORE {
        let known = JobType::WORDS.join(", ");
        return Err(format!("{value:?} is no scheduler: use {known} or {CORE}"));
    }
    if !config.server.enabled_schedulers.contains(&named) {
        config.server.enabled_schedulers.push(named);
    }
    Ok(())
}

pub fn log_level(config: &mut Config, value: &str) -> Result<(), String> {
    let known = "TRACE, DEBUG, INFO, WARN, ERROR or OFF";
    let level = LogLevel::parse(value).ok_or_else(|| format!("{value:?} is no log level: use {known}"))?;
    config.log.level = level;
    Ok(())
}

/// A path that ends in a slash is a folder.
pub fn log_file(config: &mut Config, value: &str) -> Result<(), String> {
    directory(value, &mut config.log.file)?;
    if value.ends_with('/') {
        config.log.file = config.log.file.take().map(|folder| folder.join("drover.log"));
    }
    Ok(())
}

/// Nomad's rule: 0 keeps all, -1 none.
pub fn log_rotate_max_files(config: &mut Config, value: &str) -> Result<(), String> {
    let n: i64 = value.parse().map_err(|_| format!("{value:?} is not a whole number"))?;
    match n {
        0 => {}
        -1 => config.log.rotate_max_files = Some(0),
        _ => {
            let keep = usize::try_from(n).map_err(|_| "it must be -1 or more".to_string())?;
            config.log.rotate_max_files = Some(keep);
        }
    }
    Ok(())
}

pub fn interface(config: &mut Config, value: &str) -> Result<(), String> {
    if value.contains("{{") {
        return Err("not supported yet: address templates; write the interface's name".to_string());
    }
    config.client.network_interface = Some(value.to_string());
    Ok(())
}

/// RFC 9110 section 5: a token, and a value without control characters.
pub fn header(config: &mut Config, key: &str, value: &str) -> Result<(), String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if key.is_empty() || !key.bytes().all(token) || value.chars().any(char::is_control) {
        return Err(format!("{key:?} = {value:?} is no HTTP header"));
    }
    config.http.response_headers.insert(key.to_string(), value.to_string());
    Ok(())
}

/// Identifiers, with dots: they become names of environment variables and of attributes.
pub fn meta(config: &mut Config, key: &str, value: &str) -> Result<(), String> {
    let part_is_valid = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
    };
    if !key.split('.').all(part_is_valid) {
        return Err(format!(
            "{key:?} is no metadata key: use letters, digits, \"_\", \"-\" and dots between words"
        ));
    }
    config.client.meta.insert(key.to_string(), value.to_string());
    Ok(())
}

/// `+prefix` lets metrics through, `-prefix` does not.
pub fn prefix_filter(config: &mut Config, value: &str) -> Result<(), String> {
    let (let_through, prefix) = match (value.strip_prefix('+'), value.strip_prefix('-')) {
        (Some(prefix), _) => (true, prefix),
        (_, Some(prefix)) => (false, prefix),
        _ => return Err(format!("{value:?} begins neither with \"+\" nor with \"-\"")),
    };
    config.telemetry.prefixes.insert(prefix.to_string(), let_through);
    Ok(())
}

/// `host`, `host:port` or an address; the port may follow from `ports`.
pub fn advertise(value: &str) -> Result<Advertised, String> {
    if value.contains("{{") {
        return Err("not supported yet: address templates; write the address itself".to_string());
    }
    let (host, port) = match value.rsplit_once(':') {
        _ if value.parse::<Ipv6Addr>().is_ok() => (format!("[{value}]"), None),
        Some((host, port)) if !value.ends_with(']') => {
            let number = port.parse().ok().filter(|p| *p > 0);
            (host.to_string(), Some(number.ok_or_else(|| format!("{port:?} is no port"))?))
        }
        _ => (value.to_string(), None),
    };
    let address = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let is_host = match address {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)),
    };
    if !is_host {
        return Err(format!("{value:?} is neither an address nor a host's name, with or without a port"));
    }
    Ok(Advertised { host, port })
}

pub fn option(config: &mut Config, key: &str, value: &str) -> Result<(), String> {
    match key {
        "driver.raw_exec.enable" => {
            let on = match value {
                "1" | "true" | "t" | "T" | "True" | "TRUE" => true,
                "0" | "false" | "f" | "F" | "False" | "FALSE" | "" => false,
                _ => return Err(format!("{value:?} is neither true nor false")),
            };
            config.client.raw_exec_enabled = on;
        }
        "env.denylist" | "env.blacklist" => {
            let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
            config.client.env_denylist = Some(names.map(str::to_string).collect());
        }
        // lists of drivers are obeyed by `check`, once all is said; what else there is, is kept
        _ => {}
    }
    config.client.options.insert(key.to_string(), value.to_string());
    Ok(())
}
