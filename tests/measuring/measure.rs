//! The figures that drover promises, measured on the binary it is given: `tests/measure` builds both and starts this.
//!
//! Prints one table and ends with 1 when a target is missed. Refuses to know drover's inside: it starts agents, asks them
//! over HTTP and looks at what the kernel says of their processes.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod crowd;
mod dispatches;
mod figures;
mod fleet;
mod http;
mod kernel;
mod reads;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use table::Table;

/// Fresh agents that each figure is measured on.
const RUNS: usize = 5;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(binary) = args.next().map(PathBuf::from) else {
        eprintln!("usage: measure <drover binary> [runs | fleet [nodes]]");
        return ExitCode::from(2);
    };
    let what = args.next();
    kernel::allow_many_descriptors();
    let measured = if what.as_deref() == Some("fleet") {
        fleet::measure(&binary, args.next().and_then(|n| n.parse().ok()).unwrap_or(fleet::NODES))
    } else {
        measure(&binary, what.and_then(|n| n.parse().ok()).unwrap_or(RUNS))
    };
    let _ = std::fs::remove_dir_all(agent::scratch());
    match measured {
        Ok(table) => {
            print!("{table}");
            if table.all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("measure: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(binary: &Path, runs: usize) -> Result<Table, String> {
    let binary = binary.canonicalize().map_err(|e| format!("{}: {e}", binary.display()))?;
    let mut table = Table::default();
    table.note(kernel::machine());
    figures::binary_size(&binary, &mut table)?;
    for run in 0..runs {
        eprintln!("run {} of {runs}", run + 1);
        figures::fsync_latency(&mut table)?;
        figures::one_node(&binary, &mut table)?;
        figures::registrations(&binary, &mut table)?;
        dispatches::dispatches(&binary, &mut table)?;
        reads::reads(&binary, &mut table)?;
        reads::reopened(&binary, &mut table)?;
    }
    figures::wear(&binary, &mut table)?;
    Ok(table)
}
