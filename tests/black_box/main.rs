//! drover as its users and its enemies meet it: the built binary, driven by command line, HTTP, signals and damage.
//!
//! Each test has an agent of its own: own data directory, own port. `node` ends everything a test started, however it ends.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stderr)]

mod actions;
mod asks;
mod chaos;
mod collecting;
mod command_line;
mod configuration;
mod damage;
mod deployments;
mod dev;
mod disconnecting;
mod dispatch;
mod drains;
mod exec;
mod failing_disk;
mod full_disk;
mod held_thread;
mod hostile;
mod http_api;
mod job_file;
mod logs;
mod names;
mod node;
mod observe;
mod operator;
mod paths;
mod periodic;
mod planning;
mod ports;
mod preemption;
mod region;
mod relayed;
mod roles;
mod scaling;
mod screen;
mod smuggling;
mod survival;
mod synced;
mod system;
mod system_rollouts;
mod tasks;
mod tls;
mod wait;
mod web;
mod why;
