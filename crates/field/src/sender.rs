//! The side that connects and sends: the association has a runtime in the namespace, the messages a thread that sleeps until each
//! one's time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anabranch::{Association, Config, SendError, SendOptions, StreamId};
use anabranch_bed::Side;
use anabranch_lab::stage::{Demand, Messages};
use anabranch_lab::traffic::{Class, Submission, ppid_of};
use anabranch_proto::Timestamp;
use bytes::Bytes;

use crate::clock::Clock;
use crate::error::FieldError;
use crate::receiver::{PORT, addresses, block_on, endpoint};

/// What messages are cut from: nobody looks at their content.
pub(crate) const CONTENT: &[u8] = &[0; 65_536];
/// How often it is asked whether there is an association.
const LOOK: Duration = Duration::from_millis(1);

/// What the sender did so far.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Once it is made.
    pub(crate) association: OnceLock<Association>,
    submitted: Mutex<Vec<Submission>>,
    refused: Mutex<u64>,
    /// No message is submitted any more.
    done: AtomicBool,
}

impl Sent {
    /// The messages that were taken.
    pub(crate) fn submitted(&self) -> Vec<Submission> {
        self.submitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Messages that found the send buffer full.
    pub(crate) fn refused(&self) -> u64 {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all messages that there are to be were submitted.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    fn refuse(&self) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// The last message of a class, by number.
    pub(crate) fn last_of(&self, class: usize) -> Option<usize> {
        let submitted = self.submitted.lock().unwrap_or_else(PoisonError::into_inner);
        submitted.iter().rposition(|message| message.class == class)
    }

    /// On which stream a message goes, with what in it and which options.
    fn parts(&self, classes: &[Class], message: Submission) -> (StreamId, Bytes, SendOptions) {
        let class = &classes[message.class];
        // Nobody else adds to it.
        let number = self
            .submitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        let options = SendOptions {
            ppid: ppid_of(number),
            ..class.options
        };
        (class.stream, Bytes::from_static(&CONTENT[..message.len]), options)
    }

    fn note(&self, message: Submission) {
        self.submitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(message);
    }
}

/// Keeps the association from its beginning to the end of the run; if it receives, nobody looks at what.
pub(crate) async fn associate(
    config: &Config,
    paths: usize,
    messages: (Timestamp, &[Class], bool),
    clock: &Clock<'_>,
    sent: &Sent,
) -> Result<(), FieldError> {
    let (connect, classes, receives) = messages;
    let endpoint = endpoint(config, &addresses(Side::Left, paths))?;
    if !clock.waited(connect).await {
        return Ok(());
    }
    let association = endpoint.connect((Side::Right.ipv4(1), 0), PORT).await?;
    for class in classes.iter().filter(|class| class.priority != 0) {
        let set = association.set_stream_priority(class.stream, class.priority);
        set.map_err(|error| FieldError::Ended(error.to_string()))?;
    }
    let _ = sent.association.set(association.clone());
    if receives {
        let drop_all = async { while let Ok(Some(_)) = association.recv().await {} };
        let _ = clock.unless_over(drop_all).await;
    }
    clock.ended().await;
    Ok(())
}

/// Submits the messages, each at its time, none from `until` on.
pub(crate) fn submit(
    messages: Messages,
    until: Timestamp,
    clock: &Clock<'_>,
    sent: &Sent,
) -> Result<(), FieldError> {
    let mut at = messages.connect;
    let association = loop {
        if let Some(association) = sent.association.get() {
            break association;
        }
        at += LOOK;
        if !clock.wait_until(at) {
            return Ok(());
        }
    };
    let classes = &messages.classes;
    match messages.demand {
        Demand::Scheduled(schedule) => {
            for message in schedule.take_while(|message| message.at < until) {
                if !clock.wait_until(message.at) {
                    break;
                }
                let (stream, content, options) = sent.parts(classes, message);
                match association.try_send(stream, content, options) {
                    // Its delay counts from when it was to be submitted: waking late is part of it.
                    Ok(_) => sent.note(message),
                    Err(SendError::BufferFull) => sent.refuse(),
                    Err(error) => return Err(ended(&error)),
                }
            }
        }
        Demand::Greedy(len) | Demand::GreedyBothWays(len) => {
            let all = greedy(association, classes, (len, until), clock, sent);
            block_on(async { clock.unless_over(all).await.unwrap_or(Ok(())) })?;
        }
    }
    sent.done.store(true, Ordering::Release);
    Ok(())
}

/// Messages of so many bytes, as fast as there is room for them.
async fn greedy(
    association: &Association,
    classes: &[Class],
    (len, until): (usize, Timestamp),
    clock: &Clock<'_>,
    sent: &Sent,
) -> Result<(), FieldError> {
    while clock.now() < until {
        let at = clock.now();
        let message = Submission { at, len, class: 0 };
        let (stream, content, options) = sent.parts(classes, message);
        let given = association.send_with(stream, content, options).await;
        given.map_err(|error| ended(&error))?;
        sent.note(message);
    }
    Ok(())
}

fn ended(error: &SendError) -> FieldError {
    FieldError::Ended(error.to_string())
}
