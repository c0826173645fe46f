//! Join tokens: what lets a machine into a region that nobody there knows yet, as the region keeps them. The token's secret is not among it.
//!
//! Refuses to know: the token's text, keys, and who shows a token.

use super::id::{NodeId, Uuid};
use super::time::{Span, Wall};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a machine becomes. Encoded by position: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JoinRole {
    /// A node: it is given nothing but its own identity.
    Client,
    /// A server: given the region's secret.
    Server,
}

impl JoinRole {
    pub const ALL: [JoinRole; 2] = [JoinRole::Client, JoinRole::Server];

    pub fn as_str(self) -> &'static str {
        match self {
            JoinRole::Client => "client",
            JoinRole::Server => "server",
        }
    }

    pub fn parse(text: &str) -> Option<JoinRole> {
        JoinRole::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

impl fmt::Display for JoinRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which machine joins. Encoded by position: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoiningMachine {
    /// By a number of its own.
    Server(u64),
    Node(NodeId),
}

impl JoiningMachine {
    pub fn role(self) -> JoinRole {
        match self {
            JoiningMachine::Server(_) => JoinRole::Server,
            JoiningMachine::Node(_) => JoinRole::Client,
        }
    }
}

/// As many tokens as a region keeps, those that are over and not removed yet included.
pub const MAX_TOKENS: usize = 256;
pub const MAX_USES: u32 = 1000;
pub const MIN_TTL: Span = Span::minutes(1);
pub const MAX_TTL: Span = Span::hours(24 * 365);
pub const DEFAULT_TTL: Span = Span::hours(1);

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinTokenSpec {
    pub id: Uuid,
    /// SHA-256 of the secret, which is in the token's text alone.
    pub secret_digest: [u8; 32],
    pub role: JoinRole,
    /// How many machines it lets in.
    pub uses: u32,
    pub ttl: Span,
}

impl JoinTokenSpec {
    /// Why no token is like that.
    pub fn problem(&self) -> Option<String> {
        if !(1..=MAX_USES).contains(&self.uses) {
            return Some(format!("a join token has 1 to {MAX_USES} uses"));
        }
        if !(MIN_TTL..=MAX_TTL).contains(&self.ttl) {
            return Some(format!("a join token lives from {MIN_TTL} to {MAX_TTL}"));
        }
        None
    }
}

/// A token as the region keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    pub spec: JoinTokenSpec,
    pub uses_left: u32,
    pub created: Wall,
    pub create_index: u64,
    pub modify_index: u64,
}

impl JoinToken {
    pub fn expires(&self) -> Wall {
        self.created + self.spec.ttl
    }

    pub fn is_expired(&self, now: Wall) -> bool {
        self.created.is_older_than(self.spec.ttl, now)
    }
}
