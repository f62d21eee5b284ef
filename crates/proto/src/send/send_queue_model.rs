//! Property test of [`SendQueue`] and its schedulers: against lists that are searched from the beginning.
//!
//! With every scheduler: a fragment leaves while there is one that may leave; messages of a stream leave in order, with consecutive
//! sequence numbers; without interleaving no other message's fragment comes between the fragments of a message; the queue becomes empty.
//! With priorities: no data of a class leaves while a more urgent class has data, and the streams of a class send in the order of their first
//! messages' deadlines; those with equal deadlines or none send in turn, across packets.
//! With weights: streams that always have data send bytes in proportion to their weights.

use core::num::NonZeroU16;
use core::time::Duration;
use std::collections::VecDeque;

use anabranch_wire::StreamId;
use bytes::Bytes;

use super::SendQueue;
use super::data_format::DataFormat;
use crate::config::SchedulerKind::{self, *};
use crate::fuzzing::Commands;
use crate::message::{Fragment, UnsentMessage};
use crate::message::{MessageId, Reliability, SendOptions};
use crate::path_id::PathId;
use crate::time::Timestamp;

/// Streams on both sides of page boundaries of the table, and the last stream.
const STREAMS: [u16; 6] = [0, 1, 31, 32, 33, 65_534];
const KINDS: [SchedulerKind; 6] = [
    FirstComeFirstServed,
    RoundRobin,
    RoundRobinPerPacket,
    Priority,
    FairBandwidth,
    WeightedFairQueueing,
];
/// The most bytes of user data in a fragment.
const LIMIT: usize = 500;
const LARGEST: usize = 255 * 8 + 1;
/// Virtual times are rounded down by less than this, in bytes at weight 1.
const GRAIN: usize = 1024;

#[derive(Debug)]
struct Waiting {
    id: MessageId,
    pieces: VecDeque<usize>,
    complete: bool,
    begun: bool,
    ordered: bool,
    path: Option<PathId>,
    /// When it expires.
    until: Option<Timestamp>,
    /// The same if it was given a deadline, not a lifetime.
    due: Option<Timestamp>,
}

/// How long a message is of use.
#[derive(Clone, Copy)]
enum Use {
    Always,
    Lifetime(Duration),
    Deadline(Duration),
}

impl Waiting {
    fn is_held_back(&self) -> bool {
        !self.complete && self.pieces.len() == 1 && self.pieces[0] <= LIMIT
    }
}

#[derive(Debug, Default)]
struct Line {
    messages: VecDeque<Waiting>,
    /// The rest of an unfinished message is dropped.
    dropping: bool,
    /// The next sequence numbers of ordered and of unordered messages.
    sequences: [u32; 2],
    priority: u16,
    weight: usize,
    /// The lowest weight so far: a lead of the stream may come from the time with that weight.
    least_weight: usize,
    parked: bool,
    /// Bytes sent since both this stream and each other stream have had data without a pause.
    sent_beside: [usize; STREAMS.len()],
}

struct Model {
    queue: SendQueue,
    kind: SchedulerKind,
    interleaving: bool,
    lines: [Line; STREAMS.len()],
    /// Lines that may have data, in the order of their turns.
    order: Vec<usize>,
    locked: Option<usize>,
    packet_of: Option<usize>,
    now: Timestamp,
}

impl Model {
    fn new(kind: SchedulerKind, interleaving: bool) -> Self {
        let mut queue = SendQueue::new(u16::MAX, kind);
        queue.set_format(if interleaving {
            DataFormat::IData
        } else {
            DataFormat::Data
        });
        let mut lines: [Line; STREAMS.len()] = Default::default();
        for line in &mut lines {
            (line.weight, line.least_weight) = (1, usize::MAX);
        }
        Self {
            queue,
            kind,
            interleaving,
            lines,
            order: Vec::new(),
            locked: None,
            packet_of: None,
            now: Timestamp::ZERO,
        }
    }

    fn class(&self, line: usize) -> u16 {
        if self.kind == Priority {
            self.lines[line].priority
        } else {
            0
        }
    }

    /// The deadline of a line's first message; the last point in time if it has none.
    fn due(&self, line: usize) -> Timestamp {
        let first = self.lines[line].messages.front();
        first.and_then(|message| message.due).unwrap_or(Timestamp::MAX)
    }

    fn shares(&self) -> bool {
        matches!(self.kind, FairBandwidth | WeightedFairQueueing)
    }

    fn enter(&mut self, line: usize) {
        if !self.order.contains(&line) {
            self.order.push(line);
            self.forget_shares(line);
        }
    }

    fn leave(&mut self, line: usize) {
        self.order.retain(|other| *other != line);
    }

    fn go_to_the_end(&mut self, line: usize) {
        if let Some(at) = self.order.iter().position(|other| *other == line) {
            self.order.remove(at);
            self.order.push(line);
        }
    }

    fn forget_shares(&mut self, line: usize) {
        self.lines[line].sent_beside = Default::default();
        self.lines
            .iter_mut()
            .for_each(|other| other.sent_beside[line] = 0);
    }

    fn push(&mut self, line: usize, len: usize, part: bool, end: bool, of_use: Use) {
        let (lifetime, deadline) = match of_use {
            Use::Always => (None, None),
            Use::Lifetime(lifetime) => (Some(lifetime), None),
            Use::Deadline(deadline) => (None, Some(deadline)),
        };
        let options = SendOptions {
            unordered: len.is_multiple_of(7),
            reliability: lifetime.map_or(Reliability::Reliable, Reliability::Lifetime),
            deadline,
            path: len.is_multiple_of(5).then_some(PathId(1)),
            ..SendOptions::default()
        };
        let payload = Bytes::from(vec![0; len]);
        let answer = self.queue.push(
            self.now,
            StreamId(STREAMS[line]),
            payload,
            &options,
            part,
            end || !part,
        );
        let state = &mut self.lines[line];
        let open = state.messages.back_mut().filter(|message| !message.complete);
        if state.dropping || (open.is_some() && !part) {
            assert_eq!(answer.is_ok(), part);
            state.dropping &= !(part && end);
            return;
        }
        let id = answer.expect("it is taken");
        if let Some(message) = open {
            message.pieces.push_back(len);
            message.complete = end;
            if core::mem::take(&mut state.parked) {
                self.enter(line);
            }
            return;
        }
        state.messages.push_back(Waiting {
            id,
            pieces: VecDeque::from([len]),
            complete: end || !part,
            begun: false,
            ordered: !options.unordered,
            path: options.path,
            until: lifetime.or(deadline).map(|time| self.now + time),
            due: deadline.map(|deadline| self.now + deadline),
        });
        if !self.lines[line].parked {
            self.enter(line);
        }
    }

    /// The lines one of which must be next, if that is certain; `None` if nothing can leave.
    fn next(&mut self) -> Option<Vec<usize>> {
        if let Some(locked) = self.locked {
            let held_back = self.lines[locked].messages[0].is_held_back();
            return (!held_back).then(|| vec![locked]);
        }
        if self.kind == FirstComeFirstServed {
            let fronts = self.lines.iter().enumerate();
            let fronts = fronts.filter_map(|(line, state)| Some((state.messages.front()?, line)));
            let (message, line) = fronts.min_by_key(|(message, _)| message.id)?;
            return (!message.is_held_back()).then(|| vec![line]);
        }
        loop {
            let mut candidates = match self.packet_of {
                Some(line) => self
                    .order
                    .iter()
                    .copied()
                    .filter(|other| *other == line)
                    .collect(),
                None => self.order.clone(),
            };
            let class = candidates.iter().map(|line| self.class(*line)).min()?;
            candidates.retain(|line| self.class(*line) == class);
            if self.kind == Priority {
                let due = candidates.iter().map(|line| self.due(*line)).min()?;
                candidates.retain(|line| self.due(*line) == due);
            }
            if self.shares() {
                return Some(candidates);
            }
            let first = candidates[0];
            if !self.lines[first].messages[0].is_held_back() {
                return Some(vec![first]);
            }
            self.leave(first);
            self.lines[first].parked = true;
        }
    }

    /// With weights the model does not know the next stream, and so not which stream was skipped while it waited for a part.
    fn forget_held_back(&mut self) {
        for line in self.order.clone() {
            if self.lines[line].messages[0].is_held_back() {
                self.forget_shares(line);
            }
        }
    }

    fn take(&mut self) -> bool {
        if self.shares() {
            return self.take_shared();
        }
        let expected = self.next();
        let len = self.queue.peek(LIMIT);
        assert_eq!(
            len.is_some(),
            expected.is_some(),
            "{expected:?} of {:?}",
            self.lines
        );
        let (Some(len), Some(expected)) = (len, expected) else {
            return false;
        };
        assert_eq!(self.queue.next_class(), self.class(expected[0]));
        let fragment = self.queue.take(self.now, len).expect("it was peeked");
        assert_eq!(fragment.stream, StreamId(STREAMS[expected[0]]), "{:?}", self.kind);
        self.note_taken(expected[0], &fragment);
        true
    }

    fn take_shared(&mut self) -> bool {
        self.forget_held_back();
        let Some(len) = self.queue.peek(LIMIT) else {
            assert!(
                self.locked.is_some()
                    || self
                        .order
                        .iter()
                        .all(|line| self.lines[*line].messages[0].is_held_back())
            );
            return false;
        };
        let fragment = self.queue.take(self.now, len).expect("it was peeked");
        let of_it = |id: &u16| StreamId(*id) == fragment.stream;
        let line = STREAMS.iter().position(of_it).expect("it is one of them");
        assert!(self.locked.is_none_or(|locked| locked == line));
        assert!(!self.lines[line].messages[0].is_held_back());
        self.note_taken(line, &fragment);
        self.check_shares();
        true
    }

    fn note_taken(&mut self, line: usize, fragment: &Fragment) {
        let state = &mut self.lines[line];
        let message = &mut state.messages[0];
        assert_eq!(fragment.message, message.id);
        assert_eq!(fragment.beginning, !message.begun);
        assert_eq!(
            fragment.sequence,
            state.sequences[usize::from(!message.ordered)],
            "unordered DATA is not counted, I-DATA is"
        );
        assert!(
            message
                .until
                .is_none_or(|until| until >= self.now || message.begun)
        );
        message.begun = true;
        let len = fragment.payload.len();
        message.pieces[0] -= len;
        if message.pieces[0] == 0 && message.pieces.len() > 1 {
            message.pieces.pop_front();
        }
        let ended = message.complete && message.pieces[0] == 0;
        assert_eq!(fragment.ending, ended);
        if ended {
            let counted = message.ordered || self.interleaving;
            state.sequences[usize::from(!message.ordered)] += u32::from(counted);
            state.messages.pop_front();
        }
        for (other, sent) in state.sent_beside.iter_mut().enumerate() {
            *sent += if self.order.contains(&other) { len } else { 0 };
        }
        self.locked = Some(line).filter(|_| !ended && !self.interleaving);
        if self.lines[line].messages.is_empty() {
            self.leave(line);
        } else if self.kind != RoundRobinPerPacket && (ended || self.interleaving) {
            self.go_to_the_end(line);
        }
        if self.kind == RoundRobinPerPacket {
            self.packet_of = Some(line);
        }
    }

    /// Start-time fair queueing: the bytes that two streams sent, divided by weight, differ at most by a turn of each, and by the rounding.
    fn check_shares(&self) {
        let turn = if self.interleaving { LIMIT } else { 8 * LARGEST } + GRAIN;
        for one in &self.order {
            for other in &self.order {
                let (a, b) = (&self.lines[*one], &self.lines[*other]);
                let weights = match self.kind {
                    WeightedFairQueueing => (a.weight, b.weight),
                    _ => (1, 1),
                };
                let sent = (a.sent_beside[*other] * weights.1, b.sent_beside[*one] * weights.0);
                let product = weights.0 * weights.1;
                let ahead = |line: &Line, weight: usize| turn * product / weight.min(line.least_weight);
                let most = ahead(a, weights.0) + ahead(b, weights.1);
                assert!(
                    sent.0.abs_diff(sent.1) <= most,
                    "{sent:?} beside each other, weights {weights:?}"
                );
            }
        }
    }

    fn on_packet(&mut self) {
        self.queue.on_packet();
        if let Some(line) = self.packet_of.take() {
            self.go_to_the_end(line);
        }
    }

    fn note_dropped(&mut self, unsent: UnsentMessage) {
        let of_it = |id: &u16| StreamId(*id) == unsent.stream;
        let line = STREAMS.iter().position(of_it).expect("it is one of them");
        let due = self.due(line);
        let state = &mut self.lines[line];
        let at = state
            .messages
            .iter()
            .position(|message| message.id == unsent.message);
        let message = state
            .messages
            .remove(at.expect("it waited"))
            .expect("it is there");
        assert_eq!(unsent.begun, message.begun);
        state.dropping |= !message.complete;
        if message.begun {
            let counted = message.ordered || self.interleaving;
            state.sequences[usize::from(!message.ordered)] += u32::from(counted);
            self.locked = self.locked.filter(|locked| *locked != line);
        }
        let parked = core::mem::take(&mut state.parked);
        if state.messages.is_empty() {
            self.leave(line);
        } else if parked {
            self.enter(line);
        } else if self.kind == Priority && self.due(line) != due {
            self.go_to_the_end(line);
        }
    }

    fn drop_one(&mut self, line: usize, which: usize) {
        let count = self.lines[line].messages.len();
        if count == 0 {
            return;
        }
        let id = self.lines[line].messages[which % count].id;
        let unsent = self
            .queue
            .drop_message(StreamId(STREAMS[line]), id)
            .expect("it waits");
        self.note_dropped(unsent);
        assert_eq!(self.queue.drop_message(StreamId(STREAMS[line]), id), None);
    }

    fn expire(&mut self, half_sent: bool) {
        while let Some(unsent) = self.queue.take_expired(self.now, half_sent) {
            self.note_dropped(unsent);
        }
        let now = self.now;
        let late = |message: &Waiting| message.until.is_some_and(|until| until < now);
        let mut all = self.lines.iter().flat_map(|line| &line.messages);
        assert!(!all.any(|message| late(message) && !message.begun));
    }

    fn change(&mut self, line: usize, value: u8) {
        let stream = StreamId(STREAMS[line]);
        match self.kind {
            Priority => {
                let priority = u16::from(value % 4);
                self.queue.set_priorities(stream, stream, priority);
                if core::mem::replace(&mut self.lines[line].priority, priority) != priority {
                    self.go_to_the_end(line);
                }
            }
            WeightedFairQueueing => {
                let weight = NonZeroU16::MIN.saturating_add(value.into());
                self.queue.set_weight(stream, weight);
                let state = &mut self.lines[line];
                state.least_weight = state.least_weight.min(state.weight);
                state.weight = weight.get().into();
                self.forget_shares(line);
            }
            _ => {}
        }
    }

    /// All rings are built again.
    fn reorder(&mut self) {
        self.order.clear();
        self.packet_of = None;
        for line in 0..STREAMS.len() {
            self.lines[line].parked = false;
            self.forget_shares(line);
        }
        let mut waiting: Vec<_> = self.lines.iter().enumerate().collect();
        waiting.retain(|(_, state)| !state.messages.is_empty());
        waiting.sort_by_key(|(_, state)| state.messages[0].id);
        self.order = waiting.into_iter().map(|(line, _)| line).collect();
    }

    fn set_kind(&mut self, kind: SchedulerKind) {
        self.queue.set_scheduler(kind);
        self.kind = kind;
        self.reorder();
    }

    fn reset_priorities(&mut self, in_order: bool) {
        self.queue.reset_priorities(in_order);
        for (line, state) in self.lines.iter_mut().enumerate() {
            state.priority = if in_order { STREAMS[line] } else { 0 };
        }
        self.reorder();
    }

    fn check(&self) {
        let messages = self.lines.iter().map(|line| line.messages.len());
        assert_eq!(self.queue.is_empty(), messages.sum::<usize>() == 0);
        let all = self.lines.iter().flat_map(|line| &line.messages);
        let bytes = all.flat_map(|message| &message.pieces).sum::<usize>();
        assert_eq!(self.queue.bytes(), bytes);
        let all = self.lines.iter().flat_map(|line| &line.messages);
        let parts = all.map(|message| message.pieces.iter().filter(|len| **len > 0).count().max(1));
        assert_eq!(self.queue.parts(), parts.sum::<usize>());
        let mut all = self.lines.iter().flat_map(|line| &line.messages);
        assert_eq!(
            self.queue.has_directed(),
            all.any(|message| message.path.is_some())
        );
    }

    /// Everything that can leave does so, in exactly the necessary number of fragments.
    fn finish(&mut self) {
        for line in 0..STREAMS.len() {
            self.push(line, 1, true, true, Use::Always);
        }
        self.expire(false);
        let all = self.lines.iter().flat_map(|line| &line.messages);
        let most = all
            .flat_map(|message| &message.pieces)
            .map(|len| len / LIMIT + 1)
            .sum::<usize>();
        let mut count = 0;
        loop {
            while self.take() {
                count += 1;
            }
            if self.queue.is_empty() {
                break;
            }
            assert!(self.packet_of.is_some(), "stuck: {:?}", self.lines);
            self.on_packet();
        }
        assert!(count <= most, "{count} fragments, not {most}");
        assert!(self.order.is_empty());
    }
}

pub(crate) fn run(mut commands: Commands<'_>) {
    let first = commands.u8();
    let mut model = Model::new(KINDS[usize::from(first >> 1) % KINDS.len()], first & 1 == 1);
    while let Some(command) = commands.next(16) {
        model.now += Duration::from_millis(1);
        model.expire(false);
        let line = usize::from(commands.u8()) % STREAMS.len();
        match command {
            0..4 => model.push(line, 1 + 8 * usize::from(commands.u8()), false, true, Use::Always),
            4 => {
                let bits = commands.u8();
                let time = Duration::from_millis((bits / 2).into());
                let of_use = if bits & 1 == 0 {
                    Use::Lifetime(time)
                } else {
                    Use::Deadline(time)
                };
                model.push(line, LARGEST / 2, false, true, of_use);
            }
            5 => {
                let bits = commands.u8();
                model.push(line, 1 + usize::from(bits) * 4, true, bits & 1 == 1, Use::Always);
            }
            6..11 => {
                for _ in 0..=commands.u8() % 8 {
                    model.take();
                }
            }
            11 | 12 => model.on_packet(),
            13 => model.drop_one(line, commands.u8().into()),
            14 => model.change(line, commands.u8()),
            _ => match commands.u8() {
                bits @ 0..16 => model.set_kind(KINDS[usize::from(bits) % KINDS.len()]),
                bits @ 16..32 if model.kind == Priority => model.reset_priorities(bits & 1 == 1),
                _ => model.expire(true),
            },
        }
        model.check();
    }
    model.finish();
}
