//! Sequences of commands, read from bytes, against parts of the core and naive models of them. The fuzz targets bring
//! bytes that reach new code, the property tests random ones. Not part of the interface: only with the feature
//! `fuzzing`, and in tests.

/// RFC 9260 §6.2.1, §6.3, §7.2.4: the sender's ring against a list of chunks.
///
/// # Panics
/// If they disagree.
pub fn outstanding(bytes: &[u8]) {
    crate::recovery::outstanding_model::run(Commands::new(bytes));
}

/// The same where acknowledgements name transmissions (ECA-SCTP), against a list of transmissions.
///
/// # Panics
/// If they disagree.
pub fn named(bytes: &[u8]) {
    crate::recovery::named_model::run(Commands::new(bytes));
}

/// RFC 9260 §6.9: fragments that become messages against a map of fragments.
///
/// # Panics
/// If they disagree.
pub fn reassembly(bytes: &[u8]) {
    crate::receive::reassembly_model::run(Commands::new(bytes));
}

/// RFC 8260 §3: which message waits for which, against lists.
///
/// # Panics
/// If they disagree.
pub fn send_queue(bytes: &[u8]) {
    crate::send::send_queue_model::run(Commands::new(bytes));
}

/// RFC 8260 §2.2.3: fragments of messages that interleave against a map of all that arrived.
///
/// # Panics
/// If they disagree.
pub fn interleaved(bytes: &[u8]) {
    crate::receive::interleaved::model::run(Commands::new(bytes));
}

/// RFC 9260 §6.2: the receiver's runs of TSNs against a set.
///
/// # Panics
/// If they disagree.
pub fn tsn_tracker(bytes: &[u8]) {
    crate::receive::tsn_tracker_model::run(Commands::new(bytes));
}

/// RFC 9438, RFC 9406: what CUBIC's window does whatever is reported.
///
/// # Panics
/// If it does something else.
pub fn cubic(bytes: &[u8]) {
    crate::congestion::classic::model::run(Commands::new(bytes));
}

/// Numbers read from bytes; when those are used up, zeroes and the end.
pub(crate) struct Commands<'a> {
    bytes: &'a [u8],
}

impl<'a> Commands<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The next command, one of `count`; `None` at the end.
    pub(crate) fn next(&mut self, count: u8) -> Option<u8> {
        (!self.bytes.is_empty()).then(|| self.u8() % count)
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let (first, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        *first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes([self.u8(), self.u8(), self.u8(), self.u8()])
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn outstanding(bytes in vec(any::<u8>(), 0..600)) {
            super::outstanding(&bytes);
        }

        #[test]
        fn named(bytes in vec(any::<u8>(), 0..600)) {
            super::named(&bytes);
        }

        #[test]
        fn reassembly(bytes in vec(any::<u8>(), 0..600)) {
            super::reassembly(&bytes);
        }

        #[test]
        fn send_queue(bytes in vec(any::<u8>(), 0..600)) {
            super::send_queue(&bytes);
        }

        #[test]
        fn interleaved(bytes in vec(any::<u8>(), 0..600)) {
            super::interleaved(&bytes);
        }

        #[test]
        fn tsn_tracker(bytes in vec(any::<u8>(), 0..600)) {
            super::tsn_tracker(&bytes);
        }

        #[test]
        fn congestion_cubic(bytes in vec(any::<u8>(), 0..3000)) {
            super::cubic(&bytes);
        }
    }
}
