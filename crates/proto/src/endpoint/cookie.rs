//! The state cookie (RFC 9260 §5.1.3): everything an association needs, in the peer's keeping until it has shown that
//! it is where it says. Covered whole by an HMAC under a key that changes and is then forgotten.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_wire::{Tsn, VerificationTag};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::association::Capabilities;
use crate::time::Timestamp;

const MAC_LEN: usize = 32;

/// What a cookie holds.
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
    /// Names the association that was there when the INIT came, if there was one (§5.2.2).
    pub(crate) tie_tags: Option<TieTags>,
    pub(crate) capabilities: Capabilities,
    /// Where the INIT came from, and what else it listed.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Two nonces that name an association in cookies, in place of its tags, which nobody else may see (§5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TieTags {
    pub(crate) local: u32,
    pub(crate) peer: u32,
}

/// Why a cookie does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CookieError {
    /// Not ours, or altered: silence (§5.1.5 steps 1 and 2).
    Forged,
    /// Ours, and too old by this much (§5.1.5 step 3).
    Stale {
        /// How long ago it expired.
        by: Duration,
        /// What it says all the same: it counts if both its tags are those of an association (§5.2.4).
        cookie: Box<StateCookie>,
    },
}

/// Makes and checks cookies. A copy of it makes the same ones: the key of each period follows from the one before by
/// a one-way function, and old ones are forgotten.
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
    /// Keys last twice the longest life a cookie can be given, so that the last key checks what it made.
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

    /// `Valid.Cookie.Life`.
    pub(crate) fn lifetime(&self) -> Duration {
        self.lifetime
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

    /// Makes a cookie of what it is to hold.
    pub(crate) fn mint(&mut self, now: Timestamp, cookie: &StateCookie) -> Bytes {
        self.turn(now);
        let mut bytes = BytesMut::with_capacity(128);
        bytes.put_bytes(0, MAC_LEN);
        cookie.encode(&mut bytes);
        let tag = mac(&self.current, &bytes[MAC_LEN..]);
        bytes[..MAC_LEN].copy_from_slice(&tag);
        bytes.freeze()
    }

    /// Checks a cookie (§5.1.5 steps 1 to 3).
    pub(crate) fn open(&mut self, now: Timestamp, bytes: &Bytes) -> Result<StateCookie, CookieError> {
        self.turn(now);
        if bytes.len() <= MAC_LEN {
            return Err(CookieError::Forged);
        }
        let (tag, body) = bytes.split_at(MAC_LEN);
        let genuine = [&self.current, &self.previous].into_iter().any(|key| {
            let mut check = keyed(key);
            check.update(body);
            check.verify_slice(tag).is_ok()
        });
        let cookie = if genuine { StateCookie::decode(body) } else { None }.ok_or(CookieError::Forged)?;
        let age = now.saturating_duration_since(cookie.created);
        if age > cookie.lifetime {
            let by = age - cookie.lifetime;
            return Err(CookieError::Stale {
                by,
                cookie: Box::new(cookie),
            });
        }
        Ok(cookie)
    }
}

fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    // HMAC fills a short key up with zeros to its block of 64 bytes; done here, no length can be wrong.
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    Hmac::new(&block.into())
}

fn mac(key: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let mut mac = keyed(key);
    mac.update(data);
    mac.finalize().into_bytes().into()
}

impl StateCookie {
    fn encode(&self, out: &mut BytesMut) {
        out.put_u64(self.created.0);
        out.put_u64(u64::try_from(self.lifetime.as_nanos()).unwrap_or(u64::MAX));
        out.put_u16(self.local_port);
        out.put_u16(self.remote_port);
        out.put_u32(self.local_tag.0);
        out.put_u32(self.peer_tag.0);
        out.put_u32(self.local_initial_tsn.0);
        out.put_u32(self.peer_initial_tsn.0);
        out.put_u32(self.peer_rwnd);
        out.put_u16(self.outbound_streams);
        out.put_u16(self.inbound_streams);
        let ties = self.tie_tags.unwrap_or(TieTags { local: 0, peer: 0 });
        out.put_u32(ties.local);
        out.put_u32(ties.peer);
        out.put_u32(self.capabilities.to_bits());
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

    /// The bytes are our own, so their length was right when they left; a forged MAC is the only other way in.
    fn decode(mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        Some(Self {
            created: Timestamp(from.try_get_u64().ok()?),
            lifetime: Duration::from_nanos(from.try_get_u64().ok()?),
            local_port: from.try_get_u16().ok()?,
            remote_port: from.try_get_u16().ok()?,
            local_tag: VerificationTag(from.try_get_u32().ok()?),
            peer_tag: VerificationTag(from.try_get_u32().ok()?),
            local_initial_tsn: Tsn(from.try_get_u32().ok()?),
            peer_initial_tsn: Tsn(from.try_get_u32().ok()?),
            peer_rwnd: from.try_get_u32().ok()?,
            outbound_streams: from.try_get_u16().ok()?,
            inbound_streams: from.try_get_u16().ok()?,
            tie_tags: {
                let ties = TieTags {
                    local: from.try_get_u32().ok()?,
                    peer: from.try_get_u32().ok()?,
                };
                (ties != TieTags { local: 0, peer: 0 }).then_some(ties)
            },
            capabilities: Capabilities::from_bits(from.try_get_u32().ok()?),
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

#[cfg(test)]
mod tests {
    use super::*;

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
            mint.open(cookie.created + Duration::from_secs(60), &bytes),
            Ok(cookie.clone())
        );
        let late = cookie.created + Duration::from_secs(61);
        let stale = CookieError::Stale {
            by: Duration::from_secs(1),
            cookie: Box::new(cookie),
        };
        assert_eq!(mint.open(late, &bytes), Err(stale));
    }

    #[test]
    fn every_altered_bit_is_noticed() {
        let (mut mint, cookie) = (mint(), cookie());
        let bytes = mint.mint(cookie.created, &cookie);
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.to_vec();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                mint.open(cookie.created, &forged.into()),
                Err(CookieError::Forged),
                "bit {bit}"
            );
        }
        for len in 0..bytes.len() {
            assert_eq!(
                mint.open(cookie.created, &bytes.slice(..len)),
                Err(CookieError::Forged)
            );
        }
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
            copy.open(Timestamp::from_millis(241_000), &bytes).is_ok(),
            "made with the key before"
        );
        let much_later = Timestamp::from_millis(3_600_000);
        assert_eq!(
            copy.open(much_later, &bytes),
            Err(CookieError::Forged),
            "that key is forgotten"
        );
    }
}
