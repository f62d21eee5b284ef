//! The history of each message, from `send` to its acknowledgement.

use core::time::Duration;
use std::collections::BTreeMap;

use anabranch_wire::StreamId;

use crate::message::MessageId;
use crate::seq::{ExtendedTsn, Run};
use crate::time::Timestamp;
use crate::trace_event::TraceKind;

/// A message that is not acknowledged.
#[derive(Debug)]
struct Progress {
    stream: StreamId,
    queued_at: Timestamp,
    first_sent: Option<Timestamp>,
    /// Chunks sent and not acknowledged.
    unacknowledged: u32,
    /// Whether its last chunk was sent.
    ended: bool,
    retransmissions: u32,
    copies: u32,
}

/// A chunk that was sent and is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    message: MessageId,
    /// Its early copies.
    copies: u32,
}

/// The messages that were given to `send` and are not acknowledged. The send buffer bounds them.
#[derive(Debug, Default)]
pub(super) struct Messages {
    messages: BTreeMap<MessageId, Progress>,
    /// The chunks that were sent and are not acknowledged.
    chunks: BTreeMap<ExtendedTsn, Sent>,
}

/// A transmission.
pub(super) struct Transmission {
    pub(super) index: ExtendedTsn,
    pub(super) message: MessageId,
    pub(super) first: bool,
    pub(super) ending: bool,
}

impl Messages {
    pub(super) fn on_queued(&mut self, now: Timestamp, message: MessageId, stream: StreamId) {
        self.messages.entry(message).or_insert(Progress {
            stream,
            queued_at: now,
            first_sent: None,
            unacknowledged: 0,
            ended: false,
            retransmissions: 0,
            copies: 0,
        });
    }

    /// A chunk was sent. Returns the time since `send`, at the first transmission.
    pub(super) fn on_sent(&mut self, now: Timestamp, sent: &Transmission) -> Option<Duration> {
        let progress = self.messages.get_mut(&sent.message)?;
        if !sent.first {
            progress.retransmissions += 1;
            return None;
        }
        progress.first_sent.get_or_insert(now);
        progress.unacknowledged += 1;
        progress.ended |= sent.ending;
        let chunk = Sent {
            message: sent.message,
            copies: 0,
        };
        self.chunks.insert(sent.index, chunk);
        Some(now.saturating_duration_since(progress.queued_at))
    }

    /// An early copy of a chunk was sent. Returns its number, if the chunk is known.
    pub(super) fn on_copied(&mut self, index: ExtendedTsn) -> Option<u32> {
        let chunk = self.chunks.get_mut(&index)?;
        chunk.copies += 1;
        if let Some(progress) = self.messages.get_mut(&chunk.message) {
            progress.copies += 1;
        }
        Some(chunk.copies)
    }

    /// Chunks of this run are acknowledged: appends those that were not before, and the messages that are now complete.
    pub(super) fn on_acknowledged(
        &mut self,
        now: Timestamp,
        run: Run,
        chunks: &mut Vec<ExtendedTsn>,
        complete: &mut Vec<TraceKind>,
    ) {
        while let Some((&index, &Sent { message, .. })) = self.chunks.range(run.first..=run.last).next() {
            self.chunks.remove(&index);
            chunks.push(index);
            let Some(progress) = self.messages.get_mut(&message) else {
                continue;
            };
            progress.unacknowledged -= 1;
            if progress.ended && progress.unacknowledged == 0 {
                let since = |from| now.saturating_duration_since(from);
                let delay = since(progress.queued_at);
                complete.push(TraceKind::MessageAcknowledged {
                    message,
                    stream: progress.stream,
                    queue_delay: delay.saturating_sub(progress.first_sent.map(since).unwrap_or_default()),
                    delay,
                    retransmissions: progress.retransmissions,
                    copies: progress.copies,
                });
                self.messages.remove(&message);
            }
        }
    }

    /// The lowest chunk that is not acknowledged.
    pub(super) fn first_chunk(&self) -> Option<ExtendedTsn> {
        self.chunks.keys().next().copied()
    }

    /// A message was abandoned: its chunks are not reported as acknowledged.
    pub(super) fn forget(&mut self, message: MessageId) {
        if self.messages.remove(&message).is_some() {
            self.chunks.retain(|_, chunk| chunk.message != message);
        }
    }

    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.chunks.clear();
    }
}
