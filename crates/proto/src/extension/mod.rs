//! What goes beyond RFC 9260, one room each. The base meets them at its seams: when a message is given up
//! (`message/persistence.rs`), what an acknowledgement says (`recovery/ack_report.rs`), what leaves beside data
//! ([`ControlSources`], here), what may leave beside what is in flight (`stream_priority`) and what need not be waited for (`receive/forward.rs`).

pub(crate) mod eca;
pub(crate) mod ecn;
pub(crate) mod partial_reliability;
pub(crate) mod stream_priority;
pub(crate) mod time_sensitive;

use crate::config::Config;
use eca::Cooperation;
use ecn::Ecn;
use partial_reliability::ForwardPoint;
use time_sensitive::SelectiveNotices;

/// What may have to leave beside control chunks and data, made only when its packet is: the seam.
#[derive(Debug)]
pub(crate) struct ControlSources {
    /// FORWARD-TSN.
    pub(crate) forward: ForwardPoint,
    /// Selective forward TSN.
    pub(crate) notices: SelectiveNotices,
    /// Where ECA-SCTP's acknowledgements are asked for.
    pub(crate) cooperation: Cooperation,
    /// ECNE, and whether packets with data are ECN-capable.
    pub(crate) ecn: Ecn,
}

impl ControlSources {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            forward: ForwardPoint::new(config.nr_sack.forward_past_nonrenegable),
            notices: SelectiveNotices::default(),
            cooperation: Cooperation::new(config.multipath.eca.ack_routing),
            ecn: Ecn::default(),
        }
    }
}
