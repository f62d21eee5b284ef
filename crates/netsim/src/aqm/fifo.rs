//! First-in, first-out queue of waiting packets.

use core::time::Duration;
use std::collections::VecDeque;

use anabranch_proto::Timestamp;

use crate::link::Fate;

/// A waiting packet, with its delay on the link, which is already drawn.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<P> {
    pub(crate) packet: P,
    /// Bytes.
    pub(crate) len: u64,
    /// Arrival time.
    pub(crate) since: Timestamp,
    /// Number of the packet in the order in which packets were given to the link.
    pub(crate) index: u64,
    pub(crate) fate: Fate,
    /// Delay on the link, with jitter.
    pub(crate) delay: Duration,
}

/// First in, first out.
#[derive(Clone, Debug)]
pub(crate) struct Fifo<P> {
    packets: VecDeque<Waiting<P>>,
    bytes: u64,
}

impl<P> Default for Fifo<P> {
    fn default() -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<P> Fifo<P> {
    pub(crate) fn push(&mut self, waiting: Waiting<P>) {
        self.bytes += waiting.len;
        self.packets.push_back(waiting);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<P>> {
        let waiting = self.packets.pop_front()?;
        self.bytes -= waiting.len;
        Some(waiting)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets.len() as u64
    }

    pub(crate) fn take_all(&mut self) -> Vec<Waiting<P>> {
        self.bytes = 0;
        self.packets.drain(..).collect()
    }
}
