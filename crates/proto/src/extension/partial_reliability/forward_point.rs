//! `Advanced.Peer.Ack.Point` (RFC 3758 §3.5), and FORWARD-TSN past what the receiver can no longer take back (Rajiullah and
//! Brunstrom, *Optimizing PR-SCTP Performance using NR-SACKs*).

use core::time::Duration;
use std::collections::BTreeMap;

use anabranch_wire::chunk::{Chunk, ForwardTsn, IForwardTsn, SkippedMessage, SkippedStream};
use anabranch_wire::{Mid, Ssn, StreamId, Tsn};

use crate::message::Fragment;
use crate::recovery::{ChunkState, Outstanding};
use crate::send::DataFormat;
use crate::time::Timestamp;

/// Bytes of a FORWARD-TSN without streams, and of each stream.
const HEADER_LEN: usize = 8;
const ENTRY_LEN: usize = 4;
/// Bytes of each stream and kind in an I-FORWARD-TSN.
const I_ENTRY_LEN: usize = 8;

/// Acknowledgements that do not reach the point told, after which it is told again (§3.5 F2 leaves the number open). Those
/// of a round trip after telling do not count: they left before the receiver could know.
const REPEAT_AFTER: u8 = 3;

/// How far the receiver may be told to go on without what is missing.
#[derive(Clone, Debug)]
pub(crate) struct ForwardPoint {
    /// Whether chunks that the receiver holds for good do not stop the point.
    past_nonrenegable: bool,
    /// What the chunks are that it passes.
    format: DataFormat,
    /// Everything up to here was given up or is held for good.
    reached: u64,
    /// `Advanced.Peer.Ack.Point`: the last one up to there that was given up. What is held for good behind it gains
    /// nothing by being passed: the receiver's own cumulative point runs over it.
    point: u64,
    /// The highest index up to `point` at which a FORWARD-TSN may end.
    end: u64,
    /// Up to `point`, the highest abandoned chunk of each stream, of ordered and of unordered messages (`true`): its index and
    /// the number of its message. Kept while the point moves, so that a peer that has many of them sent does not make this side
    /// visit all chunks for each.
    skipped: BTreeMap<(StreamId, bool), (u64, u32)>,
    /// Where the look at the message behind `reached` begins anew, which an acknowledgement must not pay for in whole: all of it
    /// before this index is non-renegable; or, of a message that was abandoned, is not in flight.
    looked: u64,
    /// The point that was told last.
    told: u64,
    told_at: Timestamp,
    /// Acknowledgements since then that did not reach it.
    short: u8,
    due: bool,
    /// When it is told again if nothing is heard (RFC 3758 §3.5 C5), while no T3-rtx of data runs, whose expiry does the same.
    timer: Option<Timestamp>,
}

impl ForwardPoint {
    pub(crate) fn new(past_nonrenegable: bool) -> Self {
        Self {
            past_nonrenegable,
            format: DataFormat::Data,
            reached: 0,
            point: 0,
            end: 0,
            skipped: BTreeMap::new(),
            looked: 0,
            told: 0,
            told_at: Timestamp::ZERO,
            short: 0,
            due: false,
            timer: None,
        }
    }

    pub(crate) fn set_format(&mut self, format: DataFormat) {
        self.format = format;
    }

    /// Moves as far as it can (§3.5 C1, C2); answers the first index beyond.
    ///
    /// A message is passed whole or not at all: a FORWARD-TSN that ended within one would make the receiver drop what it
    /// holds of it. One that was given up was so as a whole; of one that is held for good every fragment must be. The receiver
    /// of an I-FORWARD-TSN drops what is listed and nothing else: fragments that are held for good are passed one by one. But
    /// fragments that come of a message that was skipped are a violation to usrsctp: such a message is passed when all of
    /// it has arrived or is lost.
    pub(crate) fn advance(&mut self, outstanding: &Outstanding) -> u64 {
        let cumulative = outstanding.base() - 1;
        self.reached = self.reached.max(cumulative);
        self.point = self.point.max(cumulative);
        if !outstanding.has_abandoned() {
            return self.reached + 1;
        }
        while self.reached + 1 < outstanding.next_index() {
            let next = self.reached + 1;
            let chunk = outstanding.chunk(next);
            let waits = self.format.interleaves() && chunk.abandoned && self.waits_for(outstanding, next);
            if chunk.abandoned && !waits {
                self.reached = next;
                self.pass(next, &chunk.fragment);
            } else if self.past_nonrenegable
                && chunk.state == ChunkState::Kept
                && let Some(end) = self.end_of_kept(outstanding, next)
            {
                self.reached = end;
            } else {
                break;
            }
        }
        self.reached + 1
    }

    /// The point moves over an abandoned chunk.
    fn pass(&mut self, index: u64, fragment: &Fragment) {
        self.point = index;
        if let Some(key) = self.key(fragment) {
            self.skipped.insert(key, (index, fragment.sequence));
        }
        if self.may_end_at(fragment) {
            self.end = index;
        }
    }

    /// The entry that a FORWARD-TSN which passes a fragment has for it, if any.
    fn key(&self, fragment: &Fragment) -> Option<(StreamId, bool)> {
        let listed = self.format.interleaves() || !fragment.unordered;
        listed.then_some((fragment.stream, fragment.unordered))
    }

    fn may_end_at(&self, fragment: &Fragment) -> bool {
        self.format.interleaves() || fragment.ending
    }

    fn end_of_kept(&mut self, outstanding: &Outstanding, index: u64) -> Option<u64> {
        if self.format.interleaves() {
            return Some(index);
        }
        let end = outstanding.end_of_kept_message(self.looked.max(index));
        if let Err(missing) = end {
            self.looked = missing;
        }
        end.ok()
    }

    /// Whether fragments from `index` on, of a message that was abandoned, may still come.
    fn waits_for(&mut self, outstanding: &Outstanding, index: u64) -> bool {
        let message = outstanding.chunk(index).fragment.message;
        let same = |looked: &u64| {
            *looked > index
                && *looked < outstanding.next_index()
                && outstanding.chunk(*looked).fragment.message == message
        };
        let from = Some(self.looked).filter(same).unwrap_or(index);
        let coming = outstanding.still_coming(from);
        self.looked = coming.unwrap_or(from);
        coming.is_some()
    }

    /// Whether the receiver does not know all of it yet.
    pub(crate) fn is_pending(&self, outstanding: &Outstanding) -> bool {
        self.point >= outstanding.base()
    }

    /// The point may have moved: it is told if it did (§3.5 C3).
    pub(crate) fn on_advance(&mut self, outstanding: &Outstanding) {
        self.due |= self.is_pending(outstanding) && self.point > self.told;
    }

    /// An acknowledgement came: after some that fall short of what was told, it is told again. Those within `wait` of
    /// telling do not count.
    pub(crate) fn on_ack(&mut self, now: Timestamp, wait: Duration, outstanding: &Outstanding) {
        if self.told < outstanding.base() {
            self.short = 0;
            return;
        }
        let counts = now.saturating_duration_since(self.told_at) >= wait;
        self.short = self.short.saturating_add(u8::from(counts));
        self.due |= self.short >= REPEAT_AFTER;
    }

    /// T3-rtx, or the timer of the FORWARD-TSN, expired (§3.5 A5).
    pub(crate) fn on_timeout(&mut self, outstanding: &Outstanding) {
        self.timer = None;
        self.due |= self.is_pending(outstanding);
    }

    /// Starts the timer anew while the receiver does not know the point, unless T3-rtx of data runs; else stops it (§3.5 C5).
    pub(crate) fn keep_timer(&mut self, at: Timestamp, t3_runs: bool, outstanding: &Outstanding) {
        self.timer = (!t3_runs && self.is_pending(outstanding)).then_some(at);
    }

    /// When the timer expires, while it runs.
    pub(crate) fn timer(&self, outstanding: &Outstanding) -> Option<Timestamp> {
        self.timer.filter(|_| self.is_pending(outstanding))
    }

    /// The index at which the last FORWARD-TSN ended.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    /// Whether a FORWARD-TSN must leave.
    pub(crate) fn is_due(&self, outstanding: &Outstanding) -> bool {
        self.due && self.is_pending(outstanding)
    }

    /// The FORWARD-TSN or I-FORWARD-TSN, at most `room` bytes long (§3.5 C4): if its streams do not fit, it goes less far.
    /// `None` if not even one message fits.
    ///
    /// Of each stream the highest ordered message that was given up is listed, and in an I-FORWARD-TSN the highest unordered
    /// one; never one that is held for good, nor, where messages interleave, one of which fragments may still come.
    pub(crate) fn build(&mut self, now: Timestamp, outstanding: &Outstanding, room: usize) -> Option<Chunk> {
        let interleaves = self.format.interleaves();
        let entry_len = if interleaves { I_ENTRY_LEN } else { ENTRY_LEN };
        let entries = room.checked_sub(HEADER_LEN)? / entry_len;
        let base = outstanding.base();
        self.skipped.retain(|_, (index, _)| *index >= base);
        let (end, skipped) = if self.skipped.len() <= entries {
            let end = Some(self.end).filter(|end| *end >= base);
            let all = self.skipped.iter().map(|(key, (_, number))| (*key, *number));
            (end, all.collect())
        } else {
            self.as_far_as_fits(outstanding, entries)
        };
        let end = end?;
        self.due = false;
        self.short = 0;
        self.told = end;
        self.told_at = now;
        let (end, skipped) = (Tsn(end as u32), skipped.into_iter());
        Some(if interleaves {
            let skipped = skipped.map(|((stream, unordered), mid)| SkippedMessage {
                stream,
                unordered,
                mid: Mid(mid),
            });
            Chunk::IForwardTsn(IForwardTsn::new(end, skipped))
        } else {
            let skipped = skipped.map(|((stream, _), ssn)| SkippedStream {
                stream,
                ssn: Ssn(ssn as u16),
            });
            Chunk::ForwardTsn(ForwardTsn::new(end, skipped))
        })
    }

    /// Where a chunk with so many entries ends, and they.
    fn as_far_as_fits(
        &self,
        outstanding: &Outstanding,
        entries: usize,
    ) -> (Option<u64>, BTreeMap<(StreamId, bool), u32>) {
        let mut skipped = BTreeMap::new();
        let mut end = None;
        for index in outstanding.base()..=self.point {
            let chunk = outstanding.chunk(index);
            if let Some(key) = self.key(&chunk.fragment).filter(|_| chunk.abandoned) {
                if skipped.len() >= entries && !skipped.contains_key(&key) {
                    break;
                }
                skipped.insert(key, chunk.fragment.sequence);
            }
            if self.may_end_at(&chunk.fragment) {
                end = Some(index);
            }
        }
        (end, skipped)
    }
}
