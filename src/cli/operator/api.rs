//! `drover operator api`: any request to the API, with the address, token and namespace of every other command.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::http::{RawAnswer, encode};
use crate::session::Session;
use argh::{ArgsInfo, FromArgs};
use std::io::{IsTerminal, Read};
use std::process::ExitCode;

/// The longest body that is taken from stdin.
const MAX_BODY_BYTES: u64 = 64 << 20;

/// send a request to the API and print the answer
#[derive(FromArgs, ArgsInfo)]
#[argh(
    example = "drover operator api /v1/jobs?pretty",
    example = "drover operator api -X DELETE /v1/job/web",
    note = "A body is read from stdin unless that is a terminal; with a body the method is POST. The exit code is 0 whatever the status."
)]
pub struct OperatorApiCommand {
    /// the method: also -X
    #[argh(option)]
    method: Option<String>,
    /// a header as "Name: value": also -H; repeatable
    #[argh(option)]
    header: Vec<String>,
    /// the API's filter expression
    #[argh(option)]
    filter: Option<String>,
    /// print a curl command instead of sending anything
    #[argh(switch)]
    dryrun: bool,
    /// show the request and the answer's head on stderr: also -v
    #[argh(switch)]
    verbose: bool,
    /// a path such as /v1/jobs, or a whole URL
    #[argh(positional)]
    path: String,
}

impl CliCommand for OperatorApiCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let headers = self.header.iter().map(|h| header(h)).collect::<CommandResult<Vec<_>>>()?;
        let path = self.target();
        let url = session.client.url(&path);
        if self.dryrun {
            let method = self.method.as_deref().unwrap_or(if has_input() { "POST" } else { "GET" });
            let line = curl(method, &headers, &url, has_input());
            session.out.line(&format!("{line}{}", flags(&session.client.curl_flags())))?;
            return Ok(ExitCode::SUCCESS);
        }
        let body = if has_input() { input()? } else { None };
        let method = match (&self.method, &body) {
            (Some(method), _) => method.as_str(),
            (None, Some(_)) => "POST",
            (None, None) => "GET",
        };
        if self.verbose {
            session.out.stderr_line(&format!("> {method} {url}"));
        }
        let RawAnswer { head, mut body } = session.client.raw(method, &url, &headers, body)?;
        if self.verbose {
            for line in head {
                session.out.stderr_line(&format!("< {line}"));
            }
        }
        copy(&mut body, session)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl OperatorApiCommand {
    fn target(&self) -> String {
        match &self.filter {
            None => self.path.clone(),
            Some(filter) => {
                let separator = if self.path.contains('?') { '&' } else { '?' };
                format!("{}{separator}filter={}", self.path, encode(filter))
            }
        }
    }
}

/// Shown as it comes: the answer may be a stream.
fn copy(body: &mut dyn Read, session: &Session) -> CommandResult<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => session.out.bytes(&buffer[..n])?,
            Err(e) => return Err(CommandError::new(format!("The answer broke off: {e}"))),
        }
    }
}

/// Whatever is not typed by hand counts as a body.
fn has_input() -> bool {
    !std::io::stdin().is_terminal()
}

/// `None`: there was nothing to read.
fn input() -> CommandResult<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_BODY_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BODY_BYTES {
        return Err(CommandError::new(format!("The body is longer than {MAX_BODY_BYTES} bytes")));
    }
    Ok(Some(bytes).filter(|b| !b.is_empty()))
}

fn header(text: &str) -> CommandResult<(String, String)> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| CommandError::usage(format!("{text:?} is no header: say \"Name: value\"")))?;
    Ok((name.trim().to_string(), value.trim().to_string()))
}

/// The token stays in the environment.
fn curl(method: &str, headers: &[(String, String)], url: &str, input: bool) -> String {
    let mut line = format!("curl -X {method}");
    for (name, value) in headers {
        line.push_str(&format!(" -H {}", quoted(&format!("{name}: {value}"))));
    }
    if input {
        line.push_str(" --data-binary @-");
    }
    format!("{line} -H \"X-Nomad-Token: ${{NOMAD_TOKEN}}\" {}", quoted(url))
}

fn flags(flags: &[(&str, String)]) -> String {
    let one = |(flag, value): &(&str, String)| match value.is_empty() {
        true => format!(" {flag}"),
        false => format!(" {flag} {}", quoted(value)),
    };
    flags.iter().map(one).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_is_a_line_for_the_shell() {
        let headers = [("X-A".to_string(), "it's".to_string())];
        assert_eq!(
            curl("PUT", &headers, "http://a:1/v1/jobs", true),
            "curl -X PUT -H 'X-A: it'\\''s' --data-binary @- -H \"X-Nomad-Token: ${NOMAD_TOKEN}\" 'http://a:1/v1/jobs'"
        );
        let more = [("--cacert", "/a b".to_string()), ("-k", String::new())];
        assert_eq!(flags(&more), " --cacert '/a b' -k");
        assert!(header("none").is_err());
        assert_eq!(header("A: b: c").ok(), Some(("A".to_string(), "b: c".to_string())));
    }
}
