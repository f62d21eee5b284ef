//! A path in real time: a thread between two devices that delivers packets at the times that the path's links decide.
//!
//! The thread sleeps in `ppoll` until a device has a packet or the next packet is due. Every packet gets its own timestamp when it is read,
//! and due packets are written one by one. The links therefore neither see nor create batches that the sender did not send.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch_proto::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::way::{Way, WayCounters};

/// Packets moved in one direction before the other direction gets its turn.
const BATCH: usize = 64;
/// The longest IP packet.
const LONGEST: usize = 65_535;

/// The time since the bed was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }
}

/// Both directions of a path.
#[derive(Debug)]
pub(crate) struct Carrier {
    clock: Clock,
    /// From the first end to the second, and back.
    ways: Mutex<[Way; 2]>,
}

impl Carrier {
    pub(crate) fn new(clock: Clock, ways: [Way; 2]) -> Self {
        Self {
            clock,
            ways: Mutex::new(ways),
        }
    }

    /// The counters of both directions.
    pub(crate) fn counters(&self) -> [WayCounters; 2] {
        let now = self.clock.now();
        self.ways().each_mut().map(|way| way.counters(now))
    }

    /// Moves packets between the two ends, which must not block, until the write end of `stop` is closed.
    ///
    /// # Errors
    /// If an end can no longer be read.
    pub(crate) fn run(&self, ends: &[OwnedFd; 2], stop: &PipeReader) -> io::Result<()> {
        let mut buffer = vec![0; LONGEST];
        let mut ready = [true; 2];
        loop {
            let mut ways = self.ways();
            for ((way, end), ready) in ways.iter_mut().zip(ends).zip(&mut ready) {
                *ready = *ready && self.take_in(way, end, &mut buffer)?;
            }
            for (way, end) in ways.iter_mut().zip(ends.iter().rev()) {
                self.hand_over(way, end);
            }
            let next = ways.iter().filter_map(Way::next_event).min();
            drop(ways);
            let wait = match next {
                _ if ready.contains(&true) => Some(Duration::ZERO),
                next => next.map(|due| due.saturating_duration_since(self.clock.now())),
            };
            if wait_for(ends, stop, wait, &mut ready)? {
                return Ok(());
            }
        }
    }

    /// Reads the available packets, up to a batch. Returns whether there may be more.
    fn take_in(&self, way: &mut Way, end: &OwnedFd, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..BATCH {
            match rustix::io::read(end, &mut *buffer) {
                Ok(len) => way.enqueue(self.clock.now(), &buffer[..len]),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Writes the due packets, up to a batch.
    fn hand_over(&self, way: &mut Way, end: &OwnedFd) {
        for _ in 0..BATCH {
            let written = |packet: &[u8]| rustix::io::write(end, packet).is_ok();
            if !way.hand_over(self.clock.now(), written) {
                return;
            }
        }
    }

    /// No code panics while it holds the lock; even then the counters would be valid.
    fn ways(&self) -> MutexGuard<'_, [Way; 2]> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until an end can be read, `wait` is over, or the carrier must stop. Returns whether it must stop.
fn wait_for(
    ends: &[OwnedFd; 2],
    stop: &PipeReader,
    wait: Option<Duration>,
    ready: &mut [bool; 2],
) -> io::Result<bool> {
    let mut polled = [
        PollFd::new(&ends[0], PollFlags::IN),
        PollFd::new(&ends[1], PollFlags::IN),
        PollFd::new(stop, PollFlags::empty()),
    ];
    // A wait that is too long for the system's timer is split.
    let wait = wait.map(|wait| {
        Timespec::try_from(wait).unwrap_or(Timespec {
            tv_sec: 3600,
            tv_nsec: 0,
        })
    });
    match poll(&mut polled, wait.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    for (ready, polled) in ready.iter_mut().zip(&polled) {
        *ready = !polled.revents().is_empty();
    }
    Ok(!polled[2].revents().is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// A carrier between two pairs of sockets in place of devices: packets sent into one socket come out of the other.
    fn between(links: [&str; 2], test: impl FnOnce(&UnixDatagram, &UnixDatagram, &Carrier)) {
        let ways = [0, 1].map(|index| Way::new(links[index].parse().unwrap(), 1, &format!("way {index}")));
        let carrier = Arc::new(Carrier::new(Clock::start(), ways));
        let (left, left_end) = UnixDatagram::pair().unwrap();
        let (right, right_end) = UnixDatagram::pair().unwrap();
        for socket in [&left, &right] {
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        }
        for end in [&left_end, &right_end] {
            end.set_nonblocking(true).unwrap();
        }
        let ends = [left_end.into(), right_end.into()];
        let (stopped, stop) = io::pipe().unwrap();
        let thread = thread::spawn({
            let carrier = Arc::clone(&carrier);
            move || carrier.run(&ends, &stopped)
        });
        test(&left, &right, &carrier);
        drop(stop);
        thread.join().unwrap().unwrap();
    }

    fn receive(socket: &UnixDatagram) -> u32 {
        let mut buffer = [0; 2000];
        let len = socket.recv(&mut buffer).unwrap();
        assert_eq!(len, 1000);
        u32::from_be_bytes(buffer[4..8].try_into().unwrap())
    }

    fn packet(number: u32) -> Vec<u8> {
        let mut bytes = vec![0x45; 1000];
        bytes[4..8].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    #[test]
    fn each_direction_has_its_own_link_and_no_packet_arrives_early() {
        between(
            ["delay=30ms", "delay=90ms,loss=script:1"],
            |left, right, carrier| {
                let start = Instant::now();
                left.send(&packet(1)).unwrap();
                assert_eq!(receive(right), 1);
                assert!(start.elapsed() >= Duration::from_millis(30));
                let start = Instant::now();
                for number in 0..3 {
                    right.send(&packet(number)).unwrap();
                }
                assert_eq!((receive(left), receive(left)), (0, 2));
                assert!(start.elapsed() >= Duration::from_millis(90));
                let [there, back] = carrier.counters();
                assert_eq!(
                    (there.link.offered, there.link.delivered, there.lost()),
                    (1, 1, 0)
                );
                assert_eq!(
                    (back.link.offered, back.link.delivered, back.link.lost_model),
                    (3, 2, 1)
                );
                assert_eq!(back.lateness.count(), 2);
            },
        );
    }

    #[test]
    fn a_slow_link_takes_the_time_of_every_bit() {
        between(["rate=1mbit,queue=5p", "delay=0ms"], |left, right, carrier| {
            let start = Instant::now();
            // A packet takes 8 ms. If a busy machine delays the sender, the queue has more space, never less.
            for number in 0..20 {
                left.send(&packet(number)).unwrap();
            }
            let first: Vec<u32> = (0..5).map(|_| receive(right)).collect();
            assert_eq!(first, [0, 1, 2, 3, 4]);
            assert!(start.elapsed() >= Duration::from_millis(40));
            let [there, _] = carrier.counters();
            assert!((1..=5).contains(&there.link.queue_max_packets));
            assert_eq!(there.link.queue_max_bytes, there.link.queue_max_packets * 1000);
        });
    }

    #[test]
    fn packets_that_an_end_does_not_take_are_counted_as_lost() {
        between(["delay=0ms", "delay=0ms"], |left, right, carrier| {
            // Nothing reads on the right, and the socket there holds few packets.
            let some = 2000;
            left.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
            for number in 0..some {
                left.send(&packet(number)).unwrap();
            }
            right.send(&packet(7)).unwrap();
            assert_eq!(receive(left), 7);
            while carrier.counters()[0].link.delivered < some.into() {
                thread::sleep(Duration::from_millis(1));
            }
            let there = &carrier.counters()[0];
            assert_eq!(there.lost(), there.lost_refused);
            assert!(there.lost_refused > 0);
        });
    }
}
