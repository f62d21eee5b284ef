//! Owns `Advanced.Peer.Ack.Point` (RFC 3758 §3.5), and FORWARD-TSN past non-renegable chunks (Rajiullah and Brunstrom, *Optimizing PR-SCTP
//! Performance using NR-SACKs*).

use core::time::Duration;
use std::collections::BTreeMap;

use anabranch_wire::chunk::{Chunk, ForwardTsn, IForwardTsn, SkippedMessage, SkippedStream};
use anabranch_wire::{Mid, Ssn, StreamId, Tsn};

use crate::message::Fragment;
use crate::recovery::{ChunkState, Outstanding};
use crate::send::DataFormat;
use crate::time::Timestamp;

/// Bytes of a FORWARD-TSN without streams, and of each stream entry.
const HEADER_LEN: usize = 8;
const ENTRY_LEN: usize = 4;
/// Bytes of each entry (stream, and ordered or unordered) in an I-FORWARD-TSN.
const I_ENTRY_LEN: usize = 8;

/// After this many acknowledgements below the point of the last FORWARD-TSN, the sender retransmits it (§3.5 F2 leaves the number open).
/// Acknowledgements within one round trip after the FORWARD-TSN do not count, because the peer may have sent them before the FORWARD-TSN
/// arrived.
const REPEAT_AFTER: u8 = 3;

/// The state that decides how far a FORWARD-TSN may move the receiver.
#[derive(Clone, Debug)]
pub(crate) struct ForwardPoint {
    /// Whether the point may pass non-renegable chunks.
    past_nonrenegable: bool,
    /// The chunk type of the data: DATA or I-DATA.
    format: DataFormat,
    /// Every chunk up to this extended TSN is abandoned or non-renegable.
    reached: u64,
    /// `Advanced.Peer.Ack.Point`: the last abandoned chunk up to `reached`. The point need not pass non-renegable chunks after it, because
    /// the receiver's own cumulative TSN passes them.
    point: u64,
    /// The highest extended TSN up to `point` at which a FORWARD-TSN may end.
    end: u64,
    /// The highest abandoned chunk up to `point` of each stream, for ordered and for unordered (`true`) messages: its extended TSN and the
    /// number of its message. The map is updated as the point moves. A peer that provokes many FORWARD-TSNs therefore does not make the
    /// sender visit all chunks for each of them.
    skipped: BTreeMap<(StreamId, bool), (u64, u32)>,
    /// Where the scan of the message after `reached` continues, so that no single acknowledgement scans the whole message. All chunks of
    /// the message before this extended TSN are non-renegable or, if the message is abandoned, not in flight.
    looked: u64,
    /// The extended TSN of the last FORWARD-TSN.
    told: u64,
    told_at: Timestamp,
    /// Counted acknowledgements since the last FORWARD-TSN that were below `told`.
    short: u8,
    due: bool,
    /// When to retransmit the FORWARD-TSN if no acknowledgement comes (RFC 3758 §3.5 C5). Not set while T3-rtx of data runs, because its
    /// expiry has the same effect.
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

    /// Moves the point as far as possible (§3.5 C1, C2). If it moved, a FORWARD-TSN is due (§3.5 C3).
    ///
    /// The point passes a message whole or not at all, because a FORWARD-TSN that ended within a message would make the receiver drop the
    /// fragments that it holds. An abandoned message is abandoned as a whole. A message that is not abandoned can be passed if all its
    /// fragments are non-renegable.
    ///
    /// The receiver of an I-FORWARD-TSN drops only the listed messages, so the point passes non-renegable fragments one by one. But usrsctp
    /// treats a fragment of a skipped message as a protocol violation. With interleaving, the point therefore passes an abandoned message
    /// only when each fragment has arrived or is lost.
    pub(crate) fn advance(&mut self, outstanding: &Outstanding) {
        let cumulative = outstanding.base() - 1;
        self.reached = self.reached.max(cumulative);
        self.point = self.point.max(cumulative);
        let before = self.point;
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
        let moved = self.point > before;
        self.due |= moved;
        // A timer may be left from a FORWARD-TSN that was acknowledged.
        self.timer = self.timer.filter(|_| !moved);
    }

    /// The point passes an abandoned chunk.
    fn pass(&mut self, index: u64, fragment: &Fragment) {
        self.point = index;
        if let Some(key) = self.key(fragment) {
            self.skipped.insert(key, (index, fragment.sequence));
        }
        if self.may_end_at(fragment) {
            self.end = index;
        }
    }

    /// The stream entry that a FORWARD-TSN past this fragment needs, if any.
    fn key(&self, fragment: &Fragment) -> Option<(StreamId, bool)> {
        // A repair chunk belongs to a message that was not abandoned, or is passed itself.
        let listed = self.format.interleaves() || !fragment.unordered;
        (listed && !fragment.repair).then_some((fragment.stream, fragment.unordered))
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

    /// Whether fragments from `index` on, of an abandoned message, may still arrive.
    fn waits_for(&mut self, outstanding: &Outstanding, index: u64) -> bool {
        let message = outstanding.chunk(index).fragment.message;
        let same = |looked: &u64| {
            *looked > index
                && *looked < outstanding.next_index()
                && outstanding.chunk(*looked).fragment.message == message
        };
        let from = Some(self.looked).filter(same).unwrap_or(index);
        let coming = outstanding.still_coming(from, index);
        self.looked = coming.unwrap_or(from);
        coming.is_some()
    }

    /// `Advanced.Peer.Ack.Point`.
    pub(crate) fn point(&self) -> u64 {
        self.point
    }

    /// Whether the receiver has not acknowledged the point yet.
    pub(crate) fn is_pending(&self, outstanding: &Outstanding) -> bool {
        self.point >= outstanding.base()
    }

    /// An acknowledgement came. If it covers the last FORWARD-TSN, which had no room for all streams, the next one is due. After
    /// [`REPEAT_AFTER`] acknowledgements below the last FORWARD-TSN, its retransmission is due. Acknowledgements within `wait` after the
    /// FORWARD-TSN do not count.
    pub(crate) fn on_ack(&mut self, now: Timestamp, wait: Duration, outstanding: &Outstanding) {
        if self.told < outstanding.base() {
            self.short = 0;
            self.due |= self.is_pending(outstanding);
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

    /// Restarts the timer while the receiver has not acknowledged the point, unless T3-rtx of data runs; otherwise stops it (§3.5 C5).
    pub(crate) fn keep_timer(&mut self, at: Timestamp, t3_runs: bool, outstanding: &Outstanding) {
        self.timer = (!t3_runs && self.is_pending(outstanding)).then_some(at);
    }

    /// When the timer expires, while it runs.
    pub(crate) fn timer(&self, outstanding: &Outstanding) -> Option<Timestamp> {
        self.timer.filter(|_| self.is_pending(outstanding))
    }

    /// The extended TSN of the last FORWARD-TSN.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    /// Whether to send a FORWARD-TSN.
    pub(crate) fn is_due(&self, outstanding: &Outstanding) -> bool {
        self.due && self.is_pending(outstanding)
    }

    /// The FORWARD-TSN or I-FORWARD-TSN, at most `room` bytes long (§3.5 C4). If its streams do not fit, the chunk ends at an earlier TSN.
    /// `None` if not even one message fits.
    ///
    /// For each stream, the chunk lists the highest abandoned ordered message; an I-FORWARD-TSN also lists the highest abandoned unordered
    /// message. The chunk never lists a non-renegable message and, with interleaving, never a message whose fragments may still arrive.
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

    /// The last extended TSN and the entries of a chunk with at most `entries` entries.
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
