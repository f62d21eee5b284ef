//! Receipts: what became of one message.

use std::collections::BTreeMap;
use std::fmt;

use anabranch_proto::{Event, MessageId};
use tokio::sync::oneshot;

/// The outcome of a message: see [`Receipt::delivered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// The peer acknowledged the whole message, and cannot renege on it. The peer's program need not have read it yet.
    Acknowledged,
    /// The message was abandoned, as its deadline or its [`Reliability`](crate::Reliability) demands.
    Abandoned {
        /// Whether any part of it was sent: if so, the peer may have received it.
        sent: bool,
    },
    /// The association ended or restarted before the message was acknowledged.
    Failed {
        /// As in [`Delivery::Abandoned`].
        sent: bool,
    },
}

impl Delivery {
    /// Whether the peer has the message for certain.
    #[must_use]
    pub fn is_acknowledged(self) -> bool {
        self == Self::Acknowledged
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acknowledged => "the peer acknowledged the message",
            Self::Abandoned { sent: true } => "the message was abandoned after a part of it was sent",
            Self::Abandoned { sent: false } => "the message was abandoned before any part of it was sent",
            Self::Failed { sent: true } => "the association ended after a part of the message was sent",
            Self::Failed { sent: false } => "the association ended before any part of the message was sent",
        })
    }
}

/// A receipt for one message, from [`Association::send_with_receipt`](crate::Association::send_with_receipt). Dropping it changes nothing.
#[derive(Debug)]
#[must_use = "a receipt that nobody asks is not needed: use `send` or `send_with`"]
pub struct Receipt {
    message: MessageId,
    fate: oneshot::Receiver<Delivery>,
}

impl Receipt {
    /// The identifier of the message, which events and traces have too.
    #[must_use]
    pub fn message(&self) -> MessageId {
        self.message
    }

    /// Waits until the fate of the message is certain. A reliable message to a peer that does not answer waits until the association ends
    /// (`retransmissions.association`).
    pub async fn delivered(self) -> Delivery {
        // Only an association whose code failed ends without a word about its messages.
        self.fate.await.unwrap_or(Delivery::Failed { sent: true })
    }

    /// The same for programs without tokio: blocks the thread. Not for asynchronous code, where it panics.
    #[must_use]
    pub fn delivered_blocking(self) -> Delivery {
        self.fate
            .blocking_recv()
            .unwrap_or(Delivery::Failed { sent: true })
    }
}

/// The receipts of an association that have no answer yet. The send buffer bounds their number.
#[derive(Debug, Default)]
pub(crate) struct Receipts(BTreeMap<MessageId, oneshot::Sender<Delivery>>);

impl Receipts {
    /// Makes the receipt of a message that was sent just now, with [`SendOptions::confirm`](field@anabranch_proto::SendOptions::confirm).
    pub(crate) fn issue(&mut self, message: MessageId) -> Receipt {
        let (answer, fate) = oneshot::channel();
        self.0.insert(message, answer);
        Receipt { message, fate }
    }

    /// Answers the receipt that the event concerns. Returns whether the application needs no other word of the event.
    pub(crate) fn on_event(&mut self, event: &Event) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let (message, delivery) = match event {
            Event::Acknowledged(which) => (which.message, Delivery::Acknowledged),
            Event::Abandoned(which) => (which.message, Delivery::Abandoned { sent: which.sent }),
            Event::Undelivered(which) => (which.message, Delivery::Failed { sent: which.sent }),
            _ => return false,
        };
        let Some(answer) = self.0.remove(&message) else {
            return false;
        };
        // Nobody may hold the receipt any more.
        let _ = answer.send(delivery);
        delivery.is_acknowledged()
    }

    /// The association has ended.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
