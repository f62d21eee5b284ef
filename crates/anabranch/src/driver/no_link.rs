//! The task of the in-process link in a build without the feature `link`: it has nothing to do.

use std::sync::Arc;

use tokio::sync::watch;

use super::hub::Hub;

#[allow(clippy::unused_self, reason = "the signatures are those with the feature")]
impl Hub {
    pub(super) fn lost_last(&self) -> bool {
        false
    }

    pub(super) async fn wait_for_shutdown_acks(&self) {}

    pub(super) async fn carried(&self) {}

    pub(super) async fn carry(self: Arc<Self>, _stop: watch::Receiver<bool>) {}
}
