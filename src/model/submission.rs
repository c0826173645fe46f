//! The text that a job was made from, kept beside the version that it made. Refuses to know what the text means.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub source: String,
    /// `hcl2` or `json`.
    pub format: String,
    /// `-var` flags.
    pub variable_flags: BTreeMap<String, String>,
    /// The text of the variable files.
    pub variables: String,
}

impl Submission {
    /// What keeping it costs.
    pub fn bytes(&self) -> usize {
        let flags: usize = self.variable_flags.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.source.len() + self.format.len() + self.variables.len() + flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts() {
        let flags = BTreeMap::from([("ab".to_string(), "cde".to_string())]);
        let all = Submission {
            source: "1234567".into(),
            format: "hcl2".into(),
            variable_flags: flags,
            variables: "x".into(),
        };
        assert_eq!(all.bytes(), 7 + 4 + 5 + 1);
    }
}
