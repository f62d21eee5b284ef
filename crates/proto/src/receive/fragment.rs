//! Owns the user data of one chunk as it arrives, and the results that handling it can have.

use anabranch_wire::{Ppid, StreamId, Tsn};
use bytes::Bytes;

use crate::path_id::PathId;
use crate::time::Timestamp;

/// The packet in which a fragment arrived: when, and on which path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) at: Timestamp,
    pub(crate) path: PathId,
}

impl Default for Origin {
    fn default() -> Self {
        Self {
            at: Timestamp::ZERO,
            path: PathId(0),
        }
    }
}

/// The user data of a DATA, I-DATA, E-DATA or E-I-DATA chunk.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) tsn: Tsn,
    pub(crate) stream: StreamId,
    pub(crate) unordered: bool,
    /// The SSN; the MID of I-DATA.
    pub(crate) sequence: u32,
    /// The FSN of I-DATA; 0 of DATA.
    pub(crate) fsn: u32,
    pub(crate) ppid: Ppid,
    pub(crate) beginning: bool,
    pub(crate) ending: bool,
    /// The bit R of I-DATA.
    pub(crate) repair: bool,
    pub(crate) payload: Bytes,
    /// Length in bytes of the datagram that the payload is a slice of. The whole datagram stays in memory as long as the payload. If the
    /// payload was copied, its own length.
    pub(crate) datagram: usize,
    pub(crate) origin: Origin,
}

/// The result of handling a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Duplicate,
    /// Dropped, and not recorded: the receive window is full.
    WindowFull,
    /// Dropped, and not recorded: no gap ack block could report it.
    OutOfRange,
    /// Recorded and dropped: its stream has delivered later messages.
    Late,
    /// Recorded and dropped: the peer is told that there is no such stream (§6.5).
    InvalidStream,
    /// It contradicts earlier fragments: the association ends.
    Violation(&'static str),
}
