//! The properties of a packet that a link needs, and the changes that it makes to a packet.

use bytes::Bytes;

use crate::ecn::Ecn;
use crate::flow::FiveTuple;
use crate::random::Generator;

/// A packet that a link can carry.
pub trait LinkPacket: Clone {
    /// Length in bytes on the link, which determines its transmission time and its space in the queue.
    fn wire_len(&self) -> usize;

    /// Whether IP may fragment the packet on a link with a smaller MTU. The fragments share one fate.
    fn may_fragment(&self) -> bool {
        true
    }

    /// The packet's ECN codepoint. The default is Not-ECT, and no queue marks such a packet.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Sets the ECN codepoint. Called only with CE, and only if [`ecn`](Self::ecn) is ECN-capable.
    fn set_ecn(&mut self, ecn: Ecn) {
        let _ = ecn;
    }

    /// The packet's flow. All packets without a 5-tuple count as one flow.
    fn five_tuple(&self) -> Option<FiveTuple> {
        None
    }

    /// Flips some of the packet's bits, as a bad line would. Must not change other copies of the packet.
    fn corrupt(&mut self, random: &mut Generator);
}

impl LinkPacket for Vec<u8> {
    fn wire_len(&self) -> usize {
        self.len()
    }

    fn corrupt(&mut self, random: &mut Generator) {
        flip_bits(self, random);
    }
}

impl LinkPacket for Bytes {
    fn wire_len(&self) -> usize {
        self.len()
    }

    fn corrupt(&mut self, random: &mut Generator) {
        let mut copy = self.to_vec();
        flip_bits(&mut copy, random);
        *self = copy.into();
    }
}

/// Marks a packet CE (RFC 3168 §5); returns false if the packet is Not-ECT, and then does not change it.
pub(crate) fn mark_ce(packet: &mut impl LinkPacket) -> bool {
    let capable = packet.ecn().is_capable();
    if capable {
        packet.set_ecn(Ecn::Ce);
    }
    capable
}

/// Flips one to three bits. CRC-32C detects any three wrong bits in packets of these sizes. A receiver therefore never accepts a damaged
/// packet, and the results of a run can be checked.
fn flip_bits(bytes: &mut [u8], random: &mut Generator) {
    let flips = 1 + random.below(3);
    let mut flipped = [u64::MAX; 3];
    for i in 0..flips as usize {
        let bit = random.below(bytes.len() as u64 * 8);
        // The same bit twice would undo itself.
        if flipped.contains(&bit) || bytes.is_empty() {
            continue;
        }
        flipped[i] = bit;
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}
