//! Owns the list of streams that are being reset (RFC 6525 §5.1.2 A1), whose new messages are held back.

use std::collections::VecDeque;

use anabranch_wire::StreamId;

use super::queued_message::Message;
use crate::message::MessageId;

/// With so many streams in `Hold::with_messages`, those that are listed twice are removed.
const MOST_LISTED: usize = 2 * (u16::MAX as usize + 1);

/// The streams whose messages from `from` on are held back.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) from: MessageId,
    /// All streams; otherwise those whose flag `held` is set, which are `streams`.
    pub(super) all: bool,
    pub(super) streams: Vec<StreamId>,
    /// Those of `streams` that may still have messages from before the request.
    pub(super) undrained: Vec<StreamId>,
    /// Streams with held messages; a stream may be listed twice if its held messages were dropped meanwhile.
    pub(super) with_messages: Vec<StreamId>,
    /// Number of held messages.
    pub(super) count: usize,
}

impl Hold {
    /// Whether a new message of this stream is held; if so, it is counted. `held` is the stream's flag.
    pub(super) fn takes(&mut self, stream: StreamId, held: bool, messages: &VecDeque<Message>) -> bool {
        let takes = self.all || held;
        if takes {
            self.count += 1;
            if messages.back().is_none_or(|last| last.id < self.from) {
                self.with_messages.push(stream);
                if self.with_messages.len() >= MOST_LISTED {
                    self.with_messages.sort_unstable();
                    self.with_messages.dedup();
                }
            }
        }
        takes
    }

    /// A message was removed from the queue unsent.
    pub(super) fn forget(&mut self, held: bool, message: MessageId) {
        self.count -= usize::from((self.all || held) && message >= self.from);
    }

    /// How many of a stream's messages are not held.
    pub(super) fn unheld(&self, held: bool, messages: &VecDeque<Message>) -> usize {
        if self.all || held {
            messages.partition_point(|message| message.id < self.from)
        } else {
            messages.len()
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::SendQueue;
    use super::*;
    use crate::config::SchedulerKind;
    use crate::message::SendOptions;
    use crate::reconfiguration::StreamSelection;
    use crate::time::Timestamp;

    /// While the peer does not answer a request, messages may be held and dropped any number of times.
    #[test]
    fn the_list_of_streams_is_bounded() {
        let mut queue = SendQueue::new(2, SchedulerKind::RoundRobin);
        queue.hold(&StreamSelection::All);
        let options = SendOptions::default();
        for _ in 0..MOST_LISTED + 1000 {
            let message = Bytes::from_static(b"held");
            let message = queue.push(Timestamp::ZERO, StreamId(1), message, &options, false, true);
            queue.drop_message(StreamId(1), message.expect("the stream exists"));
        }
        assert!(queue.hold.is_some_and(|hold| hold.with_messages.len() < 2000));
    }
}
