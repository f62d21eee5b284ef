//! Stream reconfiguration (RFC 6525): resets of streams, resets of the TSNs, and more streams.
//!
//! `request` owns the requests of this endpoint, of which one at a time is in flight. `answer` owns the request sequence number of the peer
//! and the results that are sent again if the peer retransmits a request. This file performs the changes in the send queue, the outstanding
//! chunks and the receiver. `association/reconfiguration.rs` sends the chunks and runs the timer.
//!
//! Rules that the RFC leaves open:
//!
//! * A reset of outgoing streams is requested when all data that was sent before on any stream is cumulatively acknowledged. A FORWARD-TSN
//!   that lists a message of the stream can therefore not arrive after the reset (partial reliability), nor can a retransmission on a slower
//!   path (CMT).
//! * A reset of the TSNs waits, at both endpoints, until nothing is outstanding: §5.2.4 G3 would otherwise lose data of the endpoint
//!   that is asked. It is answered with "In progress" meanwhile, with the current next TSN: data with lower TSNs is from before the
//!   reset. The endpoint that asked processes other data after the final response, which the first data after the reset may overtake.
//!   With ECA-SCTP it is denied: COOP-SACK and FORWARD-PSN name transmissions, and a late one would be about TSNs of before the reset.
//!   Within 30 s after a reset (the maximum segment lifetime, §5.1.4) another one is denied, because it would use the same TSNs again.
//! * A peer that asks for a reset of incoming streams while another request of this endpoint is in flight, or while the streams have
//!   unacknowledged data, is answered with "In progress"; the outgoing request follows. If an incoming reset that this endpoint asked for is
//!   in flight, the answer is "Request already in progress", so that two such requests that cross do not wait for each other.

mod answer;
mod former;
mod parameters;
mod parts;
mod request;

use core::time::Duration;
use std::collections::VecDeque;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{ReConfig, ReConfigContents};
use anabranch_wire::parameter::{Parameter, StreamList};

use crate::config::Config;
use crate::path::PathId;
use crate::reconfiguration::{
    ReconfigurationError, ReconfigurationEvent as Event, ReconfigurationRequest as Request,
    ReconfigurationResult, StreamSelection,
};
use crate::seq::ExtendedTsn;
use crate::time::Timestamp;
use answer::{ALREADY_IN_PROGRESS, Answers, DENIED, IN_PROGRESS, NOTHING_TO_DO, PERFORMED, WRONG_SSN};
use former::{Former, MSL};
use parameters::{chunk_of, selection, sequence_of};
pub(crate) use parts::Parts;
pub(crate) use request::Change;
use request::{Job, Requests};

/// The most requests of the peer that wait for a request of this endpoint. A peer that follows §5.1.1 has one or two.
const MOST_WAITING: usize = 4;

/// The state of the association, as far as it decides which requests of the peer are denied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// Either endpoint asked for the shutdown.
    pub(crate) shutting_down: bool,
    /// The application has not polled many events.
    pub(crate) backlog: bool,
    /// The most streams that a request of one packet can list.
    pub(crate) most_listed: usize,
}

/// Limits of the configuration.
#[derive(Clone, Copy, Debug)]
struct Limits {
    inbound: u16,
    outbound: u16,
    association_reset: bool,
}

/// A reset of the peer's streams that waits for data (§5.2.2 E2).
#[derive(Debug)]
struct Deferred {
    sequence: u32,
    last: ExtendedTsn,
    streams: StreamSelection,
}

/// A chunk to be sent.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A request: the Re-configuration Timer runs from then on.
    Request(ReConfig),
    /// An answer.
    Answer(ReConfig),
}

/// The stream reconfiguration of an association.
#[derive(Debug)]
pub(crate) struct Reconfiguration {
    enabled: bool,
    limits: Limits,
    requests: Requests,
    answers: Answers,
    deferred: Option<Deferred>,
    /// The sequence number of the peer's SSN/TSN Reset Request, while it waits until nothing is outstanding.
    clearing: Option<u32>,
    /// When the TSNs were last reset.
    association_reset: Option<Timestamp>,
    former_outbound: Option<Former>,
    former_inbound: Option<Former>,
    outgoing: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    violation: Option<&'static str>,
    /// The requests of the chunk that is being handled: they are answered after it.
    handling: Vec<u32>,
}

/// Set-up, output.
impl Reconfiguration {
    /// Of an association that is set up, or restarted. `with_association_reset` is false with extensions that forbid a reset of the TSNs.
    pub(crate) fn new(
        enabled: bool,
        config: &Config,
        with_association_reset: bool,
        initial_tsn: Tsn,
        peer_initial_tsn: Tsn,
    ) -> Self {
        Self {
            enabled,
            limits: Limits {
                inbound: config.streams.max_inbound,
                outbound: config.reconfiguration.max_outbound,
                association_reset: config.reconfiguration.association_reset && with_association_reset,
            },
            requests: Requests::new(initial_tsn),
            answers: Answers::new(peer_initial_tsn),
            deferred: None,
            clearing: None,
            association_reset: None,
            former_outbound: None,
            former_inbound: None,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            violation: None,
            handling: Vec::new(),
        }
    }

    /// The next chunk to be sent.
    pub(crate) fn poll_outgoing(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// The next event for the application.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The peer's violation of the protocol, if there was one.
    pub(crate) fn take_violation(&mut self) -> Option<&'static str> {
        self.violation.take()
    }

    /// Whether an acknowledgement is from before a reset of this endpoint's TSNs, or may be from after a reset whose response has not
    /// arrived: nothing is outstanding then.
    #[inline]
    pub(crate) fn is_former_ack(&self, now: Timestamp, cumulative: Tsn) -> bool {
        let former = self
            .former_outbound
            .is_some_and(|former| former.has(now, cumulative));
        former || self.requests.resets_association()
    }

    /// Whether data of the peer, or its FORWARD-TSN, is from before a reset of its TSNs.
    #[inline]
    pub(crate) fn is_former_data(&self, now: Timestamp, tsn: Tsn) -> bool {
        self.former_inbound.is_some_and(|former| former.has(now, tsn))
    }
}

/// Requests of this endpoint.
impl Reconfiguration {
    /// Makes a request of the application.
    pub(crate) fn request(
        &mut self,
        now: Timestamp,
        change: Change,
        parts: &mut Parts<'_>,
    ) -> Result<(), ReconfigurationError> {
        if !self.enabled {
            return Err(ReconfigurationError::NotSupported);
        }
        if !self.requests.is_idle() || self.clearing.is_some() {
            return Err(ReconfigurationError::InProgress);
        }
        match &change {
            Change::Association if !self.limits.association_reset || self.is_too_soon(now) => {
                return Err(ReconfigurationError::AssociationReset);
            }
            Change::Add { outgoing, incoming } => {
                let room_out = u16::MAX - parts.queue.stream_count();
                let room_in = self
                    .limits
                    .inbound
                    .saturating_sub(parts.receiver.inbound_streams());
                if *outgoing > room_out || *incoming > room_in {
                    return Err(ReconfigurationError::TooManyAdded);
                }
            }
            _ => {}
        }
        self.requests.push(Job {
            change,
            answers: None,
            by_peer: false,
        });
        self.advance(now, parts);
        Ok(())
    }

    fn is_too_soon(&self, now: Timestamp) -> bool {
        self.association_reset.is_some_and(|at| now < at + MSL)
    }

    /// The request was given to the queue of control chunks: starts the Re-configuration Timer (§5.1.1).
    pub(crate) fn on_sent(&mut self, now: Timestamp, path: PathId, timeout: Duration) {
        self.requests.on_sent(now, path, timeout);
    }

    /// When the Re-configuration Timer expires, while it runs. It stops when the association neither sends nor receives data any more
    /// (`transfers`): then nothing waits for a request. In SHUTDOWN-SENT received data may still wait for a response.
    pub(crate) fn due(&self, transfers: bool) -> Option<Timestamp> {
        self.requests.due().filter(|_| transfers)
    }

    /// The Re-configuration Timer expired. Returns the path of the last transmission if its error counter is to be incremented.
    pub(crate) fn on_timer(&mut self, now: Timestamp) -> Option<PathId> {
        self.requests.on_timer(now)
    }

    /// How many times the request in flight was retransmitted.
    pub(crate) fn retransmissions(&self) -> u32 {
        self.requests.retransmissions()
    }

    /// Queues the request in flight again.
    pub(crate) fn retransmit(&mut self) {
        self.outgoing
            .extend(self.requests.retransmit().map(Outgoing::Request));
    }

    /// Whether no request of either side waits. (Chunks and events leave with the call that causes them.)
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.requests.is_idle() && self.deferred.is_none() && self.clearing.is_none()
    }

    /// Called after any input: performs what had to wait, and sends the next request.
    pub(crate) fn advance(&mut self, now: Timestamp, parts: &mut Parts<'_>) {
        if !self.enabled {
            return;
        }
        if self
            .deferred
            .as_ref()
            .is_some_and(|deferred| parts.receiver.has_all_to(deferred.last))
            && let Some(deferred) = self.deferred.take()
        {
            self.perform_inbound(deferred.streams, parts);
            self.settle(deferred.sequence, None);
        }
        if self.clearing.is_some() && parts.queue.is_drained() && parts.outstanding.is_empty() {
            self.perform_association(now, parts);
        }
        if self.clearing.is_none() {
            let waits = self.deferred.is_some();
            let response = self.answers.expected().wrapping_sub(1);
            if let Some(chunk) = self.requests.advance(parts, waits, response) {
                self.outgoing.push_back(Outgoing::Request(chunk));
            }
        }
    }

    /// The peer answered one of the requests in flight (§5.2.7).
    fn on_response(
        &mut self,
        now: Timestamp,
        sequence: u32,
        result: u32,
        next_tsns: Option<(Tsn, Tsn)>,
        parts: &mut Parts<'_>,
    ) {
        if result == IN_PROGRESS {
            let request = self.requests.on_in_progress(now, sequence);
            // The peer had not performed the reset when it assigned the TSNs below its next one. Without this, data that waits could fill
            // the receive window, and the peer would wait for ever until nothing is outstanding.
            if let (Some(Request::ResetAssociation), Some((of_peer, _))) = (request, next_tsns)
                && let Err(what) = parts.receiver.defer_from(of_peer)
            {
                self.violation = Some(what);
            }
            return;
        }
        let Some(answered) = self.requests.on_answer(sequence) else {
            return;
        };
        let outcome = ReconfigurationResult::from_wire(result);
        match answered.request {
            Request::ResetOutgoing => {
                parts.queue.release(outcome.is_success());
                if let (true, Some(streams)) = (answered.by_peer && outcome.is_success(), answered.streams) {
                    self.events.push_back(Event::OutboundReset { streams });
                }
                if let Some(of_peer) = answered.answers {
                    let _ = self.answers.settle(of_peer, PERFORMED, None);
                }
            }
            Request::ResetAssociation => self.on_association_answered(now, outcome, next_tsns, parts),
            Request::AddOutgoing if outcome.is_success() => {
                parts.queue.add_streams(answered.count);
                self.tell_streams(parts);
            }
            Request::AddOutgoing | Request::AddIncoming | Request::ResetIncoming => {}
        }
        if !answered.by_peer {
            self.events.push_back(Event::Answered {
                request: answered.request,
                result: outcome,
            });
        }
    }

    /// The peer answered the SSN/TSN Reset Request (§5.2.7 H5).
    fn on_association_answered(
        &mut self,
        now: Timestamp,
        outcome: ReconfigurationResult,
        next_tsns: Option<(Tsn, Tsn)>,
        parts: &mut Parts<'_>,
    ) {
        let performed = outcome == ReconfigurationResult::Performed;
        parts.queue.release(performed);
        let done = match (performed, next_tsns) {
            (false, _) => parts.receiver.end_deferral().map(|()| None),
            (true, None) => Err("a response to an SSN/TSN Reset Request has no TSNs"),
            (true, Some((of_peer, own))) => {
                let former = parts.outstanding.next_tsn();
                if former != own {
                    self.former_outbound = Some(Former::new(now, former));
                }
                parts.outstanding.continue_at(own);
                let expected = parts.receiver.cumulative_tsn().next();
                let far = |one: Tsn, other: Tsn| one.distance_from(other) > u32::from(u16::MAX);
                if far(of_peer, expected) && far(expected, of_peer) {
                    self.former_inbound = Some(Former::new(now, expected));
                }
                self.association_reset = Some(now);
                parts.receiver.reset_association(of_peer).map(Some)
            }
        };
        match done {
            Ok(Some(first_message)) => self.events.push_back(Event::AssociationReset { first_message }),
            Ok(None) => {}
            Err(what) => self.violation = Some(what),
        }
    }

    fn tell_streams(&mut self, parts: &Parts<'_>) {
        self.events.push_back(Event::StreamsAdded {
            outbound_streams: parts.queue.stream_count(),
            inbound_streams: parts.receiver.inbound_streams(),
        });
    }
}

/// Requests of the peer.
impl Reconfiguration {
    /// A RE-CONFIG arrived. Returns whether it had a request, so that a SACK should be sent with the answer (§5.2.1).
    pub(crate) fn on_chunk(
        &mut self,
        now: Timestamp,
        contents: &ReConfigContents,
        circumstances: Circumstances,
        parts: &mut Parts<'_>,
    ) -> bool {
        let mut responses = Vec::new();
        let mut asked = false;
        let mut begins = true;
        for parameter in &contents.parameters {
            if let Parameter::ReConfigResponse {
                sequence,
                result,
                next_tsns,
            } = parameter
            {
                self.on_response(now, *sequence, *result, *next_tsns, parts);
                continue;
            }
            asked = true;
            let sequence = sequence_of(parameter);
            if sequence == self.answers.expected() {
                self.answers.begin(core::mem::take(&mut begins));
                let result = self.perform(now, sequence, parameter, circumstances, parts);
                let tsns = matches!(parameter, Parameter::TsnReset { .. }).then(|| {
                    (
                        parts.outstanding.next_tsn(),
                        parts.receiver.cumulative_tsn().next(),
                    )
                });
                self.answers.push(sequence, result, tsns);
                self.handling.push(sequence);
                if result == IN_PROGRESS {
                    self.advance(now, parts);
                }
            }
            if self.clearing == Some(sequence) {
                let tsns = (
                    parts.outstanding.next_tsn(),
                    parts.receiver.cumulative_tsn().next(),
                );
                let _ = self.answers.settle(sequence, IN_PROGRESS, Some(tsns));
            }
            // A retransmission of the request in flight is the answer to the peer's incoming request.
            if let Some(chunk) = self.requests.answering(sequence) {
                let already = |one: &Outgoing| matches!(one, Outgoing::Request(_));
                if !self.outgoing.iter().any(already) {
                    self.outgoing.push_back(Outgoing::Answer(chunk.clone()));
                }
            } else {
                responses.push(self.answers.response(sequence));
            }
        }
        self.handling.clear();
        self.advance(now, parts);
        self.put_together(responses);
        asked
    }

    /// Queues the responses to one chunk, in one chunk (§5.2.1), if possible with the Outgoing SSN Reset Request that is about to leave.
    fn put_together(&mut self, responses: Vec<Parameter>) {
        if responses.is_empty() {
            return;
        }
        if let ([response], Some(Outgoing::Request(request))) =
            (responses.as_slice(), self.outgoing.back_mut())
        {
            let first = request.parameters.iter().next().and_then(Result::ok);
            if request.parameters.iter().count() == 1
                && let Some(Ok(reset @ Parameter::OutgoingReset { .. })) = first.map(Parameter::decode)
            {
                *request = chunk_of(&[response.clone(), reset]);
                return;
            }
        }
        self.outgoing.push_front(Outgoing::Answer(chunk_of(&responses)));
    }

    /// Performs the peer's next request, or denies it; returns the result.
    fn perform(
        &mut self,
        now: Timestamp,
        sequence: u32,
        request: &Parameter,
        circumstances: Circumstances,
        parts: &mut Parts<'_>,
    ) -> u32 {
        match request {
            _ if circumstances.backlog => DENIED,
            Parameter::OutgoingReset {
                response,
                last_tsn,
                streams,
                ..
            } => self.on_outgoing_reset(now, sequence, *response, *last_tsn, streams, parts),
            // §5.2.5: the limit is configurable.
            Parameter::AddOutgoing { count, .. } => {
                self.on_response_of_kind(now, Request::AddIncoming, parts);
                let total = parts.receiver.inbound_streams().checked_add(*count);
                match total {
                    _ if *count == 0 => NOTHING_TO_DO,
                    Some(total) if total <= self.limits.inbound => {
                        parts.receiver.add_streams(*count);
                        self.tell_streams(parts);
                        PERFORMED
                    }
                    _ => DENIED,
                }
            }
            // No further message may be sent on these streams.
            _ if circumstances.shutting_down => DENIED,
            Parameter::IncomingReset { streams, .. } => {
                self.on_incoming_reset(sequence, streams, circumstances.most_listed, parts)
            }
            Parameter::TsnReset { .. } => self.on_tsn_reset(now, sequence, parts),
            Parameter::AddIncoming { count, .. } => {
                let waiting = self.requests.added_streams();
                let total = u32::from(parts.queue.stream_count()) + u32::from(*count) + waiting;
                if *count == 0 {
                    NOTHING_TO_DO
                } else if total > u32::from(self.limits.outbound) {
                    DENIED
                } else if self.requests.waiting() >= MOST_WAITING {
                    ALREADY_IN_PROGRESS
                } else {
                    // §5.2.6 wants an Add Outgoing Streams Request. It cannot name the request that it answers, so a response precedes it.
                    self.requests.push(Job {
                        change: Change::Add {
                            outgoing: *count,
                            incoming: 0,
                        },
                        answers: None,
                        by_peer: true,
                    });
                    PERFORMED
                }
            }
            _ => DENIED,
        }
    }

    /// A request of the peer is the answer to a request of this kind.
    fn on_response_of_kind(&mut self, now: Timestamp, kind: Request, parts: &mut Parts<'_>) {
        if let Some(sequence) = self.requests.pending(kind) {
            self.on_response(now, sequence, PERFORMED, None, parts);
        }
    }

    /// §5.2.2.
    fn on_outgoing_reset(
        &mut self,
        now: Timestamp,
        sequence: u32,
        response: u32,
        last_tsn: Tsn,
        streams: &StreamList,
        parts: &mut Parts<'_>,
    ) -> u32 {
        if !streams.iter().all(|stream| parts.receiver.has_stream(stream)) {
            return WRONG_SSN;
        }
        // E1: the request answers a request of this endpoint.
        if self.requests.pending(Request::ResetIncoming) == Some(response) {
            self.on_response(now, response, PERFORMED, None, parts);
        }
        if self.deferred.is_some() || self.requests.resets_association() {
            return ALREADY_IN_PROGRESS;
        }
        let (last, complete) = parts.receiver.progress_to(last_tsn);
        let streams = selection(streams);
        if complete {
            self.perform_inbound(streams, parts);
            return PERFORMED;
        }
        // The sender keeps its TSNs within 16 bits of the cumulative TSN ack.
        if !parts.receiver.has_all_to(last - u64::from(u16::MAX)) {
            return DENIED;
        }
        parts.receiver.defer(last, streams.clone());
        self.deferred = Some(Deferred {
            sequence,
            last,
            streams,
        });
        IN_PROGRESS
    }

    /// E3, E4.
    fn perform_inbound(&mut self, streams: StreamSelection, parts: &mut Parts<'_>) {
        match parts.receiver.reset_streams(&streams) {
            Ok(first_message) => self.events.push_back(Event::InboundReset {
                streams,
                first_message,
            }),
            Err(what) => self.violation = Some(what),
        }
    }

    /// §5.2.3.
    fn on_incoming_reset(
        &mut self,
        sequence: u32,
        streams: &StreamList,
        most_listed: usize,
        parts: &mut Parts<'_>,
    ) -> u32 {
        let count = parts.queue.stream_count();
        if !streams.iter().all(|stream| stream.0 < count) {
            return WRONG_SSN;
        }
        let streams = selection(streams);
        if self.requests.covers(&streams) || (self.requests.is_idle() && parts.queue.are_at_zero(&streams)) {
            return NOTHING_TO_DO;
        }
        // The request of this endpoint would not fit a packet, and would be sent for each short retransmission of the peer.
        if matches!(&streams, StreamSelection::Listed(listed) if listed.len() > most_listed) {
            return DENIED;
        }
        // If each endpoint waited for the reset that answers its own request, both would wait for ever.
        let crosses = self.requests.pending(Request::ResetIncoming).is_some();
        if crosses || self.requests.waiting() >= MOST_WAITING || self.clearing.is_some() {
            return ALREADY_IN_PROGRESS;
        }
        self.requests.push(Job {
            change: Change::Reset {
                outgoing: Some(streams),
                incoming: None,
            },
            answers: Some(sequence),
            by_peer: true,
        });
        IN_PROGRESS
    }

    /// §5.2.4.
    fn on_tsn_reset(&mut self, now: Timestamp, sequence: u32, parts: &mut Parts<'_>) -> u32 {
        if !self.limits.association_reset || self.is_too_soon(now) {
            return DENIED;
        }
        if !self.requests.is_idle() || self.deferred.is_some() || self.clearing.is_some() {
            return ALREADY_IN_PROGRESS;
        }
        parts.queue.hold(&StreamSelection::All);
        self.clearing = Some(sequence);
        IN_PROGRESS
    }

    /// Nothing is outstanding any more: performs the peer's SSN/TSN Reset Request (G1 to G6).
    fn perform_association(&mut self, now: Timestamp, parts: &mut Parts<'_>) {
        let Some(sequence) = self.clearing.take() else {
            return;
        };
        let former = parts.receiver.cumulative_tsn().next();
        let (own, of_peer) = (parts.outstanding.next_tsn(), former.plus(1 << 31));
        self.former_inbound = Some(Former::new(now, former));
        self.association_reset = Some(now);
        parts.queue.release(true);
        match parts.receiver.reset_association(of_peer) {
            Ok(first_message) => self.events.push_back(Event::AssociationReset { first_message }),
            Err(what) => self.violation = Some(what),
        }
        self.settle(sequence, Some((own, of_peer)));
    }

    /// A request that was in progress has been performed: the peer is told at once, or after the chunk with the request.
    fn settle(&mut self, sequence: u32, next_tsns: Option<(Tsn, Tsn)>) {
        let answer = self.answers.settle(sequence, PERFORMED, next_tsns);
        if !self.handling.contains(&sequence) {
            self.outgoing.push_back(Outgoing::Answer(chunk_of(&[answer])));
        }
    }
}
