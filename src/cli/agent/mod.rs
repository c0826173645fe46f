//! `drover agent` and what asks an agent or a keeper of itself: `join`, `agent-info`, `monitor`, `config validate`, `keeper`.
//!
//! Refuses to know: what a configuration's keys mean.

pub mod config_validate;
pub mod info;
pub mod jobs;
pub mod join;
pub mod keeper;
pub mod run;
