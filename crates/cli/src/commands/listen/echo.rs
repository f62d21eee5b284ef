//! Sends messages back, large messages part by part.
//!
//! A sender finishes one message of a stream before it begins the next. But while a large message lacks a fragment, the receiver
//! can deliver an unordered message of the same stream. The echo of the unordered message then waits until the large message ends.

use std::collections::{HashMap, VecDeque};

use anabranch::{
    Association, Event, MessagePart, ReconfigurationError, ReconfigurationEvent, Reliability, ResetDirection,
    SendError, SendOptions, StreamId, StreamSelection,
};

/// Limit of the memory that waits for the end of an incomplete message, in bytes. If it is exceeded, the association is aborted.
const MAX_WAITING: usize = 8 << 20;
/// Bytes that a part takes in addition to its user data.
const PART: usize = size_of::<MessagePart>() + 128;

/// The echoes of one association.
#[derive(Debug, Default)]
pub(super) struct Echo {
    streams: HashMap<StreamId, Line>,
    waiting_bytes: usize,
    messages: u64,
    /// The reliability policy of the echoes.
    reliability: Reliability,
    /// Streams that the peer reset, and that are still to be reset in the other direction.
    resets: Option<StreamSelection>,
    /// No more echoes can be sent: the association is shutting down or has ended.
    ended: bool,
}

/// A stream with an incomplete message.
#[derive(Debug)]
struct Line {
    open: u64,
    waiting: VecDeque<MessagePart>,
}

impl Echo {
    /// Echoes with this reliability policy.
    pub(super) fn new(reliability: Reliability) -> Self {
        Self {
            reliability,
            ..Self::default()
        }
    }

    /// The number of complete echoes.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// If the peer reset streams (RFC 6525), resets those of the other direction, as peers of data channels do (RFC 8831 §6.7). While another
    /// request waits for its answer, the reset waits too.
    pub(super) fn on_event(&mut self, association: &Association, event: &Event) {
        if let Event::Reconfiguration(ReconfigurationEvent::InboundReset { streams, .. }) = event {
            let count = association.outbound_streams();
            self.resets = match (self.resets.take(), streams) {
                (Some(StreamSelection::All), _) | (_, StreamSelection::All) => Some(StreamSelection::All),
                (earlier, StreamSelection::Listed(listed)) => {
                    let earlier = match earlier {
                        Some(StreamSelection::Listed(earlier)) => earlier,
                        _ => Vec::new(),
                    };
                    let present = listed.iter().copied().filter(|stream| stream.0 < count);
                    let mut all: Vec<_> = earlier.into_iter().chain(present).collect();
                    // A peer may reset a stream any number of times before its answer to the earlier reset.
                    all.sort_unstable();
                    all.dedup();
                    (!all.is_empty()).then_some(StreamSelection::Listed(all))
                }
            };
        }
        if let Some(streams) = self.resets.take()
            && let Err(ReconfigurationError::InProgress) =
                association.reset_streams(streams.clone(), ResetDirection::Outgoing)
        {
            self.resets = Some(streams);
        }
    }

    /// Sends a part back, or keeps it until its stream is free. A shutdown is not an error.
    pub(super) async fn send(&mut self, association: &Association, part: MessagePart) -> Result<(), String> {
        if self.ended {
            return Ok(());
        }
        match self.arrange(part)? {
            Some(part) => self.pass_on(association, part).await,
            None => Ok(()),
        }
    }

    /// Returns the part if it can be sent now; otherwise stores it.
    fn arrange(&mut self, part: MessagePart) -> Result<Option<MessagePart>, String> {
        match self.streams.get_mut(&part.stream) {
            Some(line) if line.open != part.message => {
                self.waiting_bytes += part.payload.len() + PART;
                line.waiting.push_back(part);
                if self.waiting_bytes > MAX_WAITING {
                    return Err(format!(
                        "more than {MAX_WAITING} bytes wait for the end of a message that does not end"
                    ));
                }
                Ok(None)
            }
            _ => Ok(Some(part)),
        }
    }

    async fn pass_on(&mut self, association: &Association, first: MessagePart) -> Result<(), String> {
        let mut next = Some(first);
        while let Some(part) = next.take() {
            let MessagePart {
                stream,
                ppid,
                unordered,
                message,
                beginning,
                ending,
                // The echo of a truncated message is truncated too: a partly sent message can be ended, but not withdrawn.
                truncated: _,
                payload,
                ..
            } = part;
            let options = SendOptions::default()
                .ppid(ppid)
                .unordered(unordered)
                .reliability(self.reliability);
            let payload = payload.into_bytes();
            let sent = if beginning && ending {
                association.send_with(stream, payload, options).await
            } else {
                association.send_part(stream, payload, options, ending).await
            };
            match sent {
                Ok(_) => {}
                Err(SendError::ShuttingDown | SendError::Closed(_)) => {
                    // `recv_part` reports how the association ended.
                    *self = Self {
                        ended: true,
                        messages: self.messages,
                        ..Self::default()
                    };
                    return Ok(());
                }
                Err(error) => return Err(format!("stream {}: no echo: {error}", stream.0)),
            }
            self.messages += u64::from(ending);
            next = self.follow(stream, message, ending);
        }
        Ok(())
    }

    /// Records that a part of `message` was sent; returns the next part to send.
    fn follow(&mut self, stream: StreamId, message: u64, ending: bool) -> Option<MessagePart> {
        if !ending {
            let line = self.streams.entry(stream).or_insert_with(|| Line {
                open: message,
                waiting: VecDeque::new(),
            });
            line.open = message;
        }
        let line = self.streams.get_mut(&stream)?;
        // The next waiting message, or the next part of the open message.
        let index = if ending {
            0
        } else {
            line.waiting.iter().position(|part| part.message == message)?
        };
        match line.waiting.remove(index) {
            Some(part) => {
                self.waiting_bytes -= part.payload.len() + PART;
                line.open = part.message;
                Some(part)
            }
            None => {
                self.streams.remove(&stream);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::{Bytes, PathId, Payload, Ppid, Timestamp};

    use super::*;

    fn part(message: u64, beginning: bool, ending: bool) -> MessagePart {
        let payload = Payload::from(Bytes::from_static(b"data"));
        MessagePart {
            stream: StreamId(1),
            ppid: Ppid(0),
            unordered: false,
            message,
            beginning,
            ending,
            truncated: false,
            arrived_at: Timestamp::ZERO,
            path: PathId(0),
            payload,
        }
    }

    /// The order in which parts are sent.
    fn order(parts: &[(u64, bool, bool)]) -> Vec<(u64, bool)> {
        let mut echo = Echo::default();
        let mut sent = Vec::new();
        for &(message, beginning, ending) in parts {
            let mut next = echo.arrange(part(message, beginning, ending)).unwrap();
            while let Some(part) = next.take() {
                sent.push((part.message, part.ending));
                next = echo.follow(part.stream, part.message, part.ending);
            }
        }
        assert_eq!((echo.waiting_bytes, echo.streams.len()), (0, 0));
        sent
    }

    #[test]
    fn whole_messages_do_not_wait_for_each_other() {
        assert_eq!(order(&[(1, true, true), (2, true, true)]), [(1, true), (2, true)]);
    }

    #[test]
    fn a_message_that_overtakes_a_large_one_waits_for_its_end() {
        let came = [
            (1, true, false),
            (2, true, true),
            (1, false, false),
            (3, true, true),
            (1, false, true),
        ];
        assert_eq!(
            order(&came),
            [(1, false), (1, false), (1, true), (2, true), (3, true)]
        );
    }

    #[test]
    fn two_large_messages_are_told_apart() {
        let came = [
            (1, true, false),
            (2, true, false),
            (1, false, true),
            (3, true, true),
            (2, false, false),
            (2, false, true),
        ];
        assert_eq!(
            order(&came),
            [
                (1, false),
                (1, true),
                (2, false),
                (2, false),
                (2, true),
                (3, true)
            ]
        );
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut echo = Echo::default();
        let first = echo.arrange(part(0, true, false)).unwrap().unwrap();
        assert!(echo.follow(first.stream, first.message, false).is_none());
        let result = (1..).find_map(|message| echo.arrange(part(message, true, true)).err());
        assert!(result.unwrap().contains("does not end"));
        let waiting = echo.streams[&first.stream].waiting.len();
        assert!(
            waiting * size_of::<MessagePart>() <= MAX_WAITING,
            "{waiting} parts"
        );
    }
}
