//! Several paths at once (draft-tuexen-tsvwg-sctp-multipath). All of it is the sender's own choice, but for ECA-SCTP (Kim, Seo
//! and Song), which both ends must offer.

/// How several paths to one peer are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipathConfig {
    /// Whether data goes by several paths at once. Default [`MultipathMode::Off`].
    pub mode: MultipathMode,
    /// Which path new data takes. Default [`PathScheduler::EarliestDeliveryFirst`].
    pub scheduler: PathScheduler,
    /// Which path a retransmission takes. Default [`RetransmissionPolicy::EarliestDelivery`].
    pub retransmission: RetransmissionPolicy,
    /// How the congestion windows of the paths depend on each other. Default [`CoupledControl::Lia`].
    pub congestion: CoupledControl,
    /// Whether no path may have more in flight than its equal share of the send buffer (§5.1). Default false: earliest
    /// delivery first does better; round robin needs it.
    pub split_send_buffer: bool,
    /// Whether no path may have more in flight than its equal share of the peer's window (§5.2). Default false.
    pub split_receive_buffer: bool,
    /// *Chunk rescheduling* (§5.3): if a full send or receive buffer keeps a path from sending although its congestion window
    /// would allow it, the chunk that holds the buffer up is retransmitted on that path. Default false.
    pub reschedule: bool,
    /// *Delayed acknowledgements* (§3.3), of the receiver: data that came by several paths is acknowledged every second packet
    /// though it is out of order, and the acknowledgement tells how many packets it answers, in flags that no standard has
    /// yet. Of no effect with the mode off. Default false: the rule halves the acknowledgements, and a sender with a small
    /// window then waits for `sack.delay`, which cost up to a third of the goodput.
    pub delayed_acks: bool,
    /// Whether missing reports may declare a retransmission lost again. If false, or with the mode off, a chunk that was fast
    /// retransmitted waits for T3-rtx (RFC 9260 §7.2.4 step 5). Default true.
    pub fast_again: bool,
    /// Whether a chunk is lost too if a later packet of its path was acknowledged and 1.25 smoothed round-trip times have
    /// passed since the chunk left: the last packets of a window never have enough packets behind them to be reported
    /// missing. Default false. ([`EcaConfig::time_rule`] does this where ECA-SCTP was negotiated.)
    pub time_rule: bool,
    /// Whether a spurious retransmission raises the reordering tolerance of its path. Of no effect unless fewer than three
    /// missing reports or a time rule declare losses. Default true.
    pub backs_off: bool,
    /// What ECA-SCTP does in particular; of no effect in other modes.
    pub eca: EcaConfig,
}

/// ECA-SCTP: every transmission has a number on its path, and acknowledgements name transmissions. As without ECA-SCTP,
/// [`crate::RecoveryRules::missing_reports`] sets how many later packets declare a loss, and
/// [`MultipathConfig::retransmission`] the path of a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcaConfig {
    /// By which path the peer is asked to acknowledge. Default [`AckRouting::Measured`].
    pub ack_routing: AckRouting,
    /// Whether a transmission is lost too if a later packet of its path was acknowledged and 1.25 smoothed round-trip times
    /// have passed since the transmission left. Default true. (For concurrent multipath transfer without ECA-SCTP:
    /// [`MultipathConfig::time_rule`].)
    pub time_rule: bool,
    /// Whether the sender tells the receiver which transmissions it need not wait for (FORWARD-PSN). Default true. False is for
    /// comparison: the number of gap ack blocks then only grows, and a path ends 65,535 transmissions behind its first loss.
    pub forward_psn: bool,
    /// Whether every acknowledgement gives a sample of the round-trip time, by whatever path it returns. Default true. False is
    /// for comparison: only acknowledgements that return by the path of the data then give samples, and a path whose
    /// acknowledgements return elsewhere has none.
    pub sample_any_ack: bool,
}

/// By which path a receiver of ECA-SCTP is asked to acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AckRouting {
    /// On every path while at least half of the paths lose more than 10 % of their packets, else as [`AckRouting::Ranked`].
    #[default]
    Measured,
    /// Where the last packet with data came from (PS 000).
    LastArrival,
    /// A copy on every path (PS 001).
    EveryPath,
    /// Gaps are reported by a path without a gap, whichever (PS 100).
    Unranked,
    /// Gaps are reported by the path without a gap that has the smallest smoothed round-trip time; the three best have ranks
    /// (PS 101, 110, 111).
    Ranked,
}

/// Whether several paths are used at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultipathMode {
    /// RFC 9260: the primary path, and another when it fails.
    #[default]
    Off,
    /// Concurrent multipath transfer: new data on every active path whose congestion window allows it.
    Cmt,
    /// ECA-SCTP, offered to the peer: concurrent multipath transfer with a number for each transmission. With a peer that does
    /// not offer it too, [`MultipathMode::Cmt`].
    Eca,
}

/// Which path new data takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PathScheduler {
    /// The path that is expected to deliver the packet first. A packet waits for a fast path if, by a slow one, it would arrive
    /// later and block data that the fast path sends after it.
    #[default]
    EarliestDeliveryFirst,
    /// The path with the lowest smoothed round-trip time whose congestion window is not full.
    LowestRttFirst,
    /// Each path whose congestion window is not full in turn, a packet each. For comparison: with unequal paths and small
    /// windows this is slower than the best path alone.
    RoundRobin,
}

/// Which active path a retransmission takes. Unless a variant says otherwise, the sender considers only paths whose congestion
/// window is not full, and the path that lost the chunk only if there is no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RetransmissionPolicy {
    /// The path that the chunk was sent on last.
    SamePath,
    /// The path with the largest slow start threshold.
    LargestSsthresh,
    /// The path with the largest congestion window.
    LargestCwnd,
    /// The path that lost the smallest share of the chunks sent on it.
    LowestLoss,
    /// The path with the smallest smoothed round-trip time.
    SmallestRtt,
    /// The path that is expected to deliver the chunk first. This may be the path that lost it, and a path whose congestion
    /// window is full if waiting for that is shorter.
    #[default]
    EarliestDelivery,
}

/// How congestion windows of paths depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CoupledControl {
    /// They do not: each path is a flow of its own (RFC 9260 §7.2). Fair only where no two paths share a bottleneck.
    Uncoupled,
    /// RFC 6356, the *linked increases algorithm*: paths that share a bottleneck together take no more of it than one flow
    /// would, and all paths together get at least what the best path would get alone.
    #[default]
    Lia,
    /// Resource pooling (CMT/RPv1 of Dreibholz and others): a window grows by its path's share of the summed slow start
    /// thresholds, and a loss reduces it by half of the sum of all windows.
    ResourcePooling,
}

impl MultipathConfig {
    /// One path at a time; the other fields have the defaults that apply once the mode is set.
    pub(crate) const OFF: Self = Self {
        mode: MultipathMode::Off,
        scheduler: PathScheduler::EarliestDeliveryFirst,
        retransmission: RetransmissionPolicy::EarliestDelivery,
        congestion: CoupledControl::Lia,
        split_send_buffer: false,
        split_receive_buffer: false,
        reschedule: false,
        delayed_acks: false,
        fast_again: true,
        time_rule: false,
        backs_off: true,
        eca: EcaConfig {
            ack_routing: AckRouting::Measured,
            time_rule: true,
            forward_psn: true,
            sample_any_ack: true,
        },
    };

    /// Whether data goes by several paths at once.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.mode != MultipathMode::Off
    }
}
