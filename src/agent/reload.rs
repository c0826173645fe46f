//! Reads the configuration anew: what a running agent takes over, and what it only names because it needs a restart.

use super::config::{Config, Loaded, Settings, keys};

/// Reads the same files and flags as at the start.
pub type ReadConfig = Box<dyn Fn() -> Result<Loaded, String> + Send>;

pub struct Reloader {
    pub read: ReadConfig,
    /// What the agent started with.
    pub settings: Settings,
}

/// What the files say now.
pub struct ReloadedConfig {
    pub config: Config,
    warnings: Vec<String>,
    /// Keys that changed since the start, and that a running agent does not take over.
    pending: Vec<String>,
}

impl Reloader {
    pub fn read_again(&self) -> Result<ReloadedConfig, String> {
        let Loaded { config, settings, warnings } = (self.read)()?;
        Ok(ReloadedConfig { config, warnings, pending: pending(&self.settings, &settings) })
    }
}

impl ReloadedConfig {
    pub fn log_changes(&self) {
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        if !self.pending.is_empty() {
            let keys = self.pending.join(", ");
            tracing::warn!(
                keys,
                "changed in the configuration, but only a restart of the agent takes it over"
            );
        }
    }
}

fn pending(before: &Settings, now: &Settings) -> Vec<String> {
    let mut changed: Vec<String> = before
        .keys()
        .chain(now.keys())
        .filter(|k| before.get(*k) != now.get(*k) && !keys::is_reloadable(k))
        .cloned()
        .collect();
    changed.sort();
    changed.dedup();
    changed
}

#[cfg(test)]
mod tests {
    use super::super::config::Setting;
    use super::*;

    #[test]
    fn changed_keys_that_need_a_restart_are_named_once() {
        let settings = |pairs: &[(&str, &str)]| -> Settings {
            pairs.iter().map(|(k, v)| (k.to_string(), Setting::Shown(v.to_string()))).collect()
        };
        let before =
            settings(&[("region", "a"), ("name", "n"), ("log_level", "INFO"), ("client.meta.x", "1")]);
        let now = settings(&[
            ("region", "b"),
            ("name", "n"),
            ("log_level", "DEBUG"),
            ("log_levels", "1"),
            ("http_api_response_headers.X-A", "1"),
            ("limits.http_max_conns_per_client", "7"),
        ]);
        assert_eq!(pending(&before, &now), ["client.meta.x", "log_levels", "region"]);
        assert_eq!(pending(&now, &now), Vec::<String>::new());
    }
}
