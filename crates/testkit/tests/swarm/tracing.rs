//! The same runs with tracing and without.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use anabranch_proto::TraceLevel;
use anabranch_testkit::Side;

use super::run_with;

/// Seeds that run with tracing and without.
const TRACED: Range<u64> = 0..60;

#[test]
fn tracing_changes_no_packet() {
    for seed in TRACED {
        let digests = [TraceLevel::Off, TraceLevel::Events, TraceLevel::Packets].map(|level| {
            let digest = Digest::default();
            let out = digest.clone();
            run_with(seed, |pair| {
                pair.network.capture(out).expect("a digest takes all bytes");
                Side::BOTH
                    .into_iter()
                    .for_each(|side| pair.host_mut(side).set_tracing(level));
            });
            digest.value()
        });
        assert_eq!(digests[0], digests[1], "seed {seed}");
        assert_eq!(digests[0], digests[2], "seed {seed}");
    }
}

/// A hash (FNV-1a) of the capture of a run, and its length.
#[derive(Clone, Default)]
struct Digest(Arc<Mutex<(u64, usize)>>);

impl Digest {
    fn value(&self) -> (u64, usize) {
        let value = *self.0.lock().expect("no test panicked");
        assert!(value.1 > 1_000, "a run has packets");
        value
    }
}

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut value = self.0.lock().expect("no test panicked");
        for byte in bytes {
            value.0 = (value.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        value.1 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
