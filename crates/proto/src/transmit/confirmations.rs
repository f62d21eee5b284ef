//! Messages whose acknowledgement the application wants to learn of ([`crate::SendOptions::confirm`]).

use std::collections::BTreeMap;

use crate::event::Acknowledged;
use crate::message::{Fragment, MessageId};

/// A message that is being sent.
#[derive(Debug, Default)]
struct Progress {
    /// Fragments that were sent and that the receiver may not have, or may renege on.
    unacknowledged: u32,
    /// Whether the last fragment was sent.
    ended: bool,
}

/// The messages of which a fragment is outstanding: the send buffer bounds their number.
#[derive(Debug, Default)]
pub(crate) struct Confirmations(BTreeMap<MessageId, Progress>);

impl Confirmations {
    /// A fragment was sent for the first time.
    pub(super) fn on_sent(&mut self, fragment: &Fragment) {
        let progress = self.0.entry(fragment.message).or_default();
        progress.unacknowledged += 1;
        progress.ended |= fragment.ending;
    }

    /// A fragment was acknowledged, and the receiver cannot renege on it. Returns whether the receiver has the whole message.
    pub(super) fn on_acknowledged(&mut self, fragment: &Acknowledged) -> bool {
        let Some(progress) = self.0.get_mut(&fragment.message) else {
            return false;
        };
        progress.unacknowledged -= 1;
        let whole = progress.ended && progress.unacknowledged == 0;
        if whole {
            self.forget(fragment.message);
        }
        whole
    }

    /// The message was abandoned.
    pub(super) fn forget(&mut self, message: MessageId) {
        self.0.remove(&message);
    }

    /// The outstanding fragments were dropped.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
