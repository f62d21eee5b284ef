//! Control messages of client and server on stream 0: a four-byte mark, a version, and JSON.
//!
//! The client asks for a few echoes to compare the clocks, then for the run; the server is ready or refuses. Each
//! sender tells when it is done, and when all of its data is acknowledged; each receiver answers what it found, and
//! tells meanwhile what it has found up to then. Either side may ask for an early end.

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
/// Counts up when the meaning of anything in it changes.
const VERSION: u8 = 3;
/// Nothing said here is longer, in bytes.
const MAX_LEN: usize = 16 << 10;
/// The longest reason that is shown of a peer, in characters.
const MAX_REASON: usize = 200;

/// A control message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Control {
    /// Asks what the peer's clock shows.
    Echo { number: u64 },
    /// The answer.
    Echoed { number: u64, clock: u64 },
    /// The client: this is to be measured, and so the server's clock compares to the client's.
    Start { plan: Plan, clocks: Comparison },
    /// The server: data may flow.
    Ready,
    /// The server does not serve this.
    Refused { why: String },
    /// A sender has no more data.
    Last,
    /// All of a sender's data is acknowledged.
    Sent(Sent),
    /// A receiver's results so far, in case the run does not finish.
    SoFar(Received),
    /// A receiver has seen what was sent.
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
            .ok_or("it is no side of `anabranch perf`")?;
        let (&version, body) = body.split_first().ok_or("its control message is cut")?;
        if version != VERSION {
            return Err(format!(
                "it speaks version {version} of `anabranch perf`, this side {VERSION}: use the same version on both"
            ));
        }
        let unknown = || "its control message makes no sense".to_owned();
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

    /// Nothing follows that would bring an acknowledgement, and somebody waits for it.
    fn options() -> SendOptions {
        SendOptions {
            ppid: PPID,
            immediate: true,
            ..SendOptions::default()
        }
    }

    /// Says it to the peer.
    pub(super) async fn send(&self, association: &Association) -> Result<(), SendError> {
        let bytes = Bytes::from(self.encode());
        association
            .send_with(STREAM, bytes, Self::options())
            .await
            .map(|_| ())
    }

    /// Says it to the peer if there is room for it.
    pub(super) fn try_send(&self, association: &Association) -> Result<(), SendError> {
        let bytes = Bytes::from(self.encode());
        association.try_send(STREAM, bytes, Self::options()).map(|_| ())
    }

    /// The control message in a message; `None` if it is data.
    pub(super) fn of(message: &Message) -> Option<Result<Self, String>> {
        if message.ppid == DATA_PPID {
            return None;
        }
        let bytes = message.payload.clone();
        if bytes.len() > MAX_LEN {
            return Some(Err("it is no side of `anabranch perf`".to_owned()));
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
    fn what_is_said_is_understood() {
        let plan = Plan {
            size: 16,
            streams: 1,
            unordered: true,
            forward: false,
            reverse: true,
            until: Until::Time(Duration::from_secs(1)),
            rate: None,
            reliability: Reliability::Retransmissions(1),
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
    fn what_is_wrong_is_told() {
        let error = |bytes: &[u8]| Control::decode(bytes).unwrap_err();
        assert!(error(b"hello").contains("no side of"));
        assert!(error(b"ABPF").contains("cut"));
        assert!(error(b"ABPF\x01{}").contains("version 1"));
        for body in ["", "[]", "{}", "{\"say\":\"sing\"}", "{\"say\":\"echo\"}"] {
            let mut bytes = b"ABPF\x03".to_vec();
            bytes.extend(body.bytes());
            assert!(error(&bytes).contains("no sense"), "{body}");
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
