//! The sending application, which connects.

use std::iter::Peekable;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_netsim::{Application, HostApi};
use anabranch_proto::{AssociationId, ConnectOptions, Event, SendOptions, StreamId, Timestamp};
use bytes::Bytes;

use super::{Submission, ppid_of};

/// The content of all messages: no experiment reads it.
const CONTENT: &[u8] = &[0; 65_536];

/// The longest time between two checks of a backlog.
const LOOK: Duration = Duration::from_millis(100);

/// Messages, each at its time.
type Schedule = Box<dyn Iterator<Item = Submission> + Send>;

/// The messages that a source submits.
enum Demand {
    Scheduled(Peekable<Schedule>),
    Greedy(usize),
}

/// Keeps at least `bytes` bytes waiting to be sent, in messages of `len` bytes.
#[derive(Clone, Copy, Debug)]
struct Backlog {
    class: usize,
    len: usize,
    bytes: usize,
}

/// Messages that are sent with the same settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    /// The stream.
    pub stream: StreamId,
    /// The stream's priority. Values other than 0 need a scheduler with priorities.
    pub priority: u16,
    /// The send options, except the payload protocol identifier.
    pub options: SendOptions,
}

impl From<SendOptions> for Class {
    /// A class on stream 0 with priority 0.
    fn from(options: SendOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }
}

/// Connects when its timer first fires, and then submits messages until its end time.
pub struct Source {
    /// The destination: address and UDP port, and the SCTP port. `None` if the peer connects.
    peer: Option<(SocketAddr, u16)>,
    classes: Vec<Class>,
    demand: Demand,
    backlog: Option<Backlog>,
    until: Option<Timestamp>,
    at_most: usize,
    association: Option<AssociationId>,
    submitted: Vec<Submission>,
    refused: u64,
}

impl Source {
    /// A source of scheduled messages, in order of time. `peer` is the address and UDP port, and the SCTP port.
    ///
    /// # Panics
    /// If a message is longer than 65,536 bytes or its class does not exist. Also if the new association lacks a stream of a class, or if a
    /// class has a priority and the scheduler has none.
    #[must_use]
    pub fn scheduled(
        peer: (SocketAddr, u16),
        classes: Vec<Class>,
        schedule: impl Iterator<Item = Submission> + Send + 'static,
    ) -> Self {
        let schedule: Schedule = Box::new(schedule);
        Self::new(Some(peer), classes, Demand::Scheduled(schedule.peekable()))
    }

    /// A source of scheduled messages, in order of time, on the host that accepts the association.
    ///
    /// # Panics
    /// As [`Source::scheduled`].
    #[must_use]
    pub fn answering(
        classes: Vec<Class>,
        schedule: impl Iterator<Item = Submission> + Send + 'static,
    ) -> Self {
        let schedule: Schedule = Box::new(schedule);
        Self::new(None, classes, Demand::Scheduled(schedule.peekable()))
    }

    /// A source that keeps the send buffer full of messages of `len` bytes.
    ///
    /// # Panics
    /// If `len` is larger than 65,536.
    #[must_use]
    pub fn greedy(peer: (SocketAddr, u16), options: SendOptions, len: usize) -> Self {
        Self::new(Some(peer), vec![options.into()], Demand::Greedy(len))
    }

    fn new(peer: Option<(SocketAddr, u16)>, classes: Vec<Class>, demand: Demand) -> Self {
        Self {
            peer,
            classes,
            demand,
            backlog: None,
            until: None,
            at_most: usize::MAX,
            association: None,
            submitted: Vec::new(),
            refused: 0,
        }
    }

    /// Adds a file to the schedule: messages of `len` bytes of a class are submitted while less than `bytes` wait to be sent. The source
    /// checks this at every event, and at least every 100 ms.
    #[must_use]
    pub fn beside_file(mut self, class: usize, len: usize, bytes: usize) -> Self {
        self.backlog = Some(Backlog { class, len, bytes });
        self
    }

    /// Submits nothing from `end` on.
    #[must_use]
    pub fn until(mut self, end: Timestamp) -> Self {
        self.until = Some(end);
        self
    }

    /// Submits at most `messages` messages, like a file of known length.
    #[must_use]
    pub fn at_most(mut self, messages: usize) -> Self {
        self.at_most = messages;
        self
    }

    /// The messages that the association accepted; a message's place is its number.
    #[must_use]
    pub fn submitted(&self) -> &[Submission] {
        &self.submitted
    }

    /// Scheduled messages that were dropped because the send buffer was full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The association, once it exists.
    #[must_use]
    pub fn association(&self) -> Option<AssociationId> {
        self.association
    }

    /// Submits a message; returns whether the association accepted it.
    fn submit(&mut self, api: &mut HostApi<'_>, message: Submission) -> bool {
        let now = api.now();
        let Some(association) = self.association.and_then(|id| api.association(id)) else {
            return false;
        };
        let class = &self.classes[message.class];
        let options = class.options.ppid(ppid_of(self.submitted.len()));
        let content = Bytes::from_static(&CONTENT[..message.len]);
        let taken = association.send(now, class.stream, content, options).is_ok();
        if taken {
            self.submitted.push(message);
        }
        taken
    }

    fn set_priorities(&self, api: &mut HostApi<'_>) {
        let association = self.association.and_then(|id| api.association(id));
        let Some(association) = association else {
            return;
        };
        for class in self.classes.iter().filter(|class| class.priority != 0) {
            association
                .set_stream_priority(class.stream, class.priority)
                .expect("the stream exists, and the scheduler has priorities");
        }
    }

    /// Submits messages of the file up to its limit.
    fn fill_backlog(&mut self, api: &mut HostApi<'_>) {
        let at = api.now();
        let Some(Backlog { class, len, bytes }) = self.backlog else {
            return;
        };
        if self.until.is_some_and(|until| at >= until) {
            return;
        }
        loop {
            let association = self.association.and_then(|id| api.association(id));
            let has_space = association.is_some_and(|association| association.stats().queued_bytes < bytes);
            if !(has_space && self.submit(api, Submission { at, len, class })) {
                return;
            }
        }
    }

    /// Submits the due messages. With a schedule, sets the timer for the next message.
    fn submit_due(&mut self, api: &mut HostApi<'_>) {
        let (now, until) = (api.now(), self.until);
        let is_before_end = |at: Timestamp| until.is_none_or(|until| at < until);
        while self.submitted.len() < self.at_most {
            match &mut self.demand {
                Demand::Greedy(len) => {
                    let message = Submission {
                        at: now,
                        len: *len,
                        class: 0,
                    };
                    if !(is_before_end(now) && self.submit(api, message)) {
                        return;
                    }
                }
                Demand::Scheduled(schedule) => {
                    let Some(next) = schedule.peek().copied().filter(|next| is_before_end(next.at)) else {
                        // The schedule of an answering source may be empty, and its file still needs checks.
                        if self.peer.is_none() && self.backlog.is_some() && is_before_end(now) {
                            api.set_timer(Some(now + LOOK));
                        }
                        return;
                    };
                    if next.at > now {
                        // A file needs more frequent checks, so that its backlog does not become empty.
                        let look = self.backlog.map_or(next.at, |_| next.at.min(now + LOOK));
                        return api.set_timer(Some(look));
                    }
                    schedule.next();
                    if !self.submit(api, next) {
                        self.refused += 1;
                    }
                }
            }
        }
    }
}

impl Application for Source {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        // On the host that accepted the association, this is its first event.
        let is_accepted = self.association.is_none();
        self.association.get_or_insert(id);
        if is_accepted {
            self.set_priorities(api);
        }
        let takes_messages = matches!(event, Event::Established { .. } | Event::Writable(_));
        if takes_messages && matches!(self.demand, Demand::Greedy(_)) {
            self.submit_due(api);
        }
        self.fill_backlog(api);
    }

    fn on_timer(&mut self, api: &mut HostApi<'_>) {
        match self.peer {
            Some((peer, port)) if self.association.is_none() => {
                let begun = api.connect(peer, port, ConnectOptions::default());
                self.association = begun.ok();
                self.set_priorities(api);
            }
            // The peer has not connected yet.
            None if self.association.is_none() => return api.set_timer(Some(api.now() + LOOK)),
            _ => {}
        }
        if matches!(self.demand, Demand::Scheduled(_)) {
            self.submit_due(api);
        }
        self.fill_backlog(api);
    }
}
