//! Counts what a peer sends, and measures the resident memory of the process that it attacks.

use std::fmt;

use anabranch_testkit::victim::Victim;

/// The environment variable that names the row of a process.
pub(crate) const ROW: &str = "ANABRANCH_LIMITS_ROW";

/// Packets between two measurements.
const EVERY: u64 = 16;

/// Memory that is taken before the measurement, so that the allocator's first growth and code that runs for the first time do not count.
const WARM: usize = 1 << 20;

pub(crate) struct Attack {
    /// The process that is attacked: this one, unless a scenario names another.
    victim: String,
    planned: u64,
    packets: u64,
    bytes: u64,
    /// The bytes that the peer's packets would take without a limit, if that is not their length.
    would_take: Option<u64>,
    before: u64,
    most: u64,
}

impl Attack {
    pub(crate) fn new(planned: u64) -> Self {
        Self {
            victim: "self".to_owned(),
            planned,
            packets: 0,
            bytes: 0,
            would_take: None,
            before: 0,
            most: 0,
        }
    }

    /// Another process is attacked.
    pub(crate) fn of(&mut self, process: u32) {
        self.victim = process.to_string();
    }

    /// The number of packets that the row states.
    pub(crate) fn planned(&self) -> u64 {
        self.planned
    }

    /// Sets the bytes that the packets would take without a limit, if they are not the packets' length: items that are larger than the
    /// bytes that make them.
    pub(crate) fn would_take(&mut self, bytes: u64) {
        self.would_take = Some(bytes);
    }

    /// The memory from here on counts.
    pub(crate) fn begins(&mut self) {
        if self.victim == "self" {
            drop(std::hint::black_box(vec![1_u8; WARM]));
        }
        self.before = self.resident();
        self.most = self.before;
    }

    /// The peer sent a packet.
    pub(crate) fn sent(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
        if self.packets.is_multiple_of(EVERY) || self.packets == self.planned {
            self.measure();
        }
    }

    pub(crate) fn measure(&mut self) {
        self.most = self.most.max(self.resident());
    }

    /// The peer sends a packet with these chunks, and the endpoint sends what it wants to.
    pub(crate) fn hand(&mut self, victim: &mut Victim, chunks: &[u8]) {
        let packet = victim.packet(chunks);
        let len = packet.len();
        victim.handle(packet);
        victim.drain();
        self.sent(len);
    }

    fn resident(&self) -> u64 {
        anabranch_testkit::resident(&self.victim) as u64
    }

    pub(crate) fn result(&self) -> Measured {
        Measured {
            packets: self.packets,
            would_take: self.would_take.unwrap_or(self.bytes),
            growth: self.most - self.before,
        }
    }
}

/// The result of the process of one row.
pub(crate) struct Measured {
    pub(crate) packets: u64,
    pub(crate) would_take: u64,
    pub(crate) growth: u64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            packets,
            would_take,
            growth,
        } = self;
        write!(
            f,
            "grew by {growth} after {packets} packets that would take {would_take}"
        )
    }
}

impl Measured {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (_, line) = line.split_once("grew by ")?;
        let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
        Some(Self {
            growth: numbers.next()?,
            packets: numbers.next()?,
            would_take: numbers.next()?,
        })
    }
}
