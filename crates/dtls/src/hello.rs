//! ClientHellos that are complete in one datagram, read without state (RFC 6347 §4.2.1, RFC 9147 §5.1).

use std::ops::Range;

/// The length of a record header, and of a handshake header.
const RECORD: usize = 13;
const MESSAGE: usize = 12;
/// The handshake record type, and the message type of a ClientHello.
pub(crate) const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// Extensions (RFC 7685, RFC 8446 §4.2).
const PADDING: u16 = 21;
const COOKIE: u16 = 44;
pub(crate) const KEY_SHARE: u16 = 51;

/// Whether a datagram begins with a ClientHello or a fragment of one, without encryption, in epoch 0 (RFC 6347 §4.1, §4.2.2).
pub(crate) fn is_client_hello(datagram: &[u8]) -> bool {
    matches!(datagram, [HANDSHAKE, _, _, 0, 0, ..]) && datagram.get(RECORD) == Some(&CLIENT_HELLO)
}

/// A complete ClientHello. The ranges are places in its body.
#[derive(Debug)]
pub(crate) struct Hello<'a> {
    body: &'a [u8],
    number: u16,
    /// Where the legacy cookie begins, with its length, and where it ends.
    legacy_cookie: Range<usize>,
    /// Where the compression methods end.
    fixed: usize,
    /// Extensions, with their headers.
    cookie: Option<Range<usize>>,
    key_shares: Option<Range<usize>>,
    padding: Option<Range<usize>>,
}

/// The values of a first ClientHello that may differ in the second, apart from the cookie (RFC 8446 §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Original {
    /// There was a list of key shares without a share: the client wanted to be told the group (RFC 8446 §4.2.8).
    pub(crate) asked_for_group: bool,
    /// The length of the padding, if there was one. Clients pad both ClientHellos to the same length.
    padding: Option<u16>,
}

impl Original {
    pub(crate) const LEN: usize = 3;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let [high, low] = self.padding.unwrap_or(u16::MAX).to_be_bytes();
        [u8::from(self.asked_for_group), high, low]
    }

    pub(crate) fn from_bytes([asked, high, low]: [u8; Self::LEN]) -> Self {
        let padding = u16::from_be_bytes([high, low]);
        Self {
            asked_for_group: asked != 0,
            padding: Some(padding).filter(|len| *len != u16::MAX),
        }
    }
}

impl<'a> Hello<'a> {
    /// Reads a datagram with a ClientHello in one record and nothing else. A ClientHello in several fragments has no place before the peer's
    /// address is proved.
    pub(crate) fn read(datagram: &'a [u8]) -> Option<Self> {
        if !is_client_hello(datagram) || datagram[1] != 254 {
            return None;
        }
        let record = Reader::new(datagram, RECORD - 2).vector(2, true)?;
        let message = datagram.get(record)?;
        let (header, body) = message.split_at_checked(MESSAGE)?;
        let whole = &header[1..4];
        if header[6..9] != [0; 3] || header[9..12] != *whole || number(whole) != body.len() {
            return None;
        }
        let mut reader = Reader::new(body, 2 + 32);
        reader.vector(1, false)?;
        let legacy = reader.at;
        let legacy_cookie = legacy..reader.vector(1, false)?.end;
        let suites = reader.vector(2, false)?;
        let compression = reader.vector(1, false)?;
        if suites.len() < 2 || !suites.len().is_multiple_of(2) || compression.is_empty() {
            return None;
        }
        let fixed = compression.end;
        let mut hello = Self {
            body,
            number: number(&header[4..6]) as u16,
            legacy_cookie,
            fixed,
            cookie: None,
            key_shares: None,
            padding: None,
        };
        if fixed < body.len() {
            for (kind, range) in extensions(body, fixed)? {
                match kind {
                    COOKIE => hello.cookie = Some(range),
                    KEY_SHARE => hello.key_shares = Some(range),
                    PADDING => hello.padding = Some(range),
                    _ => {}
                }
            }
        }
        Some(hello)
    }

    /// The number of this message in the handshake: a first ClientHello has 0, one with a cookie 1.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The cookie, of either version of DTLS. Empty in a first ClientHello.
    pub(crate) fn cookie(&self) -> &'a [u8] {
        let legacy = &self.body[self.legacy_cookie.start + 1..self.legacy_cookie.end];
        match &self.cookie {
            // After the type and the length of the extension comes the length of the cookie.
            Some(range) if legacy.is_empty() => self.body[range.clone()].get(6..).unwrap_or_default(),
            _ => legacy,
        }
    }

    /// The values of this first ClientHello that the second may change.
    pub(crate) fn original(&self) -> Original {
        let list = self.key_shares.as_ref();
        Original {
            asked_for_group: list.is_some_and(|range| self.body[range.clone()].get(4..) == Some(&[0, 0])),
            padding: self.padding.as_ref().map(|range| range.len() as u16 - 4),
        }
    }

    /// The values that a client does not change between its two ClientHellos (RFC 6347 §4.2.1): version, random and session ID, then cipher
    /// suites and compression methods.
    pub(crate) fn unchanged(&self) -> [&'a [u8]; 2] {
        [
            &self.body[..self.legacy_cookie.start],
            &self.body[self.legacy_cookie.end..self.fixed],
        ]
    }

    /// The datagram with the first ClientHello of which this is the second.
    pub(crate) fn first(&self, original: Original) -> Vec<u8> {
        let [before, after] = self.unchanged();
        let mut body = [before, &[0], after].concat();
        if self.fixed < self.body.len() {
            let from = body.len();
            body.extend([0; 2]);
            for (kind, range) in extensions(self.body, self.fixed).into_iter().flatten() {
                match kind {
                    COOKIE => {}
                    KEY_SHARE if original.asked_for_group => {
                        body.extend([0, KEY_SHARE as u8, 0, 2, 0, 0]);
                    }
                    PADDING => pad(&mut body, original.padding),
                    _ => body.extend_from_slice(&self.body[range]),
                }
            }
            if self.padding.is_none() {
                pad(&mut body, original.padding);
            }
            let len = (body.len() - from - 2) as u16;
            body[from..from + 2].copy_from_slice(&len.to_be_bytes());
        }
        let len = &(body.len() as u32).to_be_bytes()[1..];
        let record = ((MESSAGE + body.len()) as u16).to_be_bytes();
        let header = [
            &[HANDSHAKE, 254, 253][..],
            &[0; 8],
            &record,
            &[CLIENT_HELLO],
            len,
            &[0; 5],
            len,
        ];
        [&header.concat()[..], &body].concat()
    }
}

/// Adds an extension with this padding, of zeros (RFC 7685 §3).
fn pad(body: &mut Vec<u8>, padding: Option<u16>) {
    if let Some(len) = padding {
        body.extend(PADDING.to_be_bytes());
        body.extend(len.to_be_bytes());
        body.resize(body.len() + usize::from(len), 0);
    }
}

/// The extensions that begin with their common length at a place and take the rest of the bytes: types, and places with their headers.
pub(crate) fn extensions(bytes: &[u8], at: usize) -> Option<Vec<(u16, Range<usize>)>> {
    let mut reader = Reader::new(bytes, at);
    reader.at = reader.vector(2, true)?.start;
    let mut found = Vec::new();
    while reader.at < bytes.len() {
        let from = reader.at;
        let kind = number(bytes.get(from..from + 2)?) as u16;
        reader.at += 2;
        found.push((kind, from..reader.vector(2, false)?.end));
    }
    Some(found)
}

/// Reads vectors that begin with their length (RFC 8446 §3.4).
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The place of the next vector, whose length takes so many bytes. Whether it must be the last one.
    fn vector(&mut self, length: usize, last: bool) -> Option<Range<usize>> {
        let from = self.at + length;
        let end = from + number(self.bytes.get(self.at..from)?);
        if end > self.bytes.len() || last && end != self.bytes.len() {
            return None;
        }
        self.at = end;
        Some(from..end)
    }
}

/// A number of a few bytes in network byte order.
fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with this legacy cookie and these extensions.
    fn datagram(number: u8, cookie: &[u8], extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = [
            &[254, 253][..],
            &[7; 32],
            &[2, 8, 8],
            &[cookie.len() as u8],
            cookie,
        ]
        .concat();
        body.extend([0, 2, 0xC0, 0x2B, 1, 0]);
        let mut list = Vec::new();
        for (kind, data) in extensions {
            list.extend(kind.to_be_bytes());
            list.extend((data.len() as u16).to_be_bytes());
            list.extend_from_slice(data);
        }
        body.extend((list.len() as u16).to_be_bytes());
        body.extend(list);
        let len = body.len() as u8;
        let header = [
            &[HANDSHAKE, 254, 253, 0, 0, 0, 0, 0, 0, 0, number, 0, 12 + len][..],
            &[1, 0, 0, len, 0, number, 0, 0, 0, 0, 0, len],
        ];
        [&header.concat()[..], &body].concat()
    }

    const OTHER: (u16, &[u8]) = (23, &[]);
    const SHARES: (u16, &[u8]) = (KEY_SHARE, &[0, 5, 0, 29, 0, 1, 9]);
    const EMPTY: (u16, &[u8]) = (KEY_SHARE, &[0, 0]);
    const SHORT: (u16, &[u8]) = (PADDING, &[0; 3]);
    const LONG: (u16, &[u8]) = (PADDING, &[0; 41]);

    #[test]
    fn the_first_hello_is_built_from_the_second() {
        let cookie = [&[0, 32][..], &[5; 32]].concat();
        let cookie = (COOKIE, &cookie[..]);
        for (first, second) in [
            (vec![OTHER, SHARES, OTHER], vec![OTHER, SHARES, cookie, OTHER]),
            (vec![OTHER, EMPTY], vec![cookie, OTHER, SHARES]),
            (vec![OTHER, LONG, SHARES], vec![OTHER, cookie, SHORT, SHARES]),
            (vec![OTHER, SHARES, SHORT], vec![OTHER, SHARES, cookie]),
            (vec![OTHER, SHARES], vec![OTHER, SHARES, cookie, SHORT]),
        ] {
            let first = datagram(0, &[], &first);
            let hello = Hello::read(&first).unwrap();
            assert!(hello.cookie().is_empty());
            let (original, unchanged) = (hello.original(), hello.unchanged());
            let original = Original::from_bytes(original.to_bytes());
            let legacy: Vec<_> = second.iter().filter(|part| **part != cookie).copied().collect();
            for second in [datagram(1, &[], &second), datagram(1, &[5; 32], &legacy)] {
                let hello = Hello::read(&second).unwrap();
                assert_eq!((hello.number(), hello.cookie()), (1, &[5; 32][..]));
                assert_eq!(hello.unchanged(), unchanged);
                assert_eq!(hello.first(original), first);
            }
        }
    }

    /// A datagram that is cut off, or in which a length is wrong, is no complete ClientHello.
    #[test]
    fn incomplete_hellos_are_not_read() {
        let whole = datagram(0, &[], &[OTHER, SHARES]);
        for len in 0..whole.len() {
            assert!(Hello::read(&whole[..len]).is_none(), "{len} bytes");
        }
        assert!(Hello::read(&[&whole[..], &[0]].concat()).is_none());
        // The lengths of record, message and fragment, the fragment's place, and all lengths of the body.
        for place in [12, 16, 21, 24, 59, 62, 64, 67, 70, 74, 78] {
            let mut changed = whole.clone();
            changed[place] += 1;
            assert!(Hello::read(&changed).is_none(), "byte {place}");
        }
    }
}
