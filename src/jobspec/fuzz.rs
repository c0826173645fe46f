//! What holds of any text that is given as a job file.

use super::diagnostic::Source;
use super::layout::canonical;
use super::{Vars, decode_job, duration, parse, render};

/// Texts of that many bytes are all that a fuzzer learns something from.
const MAX_BYTES: usize = 64 << 10;

/// A text is a job or says why not; a job is taken or refused with sentences; the canonical layout is its own.
pub fn hcl(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_BYTES)]);
    let parsed = parse("f.hcl", &text, &Vars { strict: true, ..Vars::default() }, None);
    assert_eq!(parsed.job.is_none(), !parsed.diagnostics.is_empty());
    assert_eq!(parsed.job.is_none(), !render(&parsed.diagnostics).is_empty());
    if let Some(Err(refused)) = parsed.job.as_ref().map(decode_job) {
        assert!(!refused.to_string().is_empty());
    }
    if let Ok(laid_out) = canonical(Source { name: "f.hcl", text: &text }) {
        assert_eq!(canonical(Source { name: "f.hcl", text: &laid_out }).as_ref(), Ok(&laid_out));
    }
    if let Ok(span) = duration::parse(&text) {
        assert_eq!(duration::parse(&span.to_string()), Ok(span));
    }
}
