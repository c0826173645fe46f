//! How a node's answer is shown to the caller: as JSON, as frames, or as plain bytes (http-api.md 3.0.1,
//! http-api.md 3.2.1).
//!
//! Refuses to know: what was asked of the node.

use crate::response::Response;
use crate::shape::file::FileShape;
use crate::shape::usage::{AllocStatsShape, HostStatsShape};
use base64::Engine;
use serde::Serialize;
use std::collections::BTreeMap;
use wire::client_rpc::{ClientReply, StreamFrame};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presentation {
    pub form: Form,
    pub pretty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Json,
    /// Objects one after the other, for what comes in pieces.
    Frames,
    /// The pieces' bytes alone.
    Text,
    /// A websocket, in both ways.
    Session,
    /// An empty success.
    Nothing,
}

/// The answer to what changes something on a node: nothing of the servers' state, so no index.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DoneShape {
    index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MetadataShape<'a> {
    meta: &'a BTreeMap<String, String>,
    dynamic: &'a BTreeMap<String, Option<String>>,
    #[serde(rename = "Static")]
    configured: &'a BTreeMap<String, String>,
}

impl Presentation {
    pub fn response(self, answer: &ClientReply) -> Response {
        match answer {
            ClientReply::Done if self.form == Form::Nothing => Response::text(200, ""),
            ClientReply::Done => Response::json(&DoneShape { index: 0 }, self.pretty),
            ClientReply::Files(files) => {
                let shapes: Vec<FileShape> = files.iter().map(FileShape::from).collect();
                Response::json(&shapes, self.pretty)
            }
            ClientReply::AllocResourceUsage(figures) => {
                Response::json(&AllocStatsShape::new(figures), self.pretty)
            }
            ClientReply::HostStats(figures) => Response::json(&HostStatsShape::from(figures), self.pretty),
            ClientReply::Metadata { meta, dynamic, configured } => {
                Response::json(&MetadataShape { meta, dynamic, configured }, self.pretty)
            }
            ClientReply::File(file) => Response::json(&FileShape::from(file), self.pretty),
        }
    }

    /// The media type of what comes in pieces.
    pub fn content_type(self) -> &'static str {
        match self.form {
            Form::Json | Form::Frames | Form::Nothing | Form::Session => "application/json",
            Form::Text => "text/plain; charset=utf-8",
        }
    }

    /// `None`: this piece is not shown.
    pub fn bytes(self, piece: StreamFrame) -> Option<Vec<u8>> {
        match (self.form, piece) {
            (Form::Text, StreamFrame::Data { bytes, .. }) => Some(bytes),
            (
                Form::Text,
                StreamFrame::Truncated { .. } | StreamFrame::Deleted { .. } | StreamFrame::Alive,
            ) => None,
            (Form::Json | Form::Frames | Form::Nothing | Form::Session, piece) => Some(frame(&piece)),
        }
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct FrameShape<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_event: Option<&'a str>,
}

/// An empty object is a heartbeat, which every reader skips.
fn frame(piece: &StreamFrame) -> Vec<u8> {
    let shape = match piece {
        StreamFrame::Data { bytes, file, offset } => FrameShape {
            offset: Some(*offset),
            data: Some(base64::engine::general_purpose::STANDARD.encode(bytes)),
            file: Some(file),
            file_event: None,
        },
        StreamFrame::Truncated { file } => {
            FrameShape { file: Some(file), file_event: Some("file truncated"), ..FrameShape::default() }
        }
        StreamFrame::Deleted { file } => {
            FrameShape { file: Some(file), file_event: Some("file deleted"), ..FrameShape::default() }
        }
        StreamFrame::Alive => FrameShape::default(),
    };
    encoded(&shape)
}

/// Bytes that are of no file.
pub fn data_frame(bytes: &[u8]) -> Vec<u8> {
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    encoded(&FrameShape { data: Some(data), ..FrameShape::default() })
}

fn encoded(shape: &FrameShape<'_>) -> Vec<u8> {
    serde_json::to_vec(shape).expect("text and numbers always become JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_shown_as_frames_or_bytes() {
        let data = StreamFrame::Data { bytes: b"hi".to_vec(), file: "alloc/x".into(), offset: 7 };
        let truncated = StreamFrame::Truncated { file: "alloc/x".into() };
        for (piece, frame, text) in [
            (data, r#"{"Offset":7,"Data":"aGk=","File":"alloc/x"}"#, Some("hi")),
            (truncated, r#"{"File":"alloc/x","FileEvent":"file truncated"}"#, None),
            (StreamFrame::Deleted { file: "f".into() }, r#"{"File":"f","FileEvent":"file deleted"}"#, None),
            (StreamFrame::Alive, "{}", None),
        ] {
            let shown = |form| {
                let bytes = Presentation { form, pretty: false }.bytes(piece.clone());
                bytes.map(|b| String::from_utf8_lossy(&b).into_owned())
            };
            assert_eq!(shown(Form::Frames).as_deref(), Some(frame));
            assert_eq!(shown(Form::Text).as_deref(), text);
        }
    }
}
