//! `drover tls`: an authority of one's own and the certificates that it signs, under Nomad's names (cli.md 2.7).
//!
//! Refuses to know: agents. Invariant: no file is overwritten, and a key is readable by its owner alone.

pub mod ca;
pub mod cert;
mod files;
