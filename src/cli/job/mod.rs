//! `drover job`, and what reads and lays out job files: `fmt` and `scaling policy`.
//!
//! Refuses to know: what a job file means; `jobspec` and the agent say that.

pub mod action;
pub mod allocs;
pub mod dispatch;
pub mod file;
pub mod fmt;
pub mod init;
pub mod inspect;
pub mod local_files;
pub mod periodic;
pub mod plan;
pub mod revert;
pub mod run;
pub mod scaling;
pub mod start;
pub mod status;
pub mod stop;
pub mod tag;
pub mod validate;
