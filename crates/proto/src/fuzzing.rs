//! Tests of parts of the core against simple models of them, each driven by commands read from bytes. Fuzz targets supply bytes that
//! reach new code, property tests supply random bytes. Not part of the interface: only with the feature `fuzzing`, and in tests.

/// RFC 9260 §6.2.1, §6.3, §7.2.4: the outstanding chunks against a list of chunks.
///
/// # Panics
/// If ring and model differ.
pub fn outstanding(bytes: &[u8]) {
    crate::recovery::outstanding_model::run(Commands::new(bytes));
}

/// The same if acknowledgements name transmissions (ECA-SCTP), against a list of transmissions.
///
/// # Panics
/// If ring and model differ.
pub fn named(bytes: &[u8]) {
    crate::recovery::named_model::run(Commands::new(bytes));
}

/// RFC 9260 §6.9: reassembly of fragments into messages, against a map of fragments.
///
/// # Panics
/// If reassembly and model differ.
pub fn reassembly(bytes: &[u8]) {
    crate::receive::reassembly_model::run(Commands::new(bytes));
}

/// RFC 8260 §3: the order in which the schedulers send messages, against lists.
///
/// # Panics
/// If queue and model differ.
pub fn send_queue(bytes: &[u8]) {
    crate::send::send_queue_model::run(Commands::new(bytes));
}

/// RFC 8260 §2.2.3: reassembly of interleaved messages, against a map of all fragments received.
///
/// # Panics
/// If reassembly and model differ.
pub fn interleaved(bytes: &[u8]) {
    crate::receive::interleaved::model::run(Commands::new(bytes));
}

/// RFC 9260 §6.2: the runs of TSNs that the receiver got, against a set.
///
/// # Panics
/// If tracker and model differ.
pub fn tsn_tracker(bytes: &[u8]) {
    crate::receive::tsn_tracker_model::run(Commands::new(bytes));
}

/// Congestion controllers: properties of CUBIC (RFC 9438, RFC 9406) for any reports, and of each algorithm on a path through a
/// bottleneck that the input controls.
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

/// RFC 8985, RFC 5682, RFC 3708: a sender with RACK and any controller, over a network that the input controls, against a record of
/// everything sent and acknowledged.
///
/// # Panics
/// If loss recovery or a controller breaks a rule, or if data does not arrive once the network works again.
pub fn recovery(bytes: &[u8]) {
    crate::association::recovery_model::run(Commands::new(bytes));
}

/// Numbers read from bytes; after the last byte, zeroes and the end.
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
