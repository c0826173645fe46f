//! The agent's own log, on stderr and in a file: text or JSON, at a level that a SIGHUP can change; and the same for those who
//! follow it over HTTP, at the level that they ask for.

use super::config::{AgentLogConfig, LogLevel};
use super::log_lines::{json, text};
use ::io::clock;
use ::io::log_file::{LogFile, RotationPolicy};
use ::io::monitor::Monitor;
use api::monitor::MonitorLevel;
use jiff::Timestamp;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber, callsite, span};

pub struct Logging {
    log: Arc<Log>,
    /// False: another agent of this process has the log.
    in_place: bool,
    pub monitor: Arc<Monitor>,
}

/// Where events go. There are no spans.
struct Log {
    /// The level of the agent's own log.
    own: AtomicU8,
    /// The level that somebody follows.
    followed: AtomicU8,
    json: bool,
    located: bool,
    file: Option<Mutex<LogFile>>,
    monitor: Arc<Monitor>,
}

/// Starts logging, once per process.
pub fn init(config: &AgentLogConfig) -> Result<Logging, String> {
    let monitor = Arc::new(Monitor::default());
    let log = Arc::new(Log {
        own: AtomicU8::new(config.level as u8),
        followed: AtomicU8::new(LogLevel::Off as u8),
        json: config.json,
        located: config.include_location,
        file: log_file(config)?.map(Mutex::new),
        monitor: monitor.clone(),
    });
    // a second agent in one process would find a subscriber in place, and share it
    let in_place = tracing::subscriber::set_global_default(log.clone()).is_ok();
    let told = log.clone();
    monitor.listen(move |wanted| set(&told.followed, wanted.map_or(LogLevel::Off, level_of)));
    Ok(Logging { log, in_place, monitor })
}

/// Written besides stderr, if there shall be one.
fn log_file(config: &AgentLogConfig) -> Result<Option<LogFile>, String> {
    let Some(path) = &config.file else { return Ok(None) };
    let rotation = RotationPolicy {
        bytes: config.rotate_bytes,
        age: clock::duration(config.rotate_duration),
        keep: config.rotate_max_files,
    };
    LogFile::open(path, rotation).map(Some).map_err(|e| format!("log_file {}: {e}", path.display()))
}

impl Logging {
    pub fn set(&self, level: LogLevel) {
        if self.in_place {
            set(&self.log.own, level);
            tracing::info!(level = level.name(), "log level set");
        }
    }
}

/// `tracing` caches for each call site whether its level is enabled: after a change the cache is rebuilt.
fn set(which: &AtomicU8, level: LogLevel) {
    which.store(level as u8, Ordering::Relaxed);
    callsite::rebuild_interest_cache();
}

impl Log {
    fn level(&self) -> u8 {
        self.own.load(Ordering::Relaxed).max(self.followed.load(Ordering::Relaxed))
    }

    /// A failure to write the log file is reported on stderr.
    fn write(&self, line: &str) {
        // a failure to write to stderr cannot be reported at all
        let _ = io::stderr().write_all(line.as_bytes());
        let Some(file) = &self.file else { return };
        if let Err(e) = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes()) {
            // nor can this one
            let _ = writeln!(io::stderr(), "The log file cannot be written: {e}");
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        rank(about.level()) as u8 <= self.level()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.level() {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn event(&self, event: &Event<'_>) {
        let at = Timestamp::now();
        let level = rank(event.metadata().level());
        if level as u8 <= self.own.load(Ordering::Relaxed) {
            let write = if self.json { json } else { text };
            self.write(&write(event, at, self.located));
        }
        if level as u8 <= self.followed.load(Ordering::Relaxed) {
            self.monitor.line(shown(level), false, text(event, at, false).as_bytes());
            self.monitor.line(shown(level), true, json(event, at, false).as_bytes());
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn rank(level: &Level) -> LogLevel {
    match *level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}

fn level_of(shown: MonitorLevel) -> LogLevel {
    match shown {
        MonitorLevel::Error => LogLevel::Error,
        MonitorLevel::Warn => LogLevel::Warn,
        MonitorLevel::Info => LogLevel::Info,
        MonitorLevel::Debug => LogLevel::Debug,
        MonitorLevel::Trace => LogLevel::Trace,
    }
}

fn shown(level: LogLevel) -> MonitorLevel {
    match level {
        LogLevel::Error => MonitorLevel::Error,
        LogLevel::Warn => MonitorLevel::Warn,
        LogLevel::Info => MonitorLevel::Info,
        LogLevel::Debug => MonitorLevel::Debug,
        LogLevel::Off | LogLevel::Trace => MonitorLevel::Trace,
    }
}
