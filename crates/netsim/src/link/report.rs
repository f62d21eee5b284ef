//! The fate of a packet, and a link's counters.

use core::time::Duration;

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LossCause {
    /// The queue refused it.
    Queue,
    /// The loss model took it.
    Model,
    /// The link was down.
    Down,
    /// It was larger than the link's MTU.
    TooLarge,
}

/// The fate of a packet that was given to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fate {
    /// The reason if the packet does not arrive. A managed queue may still drop an accepted packet; only [`LinkStats`] counts this.
    pub lost: Option<LossCause>,
    /// Whether it arrives twice.
    pub duplicated: bool,
    /// Whether it arrives damaged.
    pub corrupted: bool,
    /// Whether it arrives late, out of order.
    pub late: bool,
    /// Whether the queue marked it CE when it came.
    pub marked: bool,
}

/// A link's counters since its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkStats {
    /// Packets given to the link.
    pub offered: u64,
    /// Bytes given to the link.
    pub offered_bytes: u64,
    /// Packets that arrived at the other end, including copies.
    pub delivered: u64,
    /// Bytes that arrived at the other end.
    pub delivered_bytes: u64,
    /// Packets that the queue refused or dropped because it was full.
    pub lost_queue: u64,
    /// Packets that active queue management dropped.
    pub lost_aqm: u64,
    /// Packets that the loss model lost.
    pub lost_model: u64,
    /// Packets lost because the link was down.
    pub lost_down: u64,
    /// Packets lost because they were larger than the link's MTU.
    pub lost_too_large: u64,
    /// Packets that the queue marked CE, including those that already had the mark.
    pub marked: u64,
    /// Copies made by duplication.
    pub duplicated: u64,
    /// Damaged packets.
    pub corrupted: u64,
    /// Packets delayed so that they are reordered.
    pub reordered: u64,
    /// The largest number of bytes in the queue, including the packet in transmission.
    pub queue_max_bytes: u64,
    /// The largest number of packets in the queue, including the one in transmission.
    pub queue_max_packets: u64,
    /// Integral of the bytes in the queue over time, in byte nanoseconds, including the packet in transmission. A packet's whole time in
    /// the queue is added when the link accepts it; in a managed queue, when its transmission begins.
    pub queue_byte_nanos: u128,
}

impl LinkStats {
    /// Mean number of bytes in the queue over `elapsed`, the time since the link was created; 0 if `elapsed` is 0.
    #[must_use]
    pub fn queue_mean_bytes(&self, elapsed: Duration) -> f64 {
        match elapsed.as_nanos() {
            0 => 0.0,
            nanos => self.queue_byte_nanos as f64 / nanos as f64,
        }
    }

    /// Packets lost for any cause.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_queue + self.lost_aqm + self.lost_model + self.lost_down + self.lost_too_large
    }
}
