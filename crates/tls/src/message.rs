//! The messages of key management (draft-porfiri-tsvwg-sctp-dtls-handshake §4).
//!
//! ```text
//! |T|   Epoch     |                Payload                        |
//! ```

use bytes::{BufMut, Bytes, BytesMut};

/// The type of the control message Protection Established (§4.1.1).
const ESTABLISHED: u8 = 1;

/// The bit of control messages.
const CONTROL: u8 = 0x80;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// TLS records.
    Records(Bytes),
    /// Protection Established: the sender protects its packets with the keys of the epoch.
    Established,
}

impl Message {
    /// The message for keys of this epoch.
    pub(crate) fn encode(&self, epoch: u64) -> Bytes {
        let epoch = epoch as u8 & !CONTROL;
        match self {
            Self::Records(records) => {
                let mut bytes = BytesMut::with_capacity(1 + records.len());
                bytes.put_u8(epoch);
                bytes.put_slice(records);
                bytes.freeze()
            }
            Self::Established => Bytes::copy_from_slice(&[CONTROL | epoch, ESTABLISHED]),
        }
    }

    /// The 7 lowest bits of the epoch, and the message; `None` if it is malformed or of an unknown type.
    pub(crate) fn decode(bytes: &Bytes) -> Option<(u8, Self)> {
        let first = *bytes.first()?;
        let epoch = first & !CONTROL;
        let payload = bytes.slice(1..);
        let message = match first & CONTROL {
            0 if !payload.is_empty() => Self::Records(payload),
            0 => return None,
            _ if payload[..] == [ESTABLISHED] => Self::Established,
            _ => return None,
        };
        Some((epoch, message))
    }
}

/// Whether records begin with a ClientHello (RFC 8446 §4, §5.1).
pub(crate) fn is_client_hello(records: &[u8]) -> bool {
    matches!(records, [22, _, _, _, _, 1, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refusals() {
        for (epoch, low) in [(3, 3), (127, 127), (128, 0), (131, 3)] {
            for message in [
                Message::Established,
                Message::Records(Bytes::from_static(b"\x16\x03")),
            ] {
                assert_eq!(Message::decode(&message.encode(epoch)), Some((low, message)));
            }
        }
        for bad in [&[][..], &[3], &[0x83], &[0x83, 2], &[0x83, 1, 0]] {
            assert_eq!(Message::decode(&Bytes::copy_from_slice(bad)), None, "{bad:?}");
        }
        assert!(is_client_hello(&[22, 3, 1, 0, 9, 1, 0]) && !is_client_hello(&[22, 3, 3, 0, 9, 2]));
    }
}
