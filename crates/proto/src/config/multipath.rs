//! Several paths at once (draft-tuexen-tsvwg-sctp-multipath). All of it is the sender's own choice.

/// How several paths to one peer are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipathConfig {
    /// Whether data goes by several paths at once. Default [`MultipathMode::Off`].
    pub mode: MultipathMode,
    /// Which path new data takes. Default [`PathScheduler::EarliestDeliveryFirst`].
    pub scheduler: PathScheduler,
    /// Which path a repeat takes. Default [`RetransmissionPolicy::EarliestDelivery`].
    pub retransmission: RetransmissionPolicy,
    /// How the congestion windows of the paths depend on each other. Default [`CoupledControl::Lia`].
    pub congestion: CoupledControl,
    /// Whether no path may have more in flight than its equal share of the send buffer (§5.1). Default false: earliest
    /// delivery first does better; round robin needs it.
    pub split_send_buffer: bool,
    /// Whether no path may have more in flight than its equal share of the peer's window (§5.2). Default false.
    pub split_receive_buffer: bool,
    /// *Chunk rescheduling* (§5.3): where a full window keeps a path with room from sending, the chunk that holds the window
    /// back is sent again on that path. Default false.
    pub reschedule: bool,
    /// *Delayed acknowledgements* (§3.3), of the receiver: data that came by several paths is acknowledged every second packet
    /// though it is out of order, and the acknowledgement says how many packets it answers, in flags that no standard has
    /// yet. Only if the mode is not off. Default false: it halves the acknowledgements, and where a small window waits for
    /// one it waits for `sack.delay`, which cost up to a third of the goodput.
    pub delayed_acks: bool,
}

/// Whether several paths are used at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultipathMode {
    /// RFC 9260: the primary path, and another when it fails.
    #[default]
    Off,
    /// Concurrent multipath transfer: new data on every active path with room.
    Cmt,
}

/// Which path new data takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PathScheduler {
    /// Where it is delivered first, as far as is known; a packet rather waits for a fast path than it holds back what the fast
    /// path sends after it.
    #[default]
    EarliestDeliveryFirst,
    /// The path with the lowest smoothed round-trip time that has room.
    LowestRttFirst,
    /// The paths with room in turn, a packet each. For comparison: where paths are unequal and windows small it is slower
    /// than the best path alone.
    RoundRobin,
}

/// Which active path a repeat takes. Unless said otherwise it is one of those with room, and another than the one that lost it if
/// there is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RetransmissionPolicy {
    /// The path that it was sent on last.
    SamePath,
    /// The path with the largest slow start threshold.
    LargestSsthresh,
    /// The path with the largest congestion window.
    LargestCwnd,
    /// The path that lost the smallest share of what it was given.
    LowestLoss,
    /// The path with the smallest smoothed round-trip time.
    SmallestRtt,
    /// Where it is delivered first, as far as is known: the one that lost it included, and one without room if waiting for it
    /// is shorter.
    #[default]
    EarliestDelivery,
}

/// How congestion windows of paths depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CoupledControl {
    /// Not at all: each path is a flow of its own (RFC 9260 §7.2). Fair only where no two paths share a bottleneck.
    Uncoupled,
    /// RFC 6356, the *linked increases algorithm*: all paths together take no more of a bottleneck that they share than one
    /// flow would, and at least as much in all as the best path would alone.
    #[default]
    Lia,
    /// Resource pooling (CMT/RPv1 of Dreibholz and others): growth by shares of the summed slow start thresholds, and half of
    /// all windows for a loss.
    ResourcePooling,
}

impl MultipathConfig {
    /// One path at a time; the rest as it is where there are several.
    pub(super) const OFF: Self = Self {
        mode: MultipathMode::Off,
        scheduler: PathScheduler::EarliestDeliveryFirst,
        retransmission: RetransmissionPolicy::EarliestDelivery,
        congestion: CoupledControl::Lia,
        split_send_buffer: false,
        split_receive_buffer: false,
        reschedule: false,
        delayed_acks: false,
    };

    /// Whether data goes by several paths at once.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.mode != MultipathMode::Off
    }
}
