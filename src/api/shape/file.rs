//! Files of an allocation as JSON (http-api.md 3.0.3).

use super::rfc3339;
use serde::Serialize;
use wire::client_rpc::FileInfo;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FileShape<'a> {
    name: &'a str,
    is_dir: bool,
    size: u64,
    file_mode: String,
    mod_time: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    content_type: &'a str,
}

impl<'a> From<&'a FileInfo> for FileShape<'a> {
    fn from(file: &'a FileInfo) -> FileShape<'a> {
        FileShape {
            name: &file.name,
            is_dir: file.mode & KIND == DIRECTORY,
            size: file.size,
            file_mode: mode(file.mode),
            mod_time: rfc3339(file.modified),
            content_type: &file.content_type,
        }
    }
}

/// stat(2): the bits of a mode that tell what it is.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;

/// As Go writes a mode: letters for what it is, then nine for who may do what.
fn mode(mode: u32) -> String {
    let kind = match mode & KIND {
        DIRECTORY => "d",
        0o120_000 => "L",
        0o060_000 => "D",
        0o010_000 => "p",
        0o140_000 => "S",
        0o020_000 => "Dc",
        _ => "",
    };
    let marks = [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')];
    let marks: String = marks.iter().filter(|(bit, _)| mode & bit != 0).map(|(_, c)| c).collect();
    let front = format!("{kind}{marks}");
    let front = if front.is_empty() { "-" } else { &front };
    let who = (0..9).map(|n| if mode & (0o400 >> n) != 0 { ['r', 'w', 'x'][n % 3] } else { '-' });
    format!("{front}{}", who.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_as_go_writes_them() {
        for (bits, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o040_755, "drwxr-xr-x"),
            (0o041_777, "dtrwxrwxrwx"),
            (0o104_755, "urwxr-xr-x"),
            (0o120_777, "Lrwxrwxrwx"),
            (0o010_600, "prw-------"),
            (0o020_666, "Dcrw-rw-rw-"),
        ] {
            assert_eq!(mode(bits), text, "{bits:o}");
        }
    }
}
