//! Errors, and how an association ends out of order (RFC 9260 §8.1, §8.2, §9.1; RFC 7829 §3.2).

use anabranch_wire::Tsn;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Abort, Chunk};
use anabranch_wire::packet::CommonHeader;
use bytes::Bytes;

use super::outbound::write_packet;
use super::{Association, ControlQueue, Notices, State};
use crate::event::{CloseReason, EndpointEvent, Event, Reply};
use crate::extension::ControlSources;
use crate::inbound::Inbound;
use crate::message::UnsentMessage;
use crate::path::{PathId, PathState};
use crate::receive::Receiver;
use crate::send::SendQueue;
use crate::time::Timestamp;

/// As much of an application's reason as travels in an ABORT.
const MOST_REASON: usize = 1024;

impl Association {
    /// A path did not answer: §8.2, and §8.1 if it is the one in use or carried data. Answers false when the
    /// association has failed over it.
    pub(super) fn on_path_error(&mut self, now: Timestamp, id: PathId, counts_for_association: bool) -> bool {
        let limits = &self.config.retransmissions;
        let path = self.paths.path_mut(id);
        path.error_count += 1;
        path.try_other_port();
        let doubtful = |limit: u32| path.error_count > limit && path.state == PathState::Active;
        let state = if path.state == PathState::Unconfirmed {
            // Whatever becomes of it, it may not be the peer's (§5.4).
            path.state
        } else if path.error_count > limits.path_max_retrans {
            PathState::Inactive
        } else if limits.potentially_failed_max_retrans.is_some_and(doubtful) {
            PathState::PotentiallyFailed
        } else {
            path.state
        };
        if state != path.state {
            path.state = state;
            self.tell_path(id);
            self.on_path_doubted(now, id);
        }
        if counts_for_association {
            self.error_count += 1;
        }
        if self.error_count > self.config.retransmissions.association_max_retrans {
            self.close(self.state.reason_of_silence(CloseReason::Unreachable));
            return false;
        }
        true
    }

    /// RFC 7829 §3.2, items 5, 6 and 8: heartbeats ask at once for a path that is potentially failed, unless data has to
    /// go on asking for want of another; for one that became inactive at the usual pace.
    fn on_path_doubted(&mut self, now: Timestamp, id: PathId) {
        let path = self.paths.path_mut(id);
        if path.state == PathState::PotentiallyFailed {
            path.heartbeat.pending = None;
            let rto = path.rto.current();
            let data_leaves = self.paths.data_path() != id;
            if self.config.heartbeat.interval.is_some() && self.state.sends_heartbeats() {
                let due = if data_leaves { now } else { now + rto };
                self.paths.path_mut(id).heartbeat.due = Some(due);
            }
        }
    }

    /// Acknowledged was data that may have gone by other paths too: the peer is there, but this says nothing of a path
    /// in doubt (RFC 7829 §3.2, item 9).
    pub(super) fn on_path_may_have_answered(&mut self, id: PathId) {
        let in_doubt = matches!(
            self.paths.path(id).state,
            PathState::PotentiallyFailed | PathState::Inactive
        );
        if in_doubt
            && self
                .config
                .retransmissions
                .potentially_failed_max_retrans
                .is_some()
        {
            self.error_count = 0;
        } else {
            self.on_path_answered(id);
        }
    }

    /// A path answered: acknowledged data or a heartbeat, or carried a set-up (§5.4, §8.1, §8.2).
    pub(super) fn on_path_answered(&mut self, id: PathId) {
        self.error_count = 0;
        let arrived_here = self.paths.last_arrival == id;
        let path = self.paths.path_mut(id);
        path.error_count = 0;
        if arrived_here {
            path.on_answer();
        }
        if path.state != PathState::Active {
            path.state = PathState::Active;
            self.tell_path(id);
        }
    }

    fn tell_path(&mut self, id: PathId) {
        let path = self.paths.path(id);
        let (remote, state) = (path.remote, path.state);
        self.notices.tell(Event::PathChanged {
            path: id,
            remote,
            state,
        });
    }

    /// ABORT primitive (§11.1.4).
    pub(super) fn abort_by_user(&mut self, reason: Bytes) {
        let reason = reason.slice(..reason.len().min(MOST_REASON));
        self.abort_with(Cause::UserInitiatedAbort(reason), CloseReason::Aborted);
    }

    /// Sends ABORT and is over.
    pub(super) fn abort_with(&mut self, cause: Cause, reason: CloseReason) {
        if self.state.is_closed() {
            return;
        }
        // Before the peer's tag is known there is nobody to tell.
        if self.identity.peer_tag.0 != 0 {
            let causes = Causes::from_causes(&[cause]);
            self.final_packet(Chunk::Abort(Abort {
                reflected_tag: false,
                causes,
            }));
        }
        self.close(reason);
    }

    /// Ends the association after a panic in its code, of which nobody knows what it left half done: all that was to be sent
    /// or read is dropped unseen, the peer is sent an ABORT, and [`CloseReason::InternalError`] is told. A driver that catches
    /// panics calls it once, and may go on as with any association that is over.
    pub fn fail(&mut self) {
        let config = &self.config;
        self.queue = SendQueue::new(config.streams.outbound, config.scheduler);
        self.outstanding = Self::no_outstanding(self.identity.local_initial_tsn, config);
        self.receiver = Receiver::new(Tsn(0), 0, config);
        self.sources = ControlSources::new(config);
        self.control = ControlQueue::default();
        self.notices = Notices::new();
        self.timers = super::Timers::default();
        self.ending.stop();
        // The only one that is there whatever happened.
        self.paths.last_arrival = PathId(0);
        self.paths.set_primary(PathId(0));
        let was_closed = self.state.is_closed();
        self.state = State::Closed;
        if !was_closed && self.identity.peer_tag.0 != 0 {
            self.final_packet_to(
                PathId(0),
                Chunk::Abort(Abort {
                    reflected_tag: false,
                    causes: Causes::empty(),
                }),
            );
        }
        self.notices.tell_endpoint(EndpointEvent::Closed);
        self.notices.tell(Event::Closed(CloseReason::InternalError));
    }

    /// Queues a packet that may leave though the association is over.
    pub(super) fn final_packet(&mut self, chunk: Chunk) {
        self.final_packet_to(self.paths.answer_path(), chunk);
    }

    fn final_packet_to(&mut self, path: PathId, chunk: Chunk) {
        let header = CommonHeader {
            source_port: self.identity.local_port,
            destination_port: self.identity.remote_port,
            verification_tag: self.identity.peer_tag,
        };
        let path = self.paths.path(path);
        self.control.reply(Reply {
            source: path.local,
            destination: path.remote,
            packet: write_packet(header, &[chunk]).into(),
        });
    }

    /// An ABORT came (§9.1).
    ///
    /// With the T bit it proves only that its sender received a packet of this side. One that went to an address which the
    /// peer merely listed may have come to somebody else, or from an address that a translator put in this side's place:
    /// then its answer (§8.4 rule 8) speaks for that path alone (§5.4). An ABORT with this side's own tag is the peer's.
    ///
    /// In SHUTDOWN-ACK-SENT everything is acknowledged both ways. One with the T bit then comes from a peer that has
    /// completed the shutdown and forgotten it: its SHUTDOWN COMPLETE was lost or overtaken, and a late packet of this
    /// side was answered as out of the blue (§8.4 rule 8).
    pub(super) fn on_abort(&mut self, now: Timestamp, inbound: &Inbound, abort: &Abort) {
        let path = self.paths.find(inbound.local, inbound.remote.ip());
        if let Some(id) = path.filter(|id| abort.reflected_tag && self.paths.is_only_listed(*id)) {
            self.on_denied(now, id);
            return;
        }
        let completed = abort.reflected_tag && self.state.has_finished();
        self.close(if completed {
            CloseReason::Shutdown
        } else {
            CloseReason::AbortedByPeer(abort.causes.clone())
        });
    }

    /// There is no such association at the other end of a path that was never confirmed: it is asked for no more often than
    /// a path that failed, and whoever is there may set up an association of its own (RFC 5062 §2).
    fn on_denied(&mut self, now: Timestamp, id: PathId) {
        let errors = self.config.retransmissions.path_max_retrans.saturating_add(1);
        let path = self.paths.path_mut(id);
        // It answers a heartbeat, or nothing.
        if path.heartbeat.pending.take().is_none() {
            return;
        }
        path.error_count = path.error_count.max(errors);
        let remote = path.remote;
        self.schedule_heartbeat(now, id);
        self.notices
            .tell_endpoint(EndpointEvent::PeerAddressDenied(remote));
    }

    /// Enters CLOSED and tells what was never acknowledged.
    pub(super) fn close(&mut self, reason: CloseReason) {
        if self.state.is_closed() {
            return;
        }
        self.state = State::Closed;
        self.timers = super::Timers::default();
        self.ending.stop();
        for path in self.paths.iter_mut() {
            path.t3 = None;
            path.heartbeat.due = None;
        }
        self.control.clear_chunks();
        self.tell_all_undelivered();
        // What is complete can still be read.
        self.notices.on_input(self.receiver.is_readable(), false);
        self.notices.tell_endpoint(match reason {
            CloseReason::Shutdown => EndpointEvent::ShutDown {
                peer_tag: self.identity.peer_tag,
            },
            _ => EndpointEvent::Closed,
        });
        self.notices.tell(Event::Closed(reason));
    }

    /// Tells every message that was not acknowledged whole, once, in the order of `send`.
    pub(super) fn tell_all_undelivered(&mut self) {
        // What was given up was told then.
        let sent = self.outstanding.drain().filter(|chunk| !chunk.abandoned);
        let mut failed: Vec<_> = sent.map(|chunk| chunk.fragment.undelivered()).collect();
        failed.extend(self.queue.drain().iter().map(UnsentMessage::undelivered));
        failed.sort_by_key(|undelivered| undelivered.message);
        failed.dedup_by_key(|undelivered| undelivered.message);
        for undelivered in failed {
            self.notices.tell(Event::Undelivered(undelivered));
        }
    }

    pub(super) fn tell_unsent(&mut self, unsent: UnsentMessage) {
        self.notices.tell(Event::Undelivered(unsent.undelivered()));
    }

    /// All that is in flight is to be sent again, through no fault of the network.
    pub(super) fn requeue_outstanding(&mut self) {
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            self.outstanding.on_timeout(id);
            let path = self.paths.path_mut(id);
            path.flight_size = 0;
            path.t3 = None;
        }
    }
}
