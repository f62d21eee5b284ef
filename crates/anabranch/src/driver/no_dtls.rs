//! DTLS in a build without the feature `dtls`: there is none.

use std::sync::Arc;

use anabranch_proto::{AssociationId, IcmpMessage};
use bytes::Bytes;
use tokio::sync::watch;

use super::dtls_layer::Origin;
use super::hub::{Hub, Shared};
use super::state::State;
use crate::datagram::{Datagram, Outgoing};

#[allow(clippy::unused_self, reason = "the signatures are those with the feature")]
impl Hub {
    pub(super) fn seal(&self, _batch: &mut Outgoing, _buffer: &mut Vec<u8>, _to: Origin) {}

    pub(super) fn seal_for(&self, _association: &Shared, _batch: &mut Outgoing, _buffer: &mut Vec<u8>) {}

    pub(super) fn unseal<P>(
        &self,
        datagrams: impl Iterator<Item = Datagram<P>>,
        keep: impl Fn(P) -> Bytes,
    ) -> impl Iterator<Item = (Datagram, Origin)> {
        datagrams.map(move |datagram| (datagram.keep(&keep), Origin::default()))
    }

    pub(super) fn doubt_dtls(&self, _association: &Shared, _state: &State) {}

    pub(super) fn use_dtls(&self, _association: &Shared) {}

    pub(super) fn leave_dtls(&self, _association: &Shared) {}

    pub(super) fn dtls_icmp(&self, _message: &IcmpMessage) {}

    pub(super) fn close_dtls(&self) {}

    pub(super) fn quoted_users(&self, _message: &IcmpMessage) -> Vec<AssociationId> {
        Vec::new()
    }

    pub(super) async fn keep_dtls(self: Arc<Self>, _stop: watch::Receiver<bool>) {}
}
