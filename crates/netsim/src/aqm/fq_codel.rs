//! FQ-CoDel (RFC 8290): one queue for each flow, each with CoDel. A deficit round robin scheduler serves the queues, new flows first.

use std::collections::VecDeque;

use super::codel::CoDel;
use super::{Fifo, FqCoDelConfig, Service, Waiting};
use crate::link::LinkPacket;

/// The most packets that a full queue drops at once (RFC 8290 §4.1).
const DROP_BATCH: u64 = 64;

/// The list that holds a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// In no list: the queue is empty and its round is over.
    Inactive,
    New,
    Old,
}

#[derive(Clone, Debug)]
struct FlowQueue<P> {
    fifo: Fifo<P>,
    codel: CoDel,
    /// Bytes that the queue may still send in this round; negative if its last packet was longer than the rest of its quantum.
    credits: i64,
    list: List,
}

/// See the [module's documentation](self).
#[derive(Clone, Debug)]
pub(crate) struct FqCoDel<P> {
    config: FqCoDelConfig,
    perturbation: u64,
    queues: Vec<FlowQueue<P>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    bytes: u64,
    packets: u64,
}

impl<P: LinkPacket> FqCoDel<P> {
    pub(super) fn new(config: FqCoDelConfig, perturbation: u64) -> Self {
        let queue = || FlowQueue {
            fifo: Fifo::default(),
            codel: CoDel::default(),
            credits: 0,
            list: List::Inactive,
        };
        Self {
            config,
            perturbation,
            queues: (0..config.flows.max(1)).map(|_| queue()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            packets: 0,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// The queue of the packet's flow.
    fn classify(&self, packet: &P) -> usize {
        let hash = packet.five_tuple().map_or(0, |flow| flow.hash(self.perturbation));
        (hash % self.queues.len() as u64) as usize
    }

    pub(super) fn enqueue(&mut self, waiting: Waiting<P>) {
        let index = self.classify(&waiting.packet);
        self.bytes += waiting.len;
        self.packets += 1;
        let queue = &mut self.queues[index];
        queue.fifo.push(waiting);
        if queue.list == List::Inactive {
            queue.list = List::New;
            queue.credits = i64::from(self.config.quantum);
            self.new.push_back(index);
        }
    }

    pub(super) fn dequeue(&mut self, service: &mut Service<'_>) -> Option<Waiting<P>> {
        loop {
            let index = *self.new.front().or_else(|| self.old.front())?;
            let queue = &mut self.queues[index];
            if queue.credits <= 0 {
                queue.credits += i64::from(self.config.quantum);
                self.move_to_old(index);
                continue;
            }
            let (bytes, packets) = (queue.fifo.bytes(), queue.fifo.packets());
            let head = queue.codel.dequeue(&self.config.codel, &mut queue.fifo, service);
            self.bytes -= bytes - queue.fifo.bytes();
            self.packets -= packets - queue.fifo.packets();
            match head {
                Some(head) => {
                    queue.credits -= head.len as i64;
                    return Some(head);
                }
                // A flow that soon sends again is not new: its queue goes behind the old ones first (RFC 8290 §4.2).
                None if queue.list == List::New => self.move_to_old(index),
                None => {
                    queue.list = List::Inactive;
                    self.old.pop_front();
                }
            }
        }
    }

    /// Moves a queue from the head of its list to the end of the list of old queues.
    fn move_to_old(&mut self, index: usize) {
        match self.queues[index].list {
            List::New => self.new.pop_front(),
            _ => self.old.pop_front(),
        };
        self.queues[index].list = List::Old;
        self.old.push_back(index);
    }

    /// Drops half of the bytes of the longest queue, from its head, but at most [`DROP_BATCH`] packets. Returns whether the packet with
    /// this index was among them.
    pub(super) fn drop_from_longest(&mut self, index: u64, service: &mut Service<'_>) -> bool {
        // The first one, if several queues have the largest length.
        let longest = (0..self.queues.len())
            .rev()
            .max_by_key(|queue| self.queues[*queue].fifo.bytes());
        let Some(queue) = longest.map(|queue| &mut self.queues[queue]) else {
            return false;
        };
        let before = queue.fifo.bytes();
        let mut dropped_it = false;
        for _ in 0..DROP_BATCH {
            let Some(head) = queue.fifo.pop() else { break };
            service.note_wait(&head);
            service.stats.lost_queue += 1;
            self.packets -= 1;
            dropped_it |= head.index == index;
            if (before - queue.fifo.bytes()) * 2 >= before {
                break;
            }
        }
        self.bytes -= before - queue.fifo.bytes();
        dropped_it
    }

    pub(super) fn take_all(&mut self) -> Vec<Waiting<P>> {
        let config = self.config;
        let all = self
            .queues
            .iter_mut()
            .flat_map(|queue| queue.fifo.take_all())
            .collect();
        *self = Self::new(config, self.perturbation);
        all
    }
}

#[cfg(test)]
mod tests;
