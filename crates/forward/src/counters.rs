//! The counters of a rule, and their values at one time.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that many tasks change.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, number: u64) {
        self.0.fetch_sub(number, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one rule at one endpoint.
#[derive(Debug, Default)]
pub(crate) struct RuleCounters {
    pub(crate) flows: Count,
    pub(crate) flows_opened: Count,
    pub(crate) flows_refused: Count,
    pub(crate) messages_sent: Count,
    pub(crate) bytes_sent: Count,
    pub(crate) messages_received: Count,
    pub(crate) bytes_received: Count,
    pub(crate) dropped: Count,
    pub(crate) abandoned: Count,
}

/// The counters of a rule at one endpoint, at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleStats {
    /// Flows that exist now.
    pub flows: u64,
    /// Flows that began.
    pub flows_opened: u64,
    /// Flows that this endpoint or the peer refused: for a limit or the policy, or because the target did not accept.
    pub flows_refused: u64,
    /// Datagrams, or messages with bytes of connections, that were given to the association.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Datagrams, or messages with bytes of connections, that arrived from the association.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Datagrams that were not sent, because of the rule's rate or a full buffer, and datagrams that the program did not take.
    pub dropped: u64,
    /// Datagrams that were abandoned, because they could not arrive in time.
    pub abandoned: u64,
}

impl RuleCounters {
    pub(crate) fn read(&self) -> RuleStats {
        RuleStats {
            flows: self.flows.get(),
            flows_opened: self.flows_opened.get(),
            flows_refused: self.flows_refused.get(),
            messages_sent: self.messages_sent.get(),
            bytes_sent: self.bytes_sent.get(),
            messages_received: self.messages_received.get(),
            bytes_received: self.bytes_received.get(),
            dropped: self.dropped.get(),
            abandoned: self.abandoned.get(),
        }
    }
}
