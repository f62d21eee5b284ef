//! Owns the ASCONF that the peer has not acknowledged yet (RFC 5061 §5.1 A3, B4).

use std::net::IpAddr;

use anabranch_wire::chunk::Asconf;
use anabranch_wire::parameter::Parameters;
use bytes::Bytes;

use super::change::Change;
use crate::path::PathId;
use crate::time::Timestamp;

/// How many times a request to add an address leaves from that address before it leaves from one that works: nothing is added then, and the
/// next request need not wait longer. RFC 5061 §5.1 permits one outstanding ASCONF.
pub(super) const MOST_FROM_NEW: u32 = 2;

/// The ASCONF that is not acknowledged yet.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) asconf: Asconf,
    pub(super) changes: Vec<Change>,
    /// A wildcard address stands for the source address of the packet: the source of the first transmission.
    pub(super) wildcard_source: Option<IpAddr>,
    /// Whether it renews the pair of an address that the peer knows.
    pub(super) renews: bool,
    /// The source of the requests, if they were withdrawn.
    pub(super) withdrawn: Option<IpAddr>,
    /// A transmission left from an address that the request deletes, because this endpoint had no other one then.
    pub(super) from_deleted: bool,
    /// The sources of later transmissions, if they differ: the peer has processed one of the transmissions, and which one is unknown.
    pub(super) other_sources: Vec<IpAddr>,
    pub(super) sent_at: Timestamp,
    pub(super) path: PathId,
    /// When T4-rto expires.
    pub(super) timer: Timestamp,
    pub(super) retransmissions: u32,
    /// The last transmission left from an address that the peer does not know, although others are usable: if no answer comes, nothing is
    /// wrong with those.
    pub(super) from_new: bool,
}

impl Outstanding {
    /// Requests from this source have a meaning at no other one: none are left. Returns those that there were.
    pub(super) fn withdraw(&mut self, source: IpAddr) -> Vec<Change> {
        let lookup = self.asconf.parameters.iter().next().and_then(Result::ok);
        let lookup = lookup.map_or(Bytes::new(), |lookup| lookup.whole());
        self.asconf.parameters = Parameters::from_bytes(lookup);
        self.renews = false;
        self.withdrawn = Some(source);
        core::mem::take(&mut self.changes)
    }

    /// Whether it left so often from a new address that it leaves from one that works.
    pub(super) fn gives_up(&self, usable: &[IpAddr]) -> bool {
        self.retransmissions >= MOST_FROM_NEW && !usable.is_empty()
    }
}
