//! DTLS in a build without the feature `dtls`: there is none.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_proto::{AssociationId, IcmpMessage};
use bytes::Bytes;
use tokio::sync::watch;

use super::Hub;
use crate::socket::{Datagram, Outgoing};

pub(super) type DtlsDoor = Infallible;

#[allow(clippy::unused_self, reason = "the signatures are those with the feature")]
impl Hub {
    pub(super) fn seal(&self, _batch: &mut Outgoing, _buffer: &mut Vec<u8>) {}

    pub(super) fn unseal<P>(
        &self,
        datagrams: impl Iterator<Item = Datagram<P>>,
        keep: impl Fn(P) -> Bytes,
    ) -> impl Iterator<Item = Datagram> {
        datagrams.map(move |datagram| datagram.keep(&keep))
    }

    pub(super) fn use_dtls(&self, _remote: SocketAddr, _id: AssociationId) {}

    pub(super) fn leave_dtls(&self, _remote: SocketAddr, _id: AssociationId) {}

    pub(super) fn dtls_icmp(&self, _message: &IcmpMessage) {}

    pub(super) async fn keep_dtls(self: Arc<Self>, _stop: watch::Receiver<bool>) {}
}
