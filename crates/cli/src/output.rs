//! The output of the command: lines of text, or one JSON object per line with `--json`. Results go to standard output,
//! progress and errors to standard error.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};

use serde_json::Value;

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Lines of text.
    Text,
    /// One JSON object per line.
    Json,
}

impl Output {
    /// Prints a result. A closed standard output is not an error: the command continues.
    pub(crate) fn fact(self, text: impl Display, record: &Value) {
        let mut stdout = io::stdout().lock();
        let _ = match self {
            Self::Text => writeln!(stdout, "{text}"),
            Self::Json => writeln!(stdout, "{record}"),
        };
    }

    /// Prints an error to standard error, and with `--json` also as a record.
    pub(crate) fn error(self, text: &str, record: &Value) {
        let _ = writeln!(io::stderr().lock(), "error: {text}");
        if self == Self::Json {
            let _ = writeln!(io::stdout().lock(), "{record}");
        }
    }
}

/// Prints progress to standard error.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The peak resident memory of this process, in bytes; `None` if the system does not report it (not Linux).
pub(crate) fn peak_resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Text from a peer with escaped control characters; `None` if it is not text.
pub(crate) fn printable(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\t' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Some(shown)
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_control_the_terminal() {
        assert_eq!(printable(b"hello\tyou\r\n").as_deref(), Some("hello\tyou"));
        assert_eq!(printable("grüße".as_bytes()).as_deref(), Some("grüße"));
        assert_eq!(printable(b"\x1b[2J\nx").as_deref(), Some("\\u{1b}[2J\\nx"));
        assert_eq!(printable(b"\xff\xfe"), None);
    }

    #[test]
    fn hexadecimal_has_two_digits_a_byte() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_reports_the_peak_of_memory() {
        assert!(peak_resident().unwrap() > 100_000);
    }
}
