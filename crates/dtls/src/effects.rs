//! The output of calls of [`Peers`](crate::Peers). All bytes are in one piece of memory, which is used again: a large packet is copied once.

use std::ops::Range;

use crate::certificate::Fingerprint;
use crate::connection::{DtlsError, Shared};

/// The output of the calls of [`Peers`](crate::Peers). `K` is the address of a peer.
#[derive(Debug)]
pub struct Effects<K> {
    /// Connections that are complete.
    pub established: Vec<(K, Fingerprint)>,
    /// Connections that ended.
    pub ended: Vec<(K, DtlsError)>,
    /// [`Peers::timeout`](crate::Peers::timeout) is earlier than before.
    pub timeout_is_earlier: bool,
    /// Connections that have left the table, and whose peers do not know it yet.
    pub(crate) leaving: Vec<(K, Shared, DtlsError)>,
    pub(crate) collected: Collected,
    /// The peers of the datagrams and of the packets; those of packets with their certificates.
    destinations: Vec<K>,
    sources: Vec<(K, Fingerprint)>,
}

impl<K> Default for Effects<K> {
    fn default() -> Self {
        Self {
            established: Vec::new(),
            ended: Vec::new(),
            timeout_is_earlier: false,
            leaving: Vec::new(),
            collected: Collected::default(),
            destinations: Vec::new(),
            sources: Vec::new(),
        }
    }
}

impl<K: Copy> Effects<K> {
    /// DTLS datagrams to be sent, and their destinations.
    pub fn datagrams(&self) -> impl ExactSizeIterator<Item = (K, &[u8])> {
        let ranges = self.destinations.iter().zip(&self.collected.datagrams);
        ranges.map(|(key, range)| (*key, &self.collected.space[range.clone()]))
    }

    /// SCTP packets that arrived, and their sources.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = (K, &[u8])> {
        let ranges = self.sources.iter().zip(&self.collected.packets);
        ranges.map(|((key, _), range)| (*key, &self.collected.space[range.clone()]))
    }

    /// The same packets, and the certificates of their senders.
    pub fn certified_packets(&self) -> impl ExactSizeIterator<Item = (Fingerprint, &[u8])> {
        let ranges = self.sources.iter().zip(&self.collected.packets);
        ranges.map(|((_, certificate), range)| (*certificate, &self.collected.space[range.clone()]))
    }

    /// If the whole output is a batch for segmentation offload (datagrams of one length, of which the last may be shorter), exchanges the
    /// memory: `buffer` begins with the batch then, and its former memory is for the next calls. Returns the length of the batch and of its
    /// datagrams.
    pub fn take_batch(&mut self, buffer: &mut Vec<u8>) -> Option<(usize, usize)> {
        let collected = &mut self.collected;
        let segment = collected.datagrams.first()?.len();
        let ends = collected.datagrams.len() - 1;
        let in_order = |(index, range): (usize, &Range<usize>)| {
            range.start == index * segment
                && (range.len() == segment || index == ends && range.len() < segment)
        };
        if !collected.packets.is_empty() || !collected.datagrams.iter().enumerate().all(in_order) {
            return None;
        }
        std::mem::swap(&mut collected.space, buffer);
        let len = std::mem::take(&mut collected.filled);
        collected.datagrams.clear();
        self.destinations.clear();
        Some((len, segment))
    }

    /// Forgets the output, and keeps the memory for the next calls.
    pub fn clear(&mut self) {
        self.established.clear();
        self.ended.clear();
        self.timeout_is_earlier = false;
        self.leaving.clear();
        self.collected.clear();
        self.destinations.clear();
        self.sources.clear();
    }

    /// The latest datagrams and packets are of this peer. Packets of a peer without a certificate are dropped.
    pub(crate) fn assign(&mut self, key: K, certificate: Option<Fingerprint>) {
        self.destinations.resize(self.collected.datagrams.len(), key);
        match certificate {
            Some(certificate) => self
                .sources
                .resize(self.collected.packets.len(), (key, certificate)),
            None => self.collected.forget_packets(self.sources.len()),
        }
    }
}

/// The bytes that connections return.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The bytes of all output, and then room. It is not made shorter, so that it is initialized once.
    space: Vec<u8>,
    filled: usize,
    pub(crate) datagrams: Vec<Range<usize>>,
    packets: Vec<Range<usize>>,
}

impl Collected {
    /// Room for a record of this length at least.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let needed = self.filled + len;
        if self.space.len() < needed {
            self.space.resize(needed, 0);
        }
        &mut self.space[self.filled..]
    }

    /// The first bytes of the room are a datagram.
    pub(crate) fn push_datagram(&mut self, len: usize) {
        let range = self.fill(len);
        self.datagrams.push(range);
    }

    /// Adds a copy of a datagram.
    pub(crate) fn copy_datagram(&mut self, datagram: &[u8]) {
        self.room(datagram.len())[..datagram.len()].copy_from_slice(datagram);
        self.push_datagram(datagram.len());
    }

    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.datagrams.iter().map(|range| &self.space[range.clone()])
    }

    /// Forgets everything, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
        self.datagrams.clear();
        self.packets.clear();
    }

    /// The first bytes of the room are a packet.
    pub(crate) fn push_packet(&mut self, len: usize) {
        let range = self.fill(len);
        self.packets.push(range);
    }

    fn fill(&mut self, len: usize) -> Range<usize> {
        let from = self.filled;
        self.filled += len;
        from..self.filled
    }

    /// The datagram that was added last.
    pub(crate) fn latest_datagram(&self) -> Option<&[u8]> {
        Some(&self.space[self.datagrams.last()?.clone()])
    }

    /// The number of packets.
    pub(crate) fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Keeps the first packets only.
    pub(crate) fn forget_packets(&mut self, keep: usize) {
        self.packets.truncate(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(lengths: &[usize]) -> Effects<u8> {
        let mut effects = Effects::default();
        for (index, len) in lengths.iter().enumerate() {
            effects.collected.room(*len)[..*len].fill(index as u8 + 1);
            effects.collected.push_datagram(*len);
            effects.assign(9, None);
        }
        effects
    }

    #[test]
    fn datagrams_of_one_length_are_a_batch() {
        let mut batch = effects(&[3, 3, 2]);
        let mut buffer = vec![7; 5];
        assert_eq!(batch.take_batch(&mut buffer), Some((8, 3)));
        assert_eq!(buffer[..8], [1, 1, 1, 2, 2, 2, 3, 3]);
        assert_eq!(batch.datagrams().len(), 0);
        // The next output is written to the memory that was given.
        batch.collected.room(2)[..2].fill(4);
        batch.collected.push_datagram(2);
        batch.assign(9, None);
        assert_eq!(batch.datagrams().collect::<Vec<_>>(), [(9, &[4, 4][..])]);
    }

    #[test]
    fn other_output_is_no_batch() {
        let mut buffer = Vec::new();
        for lengths in [&[][..], &[2, 3], &[3, 2, 3], &[3, 2, 2]] {
            assert_eq!(effects(lengths).take_batch(&mut buffer), None, "{lengths:?}");
        }
        let mut with_packet = effects(&[3]);
        with_packet.collected.room(1);
        with_packet.collected.push_packet(1);
        assert_eq!(with_packet.take_batch(&mut buffer), None);
    }

    #[test]
    fn cleared_output_is_gone() {
        let mut effects = effects(&[3]);
        effects.collected.room(1);
        effects.collected.push_packet(1);
        effects.assign(9, Some(Fingerprint::of(b"a certificate")));
        assert_eq!(effects.packets().len(), 1);
        effects.clear();
        assert_eq!((effects.datagrams().len(), effects.packets().len()), (0, 0));
        assert_eq!(effects.collected.filled, 0);
    }
}
