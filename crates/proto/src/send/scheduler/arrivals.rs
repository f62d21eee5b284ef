//! First come, first served (RFC 8260 §3.1): messages leave in the order of `send`.

use std::collections::VecDeque;

use anabranch_wire::StreamId;

use crate::message::MessageId;

/// Marks a message that was removed out of order. The marks are removed when they are as many as the messages.
const GONE: StreamId = StreamId(u16::MAX);

/// The queued messages in the order of `send`. Removal at the front costs O(1); elsewhere a binary search, and O(1) on average after it.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    turns: VecDeque<(MessageId, StreamId)>,
    gone: usize,
}

impl Arrivals {
    pub(super) fn push(&mut self, stream: StreamId, message: MessageId) {
        self.turns.push_back((message, stream));
    }

    /// Adds messages that were held back, in the order of `send`. The cost is the number of these messages and of those after the first.
    pub(super) fn merge(&mut self, messages: &[(MessageId, StreamId)]) {
        let Some((first, _)) = messages.first() else {
            return;
        };
        let at = self.turns.partition_point(|(id, _)| id < first);
        let mut later = self.turns.split_off(at);
        for held in messages {
            while let Some(next) = later.front().copied().filter(|(id, _)| *id < held.0) {
                later.pop_front();
                self.turns.push_back(next);
            }
            self.turns.push_back(*held);
        }
        self.turns.append(&mut later);
    }

    pub(super) fn front(&self) -> Option<StreamId> {
        self.turns.front().map(|(_, stream)| *stream)
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, message: MessageId) {
        if self.gone == 0 && self.turns.front().is_some_and(|(first, _)| *first == message) {
            self.turns.pop_front();
        } else {
            self.remove_out_of_turn(message);
        }
    }

    fn remove_out_of_turn(&mut self, message: MessageId) {
        if self.turns.front().is_some_and(|(first, _)| *first == message) {
            self.turns.pop_front();
        } else if let Ok(at) = self.turns.binary_search_by_key(&message, |(id, _)| *id) {
            self.turns[at].1 = GONE;
            self.gone += 1;
            if 2 * self.gone > self.turns.len() {
                self.turns.retain(|(_, stream)| *stream != GONE);
                self.gone = 0;
            }
        }
        while self.gone > 0 && self.front() == Some(GONE) {
            self.turns.pop_front();
            self.gone -= 1;
        }
    }
}
