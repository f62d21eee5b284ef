//! The output of the command: lines of text, or one JSON object per line with `--json`. Results go to standard output,
//! progress and errors to standard error.
//!
//! A command that ends by itself waits for the reader of its output, as other programs do. A server ([`serve`]) does not: its lines wait in a
//! queue ([`Lines`]), as those of the log do in every command.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::terminal::{Size, wrapped};
use crate::units;

/// A reader that takes nothing for this time while the queue is full has stalled.
const STALLED: Duration = Duration::from_secs(2);
/// At the end of a command: if the reader takes nothing for this time, the command ends, and the lines that are not read are lost.
const END: Duration = Duration::from_secs(60);
/// The same after a signal, and for the log.
const HURRY: Duration = Duration::from_secs(3);

/// The lines of a server; unset in commands that end by themselves.
static STDOUT: OnceLock<Arc<Lines>> = OnceLock::new();
/// The lines of the log, and with [`STDOUT`] also notes and errors.
static STDERR: OnceLock<Arc<Lines>> = OnceLock::new();

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Lines of text.
    Text,
    /// One JSON object per line.
    Json,
}

impl Output {
    fn line(self, text: impl Display, record: &Value) -> String {
        match self {
            Self::Text => text.to_string(),
            Self::Json if STDOUT.get().is_some() => timed(record).to_string(),
            Self::Json => record.to_string(),
        }
    }

    /// Prints a result. A closed standard output is not an error: the command continues. In a server, a line that does not fit the queue is
    /// dropped and counted.
    pub(crate) fn fact(self, text: impl Display, record: &Value) {
        print(&self.line(text, record));
    }

    /// Prints a result of a server. If the queue is full, waits for the reader, up to the time after which it has stalled ([`Lines::add`]).
    pub(crate) async fn fact_when_read(self, text: impl Display, record: &Value) {
        let line = self.line(text, record);
        match STDOUT.get() {
            Some(lines) => lines.add(&line).await,
            None => print(&line),
        }
    }

    /// Prints an error to standard error, and with `--json` also as a record.
    pub(crate) fn error(self, text: &str, record: &Value) {
        note(format_args!("error: {text}"));
        if self == Self::Json {
            print(&self.line("", record));
        }
    }
}

/// A record of a server, which runs for days, with the time of day.
fn timed(record: &Value) -> Value {
    let mut record = record.clone();
    let mut now = String::new();
    let written = SystemTime.format_time(&mut Writer::new(&mut now));
    if let (Some(fields), Ok(())) = (record.as_object_mut(), written) {
        fields.insert("time".to_owned(), now.into());
    }
    record
}

fn print(line: &str) {
    match STDOUT.get() {
        Some(lines) => lines.offer(line),
        None => waiting(|| {
            let _ = writeln!(io::stdout().lock(), "{line}");
        }),
    }
}

/// Prints progress to standard error.
pub(crate) fn note(text: impl Display) {
    let text = wrapped(Size::of(&io::stderr()), text.to_string());
    match STDERR.get().filter(|_| STDOUT.get().is_some()) {
        Some(lines) => lines.offer(&text),
        None => waiting(|| {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }),
    }
}

/// Waits in a system call. Meanwhile, other threads run the tasks of this one.
fn waiting(call: impl FnOnce()) {
    let in_runtime =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if in_runtime {
        tokio::task::block_in_place(call);
    } else {
        call();
    }
}

/// From now on, this command prints as a server: its associations do not wait for the reader of its output.
///
/// # Errors
/// The system starts no further thread.
pub(crate) fn serve(output: Output) -> Result<(), Failure> {
    let notice: fn(u64) -> String = match output {
        Output::Text => |dropped| format!("({})", dropped_lines(dropped)),
        Output::Json => |dropped| timed(&json!({ "event": "dropped", "lines": dropped })).to_string(),
    };
    let lines = Lines::start(stdout(), STALLED, notice)
        .map_err(|error| Failure::new(format!("the program cannot start its threads: {error}")))?;
    // A second call would change nothing.
    let _ = STDOUT.set(lines);
    Ok(())
}

fn dropped_lines(dropped: u64) -> String {
    format!(
        "{} not printed, because nobody read the output",
        units::counted(dropped, "line")
    )
}

/// Standard output without a lock, so that a write that waits stops no other thread.
#[cfg(unix)]
fn stdout() -> Box<dyn Write + Send> {
    use std::os::fd::AsFd;
    match io::stdout().as_fd().try_clone_to_owned() {
        Ok(own) => Box::new(fs::File::from(own)),
        Err(_) => Box::new(io::stdout()),
    }
}

#[cfg(not(unix))]
fn stdout() -> Box<dyn Write + Send> {
    Box::new(io::stdout())
}

/// The place for the log: a queue in front of standard error. If the system starts no thread for it, standard error itself.
pub(crate) struct Log;

impl<'a> MakeWriter<'a> for Log {
    type Writer = Box<dyn Write>;

    fn make_writer(&'a self) -> Self::Writer {
        let lines = STDERR.get().cloned().or_else(|| {
            let notice = |dropped| format!("({})", dropped_lines(dropped));
            let lines = Lines::start(io::stderr(), STALLED, notice).ok()?;
            Some(Arc::clone(STDERR.get_or_init(|| lines)))
        });
        match lines {
            Some(lines) => Box::new(Entry(lines)),
            None => Box::new(io::stderr()),
        }
    }
}

/// An entry of the log, which is written as a whole.
struct Entry(Arc<Lines>);

impl Write for Entry {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.offer(text.strip_suffix('\n').unwrap_or(&text));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// At the end of the command: waits until what was printed is written, but not for ever if nobody reads.
pub(crate) async fn finish(interrupt: &Interrupt) {
    if let Some(lines) = STDOUT.get() {
        let hurried = async {
            interrupt.wait().await;
            lines.flush(HURRY).await
        };
        let lost = tokio::select! {
            lost = lines.flush(END) => lost,
            lost = hurried => lost,
        };
        if lost > 0 {
            note(dropped_lines(lost));
        }
    }
    if let Some(lines) = STDERR.get() {
        lines.flush(HURRY).await;
    }
}

/// The peak resident memory of this process, in bytes; `None` if the system does not report it (not Linux).
pub(crate) fn peak_resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Text from a peer with escaped control and format characters; `None` if it is not text.
pub(crate) fn printable(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() && c != '\t') || is_format(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Some(shown)
}

/// Whether a character shows nothing itself, and may change the order or the lines of what is shown around it: Unicode's format characters
/// (category Cf: UnicodeData.txt of Unicode 16), among them the bidirectional controls, and the separators of lines and paragraphs
/// (Zl, Zp).
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
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
        // Text that is shown in another order than it has, and lines that look like lines of this program.
        assert_eq!(
            printable("a\u{202e}b\u{2066}c\u{2069}\u{200f}\u{61c}".as_bytes()).as_deref(),
            Some("a\\u{202e}b\\u{2066}c\\u{2069}\\u{200f}\\u{61c}")
        );
        assert_eq!(
            printable("a\u{2028}b\u{2029}\u{feff}\u{e0041}".as_bytes()).as_deref(),
            Some("a\\u{2028}b\\u{2029}\\u{feff}\\u{e0041}")
        );
        for bidirectional in ('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}')
            .chain(['\u{200e}', '\u{200f}', '\u{61c}'])
        {
            assert!(is_format(bidirectional), "{bidirectional:?}");
        }
        assert_eq!(
            printable("عربي 한국어 🙂".as_bytes()).as_deref(),
            Some("عربي 한국어 🙂")
        );
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
