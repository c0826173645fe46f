//! `drover token create`, `token list` and `token revoke`: what lets machines into a region.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::http::decode;
use crate::output::objects;
use crate::render::layout;
use crate::session::{Session, argument, path};
use argh::{ArgsInfo, FromArgs};
use serde::Deserialize;
use serde_json::{Value, json};
use std::process::ExitCode;

/// make a token with which machines join the region; whoever has it may use it, and it is shown this once
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover token create -role client -ttl 1h -uses 10")]
pub struct TokenCreateCommand {
    /// what the machines become: client or server. A server's token gives the region's secret away
    #[argh(option)]
    role: Option<String>,
    /// how long it lets machines in, as in 1h (default 1h); who has joined stays
    #[argh(option)]
    ttl: Option<String>,
    /// how many machines it lets in (default 1)
    #[argh(option)]
    uses: Option<u32>,
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's object through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
}

/// list join tokens, without what lets machines in
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover token list")]
pub struct TokenListCommand {
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
}

/// revoke a join token: it lets nobody in any more, and who has joined stays
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover token revoke 5f1c2a90")]
pub struct TokenRevokeCommand {
    /// its id, or the beginning of it
    #[argh(positional)]
    token: Option<String>,
}

impl CliCommand for TokenCreateCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let missing = || CommandError::usage("-role is missing: say -role client or -role server");
        let role = self.role.as_deref().ok_or_else(missing)?;
        let body = json!({ "Role": role, "TTL": self.ttl.clone().unwrap_or_default(), "Uses": self.uses.unwrap_or(1) });
        let made: Value = session.client.put("/v1/operator/join-tokens", &[], &body)?;
        if let Some(objects) = objects {
            session.out.objects(objects, &made)?;
            return Ok(ExitCode::SUCCESS);
        }
        let token: Token = decode(&made)?;
        session.out.text(&created(&token, &session.time(token.expire_time)))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn created(token: &Token, expires: &str) -> String {
    let told = layout::key_values(&[
        ("ID", token.id.clone()),
        ("Role", token.role.clone()),
        ("Uses", token.uses.to_string()),
        ("Expires", expires.to_string()),
    ]);
    format!(
        "{told}\n{}\n\nOn each machine, before its agent starts: drover join <token> <address of a server>\n",
        token.join_token
    )
}

impl CliCommand for TokenListCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let value = session.client.get_value("/v1/operator/join-tokens", &[])?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let tokens: Vec<Token> = decode(&value)?;
        session.out.text(&table(&tokens, self.verbose, session.now(), |at| session.time(at)))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn table(tokens: &[Token], verbose: bool, now: i64, time: impl Fn(i64) -> String) -> String {
    if tokens.is_empty() {
        return "No join tokens\n".into();
    }
    let row = |token: &Token| {
        vec![
            if verbose { token.id.clone() } else { short(&token.id).to_string() },
            token.role.clone(),
            format!("{}/{}", token.uses_left, token.uses),
            token.status(now).to_string(),
            time(token.expire_time),
        ]
    };
    layout::table(
        &["ID", "Role", "Uses left", "Status", "Expires"],
        &tokens.iter().map(row).collect::<Vec<_>>(),
    )
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

impl CliCommand for TokenRevokeCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let prefix = argument(&self.token, "token")?;
        let shown = |many: &[Token]| table(many, false, session.now(), |at| session.time(at));
        let id = session.only(
            prefix,
            "/v1/operator/join-tokens",
            "join token",
            |token: &Token| &token.id,
            shown,
        )?;
        let _empty: Value = session.client.delete(&path("operator/join-token", &id), &[])?;
        session.out.line(&format!("Successfully revoked join token {}!", short(&id)))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// `operator/join-tokens`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Token {
    #[serde(rename = "ID")]
    id: String,
    role: String,
    uses: u32,
    uses_left: u32,
    expire_time: i64,
    join_token: String,
}

impl Token {
    fn status(&self, now: i64) -> &'static str {
        match self {
            token if token.expire_time <= now => "expired",
            token if token.uses_left == 0 => "used up",
            _ => "valid",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(uses_left: u32, expire_time: i64) -> Token {
        Token {
            id: "5f1c2a90-0000-4000-8000-000000000000".into(),
            role: "client".into(),
            uses: 3,
            uses_left,
            expire_time,
            ..Token::default()
        }
    }

    #[test]
    fn tokens_are_listed_with_what_is_left_of_them() {
        let expected = "\
ID        Role    Uses left  Status   Expires
5f1c2a90  client  2/3        valid    at 100
5f1c2a90  client  0/3        used up  at 100
5f1c2a90  client  1/3        expired  at 50
";
        let tokens = [token(2, 100), token(0, 100), token(1, 50)];
        assert_eq!(table(&tokens, false, 50, |at| format!("at {at}")), expected);
        assert!(table(&tokens, true, 50, |_| String::new()).contains("5f1c2a90-0000-4000-8000-000000000000"));
        assert_eq!(table(&[], false, 0, |_| String::new()), "No join tokens\n");
    }

    #[test]
    fn a_new_token_is_a_line_of_its_own() {
        let made = Token { join_token: "drover-join-abc".into(), ..token(3, 100) };
        let expected = "\
ID      = 5f1c2a90-0000-4000-8000-000000000000
Role    = client
Uses    = 3
Expires = soon

drover-join-abc

On each machine, before its agent starts: drover join <token> <address of a server>
";
        assert_eq!(created(&made, "soon"), expected);
    }
}
