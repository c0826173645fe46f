//! What the agent says of itself, on stderr: text or JSON, at a level that a SIGHUP can change.

use super::config::{LogConfig, LogLevel};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

pub struct Logging {
    level: Handle<LevelFilter, Registry>,
}

/// Once per process.
pub fn init(config: &LogConfig) -> Logging {
    let (filter, level) = reload::Layer::new(filter(config.level));
    let registry = tracing_subscriber::registry().with(filter);
    let layer = fmt::layer().with_writer(std::io::stderr).with_target(false);
    // a second agent in one process would find a subscriber in place, and share it
    if config.json {
        registry.with(layer.json()).try_init().unwrap_or_default();
    } else {
        registry.with(layer.with_ansi(false)).try_init().unwrap_or_default();
    }
    Logging { level }
}

impl Logging {
    pub fn set(&self, level: LogLevel) {
        if self.level.reload(filter(level)).is_ok() {
            tracing::info!(level = level.name(), "log level set");
        }
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
