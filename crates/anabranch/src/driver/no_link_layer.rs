//! The in-process link of a build without the feature `link`: there is none.

use std::net::SocketAddr;

use anabranch_proto::Timestamp;

use crate::datagram::{Datagram, Outgoing};

/// A link that the application asked for: it cannot.
#[derive(Clone, Debug)]
pub(crate) enum LinkPlan {}

#[derive(Debug)]
pub(super) enum LinkLayer {}

impl LinkLayer {
    pub(super) fn open(_plans: Vec<LinkPlan>) -> Option<Self> {
        None
    }

    pub(super) fn enqueue_sent(
        &self,
        _now: Timestamp,
        _local: SocketAddr,
        _outgoing: &mut Outgoing,
        _bytes: &[u8],
    ) -> bool {
        match *self {}
    }

    pub(super) fn enqueue_received(
        &self,
        _now: Timestamp,
        _local: SocketAddr,
        _datagrams: impl Iterator<Item = Datagram>,
    ) -> Vec<Datagram> {
        match *self {}
    }
}
