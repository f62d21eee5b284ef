//! The flows of a session, their numbers, and the streams on which this endpoint sends them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch::StreamId;

use super::bytes_flow::ByteFlow;
use super::datagrams::DatagramFlow;
use crate::wire::FlowId;

/// A flow.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Bytes(Arc<ByteFlow>),
    Datagrams(Arc<DatagramFlow>),
}

impl Entry {
    fn stream(&self) -> StreamId {
        match self {
            Self::Bytes(flow) => flow.stream,
            Self::Datagrams(flow) => flow.stream,
        }
    }
}

#[derive(Debug)]
pub(super) struct Table {
    flows: BTreeMap<FlowId, Entry>,
    most_flows: usize,
    /// The number of this endpoint's next flow; `None` when all were used.
    next: Option<u32>,
    /// Streams below `unused` that no flow uses.
    free: BTreeSet<u16>,
    /// The lowest stream that no flow has used yet.
    unused: u16,
    is_over: bool,
}

impl Table {
    pub(super) fn new(is_client: bool, most_flows: usize) -> Self {
        Self {
            flows: BTreeMap::new(),
            most_flows,
            next: Some(if is_client { 0 } else { 1 }),
            free: BTreeSet::new(),
            unused: 1,
            is_over: false,
        }
    }

    pub(super) fn most_flows(&self) -> usize {
        self.most_flows
    }

    pub(super) fn get(&self, flow: FlowId) -> Option<&Entry> {
        self.flows.get(&flow)
    }

    /// Adds the peer's flow, or a new one of this endpoint. `None` if there are too many.
    pub(super) fn add(
        &mut self,
        flow: Option<FlowId>,
        make: impl FnOnce(FlowId, StreamId) -> Entry,
    ) -> Option<Entry> {
        if self.is_over || self.flows.len() >= self.most_flows {
            return None;
        }
        let flow = match flow {
            Some(flow) => flow,
            None => {
                let next = self.next?;
                self.next = next.checked_add(2);
                FlowId(next)
            }
        };
        let stream = self.free.pop_first().unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        });
        let entry = make(flow, StreamId(stream));
        self.flows.insert(flow, entry.clone());
        Some(entry)
    }

    /// Removes a flow. Its stream serves another one.
    pub(super) fn remove(&mut self, flow: FlowId) -> Option<Entry> {
        let entry = self.flows.remove(&flow)?;
        self.free.insert(entry.stream().0);
        Some(entry)
    }

    /// Removes all flows, and accepts no more.
    pub(super) fn take_all(&mut self) -> Vec<FlowId> {
        self.is_over = true;
        self.flows.keys().copied().collect()
    }
}
