//! The receiving half of an association (RFC 9260 §6.2, §6.5, §6.6, §6.9). DATA becomes a [`Fragment`], whose TSN is recorded
//! (`tsn_tracker`). Fragments are joined to messages (`reassembly`), messages are put in order (`delivery`), and the application
//! reads them. With interleaving (RFC 8260), `interleaved` does both. `acknowledgement`, `ack_timing` and `receive_window`
//! decide what is acknowledged, and when.

mod ack_timing;
mod acknowledgement;
mod cooperative;
mod delivery;
mod forward;
pub(crate) mod interleaved;
mod reassembly;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod reassembly_model;
mod receive_window;
mod renege;
mod tsn_tracker;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod tsn_tracker_model;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use anabranch_wire::{Ppid, StreamId, Tsn};
use bytes::Bytes;

use crate::config::{BufferConfig, Config, SackConfig};
use crate::message::{MessagePart, Payload};
use crate::seq::ExtendedTsn;
use crate::seq::Run;
use crate::time::Timestamp;
use ack_timing::Urgency;
use acknowledgement::{AckContent, Acknowledger};
use delivery::{Held, InboundStreams, Ready, Turn};
use interleaved::{Interleaved, Outlet};
use reassembly::{Assembly, Reassembly};
use receive_window::ReceiveWindow;
use renege::{Place, Renegable};
pub(crate) use tsn_tracker::{Arrival, TsnTracker};

/// A chunk of user data, whatever kind of chunk it came in.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) tsn: Tsn,
    pub(crate) stream: StreamId,
    pub(crate) unordered: bool,
    /// The SSN; the MID of I-DATA.
    pub(crate) sequence: u32,
    /// The FSN of I-DATA; 0 of DATA.
    pub(crate) fsn: u32,
    pub(crate) ppid: Ppid,
    pub(crate) beginning: bool,
    pub(crate) ending: bool,
    pub(crate) payload: Bytes,
    /// Bytes of the datagram that the payload is a slice of: they stay in memory as long as the payload.
    pub(crate) datagram: usize,
}

/// What the receiver did with a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Duplicate,
    /// Dropped, and not recorded: the receive window is full.
    WindowFull,
    /// Dropped, and not recorded: no gap ack block could report it.
    OutOfRange,
    /// Recorded and dropped: its stream has delivered later messages.
    Late,
    /// Recorded and dropped: the peer is told that there is no such stream (§6.5).
    InvalidStream,
    /// It contradicts earlier fragments: the association ends.
    Violation(&'static str),
}

/// A payload of at most this many bytes is copied if it waits among many others or for the rest of its message, so that it does
/// not keep its whole datagram.
const SMALL: usize = 256;

/// If more chunks than this wait, small payloads are copied, and payloads that are a small part of their datagram.
const FEW: usize = 64;

/// As [`FEW`], in packets, for datagrams larger than [`LARGE`]: a peer may send large datagrams of which little is kept.
const FEW_OF_LARGE: usize = 8;

/// Larger than a packet on most networks.
const LARGE: usize = 4096;

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    tracker: TsnTracker,
    acks: Acknowledger,
    window: ReceiveWindow,
    reassembly: Reassembly,
    streams: InboundStreams,
    /// In place of `reassembly` and `streams` if messages interleave.
    interleaved: Option<Box<Interleaved>>,
    inbound_streams: u16,
    /// What the application can read.
    ready: VecDeque<Ready>,
    /// The first TSN of the message of which parts are handed over before it is complete.
    partial: Option<ExtendedTsn>,
    /// A message is handed over in parts from this many bytes, or chunks, on.
    partial_point: usize,
    partial_chunks: usize,
    next_message: u64,
    /// Packets with DATA since the receive window was last empty.
    packets: usize,
    sack: SackConfig,
    /// Data that gap ack blocks acknowledged and that may be dropped when the receive window is full.
    renegable: Renegable,
    reneged: u64,
    /// The highest TSN that counts as arrived because the sender abandoned it.
    forwarded: ExtendedTsn,
    max_chunks: usize,
}

impl Receiver {
    pub(crate) fn new(initial_tsn: Tsn, inbound_streams: u16, config: &Config) -> Self {
        let buffers = &config.buffers;
        let sack = &config.sack;
        Self {
            tracker: TsnTracker::new(initial_tsn),
            acks: Acknowledger::new(sack),
            window: ReceiveWindow::new(buffers),
            reassembly: Reassembly::default(),
            streams: InboundStreams::default(),
            interleaved: None,
            inbound_streams,
            ready: VecDeque::new(),
            partial: None,
            partial_point: buffers.partial_delivery_point.min(buffers.receive as usize / 2),
            partial_chunks: (buffers.max_chunks / 2).max(1),
            next_message: 0,
            packets: 0,
            sack: sack.clone(),
            renegable: Renegable::new(config.nr_sack.may_renege),
            reneged: 0,
            forwarded: 0,
            max_chunks: buffers.max_chunks,
        }
    }

    /// Begins anew, as after a restart of the peer (§5.2.4 A). The application can still read complete messages. Incomplete
    /// messages are dropped; if parts of one were handed over, its ending part never comes.
    pub(crate) fn reset(&mut self, initial_tsn: Tsn, inbound_streams: u16) {
        self.tracker = TsnTracker::new(initial_tsn);
        self.acks.reset(&self.sack);
        for (bytes, chunks) in [self.reassembly.clear(), self.streams.clear()] {
            self.window.release(bytes, chunks);
        }
        if let Some((interleaved, mut outlet)) = self.interleaved() {
            interleaved.end(&mut outlet);
            self.interleaved = None;
        }
        self.renegable.clear();
        self.partial = None;
        self.inbound_streams = inbound_streams;
        self.forwarded = 0;
    }

    /// NR-SACK was negotiated.
    pub(crate) fn use_nr_sack(&mut self) {
        self.acks.use_nr_sack();
    }

    /// ECA-SCTP was negotiated: acknowledgements name transmissions.
    pub(crate) fn acknowledge_by_transmission(&mut self) {
        self.acks.use_coop_sack();
    }

    /// Interleaving (RFC 8260) was negotiated.
    pub(crate) fn use_interleaving(&mut self, buffers: &BufferConfig) {
        self.interleaved = Some(Box::new(Interleaved::new(buffers)));
    }

    /// What joins messages that interleave, and where complete messages go.
    fn interleaved(&mut self) -> Option<(&mut Interleaved, Outlet<'_>)> {
        let interleaved = self.interleaved.as_deref_mut()?;
        let outlet = Outlet {
            ready: &mut self.ready,
            window: &mut self.window,
            renegable: &mut self.renegable,
            next_message: &mut self.next_message,
        };
        Some((interleaved, outlet))
    }

    /// Streams from the peer.
    pub(crate) fn inbound_streams(&self) -> u16 {
        self.inbound_streams
    }

    /// A chunk of user data came in.
    pub(crate) fn on_fragment(&mut self, mut fragment: Fragment) -> Verdict {
        let tsn = match self.tracker.classify(fragment.tsn) {
            Arrival::New(tsn) => tsn,
            Arrival::Duplicate => {
                self.acks.timing.note(Urgency::AtOnce);
                return Verdict::Duplicate;
            }
            Arrival::OutOfRange => {
                self.acks.timing.note(Urgency::AtOnce);
                return Verdict::OutOfRange;
            }
        };
        let len = fragment.payload.len();
        let next_in_order = tsn == self.tracker.cumulative() + 1;
        if next_in_order && self.renegable.enabled {
            self.renege_for(len);
        }
        if !self
            .window
            .accepts(len, next_in_order, self.tracker.has_gaps(), self.is_readable())
        {
            self.acks.timing.note(Urgency::AtOnce);
            return Verdict::WindowFull;
        }
        // A gap is open, or this chunk opens or closes one: the sender wants to know (§6.7).
        if !next_in_order || self.tracker.has_gaps() {
            self.acks.timing.note(Urgency::Gap);
        }
        self.tracker.record(tsn);
        let whole = fragment.beginning && fragment.ending;
        let known_stream = fragment.stream.0 < self.inbound_streams;
        let alone = whole || !known_stream;
        if alone && !self.reassembly.is_empty() && self.reassembly.expects(tsn) {
            return Verdict::Violation("a message stands in the middle of another");
        }
        if !known_stream {
            self.acks.timing.note(Urgency::AtOnce);
            return Verdict::InvalidStream;
        }
        if !fragment.beginning && self.reassembly.is_orphan(tsn, self.forwarded) {
            self.drop_orphan(tsn);
            return Verdict::Accepted;
        }
        if self.window.chunks() == 0 {
            self.packets = 0;
        }
        self.window.take(len);
        let many = if fragment.datagram > LARGE {
            self.packets >= FEW_OF_LARGE
        } else {
            self.window.chunks() > FEW
        };
        // Parts of a message also wait in the application, until it has joined them.
        if (many && len <= SMALL) || ((many || !whole) && len * 4 < fragment.datagram) {
            fragment.payload = Bytes::copy_from_slice(&fragment.payload);
        }
        match self.interleaved() {
            Some((interleaved, mut outlet)) => interleaved.on_fragment(tsn, fragment, &mut outlet),
            None if whole => self.on_whole(tsn, fragment),
            None => self.on_part(tsn, fragment),
        }
    }

    /// A message in one fragment.
    #[inline(always)]
    fn on_whole(&mut self, tsn: ExtendedTsn, fragment: Fragment) -> Verdict {
        let part = MessagePart {
            stream: fragment.stream,
            ppid: fragment.ppid,
            unordered: fragment.unordered,
            message: self.number(),
            beginning: true,
            ending: true,
            truncated: false,
            payload: fragment.payload.into(),
        };
        let held = Held {
            part,
            first: tsn,
            chunks: 1,
        };
        let verdict = self.deliver(tsn, fragment.sequence, held);
        if !self.reassembly.is_empty() {
            self.seek_partial();
        }
        verdict
    }

    /// A fragment of a message whose TSNs follow each other.
    fn on_part(&mut self, tsn: ExtendedTsn, fragment: Fragment) -> Verdict {
        let tracker = &self.tracker;
        match self
            .reassembly
            .insert(tsn, fragment, |neighbour| tracker.contains(neighbour))
        {
            Ok(first) => {
                if self.partial != Some(first) {
                    self.renegable.add(Run::of(tsn));
                }
                self.on_assembly(first)
            }
            Err(what) => Verdict::Violation(what),
        }
    }

    fn number(&mut self) -> u64 {
        let number = self.next_message;
        self.next_message += 1;
        number
    }

    /// A run of fragments has grown: it may be complete now, or large enough to be handed over in parts.
    fn on_assembly(&mut self, first: ExtendedTsn) -> Verdict {
        let complete = self.reassembly.assembly(first).is_some_and(Assembly::is_complete);
        let assembly = complete.then(|| self.reassembly.remove(first)).flatten();
        let verdict = match assembly {
            Some(assembly) => {
                self.renegable.remove(assembly.whole());
                self.partial = self.partial.filter(|partial| *partial != first);
                self.complete(assembly)
            }
            None => {
                self.note_partial();
                Verdict::Accepted
            }
        };
        self.seek_partial();
        verdict
    }

    /// Begins to hand over the lowest message in parts if it is large, its turn has come and nothing below it is missing. No
    /// other message needs this: the next TSN in order belongs to the lowest one. A message beyond a gap must wait, because the
    /// message in the gap may need the receive window, and only one message at a time is handed over in parts.
    fn seek_partial(&mut self) {
        if self.partial.is_some() {
            return;
        }
        let Some(lowest) = self.reassembly.lowest() else {
            return;
        };
        let large = lowest.bytes >= self.partial_point || lowest.payloads.len() >= self.partial_chunks;
        if large
            && lowest.first <= self.tracker.cumulative()
            && lowest.has_beginning()
            && (lowest.unordered || self.streams.turn(lowest.stream, lowest.sequence, 0) == Turn::Now)
        {
            self.partial = Some(lowest.first);
            self.note_partial();
        }
    }

    /// The message that is handed over in parts is not renegable.
    fn note_partial(&mut self) {
        if self.renegable.enabled
            && let Some(run) = self.partial.and_then(|first| self.reassembly.assembly(first))
        {
            self.renegable.remove(run.whole());
        }
    }

    /// All fragments of a message are there.
    fn complete(&mut self, assembly: Assembly) -> Verdict {
        let chunks = assembly.payloads.len();
        let message = assembly.handed_over.unwrap_or_else(|| self.number());
        let part = MessagePart {
            stream: assembly.stream,
            ppid: assembly.ppid,
            unordered: assembly.unordered,
            message,
            beginning: assembly.handed_over.is_none(),
            ending: true,
            truncated: false,
            payload: Payload::from(Vec::from(assembly.payloads)),
        };
        let held = Held {
            part,
            first: assembly.first,
            chunks,
        };
        self.deliver(assembly.first, assembly.sequence, held)
    }

    /// The message with the first TSN `first` is complete: the application can read it now, or it waits for its turn.
    #[inline]
    fn deliver(&mut self, first: ExtendedTsn, sequence: u32, held: Held) -> Verdict {
        let stream = held.part.stream;
        if held.part.unordered {
            self.ready.push_back(Ready::Message(held));
            return Verdict::Accepted;
        }
        let missing_below = first.saturating_sub(self.tracker.cumulative() + 1);
        match self.streams.turn(stream, sequence, missing_below) {
            Turn::Now => {
                self.ready.push_back(Ready::Message(held));
                let (ready, renegable) = (&mut self.ready, &mut self.renegable);
                self.streams.advance(stream, |next| {
                    renegable.remove_message(&next);
                    ready.push_back(Ready::Message(next));
                });
            }
            Turn::Later => {
                let last = held.first + held.chunks as ExtendedTsn - 1;
                match self.streams.keep(sequence, held) {
                    Ok(number) => {
                        let place = Place::Waits(stream, number);
                        self.renegable.add_at(Run { first, last }, place);
                    }
                    Err(second) => self.drop_held(&second),
                }
            }
            Turn::Past => {
                self.drop_held(&held);
                return Verdict::Late;
            }
            Turn::Skipped => return Verdict::Violation("an ordered message was left out"),
        }
        Verdict::Accepted
    }

    /// Drops a message whose SSN was used before, which is an error of the peer.
    fn drop_held(&mut self, held: &Held) {
        self.window.release(held.part.payload.len(), held.chunks);
    }

    /// The next message, or part of one.
    pub(crate) fn recv(&mut self, now: Timestamp) -> Option<MessagePart> {
        let held = match self.ready.pop_front() {
            Some(Ready::Message(held)) => held,
            Some(Ready::Grown(key)) => {
                let (held, again) = self.interleaved.as_mut()?.take_grown(key)?;
                if again {
                    self.ready.push_front(Ready::Grown(key));
                }
                held
            }
            None => self.take_partial()?,
        };
        let len = held.part.payload.len();
        self.window.release(len, held.chunks);
        self.window.on_read(now, len);
        Some(held.part)
    }

    /// The fragments that have arrived of the message that is handed over in parts.
    fn take_partial(&mut self) -> Option<Held> {
        let number = self.next_message;
        let assembly = self.reassembly.assembly_mut(self.partial?)?;
        if assembly.payloads.is_empty() {
            return None;
        }
        let beginning = assembly.handed_over.is_none();
        let message = *assembly.handed_over.get_or_insert(number);
        let payloads = Vec::from(core::mem::take(&mut assembly.payloads));
        let held = Held {
            first: assembly.first,
            chunks: payloads.len(),
            part: MessagePart {
                stream: assembly.stream,
                ppid: assembly.ppid,
                unordered: assembly.unordered,
                message,
                beginning,
                ending: false,
                truncated: false,
                payload: payloads.into(),
            },
        };
        assembly.bytes = 0;
        self.next_message += u64::from(beginning);
        Some(held)
    }

    /// Whether [`Receiver::recv`] would return a message or part.
    pub(crate) fn is_readable(&self) -> bool {
        let partial = self.partial.and_then(|first| self.reassembly.assembly(first));
        !self.ready.is_empty() || partial.is_some_and(|assembly| !assembly.payloads.is_empty())
    }

    /// After the last chunk of a packet with DATA; `immediate` if a chunk had the I bit, `several_paths` if the sender uses
    /// several paths at once.
    pub(crate) fn on_packet(&mut self, now: Timestamp, immediate: bool, several_paths: bool) {
        self.packets += 1;
        if immediate || self.window.a_rwnd() == 0 {
            self.acks.timing.note(Urgency::AtOnce);
        }
        self.acks.timing.on_packet(now, several_paths);
    }

    /// Makes an acknowledgement due whatever the rules of §6.2 say.
    pub(crate) fn force_ack(&mut self) {
        self.acks.timing.force();
    }

    /// Whether an acknowledgement must leave.
    pub(crate) fn ack_due(&self) -> bool {
        self.acks.timing.is_due()
    }

    /// Whether an acknowledgement may be bundled with data (§6.2).
    pub(crate) fn ack_pending(&self) -> bool {
        self.acks.timing.is_pending()
    }

    /// When a delayed acknowledgement becomes due.
    pub(crate) fn ack_deadline(&self) -> Option<Timestamp> {
        self.acks.timing.deadline()
    }

    pub(crate) fn on_ack_timer(&mut self, now: Timestamp) {
        self.acks.timing.on_timer(now);
    }

    /// Bytes that all gap ack blocks take in the next acknowledgement.
    pub(crate) fn gap_blocks_len(&self) -> usize {
        4 * self.tracker.runs()
    }

    /// Hands the content of a SACK or NR-SACK to `write`; it fits a chunk of `room` bytes. Gap ack blocks come before duplicates,
    /// low ones before high ones.
    pub(crate) fn build_ack<R>(&mut self, room: usize, write: impl FnOnce(AckContent<'_>) -> R) -> R {
        self.acks
            .build(room, &mut self.tracker, &self.renegable, &mut self.window, write)
    }

    /// Whether the application has read so much that the peer should learn of the larger receive window at once.
    pub(crate) fn window_update_due(&self) -> bool {
        self.window.has_opened()
    }

    pub(crate) fn cumulative_tsn(&self) -> Tsn {
        self.tracker.cumulative_tsn()
    }

    pub(crate) fn a_rwnd(&self) -> u32 {
        self.window.a_rwnd()
    }

    /// Bytes of complete and incomplete messages that the application has not read.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.window.bytes()
    }
}
