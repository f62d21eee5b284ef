//! The processor time that the host of a virtual machine takes. Such time delays packets, and the bed cannot prevent it.

use std::fs;

/// The kernel's counters since the machine started, in ticks of all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processors {
    all: u64,
    stolen: u64,
}

impl Processors {
    /// Zero if the kernel does not have the counters.
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat");
        stat.ok().and_then(|stat| Self::read(&stat)).unwrap_or_default()
    }

    /// `cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL …`: the later columns are included in USER and NICE.
    fn read(stat: &str) -> Option<Self> {
        let ticks = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_ascii_whitespace();
        let ticks: Option<Vec<u64>> = ticks.take(8).map(|ticks| ticks.parse().ok()).collect();
        let ticks = ticks.filter(|ticks| ticks.len() == 8)?;
        Some(Self {
            all: ticks.iter().sum(),
            stolen: ticks[7],
        })
    }

    /// The share of the time since `earlier` that was taken, from 0 to 1.
    pub(crate) fn stolen_since(self, earlier: Self) -> f64 {
        let (all, stolen) = (
            self.all.saturating_sub(earlier.all),
            self.stolen.saturating_sub(earlier.stolen),
        );
        if all == 0 { 0.0 } else { stolen as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_number_is_stolen_time() {
        let earlier = Processors::read("cpu  10 0 10 70 0 0 5 5 9 9\ncpu0 1 2 3").unwrap();
        assert_eq!((earlier.all, earlier.stolen), (100, 5));
        let later = Processors::read("cpu  20 0 10 140 0 0 5 25 9 9").unwrap();
        assert!((later.stolen_since(earlier) - 0.2).abs() < 1e-9);
        assert_eq!(earlier.stolen_since(earlier), 0.0);
        assert_eq!(
            Processors::read("cpu 1 2 3"),
            None,
            "an old kernel without this counter"
        );
        assert_eq!(Processors::read("intr 1"), None);
    }
}
