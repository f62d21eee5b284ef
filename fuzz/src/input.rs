//! Reads numbers and bytes from the fuzzer's input. After its end, numbers are zero and byte strings are empty.

use core::time::Duration;

use anabranch_proto::{Config, Reliability};

/// The rest of the input.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    /// At most `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// The next byte, which stays in the input.
    pub(crate) fn first(&self) -> u8 {
        self.0.first().copied().unwrap_or(0)
    }

    /// The last byte, which stays in the input. It selects settings, so that older inputs keep their meaning.
    pub(crate) fn last(&self) -> u8 {
        self.0.last().copied().unwrap_or(0)
    }

    /// Selects one of these values.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.u8()) % of.len()]
    }
}

/// Sets the extensions' settings; without the highest bit no extension is offered.
pub(crate) fn extend(config: &mut Config, choice: u8) {
    if choice & 0x80 == 0 {
        *config = config.clone().without_extensions();
        return;
    }
    config.partial_reliability.early_discard = choice & 1 != 0;
    config.partial_reliability.selective_forward_tsn = (choice & 2 != 0).then_some(1);
    config.partial_reliability.discard_unsent = choice & 5 != 5;
    config.interleaving.offer = choice & 4 != 0;
    // Interleaving would yield to it, and the peer would have to know.
    config.partial_reliability.extended_forward_tsn = choice & 6 == 2;
    config.nr_sack.offer = choice & 8 == 0;
    config.nr_sack.may_renege = choice & 16 != 0;
    config.nr_sack.forward_past_nonrenegable = choice & 32 == 0;
}

/// When a message may be abandoned.
pub(crate) fn reliability(choice: u8) -> Reliability {
    match choice & 7 {
        0..3 => Reliability::Reliable,
        3 => Reliability::Lifetime(Duration::from_millis(u64::from(choice))),
        4 => Reliability::Lifetime(Duration::from_secs(u64::from(choice >> 3))),
        5 => Reliability::Priority(u32::from(choice >> 3)),
        _ => Reliability::Retransmissions(u32::from(choice >> 3 & 3)),
    }
}
