//! One outbound stream: its queued messages, their numbers, its statistics, and the threshold of its buffered amount.

use core::time::Duration;
use std::collections::VecDeque;

use anabranch_wire::StreamId;

use super::queued_message::Message;
use crate::message::MessageId;
use crate::send::data_format::{DataFormat, MessageNumbers};
use crate::stats::StreamStats;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(super) struct OutboundStream {
    pub(super) messages: VecDeque<Message>,
    /// A message that was dropped while its parts were still being given: its further parts are dropped too.
    pub(super) dropping: Option<MessageId>,
    pub(super) next: MessageNumbers,
    /// Whether a message was numbered since the last reset of all streams.
    pub(super) numbered: bool,
    /// Whether messages are held back until the stream is reset: see [`super::hold::Hold`].
    pub(super) held: bool,
    pub(super) stats: StreamStats,
    /// The buffered amount at which the application is told.
    pub(super) low_threshold: Option<usize>,
}

impl OutboundStream {
    /// Whether the last message waits for a part.
    pub(super) fn is_open(&self) -> bool {
        self.messages.back().is_some_and(|message| !message.complete)
    }

    /// The deadline of the first message, if it has one.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.messages.front().and_then(Message::due)
    }

    /// Queues a message of `size` bytes.
    pub(super) fn push(&mut self, message: Message, size: usize, spare: &mut Spare) {
        if self.messages.capacity() == 0 {
            self.messages = core::mem::take(&mut spare.0);
            // Most streams have a single message at a time.
            self.messages.reserve_exact(1);
        }
        self.messages.push_back(message);
        self.stats.messages += 1;
        self.stats.queued_messages += 1;
        self.on_queued(size);
    }

    /// `bytes` of user data were queued.
    pub(super) fn on_queued(&mut self, bytes: usize) {
        self.stats.bytes += bytes as u64;
        self.stats.queued_bytes += bytes;
    }

    /// `bytes` of user data left the queue. Returns whether the buffered amount fell to its threshold.
    #[inline]
    pub(super) fn on_left(&mut self, bytes: usize) -> bool {
        self.stats.queued_bytes -= bytes;
        let now = self.stats.queued_bytes;
        self.low_threshold
            .is_some_and(|low| now <= low && now + bytes > low)
    }

    /// A message left `messages`.
    pub(super) fn on_message_left(&mut self, spare: &mut Spare) {
        self.stats.queued_messages -= 1;
        if self.messages.is_empty() {
            spare.keep(core::mem::take(&mut self.messages));
        }
    }

    /// The end of a message that was queued at this time is sent.
    pub(super) fn on_sent(&mut self, now: Timestamp, queued_at: Timestamp) {
        let waited = now.saturating_duration_since(queued_at);
        self.stats.messages_sent += 1;
        self.stats.queue_delay_total += waited;
        self.stats.queue_delay_max = self.stats.queue_delay_max.max(waited);
    }

    /// A message takes its number. Returns whether it is the first since the last reset of all streams.
    #[inline]
    pub(super) fn count(&mut self, format: DataFormat, unordered: bool) -> bool {
        format.count(&mut self.next, unordered);
        !core::mem::replace(&mut self.numbered, true)
    }

    /// Completely sent messages were acknowledged; the times are those at which their ends were first sent.
    pub(super) fn on_arrived(&mut self, now: Timestamp, arrived: &[(StreamId, Timestamp)]) {
        let delays = arrived.iter().map(|(_, sent_at)| now.0.saturating_sub(sent_at.0));
        let (total, most) = delays.fold((0, 0), |(total, most): (u64, u64), delay| {
            (total.saturating_add(delay), most.max(delay))
        });
        let stats = &mut self.stats;
        stats.messages_acknowledged += arrived.len() as u64;
        stats.network_delay_total += Duration::from_nanos(total);
        stats.network_delay_max = stats.network_delay_max.max(Duration::from_nanos(most));
    }

    /// The stream begins anew: the association ended, or the peer restarted.
    pub(super) fn restart(&mut self) {
        self.next = MessageNumbers::default();
        self.numbered = false;
        self.dropping = None;
        self.held = false;
    }
}

/// Memory for the messages of the next stream that has some. A stream without messages keeps none.
#[derive(Debug, Default)]
pub(super) struct Spare(VecDeque<Message>);

impl Spare {
    /// Takes the memory of a stream without messages, if the spare memory has less and there are not too many places.
    fn keep(&mut self, empty: VecDeque<Message>) {
        const MOST: usize = 1024;
        if (self.0.capacity()..=MOST).contains(&empty.capacity()) {
            self.0 = empty;
        }
    }
}
