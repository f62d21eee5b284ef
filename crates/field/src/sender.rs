//! The side that connects and sends: the association has a runtime in the namespace, the messages a thread that sleeps until each
//! one's time.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anabranch::{Association, Config, SendError, SendOptions};
use anabranch_bed::Side;
use anabranch_lab::stage::{Demand, Messages};
use anabranch_lab::traffic::{Class, Submission, ppid_of};
use anabranch_proto::Timestamp;
use bytes::Bytes;

use crate::clock::Clock;
use crate::error::FieldError;
use crate::receiver::{PORT, addresses, endpoint};

/// What messages are cut from: nobody looks at their content.
const CONTENT: &[u8] = &[0; 65_536];
/// How long a greedy sender waits for room at most.
const LOOK: Duration = Duration::from_millis(1);

/// What the sender did so far.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Once it is made.
    pub(crate) association: OnceLock<Association>,
    submitted: Mutex<Vec<Submission>>,
    refused: Mutex<u64>,
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

    /// The last message of a class, by number.
    pub(crate) fn last_of(&self, class: usize) -> Option<usize> {
        let submitted = self.submitted.lock().unwrap_or_else(PoisonError::into_inner);
        submitted.iter().rposition(|message| message.class == class)
    }

    /// Gives a message to the association; false if there is no room for it.
    fn submit(
        &self,
        association: &Association,
        classes: &[Class],
        message: Submission,
    ) -> Result<bool, FieldError> {
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
        let content = Bytes::from_static(&CONTENT[..message.len]);
        match association.try_send(class.stream, content, options) {
            Ok(_) => {
                let mut submitted = self.submitted.lock().unwrap_or_else(PoisonError::into_inner);
                submitted.push(message);
                Ok(true)
            }
            Err(SendError::BufferFull) => Ok(false),
            Err(error) => Err(FieldError::Ended(error.to_string())),
        }
    }
}

/// Keeps the association from its beginning to the end of the run.
pub(crate) async fn associate(
    config: &Config,
    paths: usize,
    messages: (Timestamp, &[Class]),
    clock: &Clock<'_>,
    sent: &Sent,
) -> Result<(), FieldError> {
    let (connect, classes) = messages;
    let endpoint = endpoint(config, &addresses(Side::Left, paths))?;
    if !clock.waited(connect).await {
        return Ok(());
    }
    let association = endpoint.connect((Side::Right.ipv4(1), 0), PORT).await?;
    for class in classes.iter().filter(|class| class.priority != 0) {
        let set = association.set_stream_priority(class.stream, class.priority);
        set.map_err(|error| FieldError::Ended(error.to_string()))?;
    }
    let _ = sent.association.set(association);
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
    match messages.demand {
        Demand::Scheduled(schedule) => {
            for message in schedule.take_while(|message| message.at < until) {
                if !clock.wait_until(message.at) {
                    return Ok(());
                }
                // Its delay counts from when it was to be submitted: waking late is part of it.
                if !sent.submit(association, &messages.classes, message)? {
                    *sent.refused.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                }
            }
        }
        Demand::Greedy(len) => loop {
            let at = clock.now();
            if at >= until {
                return Ok(());
            }
            let message = Submission { at, len, class: 0 };
            if !sent.submit(association, &messages.classes, message)? && !clock.wait_until(at + LOOK) {
                return Ok(());
            }
        },
    }
    Ok(())
}
