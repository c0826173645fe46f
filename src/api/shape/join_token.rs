//! Join tokens as JSON. The secret is in the answer to a creation, and nowhere else.

use model::join_token::JoinToken;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JoinTokenShape {
    #[serde(rename = "ID")]
    id: String,
    role: &'static str,
    uses: u32,
    uses_left: u32,
    /// Nanoseconds, as in `ExpireTime`.
    create_time: i64,
    expire_time: i64,
    create_index: u64,
    modify_index: u64,
}

/// A token that was just made.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NewJoinTokenShape<'a> {
    #[serde(flatten)]
    token: JoinTokenShape,
    /// What a machine is given.
    join_token: &'a str,
}

impl JoinTokenShape {
    pub fn new(token: &JoinToken) -> JoinTokenShape {
        JoinTokenShape {
            id: token.spec.id.to_string(),
            role: token.spec.role.as_str(),
            uses: token.spec.uses,
            uses_left: token.uses_left,
            create_time: token.created.0,
            expire_time: token.expires().0,
            create_index: token.create_index,
            modify_index: token.modify_index,
        }
    }
}

impl<'a> NewJoinTokenShape<'a> {
    pub fn new(token: &JoinToken, text: &'a str) -> NewJoinTokenShape<'a> {
        NewJoinTokenShape { token: JoinTokenShape::new(token), join_token: text }
    }
}
