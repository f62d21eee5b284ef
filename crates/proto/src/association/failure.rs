//! Path and association failure, and ABORT (RFC 9260 §8.1, §8.2, §9.1; RFC 7829 §3.2).

use anabranch_wire::Tsn;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Abort, Chunk};

use super::addresses::{on_address_unknown, on_path_doubtful, on_path_silent};
use super::ports::move_port;
use super::{Association, ControlQueue, Notices, State};
use crate::association_state::permit;
use crate::close_reason::CloseReason;
use crate::controller::Controller;
use crate::event::{EndpointEvent, Event, PathError};
use crate::inbound::Inbound;
use crate::path::{PathId, PathState};
use crate::receive::Receiver;
use crate::time::Timestamp;
use crate::trace_event::TraceKind;
use crate::transmit::Sender;

impl Association {
    /// Handles an error that the operating system or the layer below reported for a path. With RFC 7829, an unreachable path counts as a timeout if
    /// another path can take over: heartbeats then find out when the path works again. Otherwise the error has no effect, and
    /// the timers decide.
    pub fn handle_path_error(&mut self, now: Timestamp, path: PathId, error: PathError) {
        if !self.state.is_closed() && self.paths.has(path) {
            self.step(now, |it| it.take_path_error(now, path, error));
        }
    }

    pub(super) fn take_path_error(&mut self, now: Timestamp, path: PathId, error: PathError) {
        match error {
            PathError::Closed => {
                self.close(self.state.reason_of_silence(CloseReason::LowerLayerClosed));
            }
            PathError::TooLarge(mtu) => {
                let path = self.paths.path_mut(path);
                path.pmtu.on_too_large(now, mtu);
                path.control.on_packet_size(path.pmtu.max_data());
            }
            PathError::Unreachable => {
                let in_use = self.paths.path(path).state == PathState::Active;
                let quick = self.config.retransmissions.fails_potentially();
                let leaves = quick && self.paths.other_than(path) != path;
                if in_use && leaves && self.state.may(permit::HEARTBEAT) {
                    self.on_t3(now, path);
                }
            }
            PathError::RouteChanged if self.state.may(permit::HEARTBEAT) => {
                self.sender.leave_path(&mut self.paths, path);
                let local = self.paths.path(path).route.local;
                self.paths.move_to(path, local, &self.config, now);
                self.send_heartbeat(now, path);
            }
            PathError::RouteChanged => {}
        }
    }

    /// Counts an error of a path (§8.2), and of the association if the path is in use or carried data (§8.1). Returns false if
    /// the association has failed.
    pub(super) fn on_path_error(&mut self, now: Timestamp, id: PathId, counts_for_association: bool) -> bool {
        let limits = &self.config.retransmissions;
        if self.paths.path_mut(id).on_error(limits) {
            self.notices.tell_path(self.paths.path(id));
            let sends_heartbeats = self.state.may(permit::HEARTBEAT);
            self.paths.on_doubted(now, id, sends_heartbeats);
            self.try_other_address(now, id);
        }
        if self.paths.path(id).is_doubtful() {
            on_path_doubtful(self, now, id);
        }
        if self.state.may(permit::HEARTBEAT) {
            move_port(self, now);
            on_path_silent(self, now, id);
        }
        self.error_count += u32::from(counts_for_association);
        if self.error_count > self.config.retransmissions.association_max_retrans {
            self.close(self.state.reason_of_silence(CloseReason::Unreachable));
            return false;
        }
        true
    }

    /// The path works: the peer acknowledged data or a heartbeat sent there, or set-up used the path (§5.4, §8.1, §8.2).
    pub(super) fn on_path_answered(&mut self, id: PathId) {
        self.error_count = 0;
        if !self.paths.has(id) {
            return;
        }
        self.paths.on_confirmed(id);
        let arrived_here = self.paths.last_arrival == id;
        if self.paths.path_mut(id).on_answered(arrived_here) {
            self.notices.tell_path(self.paths.path(id));
        }
    }

    /// Sends an ABORT with this cause and ends the association.
    pub(super) fn abort_with(&mut self, cause: Cause, reason: CloseReason) {
        if self.state.is_closed() {
            return;
        }
        // Without the peer's tag no ABORT can be sent.
        if self.identity.knows_peer() {
            let causes = Causes::from_causes(&[cause]);
            let abort = Chunk::Abort(Abort {
                reflected_tag: false,
                causes,
            });
            let path = self.paths.path(self.paths.answer_path());
            let signer = self.authentication.signer();
            let mut packet = self.identity.last_packet(path, abort, signer);
            packet.source = self.addresses.next_source().or(packet.source);
            self.control.reply(packet);
        }
        self.close(reason);
    }

    /// Ends the association after a panic in its code, which may have left any part in an inconsistent state. All data that waits to be
    /// sent or read is dropped, the peer is sent an ABORT, and the application gets [`CloseReason::InternalError`]. A driver that catches
    /// panics calls this once, and then handles the association like any other that has ended.
    pub fn fail(&mut self) {
        self.change(Self::fail_now);
    }

    fn fail_now(&mut self) {
        let config = &self.config;
        self.sender = Sender::new(self.identity.local_initial_tsn, config);
        self.receiver = Receiver::new(Tsn(0), 0, config);
        self.sender.outstanding.journal.set(self.trace.is_on());
        self.control = ControlQueue::default();
        self.notices = Notices::new();
        self.ending.stop();
        // A primary path exists whatever step the panic interrupted.
        let primary = self.paths.primary();
        self.paths.last_arrival = primary;
        let was_closed = self.state.is_closed();
        self.state = State::Closed;
        if !was_closed && self.identity.knows_peer() {
            let abort = Chunk::Abort(Abort {
                reflected_tag: false,
                causes: Causes::empty(),
            });
            let path = self.paths.path(primary);
            let signer = self.authentication.signer();
            self.control.reply(self.identity.last_packet(path, abort, signer));
        }
        self.notices.tell_endpoint(EndpointEvent::Closed);
        self.sender.outstanding.journal.note(|| TraceKind::Closed {
            reason: CloseReason::InternalError,
        });
        self.notices.tell(Event::Closed(CloseReason::InternalError));
    }

    /// An ABORT arrived (§9.1).
    ///
    /// An ABORT with this endpoint's own tag comes from the peer. With the T bit it proves only that its sender received a packet
    /// of this endpoint. A packet to an address which the peer merely listed may have reached another host, or may have left an
    /// address translator with another source address. Then the ABORT in answer (§8.4 rule 8) concerns that path alone (§5.4).
    ///
    /// In SHUTDOWN-ACK-SENT all data is acknowledged in both directions. An ABORT with the T bit then comes from a peer that has
    /// completed the shutdown: its SHUTDOWN COMPLETE was lost or reordered, and it treated a late packet of this endpoint as
    /// out of the blue (§8.4 rule 8).
    pub(super) fn on_abort(&mut self, now: Timestamp, inbound: &Inbound, abort: &Abort) {
        // The peer has deleted the address, and then took an earlier packet for out of the blue (RFC 5061 §5.3.1).
        if self.addresses.is_leaving(inbound.local) {
            return;
        }
        let path = self.paths.find(inbound.local, inbound.remote);
        if let Some(id) = path.filter(|id| abort.reflected_tag && self.paths.is_only_listed(*id)) {
            // The host at that address may set up an association of its own (RFC 5062 §2).
            let path = self.paths.path_mut(id);
            if path.on_denied() {
                path.schedule_heartbeat(now, &mut self.random);
                let remote = path.route.remote;
                // Another path may have proved that the address is the peer's.
                if !self.paths.is_confirmed(remote) {
                    self.notices
                        .tell_endpoint(EndpointEvent::PeerAddressDenied(remote));
                }
                on_path_doubtful(self, now, id);
            }
            return;
        }
        let completed = abort.reflected_tag && self.state.has_finished();
        if abort.reflected_tag && !completed && on_address_unknown(self, now, inbound.local) {
            return;
        }
        self.close(if completed {
            CloseReason::Shutdown
        } else {
            CloseReason::AbortedByPeer(abort.causes.clone())
        });
    }

    /// Enters CLOSED and reports the messages that were never acknowledged.
    pub(super) fn close(&mut self, reason: CloseReason) {
        if self.state.is_closed() {
            return;
        }
        self.state = State::Closed;
        self.sender.stop();
        self.ending.stop();
        for path in self.paths.iter_mut() {
            path.timers.stop_t3();
            path.heartbeat.due = None;
        }
        self.control.clear_chunks();
        self.notices.tell_undelivered(&mut self.sender, &mut self.paths);
        // Complete messages can still be read.
        if self.receiver.is_readable() {
            self.notices.on_readable();
        }
        self.notices.tell_streams(self.receiver.take_news());
        self.notices.tell_endpoint(match reason {
            CloseReason::Shutdown => EndpointEvent::ShutDown {
                peer_tag: self.identity.peer_tag,
            },
            _ => EndpointEvent::Closed,
        });
        self.sender.outstanding.journal.note(|| TraceKind::Closed {
            reason: reason.clone(),
        });
        self.notices.tell(Event::Closed(reason));
    }
}
