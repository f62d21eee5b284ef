//! The room that a path has for copies.

use core::time::Duration;

use super::standing_queue::INTERVAL;
use crate::path::CopyNeed;
use crate::time::Timestamp;

/// Data and copies take at most this share of the rate that a path carries.
const SHARE: f64 = 0.7;
/// In seconds: what was not used in this time may be used by copies, and what was used beyond the share is made up for.
const MEMORY: f64 = 0.1;
/// While a queue stands no copies leave, and then for a while: at first so long, then for twice as long each time.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(32));
/// After a pause, copies take at first this part of what data takes, and twice as much after each interval without a queue, up to a limit
/// beyond which there is none.
const PARTS: (f64, f64) = (0.125, 4.0);

/// The bytes that copies may take: data goes first, and copies take the rest. Where a queue stands the link is full: its packets are lost
/// because of the load, and copies would add to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    since: Timestamp,
    /// Bytes of data sent until then.
    data: u64,
    /// Bytes that copies may take now; negative if the data took more than its share.
    bytes: f64,
    /// The last pause, and its end.
    pause: Duration,
    resumes: Timestamp,
    /// After a pause: the part of the bytes of data that copies may take.
    begins: Option<Beginning>,
}

/// Copies begin again, slowly.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    part: f64,
    doubled: Timestamp,
    /// The bytes that copies may take now.
    bytes: f64,
}

impl Room {
    /// Whether a queue stands at the bottleneck.
    pub(crate) fn on_queue(&mut self, now: Timestamp, stands: bool) {
        if self.pauses(now) {
            return;
        }
        if stands {
            self.pause = (2 * self.pause).clamp(PAUSES.0, PAUSES.1);
            self.resumes = now + self.pause;
            self.begins = Some(Beginning {
                part: PARTS.0,
                doubled: self.resumes,
                bytes: 0.0,
            });
            return;
        }
        if now >= self.resumes + 2 * self.pause {
            self.pause = Duration::ZERO;
        }
        if let Some(begins) = self
            .begins
            .as_mut()
            .filter(|begins| now >= begins.doubled + INTERVAL)
        {
            begins.part *= 2.0;
            begins.doubled = now;
        }
        self.begins.take_if(|begins| begins.part > PARTS.1);
    }

    /// Whether copies pause, but for those that replace a transmission whose answer is overdue.
    pub(crate) fn pauses(&self, now: Timestamp) -> bool {
        now < self.resumes
    }

    /// Whether a copy of so many bytes may leave, on a path that carries `rate` bytes a second and has sent so many bytes of data. Copies that
    /// replace a transmission may take now what copies could take later, unless a queue stands.
    pub(crate) fn admits(
        &mut self,
        now: Timestamp,
        rate: f64,
        data: u64,
        bytes: usize,
        need: CopyNeed,
    ) -> bool {
        let lasts = now.saturating_duration_since(self.since).as_secs_f64();
        let most = rate * MEMORY;
        let sent = (data - self.data) as f64;
        (self.since, self.data) = (now, data);
        self.bytes = (self.bytes + rate * SHARE * lasts - sent).clamp(-most, most);
        let size = bytes as f64;
        let allowed = self.begins.as_mut().is_none_or(|begins| {
            begins.bytes = (begins.bytes + begins.part * sent).min(most.max(size));
            begins.bytes >= size
        });
        let (least, slowly) = match need {
            CopyNeed::MayBeLost => (0.0, true),
            CopyNeed::Overdue | CopyNeed::Silent if !self.pauses(now) => (-most, false),
            CopyNeed::Overdue => (0.0, true),
            CopyNeed::Silent => (0.0, false),
        };
        self.bytes - size >= least && (allowed || !slowly)
    }

    /// A copy left.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.bytes -= bytes as f64;
        if let Some(begins) = &mut self.begins {
            begins.bytes -= bytes as f64;
        }
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
                if room.admits(
                    Timestamp::from_millis(ms),
                    1e5,
                    data_each_ms * ms,
                    50,
                    CopyNeed::MayBeLost,
                ) {
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

    #[test]
    fn copies_that_replace_take_what_later_ones_could() {
        let mut room = Room::default();
        let ahead = |room: &mut Room, millis| {
            let fit = |room: &mut Room| {
                room.admits(
                    Timestamp::from_millis(millis),
                    1e5,
                    70 * millis,
                    1000,
                    CopyNeed::Overdue,
                )
            };
            let mut copied = 0;
            while fit(room) {
                room.take(1000);
                copied += 1;
            }
            copied
        };
        assert_eq!(ahead(&mut room, 1), 10, "100 ms of the rate");
        assert_eq!(ahead(&mut room, 500), 0, "data takes the share");
        let fits = room.admits(
            Timestamp::from_millis(600),
            1e5,
            35_000,
            1000,
            CopyNeed::MayBeLost,
        );
        assert!(!fits, "others wait until that is made up for");
    }

    #[test]
    fn copies_pause_where_a_queue_stands() {
        let mut room = Room::default();
        let mut copied = Vec::new();
        // The queue stands whenever copies leave.
        for second in 1..=60 {
            let now = Timestamp::from_millis(1_000 * second);
            // A little data, so that a copy is allowed at once.
            if room.admits(now, 1e5, 400 * second, 50, CopyNeed::MayBeLost) && !room.pauses(now) {
                copied.push(second);
                room.on_queue(now, true);
            }
        }
        assert_eq!(copied, [1, 3, 7, 15, 31]);
        let later = Timestamp::from_millis(200_000);
        room.on_queue(later, false);
        room.on_queue(later, true);
        assert!(room.pauses(later));
        assert!(!room.pauses(later + PAUSES.0), "the first pause again");
    }

    #[test]
    fn a_silent_path_needs_copies_although_a_queue_stands() {
        let mut room = Room::default();
        room.on_queue(Timestamp::ZERO, true);
        let mut admits = |need| room.admits(Timestamp::from_millis(500), 1e5, 0, 1000, need);
        assert!(!admits(CopyNeed::Overdue) && admits(CopyNeed::Silent));
        room.take(10_000);
        let now = Timestamp::from_millis(500);
        assert!(
            !room.admits(now, 1e5, 0, 1000, CopyNeed::Silent),
            "only what data leaves"
        );
    }

    #[test]
    fn copies_begin_slowly_after_a_pause() {
        let mut room = Room::default();
        room.on_queue(Timestamp::ZERO, true);
        let mut copied = [0; 8];
        for ms in 1..=800 {
            let now = Timestamp::ZERO + PAUSES.0 + Duration::from_millis(ms);
            room.on_queue(now, false);
            while room.admits(now, 1e6, 50 * ms, 50, CopyNeed::MayBeLost) {
                room.take(50);
                copied[(ms as usize - 1) / 100] += 1;
            }
        }
        // Of a hundred messages each.
        assert_eq!(copied[..5], [12, 25, 51, 101, 202]);
        assert!(copied[7] > 1_000, "{copied:?}: no limit");
    }
}
