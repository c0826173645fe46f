//! What hostile bytes may reach, as functions from bytes to assertions: what `fuzz/` runs under a fuzzer is what the tests here run over
//! the corpus and seeded mutations of it. A finding is a panic.
//!
//! Refuses to know: how anything is read. Each room states its own properties beside what it states them of.

#[cfg(test)]
mod mutate;
#[cfg(test)]
mod tests;

/// Job files in HCL and their canonical layout.
pub fn hcl(bytes: &[u8]) {
    jobspec::fuzz::hcl(bytes);
}

/// Bodies of job registrations.
pub fn json(bytes: &[u8]) {
    api::fuzz::job(bytes);
}

/// Filter expressions.
pub fn filter(bytes: &[u8]) {
    api::fuzz::filter(bytes);
}

/// HTTP requests: `METHOD target`, a line's end, and the body.
pub fn http(bytes: &[u8]) {
    api::fuzz::request(bytes);
}

/// Records that were stored or sent: a byte that chooses the kind, and the record.
pub fn record(bytes: &[u8]) {
    wire::fuzz::record(bytes);
}

/// The keeper's journal, and the rotation of logs over whatever files there are.
pub fn keeper(bytes: &[u8]) {
    keeper::fuzz::journal(bytes);
    keeper::fuzz::rotation(bytes);
}

/// Readers of log files in a directory that its task has written to.
pub fn logs(bytes: &[u8]) {
    ::io::client_rpc::fuzz::logs(bytes);
}

/// Join tokens as people pass them on.
pub fn token(bytes: &[u8]) {
    wire::fuzz::token(bytes);
}

/// The agent's configuration.
pub fn config(bytes: &[u8]) {
    agent::config::fuzz::load(bytes);
}
