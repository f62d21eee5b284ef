//! `anabranch ping`: sends messages to an echo server and compares each echo with the sent message.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch::{Association, AssociationStats, Event, Message, Ppid, SendError, SendOptions, StreamId};
use clap::Args;
use serde_json::json;

use crate::connect::{Client, Target};
use crate::delays::{Delays, millis};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::negotiated;
use crate::options::{Carry, Observe};
use crate::output::Output;
use crate::path_notes::PathNotes;
use crate::reliability::{self, Persist, Urgency};
use crate::units;

/// The largest message, in bytes: an echo is reassembled in memory to be compared.
const MAX_SIZE: u64 = 64 << 20;
/// How long to wait for echoes after the user asked to stop.
const GRACE: Duration = Duration::from_secs(1);
/// Marks the messages in a capture: "ping" in ASCII.
const PPID: Ppid = Ppid(0x7069_6e67);

const MESSAGES: &str = "Messages";

/// Arguments of `ping`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch ping 127.0.0.1
  anabranch ping 127.0.0.1 --count 100 --size 64kib --interval 20ms --link delay=40ms,loss=1%
  anabranch ping 127.0.0.1 --count 500 --interval 10ms --max-retransmissions 0 \\
    --link delay=40ms,loss=3%
  anabranch ping 127.0.0.1 --count 100 --interval 50ms --recovery rack \\
    --link rate=10mbit,delay=20ms,loss=3%

The peer is `anabranch listen --echo`, or any SCTP echo server. The exit status is 0 only if every
echo arrives and equals the sent message: same bytes, stream, order flag and payload protocol
identifier. With --lifetime, --max-retransmissions or --pr-priority, some echoes may be missing,
but not all. These options apply to the messages of this side; `anabranch listen --echo` has them
for the echoes. At the end the peer has 5 minutes to acknowledge each 64 KiB of outstanding data,
and 5 minutes to answer the SHUTDOWN. After that the association is aborted and the exit status is
1.")]
pub(crate) struct PingArgs {
    /// Number of messages; 0 sends until Ctrl-C
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    count: u64,
    /// Size of each message in bytes, 1 to 64mib
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = message_size)]
    size: u64,
    /// Time between two messages, for example 20ms
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = units::parse_duration)]
    interval: Duration,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Stream to send on, 0 to 65534
    #[arg(long, help_heading = MESSAGES,
        value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..65_535))]
    stream: u16,
    /// How long to wait for the last echo
    #[arg(long, help_heading = MESSAGES, value_name = "DURATION", default_value = "10s", value_parser = units::parse_duration)]
    wait: Duration,
    #[command(flatten)]
    persist: Persist,
    #[command(flatten)]
    urgency: Urgency,
    #[command(flatten)]
    pub(crate) observe: Observe,
    #[command(flatten)]
    pub(crate) carry: Carry,
}

fn message_size(text: &str) -> Result<u64, String> {
    units::parse_size_within(
        text,
        1..=MAX_SIZE,
        "a message has 1 byte to 64mib: give a size in this range",
    )
}

/// A message whose echo has not arrived.
#[derive(Debug)]
struct Sent {
    number: u64,
    at: Instant,
    /// The sender abandoned the message: the program does not wait for its echo.
    expired: bool,
}

/// The messages without an echo so far, and the results of the other messages.
#[derive(Debug, Default)]
struct Board {
    waiting: VecDeque<Sent>,
    sent: u64,
    equal: u64,
    different: u64,
    /// Echoes that came within the deadline.
    in_time: u64,
    delays: Delays,
}

impl PingArgs {
    /// Whether a message may be missing.
    fn may_abandon(&self) -> bool {
        self.persist.is_partial() || self.urgency.deadline.is_some()
    }
}

impl Board {
    /// The message of an echo: the oldest message that `is_equal` to the echo, otherwise the oldest message. If the stream keeps the order, the
    /// echoes of older messages are missing.
    fn take(&mut self, ordered: bool, is_equal: impl Fn(u64) -> bool) -> Option<Sent> {
        let place = self.waiting.iter().position(|sent| is_equal(sent.number));
        let place = place.unwrap_or(0);
        if ordered {
            self.waiting.drain(..place);
            return self.waiting.pop_front();
        }
        self.waiting.remove(place)
    }

    fn missing(&self) -> u64 {
        self.sent - self.equal - self.different
    }
}

/// Runs the command.
pub(crate) async fn run(args: PingArgs, interrupt: Interrupt) -> Result<(), Failure> {
    let output = args.observe.output();
    let room = usize::try_from(args.size)
        .unwrap_or(usize::MAX)
        .saturating_add(1 << 20);
    let client = args
        .target
        .connect(&args.carry, &args.observe, args.stream, room, &interrupt)
        .await?;
    client.tell_refused(&args.carry.offer, &args.persist);
    let begun = Instant::now();
    let board = Mutex::new(Board::default());
    let trouble = exchange(&args, &client, &board, &interrupt).await;
    let took = begun.elapsed();
    let ending = if trouble.is_none() {
        client.finish(&interrupt).await.result
    } else {
        client.association.abort("the ping failed");
        client.endpoint.close().await;
        Ok(())
    };
    let board = lock(&board);
    report(&args, &board, &client.association.stats(), took, output);
    let missing = board.missing();
    // Some messages may be abandoned, but if no echo arrived, the path does not work.
    let too_many = missing > 0 && (!args.may_abandon() || missing == board.sent);
    let problem = match (trouble, ending) {
        (Some(trouble), _) => Some(trouble),
        (None, Err(ending)) => Some(format!("the shutdown was not graceful: {ending}")),
        (None, Ok(())) if too_many => Some(format!(
            "{} did not come back within {}; raise --wait to wait longer",
            units::counted(missing, "message"),
            units::duration(args.wait)
        )),
        (None, Ok(())) if board.different > 0 => Some(format!(
            "{} came back with other content",
            units::counted(board.different, "message")
        )),
        (None, Ok(())) => None,
    };
    match problem {
        Some(problem) => Err(Failure::new(format!("{}: {problem}", args.target.host))),
        None if board.sent == 0 => Err(Failure::interrupted("interrupted before the first message")),
        None => Ok(()),
    }
}

fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends and receives until every echo has arrived, the time limit expires or the user asks to stop; returns an error, if any.
async fn exchange(
    args: &PingArgs,
    client: &Client,
    board: &Mutex<Board>,
    interrupt: &Interrupt,
) -> Option<String> {
    let all_sent = tokio::sync::Notify::new();
    let sending = async {
        let result = tokio::select! {
            result = send_all(args, &client.association, board) => result,
            () = interrupt.wait() => Ok(()),
        };
        all_sent.notify_one();
        if let Err(error) = result {
            return Some(format!("a message could not be sent: {error}"));
        }
        std::future::pending().await
    };
    let receiving = async {
        loop {
            match client.association.recv().await {
                Ok(Some(message)) => compare(args, board, message),
                Ok(None) => return Some("the peer ended the association".to_owned()),
                Err(error) => return Some(error.to_string()),
            }
        }
    };
    let expiry = async {
        let mut notes = PathNotes::new(&client.association);
        while let Some(event) = client.association.next_event().await {
            notes.tell(&event, &client.association);
            if let Event::Abandoned(message) = event
                && let Some(sent) = lock(board)
                    .waiting
                    .iter_mut()
                    .find(|sent| sent.number == message.context)
            {
                sent.expired = true;
            }
        }
        std::future::pending().await
    };
    let waiting = async {
        all_sent.notified().await;
        let limit = if interrupt.is_set() { GRACE } else { args.wait };
        let end = tokio::time::Instant::now() + limit;
        let mut soon = false;
        let awaited = || lock(board).waiting.iter().any(|sent| !sent.expired);
        while awaited() && tokio::time::Instant::now() < end {
            if interrupt.is_set() && std::mem::replace(&mut soon, true) {
                break;
            }
            let nap = if soon { GRACE } else { Duration::from_millis(5) };
            tokio::time::sleep(nap).await;
        }
        None
    };
    tokio::select! {
        trouble = sending => trouble,
        trouble = receiving => trouble,
        trouble = expiry => trouble,
        trouble = waiting => trouble,
    }
}

async fn send_all(args: &PingArgs, association: &Association, board: &Mutex<Board>) -> Result<(), SendError> {
    let mut ticks = tokio::time::interval(args.interval.max(Duration::from_nanos(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut number = 0;
    while args.count == 0 || number < args.count {
        ticks.tick().await;
        {
            let mut board = lock(board);
            board.waiting.push_back(Sent {
                number,
                at: Instant::now(),
                expired: false,
            });
            board.sent += 1;
        }
        let options = SendOptions::default()
            .ppid(PPID)
            .context(number)
            .reliability(args.persist.reliability());
        let options = args.urgency.apply(options);
        association
            .send_with(StreamId(args.stream), payload(number, args.size), options)
            .await?;
        number += 1;
    }
    Ok(())
}

/// The message with this number: its bytes depend only on the number.
fn payload(number: u64, size: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = state.to_be_bytes();
        bytes.extend_from_slice(&word[..word.len().min(size - bytes.len())]);
    }
    bytes
}

/// Compares and counts an echo.
fn compare(args: &PingArgs, board: &Mutex<Board>, echo: Message) {
    let came = Instant::now();
    let output = args.observe.output();
    let (stream, ppid, unordered) = (echo.stream, echo.ppid, echo.unordered);
    let bytes = echo.into_bytes();
    let is_equal = |number| bytes == payload(number, args.size);
    // Without partial reliability, the next echo must be the echo of the oldest message.
    // Messages with a deadline are unordered, and so are their echoes.
    let ordered = args.urgency.deadline.is_none();
    let waiting = lock(board).take(ordered, |number| args.may_abandon() && is_equal(number));
    let Some(Sent { number, at, .. }) = waiting else {
        let text = format!(
            "unexpected: {} on stream {} without a sent message",
            units::counted(bytes.len() as u64, "byte"),
            stream.0
        );
        output.fact(
            text,
            &json!({ "event": "unexpected", "bytes": bytes.len(), "stream": stream.0 }),
        );
        return;
    };
    let mut wrong = Vec::new();
    if !is_equal(number) {
        wrong.push(format!("its {} bytes differ", bytes.len()));
    }
    if stream.0 != args.stream {
        wrong.push(format!("it came on stream {}", stream.0));
    }
    if ppid != PPID {
        wrong.push(format!("its payload protocol identifier is {}", ppid.0));
    }
    if unordered && ordered {
        wrong.push("it came unordered".to_owned());
    }
    let delay = came.duration_since(at);
    let mut board = lock(board);
    if wrong.is_empty() {
        board.equal += 1;
        board.delays.push(delay);
        let is_late = args.urgency.deadline.is_some_and(|deadline| delay > deadline);
        board.in_time += u64::from(!is_late);
    } else {
        board.different += 1;
    }
    drop(board);
    let mut text = format!(
        "echo {number}: {} on stream {}, {}",
        units::counted(bytes.len() as u64, "byte"),
        stream.0,
        units::duration(delay)
    );
    if !wrong.is_empty() {
        text.push_str(&format!(" WRONG: {}", wrong.join(", ")));
    }
    let record = json!({
        "event": "echo", "number": number, "bytes": bytes.len(), "stream": stream.0, "delay_ms": millis(delay),
        "equal": wrong.is_empty(), "wrong": wrong,
    });
    output.fact(text, &record);
}

fn report(args: &PingArgs, board: &Board, stats: &AssociationStats, took: Duration, output: Output) {
    let counters = &stats.counters;
    let missing = board.missing();
    let loss = if board.sent == 0 {
        0.0
    } else {
        missing as f64 * 100.0 / board.sent as f64
    };
    let mut text = format!(
        "{}: {} sent, {} came back equal, {} different, {missing} missing ({loss:.1} %) in {}",
        args.target.host,
        units::counted(board.sent, "message"),
        board.equal,
        board.different,
        units::duration(took)
    );
    let summary = board.delays.summary();
    if let Some(delays) = summary {
        let [min, median, p99, max] =
            [delays.min, delays.median, delays.p99, delays.max].map(units::duration);
        text.push_str(&format!(
            "\ndelay: min {min}, median {median}, p99 {p99}, max {max}"
        ));
    }
    let in_time = args.urgency.deadline.map(|_| board.in_time);
    if let (Some(in_time), Some(deadline)) = (in_time, args.urgency.deadline) {
        text.push_str(&format!(
            "\n{in_time} of {} came back within {}",
            board.sent,
            units::duration(deadline)
        ));
    }
    for line in reliability::lines(counters) {
        text.push_str(&format!("\n{line}"));
    }
    let record = json!({
        "event": "summary", "host": args.target.host, "sent": board.sent, "equal": board.equal,
        "different": board.different, "missing": missing, "loss_percent": loss, "in_time": in_time, "seconds": took.as_secs_f64(),
        "delay": summary.map(crate::delays::Summary::to_json), "partial_reliability": reliability::to_json(counters),
        "negotiated": negotiated::to_json(stats),
    });
    output.fact(text, &record);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_differ_and_repeat() {
        assert_eq!(payload(3, 13).len(), 13);
        assert_eq!(payload(3, 4096), payload(3, 4096));
        assert_ne!(payload(3, 64), payload(4, 64));
        assert_eq!(payload(3, 13), payload(3, 64)[..13]);
    }

    #[test]
    fn an_echo_belongs_to_the_message_that_it_equals() {
        let mut board = Board::default();
        for number in 0..4 {
            board.waiting.push_back(Sent {
                number,
                at: Instant::now(),
                expired: false,
            });
        }
        assert_eq!(
            board.take(true, |_| false).unwrap().number,
            0,
            "else to the oldest"
        );
        assert_eq!(board.take(true, |number| number == 2).unwrap().number, 2);
        assert_eq!(board.waiting.len(), 1, "the older one was lost");
        assert_eq!(board.take(true, |_| false).unwrap().number, 3);
        assert!(board.take(true, |_| true).is_none());
    }

    #[test]
    fn unordered_echoes_may_overtake_each_other() {
        let mut board = Board::default();
        for number in 0..3 {
            board.waiting.push_back(Sent {
                number,
                at: Instant::now(),
                expired: false,
            });
        }
        let came = [2, 0, 1].map(|own| board.take(false, |number| number == own));
        assert_eq!(
            came.map(|sent| sent.map(|sent| sent.number)),
            [Some(2), Some(0), Some(1)]
        );
    }

    #[test]
    fn sizes_have_bounds() {
        assert_eq!(message_size("1"), Ok(1));
        assert_eq!(message_size("64mib"), Ok(64 << 20));
        for wrong in ["0", "65mib", "1x"] {
            assert!(message_size(wrong).is_err(), "{wrong}");
        }
    }
}
