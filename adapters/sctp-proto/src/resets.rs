//! The streams that are to be reset. At most one request waits for its answer (RFC 6525 §5.1.1).

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_proto::{
    Association, ReconfigurationError, ReconfigurationResult, ResetDirection, StreamSelection, Timestamp,
};

use crate::event::StreamId;

/// How many times a request is made that the peer denies.
const TRIES: u32 = 6;
/// The time before the second one; each further time is twice as long.
const FIRST_DELAY: Duration = Duration::from_millis(200);

/// The streams to the peer that are to be reset.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    waiting: BTreeSet<StreamId>,
    asked: BTreeSet<StreamId>,
    /// How many times the peer has denied the request, and when it is made again.
    denied: u32,
    again: Option<Timestamp>,
}

impl Resets {
    /// Whether the stream is to be reset, or its reset waits for its answer.
    pub(crate) fn is_pending(&self, stream: StreamId) -> bool {
        self.waiting.contains(&stream) || self.asked.contains(&stream)
    }

    pub(crate) fn insert(&mut self, stream: StreamId) {
        self.waiting.insert(stream);
    }

    /// When [`Resets::request`] must be called.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.again
    }

    /// Forgets all streams: the association has ended.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Requests the resets that wait, unless a request waits for its answer, or the peer denied the last one just now. Returns the streams
    /// that cannot be reset.
    pub(crate) fn request(&mut self, core: &mut Association, now: Timestamp) -> BTreeSet<StreamId> {
        let mut impossible = BTreeSet::new();
        if self.again.is_some_and(|again| now < again) {
            return impossible;
        }
        self.again = None;
        let mut most = usize::MAX;
        while self.asked.is_empty() && !self.waiting.is_empty() {
            // The peer denies all streams of a request if it denies one.
            let take = if self.denied > 0 { 1 } else { most };
            let streams: BTreeSet<_> = self.waiting.iter().copied().take(take).collect();
            let listed = StreamSelection::listed(streams.iter().copied());
            let request = core.reconfigure(now);
            match request.reset_streams(listed, ResetDirection::Outgoing) {
                Ok(()) => {
                    self.waiting.retain(|stream| !streams.contains(stream));
                    self.asked = streams;
                }
                Err(ReconfigurationError::TooManyStreams { limit })
                    if (1..streams.len()).contains(&limit) =>
                {
                    most = limit;
                }
                Err(ReconfigurationError::InvalidStream(stream)) if self.waiting.remove(&stream.0) => {
                    impossible.insert(stream.0);
                }
                Err(ReconfigurationError::NotSupported) => impossible.append(&mut self.waiting),
                Err(_) => break,
            }
        }
        impossible
    }

    /// The peer answered the request: returns its streams if it is over.
    pub(crate) fn on_answer(&mut self, now: Timestamp, result: ReconfigurationResult) -> BTreeSet<StreamId> {
        let asked = std::mem::take(&mut self.asked);
        let is_last = self.denied + 1 >= TRIES && asked.len() == 1;
        if result.is_success() || is_last {
            self.denied = 0;
            return asked;
        }
        self.waiting.extend(asked);
        self.again = Some(now + FIRST_DELAY * (1 << self.denied));
        self.denied += 1;
        BTreeSet::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_reset_is_requested_a_few_times_alone_and_ever_later() {
        let denied = ReconfigurationResult::Denied;
        let mut resets = Resets {
            asked: [2, 4].into(),
            ..Resets::default()
        };
        let now = Timestamp::ZERO;
        assert!(resets.on_answer(now, denied).is_empty());
        assert_eq!(resets.waiting.len(), 2);
        for nth in 1..TRIES {
            assert_eq!(resets.due(), Some(now + FIRST_DELAY * (1 << (nth - 1))));
            resets.waiting.remove(&2);
            resets.asked = [2].into();
            let over = resets.on_answer(now, denied);
            assert_eq!(over.contains(&2), nth + 1 == TRIES);
        }
        resets.asked = [4].into();
        assert_eq!(
            resets.on_answer(now, ReconfigurationResult::Performed),
            [4].into()
        );
        assert_eq!(resets.denied, 0);
    }
}
