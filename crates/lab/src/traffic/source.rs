//! The side that connects and sends.

use std::iter::Peekable;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_netsim::{Application, HostApi};
use anabranch_proto::{AssociationId, ConnectOptions, Event, SendOptions, StreamId, Timestamp};
use bytes::Bytes;

use super::{Submission, ppid_of};

/// What messages are cut from: nobody looks at their content.
const CONTENT: &[u8] = &[0; 65_536];

/// How long a file is not looked after at most.
const LOOK: Duration = Duration::from_millis(100);

/// Messages, each at its time.
type Schedule = Box<dyn Iterator<Item = Submission> + Send>;

/// Which messages a source submits.
enum Demand {
    Scheduled(Peekable<Schedule>),
    Greedy(usize),
}

/// What is there to be sent whenever less than so much waits.
#[derive(Clone, Copy, Debug)]
struct Backlog {
    class: usize,
    len: usize,
    bytes: usize,
}

/// Messages that are sent alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    /// On which stream.
    pub stream: StreamId,
    /// The stream's priority; other than 0 only where the scheduler knows priorities.
    pub priority: u16,
    /// With which options, but for the payload protocol identifier.
    pub options: SendOptions,
}

impl From<SendOptions> for Class {
    /// On stream 0, which is of priority 0.
    fn from(options: SendOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }
}

/// Connects when its timer begins, and then submits messages until it is to stop.
pub struct Source {
    peer: SocketAddr,
    peer_port: u16,
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
    /// A source of scheduled messages, which are in order of time, to an endpoint: its address and UDP port, and its
    /// SCTP port.
    ///
    /// # Panics
    /// When it submits a message longer than 65,536 bytes or of a class that there is not, or when the association is made
    /// without a stream of a class or knows no priorities but has to.
    #[must_use]
    pub fn scheduled(
        peer: (SocketAddr, u16),
        classes: Vec<Class>,
        schedule: impl Iterator<Item = Submission> + Send + 'static,
    ) -> Self {
        let schedule: Schedule = Box::new(schedule);
        Self::new(peer, classes, Demand::Scheduled(schedule.peekable()))
    }

    /// A source that keeps the send buffer full of messages of `len` bytes.
    ///
    /// # Panics
    /// When it submits one, if they are longer than 65,536 bytes.
    #[must_use]
    pub fn greedy(peer: (SocketAddr, u16), options: SendOptions, len: usize) -> Self {
        Self::new(peer, vec![options.into()], Demand::Greedy(len))
    }

    fn new(peer: (SocketAddr, u16), classes: Vec<Class>, demand: Demand) -> Self {
        Self {
            peer: peer.0,
            peer_port: peer.1,
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

    /// The same, which beside its schedule submits messages of `len` bytes of a class while less than `bytes` wait to be sent:
    /// a file, read as fast as it leaves. It looks when something is due or happens.
    #[must_use]
    pub fn beside_file(mut self, class: usize, len: usize, bytes: usize) -> Self {
        self.backlog = Some(Backlog { class, len, bytes });
        self
    }

    /// The same, which submits nothing from `end` on.
    #[must_use]
    pub fn until(mut self, end: Timestamp) -> Self {
        self.until = Some(end);
        self
    }

    /// The same, which submits no more than so many messages: a file of known length.
    #[must_use]
    pub fn at_most(mut self, messages: usize) -> Self {
        self.at_most = messages;
        self
    }

    /// The messages that were submitted and taken; a message's place is its number.
    #[must_use]
    pub fn submitted(&self) -> &[Submission] {
        &self.submitted
    }

    /// Scheduled messages that found the send buffer full, and are forgotten.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The association, once begun.
    #[must_use]
    pub fn association(&self) -> Option<AssociationId> {
        self.association
    }

    /// Whether the association took the message.
    fn submit(&mut self, api: &mut HostApi<'_>, message: Submission) -> bool {
        let now = api.now();
        let Some(association) = self.association.and_then(|id| api.association(id)) else {
            return false;
        };
        let class = &self.classes[message.class];
        let options = SendOptions {
            ppid: ppid_of(self.submitted.len()),
            ..class.options
        };
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
                .expect("there is the stream, and a scheduler that knows priorities");
        }
    }

    /// Submits of the file what may wait.
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
            let has_room = association.is_some_and(|association| association.stats().queued_bytes < bytes);
            if !(has_room && self.submit(api, Submission { at, len, class })) {
                return;
            }
        }
    }

    /// Submits what is due. With a schedule, sets the timer for what comes next.
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
                        return;
                    };
                    if next.at > now {
                        // Beside a file it looks more often: that must not run dry meanwhile.
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
        // That of a host that was connected to.
        self.association.get_or_insert(id);
        let takes_messages = matches!(event, Event::Established { .. } | Event::Writable);
        if takes_messages && matches!(self.demand, Demand::Greedy(_)) {
            self.submit_due(api);
        }
        self.fill_backlog(api);
    }

    fn on_timer(&mut self, api: &mut HostApi<'_>) {
        if self.association.is_none() {
            let begun = api.connect(self.peer, self.peer_port, ConnectOptions::default());
            self.association = begun.ok();
            self.set_priorities(api);
        }
        if matches!(self.demand, Demand::Scheduled(_)) {
            self.submit_due(api);
        }
        self.fill_backlog(api);
    }
}
