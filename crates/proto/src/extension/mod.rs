//! The extensions beyond RFC 9260, one module each. The rest of the core calls them at these places: when a message is abandoned
//! (`message/persistence.rs`), for the content of acknowledgements (`recovery/ack_report.rs`), for chunks sent in addition to data
//! ([`ControlSources`], here), for a limit on less urgent data in flight (`stream_priority`), for copies of
//! urgent chunks (`transmit/source/copies.rs`), for data that the receiver need not wait
//! for (`receive/forward.rs`), and for changes of the streams (`association/reconfiguration.rs`).

pub(crate) mod auth;
pub(crate) mod deadline;
pub(crate) mod dynamic_addresses;
pub(crate) mod early_copies;
pub(crate) mod eca;
pub(crate) mod ecn;
pub(crate) mod extended_forward;
pub(crate) mod partial_reliability;
pub(crate) mod protection;
pub(crate) mod reconfiguration;
pub(crate) mod repair;
pub(crate) mod stream_priority;
pub(crate) mod time_sensitive;

use crate::config::Config;
use eca::Cooperation;
use ecn::Ecn;
use extended_forward::ExtendedForward;
use partial_reliability::ForwardPoint;
use time_sensitive::SelectiveNotices;

/// The extensions that may add chunks to a packet. They build these chunks only when the packet is built.
#[derive(Debug)]
pub(crate) struct ControlSources {
    /// FORWARD-TSN.
    pub(crate) forward: ForwardPoint,
    /// Extended FORWARD-TSN.
    pub(crate) extended: ExtendedForward,
    /// Selective forward TSN.
    pub(crate) notices: SelectiveNotices,
    /// The paths for the peer's acknowledgements in ECA-SCTP.
    pub(crate) cooperation: Cooperation,
    /// ECNE, and whether packets with data are ECN-capable.
    pub(crate) ecn: Ecn,
}

impl ControlSources {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            forward: ForwardPoint::new(config.nr_sack.forward_past_nonrenegable),
            extended: ExtendedForward::default(),
            notices: SelectiveNotices::default(),
            cooperation: Cooperation::new(config.multipath.eca.ack_routing),
            ecn: Ecn::default(),
        }
    }
}
