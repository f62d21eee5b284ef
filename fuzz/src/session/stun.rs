//! STUN messages (RFC 8489) with the right credentials and any attributes.

use std::net::{IpAddr, SocketAddr};

use is::{DefaultSha1HmacProvider, Sha1HmacProvider};

use crate::input::Input;

const MAGIC: [u8; 4] = [0x21, 0x12, 0xA4, 0x42];
const HEADER_LEN: usize = 20;

const USERNAME: u16 = 6;
const MESSAGE_INTEGRITY: u16 = 8;
const ERROR_CODE: u16 = 9;
const XOR_MAPPED_ADDRESS: u16 = 0x20;
const PRIORITY: u16 = 0x24;
const USE_CANDIDATE: u16 = 0x25;
const FINGERPRINT: u16 = 0x8028;
const ICE_CONTROLLED: u16 = 0x8029;
const ICE_CONTROLLING: u16 = 0x802A;

/// The types of Binding messages.
pub(super) const REQUEST: u16 = 1;
pub(super) const SUCCESS: u16 = 0x101;
const FAILURE: u16 = 0x111;

/// The number of a transaction.
pub(super) type Transaction = [u8; 12];

/// The transaction of a STUN message.
pub(super) fn transaction(bytes: &[u8]) -> Option<Transaction> {
    bytes.get(8..HEADER_LEN)?.first_chunk().copied()
}

/// The parts of a message that do not come from the input.
pub(super) struct Context<'a> {
    /// The user name of a request to the victim.
    pub(super) username: &'a str,
    /// The password of requests to the victim, and that of answers to its requests.
    pub(super) passwords: [&'a str; 2],
    /// A transaction of the victim, for an answer.
    pub(super) transaction: Transaction,
    /// An address that no earlier message had.
    pub(super) fresh: SocketAddr,
}

struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, transaction: Transaction) -> Self {
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&transaction);
        Self(bytes)
    }

    fn push(&mut self, kind: u16, value: &[u8]) {
        self.0.extend_from_slice(&kind.to_be_bytes());
        self.0.extend_from_slice(&(value.len() as u16).to_be_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn set_len(&mut self, more: usize) {
        let len = (self.0.len() - HEADER_LEN + more) as u16;
        self.0[2..4].copy_from_slice(&len.to_be_bytes());
    }

    /// RFC 8489 §14.5: the length counts the attribute itself.
    fn sign(&mut self, password: &str) {
        self.set_len(24);
        let code = DefaultSha1HmacProvider.sha1_hmac(password.as_bytes(), &[&self.0]);
        self.push(MESSAGE_INTEGRITY, &code);
    }
}

/// RFC 8489 §14.2.
fn mapped(address: SocketAddr) -> Vec<u8> {
    let port = address.port() ^ 0x2112;
    let mut value = vec![0, 1];
    value.extend_from_slice(&port.to_be_bytes());
    if let IpAddr::V4(ip) = address.ip() {
        value.extend(ip.octets().iter().zip(MAGIC).map(|(byte, mask)| byte ^ mask));
    }
    value
}

/// A Binding request as a peer sends it, or the answer to one.
pub(super) fn usual(kind: u16, nominates: bool, context: &Context<'_>) -> Vec<u8> {
    let mut message = Message::new(kind, context.transaction);
    if kind == REQUEST {
        message.push(USERNAME, context.username.as_bytes());
        message.push(PRIORITY, &0x6e00_1eff_u32.to_be_bytes());
        message.push(ICE_CONTROLLING, &[0; 8]);
        if nominates {
            message.push(USE_CANDIDATE, &[]);
        }
        message.sign(context.passwords[0]);
    } else {
        message.push(XOR_MAPPED_ADDRESS, &mapped(context.fresh));
        message.sign(context.passwords[1]);
    }
    message.push(FINGERPRINT, &[0; 4]);
    message.set_len(0);
    message.0
}

/// Any message: of any type, with any attributes in any order, most often signed.
pub(super) fn any(input: &mut Input<'_>, context: &Context<'_>) -> Vec<u8> {
    let bits = input.u8();
    let kind = match bits & 7 {
        0..3 => REQUEST,
        3 | 4 => SUCCESS,
        5 => FAILURE,
        6 => 0x11,
        _ => input.u16() & 0x3fff,
    };
    let mut message = Message::new(kind, context.transaction);
    for _ in 0..bits >> 3 & 15 {
        let bits = input.u8();
        match bits & 15 {
            0 | 1 => message.push(USERNAME, context.username.as_bytes()),
            2 | 3 => message.push(PRIORITY, &input.u32().to_be_bytes()),
            4 => message.push(USE_CANDIDATE, &[]),
            5 | 6 => {
                let kind = [ICE_CONTROLLED, ICE_CONTROLLING][usize::from(bits & 1)];
                message.push(kind, &[bits; 8]);
            }
            7 => message.push(XOR_MAPPED_ADDRESS, &mapped(context.fresh)),
            8 => message.push(ERROR_CODE, &[0, 0, 4, 87]),
            9 => message.sign(context.passwords[usize::from(bits >> 4 & 1)]),
            10 => {
                let other = format!("{}:", context.username.split(':').next().unwrap_or_default());
                message.push(USERNAME, other.as_bytes());
            }
            11 => message.push(USERNAME, &vec![bits; usize::from(input.u16() % 600)]),
            12 => {
                // An attribute of any type whose length may be wrong.
                let (kind, len) = (input.u8(), input.u8());
                message.0.extend_from_slice(&[bits & 0x80, kind, 0, len]);
                message.0.extend_from_slice(input.take(usize::from(len & 0x3f)));
            }
            _ => {
                let kind = u16::from(input.u8());
                let len = usize::from(bits >> 4);
                message.push(kind | u16::from(bits >> 4 & 1) << 15, input.take(len));
            }
        }
    }
    if bits & 0x80 == 0 {
        message.sign(context.passwords[usize::from(kind != REQUEST)]);
    }
    message.0.resize(message.0.len().next_multiple_of(4), 0);
    message.set_len(0);
    message.0
}
