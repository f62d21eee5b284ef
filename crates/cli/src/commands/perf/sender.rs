//! One direction at its sender: messages with a number and a time, at the rate of `--rate`, or as fast as the association
//! accepts them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anabranch::{Association, Bytes, SendError, StreamId};
use bytes::BytesMut;
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::clock::Clock;
use super::control::DATA_PPID;
use super::pace::Pacer;
use super::plan::{MIN_SIZE, Plan, Until};
use crate::reliability;

/// Bytes of messages that share one allocation.
const SLAB: usize = 128 << 10;
/// The content of messages: "Z", which is easy to see in a capture.
const FILL: u8 = 0x5a;
/// The length of the header of a message, in bytes.
const FRONT: usize = MIN_SIZE as usize;

/// The header of each message: its number on its stream, and the time when it was made, in nanoseconds of the sender's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) number: u64,
    pub(super) made: u64,
}

impl Stamp {
    fn to_bytes(self) -> [u8; FRONT] {
        ((u128::from(self.number) << 64) | u128::from(self.made)).to_be_bytes()
    }

    /// Reads the header of a message, which may span several pieces; `None` if the message is too short.
    pub(super) fn read(pieces: &[Bytes]) -> Option<Self> {
        let front = match pieces.first()?.first_chunk::<FRONT>() {
            Some(front) => *front,
            None => {
                let mut bytes = pieces.iter().flatten();
                let mut front = [0; FRONT];
                for place in &mut front {
                    *place = *bytes.next()?;
                }
                front
            }
        };
        let both = u128::from_be_bytes(front);
        Some(Self {
            number: (both >> 64) as u64,
            made: both as u64,
        })
    }
}

/// Makes messages, many in one allocation.
#[derive(Debug)]
struct Maker {
    size: usize,
    slab: BytesMut,
}

impl Maker {
    fn new(size: u64) -> Self {
        Self {
            size: usize::try_from(size).unwrap_or(usize::MAX).max(FRONT),
            slab: BytesMut::new(),
        }
    }

    fn make(&mut self, stamp: Stamp) -> Bytes {
        if self.slab.capacity() < self.size {
            // A new buffer instead of `reserve`, which would try to reuse the old one. The last message frees the old buffer.
            self.slab = BytesMut::with_capacity(self.size.max(SLAB));
        }
        self.slab.extend_from_slice(&stamp.to_bytes());
        self.slab.resize(self.size, FILL);
        self.slab.split().freeze()
    }
}

/// Sends until the plan is fulfilled or `stop` is set, and counts the messages in `given`.
pub(super) async fn send_all(
    association: &Association,
    plan: &Plan,
    clock: Clock,
    given: &AtomicU64,
    mut stop: watch::Receiver<bool>,
) -> Result<(), SendError> {
    let begun = Instant::now();
    let end = match plan.until {
        Until::Time(time) => begun.checked_add(time),
        Until::Bytes(_) => None,
    };
    let mut pacer = plan.rate.map(|rate| Pacer::new(rate, begun));
    let mut maker = Maker::new(plan.size);
    let options = plan.options().ppid(DATA_PPID);
    let streams = u64::from(plan.streams);
    let mut count = 0;
    while count < plan.messages() && !*stop.borrow() {
        // Without this call, a sender that never waits would never let other tasks run on its thread.
        tokio::task::consume_budget().await;
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break;
        }
        if let Some(Err(due)) = pacer.as_mut().map(|pacer| pacer.admit(now, plan.size)) {
            tokio::select! {
                () = sleep_until(due.into()) => {}
                () = ended(end, &mut stop) => break,
            }
            continue;
        }
        let stamp = Stamp {
            number: count / streams,
            made: clock.show(now),
        };
        // Always below 65,535.
        let stream = StreamId((1 + count % streams) as u16);
        let message = maker.make(stamp);
        match association.try_send_with(stream, message.clone(), options) {
            Ok(_) => {}
            Err(SendError::BufferFull) => tokio::select! {
                biased;
                sent = association.send_with(stream, message, options) => { sent?; }
                () = ended(end, &mut stop) => break,
            },
            Err(error) => return Err(error),
        }
        count += 1;
        given.store(count, Ordering::Relaxed);
    }
    Ok(())
}

/// Waits until the time is over or `stop` is set.
async fn ended(end: Option<Instant>, stop: &mut watch::Receiver<bool>) {
    let over = async {
        match end {
            Some(end) => sleep_until(end.into()).await,
            None => std::future::pending().await,
        }
    };
    let stopped = async {
        if stop.wait_for(|stop| *stop).await.is_err() {
            // The sender of `stop` was dropped, so that it is never set.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = over => {}
        () = stopped => {}
    }
}

/// The acknowledged part of `given` bytes in messages of `size`, from the association's counters: neither outstanding nor
/// abandoned.
pub(super) fn acknowledged(association: &Association, given: u64, size: u64) -> u64 {
    let stats = association.stats();
    let on_its_way = (stats.queued_bytes + stats.outstanding_bytes) as u64;
    let abandoned = reliability::abandoned(&stats.counters).saturating_mul(size);
    given.saturating_sub(on_its_way).saturating_sub(abandoned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_across_pieces() {
        let stamp = Stamp {
            number: 1 << 40,
            made: u64::MAX - 1,
        };
        let message = Maker::new(40).make(stamp);
        assert_eq!(message.len(), 40);
        assert_eq!(Stamp::read(std::slice::from_ref(&message)), Some(stamp));
        let pieces = [message.slice(..3), message.slice(3..15), message.slice(15..)];
        assert_eq!(Stamp::read(&pieces), Some(stamp));
        assert_eq!(Stamp::read(&[message.slice(..15)]), None);
        assert_eq!(Stamp::read(&[]), None);
    }

    #[test]
    fn messages_of_one_slab_differ() {
        let mut maker = Maker::new(1000);
        let messages: Vec<Bytes> = (0..300)
            .map(|number| maker.make(Stamp { number, made: 0 }))
            .collect();
        for (number, message) in messages.iter().enumerate() {
            assert_eq!(message.len(), 1000);
            let stamp = Stamp::read(std::slice::from_ref(message)).unwrap();
            assert_eq!(stamp.number, number as u64);
            assert!(message[FRONT..].iter().all(|&byte| byte == FILL));
        }
    }
}
