//! The messages of the Data Channel Establishment Protocol (RFC 8832 §5).
//!
//! ```text
//! | Message Type=3 | Channel Type  |            Priority            |
//! |                     Reliability Parameter                       |
//! |          Label Length           |        Protocol Length        |
//! | Label, Protocol …
//!
//! | Message Type=2 |
//! ```

use std::time::Duration;

use anabranch_proto::Reliability;

use crate::config::ChannelConfig;

const ACK: u8 = 2;
const OPEN: u8 = 3;
const HEADER_LEN: usize = 12;
/// The longest message in bytes: with the longest label and protocol.
pub(crate) const LONGEST: usize = HEADER_LEN + 2 * 65_535;
const REXMIT: u8 = 1;
const TIMED: u8 = 2;
const UNORDERED: u8 = 0x80;

/// A message of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dcep {
    Open(ChannelConfig),
    Ack,
}

impl Dcep {
    /// The message; `None` if it is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            // RFC 8832 §5.2 has one byte; pion sends four.
            [ACK, ..] => Some(Self::Ack),
            [OPEN, kind, rest @ ..] if bytes.len() >= HEADER_LEN => {
                let word = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
                let priority = word(0);
                let parameter = u32::from_be_bytes([rest[2], rest[3], rest[4], rest[5]]);
                let (label, protocol) = (usize::from(word(6)), usize::from(word(8)));
                let texts = &bytes[HEADER_LEN..];
                if texts.len() != label + protocol {
                    return None;
                }
                let (label, protocol) = texts.split_at(label);
                let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
                let reliability = match kind & !UNORDERED {
                    0 => Reliability::Reliable,
                    REXMIT => Reliability::Retransmissions(parameter),
                    TIMED => Reliability::Lifetime(Duration::from_millis(parameter.into())),
                    _ => return None,
                };
                Some(Self::Open(ChannelConfig {
                    label: text(label)?,
                    protocol: text(protocol)?,
                    ordered: kind & UNORDERED == 0,
                    reliability,
                    lifetime_is_deadline: false,
                    priority,
                    negotiated: None,
                }))
            }
            _ => None,
        }
    }
}

/// The message that opens a channel. Label and protocol must have at most 65,535 bytes each.
pub(crate) fn open(config: &ChannelConfig) -> Vec<u8> {
    let (kind, parameter) = match config.reliability {
        Reliability::Retransmissions(count) => (REXMIT, count),
        Reliability::Lifetime(time) => (TIMED, u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
        _ => (0, 0),
    };
    let kind = if config.ordered { kind } else { kind | UNORDERED };
    let mut bytes = vec![OPEN, kind];
    bytes.extend_from_slice(&config.priority.to_be_bytes());
    bytes.extend_from_slice(&parameter.to_be_bytes());
    for text in [&config.label, &config.protocol] {
        bytes.extend_from_slice(&(text.len() as u16).to_be_bytes());
    }
    bytes.extend_from_slice(config.label.as_bytes());
    bytes.extend_from_slice(config.protocol.as_bytes());
    bytes
}

/// The message that confirms a channel.
pub(crate) fn ack() -> Vec<u8> {
    vec![ACK]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let reliabilities = [
            Reliability::Reliable,
            Reliability::Retransmissions(3),
            Reliability::Lifetime(Duration::from_millis(70_000)),
        ];
        for ordered in [false, true] {
            for reliability in reliabilities {
                let config = ChannelConfig::new("a label: ü")
                    .protocol("chat")
                    .ordered(ordered)
                    .reliability(reliability)
                    .priority(512);
                assert_eq!(Dcep::decode(&open(&config)), Some(Dcep::Open(config)));
            }
        }
        assert_eq!(Dcep::decode(&ack()), Some(Dcep::Ack));
        assert_eq!(Dcep::decode(&[2, 0, 0, 0]), Some(Dcep::Ack), "of pion");
    }

    /// RFC 8832 §5.1, byte by byte.
    #[test]
    fn an_open_message_by_hand() {
        let bytes = [3, 0x82, 1, 0, 0, 0, 0, 200, 0, 2, 0, 1, b'h', b'i', b'p'];
        let Some(Dcep::Open(config)) = Dcep::decode(&bytes) else {
            panic!("OPEN")
        };
        assert_eq!((config.label.as_str(), config.protocol.as_str()), ("hi", "p"));
        assert_eq!((config.ordered, config.priority), (false, 256));
        assert_eq!(
            config.reliability,
            Reliability::Lifetime(Duration::from_millis(200))
        );
        for wrong in [
            &bytes[..14],
            &[&bytes[..], &[0]].concat(),
            &[3, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[3, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0xff],
            &[4],
            &[],
        ] {
            assert_eq!(Dcep::decode(wrong), None, "{wrong:?}");
        }
    }
}
