//! Settings for several paths at once: concurrent multipath transfer (draft-tuexen-tsvwg-sctp-multipath) and ECA-SCTP (Kim, Seo and
//! Song). All of them concern the sender alone, except that both endpoints must offer ECA-SCTP, and that `delayed_acks` concerns the
//! receiver.

use super::settings::settings;

settings! {
    /// How several paths to one peer are used. Section numbers are those of draft-tuexen-tsvwg-sctp-multipath.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MultipathConfig {
        /// Whether data takes several paths at once. Default [`MultipathMode::Off`].
        pub mode: MultipathMode,
        /// How the congestion windows of the paths depend on each other. Default [`CoupledControl::Grouped`].
        pub congestion: CoupledControl,
    } experiments {
        /// Which path new data takes. Default [`PathScheduler::EarliestDeliveryFirst`].
        pub scheduler: PathScheduler,
        /// Which path a retransmission takes. Default [`RetransmissionPolicy::EarliestDelivery`].
        pub retransmission: RetransmissionPolicy,
        /// Whether each path may have no more in flight than its equal share of the send buffer (§5.1). Default false. Round robin needs it;
        /// earliest delivery first is faster without it.
        pub split_send_buffer: bool,
        /// Whether each path may have no more in flight than its equal share of the peer's receive window (§5.2). Default false.
        pub split_receive_buffer: bool,
        /// *Chunk rescheduling* (§5.3): if a full send or receive buffer keeps a path from sending although its congestion window allows it,
        /// the chunk that blocks the buffer is retransmitted on that path. Default false.
        pub reschedule: bool,
        /// *Delayed acknowledgements* (§3.3), of the receiver: data that arrives out of order because it took several paths is acknowledged
        /// every second packet only. The acknowledgement tells how many packets it answers, in chunk flags that no standard assigns. No
        /// effect if the mode is off. Default false: the rule halves the number of acknowledgements, and a sender with a small window then
        /// waits for `sack.delay`, which cost up to a third of the goodput.
        pub delayed_acks: bool,
        /// Whether missing reports may declare a retransmission lost again. If false, or if the mode is off, a chunk that was fast
        /// retransmitted waits for T3-rtx (RFC 9260 §7.2.4 step 5). Default true.
        pub fast_again: bool,
        /// The *time rule*: a chunk is also declared lost if a later packet of its path was acknowledged and 1.25 smoothed round-trip
        /// times have passed since the chunk left. It detects losses among the last packets of a window, which too few packets follow to be
        /// reported missing often enough. Default false. ([`EcaConfig::time_rule`] is the same for ECA-SCTP.)
        pub time_rule: bool,
        /// Whether a spurious retransmission raises the reordering tolerance of its path. It has an effect only if fewer than three missing
        /// reports, or a time rule, declare losses. Default true.
        pub backs_off: bool,
        /// Settings of ECA-SCTP; no effect in other modes.
        pub eca: EcaConfig,
    }
}

settings! {
    /// ECA-SCTP: every transmission has a path sequence number (PSN), and acknowledgements name transmissions. As without ECA-SCTP,
    /// `RecoveryRules::missing_reports` (feature `experiments`) sets how many later packets declare a loss, and
    /// [`MultipathConfig::retransmission`] the path of a retransmission.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EcaConfig {
    } experiments {
        /// The path on which the peer is asked to acknowledge. Default [`AckRouting::Measured`].
        pub ack_routing: AckRouting,
        /// Whether a transmission is also declared lost if a later packet of its path was acknowledged and 1.25 smoothed round-trip times
        /// have passed since the transmission left. Default true. (For concurrent multipath transfer without ECA-SCTP:
        /// [`MultipathConfig::time_rule`].)
        pub time_rule: bool,
        /// Whether the sender sends FORWARD-PSN, which tells the receiver the transmissions that it need not wait for. Default true. False is
        /// for comparison: the number of gap ack blocks then only grows, and a path stops 65,535 transmissions after its first loss.
        pub forward_psn: bool,
        /// Whether every acknowledgement gives an RTT sample, whatever path it returns on. Default true. False is for comparison: only
        /// acknowledgements that return on the path of the data then give samples, and a path whose acknowledgements return elsewhere gets
        /// none.
        pub sample_any_ack: bool,
    }
}

/// The path on which the receiver is asked to acknowledge (the PS bits of E-DATA).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AckRouting {
    /// While at least half of the paths lose more than 10 % of their packets, as [`AckRouting::EveryPath`]. Otherwise as
    /// [`AckRouting::Ranked`], but the path with the smallest smoothed round-trip time reports its own gaps ([`AckRouting::LastArrival`]).
    /// Paths with a window of at most 16 full packets ask for an acknowledgement of each packet (the I bit, RFC 7053).
    #[default]
    Measured,
    /// The path on which the last packet with data arrived (PS 000).
    LastArrival,
    /// Every path: a copy of the acknowledgement on each (PS 001).
    EveryPath,
    /// Gaps are reported on any path without a gap (PS 100).
    Unranked,
    /// Gaps are reported on the path without a gap that has the smallest smoothed round-trip time. The three paths with the smallest
    /// ones are ranked (PS 101, 110, 111).
    Ranked,
}

/// Whether several paths are used at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultipathMode {
    /// RFC 9260 §6.4: the primary path, and another path if the primary path fails.
    #[default]
    Off,
    /// Concurrent multipath transfer: new data on every active path whose congestion window allows it.
    Cmt,
    /// ECA-SCTP, offered to the peer: concurrent multipath transfer in which every transmission has a number. If the peer does not offer
    /// it too, [`MultipathMode::Cmt`].
    Eca,
}

/// Which path new data takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PathScheduler {
    /// The path that is expected to deliver the packet first. A packet waits for a fast path if, on a slow path, it would arrive later
    /// and block data that the fast path sends after it.
    #[default]
    EarliestDeliveryFirst,
    /// The path with the lowest smoothed round-trip time whose congestion window is not full.
    LowestRttFirst,
    /// The paths in turn, a packet each, except those whose congestion window is full. For comparison: with unequal paths and small
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

/// Coupled congestion control: how the congestion windows of several paths depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CoupledControl {
    /// The windows are independent: each path is a flow of its own (RFC 9260 §7.2). Fair only if no two paths share a bottleneck.
    Uncoupled,
    /// RFC 6356, the *linked increases algorithm*, for RFC 9260's windows: paths that share a bottleneck together take no more of it than one flow
    /// would, and all paths together get at least what the best path would get alone.
    Lia,
    /// The windows of paths whose delays rise and fall together are coupled, because these paths may share a bottleneck. Other paths are
    /// independent. Two paths are coupled until twenty round trips with data on both have shown that their delays are unrelated. Each of
    /// n coupled paths has the weight of 1/n of a flow, with RFC 9260's algorithm, CUBIC and BBR.
    #[default]
    Grouped,
    /// Resource pooling (CMT/RPv1 of Dreibholz and others), for RFC 9260's windows: a window grows by its path's share of the summed slow start
    /// thresholds, and a loss reduces it by half of the sum of all windows.
    ResourcePooling,
}

impl Default for MultipathConfig {
    fn default() -> Self {
        Self::OFF
    }
}

impl MultipathConfig {
    /// One path at a time. The other fields have the defaults that apply if the mode is set.
    pub(crate) const OFF: Self = Self {
        mode: MultipathMode::Off,
        scheduler: PathScheduler::EarliestDeliveryFirst,
        retransmission: RetransmissionPolicy::EarliestDelivery,
        congestion: CoupledControl::Grouped,
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

    /// Whether data takes several paths at once.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.mode != MultipathMode::Off
    }

    /// Whether the windows of paths that may share a bottleneck are coupled, and only those.
    pub(crate) fn is_grouped(&self) -> bool {
        self.is_on() && self.congestion == CoupledControl::Grouped
    }

    /// Whether the windows of all paths are coupled, wherever their bottlenecks are.
    pub(crate) fn couples_all(&self) -> bool {
        let all = matches!(
            self.congestion,
            CoupledControl::Lia | CoupledControl::ResourcePooling
        );
        self.is_on() && all
    }
}
