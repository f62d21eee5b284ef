//! Chunks with which the peer of the target `association` changes the association while it lasts: stream reconfiguration (RFC 6525) and
//! dynamic addresses (RFC 5061), signed (RFC 4895).

use std::net::IpAddr;

use anabranch_testkit::{Signature, authentication_parameters};
use anabranch_wire::Tsn;
use anabranch_wire::chunk::{RawChunk, kind};
use anabranch_wire::parameter::{Parameters, ParametersBuilder};

use crate::input::Input;
use crate::peer::chunk;

/// The numbers of requests, and the signature of packets.
pub(crate) struct Family {
    /// The next sequence number of a RE-CONFIG request, and of an ASCONF, of the peer.
    request: u32,
    serial: u32,
    /// The last such number that the endpoint sent.
    asked_request: u32,
    asked_serial: u32,
    /// Whether the peer offers signatures and dynamic addresses.
    pub(crate) signs: bool,
    signature: Option<Signature>,
}

/// A parameter with this value, padded.
pub(crate) fn parameter(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn word(at: usize, bytes: &[u8]) -> Option<u32> {
    let word = bytes.get(at..at + 4)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

/// The next number. `bits` may choose the number before it, or a wrong number.
fn number(next: &mut u32, bits: u8) -> u32 {
    match bits >> 4 & 3 {
        0 | 1 => {
            *next = next.wrapping_add(1);
            next.wrapping_sub(1)
        }
        2 => next.wrapping_sub(1),
        _ => next.wrapping_add(7),
    }
}

impl Family {
    /// All numbers start at the initial TSN.
    pub(crate) fn new(tsn: Tsn, signs: bool) -> Self {
        Self {
            request: tsn.0,
            serial: tsn.0,
            asked_request: 0,
            asked_serial: 0,
            signs,
            signature: None,
        }
    }

    /// The parameters of the peer's INIT or INIT ACK.
    pub(crate) fn parameters() -> Parameters {
        authentication_parameters(ParametersBuilder::new(), &[]).finish()
    }

    /// The parameters of the endpoint's INIT or INIT ACK. Key 0 is in use, and empty.
    pub(crate) fn meet(&mut self, parameters: &Parameters) {
        let signature = || Signature::new(&Self::parameters(), parameters, 0, &[]);
        self.signature = self.signs.then(signature);
    }

    /// These encoded chunks, signed.
    pub(crate) fn sign(&self, chunks: Vec<u8>) -> Vec<u8> {
        match &self.signature {
            Some(signature) => signature.before(&chunks),
            None => chunks,
        }
    }

    /// Notes the numbers that the endpoint sends. If it answers a reset of all TSNs: the peer's next TSN, and its own.
    pub(crate) fn observe(&mut self, raw: &RawChunk<'_>) -> Option<[Tsn; 2]> {
        match raw.kind {
            kind::ASCONF => self.asked_serial = word(0, &raw.value())?,
            kind::RE_CONFIG => {
                let value = raw.value();
                let mut rest = &value[..];
                while let [high, low, len_high, len_low, ..] = *rest {
                    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
                    match (u16::from_be_bytes([high, low]), len) {
                        (16, 20) => return Some([Tsn(word(16, rest)?), Tsn(word(12, rest)?)]),
                        (16, _) => {}
                        _ => self.asked_request = word(4, rest)?,
                    }
                    rest = rest.get(len.max(4).next_multiple_of(4)..)?;
                }
            }
            _ => {}
        }
        None
    }

    /// RE-CONFIG with one or two requests or responses.
    pub(crate) fn reconfig(&mut self, last_tsn: Tsn, input: &mut Input<'_>) -> Vec<u8> {
        let mut value = Vec::new();
        let mut bits = input.u8();
        for _ in 0..=bits >> 6 & 1 {
            let streams = |input: &mut Input<'_>| {
                let some = (0..input.u8() & 3).flat_map(|_| [0, input.u8() & 7]);
                some.collect::<Vec<u8>>()
            };
            let one = match bits & 7 {
                0 | 1 => {
                    let ahead = u32::from(input.u8() & 3);
                    let numbers = [
                        number(&mut self.request, bits),
                        self.asked_request,
                        last_tsn.0.wrapping_add(ahead),
                    ];
                    parameter(13, &[words(&numbers), streams(input)].concat())
                }
                2 => parameter(
                    14,
                    &[words(&[number(&mut self.request, bits)]), streams(input)].concat(),
                ),
                3 => parameter(15, &words(&[number(&mut self.request, bits)])),
                4 | 5 => {
                    let count = u32::from(input.u8()) << (16 + (bits & 8));
                    let kind = 13 + u16::from(bits & 7);
                    parameter(kind, &words(&[number(&mut self.request, bits), count]))
                }
                _ => {
                    let result = input.u8();
                    let mut numbers = vec![
                        self.asked_request.wrapping_sub(u32::from(bits >> 4 & 1)),
                        u32::from(result & 7),
                    ];
                    if result & 8 != 0 {
                        numbers.extend([last_tsn.0.wrapping_add(1), input.u32()]);
                    }
                    parameter(16, &words(&numbers))
                }
            };
            value.extend(one);
            bits = input.u8();
        }
        chunk(kind::RE_CONFIG, 0, &value)
    }

    /// RE-CONFIG with the request to reset these outgoing streams, or the incoming ones.
    #[cfg(feature = "encryption")]
    pub(crate) fn reset(&mut self, last_tsn: Tsn, outgoing: bool, streams: &[u16]) -> Vec<u8> {
        let request = number(&mut self.request, 0);
        let listed: Vec<u8> = streams.iter().flat_map(|stream| stream.to_be_bytes()).collect();
        let value = if outgoing {
            parameter(
                13,
                &[words(&[request, self.asked_request, last_tsn.0]), listed].concat(),
            )
        } else {
            parameter(14, &[words(&[request]), listed].concat())
        };
        chunk(kind::RE_CONFIG, 0, &value)
    }

    /// RE-CONFIG with this result of the endpoint's last request.
    #[cfg(feature = "encryption")]
    pub(crate) fn answer(&self, result: u32) -> Vec<u8> {
        chunk(
            kind::RE_CONFIG,
            0,
            &parameter(16, &words(&[self.asked_request, result])),
        )
    }

    /// ASCONF or ASCONF-ACK.
    pub(crate) fn asconf(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let bits = input.u8();
        if bits & 0x80 != 0 {
            let serial = self.asked_serial.wrapping_add(u32::from(bits >> 4 & 1));
            let mut value = words(&[serial]);
            for id in 0..u32::from(bits & 3) {
                let cause = [words(&[id + 1]), parameter(0xA0 + u16::from(bits >> 2 & 3), &[])].concat();
                value.extend(if bits & 8 == 0 {
                    parameter(0xC005, &words(&[id + 1]))
                } else {
                    parameter(0xC003, &cause)
                });
            }
            return chunk(kind::ASCONF_ACK, 0, &value);
        }
        let mut value = words(&[number(&mut self.serial, bits)]);
        value.extend(ipv4(input.u8()));
        for id in 0..u32::from(bits & 3) {
            let request = input.u8();
            let kind = [0xC001, 0xC002, 0xC004, 0xC001][usize::from(request >> 6)];
            value.extend(parameter(kind, &[words(&[id]), ipv4(request)].concat()));
        }
        chunk(kind::ASCONF, 0, &value)
    }
}

/// An Address Parameter: one of the peer's addresses, the wildcard, or another address.
fn ipv4(bits: u8) -> Vec<u8> {
    let ip = match bits >> 2 & 7 {
        6 => IpAddr::from([0, 0, 0, 0]),
        7 => IpAddr::from([224, 0, 0, bits]),
        _ => IpAddr::from([10, 0, 0, 2 + (bits & 7)]),
    };
    let IpAddr::V4(ip) = ip else {
        unreachable!("only IPv4 is used")
    };
    parameter(5, &ip.octets())
}
