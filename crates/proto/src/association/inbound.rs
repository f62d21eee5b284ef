//! A received packet: verification (RFC 9260 §8.5.1), and the chunks in their order (§6.10), with one call for each chunk type.

use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{
    Chunk, ChunkError, Data, EncodeChunk, ErrorChunk, Heartbeat, HeartbeatAck, IData, NrSack, RawChunk, Sack,
    UnknownAction, kind, packets_answered, padded, unknown_chunk_action,
};
use anabranch_wire::packet::COMMON_HEADER_LEN;

use super::arrival::{Arrival, packet};
use super::chunk_rules::{rule, wrong_format};
use super::packet_notes::{Onward, PacketNotes};
use super::ports::on_port;
use super::protection::unprotect;
use super::skipping::{on_extended_forward_tsn, on_forward_tsn, on_i_forward_tsn, on_selective_forward_tsn};
use super::transmissions::{on_e_data, on_e_i_data};
use super::{Association, Capabilities, State, tracing};
use crate::association_state::permit;
use crate::close_reason::CloseReason;
use crate::control::answer_out_of_the_blue;
use crate::ecn::EcnCodepoint;
use crate::inbound::Inbound;
use crate::receive::Verdict;
use crate::time::Timestamp;

/// Handles a packet of an association whose packets are protected, or are going to be.
#[inline(never)]
fn handle_protected(association: &mut Association, now: Timestamp, inbound: Inbound) {
    if association.trace.is_on() {
        if let Some(opened) = association.step(now, |it| unprotect(it, inbound)) {
            tracing::handle_packet(association, now, opened);
        }
    } else {
        association.step(now, |it| {
            if let Some(opened) = unprotect(it, inbound) {
                it.take_packet(now, opened);
            }
        });
    }
    if association.receiver.has_key_management() {
        association.step(now, |it| it.notices.on_key_management());
    }
}

impl Association {
    /// Handles a packet for which [`crate::Endpoint::handle_datagram`] returned [`crate::Handling::Deliver`].
    pub fn handle_packet(&mut self, now: Timestamp, inbound: Inbound) {
        if self.state.is_closed() {
            return;
        }
        if self.protection.is_on() {
            handle_protected(self, now, inbound);
        } else if self.trace.is_on() {
            tracing::handle_packet(self, now, inbound);
        } else {
            self.step(now, |it| it.take_packet(now, inbound));
        }
    }

    #[inline(always)]
    pub(super) fn take_packet(&mut self, now: Timestamp, inbound: Inbound) {
        let first = inbound.leading();
        if self.state.may(permit::SET_UP) && first.is_some() && inbound.contains(kind::SHUTDOWN_ACK) {
            // §8.5.1 E: the SHUTDOWN ACK belongs to an earlier association.
            if let Some(reply) = answer_out_of_the_blue(&inbound) {
                self.control.reply(reply);
            }
        } else if first.is_some_and(|first| self.identity.accepts(&inbound, &first)) {
            self.counters.packets_received += 1;
            if self.identity.is_proven(&inbound) {
                self.paths.on_arrival(&inbound);
                // The peer is reachable, and gets time to send its remaining data. §9.2 would restart T2-shutdown for every
                // packet: then heartbeats that arrive more often than the timer expires would keep a lost SHUTDOWN from being
                // retransmitted. Here only DATA restarts it.
                if matches!(self.state, State::ShutdownSent(_)) {
                    self.error_count = 0;
                }
            }
            self.authentication.begin_packet(false);
            self.on_chunks(now, &inbound, 0);
            self.authentication.end_packet();
            if self.paths.is_by_port() && self.identity.is_proven(&inbound) {
                on_port(self, now, &inbound);
            }
        }
    }

    /// Handles the chunks of a packet, without the first `skip`.
    pub(super) fn on_chunks(&mut self, now: Timestamp, inbound: &Inbound, skip: usize) {
        let mut notes = PacketNotes::default();
        // A chunk that is cut off or has no length ends the packet (§6.10).
        let mut chunks = inbound.packet.chunks();
        chunks.by_ref().take(skip).for_each(drop);
        while let Some(Ok(raw)) = chunks.next() {
            if self.state.is_closed() || self.on_chunk(now, inbound, &raw, &mut notes).is_break() {
                break;
            }
        }
        if notes.asconf && !self.state.is_closed() {
            self.send_asconf_acks(inbound);
        }
        if notes.data && !self.state.is_closed() {
            if let Some(tsn) = notes.new.filter(|_| inbound.ecn == EcnCodepoint::Ce) {
                self.counters.ce_packets_received += u64::from(self.capabilities.has(Capabilities::ECN));
                notes.immediate |= self.sender.on_ce(self.paths.last_arrival, tsn);
            }
            let spread = self.paths.is_spread_arrival(now) || self.receiver.names_transmissions();
            self.receiver.on_packet(now, notes.immediate, spread);
            self.ending.on_activity(now);
            // DATA after SHUTDOWN is answered at once with a SACK and another SHUTDOWN; T2-shutdown restarts (§9.2).
            if matches!(self.state, State::ShutdownSent(_)) {
                self.receiver.force_ack();
                self.send_shutdown_chunk(now);
            }
        }
    }

    fn on_chunk(
        &mut self,
        now: Timestamp,
        inbound: &Inbound,
        raw: &RawChunk,
        notes: &mut PacketNotes,
    ) -> Onward {
        if let Some(onward) = self.authenticate(inbound, raw, notes) {
            return onward;
        }
        if let Some(violation) = wrong_format(self.capabilities, self.state.kind(), raw.kind) {
            self.abort_for_violation(violation);
            return Onward::Break(());
        }
        // Nearly all chunks are of these types, which are smaller than the largest variant of `Chunk`.
        let read = match raw.kind {
            kind::DATA => Data::decode(raw).map(|data| {
                self.on_data(
                    now,
                    Arrival::of_data(data, None, packet(self, now, inbound)),
                    notes,
                )
            }),
            kind::I_DATA => IData::decode(raw).map(|data| {
                self.on_data(
                    now,
                    Arrival::of_i_data(data, None, packet(self, now, inbound)),
                    notes,
                )
            }),
            kind::SACK => Sack::decode(raw).map(|sack| {
                if self.state.may(permit::SEND_DATA)
                    && !self.reconfiguration.is_former_ack(now, sack.cumulative_tsn_ack)
                {
                    let packets = packets_answered(raw.flags);
                    self.sending(now, |sender, cx| sender.on_sack(cx, &sack, packets));
                }
            }),
            kind::NR_SACK if self.capabilities.has(Capabilities::NR_SACK) => {
                NrSack::decode(raw).map(|sack| {
                    if self.state.may(permit::SEND_DATA)
                        && !self.reconfiguration.is_former_ack(now, sack.cumulative_tsn_ack)
                    {
                        let packets = packets_answered(raw.flags);
                        self.sending(now, |sender, cx| sender.on_nr_sack(cx, &sack, packets));
                    }
                })
            }
            _ => return self.on_other_chunk(now, inbound, raw, notes),
        };
        match read {
            Ok(()) => Onward::Continue(()),
            Err(error) => self.on_malformed(inbound, error),
        }
    }

    /// Handles a chunk that is no DATA, I-DATA, SACK or NR-SACK, by its [`Rule`](super::chunk_rules::Rule).
    fn on_other_chunk(
        &mut self,
        now: Timestamp,
        inbound: &Inbound,
        raw: &RawChunk,
        notes: &mut PacketNotes,
    ) -> Onward {
        let known = raw.under(self.config.chunk_types);
        let rule = rule(known.kind);
        if !self.capabilities.has(rule.extension) {
            return self.on_unknown(raw, notes);
        }
        match Chunk::decode(known) {
            Ok(chunk) if self.state.may(rule.permit) => {
                self.on_control_chunk(now, inbound, raw, chunk, notes)
            }
            Ok(_) => Onward::Continue(()),
            Err(error) => self.on_malformed(inbound, error),
        }
    }

    /// One call for each type of chunk.
    fn on_control_chunk(
        &mut self,
        now: Timestamp,
        inbound: &Inbound,
        raw: &RawChunk,
        chunk: Chunk,
        notes: &mut PacketNotes,
    ) -> Onward {
        match chunk {
            Chunk::Heartbeat(heartbeat) => on_heartbeat(self, now, inbound, heartbeat),
            Chunk::HeartbeatAck(ack) => self.on_heartbeat_ack(now, inbound, &ack),
            Chunk::Init(init) => {
                if inbound.is_lone_init() {
                    self.on_init(now, inbound, &init);
                }
                return Onward::Break(());
            }
            Chunk::InitAck(init_ack) => {
                self.on_init_ack(now, inbound, &init_ack);
                return Onward::Break(());
            }
            Chunk::CookieEcho(echo) => {
                if !self.on_cookie_echo(now, inbound, &echo.cookie) {
                    return Onward::Break(());
                }
                // A restart may have given this endpoint the tag of the packet.
                if self.identity.is_proven(inbound) {
                    self.paths.on_arrival(inbound);
                }
            }
            // In any other state than COOKIE-ECHOED it is discarded (§5.2.5).
            Chunk::CookieAck if matches!(self.state, State::CookieEchoed(_)) => self.become_established(now),
            Chunk::CookieAck => {}
            Chunk::Abort(abort) => {
                if self.identity.accepts_last(inbound, abort.reflected_tag) {
                    self.on_abort(now, inbound, &abort);
                }
                return Onward::Break(());
            }
            Chunk::Error(error) => self.on_error(now, &error),
            Chunk::Shutdown(shutdown) => self.on_shutdown(now, shutdown.cumulative_tsn_ack),
            Chunk::ShutdownAck => self.on_shutdown_ack(),
            Chunk::ShutdownComplete(complete) => {
                if self.identity.accepts_last(inbound, complete.reflected_tag) && self.state.has_finished() {
                    self.close(CloseReason::Shutdown);
                }
                return Onward::Break(());
            }
            Chunk::EData(chunk) => on_e_data(self, now, chunk, packet(self, now, inbound), notes),
            Chunk::EIData(chunk) => on_e_i_data(self, now, chunk, packet(self, now, inbound), notes),
            Chunk::CoopSack(sack) => self.sending(now, |sender, cx| sender.on_coop_sack(cx, &sack)),
            Chunk::ForwardPsn(point) => {
                self.counters.forward_psns_received += 1;
                self.receiver.on_forward_psn(point.0);
            }
            Chunk::ForwardTsn(forward) => on_forward_tsn(self, now, &forward, notes),
            Chunk::IForwardTsn(forward) => on_i_forward_tsn(self, now, &forward, notes),
            Chunk::SelectiveForwardTsn(notice) => on_selective_forward_tsn(self, &notice),
            Chunk::ExtendedForwardTsn(forward) => on_extended_forward_tsn(self, now, &forward, notes),
            Chunk::Ecne(ecne) => {
                if let Some((path, cwr)) = self.sending(now, |sender, cx| sender.on_ecne(cx, &ecne)) {
                    let is_cwr = |chunk: &Chunk| matches!(chunk, Chunk::Cwr(_));
                    self.control.replace(path, Chunk::Cwr(cwr), is_cwr);
                }
            }
            Chunk::Cwr(cwr) => self.sender.on_cwr(self.paths.last_arrival, &cwr),
            Chunk::Asconf(asconf) => {
                let first = !core::mem::replace(&mut notes.asconf, true);
                self.on_asconf(now, inbound, &asconf, first);
            }
            Chunk::AsconfAck(ack) => self.on_asconf_ack(now, &ack),
            Chunk::ReConfig(chunk) => self.reconfigure(now).on_chunk(&chunk, notes),
            _ => return self.on_unknown(raw, notes),
        }
        Onward::Continue(())
    }

    /// DATA or I-DATA arrived, alone or in E-DATA or E-I-DATA.
    pub(super) fn on_data(&mut self, now: Timestamp, arrival: Arrival, notes: &mut PacketNotes) {
        let Arrival {
            fragment,
            immediate,
            carried,
        } = arrival;
        if !self.state.may(permit::TAKE_DATA) || self.reconfiguration.is_former_data(now, fragment.tsn) {
            return;
        }
        notes.data = true;
        notes.immediate |= immediate;
        self.counters.data_chunks_received += 1;
        let (stream, tsn) = (fragment.stream, fragment.tsn);
        let whole = fragment.beginning && fragment.ending;
        let came_by = self.paths.last_arrival;
        let delivery = &mut self.paths.path_mut(came_by).delivery;
        delivery.on_received(fragment.payload.len());
        let verdict = match carried {
            None => self.receiver.on_fragment(fragment),
            Some((transmission, policy)) => {
                self.receiver
                    .on_transmission(transmission, policy, came_by, fragment)
            }
        };
        match verdict {
            Verdict::Accepted => {
                notes.new.get_or_insert(tsn);
            }
            Verdict::Duplicate => self.counters.duplicates_received += 1,
            Verdict::WindowFull | Verdict::OutOfRange => self.counters.dropped_no_room += 1,
            Verdict::Late => {
                notes.new.get_or_insert(tsn);
                self.counters.late_messages += 1;
            }
            Verdict::InvalidStream => {
                let causes = Causes::from_causes(&[Cause::InvalidStreamIdentifier { stream }]);
                self.answer(Chunk::Error(ErrorChunk { causes }), notes);
            }
            Verdict::Violation(what) => self.abort_for_violation(what),
        }
        self.counters.chunks_reneged = self.receiver.reneged();
        if !whole {
            self.counters.messages_repaired = self.receiver.repaired();
        }
    }

    /// An ERROR arrived (§3.3.10): one cause concerns set-up; all causes are reported to the application.
    fn on_error(&mut self, now: Timestamp, error: &ErrorChunk) {
        for cause in error.causes.iter() {
            match cause {
                Ok(Cause::StaleCookie { staleness_us }) => self.on_stale_cookie(now, staleness_us),
                Ok(Cause::UnrecognizedChunkType(chunk)) if chunk.first() == Some(&kind::ASCONF) => {
                    self.on_asconf_unrecognized();
                }
                _ => {}
            }
        }
        if !self.state.is_closed() {
            self.notices.tell_peer_error(&error.causes);
        }
    }

    /// Queues an answer to a chunk of this packet. All answers to a packet leave in one packet; answers that would need a second one are
    /// dropped (§12.4). A peer whose tag is not known yet gets no answer.
    pub(super) fn answer(&mut self, chunk: Chunk, notes: &mut PacketNotes) {
        let to = self.paths.answer_path();
        let signer = self.authentication.signer();
        let auth_len = signer.map_or(0, |signer| signer.overhead(chunk.kind()));
        let room = self.paths.path(to).pmtu.max_packet() - COMMON_HEADER_LEN - auth_len;
        let len = padded(chunk.encoded_len());
        if self.identity.knows_peer() && (notes.answered == 0 || notes.answered + len <= room) {
            notes.answered += len;
            self.control.push(to, chunk);
        }
    }

    /// A chunk of a known type is malformed. A packet without this endpoint's tag, such as an INIT, may come from any host: no ABORT.
    fn on_malformed(&mut self, inbound: &Inbound, error: ChunkError) -> Onward {
        match error {
            _ if !self.identity.is_proven(inbound) || self.authentication.keeps_association() => {}
            ChunkError::NoUserData { tsn } => self.abort_with(
                Cause::NoUserData { tsn },
                CloseReason::ProtocolViolation("a DATA chunk without user data"),
            ),
            _ => self.abort_for_violation("a chunk is malformed"),
        }
        Onward::Break(())
    }

    /// Handles a chunk of unknown type as the two high-order bits of the type demand (§3.2).
    fn on_unknown(&mut self, raw: &RawChunk, notes: &mut PacketNotes) -> Onward {
        let (report, stop) = match unknown_chunk_action(raw.kind) {
            UnknownAction::Discard { report } => (report, true),
            UnknownAction::Skip { report } => (report, false),
        };
        if report {
            let causes = Causes::from_causes(&[Cause::UnrecognizedChunkType(raw.whole())]);
            self.answer(Chunk::Error(ErrorChunk { causes }), notes);
        }
        if stop {
            Onward::Break(())
        } else {
            Onward::Continue(())
        }
    }
}

/// §8.3: every HEARTBEAT is answered to its source, even if that address is not confirmed (§5.4). The HEARTBEAT ACK is as long as the
/// HEARTBEAT, and the queue of control chunks limits how many wait, so that several packets may leave. A HEARTBEAT from a UDP port that no
/// path has is not answered: the answer would confirm a path on which this endpoint sends nothing.
fn on_heartbeat(association: &mut Association, now: Timestamp, inbound: &Inbound, heartbeat: Heartbeat) {
    if association.identity.knows_peer() && !association.paths.is_from_new_port(inbound) {
        let ack = Chunk::HeartbeatAck(HeartbeatAck::answering(heartbeat));
        association.control.push(association.paths.last_arrival, ack);
        association.on_address_tested(now, inbound);
    }
}
