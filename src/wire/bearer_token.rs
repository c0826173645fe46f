//! A join token as people pass it on: one word that says which region it is of, and lets a machine into it. Whoever has it may use it.
//!
//! Refuses to know: clocks and keys. When it expires and how often it may be used, the region alone knows.

use super::record::{self, DecodeError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::id::Uuid;
use model::join_token::JoinRole;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What each token begins with, so that scanners for secrets find it and people know it.
pub const PREFIX: &str = "drover-join-";
/// A region's name, two keys and an id, with room.
const MAX_TEXT_BYTES: usize = 1024;
const CHECKSUM_BYTES: usize = 4;
const MAX_REGION_BYTES: usize = 256;

/// 32 bytes that nobody can guess. Shown by nothing but the token's own text.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSecret(pub [u8; 32]);

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BearerToken {
    pub region: String,
    /// SHA-256 of the region's public key: a server has to show that it is of that region before it is shown the secret.
    pub region_key_digest: [u8; 32],
    pub role: JoinRole,
    pub id: Uuid,
    pub secret: TokenSecret,
}

crate::records! {
    BearerToken = "join token text" 1;
}

/// Why a text is no join token. Its text is not repeated: it may be one but for a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenTextError {
    NotAToken,
    Mistyped,
    Newer,
}

impl fmt::Display for TokenTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenTextError::NotAToken => {
                "this is no join token: one begins with drover-join-, and `drover token create` makes it"
            }
            TokenTextError::Mistyped => "the join token is damaged: copy all of it once more",
            TokenTextError::Newer => "the join token is of a newer build: upgrade this one",
        })
    }
}

impl BearerToken {
    pub fn text(&self) -> String {
        let mut bytes = record::encode(self);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Space around it is no part of it.
    pub fn parse(text: &str) -> Result<BearerToken, TokenTextError> {
        let body = text.trim().strip_prefix(PREFIX).ok_or(TokenTextError::NotAToken)?;
        if body.len() > MAX_TEXT_BYTES {
            return Err(TokenTextError::Mistyped);
        }
        let bytes = URL_SAFE_NO_PAD.decode(body).map_err(|_| TokenTextError::Mistyped)?;
        let (record, checksum) =
            bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(TokenTextError::Mistyped)?;
        if crc32fast::hash(record).to_le_bytes() != *checksum {
            return Err(TokenTextError::Mistyped);
        }
        let token: BearerToken = record::decode(record).map_err(|error| match error {
            DecodeError::Version { .. } => TokenTextError::Newer,
            _ => TokenTextError::Mistyped,
        })?;
        if token.region.len() > MAX_REGION_BYTES { Err(TokenTextError::Mistyped) } else { Ok(token) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> BearerToken {
        BearerToken {
            region: "global".into(),
            region_key_digest: [7; 32],
            role: JoinRole::Client,
            id: Uuid::from_random(9),
            secret: TokenSecret([0xab; 32]),
        }
    }

    #[test]
    fn a_token_is_one_word_that_is_read_again() {
        let text = token().text();
        assert!(text.starts_with("drover-join-") && text.len() < 160, "{text}");
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{text}");
        assert_eq!(BearerToken::parse(&format!(" {text}\n")), Ok(token()));
        assert!(!format!("{:?}", token()).contains("171"), "no log shows the secret");
    }

    #[test]
    fn a_token_with_any_letter_changed_or_missing_is_refused() {
        let text = token().text();
        for at in 0..text.len() {
            for other in ['A', 'z', '-', ' ', '=', '/', '0'] {
                let mut changed = text.clone();
                changed.replace_range(at..at + 1, &other.to_string());
                if changed != text {
                    assert!(BearerToken::parse(&changed).is_err(), "{changed}");
                }
            }
            assert!(BearerToken::parse(&text[..at]).is_err(), "{at}");
            assert!(BearerToken::parse(&format!("{}{}", &text[..at], &text[at + 1..])).is_err(), "{at}");
        }
        assert_eq!(BearerToken::parse(&format!("{text}A")), Err(TokenTextError::Mistyped));
        assert_eq!(BearerToken::parse("drover"), Err(TokenTextError::NotAToken));
        let long = format!("{PREFIX}{}", "A".repeat(1 << 20));
        assert_eq!(BearerToken::parse(&long), Err(TokenTextError::Mistyped));
    }

    #[test]
    fn a_token_of_a_newer_build_is_told_so() {
        let mut bytes = record::encode(&token());
        bytes[0] = 2;
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        assert_eq!(BearerToken::parse(&text), Err(TokenTextError::Newer));
    }

    #[test]
    fn a_token_of_a_region_with_a_longer_name_is_refused() {
        let long = BearerToken { region: "r".repeat(256), ..token() };
        assert_eq!(BearerToken::parse(&long.text()), Ok(long));
        let longer = BearerToken { region: "r".repeat(257), ..token() };
        assert_eq!(BearerToken::parse(&longer.text()), Err(TokenTextError::Mistyped));
    }
}
