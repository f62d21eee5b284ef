//! The requests that reset this side's streams: a channel is closed so (RFC 8831 §6.7).

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_proto::{
    Association, ReconfigurationError, ReconfigurationResult, ResetDirection, StreamId, StreamSelection,
    Timestamp,
};

/// How often a reset that the peer denies is requested: for 13 s.
const TRIES: u32 = 8;
/// The time until the second request; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The streams whose reset is over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Over {
    /// They are reset.
    pub(crate) reset: Vec<u16>,
    /// They cannot be reset: the peer denied it, or has no such stream.
    pub(crate) refused: Vec<u16>,
}

/// Streams to be reset, and the request that waits for its answer.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    waiting: BTreeSet<u16>,
    asked: Vec<u16>,
    /// The last request was denied: streams are reset one by one, so that one that cannot be reset does not stop the others.
    one_by_one: bool,
    /// How often the first stream was denied.
    denied: u32,
    /// When it is requested again.
    again: Option<Timestamp>,
}

impl Resets {
    /// Whether a stream is to be reset, or its reset waits for its answer.
    pub(crate) fn is_pending(&self, stream: u16) -> bool {
        self.waiting.contains(&stream) || self.asked.contains(&stream)
    }

    pub(crate) fn insert(&mut self, stream: u16) {
        self.waiting.insert(stream);
    }

    /// When [`Resets::request`] must be called.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.again
    }

    /// Requests the resets that wait, unless a request waits for its answer, the peer denied the last one just now, or set-up is not
    /// complete. Returns the streams that cannot be reset.
    pub(crate) fn request(&mut self, association: &mut Association, now: Timestamp) -> Vec<u16> {
        let mut impossible = Vec::new();
        if self.again.is_some_and(|again| now < again) {
            return impossible;
        }
        self.again = None;
        let mut most = if self.one_by_one { 1 } else { usize::MAX };
        while self.asked.is_empty() && !self.waiting.is_empty() {
            let streams: Vec<u16> = self.waiting.iter().copied().take(most).collect();
            let listed = StreamSelection::Listed(streams.iter().copied().map(StreamId).collect());
            match association
                .reconfigure(now)
                .reset_streams(listed, ResetDirection::Outgoing)
            {
                Ok(()) => self.asked = streams,
                Err(ReconfigurationError::TooManyStreams { limit })
                    if (1..streams.len()).contains(&limit) =>
                {
                    most = limit;
                }
                Err(ReconfigurationError::InvalidStream(stream)) if self.waiting.remove(&stream.0) => {
                    impossible.push(stream.0);
                }
                Err(ReconfigurationError::NotSupported) => {
                    impossible.extend(std::mem::take(&mut self.waiting))
                }
                Err(_) => break,
            }
        }
        for stream in &self.asked {
            self.waiting.remove(stream);
        }
        impossible
    }

    /// The peer answered the request. A peer that denies it is asked at most [`TRIES`] times for each stream.
    pub(crate) fn on_answer(&mut self, now: Timestamp, result: ReconfigurationResult) -> Over {
        let asked = std::mem::take(&mut self.asked);
        let mut over = Over::default();
        if result.is_success() {
            (self.one_by_one, self.denied) = (false, 0);
            over.reset = asked;
        } else if asked.len() > 1 {
            self.one_by_one = true;
            self.waiting.extend(asked);
        } else {
            self.denied += 1;
            if self.denied < TRIES {
                self.waiting.extend(asked);
                self.again = Some(now + FIRST_DELAY * (1 << (self.denied - 1)));
            } else {
                self.denied = 0;
                over.refused = asked;
            }
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_reset_is_requested_a_few_times_alone_and_ever_later() {
        let mut resets = Resets {
            asked: vec![2, 4],
            ..Resets::default()
        };
        let now = Timestamp::ZERO;
        let denied = ReconfigurationResult::Denied;
        assert_eq!(resets.on_answer(now, denied), Over::default());
        assert!(resets.one_by_one && resets.waiting.len() == 2 && resets.due().is_none());
        for nth in 1..TRIES {
            resets.asked = vec![2];
            assert_eq!(resets.on_answer(now, denied), Over::default());
            assert_eq!(resets.due(), Some(now + FIRST_DELAY * 2_u32.pow(nth - 1)));
        }
        resets.asked = vec![2];
        assert_eq!(resets.on_answer(now, denied).refused, [2]);
        resets.asked = vec![4];
        let performed = ReconfigurationResult::Performed;
        assert_eq!(resets.on_answer(now, performed).reset, [4]);
        assert!(!resets.one_by_one);
    }
}
