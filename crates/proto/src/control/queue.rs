//! The queue of control chunks, of answers to packets, and of path MTU probes.

use std::collections::VecDeque;

use anabranch_wire::chunk::Chunk;

use crate::event::Reply;
use crate::path::PathId;

/// The most control chunks, and the most answers, that a peer can make this endpoint queue; further ones are dropped.
const LIMIT: usize = 64;

/// A chunk and the path it must take.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) path: PathId,
    pub(crate) chunk: Chunk,
}

/// Control chunks in the order in which they will be sent.
#[derive(Debug, Default)]
pub(crate) struct ControlQueue {
    chunks: VecDeque<Waiting>,
    replies: VecDeque<Reply>,
    probes: VecDeque<(PathId, Vec<u8>)>,
}

impl ControlQueue {
    /// Queues a chunk unless the queue is full.
    pub(crate) fn push(&mut self, path: PathId, chunk: Chunk) {
        if self.chunks.len() < LIMIT {
            self.chunks.push_back(Waiting { path, chunk });
        }
    }

    /// Queues a chunk in place of the queued chunks for the same path that it makes obsolete.
    pub(crate) fn replace(&mut self, path: PathId, chunk: Chunk, is_pointless: impl Fn(&Chunk) -> bool) {
        self.chunks
            .retain(|waiting| waiting.path != path || !is_pointless(&waiting.chunk));
        self.push(path, chunk);
    }

    /// Queues a complete packet unless the queue is full.
    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.replies.len() < LIMIT {
            self.replies.push_back(reply);
        }
    }

    /// Queues a path MTU probe, which is larger than other packets of its path: at most one for each path.
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

    /// Whether all queued chunks are of this kind.
    pub(crate) fn has_only(&self, is_one: impl Fn(&Chunk) -> bool) -> bool {
        self.chunks.iter().all(|waiting| is_one(&waiting.chunk))
    }

    /// Whether a queued chunk is of this kind.
    pub(crate) fn any(&self, is_one: impl Fn(&Chunk) -> bool) -> bool {
        self.chunks.iter().any(|waiting| is_one(&waiting.chunk))
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.chunks.pop_front()
    }

    /// Whether answers to packets are queued.
    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    pub(crate) fn pop_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Drops chunks that a change of state has made obsolete.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Chunk) -> bool) {
        self.chunks.retain(|waiting| keep(&waiting.chunk));
    }

    pub(crate) fn clear_chunks(&mut self) {
        self.chunks.clear();
    }

    /// Drops the queued chunks and probes of a path that no longer exists.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.chunks.retain(|waiting| waiting.path != path);
        self.probes.retain(|(other, _)| *other != path);
    }

    /// Drops all queued chunks and probes, because their paths no longer exist.
    pub(crate) fn forget_paths(&mut self) {
        self.chunks.clear();
        self.probes.clear();
    }
}
