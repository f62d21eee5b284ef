//! Events that are found by comparison: the states of the association and of its paths, acknowledged chunks, and why data waits.

use anabranch_wire::Tsn;

use super::{Observed, PathSeen, TraceLog};
use crate::association_state::AssociationState;
use crate::controller::Controller;
use crate::path::{Path, PathId};
use crate::seq::Run;
use crate::trace_event::{PathMetrics, TraceKind, TsnRange};

fn metrics(path: &Path) -> PathMetrics {
    let control = path.control.metrics();
    PathMetrics {
        path: path.id,
        cwnd: control.cwnd,
        ssthresh: control.ssthresh,
        flight_size: path.flight.bytes(),
        srtt: path.rtt.smoothed(),
        rttvar: path.rtt.rttvar(),
        rto: path.rtt.rto(),
        pacing_rate: path.control.pace().map(|pace| pace.rate as u64),
    }
}

/// Adds a TSN to ranges in ascending order.
fn extend(ranges: &mut Vec<TsnRange>, tsn: Tsn) {
    match ranges.last_mut() {
        Some((_, last)) if last.0.wrapping_add(1) == tsn.0 => *last = tsn,
        _ => ranges.push((tsn, tsn)),
    }
}

impl TraceLog {
    /// Called after each input, and after each request for packets: records what changed.
    pub(crate) fn observe(&mut self, seen: &mut Observed<'_>) {
        self.push_arrived(seen);
        self.take_journals(seen.now, seen.sender, seen.receiver);
        self.note_acknowledged(seen);
        self.note_paths(seen);
        self.note_state(seen);
    }

    fn note_state(&mut self, seen: &Observed<'_>) {
        let to = seen.state;
        let from = core::mem::replace(&mut self.state, to);
        if from == to {
            return;
        }
        self.push(seen.now, TraceKind::StateChanged { from, to });
        if to == AssociationState::Established {
            let kind = TraceKind::Negotiated {
                outbound_streams: seen.sender.queue.stream_count(),
                inbound_streams: seen.receiver.inbound_streams(),
                extensions: seen.extensions,
            };
            self.push(seen.now, kind);
        }
        if to == AssociationState::Closed {
            self.messages.clear();
            self.lost.clear();
            self.blocked.clear();
        }
    }

    fn note_paths(&mut self, seen: &Observed<'_>) {
        for index in 0..seen.paths.len() {
            let path = seen.paths.path(PathId(index as u8));
            if self.paths.len() <= index {
                self.paths.push(None);
            }
            let metrics = metrics(path);
            let now = PathSeen {
                metrics,
                state: path.state,
                remote: path.route.remote,
            };
            let before = self.paths[index].replace(now);
            if before.is_none_or(|before| (before.state, before.remote) != (now.state, now.remote)) {
                let kind = TraceKind::PathChanged {
                    path: path.id,
                    local: path.route.local,
                    remote: path.route.remote,
                    state: path.state,
                };
                self.push(seen.now, kind);
            }
            // The flight size changes with each packet, which is an event anyway.
            let flight_size = metrics.flight_size;
            let same = |before: PathSeen| {
                PathMetrics {
                    flight_size,
                    ..before.metrics
                } == metrics
            };
            if !before.is_some_and(same) {
                self.push(seen.now, TraceKind::PathMetrics(metrics));
            }
        }
    }

    /// Chunks that the peer has acknowledged since the last call. The cost is that of the gaps, and of the chunks that are new.
    fn note_acknowledged(&mut self, seen: &mut Observed<'_>) {
        let Some(first) = self.messages.first_chunk() else {
            return;
        };
        let outstanding = &seen.sender.outstanding;
        let below = (first < outstanding.base()).then(|| Run {
            first,
            last: outstanding.base() - 1,
        });
        let (mut chunks, mut complete) = (Vec::new(), Vec::new());
        for run in below.into_iter().chain(outstanding.acked_runs()) {
            self.messages
                .on_acknowledged(seen.now, run, &mut chunks, &mut complete);
        }
        if chunks.is_empty() {
            return;
        }
        let mut tsns = Vec::new();
        for index in chunks {
            self.lost.remove(&index);
            extend(&mut tsns, Tsn(index as u32));
        }
        self.push(seen.now, TraceKind::Acknowledged { tsns });
        for event in complete {
            self.push(seen.now, event);
        }
    }

    /// The sender was asked for a packet and had none: records why data waits, if some does.
    pub(crate) fn note_wait(&mut self, seen: &Observed<'_>) {
        let wait = seen.sender.waits_for();
        if self.wait != wait {
            self.wait = wait;
            if let Some(reason) = wait {
                self.push(seen.now, TraceKind::SendingWaits { reason });
            }
        }
    }
}
