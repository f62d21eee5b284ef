//! Stream reconfiguration (RFC 6525): the application's requests, the chunks, and the Re-configuration Timer.

use anabranch_wire::StreamId;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Chunk, ErrorChunk, ReConfig, kind};
use bytes::Bytes;

use super::packet_notes::PacketNotes;
use super::{Association, State};
use crate::association_state::permit;
use crate::event::Event;
use crate::extension::reconfiguration::{Change, Circumstances, Outgoing, Parts, Reconfiguration};
use crate::path::PathId;
use crate::reconfiguration::{ReconfigurationError, ResetDirection, StreamSelection};
use crate::time::Timestamp;

/// Bytes of a packet that a request needs besides its lists of streams: the headers of SCTP and the chunk, an Outgoing SSN Reset Request
/// with an Incoming one or a response, and padding.
const REQUEST_OVERHEAD: usize = 12 + 4 + 16 + 12 + 2;

/// Requests a change of the streams (RFC 6525); [`Association::reconfigure`] makes it. One request at a time may wait for its answer, which
/// comes as [`crate::ReconfigurationEvent::Answered`].
#[derive(Debug)]
pub struct Reconfigure<'a> {
    association: &'a mut Association,
    now: Timestamp,
}

impl Reconfigure<'_> {
    /// Resets streams: the next ordered message of each has SSN 0 (with interleaving, the next message of each kind has MID 0), and the
    /// receiving application is told. Messages that were given to `send` before are sent and acknowledged first. Messages given to `send`
    /// afterwards wait until the peer has answered. A message begun with `send_part` must be ended before the reset can happen.
    ///
    /// # Errors
    /// See [`ReconfigurationError`]; nothing was changed then.
    pub fn reset_streams(
        self,
        streams: StreamSelection,
        direction: ResetDirection,
    ) -> Result<(), ReconfigurationError> {
        self.check()?;
        let association = self.association;
        let outgoing = direction != ResetDirection::Incoming;
        let incoming = direction != ResetDirection::Outgoing;
        let streams = match streams {
            StreamSelection::All => StreamSelection::All,
            StreamSelection::Listed(mut listed) => {
                listed.sort_unstable();
                listed.dedup();
                let last = *listed.last().ok_or(ReconfigurationError::Empty)?;
                let invalid = (outgoing && last.0 >= association.sender.queue.stream_count())
                    || (incoming && !association.receiver.has_stream(last));
                if invalid {
                    return Err(ReconfigurationError::InvalidStream(last));
                }
                let limit = most_listed(association) / (usize::from(outgoing) + usize::from(incoming));
                if listed.len() > limit {
                    return Err(ReconfigurationError::TooManyStreams { limit });
                }
                StreamSelection::Listed(listed)
            }
        };
        let change = Change::Reset {
            outgoing: outgoing.then(|| streams.clone()),
            incoming: incoming.then_some(streams),
        };
        Reconfigure {
            association,
            now: self.now,
        }
        .request(change)
    }

    /// Adds streams: `outgoing` to the peer, and asks the peer to add `incoming` to this endpoint. One of the numbers may be 0. New streams
    /// have the numbers that follow those of the present streams, and may be used after [`crate::ReconfigurationEvent::StreamsAdded`].
    ///
    /// # Errors
    /// See [`ReconfigurationError`]; nothing was changed then.
    pub fn add_streams(self, outgoing: u16, incoming: u16) -> Result<(), ReconfigurationError> {
        self.check()?;
        if outgoing == 0 && incoming == 0 {
            return Err(ReconfigurationError::Empty);
        }
        self.request(Change::Add { outgoing, incoming })
    }

    /// Resets the TSNs and SSNs of both directions, when nothing is outstanding any more. All messages given to `send` afterwards wait until
    /// the peer has answered. At most once in 30 s.
    ///
    /// # Errors
    /// See [`ReconfigurationError`]; nothing was changed then.
    pub fn reset_association(self) -> Result<(), ReconfigurationError> {
        self.check()?;
        self.request(Change::Association)
    }

    fn check(&self) -> Result<(), ReconfigurationError> {
        match self.association.state {
            _ if self.association.ending.is_asked() => Err(ReconfigurationError::Closed),
            State::Established => Ok(()),
            State::CookieWait(_) | State::CookieEchoed(_) => Err(ReconfigurationError::NotEstablished),
            _ => Err(ReconfigurationError::Closed),
        }
    }
}

impl Association {
    /// Requests for changes of the streams (RFC 6525): resets, and more streams.
    pub fn reconfigure(&mut self, now: Timestamp) -> Reconfigure<'_> {
        Reconfigure {
            association: self,
            now,
        }
    }
}

/// The most streams that the requests in one packet can list.
fn most_listed(association: &Association) -> usize {
    let path = association.paths.path(association.paths.data_path());
    let signer = association.authentication.signer();
    let auth_len = signer.map_or(0, |signer| signer.overhead(kind::RE_CONFIG));
    let room = path.pmtu.max_packet().saturating_sub(REQUEST_OVERHEAD + auth_len);
    room / size_of::<StreamId>()
}

/// The parts of the association that a reconfiguration changes.
fn parts(association: &mut Association) -> (&mut Reconfiguration, Parts<'_>) {
    let parts = Parts {
        queue: &mut association.sender.queue,
        outstanding: &mut association.sender.outstanding,
        receiver: &mut association.receiver,
    };
    (&mut association.reconfiguration, parts)
}

/// The calls of the association.
impl Reconfigure<'_> {
    fn request(self, change: Change) -> Result<(), ReconfigurationError> {
        self.association.step(self.now, |it| {
            let (reconfiguration, mut parts) = parts(it);
            reconfiguration.request(self.now, change, &mut parts)?;
            it.reconfigure(self.now).pass_on(None);
            Ok(())
        })
    }

    /// A RE-CONFIG arrived. Before the COOKIE ACK it is dropped, and after the association has finished: the peer retransmits it.
    pub(super) fn on_chunk(mut self, chunk: &ReConfig, notes: &mut PacketNotes) {
        let association = &mut *self.association;
        if association.state.may(permit::SET_UP) || association.state.has_finished() {
            return;
        }
        association.counters.reconfigs_received += 1;
        let contents = match chunk.contents() {
            Ok(contents) => contents,
            Err(_) => {
                let what =
                    "a RE-CONFIG has malformed parameters, or a combination of them that is not allowed";
                let cause = Cause::ProtocolViolation(Bytes::from_static(what.as_bytes()));
                let causes = Causes::from_causes(&[cause]);
                association.answer(Chunk::Error(ErrorChunk { causes }), notes);
                return;
            }
        };
        let circumstances = Circumstances {
            shutting_down: association.ending.is_asked() || !matches!(association.state, State::Established),
            backlog: association.notices.is_backlogged(),
            most_listed: most_listed(association),
        };
        let (reconfiguration, mut parts) = parts(association);
        if reconfiguration.on_chunk(self.now, &contents, circumstances, &mut parts) {
            association.receiver.force_ack();
        }
        if !contents.unrecognized.is_empty() {
            let causes = Causes::from_causes(&[Cause::UnrecognizedParameters(contents.unrecognized)]);
            association.answer(Chunk::Error(ErrorChunk { causes }), notes);
        }
        self.pass_on(Some(notes));
    }

    /// Called after any input.
    pub(super) fn advance(mut self) {
        if self.association.state.may(permit::SET_UP) || self.association.state.is_closed() {
            return;
        }
        let (reconfiguration, mut parts) = parts(self.association);
        reconfiguration.advance(self.now, &mut parts);
        self.pass_on(None);
    }

    /// The Re-configuration Timer has expired (RFC 6525 §5.1.1).
    pub(super) fn on_timer(mut self) {
        let failed: Option<PathId> = self.association.reconfiguration.on_timer(self.now);
        if let Some(path) = failed {
            self.association.paths.path_mut(path).rtt.back_off();
            if !self.association.on_path_error(self.now, path, true) {
                return;
            }
        }
        self.association.reconfiguration.retransmit();
        self.pass_on(None);
    }

    /// Sends the chunks that became due, and reports the events. `notes` limits the answers to one packet of the peer.
    fn pass_on(&mut self, notes: Option<&mut PacketNotes>) {
        let association = &mut *self.association;
        let mut unlimited = PacketNotes::default();
        let notes = notes.unwrap_or(&mut unlimited);
        while let Some(outgoing) = association.reconfiguration.poll_outgoing() {
            association.counters.reconfigs_sent += 1;
            match outgoing {
                Outgoing::Answer(chunk) => association.answer(Chunk::ReConfig(chunk), notes),
                Outgoing::Request(chunk) => {
                    // Each retransmission takes the next path, like that of a SHUTDOWN.
                    let mut id = association.paths.data_path();
                    for _ in 0..association.reconfiguration.retransmissions() {
                        id = association.paths.other_than(id);
                    }
                    association.control.push(id, Chunk::ReConfig(chunk));
                    let timeout = association.paths.path(id).rtt.rto();
                    association.reconfiguration.on_sent(self.now, id, timeout);
                }
            }
        }
        while let Some(event) = association.reconfiguration.poll_event() {
            association.notices.tell(Event::Reconfiguration(event));
        }
        if let Some(what) = association.reconfiguration.take_violation() {
            association.abort_for_violation(what);
        }
    }
}
