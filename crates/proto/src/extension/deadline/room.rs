//! The room that a path has for copies.

use crate::time::Timestamp;

/// Data and copies take at most this share of the rate that a path carries.
const SHARE: f64 = 0.7;
/// In seconds: what was not used in this time may be used by copies, and what was used beyond the share is made up for.
const MEMORY: f64 = 0.1;

/// The bytes that copies may take: data goes first, and copies take the rest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    since: Timestamp,
    /// Bytes of data sent until then.
    data: u64,
    /// Bytes that copies may take now; negative if the data took more than its share.
    bytes: f64,
}

impl Room {
    /// Whether a copy of so many bytes may leave, on a path that carries `rate` bytes a second and has sent so many bytes of data.
    pub(crate) fn admits(&mut self, now: Timestamp, rate: f64, data: u64, bytes: usize) -> bool {
        let lasts = now.saturating_duration_since(self.since).as_secs_f64();
        let most = rate * MEMORY;
        self.bytes += rate * SHARE * lasts - (data - self.data) as f64;
        self.bytes = self.bytes.clamp(-most, most);
        (self.since, self.data) = (now, data);
        self.bytes >= bytes as f64
    }

    /// A copy left.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.bytes -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_what_data_leaves() {
        // 100 kB/s, of which data and copies may take 70.
        let copies = |data_each_ms: u64| {
            let mut room = Room::default();
            let mut copied = 0;
            for ms in 1..=10_000 {
                if room.admits(Timestamp::from_millis(ms), 1e5, data_each_ms * ms, 50) {
                    room.take(50);
                    copied += 50;
                }
            }
            copied / 10
        };
        let each_second = [10, 60, 70, 100].map(copies);
        assert!(
            (49_000..=51_000).contains(&each_second[0]),
            "{each_second:?}: one in each step"
        );
        assert!((9_000..=11_000).contains(&each_second[1]), "{each_second:?}");
        assert!(each_second[2] < 1_000 && each_second[3] == 0, "{each_second:?}");
    }
}
