//! The messages of a session, one JSON object each (http-api.md 3.1.2).
//!
//! Refuses to know: websockets, and what runs at the other end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use wire::client_rpc::{SessionInput, SessionOutput};

/// The longest message that is taken.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputShape {
    stdin: Option<StreamShape>,
    tty_size: Option<SizeShape>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamShape {
    data: String,
    close: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SizeShape {
    height: u16,
    width: u16,
}

/// What a caller's message says; nothing in a heartbeat. `Err`: a sentence.
pub fn input(message: &str) -> Result<Vec<SessionInput>, String> {
    let shape: InputShape =
        serde_json::from_str(message).map_err(|e| format!("the message is not one of a session: {e}"))?;
    let mut said = Vec::new();
    if let Some(stdin) = shape.stdin {
        let data = STANDARD.decode(stdin.data).map_err(|e| format!("stdin is not base64: {e}"))?;
        if !data.is_empty() {
            said.push(SessionInput::Stdin(data));
        }
        if stdin.close {
            said.push(SessionInput::CloseStdin);
        }
    }
    if let Some(SizeShape { height, width }) = shape.tty_size {
        said.push(SessionInput::Size { rows: height, columns: width });
    }
    Ok(said)
}

#[derive(Default, Serialize)]
struct OutputShape {
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<DataShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<DataShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exited: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ResultShape>,
}

#[derive(Serialize)]
struct DataShape {
    data: String,
}

#[derive(Serialize)]
struct ResultShape {
    /// Left out when it is 0 (http-api.md 3.1.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

/// `Err`: the session ends without an end of its process, for this reason.
pub fn output(said: SessionOutput) -> Result<String, String> {
    let data = |bytes: Vec<u8>| Some(DataShape { data: STANDARD.encode(bytes) });
    let shape = match said {
        SessionOutput::Stdout(bytes) => OutputShape { stdout: data(bytes), ..OutputShape::default() },
        SessionOutput::Stderr(bytes) => OutputShape { stderr: data(bytes), ..OutputShape::default() },
        SessionOutput::Exited { code } => {
            let result = Some(ResultShape { exit_code: Some(code).filter(|c| *c != 0) });
            OutputShape { exited: Some(true), result, ..OutputShape::default() }
        }
        SessionOutput::Failed { why } => return Err(why),
    };
    serde_json::to_string(&shape).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exec_input_messages_are_parsed() {
        for (message, said) in [
            ("{}", Ok(vec![])),
            (r#"{"stdin":{"data":"aGk="}}"#, Ok(vec![SessionInput::Stdin(b"hi".to_vec())])),
            (
                r#"{"stdin":{"data":"aGk=","close":true}}"#,
                Ok(vec![SessionInput::Stdin(b"hi".to_vec()), SessionInput::CloseStdin]),
            ),
            (
                r#"{"tty_size":{"height":24,"width":80}}"#,
                Ok(vec![SessionInput::Size { rows: 24, columns: 80 }]),
            ),
            (r#"{"version":1,"auth_token":""}"#, Ok(vec![])),
            ("nonsense", Err(())),
            (r#"{"stdin":{"data":"%"}}"#, Err(())),
        ] {
            assert_eq!(input(message).map_err(drop), said, "{message}");
        }
    }

    #[test]
    fn exec_output_messages_are_written() {
        for (said, message) in [
            (SessionOutput::Stdout(b"hi".to_vec()), Ok(r#"{"stdout":{"data":"aGk="}}"#)),
            (SessionOutput::Stderr(b"hi".to_vec()), Ok(r#"{"stderr":{"data":"aGk="}}"#)),
            (SessionOutput::Exited { code: 0 }, Ok(r#"{"exited":true,"result":{}}"#)),
            (SessionOutput::Exited { code: 3 }, Ok(r#"{"exited":true,"result":{"exit_code":3}}"#)),
            (SessionOutput::Failed { why: "no".into() }, Err("no")),
        ] {
            assert_eq!(output(said), message.map(str::to_string).map_err(str::to_string));
        }
    }
}
