//! The answers to the peer's requests (RFC 6525 §5.1.7, §5.2.1).

use anabranch_wire::Tsn;
use anabranch_wire::parameter::Parameter;

/// Results of table 3.
pub(super) const NOTHING_TO_DO: u32 = 0;
pub(super) const PERFORMED: u32 = 1;
pub(super) const DENIED: u32 = 2;
pub(super) const WRONG_SSN: u32 = 3;
pub(super) const ALREADY_IN_PROGRESS: u32 = 4;
const BAD_SEQUENCE_NUMBER: u32 = 5;
pub(super) const IN_PROGRESS: u32 = 6;

/// An answer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    sequence: u32,
    result: u32,
    next_tsns: Option<(Tsn, Tsn)>,
}

/// The sequence number of the peer's next request, and the answers to its last chunk, which are sent again if that chunk is retransmitted.
#[derive(Debug)]
pub(super) struct Answers {
    expected: u32,
    /// At most two: a chunk has at most two requests (§3.1).
    last: Vec<Answer>,
}

impl Answers {
    /// The peer's first request has its Initial TSN as sequence number (§4.1).
    pub(super) fn new(peer_initial_tsn: Tsn) -> Self {
        Self {
            expected: peer_initial_tsn.0,
            last: Vec::new(),
        }
    }

    /// The sequence number of the peer's next request.
    pub(super) fn expected(&self) -> u32 {
        self.expected
    }

    /// The next request is being handled; `first` if it is the first of its chunk.
    pub(super) fn begin(&mut self, first: bool) {
        self.expected = self.expected.wrapping_add(1);
        if first {
            self.last.clear();
        }
    }

    /// Stores the answer to the request.
    pub(super) fn push(&mut self, sequence: u32, result: u32, next_tsns: Option<(Tsn, Tsn)>) {
        self.last.push(Answer {
            sequence,
            result,
            next_tsns,
        });
        debug_assert!(self.last.len() <= 2, "a chunk has at most two requests");
    }

    /// A request that was in progress has its final result. Returns the response.
    pub(super) fn settle(&mut self, sequence: u32, result: u32, next_tsns: Option<(Tsn, Tsn)>) -> Parameter {
        if let Some(answer) = self.last.iter_mut().find(|answer| answer.sequence == sequence) {
            (answer.result, answer.next_tsns) = (result, next_tsns);
        }
        Parameter::ReConfigResponse {
            sequence,
            result,
            next_tsns,
        }
    }

    /// The response to a request that was handled, or whose sequence number is wrong.
    pub(super) fn response(&self, sequence: u32) -> Parameter {
        let answer = self.last.iter().find(|answer| answer.sequence == sequence);
        Parameter::ReConfigResponse {
            sequence,
            result: answer.map_or(BAD_SEQUENCE_NUMBER, |answer| answer.result),
            next_tsns: answer.and_then(|answer| answer.next_tsns),
        }
    }
}
