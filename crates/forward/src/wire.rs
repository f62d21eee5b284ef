#![doc = include_str!("../PROTOCOL.md")]

mod hello;
mod reader;

use bytes::{BufMut, Bytes, BytesMut};

pub(crate) use hello::{Hello, RuleOffer, Verdict, Welcome};
use reader::Reader;

/// The version of this protocol.
pub(crate) const VERSION: u16 = 1;
/// The most rules of a client.
pub const MOST_RULES: usize = 256;
/// The most bytes of a Data message.
pub(crate) const MOST_DATA: usize = 16_384;
/// The most bytes of a UDP datagram over IPv4.
pub(crate) const MOST_DATAGRAM: usize = 65_507;
/// The cost of a Data message beside its length.
pub(crate) const MESSAGE_COST: u32 = 256;
/// The credit with which each direction of a flow begins.
pub(crate) const FIRST_CREDIT: u32 = 65_536;
/// The most credit of a direction.
pub(crate) const MOST_CREDIT: u32 = 4 << 20;
/// The bytes of a Data message before its data.
pub(crate) const DATA_HEADER: usize = 5;
/// The bytes of a Datagram before its payload.
pub(crate) const DATAGRAM_HEADER: usize = 7;

/// The number of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowId(pub(crate) u32);

impl FlowId {
    /// Whether the client opened the flow.
    pub(crate) fn is_of_client(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// Why a flow was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResetReason {
    /// The connection was reset.
    Connection = 0,
    /// The target did not accept.
    Target = 1,
    /// The rule or the policy does not permit the flow.
    Forbidden = 2,
    /// A limit of the client is reached.
    Limit = 3,
}

impl ResetReason {
    fn read(number: u8) -> Result<Self, WireError> {
        let all = [Self::Connection, Self::Target, Self::Forbidden, Self::Limit];
        let found = all.into_iter().find(|reason| *reason as u8 == number);
        found.ok_or(WireError::OutOfRange("reason"))
    }
}

/// A message that breaks the rules of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("a message of an unknown kind")]
    Kind,
    #[error("a message that ends too early")]
    Truncated,
    #[error("bytes after the end of a message")]
    Trailing,
    #[error("a message whose {0} is out of range")]
    OutOfRange(&'static str),
    #[error("a string that is not UTF-8")]
    Text,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Hello(Hello),
    Welcome(Welcome),
    Refusal { version: u16, reason: String },
    Open { flow: FlowId, rule: u16 },
    Data { flow: FlowId, bytes: Bytes },
    End { flow: FlowId },
    Reset { flow: FlowId, reason: ResetReason },
    Credit { flow: FlowId, credit: u32 },
    Datagram { flow: FlowId, rule: u16, payload: Bytes },
    Unreachable { flow: FlowId },
}

const HELLO: u8 = 0x01;
const WELCOME: u8 = 0x02;
const REFUSAL: u8 = 0x03;
const OPEN: u8 = 0x10;
const DATA: u8 = 0x11;
const END: u8 = 0x12;
const RESET: u8 = 0x13;
const CREDIT: u8 = 0x14;
const DATAGRAM: u8 = 0x20;
const UNREACHABLE: u8 = 0x21;

/// The cost of a Data message with this number of bytes.
pub(crate) fn cost(bytes: usize) -> u32 {
    // A Data message has at most 16 KiB.
    bytes as u32 + MESSAGE_COST
}

/// The header of a Data message; its bytes follow.
pub(crate) fn data_header(flow: FlowId) -> [u8; DATA_HEADER] {
    let [a, b, c, d] = flow.0.to_be_bytes();
    [DATA, a, b, c, d]
}

/// The header of a Datagram; its payload follows.
pub(crate) fn datagram_header(flow: FlowId, rule: u16) -> [u8; DATAGRAM_HEADER] {
    let ([a, b, c, d], [e, f]) = (flow.0.to_be_bytes(), rule.to_be_bytes());
    [DATAGRAM, a, b, c, d, e, f]
}

fn put_text(out: &mut BytesMut, text: &str) {
    // Texts of peers are bounded when they are read, and those of this crate are short.
    let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
    out.put_u16(text.len() as u16);
    out.put_slice(text);
}

impl Message {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Hello(hello) => {
                out.put_u8(HELLO);
                hello.encode(&mut out);
            }
            Self::Welcome(welcome) => {
                out.put_u8(WELCOME);
                welcome.encode(&mut out);
            }
            Self::Refusal { version, reason } => {
                out.put_u8(REFUSAL);
                out.put_u16(*version);
                put_text(&mut out, reason);
            }
            Self::Open { flow, rule } => {
                out.put_u8(OPEN);
                out.put_u32(flow.0);
                out.put_u16(*rule);
            }
            Self::Data { flow, bytes } => {
                out.put_slice(&data_header(*flow));
                out.put_slice(bytes);
            }
            Self::End { flow } => {
                out.put_u8(END);
                out.put_u32(flow.0);
            }
            Self::Reset { flow, reason } => {
                out.put_u8(RESET);
                out.put_u32(flow.0);
                out.put_u8(*reason as u8);
            }
            Self::Credit { flow, credit } => {
                out.put_u8(CREDIT);
                out.put_u32(flow.0);
                out.put_u32(*credit);
            }
            Self::Datagram { flow, rule, payload } => {
                out.put_slice(&datagram_header(*flow, *rule));
                out.put_slice(payload);
            }
            Self::Unreachable { flow } => {
                out.put_u8(UNREACHABLE);
                out.put_u32(flow.0);
            }
        }
        out.freeze()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        let message = match kind {
            HELLO => Self::Hello(Hello::read(&mut reader)?),
            WELCOME => Self::Welcome(Welcome::read(&mut reader)?),
            REFUSAL => Self::Refusal {
                version: reader.u16()?,
                reason: reader.text()?,
            },
            OPEN..=CREDIT | DATAGRAM | UNREACHABLE => Self::read_of_flow(kind, &mut reader)?,
            _ => return Err(WireError::Kind),
        };
        reader.end()?;
        Ok(message)
    }

    fn read_of_flow(kind: u8, reader: &mut Reader) -> Result<Self, WireError> {
        let flow = FlowId(reader.u32()?);
        Ok(match kind {
            OPEN => Self::Open {
                flow,
                rule: reader.u16()?,
            },
            DATA => Self::Data {
                flow,
                bytes: reader.rest(1..=MOST_DATA)?,
            },
            END => Self::End { flow },
            UNREACHABLE => Self::Unreachable { flow },
            RESET => Self::Reset {
                flow,
                reason: ResetReason::read(reader.u8()?)?,
            },
            CREDIT => match reader.u32()? {
                credit @ 1..=MOST_CREDIT => Self::Credit { flow, credit },
                _ => return Err(WireError::OutOfRange("credit")),
            },
            _ => Self::Datagram {
                flow,
                rule: reader.u16()?,
                payload: reader.rest(0..=MOST_DATAGRAM)?,
            },
        })
    }
}

#[cfg(test)]
mod tests;
