//! Feature levels: how servers of several builds write one log. A level is a number that grows with what a build knows. The region has one,
//! which no server's build is below (decision 0088); what is written to the log is of that level, or a lower one, and says so in
//! its first byte.
//!
//! Refuses to know: which servers there are, and when a region's level rises.

use super::command::Command;
use super::record::{self, DecodeError, Record};

/// What this build knows.
pub const FEATURE_LEVEL: u32 = 2;
/// From it on a region keeps join tokens.
const JOIN_TOKENS: u32 = 2;
/// The level of a region that says nothing of it.
pub const FIRST_FEATURE_LEVEL: u32 = 1;
/// A level is a byte of each command.
pub const MAX_FEATURE_LEVEL: u32 = u8::MAX as u32;

impl Command {
    /// Builds of lower levels do not know it.
    pub fn feature_level(&self) -> u32 {
        match self {
            Command::RaiseFeatureLevel { level } => *level,
            Command::CreateJoinToken { .. }
            | Command::RevokeJoinToken { .. }
            | Command::RedeemJoinToken(_) => JOIN_TOKENS,
            _ => FIRST_FEATURE_LEVEL,
        }
    }
}

/// The version of a command is its level: a build of a lower level refuses it by its first byte, and guesses nothing.
impl Record for Command {
    const NAME: &'static str = "command";
    const VERSION: u8 = FEATURE_LEVEL as u8;

    fn version(&self) -> u8 {
        u8::try_from(self.feature_level()).expect("the levels that are proposed are bounded")
    }

    fn upgrade(_version: u8, body: &[u8]) -> Result<Command, DecodeError> {
        record::decode_body(Command::NAME, body)
    }
}

/// Reads a command as a build of level `known` does.
pub fn decode_command(bytes: &[u8], known: u32) -> Result<Command, DecodeError> {
    let (&level, body) = bytes.split_first().ok_or(DecodeError::Empty(Command::NAME))?;
    if level == 0 || u32::from(level) > known {
        let known = u8::try_from(known).unwrap_or(u8::MAX);
        return Err(DecodeError::Version { name: Command::NAME, found: level, known });
    }
    Command::upgrade(level, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_its_level_and_a_lower_build_refuses_it() {
        let newer = record::encode(&Command::RaiseFeatureLevel { level: 3 });
        assert_eq!(newer[0], 3);
        assert_eq!(decode_command(&newer, 3), Ok(Command::RaiseFeatureLevel { level: 3 }));
        let refused = decode_command(&newer, 2).map_err(|e| e.to_string());
        let sentence = "command: written in version 3, this build reads up to 2; use a build that knows it";
        assert_eq!(refused, Err(sentence.to_string()));
        let older = record::encode(&Command::DeleteNamespace { name: "team".into() });
        assert_eq!(older[0], 1, "what older builds know is written as they read it");
        assert!(decode_command(&older, 3).is_ok());
        assert!(decode_command(&[0, 1], 3).is_err(), "no level is 0");
        assert!(decode_command(&[], 3).is_err());
    }
}
