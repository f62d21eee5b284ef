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

/// Congestion controllers: what CUBIC (RFC 9438, RFC 9406) does whatever is reported, and what each algorithm does on a path through a
/// bottleneck that the input rules.
///
/// # Panics
/// If a window or a rate leaves its bounds, or a rule of the algorithm is broken.
pub fn controllers(bytes: &[u8]) {
    let mut commands = Commands::new(bytes);
    match commands.next(5) {
        Some(0) => crate::congestion::classic::model::run(commands),
        Some(algorithm) => crate::path::controller_model::run(algorithm, commands),
        None => {}
    }
}

/// RFC 8985, RFC 5682, RFC 3708: a sender with RACK, any controller and a network that the input rules, against all that was sent and
/// acknowledged.
///
/// # Panics
/// If loss recovery or a controller does what it must not, or if something does not arrive once the network heals.
pub fn recovery(bytes: &[u8]) {
    crate::association::recovery_model::run(Commands::new(bytes));
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
        fn recovery(bytes in vec(any::<u8>(), 0..300)) {
            super::recovery(&bytes);
        }

        #[test]
        fn controllers(algorithm in 0..5_u8, bytes in vec(any::<u8>(), 0..300)) {
            let mut input = vec![algorithm];
            input.extend(bytes);
            super::controllers(&input);
        }
    }
}
