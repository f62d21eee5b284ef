//! Control chunks that wait to leave, and packets that answer others outside the association's own tags.

use std::collections::VecDeque;

use anabranch_wire::chunk::Chunk;

use crate::event::Reply;
use crate::path::PathId;

/// Answers that one peer can make this side queue; a flood of what asks for them gets no more.
const LIMIT: usize = 64;

/// A chunk and the path it must take.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) path: PathId,
    pub(crate) chunk: Chunk,
}

/// In the order they leave in.
#[derive(Debug, Default)]
pub(crate) struct ControlQueue {
    chunks: VecDeque<Waiting>,
    replies: VecDeque<Reply>,
    probes: VecDeque<(PathId, Vec<u8>)>,
}

impl ControlQueue {
    /// Queues a chunk unless too many wait.
    pub(crate) fn push(&mut self, path: PathId, chunk: Chunk) {
        if self.chunks.len() < LIMIT {
            self.chunks.push_back(Waiting { path, chunk });
        }
    }

    /// Queues a chunk in the place of those for the same path that it makes pointless.
    pub(crate) fn replace(&mut self, path: PathId, chunk: Chunk, is_pointless: impl Fn(&Chunk) -> bool) {
        self.chunks
            .retain(|waiting| waiting.path != path || !is_pointless(&waiting.chunk));
        self.push(path, chunk);
    }

    /// Queues a whole packet unless too many wait.
    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.replies.len() < LIMIT {
            self.replies.push_back(reply);
        }
    }

    /// Queues a packet that is larger than others on its path: one for each path at most.
    pub(crate) fn probe(&mut self, path: PathId, packet: Vec<u8>) {
        self.probes.retain(|(other, _)| *other != path);
        self.probes.push_back((path, packet));
    }

    pub(crate) fn pop_probe(&mut self) -> Option<(PathId, Vec<u8>)> {
        self.probes.pop_front()
    }

    pub(crate) fn peek(&self) -> Option<&Waiting> {
        self.chunks.front()
    }

    /// Whether no other chunks than these wait.
    pub(crate) fn has_only(&self, is_one: impl Fn(&Chunk) -> bool) -> bool {
        self.chunks.iter().all(|waiting| is_one(&waiting.chunk))
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.chunks.pop_front()
    }

    /// Whether packets wait that answer others.
    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    pub(crate) fn pop_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Forgets chunks that a change of state has made pointless.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Chunk) -> bool) {
        self.chunks.retain(|waiting| keep(&waiting.chunk));
    }

    pub(crate) fn clear_chunks(&mut self) {
        self.chunks.clear();
    }

    /// Forgets all that waits for a path.
    pub(crate) fn forget_paths(&mut self) {
        self.chunks.clear();
        self.probes.clear();
    }
}
