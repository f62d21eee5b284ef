//! Building packets: bundling (RFC 9260 §6.10). The order is fixed: control chunks as they were queued, SACK, FORWARD-TSN and notices,
//! retransmissions, new data. Only this module builds the packets of an association.

use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::{Chunk, CoopSackWriter, EncodeChunk, NrSackWriter, SackWriter, kind, padded};
use anabranch_wire::packet::{COMMON_HEADER_LEN, CommonHeader, PacketWriter};

use super::eligibility::DataTurn;
use super::{Cx, Sender, Transmit};
use crate::association_state::{AssociationState, permit};
use crate::control::ControlQueue;
use crate::ecn::EcnCodepoint;
use crate::extension::auth::Signer;
use crate::negotiation::Capabilities;
use crate::path::{PathId, PathState};
use crate::receive::Receiver;

/// The most bytes of a batch: what segmentation offload accepts as one datagram, less the headers of IPv6 and UDP.
const MAX_BATCH: usize = 65_535 - 48;

/// The most bytes of an acknowledgement. On a path with a large MTU, an acknowledgement of full length could list 16,000 gaps in answer to
/// each packet of 60 bytes that a peer sends. The first 360 gaps list all that a sender can repair at a time.
const MOST_ACK: usize = 1456;

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
    len: usize,
    ecn: EcnCodepoint,
}

/// The control chunks of a packet, as far as they restrict the chunks after them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ControlPushed {
    Others,
    /// A COOKIE ECHO: DATA may follow although the association is not set up yet (§5.1).
    WithCookieEcho,
    /// A chunk that no other chunk may follow.
    Alone,
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

/// Whether a packet with this chunk needs a checksum, whatever the peer accepts (RFC 9653 §5.2).
fn needs_checksum(chunk: &Chunk) -> bool {
    matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho(_) | Chunk::Asconf(_))
}

/// The parts of an association from which packets are built.
pub(crate) struct Assembler<'a> {
    pub(crate) sender: &'a mut Sender,
    pub(crate) receiver: &'a mut Receiver,
    pub(crate) control: &'a mut ControlQueue,
    /// The ports, and the peer's verification tag.
    pub(crate) header: CommonHeader,
    /// Only complete packets leave (RFC 5061 §5.3 F1, F4): no address may be the source of others.
    pub(crate) replies_only: bool,
    /// Data of this batch made a path MTU probe due.
    pub(crate) probe_due: bool,
}

impl Assembler<'_> {
    #[inline(always)]
    pub(crate) fn build_batch(
        &mut self,
        cx: &mut Cx<'_>,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        self.sender.asked = cx.now;
        if let Some(reply) = self.control.pop_reply() {
            buffer.extend_from_slice(&reply.packet);
            cx.counters.packets_sent += 1;
            return Some(Transmit {
                path: cx.paths.last_arrival,
                source: reply.source,
                destination: reply.destination,
                len: reply.packet.len(),
                segment_size: None,
                may_fragment: reply.packet.len() > cx.paths.path(cx.paths.last_arrival).pmtu.max_packet(),
                ecn: EcnCodepoint::NotEct,
                dscp: cx.paths.path(cx.paths.last_arrival).parameters.dscp,
            });
        }
        if cx.state == AssociationState::Closed {
            return None;
        }
        if self.replies_only {
            self.sender.pause();
            return None;
        }
        if let Some((path, packet)) = self.control.pop_probe() {
            buffer.extend_from_slice(&packet);
            cx.counters.packets_sent += 1;
            let to = cx.paths.path(path);
            return Some(Transmit {
                path,
                source: to.route.local,
                destination: to.route.remote,
                len: packet.len(),
                segment_size: None,
                may_fragment: false,
                ecn: EcnCodepoint::NotEct,
                dscp: to.parameters.dscp,
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
        let mut len = first;
        let mut count = 1;
        // A packet that IP must fragment is not batched: the others are to fit the path.
        let most = if first > cx.paths.path(path).pmtu.max_packet() {
            1
        } else {
            max_datagrams
        };
        while count < most && len + first <= MAX_BATCH {
            let Some(Built { len: next, .. }) = self.build_packet(cx, buffer, Some(batch)) else {
                break;
            };
            len += next;
            count += 1;
            if next < first {
                break;
            }
        }
        cx.counters.packets_sent += count as u64;
        let to = cx.paths.path(path);
        let segment_size = (count > 1).then_some(first);
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
    fn build_packet(&mut self, cx: &mut Cx<'_>, buffer: &mut Vec<u8>, batch: Option<Batch>) -> Option<Built> {
        self.sender.drop_expired(cx);
        self.sender.drop_hopeless(cx);
        let turn = self.sender.next_turn(cx);
        let turn = turn.filter(|_| !self.sender.copy_goes_first(cx));
        self.sender.advance_forward_point();
        let Some(id) = self.next_path(cx, turn) else {
            self.sender.found_nothing = !self.probe_due;
            return None;
        };
        let may_mark = self.sender.may_mark(cx, id, turn)
            && self.control.has_only(|chunk| matches!(chunk, Chunk::Cwr(_)));
        if let Some(batch) = batch {
            // A packet with a notice is longer than one without, so a batch of such packets begins with such a packet.
            let longer = batch.max_len < cx.paths.path(id).pmtu.max_packet();
            if batch.path != id
                || batch.ecn.is_capable() != may_mark
                || self.control_exceeds(cx, batch.max_len)
                || (longer && self.sender.notice_due(cx, id))
            {
                return None;
            }
        }
        self.fill_packet(cx, buffer, id, turn, batch, may_mark)
    }

    /// Appends a packet for `id`, if there is anything to send on that path. A separate function, so that it costs little to find nothing.
    #[inline(never)]
    fn fill_packet(
        &mut self,
        cx: &mut Cx<'_>,
        buffer: &mut Vec<u8>,
        id: PathId,
        turn: Option<DataTurn>,
        batch: Option<Batch>,
        may_mark: bool,
    ) -> Option<Built> {
        let max_packet = cx.paths.path(id).pmtu.max_packet();
        let max_len = match batch {
            Some(batch) => batch.max_len,
            // A chunk that has its TSN already and no longer fits the path leaves alone, in a packet that IP may fragment.
            None => self
                .oversized_retransmission(cx, id)
                .map_or(max_packet, |size| COMMON_HEADER_LEN + size),
        };
        let mut header = self.header;
        // An INIT leaves alone, under tag 0 (§8.5.1 A).
        if let Some(Chunk::Init(_)) = self.control.peek().map(|waiting| &waiting.chunk) {
            header.verification_tag = VerificationTag(0);
        }
        let mut packet = PacketWriter::new(buffer, header, max_len);
        if let Some(signer) = cx.signer {
            signer.begin(&mut packet);
        }
        let mut ecn = EcnCodepoint::NotEct;
        let zero_checksum =
            cx.capabilities.has(Capabilities::ZERO_CHECKSUM) && !self.control.any(needs_checksum);
        let control = self.push_control(id, &mut packet);
        if control != ControlPushed::Alone && !cx.paths.awaits_confirmation() {
            let may_carry_data =
                cx.state != AssociationState::CookieEchoed || control == ControlPushed::WithCookieEcho;
            let turn = turn.filter(|turn| may_carry_data && turn.path == id);
            self.push_sack(cx, id, turn.is_some(), &mut packet);
            if self.sender.has_sources(cx) {
                self.sender
                    .push_sources(cx, id, turn.map(|turn| self.sender.wire_len(turn)), &mut packet);
            }
            if let Some(turn) = turn {
                if self.sender.push_data(cx, turn, &mut packet) {
                    self.probe_due = true;
                }
                if cx.capabilities.has(Capabilities::ECN) && self.sender.note_marking(cx, id, may_mark) {
                    ecn = EcnCodepoint::Ect0;
                }
                self.sender.note_probe(cx, id);
                let starved = self.sender.was_starved();
                cx.paths.path_mut(id).on_packet_sent(cx.now, starved);
                self.sender.queue.on_packet();
            }
            self.sender.push_copies(cx, id, turn.is_some(), &mut packet);
        }
        if packet.is_empty() {
            packet.discard();
            return None;
        }
        if let Some(signer) = cx.signer {
            cx.counters.packets_signed += u64::from(signer.sign(&mut packet));
        }
        Some(Built {
            path: id,
            len: if zero_checksum {
                packet.finish_with_zero_checksum()
            } else {
                packet.finish()
            },
            ecn,
        })
    }

    /// The path of the next packet: that of the first control chunk, otherwise of a SACK that is due, otherwise of data.
    fn next_path(&mut self, cx: &mut Cx<'_>, turn: Option<DataTurn>) -> Option<PathId> {
        if let Some(waiting) = self.control.peek() {
            return Some(waiting.path);
        }
        if self.receiver.ack_due() && !cx.state.may(permit::SET_UP) {
            return Some(self.ack_path(cx));
        }
        if let Some(path) = self
            .receiver
            .copy_path()
            .or_else(|| self.sender.forward_psn_alone(cx))
        {
            return Some(path);
        }
        if self.sender.forward_due(cx) || self.sender.extended_due(cx) {
            return Some(cx.paths.data_path());
        }
        if cx.state.may(permit::SET_UP) {
            return None;
        }
        turn.map(|turn| turn.path)
            .or_else(|| self.sender.notices_alone(cx))
            .or_else(|| self.sender.copies_alone(cx))
    }

    /// Whether the first control chunk in the queue needs a longer packet than this: segmentation offload would split it.
    fn control_exceeds(&self, cx: &Cx<'_>, max_len: usize) -> bool {
        let len = |chunk: &Chunk| COMMON_HEADER_LEN + cx.auth_len(chunk.kind()) + padded(chunk.encoded_len());
        let first = self.control.peek();
        first.is_some_and(|waiting| len(&waiting.chunk) > max_len)
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

    fn push_control(&mut self, id: PathId, packet: &mut PacketWriter<'_>) -> ControlPushed {
        let mut pushed = ControlPushed::Others;
        while let Some(waiting) = self.control.peek() {
            let room = packet.room_for(waiting.chunk.kind());
            let fits = padded(waiting.chunk.encoded_len()) <= room || packet.is_empty();
            let alone = matches!(waiting.chunk, Chunk::Init(_));
            if waiting.path != id || !fits || (alone && !packet.is_empty()) {
                break;
            }
            let Some(waiting) = self.control.pop() else { break };
            packet.push(&waiting.chunk);
            match waiting.chunk {
                Chunk::Init(_) => return ControlPushed::Alone,
                Chunk::CookieEcho(_) => pushed = ControlPushed::WithCookieEcho,
                _ => {}
            }
        }
        pushed
    }

    /// Adds a SACK if it is due, or if it can be bundled with data on the path that it would take anyway (§6.1, §6.2). A SACK that would
    /// have to omit gap ack blocks because of the other chunks waits for the next packet: the peer would take omitted blocks for reneging.
    fn push_sack(&mut self, cx: &mut Cx<'_>, id: PathId, data_follows: bool, packet: &mut PacketWriter<'_>) {
        let wanted = self.receiver.ack_due() || (data_follows && self.receiver.ack_pending());
        let own = wanted && id == self.ack_path(cx);
        let copy = self.receiver.copy_path() == Some(id);
        let kind = if self.receiver.names_transmissions() {
            cx.config.chunk_types.coop_sack
        } else if self.receiver.uses_nr_sack() {
            kind::NR_SACK
        } else {
            kind::SACK
        };
        let room = packet.room_for(kind).min(MOST_ACK);
        if !(own || copy) || cx.state.may(permit::SET_UP) || room < NrSackWriter::HEADER_LEN {
            return;
        }
        if self.receiver.names_transmissions() {
            self.push_coop_sack(cx, id, own, room, packet);
            return;
        }
        let whole = NrSackWriter::HEADER_LEN + self.receiver.gap_blocks_len();
        let most = cx.paths.path(id).pmtu.max_data() - packet.auth_len_before(kind);
        if room < whole.min(most).min(MOST_ACK) {
            return;
        }
        let blocks = self.receiver.build_ack(room, |ack| {
            let blocks = ack.renegable.len() + ack.nonrenegable.len();
            if ack.is_nr_sack {
                packet.push(&NrSackWriter {
                    cumulative_tsn_ack: ack.cumulative_tsn_ack,
                    a_rwnd: ack.a_rwnd,
                    renegable: ack.renegable,
                    nonrenegable: ack.nonrenegable,
                    duplicate_tsns: ack.duplicate_tsns,
                    packets: ack.packets,
                });
                return blocks;
            }
            packet.push(&SackWriter {
                cumulative_tsn_ack: ack.cumulative_tsn_ack,
                a_rwnd: ack.a_rwnd,
                gap_ack_blocks: ack.renegable,
                duplicate_tsns: ack.duplicate_tsns,
                packets: ack.packets,
            });
            blocks
        });
        cx.counters.gap_blocks_sent += blocks as u64;
        cx.counters.sacks_sent += 1;
        self.sender.push_echoes(cx, packet);
    }

    /// Adds a COOP-SACK to a packet for `id`; `own` is false if it is the copy of one that left on another path.
    fn push_coop_sack(
        &mut self,
        cx: &mut Cx<'_>,
        id: PathId,
        own: bool,
        room: usize,
        packet: &mut PacketWriter<'_>,
    ) {
        let kind = cx.config.chunk_types.coop_sack;
        let blocks = self
            .receiver
            .build_coop_ack(cx.now, room, |ack: &CoopSackWriter<'_>| {
                packet.push_as(kind, ack);
            });
        cx.counters.gap_blocks_sent += blocks as u64;
        cx.counters.sacks_sent += 1;
        self.sender.push_echoes(cx, packet);
        let active = cx.paths.iter().filter(|path| path.state == PathState::Active);
        let others = active.map(|path| path.id).filter(|other| own && *other != id);
        self.receiver.on_copied(id, others);
    }

    /// The path of the next acknowledgement.
    fn ack_path(&self, cx: &Cx<'_>) -> PathId {
        let may = |id: PathId| cx.paths.path(id).state == PathState::Active;
        let chosen = self.receiver.gap_report_path(may);
        chosen.unwrap_or_else(|| cx.paths.answer_path())
    }
}
