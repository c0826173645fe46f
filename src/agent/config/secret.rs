//! A value of the configuration that is shown to nobody: a key, a token.
//!
//! Refuses to know: what the value is for.

use std::fmt;

/// Bytes that no message, log line or `Debug` shows. Whoever needs them asks for `bytes`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(bytes.into())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}
