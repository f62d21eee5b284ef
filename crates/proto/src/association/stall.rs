//! Owns the knowledge whether the peer takes data. A peer can keep an association alive for ever without taking any: its application
//! reads nothing, its window stays closed, and it answers heartbeats and window probes. RFC 9260 names no limit for that, so that the
//! application is told and decides.

use core::time::Duration;

use crate::time::Timestamp;
use crate::transmit::Sender;

/// How long a peer may acknowledge no data before the application is told: the longest `RTO.Max` of the defaults (RFC 9260 §16), so that
/// at least one window probe or heartbeat was answered meanwhile.
const LIMIT: Duration = Duration::from_secs(60);

/// How much the peer had acknowledged when this was last different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// The first outstanding TSN, extended.
    base: u64,
    gap_acked_bytes: usize,
}

/// Since when the peer has acknowledged nothing of the data that waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    since: Option<(Mark, Timestamp)>,
    told: bool,
}

impl Stall {
    /// Whether the application is to be told now. Called when timers expire, so that packets cost nothing: while data waits, at least T3-rtx
    /// or the window probe timer runs, and both expire at most `RTO.Max` apart.
    pub(super) fn begins(&mut self, now: Timestamp, sender: &Sender) -> bool {
        let mark = Mark {
            base: sender.outstanding.base(),
            gap_acked_bytes: sender.outstanding.gap_acked_bytes(),
        };
        match self.since {
            _ if sender.is_empty() => *self = Self::default(),
            Some((same, since)) if same == mark => {
                let begins = !self.told && now >= since + LIMIT;
                self.told |= begins;
                return begins;
            }
            _ => {
                *self = Self {
                    since: Some((mark, now)),
                    told: false,
                }
            }
        }
        false
    }
}
