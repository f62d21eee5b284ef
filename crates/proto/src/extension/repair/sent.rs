//! The fragments of messages that are being sent, until their repair chunks have left.

use std::collections::BTreeMap;

use anabranch_wire::StreamId;
use bytes::Bytes;

use super::{Label, MOST_FRAGMENTS, code};
use crate::message::{Fragment, MessageId, PPID_LEN};
use crate::path::PathId;
use crate::send::DataFormat;
use crate::seq::ExtendedTsn;
use crate::time::Timestamp;

/// The most messages whose fragments are collected, and the most whose repair chunks wait. Further ones get no repair chunks.
const MOST_MESSAGES: usize = 16;

/// The fragments of a message, and the path that each of them took.
#[derive(Debug)]
struct Collected {
    message: MessageId,
    fragments: Vec<(Bytes, PathId)>,
}

/// A message that was sent, and whose repair chunks wait.
#[derive(Debug)]
pub(crate) struct Block {
    /// The last fragment, and its extended TSN: repair chunks have its stream, MID and options.
    pub(crate) last: Fragment,
    pub(crate) tsn: ExtendedTsn,
    /// All fragments, and the path that each of them took.
    pub(crate) fragments: Vec<(Bytes, PathId)>,
    /// The repair chunks that left, and all.
    pub(crate) repairs: (usize, usize),
}

impl Block {
    /// `None` if the receiver could not tell the lengths of missing fragments.
    fn new(tsn: ExtendedTsn, last: Fragment, fragments: Vec<(Bytes, PathId)>) -> Option<Self> {
        let len = |at: usize| fragments[at].0.len();
        let (longest, end) = (len(0) + PPID_LEN, fragments.len() - 1);
        let fits = (1..end).all(|at| len(at) == longest) && len(end) <= longest;
        fits.then_some(Self {
            last,
            tsn,
            fragments,
            repairs: (0, 0),
        })
    }

    /// Bytes of user data of a repair chunk.
    pub(crate) fn len(&self) -> usize {
        self.fragments[0].0.len() + PPID_LEN
    }

    /// The next repair chunk.
    pub(crate) fn next(&mut self, format: DataFormat) -> Fragment {
        let ppid = self.last.ppid.0.to_be_bytes();
        let pieces = self.fragments.iter().enumerate().map(|(at, (payload, _))| {
            let after: &[u8] = if at == 0 { &ppid } else { &[] };
            [&payload[..], after]
        });
        let label = Label {
            fragments: self.fragments.len(),
            number: self.repairs.0,
            last_len: self.last.payload.len(),
        };
        let payload = code::encode(label.number, self.len(), pieces);
        self.repairs.0 += 1;
        let wire_len = format.wire_len(payload.len());
        Fragment::repair(&self.last, label.to_word(), payload.into(), wire_len)
    }

    /// Whether all repair chunks left.
    pub(crate) fn is_done(&self) -> bool {
        self.repairs.0 == self.repairs.1
    }
}

/// Owns the fragments of messages that are being sent, and the blocks whose repair chunks wait.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Whether repair was negotiated.
    enabled: bool,
    /// By stream: each has at most one message that has begun.
    collected: BTreeMap<StreamId, Collected>,
    /// By the time at which the repair chunks are due, and the message.
    waiting: BTreeMap<(Timestamp, MessageId), Block>,
}

impl Sent {
    pub(crate) fn enable(&mut self, enabled: bool) {
        *self = Self {
            enabled,
            ..Self::default()
        };
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// A fragment of a large message with a deadline was sent for the first time. After the last one, returns the block, if the message can be
    /// repaired.
    pub(crate) fn on_sent(&mut self, tsn: ExtendedTsn, fragment: &Fragment, path: PathId) -> Option<Block> {
        let sent = (fragment.payload.clone(), path);
        if fragment.beginning {
            self.collected.remove(&fragment.stream);
            if self.collected.len() < MOST_MESSAGES {
                let collected = Collected {
                    message: fragment.message,
                    fragments: vec![sent],
                };
                self.collected.insert(fragment.stream, collected);
            }
            return None;
        }
        let collected = self.collected.get_mut(&fragment.stream)?;
        let is_next = collected.message == fragment.message
            && collected.fragments.len() < MOST_FRAGMENTS
            && collected.fragments.len() == fragment.fsn as usize;
        if is_next {
            collected.fragments.push(sent);
        }
        if is_next && !fragment.ending {
            return None;
        }
        let collected = self.collected.remove(&fragment.stream)?;
        is_next.then(|| Block::new(tsn, fragment.clone(), collected.fragments))?
    }

    /// The repair chunks of this block are to leave.
    pub(crate) fn plan(&mut self, due: Timestamp, block: Block) {
        if self.waiting.len() < MOST_MESSAGES {
            self.waiting.insert((due, block.last.message), block);
        }
    }

    /// The block whose next repair chunk is due.
    pub(crate) fn first(&mut self, now: Timestamp) -> Option<&mut Block> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.into_mut())
    }

    /// Forgets the block that is due first.
    pub(crate) fn forget_first(&mut self) {
        self.waiting.pop_first();
    }

    /// When the next repair chunk is due, if the sender was last asked for packets at `asked`.
    #[inline]
    pub(crate) fn timer(&self, asked: Timestamp) -> Option<Timestamp> {
        if self.waiting.is_empty() {
            return None;
        }
        let later = (Timestamp(asked.0 + 1), MessageId(0));
        self.waiting.range(later..).next().map(|((due, _), _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Ppid;

    use super::*;
    use crate::message::{Haste, Persistence};

    fn fragment(message: u64, fsn: u32, len: usize, ending: bool) -> Fragment {
        Fragment {
            payload: vec![fsn as u8; len].into(),
            message: MessageId(message),
            context: 0,
            stream: StreamId(message as u16),
            sequence: message as u32,
            fsn,
            ppid: Ppid(7),
            unordered: true,
            beginning: fsn == 0,
            ending,
            repair: false,
            immediate: false,
            confirm: false,
            persistence: Persistence::Reliable,
            haste: Haste::default(),
            wire_len: 0,
        }
    }

    fn sent(lens: &[usize]) -> Option<Block> {
        let mut sent = Sent::default();
        let last = lens.len() - 1;
        let blocks = lens.iter().enumerate().map(|(fsn, len)| {
            let fragment = fragment(1, fsn as u32, *len, fsn == last);
            sent.on_sent(0, &fragment, PathId(0))
        });
        blocks.collect::<Vec<_>>().pop()?
    }

    #[test]
    fn the_lengths_must_follow_from_that_of_a_repair_chunk() {
        for lens in [&[96, 4][..], &[96, 100], &[96, 100, 100, 1]] {
            let mut block = sent(lens).expect("a block");
            assert_eq!(
                (block.len(), block.next(DataFormat::IData).payload.len()),
                (100, 100)
            );
        }
        for lens in [&[96, 101][..], &[96, 99, 100], &[100, 100, 4], &[96, 100, 101]] {
            assert!(sent(lens).is_none(), "{lens:?}");
        }
        let long = |fragments| [&[96][..], &vec![100; fragments - 1]].concat();
        assert!(sent(&long(MOST_FRAGMENTS)).is_some() && sent(&long(MOST_FRAGMENTS + 1)).is_none());
    }

    #[test]
    fn repair_chunks_have_a_label_and_belong_to_no_event() {
        let mut block = sent(&[96, 100, 30]).expect("a block");
        block.repairs.1 = 2;
        let chunks = [block.next(DataFormat::IData), block.next(DataFormat::IData)];
        assert_eq!(
            chunks.each_ref().map(|chunk| chunk.fsn),
            [0x0300_001E, 0x0301_001E]
        );
        assert!(block.is_done() && chunks[0].payload != chunks[1].payload);
        assert!(
            chunks
                .iter()
                .all(|chunk| chunk.repair && !chunk.confirm && chunk.sequence == 1)
        );
        assert_eq!(chunks[0].persistence, Persistence::Retransmissions(0));
    }

    #[test]
    fn few_messages_are_collected() {
        let mut sent = Sent::default();
        for message in 0..40 {
            sent.on_sent(0, &fragment(message, 0, 96, false), PathId(0));
        }
        assert_eq!(sent.collected.len(), MOST_MESSAGES);
        let blocks = (0..40).filter_map(|message| sent.on_sent(0, &fragment(message, 1, 4, true), PathId(0)));
        let blocks: Vec<_> = blocks.collect();
        assert_eq!(blocks.len(), MOST_MESSAGES);
        for block in blocks
            .into_iter()
            .chain((100..140).filter_map(|_| self::sent(&[96, 4])))
        {
            sent.plan(Timestamp::from_millis(5), block);
        }
        assert_eq!(sent.waiting.len(), MOST_MESSAGES);
        assert!(sent.first(Timestamp::from_millis(4)).is_none());
        assert_eq!(
            sent.timer(Timestamp::from_millis(4)),
            Some(Timestamp::from_millis(5))
        );
        assert_eq!(sent.timer(Timestamp::from_millis(5)), None);
        assert!(sent.first(Timestamp::from_millis(5)).is_some());
        sent.forget_first();
        assert_eq!(sent.waiting.len(), MOST_MESSAGES - 1);
    }

    #[test]
    fn a_message_that_ends_early_is_forgotten() {
        let mut sent = Sent::default();
        sent.on_sent(0, &fragment(1, 0, 96, false), PathId(0));
        let mut other = fragment(1, 1, 4, true);
        other.message = MessageId(2);
        assert!(sent.on_sent(0, &other, PathId(0)).is_none() && sent.collected.is_empty());
    }
}
