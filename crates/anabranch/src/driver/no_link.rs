//! The in-process link of a build without the feature `link`: there is none.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_proto::Timestamp;
use tokio::sync::watch;

use super::Hub;
use crate::socket::{Datagram, Outgoing};

/// A link that the application asked for: it cannot.
#[derive(Clone, Debug)]
pub(crate) enum LinkPlan {}

#[derive(Debug)]
pub(super) enum LinkDoor {}

impl LinkDoor {
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

impl Hub {
    pub(super) async fn wait_for_shutdown_acks(&self) {}

    pub(super) async fn carried(&self) {}

    pub(super) async fn carry(self: Arc<Self>, _stop: watch::Receiver<bool>) {}
}
