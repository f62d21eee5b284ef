//! Chunks, with one file for each type (RFC 9260 §3.2, §3.3).
//!
//! ```text
//! |  Chunk Type   |  Chunk Flags  |         Chunk Length          |
//! |                          Chunk Value                          |
//! ```

mod asconf;
mod authentication;
mod cookie;
mod data;
mod dtls;
mod ecn;
mod error;
mod experimental;
mod forward_tsn;
mod heartbeat;
mod i_data;
mod init;
mod nr_sack;
mod pad;
mod reconfiguration;
mod sack;
mod shutdown;
mod types;

use alloc::vec::Vec;

pub use asconf::{Asconf, AsconfAck};
pub use authentication::{Auth, AuthPlan};
use bytes::Bytes;
pub use cookie::CookieEcho;
pub use data::{Data, DataWriter};
pub use dtls::{Dtls, DtlsHeader};
pub use ecn::{Cwr, Ecne};
pub use error::{Abort, ErrorChunk};
pub use experimental::{
    AckPolicy, CoopSack, CoopSackWriter, EData, EDataWriter, EIData, EIDataWriter, ExperimentalChunkTypes,
    ExtendedForwardTsn, ForwardPsn, MessageNumber, PathReport, PathReportWriter, PathReports, PathSequence,
    PathSequences, SelectiveForwardTsn, kind as experimental_kind,
};
pub use forward_tsn::{ForwardTsn, IForwardTsn, SkippedMessage, SkippedStream};
pub use heartbeat::{Heartbeat, HeartbeatAck};
pub use i_data::{IData, IDataWriter};
pub use init::{Init, InitAck};
pub use nr_sack::{NrSack, NrSackWriter};
pub use pad::Pad;
pub use reconfiguration::{ReConfig, ReConfigContents, ReConfigError};
pub use sack::{GapAckBlock, GapAckBlocks, Sack, SackWriter, TsnList, packets_answered};
pub use shutdown::{Shutdown, ShutdownComplete};
pub use types::ChunkTypes;

use crate::types::Tsn;

/// Bytes of the chunk header: type, flags and length.
pub const CHUNK_HEADER_LEN: usize = 4;

/// A length including padding: chunks, parameters and causes begin at multiples of 4 bytes (§3.2).
#[must_use]
pub const fn padded(len: usize) -> usize {
    (len + 3) & !3
}

/// Chunk types.
pub mod kind {
    /// RFC 9260 §3.3.1.
    pub const DATA: u8 = 0;
    /// RFC 9260 §3.3.2.
    pub const INIT: u8 = 1;
    /// RFC 9260 §3.3.3.
    pub const INIT_ACK: u8 = 2;
    /// RFC 9260 §3.3.4.
    pub const SACK: u8 = 3;
    /// RFC 9260 §3.3.5.
    pub const HEARTBEAT: u8 = 4;
    /// RFC 9260 §3.3.6.
    pub const HEARTBEAT_ACK: u8 = 5;
    /// RFC 9260 §3.3.7.
    pub const ABORT: u8 = 6;
    /// RFC 9260 §3.3.8.
    pub const SHUTDOWN: u8 = 7;
    /// RFC 9260 §3.3.9.
    pub const SHUTDOWN_ACK: u8 = 8;
    /// RFC 9260 §3.3.10.
    pub const ERROR: u8 = 9;
    /// RFC 9260 §3.3.11.
    pub const COOKIE_ECHO: u8 = 10;
    /// RFC 9260 §3.3.12.
    pub const COOKIE_ACK: u8 = 11;
    /// draft-stewart-tsvwg-sctpecn.
    pub const ECNE: u8 = 12;
    /// draft-stewart-tsvwg-sctpecn.
    pub const CWR: u8 = 13;
    /// RFC 9260 §3.3.13.
    pub const SHUTDOWN_COMPLETE: u8 = 14;
    /// RFC 4895 §5.1.
    pub const AUTH: u8 = 15;
    /// draft-natarajan-tsvwg-sctp-nrsack, draft-tuexen-tsvwg-sctp-multipath §4.
    pub const NR_SACK: u8 = 16;
    /// RFC 8260 §2.1.
    pub const I_DATA: u8 = 64;
    /// draft-ietf-tsvwg-sctp-dtls-chunk §4.2.
    pub const DTLS: u8 = 0x41;
    /// RFC 5061 §4.1.2.
    pub const ASCONF_ACK: u8 = 128;
    /// RFC 6525 §3.1.
    pub const RE_CONFIG: u8 = 130;
    /// RFC 4820 §3.
    pub const PAD: u8 = 132;
    /// RFC 3758 §3.2.
    pub const FORWARD_TSN: u8 = 192;
    /// RFC 5061 §4.1.1.
    pub const ASCONF: u8 = 193;
    /// RFC 8260 §2.3.1.
    pub const I_FORWARD_TSN: u8 = 194;
}

/// How a receiver treats a chunk or parameter of an unknown type; encoded in the two highest bits of the type (§3.2, §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownAction {
    /// Stop, and discard the rest of the packet (or of the chunk, for a parameter).
    Discard {
        /// Whether to report the unknown type to the sender.
        report: bool,
    },
    /// Skip the unknown chunk or parameter and continue with the next.
    Skip {
        /// Whether to report the unknown type to the sender.
        report: bool,
    },
}

impl UnknownAction {
    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Discard { report: false },
            1 => Self::Discard { report: true },
            2 => Self::Skip { report: false },
            _ => Self::Skip { report: true },
        }
    }
}

/// How to treat a chunk of this unknown type.
#[must_use]
pub const fn unknown_chunk_action(kind: u8) -> UnknownAction {
    UnknownAction::from_bits(kind >> 6)
}

/// A chunk in its packet. Its length has been checked, its content has not.
#[derive(Clone, Copy, Debug)]
pub struct RawChunk<'a> {
    /// The chunk type; see [`kind`].
    pub kind: u8,
    /// The chunk flags.
    pub flags: u8,
    packet: &'a Bytes,
    /// Range of the chunk in the packet, from its header to its end without padding.
    start: usize,
    end: usize,
}

impl<'a> RawChunk<'a> {
    /// The bytes of `packet` from `start` to `end` must have a chunk header whose length field is right.
    pub(crate) fn new(packet: &'a Bytes, start: usize, end: usize) -> Self {
        Self {
            kind: packet[start],
            flags: packet[start + 1],
            packet,
            start,
            end,
        }
    }

    /// The same chunk, with its type translated for an association whose experimental chunk types have the numbers `types` on the wire.
    #[must_use]
    pub fn under(self, types: ExperimentalChunkTypes) -> Self {
        Self {
            kind: types.here(self.kind),
            ..self
        }
    }

    /// The bytes of the packet from this chunk's header to the end of the packet.
    #[must_use]
    pub fn to_packet_end(&self) -> &'a [u8] {
        &self.packet[self.start..]
    }

    /// The chunk with its header and without padding.
    #[must_use]
    pub fn as_slice(&self) -> &'a [u8] {
        &self.packet[self.start..self.end]
    }

    /// The bytes after the first `skip` bytes, without padding.
    pub(crate) fn after(&self, skip: usize) -> Bytes {
        self.packet.slice((self.start + skip).min(self.end)..self.end)
    }

    /// The chunk value: without header and padding.
    #[must_use]
    pub fn value(&self) -> Bytes {
        self.after(CHUNK_HEADER_LEN)
    }

    /// The chunk with its header and without padding.
    #[must_use]
    pub fn whole(&self) -> Bytes {
        self.after(0)
    }
}

/// A chunk of a type that this crate does not know, with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownChunk {
    whole: Bytes,
}

impl UnknownChunk {
    fn new(raw: &RawChunk<'_>) -> Self {
        Self { whole: raw.whole() }
    }

    /// The chunk type.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.whole[0]
    }

    /// The chunk with its header and without padding.
    #[must_use]
    pub fn whole(&self) -> &Bytes {
        &self.whole
    }
}

impl EncodeChunk for UnknownChunk {
    fn encoded_len(&self) -> usize {
        self.whole.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.whole);
    }
}

/// Why a chunk of a known type cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// The chunk is shorter than its fixed fields, or its counts do not match its length.
    #[error("a chunk of type {kind} has a length that its content does not fit")]
    Length {
        /// The chunk type.
        kind: u8,
    },
    /// A DATA or I-DATA chunk without user data (§3.3.10.9).
    #[error("the chunk of TSN {tsn} has no user data")]
    NoUserData {
        /// The chunk's TSN.
        tsn: Tsn,
    },
    /// A DTLS chunk whose record header has another form than the one that the draft permits.
    #[error("a DTLS chunk has a record header of another form")]
    RecordHeader,
}

/// A chunk that can be encoded.
pub trait EncodeChunk {
    /// Length in bytes with header and without padding.
    fn encoded_len(&self) -> usize;
    /// Appends the encoded chunk, without padding.
    fn encode(&self, out: &mut Vec<u8>);
}

/// A chunk header. The length fits 16 bits, because a chunk is never longer than its packet.
pub(crate) fn header(kind: u8, flags: u8, len: usize) -> [u8; CHUNK_HEADER_LEN] {
    debug_assert!(len <= usize::from(u16::MAX), "a chunk fits a packet");
    let [high, low] = (len as u16).to_be_bytes();
    [kind, flags, high, low]
}

/// Appends a chunk header.
pub(crate) fn put_header(out: &mut Vec<u8>, kind: u8, flags: u8, len: usize) {
    out.extend_from_slice(&header(kind, flags, len));
}

/// Pads with zero bytes, so that the length since `start` is a multiple of 4.
pub(crate) fn pad(out: &mut Vec<u8>, start: usize) {
    out.resize(start + padded(out.len() - start), 0);
}

macro_rules! chunks {
    ($($(#[$doc:meta])* $name:ident($inner:ty) = $kind:path,)* ; $($(#[$unit_doc:meta])* $unit:ident = $unit_kind:path,)*) => {
        /// A chunk of any type.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Chunk {
            $($(#[$doc])* $name($inner),)*
            $($(#[$unit_doc])* $unit,)*
            /// A chunk of a type that this crate does not know.
            Unknown(UnknownChunk),
        }

        impl Chunk {
            /// Decodes a chunk.
            ///
            /// # Errors
            /// The type is known, but the content does not have the form of this type.
            pub fn decode(raw: RawChunk<'_>) -> Result<Self, ChunkError> {
                let kind = raw.kind;
                match kind {
                    $($kind => <$inner>::decode(&raw).map(Self::$name),)*
                    $($unit_kind => Ok(Self::$unit),)*
                    _ => Ok(Self::Unknown(UnknownChunk::new(&raw))),
                }
            }

            /// The chunk type; see [`kind`].
            #[must_use]
            pub fn kind(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $kind,)*
                    $(Self::$unit => $unit_kind,)*
                    Self::Unknown(unknown) => unknown.kind(),
                }
            }
        }

        impl EncodeChunk for Chunk {
            fn encoded_len(&self) -> usize {
                match self {
                    $(Self::$name(chunk) => chunk.encoded_len(),)*
                    $(Self::$unit => CHUNK_HEADER_LEN,)*
                    Self::Unknown(unknown) => unknown.encoded_len(),
                }
            }

            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name(chunk) => chunk.encode(out),)*
                    $(Self::$unit => put_header(out, $unit_kind, 0, CHUNK_HEADER_LEN),)*
                    Self::Unknown(unknown) => unknown.encode(out),
                }
            }
        }
    };
}

chunks! {
    /// User data.
    Data(Data) = kind::DATA,
    /// Requests an association.
    Init(Init) = kind::INIT,
    /// Answers an INIT with a state cookie.
    InitAck(InitAck) = kind::INIT_ACK,
    /// Acknowledges DATA chunks.
    Sack(Sack) = kind::SACK,
    /// Tests a path.
    Heartbeat(Heartbeat) = kind::HEARTBEAT,
    /// Answers a HEARTBEAT.
    HeartbeatAck(HeartbeatAck) = kind::HEARTBEAT_ACK,
    /// Ends the association at once.
    Abort(Abort) = kind::ABORT,
    /// Begins a graceful shutdown.
    Shutdown(Shutdown) = kind::SHUTDOWN,
    /// Reports errors that do not end the association.
    Error(ErrorChunk) = kind::ERROR,
    /// Returns the state cookie.
    CookieEcho(CookieEcho) = kind::COOKIE_ECHO,
    /// Reports packets that arrived marked "congestion experienced".
    Ecne(Ecne) = kind::ECNE,
    /// Answers an ECNE.
    Cwr(Cwr) = kind::CWR,
    /// Completes a graceful shutdown.
    ShutdownComplete(ShutdownComplete) = kind::SHUTDOWN_COMPLETE,
    /// Authenticates the chunks that follow it in the packet.
    Auth(Auth) = kind::AUTH,
    /// Acknowledges DATA chunks, some of them as non-renegable.
    NrSack(NrSack) = kind::NR_SACK,
    /// User data with message interleaving.
    IData(IData) = kind::I_DATA,
    /// The encrypted chunks of a packet.
    Dtls(Dtls) = kind::DTLS,
    /// Acknowledges an ASCONF.
    AsconfAck(AsconfAck) = kind::ASCONF_ACK,
    /// Resets or adds streams.
    ReConfig(ReConfig) = kind::RE_CONFIG,
    /// Fills a packet with padding.
    Pad(Pad) = kind::PAD,
    /// Moves the receiver's cumulative TSN past abandoned chunks.
    ForwardTsn(ForwardTsn) = kind::FORWARD_TSN,
    /// Experimental: tells of one message that the sender will not retransmit.
    SelectiveForwardTsn(SelectiveForwardTsn) = experimental_kind::SELECTIVE_FORWARD_TSN,
    /// Experimental: lists abandoned chunks above chunks that the receiver still waits for.
    ExtendedForwardTsn(ExtendedForwardTsn) = experimental_kind::EXTENDED_FORWARD_TSN,
    /// Experimental: user data with the number of its transmission.
    EData(EData) = experimental_kind::E_DATA,
    /// Experimental: user data with message interleaving and the number of its transmission.
    EIData(EIData) = experimental_kind::E_I_DATA,
    /// Experimental: acknowledges transmissions on every path.
    CoopSack(CoopSack) = experimental_kind::COOP_SACK,
    /// Experimental: tells the receiver which transmissions not to wait for.
    ForwardPsn(ForwardPsn) = experimental_kind::FORWARD_PSN,
    /// Adds, deletes or prefers addresses.
    Asconf(Asconf) = kind::ASCONF,
    /// FORWARD-TSN with message interleaving.
    IForwardTsn(IForwardTsn) = kind::I_FORWARD_TSN,
    ;
    /// Acknowledges a SHUTDOWN.
    ShutdownAck = kind::SHUTDOWN_ACK,
    /// Acknowledges a COOKIE ECHO.
    CookieAck = kind::COOKIE_ACK,
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn decode(bytes: &[u8]) -> Result<Chunk, ChunkError> {
        let packet = Bytes::copy_from_slice(bytes);
        Chunk::decode(RawChunk::new(&packet, 0, packet.len()))
    }

    /// Decodes the chunk in `bytes`, checks that it is `expected` and that it encodes to the same bytes, and checks that the decoder does
    /// not panic for any shorter chunk value.
    pub(crate) fn check(bytes: &[u8], expected: &Chunk) {
        assert_eq!(decode(bytes).as_ref(), Ok(expected));
        let mut written = Vec::new();
        expected.encode(&mut written);
        assert_eq!(written, bytes);
        assert_eq!(expected.encoded_len(), bytes.len());
        assert_eq!(expected.kind(), bytes[0]);
        for len in CHUNK_HEADER_LEN..bytes.len() {
            let mut short = bytes[..len].to_vec();
            short[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            let _ = decode(&short);
        }
    }

    /// Checks that the chunk in `bytes` cannot be decoded, whatever its length field says.
    pub(crate) fn check_refused(bytes: &[u8], error: ChunkError) {
        assert_eq!(decode(bytes), Err(error));
    }

    #[test]
    fn chunks_without_content() {
        check(&[8, 0, 0, 4], &Chunk::ShutdownAck);
        check(&[11, 0, 0, 4], &Chunk::CookieAck);
        let unknown = Bytes::from_static(&[0x3F, 5, 0, 7, 1, 2, 3]);
        check(
            &unknown,
            &Chunk::Unknown(UnknownChunk {
                whole: unknown.clone(),
            }),
        );
    }

    #[test]
    fn the_highest_bits_tell_what_to_do_with_unknown_chunks() {
        assert_eq!(
            unknown_chunk_action(0x3F),
            UnknownAction::Discard { report: false }
        );
        assert_eq!(
            unknown_chunk_action(0x7F),
            UnknownAction::Discard { report: true }
        );
        assert_eq!(unknown_chunk_action(0xBF), UnknownAction::Skip { report: false });
        assert_eq!(unknown_chunk_action(0xFF), UnknownAction::Skip { report: true });
    }
}
