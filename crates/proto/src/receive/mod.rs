//! The receiving half of an association (RFC 9260 §6.2, §6.5, §6.6, §6.9). A DATA chunk becomes a [`Fragment`], whose TSN is recorded
//! (`tsn_tracker`). `sequential` joins fragments to messages (`reassembly`) and orders the messages (`delivery`); with interleaving (RFC
//! 8260), `interleaved` does both. `acknowledgement`, `ack_timing` and `receive_window` decide the content and the time of
//! acknowledgements.

mod ack_timing;
mod acknowledgement;
mod cooperative;
mod deferral;
mod delivery;
mod forward;
mod fragment;
mod held;
pub(crate) mod interleaved;
mod load;
mod ready;
mod reassembly;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod reassembly_model;
mod receive_window;
mod renegable;
mod renege;
mod reset;
mod sequential;
mod tsn_tracker;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod tsn_tracker_model;

#[cfg(test)]
mod tests;

use anabranch_wire::{StreamId, Tsn};
use bytes::Bytes;

use crate::config::{BufferConfig, Config, SackConfig};
use crate::message::{MessagePart, NextItem, StreamItem};
use crate::seq::{ExtendedTsn, Run};
use crate::time::Timestamp;
use crate::trace_event::TraceKind;
use ack_timing::Urgency;
use acknowledgement::{AckContent, Acknowledger};
use deferral::Deferral;
use delivery::Outlet;
pub(crate) use fragment::{Fragment, Origin, Verdict};
use held::Held;
use interleaved::Interleaved;
use load::{GAP, Load};
pub(crate) use ready::StreamNews;
use ready::{Ready, ReadyQueue};
use receive_window::{ReceiveWindow, SPARE};
use renegable::Renegable;
use sequential::Sequential;
pub(crate) use tsn_tracker::{Arrival, TsnTracker};

/// The incomplete messages and those whose turn has not come.
#[derive(Debug)]
enum Messages {
    Sequential(Sequential),
    /// Used if interleaving (RFC 8260) was negotiated.
    Interleaved(Box<Interleaved>),
}

impl Messages {
    /// The memory in bytes that they use beside their chunks.
    fn overhead(&self) -> usize {
        match self {
            Self::Sequential(sequential) => sequential.overhead(),
            Self::Interleaved(interleaved) => interleaved.overhead(),
        }
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    tracker: TsnTracker,
    acks: Acknowledger,
    window: ReceiveWindow,
    messages: Messages,
    inbound_streams: u16,
    ready: ReadyQueue,
    next_message: u64,
    sack: SackConfig,
    buffers: BufferConfig,
    /// Data that gap ack blocks acknowledged and that the receiver may drop if the receive window is full.
    renegable: Renegable,
    reneged: u64,
    /// Messages repaired before the peer restarted.
    repaired: u64,
    /// The last short message of the packet that is being handled, if it was delivered at once.
    sharing: Option<u64>,
    /// Data that waits for a reset of its stream (RFC 6525).
    deferral: Option<Box<Deferral>>,
    /// With protected packets: the cumulative TSN before the first chunk, and the chunks of the messages of key management that were read.
    keys: (ExtendedTsn, u64),
}

impl Receiver {
    pub(crate) fn new(initial_tsn: Tsn, inbound_streams: u16, config: &Config) -> Self {
        let buffers = &config.buffers;
        let sack = &config.sack;
        Self {
            tracker: TsnTracker::new(initial_tsn),
            acks: Acknowledger::new(sack),
            window: ReceiveWindow::new(buffers),
            messages: Messages::Sequential(Sequential::new(buffers)),
            inbound_streams,
            ready: ReadyQueue::default(),
            next_message: 0,
            sack: sack.clone(),
            buffers: buffers.clone(),
            renegable: Renegable::new(config.nr_sack.may_renege),
            reneged: 0,
            repaired: 0,
            sharing: None,
            deferral: None,
            keys: (0, 0),
        }
    }

    /// Delays acknowledgements as these settings say from now on.
    pub(crate) fn adopt_delay(&mut self, config: &SackConfig) {
        self.sack = config.clone();
        self.acks.timing.set_delay(config.delay);
    }

    /// Starts again, as after a restart of the peer (§5.2.4 A). The application can still read complete messages. Incomplete messages are
    /// dropped; if parts of one were delivered, its last part never comes.
    pub(crate) fn reset(&mut self, initial_tsn: Tsn, inbound_streams: u16) {
        self.tracker = TsnTracker::new(initial_tsn);
        self.acks.reset(&self.sack);
        match self.messages() {
            (Messages::Sequential(sequential), mut out, _) => sequential.clear(&mut out),
            (Messages::Interleaved(interleaved), mut out, _) => interleaved.end(&mut out),
        }
        self.repaired = self.repaired();
        self.messages = Messages::Sequential(Sequential::new(&self.buffers));
        self.renegable.clear();
        for fragment in self.take_held().values() {
            self.window.release(Load::of(fragment));
        }
        self.inbound_streams = inbound_streams;
    }

    /// Tells the application that the streams that it reads separately begin anew.
    pub(crate) fn tell_reset(&mut self) {
        self.ready.on_reset_of_all();
    }

    /// Packets are protected: messages of key management are read by [`Receiver::recv_key_management`] alone.
    pub(crate) fn divert_key_management(&mut self) {
        self.keys = (self.tracker.cumulative(), 0);
        self.ready.divert_key_management();
    }

    /// Whether a message of key management can be read.
    pub(crate) fn has_key_management(&self) -> bool {
        self.ready.has_key_management()
    }

    /// The next message of key management.
    pub(crate) fn recv_key_management(&mut self, now: Timestamp) -> Option<MessagePart> {
        let held = self.ready.pop_key_management()?;
        self.keys.1 += u64::from(held.chunks);
        Some(self.hand_over(now, held))
    }

    /// Whether each chunk that arrived was of a message of key management that was read.
    pub(crate) fn has_only_key_management(&self) -> bool {
        let (first, chunks) = self.keys;
        self.tracker.cumulative() == first + chunks && !self.tracker.has_gaps() && self.unread_bytes() == 0
    }

    /// Whether acknowledgements are NR-SACKs.
    pub(crate) fn uses_nr_sack(&self) -> bool {
        self.acks.uses_nr_sack()
    }

    /// NR-SACK was negotiated.
    pub(crate) fn use_nr_sack(&mut self) {
        self.acks.use_nr_sack();
    }

    /// ECA-SCTP was negotiated: acknowledgements are about transmissions.
    pub(crate) fn acknowledge_by_transmission(&mut self) {
        self.acks.use_coop_sack();
    }

    /// Interleaving (RFC 8260) was negotiated.
    pub(crate) fn use_interleaving(&mut self, buffers: &BufferConfig) {
        self.messages = Messages::Interleaved(Box::new(Interleaved::new(buffers)));
    }

    /// Repair of messages was negotiated, which needs interleaving.
    pub(crate) fn use_repair(&mut self) {
        if let Messages::Interleaved(interleaved) = &mut self.messages {
            interleaved.use_repair();
        }
    }

    /// Messages repaired.
    pub(crate) fn repaired(&self) -> u64 {
        let now = match &self.messages {
            Messages::Sequential(_) => 0,
            Messages::Interleaved(interleaved) => interleaved.repaired(),
        };
        self.repaired + now
    }

    /// The messages in progress, where complete messages go, and the TSNs that have arrived.
    fn messages(&mut self) -> (&mut Messages, Outlet<'_>, &TsnTracker) {
        let outlet = Outlet {
            ready: &mut self.ready,
            window: &mut self.window,
            renegable: &mut self.renegable,
            next_message: &mut self.next_message,
        };
        (&mut self.messages, outlet, &self.tracker)
    }

    /// Starts or stops recording trace events.
    pub(crate) fn trace(&mut self, on: bool) {
        self.ready.trace(on);
    }

    /// The trace events since the last call.
    pub(crate) fn take_trace(&mut self) -> Vec<TraceKind> {
        self.ready.take_trace()
    }

    /// Whether a chunk with this TSN would be new.
    pub(crate) fn is_new(&self, tsn: Tsn) -> bool {
        matches!(self.tracker.place(self.tracker.extend(tsn)), Arrival::New(_))
    }

    /// The lowest missing TSN, if it is below this one.
    pub(crate) fn missing_below(&self, tsn: Tsn) -> Option<Tsn> {
        let lowest = self.tracker.cumulative() + 1;
        (self.tracker.extend(tsn) > lowest).then_some(Tsn(lowest as u32))
    }

    /// Streams from the peer.
    pub(crate) fn inbound_streams(&self) -> u16 {
        self.inbound_streams
    }

    /// A chunk of user data arrived.
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
        if !self.window.accepts(
            len,
            self.overhead(),
            next_in_order,
            self.tracker.has_gaps(),
            self.has_unread(),
        ) {
            self.acks.timing.note(Urgency::AtOnce);
            return Verdict::WindowFull;
        }
        // There is a gap, or this chunk opens or closes one: the sender needs an acknowledgement at once (§6.7).
        if !next_in_order || self.tracker.has_gaps() {
            self.acks.timing.note(Urgency::Gap);
        }
        self.tracker.record(tsn);
        let whole = fragment.beginning && fragment.ending;
        let known_stream = fragment.stream.0 < self.inbound_streams;
        let alone = whole || !known_stream;
        if let Messages::Sequential(sequential) = &self.messages
            && alone
            && sequential.expects(tsn)
        {
            return Verdict::Violation(
                "a chunk of another message has a TSN between the fragments of a message",
            );
        }
        if !known_stream {
            self.acks.timing.note(Urgency::AtOnce);
            return Verdict::InvalidStream;
        }
        if !fragment.beginning
            && let (Messages::Sequential(sequential), mut out, _) = self.messages()
            && sequential.is_orphan(tsn)
        {
            sequential.drop_orphan(tsn, &mut out);
            return Verdict::Accepted;
        }
        self.leave_datagram(&mut fragment, next_in_order);
        self.window.take(Load::of(&fragment));
        if let Some(deferral) = &mut self.deferral {
            match deferral.take(tsn, fragment) {
                Some(due) => fragment = due,
                None => {
                    self.tracker.withhold(tsn);
                    self.renegable.add(Run::of(tsn));
                    return Verdict::Accepted;
                }
            }
        }
        match self.messages() {
            (Messages::Sequential(sequential), mut out, tracker) => {
                sequential.on_fragment(tsn, fragment, tracker, &mut out)
            }
            (Messages::Interleaved(interleaved), mut out, tracker) => {
                interleaved.on_fragment(tsn, fragment, tracker, &mut out)
            }
        }
    }

    /// A slice keeps its whole datagram in memory, which counts. A payload that is less than half of its datagram is copied, unless little is
    /// held, or another message of the datagram was just delivered. Parts of a message also wait in the application, until it has joined
    /// them.
    #[inline]
    fn leave_datagram(&mut self, fragment: &mut Fragment, next_in_order: bool) {
        let len = fragment.payload.len();
        if 2 * len >= fragment.datagram {
            return;
        }
        let whole = fragment.beginning && fragment.ending;
        let little = whole && self.window.held().memory() + fragment.datagram <= SPARE;
        let at_once = whole && next_in_order && !self.tracker.has_gaps() && self.deferral.is_none();
        let stays = little || at_once && self.ready.is_one_queue() && self.shares_datagram();
        if !stays {
            fragment.payload = Bytes::copy_from_slice(&fragment.payload);
            fragment.datagram = len;
        }
    }

    /// Whether the next message, which the application can read at once, keeps its datagram, because the message before it is of the same one.
    /// The application reads them in their order, so that the last one of a datagram counts it.
    #[inline]
    fn shares_datagram(&mut self) -> bool {
        let previous = self.sharing.replace(self.next_message);
        let Some(kept) = previous.and_then(|previous| self.ready.leave_datagram(previous)) else {
            return false;
        };
        self.window.release(Load {
            kept,
            ..Load::default()
        });
        true
    }

    /// The next message, or part of one, of the streams that are not read separately.
    pub(crate) fn recv(&mut self, now: Timestamp) -> Option<MessagePart> {
        match self.ready.pop() {
            Some(entry) => self.read(now, entry),
            None => {
                let stream = self.partial_stream()?;
                let common = !self.ready.is_separate(stream);
                common.then(|| self.read_partial(now)).flatten()
            }
        }
    }

    /// The next message, or part of one, of a stream that is read separately; [`StreamItem::Reset`] if the peer reset it.
    pub(crate) fn recv_from(&mut self, now: Timestamp, stream: StreamId) -> Option<StreamItem> {
        let item = match self.ready.pop_of(stream) {
            Some(Ready::Reset) => Some(StreamItem::Reset),
            Some(entry) => self.read(now, entry).map(StreamItem::Part),
            None if self.partial_stream() == Some(stream) && self.ready.is_separate(stream) => {
                self.read_partial(now).map(StreamItem::Part)
            }
            None => None,
        };
        if item.is_none() {
            self.ready.on_read_out(stream);
        }
        item
    }

    /// What [`Receiver::recv_from`] would return.
    pub(crate) fn peek(&self, stream: StreamId) -> Option<NextItem> {
        match self.ready.front_of(stream) {
            Some(Ready::Message(held)) => Some(NextItem::Message(held.part.ppid)),
            Some(Ready::Grown(_)) => Some(NextItem::Part),
            Some(Ready::Reset) => Some(NextItem::Reset),
            None => {
                let is_here = self.partial_stream() == Some(stream) && self.ready.is_separate(stream);
                is_here.then_some(NextItem::Part)
            }
        }
    }

    /// Reads an entry of the queue.
    #[inline]
    fn read(&mut self, now: Timestamp, entry: Ready) -> Option<MessagePart> {
        let held = match (entry, &mut self.messages) {
            (Ready::Message(held), _) => held,
            (Ready::Grown(key), Messages::Interleaved(interleaved)) => {
                let (held, again) = interleaved.take_grown(key)?;
                if again {
                    self.ready.push_front(key);
                }
                held
            }
            _ => return None,
        };
        Some(self.hand_over(now, held))
    }

    /// Reads what has arrived of the message that is delivered in parts (§6.9).
    fn read_partial(&mut self, now: Timestamp) -> Option<MessagePart> {
        let Messages::Sequential(sequential) = &mut self.messages else {
            return None;
        };
        let held = sequential.take_partial(&mut self.next_message)?;
        Some(self.hand_over(now, held))
    }

    #[inline]
    fn hand_over(&mut self, now: Timestamp, held: Held) -> MessagePart {
        let load = held.load();
        self.window.release(load);
        self.window.on_read(now, load);
        held.part
    }

    /// The stream of the message that is delivered in parts (§6.9), if there is a part to read.
    fn partial_stream(&self) -> Option<StreamId> {
        match &self.messages {
            Messages::Sequential(sequential) => sequential.partial_stream(),
            Messages::Interleaved(_) => None,
        }
    }

    /// Whether [`Receiver::recv`] would return a message or part.
    pub(crate) fn is_readable(&self) -> bool {
        let common = |stream| !self.ready.is_separate(stream);
        self.ready.is_readable() || self.partial_stream().is_some_and(common)
    }

    /// Whether the application can read anything, of any stream.
    fn has_unread(&self) -> bool {
        self.ready.has_any() || self.partial_stream().is_some()
    }

    /// Whether there may be news about streams that are read separately.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.ready.has_news() || self.partial_stream().is_some()
    }

    /// Called after input: the news about streams that are read separately.
    pub(crate) fn take_news(&mut self) -> impl Iterator<Item = StreamNews> {
        if let Some(stream) = self.partial_stream()
            && self.ready.open(stream)
        {
            self.ready.tell_readable(stream);
        }
        self.ready.take_news()
    }

    /// Whether this stream is read by [`Receiver::recv_from`] alone.
    pub(crate) fn set_separate(&mut self, stream: StreamId, separate: bool) {
        if separate {
            self.ready.separate(stream);
        } else {
            self.ready.unite(stream);
        }
    }

    /// Whether streams on which the peer sends are read by [`Receiver::recv_from`] alone.
    pub(crate) fn separate_new(&mut self, on: bool) {
        self.ready.separate_new(on);
    }

    /// Called after the last chunk of a packet with DATA. `immediate` if a chunk had the I bit; `several_paths` if the sender uses several
    /// paths at once.
    pub(crate) fn on_packet(&mut self, now: Timestamp, immediate: bool, several_paths: bool) {
        self.sharing = None;
        if immediate || self.a_rwnd() == 0 {
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

    /// Bytes that the gap ack blocks take in the next acknowledgement.
    pub(crate) fn gap_blocks_len(&self) -> usize {
        4 * self.tracker.runs()
    }

    /// Passes the content of a SACK or NR-SACK that fits a chunk of `room` bytes to `write`. Gap ack blocks come before duplicates, low
    /// blocks before high ones.
    pub(crate) fn build_ack<R>(&mut self, room: usize, write: impl FnOnce(AckContent<'_>) -> R) -> R {
        let a_rwnd = self.advertise();
        self.acks
            .build(room, &mut self.tracker, &self.renegable, a_rwnd, write)
    }

    /// Whether the application has read so much that the peer should learn of the larger receive window at once.
    pub(crate) fn window_update_due(&self) -> bool {
        self.window.has_opened(self.overhead())
    }

    pub(crate) fn cumulative_tsn(&self) -> Tsn {
        self.tracker.cumulative_tsn()
    }

    pub(crate) fn a_rwnd(&self) -> u32 {
        self.window.a_rwnd(self.overhead())
    }

    /// The window that the next acknowledgement advertises.
    fn advertise(&mut self) -> u32 {
        let a_rwnd = self.a_rwnd();
        self.window.on_advertised(a_rwnd);
        a_rwnd
    }

    /// The memory in bytes that the receiver uses for data beside that of each chunk.
    fn overhead(&self) -> usize {
        self.messages.overhead() + self.renegable.overhead() + GAP * self.tracker.runs()
    }

    /// Bytes of complete and incomplete messages that the application has not read.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.window.held().bytes
    }
}
