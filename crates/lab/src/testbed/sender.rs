//! The sender, which connects. The association has its own runtime in the namespace. Another thread sleeps until the time of each message
//! and submits it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anabranch::{Association, Config, SendError, SendOptions, StreamId};
use anabranch_bed::Side;
use anabranch_proto::Timestamp;
use bytes::Bytes;

use super::clock::Clock;
use super::error::TestbedError;
use super::receiver::{PORT, addresses, block_on, endpoint};
use crate::stage::{Demand, Messages};
use crate::traffic::{Class, Submission, ppid_of};

/// The content of all messages: no test reads it.
pub(crate) const CONTENT: &[u8] = &[0; 65_536];
/// How often the submitting thread checks whether the association exists.
const LOOK: Duration = Duration::from_millis(1);

/// The messages and counts of the sender so far.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Set when the association is established.
    pub(crate) association: OnceLock<Association>,
    submitted: Mutex<Vec<Submission>>,
    refused: Mutex<u64>,
    /// How late each scheduled message was submitted, in milliseconds.
    late: Mutex<Vec<f64>>,
    /// Set when all messages were submitted.
    done: AtomicBool,
}

impl Sent {
    /// The messages that the association accepted.
    pub(crate) fn submitted(&self) -> Vec<Submission> {
        self.submitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Messages refused because the send buffer was full.
    pub(crate) fn refused(&self) -> u64 {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How late the scheduled messages were submitted, in milliseconds.
    pub(crate) fn late(&self) -> Vec<f64> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether all messages were submitted.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    fn refuse(&self) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// The number of the last message of a class.
    pub(crate) fn last_of(&self, class: usize) -> Option<usize> {
        let submitted = self.submitted.lock().unwrap_or_else(PoisonError::into_inner);
        submitted.iter().rposition(|message| message.class == class)
    }

    /// The stream, the content and the options of a message.
    fn parts(&self, classes: &[Class], message: Submission) -> (StreamId, Bytes, SendOptions) {
        let class = &classes[message.class];
        // Only this thread adds messages, so the length is the number of the next one.
        let number = self
            .submitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        let options = class.options.ppid(ppid_of(number));
        (class.stream, Bytes::from_static(&CONTENT[..message.len]), options)
    }

    fn note_late(&self, late: Duration) {
        let mut all = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(late.as_secs_f64() * 1e3);
    }

    fn note(&self, message: Submission) {
        self.submitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(message);
    }
}

/// Holds the association until the run is over. If data flows both ways, reads and drops all messages.
pub(crate) async fn associate(
    config: &Config,
    paths: usize,
    messages: (Timestamp, &[Class], bool),
    clock: &Clock<'_>,
    sent: &Sent,
) -> Result<(), TestbedError> {
    let (connect, classes, receives) = messages;
    let endpoint = endpoint(config, &addresses(Side::Left, paths))?;
    if !clock.waited(connect).await {
        return Ok(());
    }
    let association = endpoint.connect_to_port((Side::Right.ipv4(1), 0), PORT).await?;
    for class in classes.iter().filter(|class| class.priority != 0) {
        let set = association.set_stream_priority(class.stream, class.priority);
        set.map_err(|error| TestbedError::Ended(error.to_string()))?;
    }
    let _ = sent.association.set(association.clone());
    if receives {
        let drop_all = async { while let Ok(Some(_)) = association.recv().await {} };
        let _ = clock.unless_over(drop_all).await;
    }
    clock.ended().await;
    Ok(())
}

/// Submits each message at its time, up to `until`.
pub(crate) fn submit(
    messages: Messages,
    until: Timestamp,
    clock: &Clock<'_>,
    sent: &Sent,
) -> Result<(), TestbedError> {
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
                match association.try_send_with(stream, content, options) {
                    // The delay counts from the scheduled time, so it includes a late wake-up of this thread.
                    Ok(_) => {
                        sent.note_late(clock.now().saturating_duration_since(message.at));
                        sent.note(message);
                    }
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

/// Submits messages of `len` bytes as fast as the send buffer accepts them.
async fn greedy(
    association: &Association,
    classes: &[Class],
    (len, until): (usize, Timestamp),
    clock: &Clock<'_>,
    sent: &Sent,
) -> Result<(), TestbedError> {
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

fn ended(error: &SendError) -> TestbedError {
    TestbedError::Ended(error.to_string())
}
