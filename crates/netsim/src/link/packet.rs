//! What a link has to know of a packet, and what it does to one.

use bytes::Bytes;

use crate::ecn::Ecn;
use crate::flow::FiveTuple;
use crate::random::Generator;

/// What a link carries.
pub trait LinkPacket: Clone {
    /// Its length in bytes where the link is: what takes time and room.
    fn wire_len(&self) -> usize;

    /// Whether it passes a link with a smaller MTU, in pieces; they share its fate.
    fn may_fragment(&self) -> bool {
        true
    }

    /// Its ECN codepoint. A packet without one is Not-ECT, and no queue marks it.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Sets its ECN codepoint; called only with CE, and only if [`ecn`](Self::ecn) is ECN-capable.
    fn set_ecn(&mut self, ecn: Ecn) {
        let _ = ecn;
    }

    /// What tells its flow from others. Packets without a 5-tuple are of one flow.
    fn five_tuple(&self) -> Option<FiveTuple> {
        None
    }

    /// Changes some of its bits, as a bad line would; must not change other copies of it.
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

/// Marks a packet CE (RFC 3168 §5); false if it is Not-ECT and stays so.
pub(crate) fn mark_ce(packet: &mut impl LinkPacket) -> bool {
    let capable = packet.ecn().is_capable();
    if capable {
        packet.set_ecn(Ecn::Ce);
    }
    capable
}

/// Flips one to three bits. A CRC-32C finds any three wrong bits in packets of these sizes, so that a damaged
/// packet is never taken for a good one and runs stay checkable.
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
