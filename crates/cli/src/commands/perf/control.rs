//! Control messages of client and server on stream 0: a four-byte mark, a version, and JSON.
//!
//! The client first asks for a few echoes to compare the clocks, and then for the run; the server accepts or refuses the run.
//! Each sender reports when it has sent its last data, and when all of its data is acknowledged. Each receiver reports its
//! results so far during the run, and all results at the end. Either side may ask for an early end.

use anabranch::{Association, Bytes, Message, Ppid, SendError, SendOptions, StreamId};
use serde_json::{Value, json};

use super::clock::Comparison;
use super::plan::Plan;
use super::tally::{Received, Sent};

/// The stream of control messages.
pub(super) const STREAM: StreamId = StreamId(0);
/// Marks control messages: "pfct" in ASCII.
const PPID: Ppid = Ppid(0x7066_6374);
/// Marks data: "perf" in ASCII.
pub(super) const DATA_PPID: Ppid = Ppid(0x7065_7266);
const MAGIC: [u8; 4] = *b"ABPF";
/// The version of the control messages. Each change of their meaning increases it.
const VERSION: u8 = 3;
/// Limit of a control message, in bytes.
const MAX_LEN: usize = 16 << 10;
/// Limit of a peer's reason when it is shown, in characters.
const MAX_REASON: usize = 200;

/// A control message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Control {
    /// Asks for the reading of the peer's clock.
    Echo { number: u64 },
    /// Answers `Echo`.
    Echoed { number: u64, clock: u64 },
    /// The client requests this measurement, and tells the server the offset of the clocks.
    Start { plan: Plan, clocks: Comparison },
    /// The server accepts the measurement: both sides may send data.
    Ready,
    /// The server refuses the measurement.
    Refused { why: String },
    /// A sender has sent its last data.
    Last,
    /// All of a sender's data is acknowledged.
    Sent(Sent),
    /// A receiver's results so far, in case the run does not finish.
    SoFar(Received),
    /// A receiver's final results.
    Received(Received),
    /// Asks the sender to finish now.
    Stop,
}

impl Control {
    fn encode(&self) -> Vec<u8> {
        let body = match self {
            Self::Echo { number } => json!({ "say": "echo", "number": number }),
            Self::Echoed { number, clock } => json!({ "say": "echoed", "number": number, "clock": clock }),
            Self::Start { plan, clocks } => {
                json!({ "say": "start", "plan": plan.to_json(), "clocks": clocks.to_json() })
            }
            Self::Ready => json!({ "say": "ready" }),
            Self::Refused { why } => json!({ "say": "refused", "why": why }),
            Self::Last => json!({ "say": "last" }),
            Self::Sent(sent) => json!({ "say": "sent", "sent": sent.to_json() }),
            Self::SoFar(received) => json!({ "say": "so far", "received": received.to_json() }),
            Self::Received(received) => json!({ "say": "received", "received": received.to_json() }),
            Self::Stop => json!({ "say": "stop" }),
        };
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        bytes.extend(body.to_string().into_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let body = bytes
            .strip_prefix(&MAGIC)
            .ok_or("it sent a message that is not from `anabranch perf`")?;
        let (&version, body) = body.split_first().ok_or("it sent a truncated control message")?;
        if version != VERSION {
            return Err(format!(
                "it uses version {version} of the messages of `anabranch perf`, this side uses version {VERSION}: use the same \
                 version on both sides"
            ));
        }
        let unknown = || "it sent an unknown or malformed control message".to_owned();
        let body: Value = serde_json::from_slice(body).map_err(|_| unknown())?;
        let number = |name: &str| body[name].as_u64().ok_or_else(unknown);
        Ok(match body["say"].as_str().ok_or_else(unknown)? {
            "echo" => Self::Echo {
                number: number("number")?,
            },
            "echoed" => Self::Echoed {
                number: number("number")?,
                clock: number("clock")?,
            },
            "start" => Self::Start {
                plan: Plan::from_json(&body["plan"])?,
                clocks: Comparison::from_json(&body["clocks"]).ok_or_else(unknown)?,
            },
            "ready" => Self::Ready,
            "refused" => {
                let why = body["why"].as_str().ok_or_else(unknown)?;
                Self::Refused {
                    why: why.chars().filter(|c| !c.is_control()).take(MAX_REASON).collect(),
                }
            }
            "last" => Self::Last,
            "sent" => Self::Sent(Sent::from_json(&body["sent"]).ok_or_else(unknown)?),
            "so far" => Self::SoFar(Received::from_json(&body["received"]).ok_or_else(unknown)?),
            "received" => Self::Received(Received::from_json(&body["received"]).ok_or_else(unknown)?),
            "stop" => Self::Stop,
            _ => return Err(unknown()),
        })
    }

    /// No data follows that would cause an acknowledgement, but a side waits for it: the peer must not delay its SACK.
    fn options() -> SendOptions {
        SendOptions::default().ppid(PPID).immediate(true)
    }

    /// Sends the control message.
    pub(super) async fn send(&self, association: &Association) -> Result<(), SendError> {
        let bytes = Bytes::from(self.encode());
        association
            .send_with(STREAM, bytes, Self::options())
            .await
            .map(|_| ())
    }

    /// Sends the control message if the send buffer has room.
    pub(super) fn try_send(&self, association: &Association) -> Result<(), SendError> {
        let bytes = Bytes::from(self.encode());
        association
            .try_send_with(STREAM, bytes, Self::options())
            .map(|_| ())
    }

    /// The control message in a received message; `None` if the message is data.
    pub(super) fn of(message: &Message) -> Option<Result<Self, String>> {
        if message.ppid == DATA_PPID {
            return None;
        }
        let bytes = message.payload.clone();
        if bytes.len() > MAX_LEN {
            return Some(Err(
                "it sent a message that is not from `anabranch perf`".to_owned()
            ));
        }
        Some(Self::decode(&bytes.into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anabranch::Reliability;

    use super::super::plan::Until;
    use super::*;

    #[test]
    fn written_messages_are_read() {
        let plan = Plan {
            size: 16,
            streams: 1,
            unordered: true,
            forward: false,
            reverse: true,
            until: Until::Time(Duration::from_secs(1)),
            rate: None,
            reliability: Reliability::Retransmissions(1),
            early_copies: 2,
            deadline: None,
        };
        let all = [
            Control::Echo { number: 3 },
            Control::Echoed {
                number: 3,
                clock: u64::MAX,
            },
            Control::Start {
                plan,
                clocks: Comparison::of(1 << 60, 0, (1 << 60) + 5),
            },
            Control::Ready,
            Control::Refused {
                why: "busy".to_owned(),
            },
            Control::Last,
            Control::Sent(Sent::default()),
            Control::SoFar(Received::default()),
            Control::Received(Received::default()),
            Control::Stop,
        ];
        for control in all {
            assert_eq!(Control::decode(&control.encode()), Ok(control));
        }
    }

    #[test]
    fn malformed_messages_are_errors() {
        let error = |bytes: &[u8]| Control::decode(bytes).unwrap_err();
        assert!(error(b"hello").contains("not from `anabranch perf`"));
        assert!(error(b"ABPF").contains("truncated"));
        assert!(error(b"ABPF\x01{}").contains("version 1"));
        for body in ["", "[]", "{}", "{\"say\":\"sing\"}", "{\"say\":\"echo\"}"] {
            let mut bytes = b"ABPF\x03".to_vec();
            bytes.extend(body.bytes());
            assert!(error(&bytes).contains("malformed"), "{body}");
        }
        let rude = Control::Refused {
            why: "\x1b[2Jno".to_owned(),
        };
        let polite = Control::Refused {
            why: "[2Jno".to_owned(),
        };
        assert_eq!(Control::decode(&rude.encode()), Ok(polite));
    }
}
