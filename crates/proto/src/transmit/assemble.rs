//! Building packets: bundling (RFC 9260 §6.10). Only this module builds the packets of an association. Their chunks come from the sources
//! (`source`), in one order.

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::{Chunk, EncodeChunk, padded};
use anabranch_wire::packet::{COMMON_HEADER_LEN, CommonHeader, PacketWriter};

use super::source::{Plan, Source, needs_checksum};
use super::{Assembler, Cx, Transmit};
use crate::association_state::AssociationState;
use crate::ecn::EcnCodepoint;
use crate::extension::auth::Signer;
use crate::negotiation::Capabilities;
use crate::path::PathId;

/// The most bytes of a batch: what segmentation offload accepts as one datagram, less the headers of IPv6 and UDP.
const MAX_BATCH: usize = 65_535 - 48;

/// The common properties of the packets of one batch.
#[derive(Clone, Copy)]
struct Batch {
    path: PathId,
    /// The longest packet allowed: the length of the first one.
    max_len: usize,
    ecn: EcnCodepoint,
}

/// A packet that was appended to the buffer.
#[derive(Clone, Copy)]
struct Built {
    path: PathId,
    /// Its length before it was encrypted.
    len: usize,
    ecn: EcnCodepoint,
}

/// Writes chunks into a packet of their own: answers, probes and the last packet of an association.
///
/// The chunks that the peer requires to be authenticated are signed.
pub(crate) fn write_packet(header: CommonHeader, chunks: &[Chunk], signer: Option<&Signer>) -> Vec<u8> {
    let overhead = |chunk: &Chunk| signer.map_or(0, |signer| signer.overhead(chunk.kind()));
    let len = COMMON_HEADER_LEN
        + chunks.iter().map(overhead).max().unwrap_or(0)
        + chunks
            .iter()
            .map(|chunk| padded(chunk.encoded_len()))
            .sum::<usize>();
    let mut buffer = Vec::with_capacity(len);
    let mut packet = PacketWriter::new(&mut buffer, header, len);
    if let Some(signer) = signer {
        signer.begin(&mut packet);
    }
    for chunk in chunks {
        packet.push(chunk);
    }
    if let Some(signer) = signer {
        signer.sign(&mut packet);
    }
    let _ = packet.finish();
    buffer
}

/// Appends a complete packet, for these local and remote addresses.
fn complete(
    cx: &mut Cx<'_>,
    buffer: &mut Vec<u8>,
    path: PathId,
    (source, destination): (Option<IpAddr>, SocketAddr),
    packet: &[u8],
) -> Transmit {
    buffer.extend_from_slice(packet);
    cx.counters.packets_sent += 1;
    let by = cx.paths.path(path);
    Transmit {
        path,
        source,
        destination,
        len: packet.len(),
        segment_size: None,
        may_fragment: packet.len() > by.pmtu.max_packet(),
        ecn: EcnCodepoint::NotEct,
        dscp: by.parameters.dscp,
    }
}

impl Assembler<'_> {
    /// Takes an answer, which is a complete packet, if one waits.
    pub(crate) fn take_reply(&mut self, cx: &mut Cx<'_>, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let reply = self.control.pop_reply()?;
        let to = (reply.source, reply.destination);
        let path = cx.paths.last_arrival;
        if self
            .protection
            .seals_packet(&reply.packet, self.header.verification_tag)
        {
            return self.complete_sealed(cx, buffer, path, to, &reply.packet);
        }
        Some(complete(cx, buffer, path, to, &reply.packet))
    }

    /// Appends a complete packet, encrypted.
    #[cold]
    fn complete_sealed(
        &mut self,
        cx: &mut Cx<'_>,
        buffer: &mut Vec<u8>,
        path: PathId,
        to: (Option<IpAddr>, SocketAddr),
        packet: &[u8],
    ) -> Option<Transmit> {
        let begin = buffer.len();
        self.protection.begin(buffer, packet.len());
        let transmit = complete(cx, buffer, path, to, packet);
        let len = self.protection.seal(buffer, begin)?;
        Some(Transmit { len, ..transmit })
    }

    /// Builds the next packets, all for one path and of the length of the first.
    #[inline(always)]
    pub(crate) fn build_batch(
        &mut self,
        cx: &mut Cx<'_>,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        self.sender.asked = cx.now;
        if cx.state == AssociationState::Closed {
            return None;
        }
        if let Some((path, packet)) = self.control.pop_probe() {
            let route = &cx.paths.path(path).route;
            let to = (route.local, route.remote);
            let probe = if self.protection.seals() {
                self.complete_sealed(cx, buffer, path, to, &packet)?
            } else {
                complete(cx, buffer, path, to, &packet)
            };
            return Some(Transmit {
                may_fragment: false,
                ..probe
            });
        }
        let Built {
            path,
            len: first,
            ecn,
        } = self.build_packet(cx, buffer, None)?;
        let batch = Batch {
            path,
            max_len: first,
            ecn,
        };
        // Encryption makes each packet longer by the same number of bytes.
        let on_wire = first + self.protection.overhead();
        let mut len = on_wire;
        let mut count = 1;
        // A packet that IP must fragment is not batched: the others are to fit the path.
        let most = if first > cx.paths.path(path).pmtu.max_packet() {
            1
        } else {
            max_datagrams
        };
        while count < most && len + on_wire <= MAX_BATCH {
            let Some(Built { len: next, .. }) = self.build_packet(cx, buffer, Some(&batch)) else {
                break;
            };
            len += next + (on_wire - first);
            count += 1;
            if next < first {
                break;
            }
        }
        cx.counters.packets_sent += count as u64;
        let to = cx.paths.path(path);
        let segment_size = (count > 1).then_some(on_wire);
        Some(Transmit {
            path,
            source: to.route.local,
            destination: to.route.remote,
            len,
            segment_size,
            may_fragment: first > to.pmtu.max_packet(),
            ecn,
            dscp: to.parameters.dscp,
        })
    }

    /// Appends one packet, if anything is to be sent.
    fn build_packet(
        &mut self,
        cx: &mut Cx<'_>,
        buffer: &mut Vec<u8>,
        batch: Option<&Batch>,
    ) -> Option<Built> {
        self.sender.drop_expired(cx);
        self.sender.drop_hopeless(cx);
        let turn = self.sender.next_turn(cx);
        let turn = turn.filter(|_| !self.sender.copy_goes_first(cx));
        self.sender.advance_forward_point();
        let Some((source, path)) = self.first_to_ask(cx, turn) else {
            self.sender.found_nothing = !self.probe_due;
            return None;
        };
        let may_mark = self.sender.may_mark(cx, path, turn)
            && self.control.has_only(|chunk| matches!(chunk, Chunk::Cwr(_)));
        let mut plan = Plan {
            path,
            data: turn.filter(|turn| turn.path == path),
            may_mark,
            ecn: EcnCodepoint::NotEct,
        };
        if batch.is_some_and(|batch| source == Source::Control || !self.continues(cx, batch, &plan)) {
            return None;
        }
        self.fill_packet(cx, buffer, &mut plan, batch.map(|batch| batch.max_len))
    }

    /// Whether a packet may be the next of a batch. Segmentation offload splits a batch at the length of its first packet, so that the others
    /// must be no longer. A control chunk, which could be, always begins another batch.
    fn continues(&mut self, cx: &Cx<'_>, batch: &Batch, plan: &Plan) -> bool {
        // A packet with a notice is longer than one without, so a batch of such packets begins with such a packet.
        let longer = batch.max_len < cx.paths.path(plan.path).pmtu.max_packet();
        batch.path == plan.path
            && batch.ecn.is_capable() == plan.may_mark
            && !(longer && self.sender.notice_due(cx, plan.path))
    }

    /// Appends a packet, if there is anything to send on its path; `most` bytes at most if it continues a batch. A separate function, so that
    /// it costs little to find nothing.
    #[inline(never)]
    fn fill_packet(
        &mut self,
        cx: &mut Cx<'_>,
        buffer: &mut Vec<u8>,
        plan: &mut Plan,
        most: Option<usize>,
    ) -> Option<Built> {
        let max_packet = cx.paths.path(plan.path).pmtu.max_packet();
        let max_len = match most {
            Some(most) => most,
            // A chunk that has its TSN already and no longer fits the path leaves alone, in a packet that IP may fragment.
            None => self
                .oversized_retransmission(cx, plan.path)
                .map_or(max_packet, |size| COMMON_HEADER_LEN + size),
        };
        let mut header = self.header;
        // An INIT leaves alone, under tag 0 (§8.5.1 A).
        if let Some(Chunk::Init(_)) = self.control.peek().map(|waiting| &waiting.chunk) {
            header.verification_tag = VerificationTag(0);
        }
        let seals = self.protection.seals();
        let begin = buffer.len();
        if seals {
            self.protection.begin(buffer, max_len);
        }
        let mut packet = PacketWriter::new(buffer, header, max_len);
        if let Some(signer) = cx.signer {
            signer.begin(&mut packet);
        }
        let zero_checksum =
            cx.capabilities.has(Capabilities::ZERO_CHECKSUM) && !self.control.any(needs_checksum);
        self.write_all(cx, plan, &mut packet);
        if packet.is_empty() {
            packet.discard();
            if seals {
                buffer.truncate(begin);
            }
            return None;
        }
        if let Some(signer) = cx.signer {
            cx.counters.packets_signed += u64::from(signer.sign(&mut packet));
        }
        let len = if zero_checksum || seals {
            packet.finish_with_zero_checksum()
        } else {
            packet.finish()
        };
        if seals {
            self.protection.seal(buffer, begin)?;
        }
        Some(Built {
            path: plan.path,
            len,
            ecn: plan.ecn,
        })
    }

    /// The size of the next retransmission on this path if it does not fit a packet there.
    fn oversized_retransmission(&self, cx: &Cx<'_>, id: PathId) -> Option<usize> {
        let chunk = self
            .sender
            .outstanding
            .chunk(self.sender.outstanding.first_lost()?);
        let size = cx.auth_len(self.sender.data_kind(cx)) + chunk.fragment.wire_len();
        (size > cx.paths.path(id).pmtu.max_data()).then_some(size)
    }
}
