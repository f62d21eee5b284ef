//! The requests of this endpoint (RFC 6525 §5.1), of which one chunk at a time is in flight, and the Re-configuration Timer.

use core::time::Duration;
use std::collections::VecDeque;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::ReConfig;
use anabranch_wire::parameter::Parameter;

use super::parameters::{chunk_of, list, sequence_of};
use super::parts::Parts;
use crate::path::PathId;
use crate::reconfiguration::{ReconfigurationRequest as Request, StreamSelection};
use crate::seq::ExtendedTsn;
use crate::time::Timestamp;

/// A change of the streams.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Reset of streams.
    Reset {
        outgoing: Option<StreamSelection>,
        incoming: Option<StreamSelection>,
    },
    /// Reset of all TSNs and SSNs.
    Association,
    /// More streams.
    Add { outgoing: u16, incoming: u16 },
}

impl Change {
    /// The streams whose new messages wait for the reset.
    fn held(&self) -> Option<&StreamSelection> {
        match self {
            Self::Reset { outgoing, .. } => outgoing.as_ref(),
            Self::Association => Some(&StreamSelection::All),
            Self::Add { .. } => None,
        }
    }
}

/// A request that waits or is in flight.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) change: Change,
    /// The peer's Incoming SSN Reset Request that this request answers.
    pub(super) answers: Option<u32>,
    /// Whether the peer asked for it.
    pub(super) by_peer: bool,
}

#[derive(Debug)]
enum Phase {
    /// Messages from before the request are still queued.
    Draining,
    /// They were sent; the request waits until all chunks before this one are acknowledged.
    Acknowledging(ExtendedTsn),
    Sent(Sent),
}

/// A request in flight.
#[derive(Debug)]
struct Sent {
    chunk: ReConfig,
    /// The sequence number of each request, and whether it waits for an answer.
    requests: Vec<(u32, Request, bool)>,
    timer: Option<Timestamp>,
    timeout: Duration,
    path: PathId,
    retransmissions: u32,
    /// The peer answered "In progress" since the last transmission.
    in_progress: bool,
}

/// A request that the peer answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) request: Request,
    pub(super) by_peer: bool,
    pub(super) answers: Option<u32>,
    /// The outgoing streams that were to be reset.
    pub(super) streams: Option<StreamSelection>,
    /// The number of outgoing streams to be added.
    pub(super) count: u16,
}

/// The request in flight and those that wait.
#[derive(Debug)]
pub(super) struct Requests {
    next: u32,
    current: Option<Box<(Job, Phase)>>,
    waiting: VecDeque<Job>,
}

impl Requests {
    /// The first request has the Initial TSN as sequence number (§4.1).
    pub(super) fn new(initial_tsn: Tsn) -> Self {
        Self {
            next: initial_tsn.0,
            current: None,
            waiting: VecDeque::new(),
        }
    }

    /// Whether no request waits or is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    /// The number of requests that wait for the one in flight.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The outgoing streams that will be added if the peer accepts all requests.
    pub(super) fn added_streams(&self) -> u32 {
        let jobs = self.current.iter().map(|current| &current.0).chain(&self.waiting);
        let counts = jobs.map(|job| match job.change {
            Change::Add { outgoing, .. } => u32::from(outgoing),
            _ => 0,
        });
        counts.sum()
    }

    pub(super) fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// Takes the next step of the current request; returns its chunk when it is to be sent. `waits` if a reset of the peer's streams is
    /// deferred, `response` is the sequence number of the peer's last request.
    pub(super) fn advance(&mut self, parts: &mut Parts<'_>, waits: bool, response: u32) -> Option<ReConfig> {
        if self.current.is_none() {
            let job = self.waiting.pop_front()?;
            if let Some(streams) = job.change.held() {
                parts.queue.hold(streams);
            }
            self.current = Some(Box::new((job, Phase::Draining)));
        }
        let (job, phase) = &mut **self.current.as_mut()?;
        let held = job.change.held().is_some();
        if matches!(phase, Phase::Draining) {
            if held && !parts.queue.is_drained() {
                return None;
            }
            *phase = Phase::Acknowledging(if held { parts.outstanding.next_index() } else { 0 });
        }
        let Phase::Acknowledging(before) = phase else {
            return None;
        };
        let resets_all = matches!(job.change, Change::Association);
        if parts.outstanding.base() < *before || (resets_all && (waits || !parts.outstanding.is_empty())) {
            return None;
        }
        if resets_all {
            // The peer's first data after the reset may overtake its response: data waits until it is known where the reset is.
            parts.receiver.defer_all();
        }
        let last_tsn = parts.outstanding.next_tsn().minus(1);
        let parameters = parameters(job, self.next, response, last_tsn);
        let requests = parameters
            .iter()
            .map(|(parameter, request)| (sequence_of(parameter), *request, true));
        let requests: Vec<_> = requests.collect();
        let parameters: Vec<_> = parameters.into_iter().map(|(parameter, _)| parameter).collect();
        self.next = self.next.wrapping_add(requests.len() as u32);
        let chunk = chunk_of(&parameters);
        *phase = Phase::Sent(Sent {
            chunk: chunk.clone(),
            requests,
            timer: None,
            timeout: Duration::ZERO,
            path: PathId(0),
            retransmissions: 0,
            in_progress: false,
        });
        Some(chunk)
    }

    fn sent(&self) -> Option<(&Job, &Sent)> {
        match &**self.current.as_ref()? {
            (job, Phase::Sent(sent)) => Some((job, sent)),
            _ => None,
        }
    }

    fn sent_mut(&mut self) -> Option<&mut Sent> {
        match &mut **self.current.as_mut()? {
            (_, Phase::Sent(sent)) => Some(sent),
            _ => None,
        }
    }

    pub(super) fn on_sent(&mut self, now: Timestamp, path: PathId, timeout: Duration) {
        if let Some(sent) = self.sent_mut() {
            sent.timer = Some(now + timeout);
            sent.timeout = timeout;
            sent.path = path;
        }
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        self.sent()?.1.timer
    }

    /// The timer expired. Returns the path whose error counter is to be incremented (§5.1.1), unless the peer answered "In progress" (§5.2.7
    /// H2).
    pub(super) fn on_timer(&mut self, now: Timestamp) -> Option<PathId> {
        let sent = self.sent_mut()?;
        sent.timer.take_if(|due| *due <= now)?;
        let counts = !core::mem::take(&mut sent.in_progress);
        sent.retransmissions += u32::from(counts);
        counts.then_some(sent.path)
    }

    pub(super) fn retransmissions(&self) -> u32 {
        self.sent().map_or(0, |(_, sent)| sent.retransmissions)
    }

    /// The chunk in flight, to be sent again.
    pub(super) fn retransmit(&self) -> Option<ReConfig> {
        self.sent().map(|(_, sent)| sent.chunk.clone())
    }

    /// The peer is still busy with a request: the timer restarts (§5.2.7 H2). Returns the request.
    pub(super) fn on_in_progress(&mut self, now: Timestamp, sequence: u32) -> Option<Request> {
        let sent = self.sent_mut()?;
        let open = |(one, _, open): &&(u32, Request, bool)| *open && *one == sequence;
        let request = sent.requests.iter().find(open)?.1;
        sent.in_progress = true;
        sent.timer = Some(now + sent.timeout);
        Some(request)
    }

    /// The peer answered a request: it is marked as acknowledged (§5.2.7 H1). `None` if it waits for no answer.
    pub(super) fn on_answer(&mut self, sequence: u32) -> Option<Answered> {
        let (job, Phase::Sent(sent)) = &mut **self.current.as_mut()? else {
            return None;
        };
        let (_, request, open) = sent
            .requests
            .iter_mut()
            .find(|(one, _, open)| *open && *one == sequence)?;
        *open = false;
        let request = *request;
        let (streams, count) = match &job.change {
            Change::Reset { outgoing, .. } => (outgoing.clone(), 0),
            Change::Association => (None, 0),
            Change::Add { outgoing, .. } => (None, *outgoing),
        };
        let answered = Answered {
            request,
            by_peer: job.by_peer,
            answers: job.answers,
            streams,
            count,
        };
        if sent.requests.iter().all(|(_, _, open)| !open) {
            self.current = None;
        }
        Some(answered)
    }

    /// The sequence number of a request of this kind that waits for its answer.
    pub(super) fn pending(&self, kind: Request) -> Option<u32> {
        let (_, sent) = self.sent()?;
        let open = |(_, request, open): &&(u32, Request, bool)| *open && *request == kind;
        sent.requests.iter().find(open).map(|(sequence, ..)| *sequence)
    }

    /// Whether an SSN/TSN Reset Request is in flight.
    pub(super) fn resets_association(&self) -> bool {
        self.pending(Request::ResetAssociation).is_some()
    }

    /// The chunk in flight, if it answers this request of the peer.
    pub(super) fn answering(&self, sequence: u32) -> Option<&ReConfig> {
        let (job, sent) = self.sent()?;
        (job.answers == Some(sequence)).then_some(&sent.chunk)
    }

    /// Whether the Outgoing SSN Reset Request in flight covers all these streams (§5.2.3).
    pub(super) fn covers(&self, streams: &StreamSelection) -> bool {
        let Some(Change::Reset {
            outgoing: Some(outgoing),
            ..
        }) = self
            .pending(Request::ResetOutgoing)
            .and(self.sent())
            .map(|(job, _)| &job.change)
        else {
            return false;
        };
        match (outgoing, streams) {
            (StreamSelection::All, _) => true,
            (StreamSelection::Listed(_), StreamSelection::All) => false,
            (StreamSelection::Listed(sent), StreamSelection::Listed(asked)) => {
                asked.iter().all(|stream| sent.binary_search(stream).is_ok())
            }
        }
    }
}

/// The parameters of a request, which have consecutive sequence numbers from `next` on.
fn parameters(job: &Job, next: u32, response: u32, last_tsn: Tsn) -> Vec<(Parameter, Request)> {
    let mut all = Vec::new();
    match &job.change {
        Change::Reset { outgoing, incoming } => {
            if let Some(streams) = outgoing {
                let parameter = Parameter::OutgoingReset {
                    request: next,
                    response: job.answers.unwrap_or(response),
                    last_tsn,
                    streams: list(streams),
                };
                all.push((parameter, Request::ResetOutgoing));
            }
            if let Some(streams) = incoming {
                let parameter = Parameter::IncomingReset {
                    request: next.wrapping_add(all.len() as u32),
                    streams: list(streams),
                };
                all.push((parameter, Request::ResetIncoming));
            }
        }
        Change::Association => all.push((Parameter::TsnReset { request: next }, Request::ResetAssociation)),
        Change::Add { outgoing, incoming } => {
            if *outgoing > 0 {
                let parameter = Parameter::AddOutgoing {
                    request: next,
                    count: *outgoing,
                };
                all.push((parameter, Request::AddOutgoing));
            }
            if *incoming > 0 {
                let parameter = Parameter::AddIncoming {
                    request: next.wrapping_add(all.len() as u32),
                    count: *incoming,
                };
                all.push((parameter, Request::AddIncoming));
            }
        }
    }
    all
}
