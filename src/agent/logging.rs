//! What the agent says of itself, on stderr and in a file: text or JSON, at a level that a SIGHUP can change; and the same for those who
//! follow it over HTTP, at the level that they ask for.

use super::config::{LogConfig, LogLevel};
use crate::api::monitor::LogLevel as Shown;
use crate::io::clock;
use crate::io::log_file::{LogFile, Rotation};
use crate::io::monitor::Monitor;
use std::io;
use std::sync::{Arc, Mutex};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

type Boxed = Box<dyn Layer<Registry> + Send + Sync>;

pub struct Logging {
    /// Sets the level of what goes to stderr; false when there is no log any more.
    set: Box<dyn Fn(LevelFilter) -> bool + Send + Sync>,
    pub monitor: Arc<Monitor>,
}

/// Once per process.
pub fn init(config: &LogConfig) -> Result<Logging, String> {
    let monitor = Arc::new(Monitor::default());
    let (own, own_level) = reload::Layer::new(filter(config.level));
    let own_log = fmt::layer()
        .with_writer(writer(config)?)
        .with_target(false)
        .with_ansi(false)
        .with_file(config.include_location)
        .with_line_number(config.include_location);
    let own_log: Boxed = if config.json {
        Box::new(own_log.json().with_filter(own))
    } else {
        Box::new(own_log.with_filter(own))
    };
    let (text_level, text) = followed(&monitor, false);
    let (json_level, json) = followed(&monitor, true);
    // a second agent in one process would find a subscriber in place, and share it
    let layers: Vec<Boxed> = vec![own_log, text, json];
    tracing_subscriber::registry().with(layers).try_init().unwrap_or_default();
    monitor.listen(move |wanted| {
        for level in [&text_level, &json_level] {
            // gone with the log itself
            level.reload(wanted.map_or(LevelFilter::OFF, shown_filter)).unwrap_or_default();
        }
    });
    Ok(Logging { set: Box::new(move |level| own_level.reload(level).is_ok()), monitor })
}

/// stderr, and the file if there shall be one.
fn writer(config: &LogConfig) -> Result<BoxMakeWriter, String> {
    let Some(path) = &config.file else { return Ok(BoxMakeWriter::new(io::stderr)) };
    let rotation = Rotation {
        bytes: config.rotate_bytes,
        age: clock::duration(config.rotate_duration),
        keep: config.rotate_max_files,
    };
    let file = LogFile::open(path, rotation).map_err(|e| format!("log_file {}: {e}", path.display()))?;
    Ok(BoxMakeWriter::new(io::stderr.and(Mutex::new(file))))
}

/// Off until somebody follows.
fn followed(monitor: &Arc<Monitor>, json: bool) -> (Handle<LevelFilter, Registry>, Boxed) {
    let (filter, level) = reload::Layer::new(LevelFilter::OFF);
    let writer = ToMonitor { monitor: monitor.clone(), json };
    let layer = fmt::layer().with_writer(writer).with_target(false).with_ansi(false);
    (
        level,
        if json { Box::new(layer.json().with_filter(filter)) } else { Box::new(layer.with_filter(filter)) },
    )
}

impl Logging {
    pub fn set(&self, level: LogLevel) {
        if (self.set)(filter(level)) {
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

fn shown_filter(level: Shown) -> LevelFilter {
    match level {
        Shown::Error => LevelFilter::ERROR,
        Shown::Warn => LevelFilter::WARN,
        Shown::Info => LevelFilter::INFO,
        Shown::Debug => LevelFilter::DEBUG,
        Shown::Trace => LevelFilter::TRACE,
    }
}

fn shown(level: Level) -> Shown {
    match level {
        Level::ERROR => Shown::Error,
        Level::WARN => Shown::Warn,
        Level::INFO => Shown::Info,
        Level::DEBUG => Shown::Debug,
        _ => Shown::Trace,
    }
}

/// Takes whole lines: a layer writes each event at once.
struct ToMonitor {
    monitor: Arc<Monitor>,
    json: bool,
}

struct LineWriter<'a> {
    to: &'a ToMonitor,
    level: Shown,
}

impl<'a> MakeWriter<'a> for ToMonitor {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { to: self, level: Shown::Info }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter { to: self, level: shown(*meta.level()) }
    }
}

impl io::Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.monitor.line(self.level, self.to.json, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
