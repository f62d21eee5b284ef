//! Owns data that waits for a reset of its stream (RFC 6525 §5.2.2, §5.2.4).

use std::collections::BTreeMap;

use super::fragment::Fragment;
use crate::reconfiguration::StreamSelection;
use crate::seq::ExtendedTsn;

/// Deferred reset processing (§5.2.2 E2): data of these streams beyond a TSN waits until the reset.
#[derive(Debug)]
pub(super) struct Deferral {
    /// The Sender's Last Assigned TSN. Data up to it was sent before the reset.
    pub(super) last: ExtendedTsn,
    /// Whether the last TSN before the reset may be higher than `last`: the peer has not answered an SSN/TSN Reset Request yet.
    pub(super) open: bool,
    pub(super) streams: StreamSelection,
    pub(super) held: BTreeMap<ExtendedTsn, Fragment>,
}

impl Deferral {
    /// Whether a notice of abandoned messages up to this TSN cannot be handled: it may be from before or after the reset, and messages
    /// that were not abandoned may wait here. The peer retransmits it.
    pub(super) fn refuses_notice(&self, tsn: ExtendedTsn) -> bool {
        self.open && tsn > self.last
    }

    /// Takes a fragment that has to wait; returns it if it need not.
    pub(super) fn take(&mut self, tsn: ExtendedTsn, fragment: Fragment) -> Option<Fragment> {
        let waits = tsn > self.last
            && match &self.streams {
                StreamSelection::All => true,
                StreamSelection::Listed(streams) => streams.binary_search(&fragment.stream).is_ok(),
            };
        if !waits {
            return Some(fragment);
        }
        self.held.insert(tsn, fragment);
        None
    }
}
