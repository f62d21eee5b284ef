//! The sending half of an association (RFC 9260 §6.1, §6.3, §7): queued messages, outstanding chunks, and the chunks sent with them.
//!
//! A packet is sent in these steps: `abandonment` drops expired messages (RFC 3758), `eligibility` decides whether a chunk may leave and on
//! which path (§6.1; `several_paths` for multipath transfer), `assemble` builds the packet (§6.10) with the chunks of each `source`. A received
//! SACK is processed in `acknowledgement` (§6.2.1). `timeout` has T3-rtx (§6.3.3), `loss_timers` the timers of
//! RACK-TLP (RFC 8985), `peer_window` the peer's receive window (§6.2.1) and `congestion_echo` ECN.

mod abandonment;
mod acknowledgement;
mod assemble;
mod confirmations;
mod congestion_echo;
mod eligibility;
mod explain;
mod in_time;
mod loss_timers;
mod peer_window;
mod several_paths;
mod source;
mod timeout;

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::chunk::GapAckBlock;
use anabranch_wire::packet::CommonHeader;
use anabranch_wire::{StreamId, Tsn};

use self::confirmations::Confirmations;
pub(crate) use assemble::write_packet;
pub(crate) use peer_window::PeerWindow;

use crate::association_state::{AssociationState, permit};
use crate::config::Config;
use crate::control::ControlQueue;
use crate::dscp::Dscp;
use crate::ecn::EcnCodepoint;
use crate::event::{Acknowledged, Undelivered};
use crate::extension::ControlSources;
use crate::extension::auth::Signer;
use crate::extension::early_copies::PlannedCopies;
use crate::extension::protection::Protection;
use crate::extension::repair::Sent;
use crate::message::{AbandonPolicy, Persistence};
use crate::negotiation::{Capabilities, Negotiated};
use crate::path::{Path, PathId, Paths};
use crate::receive::Receiver;
use crate::recovery::{AckOutcome, Outstanding};
use crate::send::{SendBuffer, SendQueue};
use crate::stats::Counters;
use crate::time::Timestamp;
use crate::trace_event::Blocked;

/// A batch of datagrams for one destination, written to the buffer given to [`crate::Association::poll_transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The path on which the batch is sent.
    pub path: PathId,
    /// The local address to send from; `None` if the operating system chooses it.
    pub source: Option<IpAddr>,
    /// The destination: address and UDP port (0 without encapsulation).
    pub destination: SocketAddr,
    /// Bytes written to the buffer.
    pub len: usize,
    /// If the batch has several datagrams: the length of each datagram but the last, which may be shorter.
    pub segment_size: Option<usize>,
    /// Whether IP may fragment the packet (RFC 9260 §7.3): it has a chunk that already has its TSN and no longer fits the path. Send all
    /// other packets with "don't fragment", as path MTU discovery requires.
    pub may_fragment: bool,
    /// The ECN codepoint of all packets of the batch. ECT(0) if ECN was negotiated, the path is not known to drop such packets, and the
    /// packets have DATA chunks sent for the first time and otherwise only acknowledgements, CWR, FORWARD-TSN and notices. All other
    /// packets are Not-ECT: set-up, heartbeats and other control chunks, retransmissions (RFC 3168 §6.1.5), probes of a closed window
    /// (§6.1.6) and path MTU probes.
    pub ecn: EcnCodepoint,
    /// The Differentiated Services codepoint of all packets of the batch.
    pub dscp: Dscp,
}

/// The other parts of the association that a step of the sender uses.
pub(crate) struct Cx<'a> {
    pub(crate) now: Timestamp,
    pub(crate) config: &'a Config,
    pub(crate) paths: &'a mut Paths,
    pub(crate) counters: &'a mut Counters,
    pub(crate) state: AssociationState,
    pub(crate) capabilities: Capabilities,
    /// Signs the chunks that the peer requires to be authenticated (RFC 4895), if there are any.
    pub(crate) signer: Option<&'a Signer>,
}

impl Cx<'_> {
    /// Whether DATA chunks may leave: the association has come so far, and a path is confirmed (§5.4).
    fn may_send_data(&self) -> bool {
        self.state.may(permit::SEND_DATA) && !self.paths.awaits_confirmation()
    }

    /// Bytes that an AUTH chunk takes in a packet whose first chunk that needs one is of this type.
    fn auth_len(&self, kind: u8) -> usize {
        self.signer.map_or(0, |signer| signer.overhead(kind))
    }
}

/// The parts of an association from which packets are built.
pub(crate) struct Assembler<'a> {
    pub(crate) sender: &'a mut Sender,
    pub(crate) receiver: &'a mut Receiver,
    pub(crate) control: &'a mut ControlQueue,
    pub(crate) protection: &'a mut Protection,
    /// The ports, and the peer's verification tag.
    pub(crate) header: CommonHeader,
    /// Data of this batch made a path MTU probe due.
    pub(crate) probe_due: bool,
}

/// Events in the sender that concern the association, until the association takes them.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// Messages that were abandoned.
    pub(crate) abandoned: Vec<Undelivered>,
    /// Messages that were acknowledged, and whose application wants to learn of that.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Paths whose state changed.
    pub(crate) changed: Vec<PathId>,
    /// The peer acknowledged data: the association's error counter is reset (§8.1).
    pub(crate) answered: bool,
    /// The peer violated the protocol.
    pub(crate) violation: Option<&'static str>,
}

impl Happened {
    /// Whether there are such events.
    fn concerns_others(&self) -> bool {
        self.abandoned.len() + self.acknowledged.len() + self.changed.len() > 0 || self.violation.is_some()
    }
}

/// The sources (`source`) that an association has, a bit for each: the others are not asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceSet(u16);

/// The sending half of an association.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) queue: SendQueue,
    pub(crate) outstanding: Outstanding,
    pub(crate) window: PeerWindow,
    /// When the closed window of the peer is probed (§6.1 A).
    window_probe: Option<Timestamp>,
    pub(crate) buffer: SendBuffer,
    /// When messages are abandoned.
    policy: AbandonPolicy,
    sources: ControlSources,
    copies: PlannedCopies,
    repairs: Sent,
    pub(crate) confirmations: Confirmations,
    /// Whether a message with a deadline was sent.
    pub(crate) serves_deadlines: bool,
    pub(crate) happened: Happened,
    /// Nothing was found to send, and nothing will be until the time or anything else changes.
    pub(crate) found_nothing: bool,
    /// The sources that this association has.
    present: SourceSet,
    /// Why no DATA left when the sender was last asked for a packet.
    blocked: Blocked,
    /// When the sender was last asked for a packet.
    asked: Timestamp,
    /// When the timers of loss detection were last checked.
    loss_timers_ran: Timestamp,
    /// Kept between acknowledgements to reuse their memory.
    outcome: AckOutcome,
    ack_blocks: [Vec<GapAckBlock>; 2],
}

impl Sender {
    pub(crate) fn new(initial_tsn: Tsn, config: &Config) -> Self {
        Self {
            queue: SendQueue::new(config.streams.outbound, config.scheduler),
            outstanding: Outstanding::new(initial_tsn, config.recovery, config.multipath),
            window: PeerWindow::default(),
            window_probe: None,
            buffer: SendBuffer::new(config.buffers.send, config.buffers.stream_shares),
            policy: AbandonPolicy::default(),
            sources: ControlSources::new(config),
            copies: PlannedCopies::default(),
            repairs: Sent::default(),
            confirmations: Confirmations::default(),
            serves_deadlines: false,
            happened: Happened::default(),
            found_nothing: false,
            present: SourceSet::of(Capabilities::default(), config),
            blocked: Blocked::State,
            asked: Timestamp::ZERO,
            loss_timers_ran: Timestamp::ZERO,
            outcome: AckOutcome::default(),
            ack_blocks: Default::default(),
        }
    }

    /// The peer restarted (§5.2.4 A): nothing is outstanding, and all state that names an old path is dropped.
    pub(crate) fn restart(&mut self, initial_tsn: Tsn, config: &Config) {
        let journal = core::mem::take(&mut self.outstanding.journal);
        self.outstanding = Outstanding::new(initial_tsn, config.recovery, config.multipath);
        self.outstanding.journal = journal;
        self.sources = ControlSources::new(config);
        self.copies = PlannedCopies::default();
        self.repairs = Sent::default();
        self.window_probe = None;
    }

    /// Adopts the values negotiated at set-up; returns the messages queued for streams that do not exist.
    pub(crate) fn adopt(
        &mut self,
        cx: &mut Cx<'_>,
        capabilities: Capabilities,
        negotiated: &Negotiated<'_>,
    ) -> Vec<Undelivered> {
        let format = capabilities.data_format();
        self.present = SourceSet::of(capabilities, cx.config);
        self.window = PeerWindow::new(negotiated.peer_rwnd);
        if format.numbers_transmissions() {
            self.outstanding
                .name_sendings(cx.config.multipath.eca.time_rule, cx.paths);
        }
        self.policy = AbandonPolicy::Never;
        if capabilities.has(Capabilities::PARTIAL_RELIABILITY) {
            self.policy = AbandonPolicy::Partial;
            let distance = cx.config.partial_reliability.selective_forward_tsn;
            if let Some(distance) = distance.filter(|_| capabilities.has(Capabilities::SELECTIVE_FORWARD_TSN))
            {
                self.sources.notices.enable(distance, format);
            }
        }
        if capabilities.has(Capabilities::EXTENDED_FORWARD_TSN) {
            self.outstanding.track_skippable();
            self.sources.extended.enable();
        }
        self.repairs.enable(capabilities.has(Capabilities::REPAIR));
        self.sources.ecn.set_enabled(capabilities.has(Capabilities::ECN));
        self.sources.forward.set_format(format);
        self.queue.set_format(format);
        let unsent = self.queue.set_stream_count(negotiated.outbound_streams);
        unsent
            .iter()
            .for_each(|unsent| self.buffer.free(unsent.stream, unsent.size));
        unsent.iter().map(|unsent| unsent.undelivered()).collect()
    }

    /// Whether nothing is queued and nothing is outstanding.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.outstanding.is_empty()
    }

    /// Stops all timers.
    pub(crate) fn stop(&mut self) {
        self.window_probe = None;
        self.copies = PlannedCopies::default();
        self.repairs = Sent::default();
        self.blocked = Blocked::State;
    }

    /// Why no data leaves, if data waits: for the trace.
    pub(crate) fn waits_for(&self) -> Option<Blocked> {
        let waits = !self.queue.is_empty() || self.outstanding.first_lost().is_some();
        waits.then_some(self.blocked)
    }

    /// Nothing may leave for now, so that no timer waits for it.
    pub(crate) fn pause(&mut self, now: Timestamp) {
        self.asked = now;
        self.blocked = Blocked::State;
    }

    /// When the first of the timers that belong to no path expires.
    pub(crate) fn deadline(&self, config: &Config) -> Option<Timestamp> {
        let forward = self.sources.forward.timer(&self.outstanding);
        let paced = match self.blocked {
            Blocked::Pacer(until) => Some(until),
            _ => None,
        };
        let copy = self.copies.timer(self.asked);
        let repair = self.repairs.timer(self.asked);
        let timers = [
            self.window_probe,
            forward,
            self.expiry(config),
            paced,
            copy,
            repair,
        ];
        timers.into_iter().flatten().min()
    }

    /// Handles the expiry of the window probe timer, if it has expired.
    pub(crate) fn on_window_probe_timer(&mut self, now: Timestamp) {
        if self.window_probe.take_if(|due| *due <= now).is_some() {
            self.window.on_probe_timer();
        }
    }
}

/// The send buffer.
impl Sender {
    /// Whether a stream accepts a message of `len` bytes.
    pub(crate) fn has_room(&self, stream: StreamId, len: usize) -> bool {
        self.buffer.has_room(stream, self.queue.class(stream), len)
    }

    /// A message, or a part of one, was queued.
    #[inline]
    pub(crate) fn count(&mut self, stream: StreamId, bytes: usize) {
        self.buffer.add(stream, self.queue.class(stream), bytes);
        self.count_items();
    }

    #[inline]
    fn count_items(&mut self) {
        self.buffer.set_items(self.queue.parts() + self.outstanding.len());
    }

    /// A message of `len` bytes was refused because there is no room.
    pub(crate) fn refuse(&mut self, stream: StreamId, len: usize) {
        self.buffer.refuse(stream, self.queue.class(stream), len);
    }

    /// Whether something happened that concerns the association.
    pub(crate) fn has_news(&self) -> bool {
        self.happened.concerns_others() || self.queue.has_low()
    }

    /// Frees send buffer for a message of `len` bytes if there is no room: by enlarging the buffer, or by abandoning less important
    /// messages.
    pub(crate) fn make_room_for(
        &mut self,
        cx: &mut Cx<'_>,
        stream: StreamId,
        len: usize,
        persistence: Persistence,
    ) -> bool {
        loop {
            if self.has_room(stream, len) {
                return true;
            }
            if !self.grow(cx) {
                return self.make_room(cx, stream, len, persistence);
            }
        }
    }

    /// Enlarges the send buffer if half of it is in flight: the network could carry more. A buffer of short messages is full before it has
    /// as many bytes as its limit.
    fn grow(&mut self, cx: &Cx<'_>) -> bool {
        let buffers = &cx.config.buffers;
        let most = buffers.send.saturating_mul(buffers.growth as usize);
        let limit = self.buffer.limit();
        let full = limit.min(self.buffer.bytes()).max(2);
        let grows = limit < most && cx.paths.payload_in_flight() >= full / 2;
        if grows {
            self.buffer.set_limit((2 * limit).min(most));
        }
        grows
    }

    /// The priority classes of the streams have changed.
    pub(crate) fn sort_buffer(&mut self) {
        let queue = &self.queue;
        self.buffer
            .set_classes(queue.classes(), |stream| queue.class(stream));
    }

    /// Called after each step: counts what was acknowledged or abandoned, and stops T3-rtx where nothing is left in flight.
    #[inline]
    pub(crate) fn settle(&mut self, paths: &mut Paths) {
        paths.iter_mut().for_each(Path::settle_t3);
        if self.outstanding.has_freed() {
            for (stream, bytes) in self.outstanding.take_freed() {
                self.buffer.free(stream, bytes);
            }
        }
        self.count_items();
        debug_assert_eq!(self.buffer.bytes(), self.queue.bytes() + self.outstanding.bytes());
    }
}
