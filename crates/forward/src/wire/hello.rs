//! The messages that begin an association: the client's rules, and the server's verdict about each.

use std::time::Duration;

use bytes::{BufMut, BytesMut};

use super::reader::Reader;
use super::{MOST_RULES, VERSION, WireError, put_text};
use crate::rule::{CLASSES, LONGEST_DEADLINE, Protocol, Traffic, allowed_idle};

const MAGIC: [u8; 4] = *b"ANBF";
/// The class field of a rule without class.
const AUTOMATIC: u8 = 255;
const REVERSE: u8 = 0x01;
const ORDERED: u8 = 0x02;

/// A client's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u16,
    /// The random number of the client.
    pub(crate) client: [u8; 16],
    pub(crate) rules: Vec<RuleOffer>,
}

/// A rule, as far as the server needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleOffer {
    pub(crate) protocol: Protocol,
    pub(crate) reverse: bool,
    pub(crate) traffic: Traffic,
    /// The target; where the server listens, if the rule is reverse. Not parsed yet.
    pub(crate) place: String,
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) version: u16,
    pub(crate) most_flows: u32,
    pub(crate) verdicts: Vec<Verdict>,
}

/// Whether the server accepts a rule: where it listens, or the reason for the refusal.
pub(crate) type Verdict = Result<String, String>;

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

impl RuleOffer {
    fn encode(&self, out: &mut BytesMut) {
        let traffic = &self.traffic;
        out.put_u8(match self.protocol {
            Protocol::Udp => 0,
            Protocol::Tcp => 1,
        });
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        out.put_u8(flag(self.reverse, REVERSE) | flag(traffic.ordered, ORDERED));
        out.put_u8(traffic.class.unwrap_or(AUTOMATIC));
        out.put_u32(traffic.deadline.map_or(0, millis));
        out.put_u64(traffic.rate.unwrap_or(0));
        out.put_u32(millis(traffic.idle));
        put_text(out, &self.place);
    }

    fn read(reader: &mut Reader) -> Result<Self, WireError> {
        let protocol = match reader.u8()? {
            0 => Protocol::Udp,
            1 => Protocol::Tcp,
            _ => return Err(WireError::OutOfRange("protocol")),
        };
        let flags = reader.u8()?;
        if flags & !(REVERSE | ORDERED) != 0 {
            return Err(WireError::OutOfRange("flags"));
        }
        let class = match reader.u8()? {
            AUTOMATIC => None,
            class if CLASSES.contains(&class) => Some(class),
            _ => return Err(WireError::OutOfRange("class")),
        };
        let deadline = Duration::from_millis(reader.u32()?.into());
        if deadline > LONGEST_DEADLINE {
            return Err(WireError::OutOfRange("deadline"));
        }
        let rate = reader.u64()?;
        let idle = Duration::from_millis(reader.u32()?.into());
        if !allowed_idle().contains(&idle) {
            return Err(WireError::OutOfRange("idle time"));
        }
        let traffic = Traffic {
            deadline: (!deadline.is_zero()).then_some(deadline),
            class,
            rate: (rate != 0).then_some(rate),
            ordered: flags & ORDERED != 0,
            idle,
        };
        Ok(Self {
            protocol,
            reverse: flags & REVERSE != 0,
            traffic,
            place: reader.text()?,
        })
    }
}

/// The number of elements of a list.
fn count(reader: &mut Reader) -> Result<usize, WireError> {
    match usize::from(reader.u16()?) {
        count @ 0..=MOST_RULES => Ok(count),
        _ => Err(WireError::OutOfRange("number of rules")),
    }
}

impl Hello {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&MAGIC);
        out.put_u16(self.version);
        out.put_slice(&self.client);
        out.put_u16(self.rules.len() as u16);
        self.rules.iter().for_each(|rule| rule.encode(out));
    }

    /// Of a later version, whose form is not known, the rules are not read.
    pub(super) fn read(reader: &mut Reader) -> Result<Self, WireError> {
        if reader.array()? != MAGIC {
            return Err(WireError::OutOfRange("magic number"));
        }
        let version = reader.u16()?;
        let client = reader.array()?;
        let mut hello = Self {
            version,
            client,
            rules: Vec::new(),
        };
        if version == VERSION {
            for _ in 0..count(reader)? {
                hello.rules.push(RuleOffer::read(reader)?);
            }
        } else {
            reader.rest(0..=usize::MAX)?;
        }
        Ok(hello)
    }
}

impl Welcome {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u16(self.version);
        out.put_u32(self.most_flows);
        out.put_u16(self.verdicts.len() as u16);
        for verdict in &self.verdicts {
            out.put_u8(u8::from(verdict.is_ok()));
            let (Ok(text) | Err(text)) = verdict;
            put_text(out, text);
        }
    }

    pub(super) fn read(reader: &mut Reader) -> Result<Self, WireError> {
        let mut welcome = Self {
            version: reader.u16()?,
            most_flows: reader.u32()?,
            verdicts: Vec::new(),
        };
        if welcome.version != VERSION {
            return Err(WireError::OutOfRange("version"));
        }
        for _ in 0..count(reader)? {
            let accepted = reader.u8()?;
            let text = reader.text()?;
            welcome.verdicts.push(match accepted {
                1 => Ok(text),
                0 => Err(text),
                _ => return Err(WireError::OutOfRange("verdict")),
            });
        }
        Ok(welcome)
    }
}
