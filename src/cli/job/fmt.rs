//! `drover fmt`: job files and configuration files in their canonical layout (cli.md 2.1.12).
//!
//! A file that is no HCL is told and left as it is, and the others are laid out all the same.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::job::file::read_text;
use crate::session::Session;
use agent::config::files::os_error;
use argh::{ArgsInfo, FromArgs};
use jobspec::{Source, layout, render};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A folder with more files than this is surely the wrong one.
const MAX_FILES: usize = 10_000;
const MAX_DEPTH: usize = 16;

/// lay out HCL files canonically; exit code 1: one is no HCL or, with -check, not laid out so
#[derive(FromArgs, ArgsInfo)]
#[argh(
    name = "fmt",
    example = "drover fmt cache.nomad.hcl",
    example = "drover fmt -check -recursive jobs/",
    example = "cat cache.nomad.hcl | drover fmt -"
)]
pub struct FmtCommand {
    /// change nothing; list the files that are not laid out canonically
    #[argh(switch)]
    check: bool,
    /// list the files that change (default true)
    #[argh(option, arg_name = "bool", default = "true")]
    list: bool,
    /// look for files in folders within folders, too
    #[argh(switch)]
    recursive: bool,
    /// write what changes back; otherwise it is printed (default true)
    #[argh(option, arg_name = "bool", default = "true")]
    write: bool,
    /// files, or folders with *.hcl and *.nomad; - is standard input; none: the folder that you are in
    #[argh(positional)]
    path: Vec<String>,
}

impl CliCommand for FmtCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let here = [".".to_string()];
        let paths = if self.path.is_empty() { &here[..] } else { &self.path };
        let mut all_well = true;
        for path in paths {
            if path == "-" {
                all_well &= self.standard_input(session)?;
                continue;
            }
            for file in files(Path::new(path), self.recursive)? {
                all_well &= self.one(session, &file)?;
            }
        }
        Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl FmtCommand {
    /// False: it is no HCL or, with `-check`, not laid out canonically.
    fn standard_input(&self, session: &Session) -> CommandResult<bool> {
        let text = read_text("-")?;
        let Some(canonical) = laid_out(session, "<stdin>", &text) else { return Ok(false) };
        if self.check {
            return Ok(canonical == text);
        }
        session.out.text(&canonical)?;
        Ok(true)
    }

    fn one(&self, session: &Session, path: &Path) -> CommandResult<bool> {
        let name = path.to_string_lossy();
        let text = read_text(&name)?;
        let Some(canonical) = laid_out(session, &name, &text) else { return Ok(false) };
        if canonical == text {
            return Ok(true);
        }
        if self.list {
            session.out.line(&name)?;
        }
        if self.check {
            return Ok(false);
        }
        if self.write {
            replace(path, &canonical).map_err(|e| CommandError::new(format!("Error writing {name}: {e}")))?;
        } else {
            session.out.text(&canonical)?;
        }
        Ok(true)
    }
}

fn laid_out(session: &Session, name: &str, text: &str) -> Option<String> {
    let canonical = layout::canonical(Source { name, text });
    canonical.map_err(|problem| session.out.error(render(&[problem]).trim_end())).ok()
}

/// Whole or not at all: written beside the file, then put in its place with the same permissions. A link is followed first.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let path = fs::canonicalize(path)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".fmt-{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = fs::write(&beside, text)
        .and_then(|()| fs::set_permissions(&beside, fs::metadata(&path)?.permissions()))
        .and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        let _gone = fs::remove_file(&beside);
    }
    written
}

/// The file itself, or the HCL files of a folder in alphabetical order.
fn files(path: &Path, recursive: bool) -> CommandResult<Vec<PathBuf>> {
    let fail =
        |e: std::io::Error| CommandError::new(format!("Error reading {}: {}", path.display(), os_error(&e)));
    if !fs::metadata(path).map_err(fail)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    collect(path, if recursive { MAX_DEPTH } else { 0 }, &mut found).map_err(fail)?;
    found.sort();
    Ok(found)
}

fn collect(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_link = path.is_symlink();
        if hidden {
            continue;
        }
        if path.is_dir() && !is_link && depth > 0 {
            collect(&path, depth - 1, found)?;
        } else if path.is_file() && path.extension().is_some_and(|e| e == "hcl" || e == "nomad") {
            if found.len() >= MAX_FILES {
                return Err(std::io::Error::other(format!("it holds more than {MAX_FILES} files")));
            }
            found.push(path);
        }
    }
    Ok(())
}
