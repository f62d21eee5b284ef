//! `anabranch send`: lines of standard input as messages, or a file.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anabranch::{Association, Bytes, Ppid, SendError, SendOptions, StreamId};
use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::by_path::{self, PathTally};
use crate::connect::{Client, Target};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::negotiated;
use crate::options::{Carry, Observe};
use crate::output::{Output, hex, peak_resident, printable};
use crate::reliability::{self, Persist};
use crate::units;

/// Bytes that are read from a file at a time; larger messages are sent in parts of this size.
const PART: usize = 64 << 10;
/// The largest reply that is reassembled to be printed, in bytes.
const MAX_REPLY: usize = 1 << 20;

const MESSAGES: &str = "Messages";

/// Arguments of `send`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch send 127.0.0.1 FILE
  echo hello | anabranch send 127.0.0.1 --stream 3 --ppid 46
  anabranch send 127.0.0.1 FILE --link rate=1gbit,delay=5ms,loss=0.1%
  anabranch send 10.1.0.2 FILE --path 10.1.0.1,10.1.0.2 --path 10.2.0.1,10.2.0.2 --multipath eca
  anabranch send 127.0.0.1 FILE --message-size 1kib --lifetime 100ms --link rate=1mbit,loss=3%

A file is sent in messages of --message-size, in order on one stream; `anabranch listen --output
DIR` joins them. Each line of standard input is a message with its line feed; a longer line is
split. Messages from the peer are printed meanwhile.
The exit status is 0 only if the peer acknowledged every message that was not abandoned
(--lifetime, --max-retransmissions, --pr-priority), and the shutdown was graceful. At the end the
peer has 5 minutes to acknowledge each 64 KiB of outstanding data, and 5 minutes to answer the
SHUTDOWN. After that the association is aborted and the exit status is 1.")]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// File to send; without FILE, or with -, each line of standard input is a message
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Stream to send on, 0 to 65534
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..65_535))]
    stream: u16,
    /// Size of each message of a file in bytes, 1 or more, or limit of the length of a line. `whole` sends a file as one
    /// message [default: 64kib; with --unordered: whole]
    #[arg(long, value_name = "SIZE|whole", value_parser = message_size)]
    message_size: Option<MessageSize>,
    /// Send unordered messages. A file is then one message, unless --message-size is given
    #[arg(long)]
    unordered: bool,
    /// Payload protocol identifier of the messages, 0 to 4294967295
    #[arg(long, help_heading = MESSAGES, value_name = "NUMBER", default_value_t = 0)]
    ppid: u32,
    #[command(flatten)]
    persist: Persist,
    #[command(flatten)]
    pub(crate) observe: Observe,
    #[command(flatten)]
    pub(crate) carry: Carry,
}

/// How a file is split into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageSize {
    Bytes(u64),
    Whole,
}

fn message_size(text: &str) -> Result<MessageSize, String> {
    if text.eq_ignore_ascii_case("whole") {
        return Ok(MessageSize::Whole);
    }
    match units::parse_size(text)? {
        0 => Err("a message has at least 1 byte: give a larger size, or `whole`".to_owned()),
        bytes => Ok(MessageSize::Bytes(bytes)),
    }
}

/// Messages that were given to the association.
#[derive(Debug, Default)]
struct Given {
    messages: u64,
    bytes: u64,
    digest: Sha256,
}

/// Messages from the peer.
#[derive(Debug, Default)]
struct Received {
    messages: u64,
    bytes: u64,
}

/// Why the sending ended early.
enum Stop {
    Interrupted,
    Send(SendError),
    Read(std::io::Error),
}

/// Runs the command.
pub(crate) async fn run(args: SendArgs, interrupt: Interrupt) -> Result<(), Failure> {
    let path = args.file.as_deref().filter(|path| *path != Path::new("-"));
    let file = path.map(open).transpose()?;
    let client = args
        .target
        .connect(&args.carry, &args.observe, args.stream, MAX_REPLY, &interrupt)
        .await?;
    client.tell_refused(&args.carry.offer, &args.persist);
    client.tell_paths();
    let begun = Instant::now();
    let output = args.observe.output();
    let show = file.is_none();
    let replies = tokio::spawn(drain(client.association.clone(), show.then_some(output)));
    let mut given = Given::default();
    let sent = match file {
        Some((file, length)) => {
            send_file(&args, &client.association, file, length, &mut given, &interrupt).await
        }
        None => send_lines(&args, &client.association, &mut given, &interrupt).await,
    };
    let ending = client.finish(&interrupt).await;
    let took = ending.at.duration_since(begun);
    let ending = ending.result;
    let received = replies.await.unwrap_or_default();
    report(
        &args,
        &client,
        given,
        &received,
        took,
        (ending.is_ok(), sent.is_ok()),
    );
    let name = path.map_or("standard input".to_owned(), |path| path.display().to_string());
    match (sent, ending) {
        (Err(Stop::Interrupted), _) => Err(Failure::interrupted(format!(
            "interrupted before the end of {name}"
        ))),
        (Err(Stop::Read(error)), _) => Err(Failure::new(format!("{name}: cannot read to the end: {error}"))),
        (Err(Stop::Send(error)), _) => Err(Failure::new(format!(
            "{}: {name} was not sent to its end: {error}",
            args.target.host
        ))),
        (Ok(()), Err(error)) => Err(Failure::new(format!(
            "{}: the peer did not acknowledge all data: {error}; its copy of {name} may be incomplete",
            args.target.host
        ))),
        (Ok(()), Ok(())) => Ok(()),
    }
}

fn open(path: &Path) -> Result<(File, u64), Failure> {
    let problem = |error: String| {
        Failure::new(format!(
            "FILE {}: cannot read the file: {error}; check its name and permissions",
            path.display()
        ))
    };
    let file = File::open(path).map_err(|error| problem(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| problem(error.to_string()))?;
    if metadata.is_dir() {
        return Err(problem("it is a directory".to_owned()));
    }
    Ok((file, metadata.len()))
}

impl SendArgs {
    fn options(&self) -> SendOptions {
        SendOptions::default()
            .ppid(Ppid(self.ppid))
            .unordered(self.unordered)
            .reliability(self.persist.reliability())
    }

    fn size(&self) -> MessageSize {
        let default = if self.unordered {
            MessageSize::Whole
        } else {
            MessageSize::Bytes(PART as u64)
        };
        self.message_size.unwrap_or(default)
    }
}

/// Reads `limit` bytes from a file; fewer bytes mean that the file has ended.
fn read_part(file: &mut File, limit: usize) -> std::io::Result<Vec<u8>> {
    tokio::task::block_in_place(|| {
        let mut part = Vec::with_capacity(limit);
        file.take(limit as u64).read_to_end(&mut part)?;
        Ok(part)
    })
}

async fn send_file(
    args: &SendArgs,
    association: &Association,
    mut file: File,
    length: u64,
    given: &mut Given,
    interrupt: &Interrupt,
) -> Result<(), Stop> {
    let bar = bar(length, args.observe.output());
    let whole = match args.size() {
        MessageSize::Bytes(bytes) => bytes,
        MessageSize::Whole => u64::MAX,
    };
    let (stream, options) = (StreamId(args.stream), args.options());
    // The missing bytes of the current message.
    let mut left = whole;
    let room = |left: u64| usize::try_from(left).unwrap_or(usize::MAX).min(PART);
    let mut part = read_part(&mut file, room(left)).map_err(Stop::Read)?;
    while !part.is_empty() {
        let len = part.len() as u64;
        let (first, full) = (left == whole, left == len);
        left = if full { whole } else { left - len };
        // If the file ends, this part is the last part of its message: read the next part before this part is sent.
        let next = read_part(&mut file, room(left)).map_err(Stop::Read)?;
        let last = full || next.is_empty();
        let message = Bytes::from(part);
        let taken = message.clone();
        let sending = async {
            if first && last {
                association.send_with(stream, message, options).await
            } else {
                association.send_part(stream, message, options, last).await
            }
        };
        tokio::select! {
            result = sending => result.map_err(Stop::Send)?,
            () = interrupt.wait() => {
                bar.abandon();
                return Err(Stop::Interrupted);
            }
        };
        tokio::task::block_in_place(|| given.digest.update(&taken));
        given.bytes += len;
        given.messages += u64::from(last);
        bar.set_position(given.bytes);
        part = next;
    }
    bar.finish_and_clear();
    Ok(())
}

async fn send_lines(
    args: &SendArgs,
    association: &Association,
    given: &mut Given,
    interrupt: &Interrupt,
) -> Result<(), Stop> {
    let longest = match args.message_size {
        Some(MessageSize::Bytes(bytes)) => bytes.min(MAX_REPLY as u64),
        _ => PART as u64,
    };
    let mut input = BufReader::new(tokio::io::stdin());
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut input).take(longest);
        let read = tokio::select! {
            read = limited.read_until(b'\n', &mut line) => read.map_err(Stop::Read)?,
            () = interrupt.wait() => return Err(Stop::Interrupted),
            reason = association.closed() => return Err(Stop::Send(SendError::Closed(reason))),
        };
        if read == 0 {
            return Ok(());
        }
        let line = Bytes::from(line);
        let taken = line.clone();
        tokio::select! {
            result = association.send_with(StreamId(args.stream), line, args.options()) => result.map_err(Stop::Send)?,
            () = interrupt.wait() => return Err(Stop::Interrupted),
        };
        given.digest.update(&taken);
        given.messages += 1;
        given.bytes += read as u64;
    }
}

fn bar(length: u64, output: Output) -> ProgressBar {
    if output == Output::Json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Receives the peer's messages, so that this side's receive window never closes, and prints them if asked.
async fn drain(association: Association, show: Option<Output>) -> Received {
    let mut received = Received::default();
    // The sending task reports an association that failed.
    while let Ok(Some(part)) = association.recv_part().await {
        received.bytes += part.payload.len() as u64;
        received.messages += u64::from(part.ending && !part.truncated);
        let (Some(output), true, true) = (show, part.beginning, part.ending) else {
            continue;
        };
        let bytes = part.payload.into_bytes();
        let text = printable(&bytes);
        let shown = text
            .clone()
            .unwrap_or_else(|| units::counted(bytes.len() as u64, "byte"));
        let record = json!({
            "event": "message", "stream": part.stream.0, "ppid": part.ppid.0, "unordered": part.unordered,
            "bytes": bytes.len(), "text": text,
        });
        output.fact(format!("stream {}: {shown}", part.stream.0), &record);
    }
    received
}

fn report(
    args: &SendArgs,
    client: &Client,
    given: Given,
    received: &Received,
    took: Duration,
    (acknowledged, complete): (bool, bool),
) {
    let stats = client.association.stats();
    let counters = stats.counters;
    let retransmissions = counters.retransmissions_fast + counters.retransmissions_timeout;
    let abandoned = reliability::abandoned(&counters);
    let digest = hex(&given.digest.finalize());
    let peak = peak_resident();
    let mut text = format!(
        "sent {}, {} in {} ({}), {}\nsha256 {digest}",
        units::counted(given.messages, "message"),
        units::size(given.bytes),
        units::duration(took),
        units::rate(given.bytes, took),
        match (acknowledged, abandoned) {
            (true, 0) => "all acknowledged",
            (true, _) => "all messages that were not abandoned are acknowledged",
            (false, _) => "not all acknowledged",
        },
    );
    if received.messages > 0 {
        let (messages, bytes) = (
            units::counted(received.messages, "message"),
            units::size(received.bytes),
        );
        text.push_str(&format!("\nreceived {messages}, {bytes}"));
    }
    let spurious = counters.retransmissions_spurious;
    text.push_str(&format!(
        "\n{} of {} retransmitted, {spurious} of them spuriously",
        units::counted(retransmissions, "chunk"),
        counters.data_chunks_sent
    ));
    for line in reliability::lines(&counters) {
        text.push_str(&format!("\n{line}"));
    }
    let paths: Vec<PathTally> = stats.paths.iter().map(PathTally::of).collect();
    if let Some(paths) = by_path::table("path by path", &paths) {
        text.push_str(&format!("\n\n{paths}\n"));
    }
    if let Some(peak) = peak {
        text.push_str(&format!("\npeak resident memory {}", units::size(peak)));
    }
    let record = json!({
        "event": "summary", "host": args.target.host, "remote": client.remote.to_string(),
        "messages": given.messages, "bytes": given.bytes, "seconds": took.as_secs_f64(),
        "bits_per_second": units::bits_per_second(given.bytes, took), "sha256": digest,
        "complete": complete && acknowledged && abandoned == 0,
        "received_messages": received.messages, "received_bytes": received.bytes,
        "retransmissions": retransmissions, "retransmissions_spurious": spurious,
        "timeouts": counters.timeouts, "peak_resident_bytes": peak,
        "negotiated": negotiated::to_json(&stats),
        "partial_reliability": reliability::to_json(&counters),
        "paths": paths.iter().map(PathTally::to_json).collect::<Vec<_>>(),
    });
    args.observe.output().fact(text, &record);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_sizes_are_read() {
        assert_eq!(message_size("whole"), Ok(MessageSize::Whole));
        assert_eq!(message_size("64kib"), Ok(MessageSize::Bytes(65_536)));
        assert!(message_size("0").unwrap_err().contains("at least 1 byte"));
        assert!(message_size("all").is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_is_read_in_full_parts() {
        let path = std::env::temp_dir().join(format!("anabranch-read-part-{}", std::process::id()));
        let content: Vec<u8> = (0..2500_u32).map(|n| n as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let (mut file, length) = open(&path).unwrap();
        assert_eq!(length, 2500);
        let mut parts = Vec::new();
        loop {
            let part = read_part(&mut file, 1000).unwrap();
            if part.is_empty() {
                break;
            }
            parts.push(part);
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1000, 500]);
        assert_eq!(parts.concat(), content);
    }
}
