//! The state cookie (RFC 9260 §5.1.3): everything that an association needs, kept by the peer until it has proved its address. A MAC (HMAC)
//! covers the whole cookie; its key changes regularly and is then forgotten.
//!
//! The cookie is small, because the INIT ACK that carries it goes to an address that is not proved yet. The ports and the tag of the packet
//! that returns it are covered by the HMAC without being in the cookie. Times are milliseconds in 32 bits. The HMAC is truncated to 128
//! bits (RFC 2104 §5 asks for 80 at least).

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_wire::packet::CommonHeader;
use anabranch_wire::{Tsn, VerificationTag};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::capabilities::Capabilities;
use super::negotiated::{MOST_ADDRESSES, Negotiated};
use crate::extension::auth::{AuthParameters, KeyExchange, RANDOM_LEN};
use crate::extension::protection::{self, KeyParameters};
use crate::random::Random;
use crate::time::Timestamp;

const MAC_LEN: usize = 16;

/// Length in bytes of a cookie without addresses and Tie-Tags.
const FIXED_LEN: usize = MAC_LEN + 33;

/// Length in bytes of the longest cookie: with Tie-Tags, the parameters of authentication or of key management, the address that the INIT came from, and the most addresses that it may list; 17
/// bytes for each address. A longer cookie is not from this endpoint, and costs no HMAC.
const MOST_LEN: usize =
    FIXED_LEN + 8 + 4 + RANDOM_LEN + AuthParameters::MOST_COOKIE_LEN + 17 * (1 + MOST_ADDRESSES);

/// The contents of a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateCookie {
    pub(crate) created: Timestamp,
    pub(crate) lifetime: Duration,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) local_tag: VerificationTag,
    pub(crate) peer_tag: VerificationTag,
    pub(crate) local_initial_tsn: Tsn,
    pub(crate) peer_initial_tsn: Tsn,
    pub(crate) peer_rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    /// The Tie-Tags of the association that existed when the INIT arrived, if there was one (§5.2.2).
    pub(crate) tie_tags: Option<TieTags>,
    pub(crate) capabilities: Capabilities,
    /// With authentication: the RANDOM of this endpoint, and the parameters of the peer (RFC 4895 §6.3). It has no shared keys.
    pub(crate) authentication: Option<([u8; RANDOM_LEN], AuthParameters)>,
    /// With protected packets: the parameters of both endpoints.
    pub(crate) protection: Option<protection::KeyExchange>,
    /// The Adaptation Code Point of the peer (RFC 5061 §4.2.6).
    pub(crate) adaptation_layer: Option<u32>,
    /// The address that the INIT came from, and the addresses that it listed.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Tie-Tags: two nonces that identify an association in cookies, in place of its verification tags, which must stay secret (§5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TieTags {
    pub(crate) local: u32,
    pub(crate) peer: u32,
}

impl TieTags {
    /// The Tie-Tags of a new association.
    pub(crate) fn new(random: &mut Random) -> Self {
        Self {
            local: random.nonzero_u32(),
            peer: random.nonzero_u32(),
        }
    }
}

/// Why a cookie is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CookieError {
    /// Not from this endpoint, or altered: silently discarded (§5.1.5 steps 1 and 2).
    Forged,
    /// From this endpoint, and too old (§5.1.5 step 3).
    Stale {
        /// How long ago the cookie expired, in microseconds rounded up (§3.3.10.3).
        staleness_us: u32,
        /// Its contents, which are used if both tags are those of an association (§5.2.4).
        cookie: Box<StateCookie>,
    },
}

/// Makes and verifies cookies. A copy makes the same cookies: a one-way function derives the key of each period from the key before, and
/// old keys are forgotten.
#[derive(Clone)]
pub(crate) struct CookieMint {
    current: [u8; 32],
    previous: [u8; 32],
    period: u64,
    period_length: Duration,
    lifetime: Duration,
}

impl core::fmt::Debug for CookieMint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CookieMint")
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

impl CookieMint {
    /// A key is used for twice the longest lifetime of a cookie, so that every valid cookie was made with this key or the one before.
    pub(crate) fn new(key: [u8; 32], lifetime: Duration) -> Self {
        let first = mac(&key, b"first");
        Self {
            current: first,
            previous: first,
            period: 0,
            period_length: lifetime * 4,
            lifetime,
        }
    }

    /// The lifetime of a new cookie: `Valid.Cookie.Life` plus what the peer asks for, at most as much again (§5.2.6).
    pub(super) fn lifetime_for(&self, preservative: Duration) -> Duration {
        self.lifetime + preservative.min(self.lifetime)
    }

    /// How long a cookie is valid at most.
    pub(crate) fn longest_lifetime(&self) -> Duration {
        self.lifetime_for(Duration::MAX)
    }

    fn turn(&mut self, now: Timestamp) {
        let period = now.0
            / u64::try_from(self.period_length.as_nanos())
                .unwrap_or(u64::MAX)
                .max(1);
        while self.period < period {
            self.previous = self.current;
            self.current = mac(&self.current, b"next");
            self.period += 1;
        }
    }

    /// Makes a cookie with these contents.
    pub(crate) fn mint(&mut self, now: Timestamp, cookie: &StateCookie) -> Bytes {
        self.turn(now);
        let mut bytes = BytesMut::with_capacity(128);
        bytes.put_bytes(0, MAC_LEN);
        cookie.encode(&mut bytes);
        let tag = seal(&self.current, &cookie.carrier(), &bytes[MAC_LEN..])
            .finalize()
            .into_bytes();
        bytes[..MAC_LEN].copy_from_slice(&tag[..MAC_LEN]);
        bytes.freeze()
    }

    /// Verifies a cookie, with the ports and tag of the packet that returned it (§5.1.5 steps 1 to 3).
    pub(crate) fn open(
        &mut self,
        now: Timestamp,
        header: CommonHeader,
        bytes: &Bytes,
    ) -> Result<StateCookie, CookieError> {
        self.turn(now);
        if bytes.len() <= MAC_LEN || bytes.len() > MOST_LEN {
            return Err(CookieError::Forged);
        }
        let (tag, body) = bytes.split_at(MAC_LEN);
        let genuine = [&self.current, &self.previous]
            .into_iter()
            .any(|key| seal(key, &header, body).verify_truncated_left(tag).is_ok());
        let cookie = genuine.then(|| StateCookie::decode(now, header, body)).flatten();
        let cookie = cookie.ok_or(CookieError::Forged)?;
        let age = now.saturating_duration_since(cookie.created);
        if age > cookie.lifetime {
            let by = (age - cookie.lifetime).as_nanos().div_ceil(1000);
            return Err(CookieError::Stale {
                staleness_us: u32::try_from(by).unwrap_or(u32::MAX),
                cookie: Box::new(cookie),
            });
        }
        Ok(cookie)
    }
}

fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    // HMAC pads a short key with zeros to its block of 64 bytes. Padded here, the key cannot have a wrong length.
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    Hmac::new(&block.into())
}

/// The HMAC over a cookie, and the ports and tag of its packet.
fn seal(key: &[u8; 32], header: &CommonHeader, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = keyed(key);
    mac.update(&header.source_port.to_be_bytes());
    mac.update(&header.destination_port.to_be_bytes());
    mac.update(&header.verification_tag.0.to_be_bytes());
    mac.update(body);
    mac
}

fn mac(key: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let mut mac = keyed(key);
    mac.update(data);
    mac.finalize().into_bytes().into()
}

impl StateCookie {
    /// Length in bytes of a cookie for a peer with these addresses, without Tie-Tags.
    pub(crate) fn len_with<'a>(addresses: impl Iterator<Item = &'a IpAddr>) -> usize {
        FIXED_LEN
            + addresses
                .map(|ip| if ip.is_ipv4() { 5 } else { 17 })
                .sum::<usize>()
    }

    /// Length in bytes by which a cookie is longer for a peer with these parameters of authentication.
    pub(crate) fn len_for(authentication: &AuthParameters) -> usize {
        RANDOM_LEN + authentication.cookie_len()
    }

    /// The values negotiated.
    pub(crate) fn negotiated(&self) -> Negotiated<'_> {
        Negotiated {
            peer_tag: self.peer_tag,
            peer_rwnd: self.peer_rwnd,
            peer_initial_tsn: self.peer_initial_tsn,
            outbound_streams: self.outbound_streams,
            inbound_streams: self.inbound_streams,
            capabilities: self.capabilities,
            authentication: self.authentication.as_ref().map(|(random, peer)| KeyExchange {
                local_random: Some(*random),
                peer,
            }),
            protection: self.protection.as_ref().map(|exchange| KeyParameters {
                own: Some(&exchange.own),
                peer: &exchange.peer,
            }),
            adaptation_layer: self.adaptation_layer,
            addresses: &self.addresses,
        }
    }

    /// The address that the INIT ACK went to and that the cookie came back from: the only confirmed one (§5.4). Its UDP port is that of
    /// the packet that returned the cookie.
    pub(crate) fn confirmed(&self, carrier: SocketAddr) -> SocketAddr {
        let mut confirmed = carrier;
        confirmed.set_ip(self.addresses.first().copied().unwrap_or(carrier.ip()));
        confirmed
    }

    /// The common header that the packet which returns the cookie must have.
    fn carrier(&self) -> CommonHeader {
        CommonHeader {
            source_port: self.remote_port,
            destination_port: self.local_port,
            verification_tag: self.local_tag,
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_u32(as_millis(self.created));
        out.put_u32(u32::try_from(self.lifetime.as_millis()).unwrap_or(u32::MAX));
        out.put_u32(self.peer_tag.0);
        out.put_u32(self.local_initial_tsn.0);
        out.put_u32(self.peer_initial_tsn.0);
        out.put_u32(self.peer_rwnd);
        out.put_u16(self.outbound_streams);
        out.put_u16(self.inbound_streams);
        out.put_u32(self.capabilities.to_bits());
        out.put_u8(u8::from(self.tie_tags.is_some()));
        if let Some(ties) = self.tie_tags {
            out.put_u32(ties.local);
            out.put_u32(ties.peer);
        }
        if let Some((random, peer)) = &self.authentication {
            out.put_slice(random);
            peer.encode(out);
        }
        if let Some(exchange) = &self.protection {
            exchange.encode(out);
        }
        if let Some(code_point) = self.adaptation_layer {
            out.put_u32(code_point);
        }
        for address in &self.addresses {
            match address {
                IpAddr::V4(ip) => {
                    out.put_u8(4);
                    out.put_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    out.put_u8(6);
                    out.put_slice(&ip.octets());
                }
            }
        }
    }

    /// The MAC proves that this endpoint made the bytes, so their lengths are right.
    fn decode(now: Timestamp, header: CommonHeader, mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        let capabilities;
        Some(Self {
            created: {
                let age_ms = as_millis(now).wrapping_sub(from.try_get_u32().ok()?);
                let now_ms = Timestamp(now.0 - now.0 % NANOS_PER_MILLI);
                Timestamp(now_ms.0.checked_sub(u64::from(age_ms) * NANOS_PER_MILLI)?)
            },
            lifetime: Duration::from_millis(from.try_get_u32().ok()?.into()),
            local_port: header.destination_port,
            remote_port: header.source_port,
            local_tag: header.verification_tag,
            peer_tag: VerificationTag(from.try_get_u32().ok()?),
            local_initial_tsn: Tsn(from.try_get_u32().ok()?),
            peer_initial_tsn: Tsn(from.try_get_u32().ok()?),
            peer_rwnd: from.try_get_u32().ok()?,
            outbound_streams: from.try_get_u16().ok()?,
            inbound_streams: from.try_get_u16().ok()?,
            capabilities: {
                capabilities = Capabilities::from_bits(from.try_get_u32().ok()?);
                capabilities
            },
            tie_tags: match from.try_get_u8().ok()? {
                0 => None,
                _ => Some(TieTags {
                    local: from.try_get_u32().ok()?,
                    peer: from.try_get_u32().ok()?,
                }),
            },
            authentication: if capabilities.has(Capabilities::AUTHENTICATION) {
                let random = *from.split_first_chunk::<RANDOM_LEN>()?.0;
                from.advance(RANDOM_LEN);
                Some((random, AuthParameters::decode(from)?))
            } else {
                None
            },
            protection: if capabilities.has(Capabilities::PROTECTION) {
                Some(protection::KeyExchange::decode(from)?)
            } else {
                None
            },
            adaptation_layer: if capabilities.has(Capabilities::ADAPTATION_LAYER) {
                Some(from.try_get_u32().ok()?)
            } else {
                None
            },
            addresses: {
                let mut addresses = Vec::new();
                while from.has_remaining() {
                    addresses.push(match from.get_u8() {
                        4 => IpAddr::V4(Ipv4Addr::from(from.try_get_u32().ok()?)),
                        _ => IpAddr::V6(Ipv6Addr::from(from.try_get_u128().ok()?)),
                    });
                }
                addresses
            },
        })
    }
}

const NANOS_PER_MILLI: u64 = 1_000_000;

/// A time in a cookie. It wraps after 49 days, long after the keys of its time are forgotten.
fn as_millis(at: Timestamp) -> u32 {
    (at.0 / NANOS_PER_MILLI) as u32
}

#[cfg(test)]
mod tests {
    use anabranch_wire::parameter::Parameter;

    use super::*;
    use crate::extension::auth::ParameterReader;

    fn cookie() -> StateCookie {
        StateCookie {
            created: Timestamp::from_millis(5000),
            lifetime: Duration::from_secs(60),
            local_port: 7,
            remote_port: 40_000,
            local_tag: VerificationTag(1),
            peer_tag: VerificationTag(2),
            local_initial_tsn: Tsn(3),
            peer_initial_tsn: Tsn(4),
            peer_rwnd: 5,
            outbound_streams: 6,
            inbound_streams: 7,
            tie_tags: Some(TieTags { local: 8, peer: 9 }),
            capabilities: Capabilities::default(),
            authentication: None,
            protection: None,
            adaptation_layer: None,
            addresses: vec!["10.0.0.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        }
    }

    fn mint() -> CookieMint {
        CookieMint::new([7; 32], Duration::from_secs(60))
    }

    #[test]
    fn a_cookie_opens_while_it_lives() {
        let (mut mint, cookie) = (mint(), cookie());
        let bytes = mint.mint(cookie.created, &cookie);
        assert_eq!(
            mint.open(cookie.created + Duration::from_secs(60), cookie.carrier(), &bytes),
            Ok(cookie.clone())
        );
        let late = cookie.created + Duration::from_secs(61);
        let header = cookie.carrier();
        let stale = CookieError::Stale {
            staleness_us: 1_000_000,
            cookie: Box::new(cookie),
        };
        assert_eq!(mint.open(late, header, &bytes), Err(stale));
    }

    #[test]
    fn every_altered_bit_is_noticed() {
        let (mut mint, cookie) = (mint(), cookie());
        let bytes = mint.mint(cookie.created, &cookie);
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.to_vec();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                mint.open(cookie.created, cookie.carrier(), &forged.into()),
                Err(CookieError::Forged),
                "bit {bit}"
            );
        }
        for len in 0..bytes.len() {
            assert_eq!(
                mint.open(cookie.created, cookie.carrier(), &bytes.slice(..len)),
                Err(CookieError::Forged)
            );
        }
    }

    #[test]
    fn another_packet_does_not_open_it() {
        let (mut mint, cookie) = (mint(), cookie());
        let bytes = mint.mint(cookie.created, &cookie);
        let right = cookie.carrier();
        let others = [
            CommonHeader {
                source_port: 1,
                ..right
            },
            CommonHeader {
                destination_port: 1,
                ..right
            },
            CommonHeader {
                verification_tag: VerificationTag(9),
                ..right
            },
        ];
        for header in others {
            assert_eq!(
                mint.open(cookie.created, header, &bytes),
                Err(CookieError::Forged),
                "{header:?}"
            );
        }
    }

    #[test]
    fn its_length_is_known_beforehand() {
        let (mut mint, mut cookie) = (mint(), cookie());
        cookie.tie_tags = None;
        let len = StateCookie::len_with(cookie.addresses.iter());
        assert_eq!(mint.mint(cookie.created, &cookie).len(), len);
        let cookie = with_authentication(cookie, 5, 2);
        let (_, peer) = cookie.authentication.as_ref().expect("it has some");
        let longer = StateCookie::len_for(peer);
        assert_eq!(longer, 32 + 32 + 2 + 5 + 1 + 4);
        assert_eq!(mint.mint(cookie.created, &cookie).len(), len + longer + 4);
    }

    /// The same cookie for a peer that listed this many chunk types and HMAC algorithms.
    fn with_authentication(cookie: StateCookie, chunks: usize, hmacs: usize) -> StateCookie {
        let mut reader = ParameterReader::default();
        reader.take(Parameter::Random(vec![3; 32].into()));
        reader.take(Parameter::ChunkList(vec![0; chunks].into()));
        reader.take(Parameter::RequestedHmacs(vec![1; hmacs]));
        let peer = reader.finish().expect("valid").expect("complete");
        StateCookie {
            capabilities: Capabilities::AUTHENTICATION.with(Capabilities::ADAPTATION_LAYER),
            authentication: Some(([4; 32], peer)),
            adaptation_layer: Some(77),
            ..cookie
        }
    }

    #[test]
    fn it_keeps_the_parameters_of_key_management() {
        use crate::config::ProtectionConfig;
        let (mut mint, mut cookie) = (mint(), cookie());
        cookie.tie_tags = None;
        let len = mint.mint(cookie.created, &cookie).len();
        let own = protection::offer(&ProtectionConfig::default(), 0x0102_0304);
        let longer = protection::cookie_len(&own);
        let exchange = protection::KeyExchange {
            peer: protection::offer(&ProtectionConfig::default(), 5),
            own,
        };
        cookie.capabilities = Capabilities::PROTECTION;
        cookie.protection = Some(exchange);
        let bytes = mint.mint(cookie.created, &cookie);
        assert_eq!(bytes.len(), len + longer);
        assert_eq!(mint.open(cookie.created, cookie.carrier(), &bytes), Ok(cookie));
        let longest = FIXED_LEN + 8 + 4 + protection::MOST_COOKIE_LEN + 17 * (1 + MOST_ADDRESSES);
        assert!(longest <= MOST_LEN, "a cookie has authentication or protection");
    }

    #[test]
    fn the_longest_opens() {
        let (mut mint, mut cookie) = (mint(), cookie());
        cookie.addresses = vec![IpAddr::V6(Ipv6Addr::LOCALHOST); 1 + MOST_ADDRESSES];
        let cookie = with_authentication(cookie, 256, 16);
        let bytes = mint.mint(cookie.created, &cookie);
        assert_eq!(bytes.len(), MOST_LEN);
        assert_eq!(mint.open(cookie.created, cookie.carrier(), &bytes), Ok(cookie));
    }

    #[test]
    fn keys_rotate_and_copies_agree() {
        let mut mint = mint();
        let mut copy = mint.clone();
        let cookie = StateCookie {
            created: Timestamp::from_millis(239_000),
            ..cookie()
        };
        let bytes = mint.mint(cookie.created, &cookie);
        assert!(
            copy.open(Timestamp::from_millis(241_000), cookie.carrier(), &bytes)
                .is_ok(),
            "made with the key before"
        );
        let much_later = Timestamp::from_millis(3_600_000);
        assert_eq!(
            copy.open(much_later, cookie.carrier(), &bytes),
            Err(CookieError::Forged),
            "that key is forgotten"
        );
    }
}
