//! A reliable request: a control chunk that is retransmitted until the peer answers it.

use anabranch_wire::chunk::Chunk;

use super::ControlQueue;
use crate::path::{Path, PathId};
use crate::time::Timestamp;

/// A request that waits for its answer, with a retransmission timer of its own: T1-init, T1-cookie (RFC 9260 §5.1) or T2-shutdown
/// (§9.2). The owner builds the chunk and chooses the path each time, and drops the request when the answer arrives.
#[derive(Debug)]
pub(crate) struct Request {
    /// When the retransmission timer expires.
    timer: Option<Timestamp>,
    /// The path of the last transmission.
    path: PathId,
    retransmissions: u32,
    /// The most retransmissions. A request without a limit ends with the association's error counter (§8.1).
    limit: Option<u32>,
}

impl Request {
    /// A request that is retransmitted at most this many times.
    pub(crate) fn with_limit(limit: u32) -> Self {
        Self {
            limit: Some(limit),
            ..Self::unlimited()
        }
    }

    pub(crate) fn unlimited() -> Self {
        Self {
            timer: None,
            path: PathId(0),
            retransmissions: 0,
            limit: None,
        }
    }

    /// Sends the chunk of the request on this path, for the first time or again, and restarts the timer.
    pub(crate) fn send(&mut self, now: Timestamp, chunk: Chunk, path: &Path, control: &mut ControlQueue) {
        control.push(path.id, chunk);
        self.path = path.id;
        self.timer = Some(now + path.rtt.rto());
    }

    /// When the timer expires.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.timer
    }

    /// The path of the last transmission.
    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    /// How many times the timer expired and the chunk was retransmitted.
    pub(crate) fn retransmissions(&self) -> u32 {
        self.retransmissions
    }

    /// The timer expired: counts a retransmission; returns false if the limit is reached.
    pub(crate) fn retransmit(&mut self) -> bool {
        self.timer = None;
        let may = self.limit.is_none_or(|limit| self.retransmissions < limit);
        self.retransmissions += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_request_is_retransmitted_up_to_its_limit() {
        let remote = SocketAddr::from(([10, 0, 0, 1], 9899));
        let now = Timestamp::from_millis(5);
        let path = Path::new(PathId(1), None, remote, &Config::default(), now, 0);
        let mut control = ControlQueue::default();
        let mut request = Request::with_limit(2);
        assert_eq!(request.due(), None);
        for sent in 0..=2 {
            request.send(now, Chunk::CookieAck, &path, &mut control);
            assert_eq!(request.due(), Some(now + path.rtt.rto()));
            assert_eq!(request.path(), PathId(1));
            assert_eq!(control.pop().map(|waiting| waiting.path), Some(PathId(1)));
            assert_eq!(request.retransmissions(), sent);
            assert_eq!(request.retransmit(), sent < 2);
            assert_eq!(request.due(), None);
        }
        let mut request = Request::unlimited();
        assert!((0..100).all(|_| request.retransmit()));
    }
}
