//! One stream of an association: reading it separately, and its buffered amount.

use anabranch_wire::StreamId;

use super::Association;
use crate::error::SendError;
use crate::message::{NextItem, StreamItem};
use crate::time::Timestamp;

/// A stream of an association: [`Association::stream`].
#[derive(Debug)]
pub struct Stream<'a> {
    association: &'a mut Association,
    now: Timestamp,
    id: StreamId,
}

impl Association {
    /// The operations on one stream.
    pub fn stream(&mut self, now: Timestamp, id: StreamId) -> Stream<'_> {
        Stream {
            association: self,
            now,
            id,
        }
    }
}

impl Stream<'_> {
    /// From now on, [`Stream::recv`] returns the messages of this stream, and [`Association::recv`] does not; this holds for messages that
    /// wait already. With `false`, [`Association::recv`] returns them again. Unread messages of any stream fill the one receive window of
    /// the association.
    pub fn set_separate(&mut self, separate: bool) {
        let id = self.id;
        self.association
            .step(self.now, |it| it.receiver.set_separate(id, separate));
    }

    /// The next message, or part of a message, of this stream, which is read separately ([`Stream::set_separate`]); otherwise as
    /// [`Association::recv`].
    pub fn recv(&mut self) -> Option<StreamItem> {
        let item = self.association.receiver.recv_from(self.now, self.id);
        if let Some(StreamItem::Part(part)) = &item {
            self.association.on_read(self.now, part.ending);
        }
        item
    }

    /// The kind of the item that [`Stream::recv`] would return, of a stream that is read separately.
    #[must_use]
    pub fn peek(&self) -> Option<NextItem> {
        self.association.receiver.peek(self.id)
    }

    /// From now on, [`crate::Event::BufferedAmountLow`] tells when the buffered amount of this stream falls from above `threshold` to it or
    /// below (in bytes). `None`, the default, tells nothing.
    ///
    /// # Errors
    /// [`SendError::InvalidStream`].
    pub fn set_buffered_amount_low_threshold(&mut self, threshold: Option<usize>) -> Result<(), SendError> {
        let id = self.id;
        self.association.step(self.now, |it| {
            it.sender.queue.set_buffered_amount_low_threshold(id, threshold)
        })
    }
}
