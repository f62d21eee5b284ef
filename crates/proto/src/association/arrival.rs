//! Owns a chunk of user data between its arrival and the receiver, whatever its chunk type.

use anabranch_wire::chunk::{AckPolicy, Data, IData, PathSequence};

use super::Association;
use crate::inbound::Inbound;
use crate::receive::{Fragment, Origin};
use crate::time::Timestamp;

/// The transmission that carried a chunk, and the requested path of its acknowledgement (ECA-SCTP).
type Carried = (PathSequence, AckPolicy);

/// The length in bytes of the packet that is being handled, when it arrived, and on which path.
pub(super) fn packet(association: &Association, now: Timestamp, inbound: &Inbound) -> (usize, Origin) {
    let path = association.paths.last_arrival;
    (inbound.len(), Origin { at: now, path })
}

/// A chunk of user data as it arrived.
pub(super) struct Arrival {
    pub(super) fragment: Fragment,
    /// The peer asks for an acknowledgement at once (I bit, RFC 7053).
    pub(super) immediate: bool,
    pub(super) carried: Option<Carried>,
}

impl Arrival {
    /// From DATA in a packet of `datagram` bytes.
    pub(super) fn of_data(data: Data, carried: Option<Carried>, (datagram, origin): (usize, Origin)) -> Self {
        Self {
            fragment: Fragment {
                tsn: data.tsn,
                stream: data.stream,
                unordered: data.unordered,
                sequence: data.ssn.0.into(),
                fsn: 0,
                ppid: data.ppid,
                beginning: data.beginning,
                ending: data.ending,
                repair: false,
                payload: data.payload,
                datagram,
                origin,
            },
            immediate: data.immediate,
            carried,
        }
    }

    /// From I-DATA in a packet of `datagram` bytes.
    pub(super) fn of_i_data(
        data: IData,
        carried: Option<Carried>,
        (datagram, origin): (usize, Origin),
    ) -> Self {
        Self {
            fragment: Fragment {
                tsn: data.tsn,
                stream: data.stream,
                unordered: data.unordered,
                sequence: data.mid.0,
                fsn: data.fsn.0,
                ppid: data.ppid,
                beginning: data.beginning,
                ending: data.ending,
                repair: data.repair,
                payload: data.payload,
                datagram,
                origin,
            },
            immediate: data.immediate,
            carried,
        }
    }
}
