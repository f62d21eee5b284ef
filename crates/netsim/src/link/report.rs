//! What became of a packet, and what a link counted.

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

/// What became of a packet given to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fate {
    /// Set if it does not arrive. A packet that comes into a managed queue may still be dropped there, which [`LinkStats`] alone tells.
    pub lost: Option<LossCause>,
    /// It arrives twice.
    pub duplicated: bool,
    /// It arrives damaged.
    pub corrupted: bool,
    /// It arrives late, out of order.
    pub late: bool,
    /// The queue marked it CE when it came.
    pub marked: bool,
}

/// What a link did since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkStats {
    /// Packets given to it.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that came out of it, copies included.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets that were refused or dropped because the queue was full.
    pub lost_queue: u64,
    /// Packets that active queue management dropped.
    pub lost_aqm: u64,
    /// Packets that the loss model took.
    pub lost_model: u64,
    /// Packets lost because the link was down.
    pub lost_down: u64,
    /// Packets larger than the link's MTU.
    pub lost_too_large: u64,
    /// Packets that the queue marked CE, or would have if they had not had the mark already.
    pub marked: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets damaged.
    pub corrupted: u64,
    /// Packets made late.
    pub reordered: u64,
    /// The most bytes that were in the queue at a time, the packet in transmission included.
    pub queue_max_bytes: u64,
    /// The most packets likewise.
    pub queue_max_packets: u64,
    /// Bytes in the queue summed over time, in byte nanoseconds, the packet in transmission included. A packet counts
    /// when it is taken, for all the time until it will have left; in a managed queue, when its transmission begins.
    pub queue_byte_nanos: u128,
}

impl LinkStats {
    /// Bytes in the queue, on average over `elapsed` since the link was made; 0 for no time.
    #[must_use]
    pub fn queue_mean_bytes(&self, elapsed: Duration) -> f64 {
        match elapsed.as_nanos() {
            0 => 0.0,
            nanos => self.queue_byte_nanos as f64 / nanos as f64,
        }
    }

    /// Packets lost, whatever the cause.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_queue + self.lost_aqm + self.lost_model + self.lost_down + self.lost_too_large
    }
}
