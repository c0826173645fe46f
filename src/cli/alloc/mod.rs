//! `drover alloc`: one allocation's status, files, logs, commands, signals and restarts.
//!
//! Refuses to know: how an allocation is chosen by its job; the session does that.

pub mod addresses;
pub mod checks;
pub mod exec;
pub mod fs;
pub mod logs;
pub mod restart;
pub mod status;
pub mod stop;
pub mod tail;
