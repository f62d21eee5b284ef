//! Owns BBR's states and their gains (draft-ietf-ccwg-bbr §2.7, §5.6.1).

/// `BBR.ProbeRTTCwndGain` (§5.3.4).
pub(super) const PROBE_RTT_CWND_GAIN: f64 = 0.5;

/// §2.7, `BBR.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// §5.6.1, the table's pacing gain.
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            // 4 · ln 2
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    /// §5.6.1, the table's cwnd gain.
    pub(super) fn cwnd_gain(self) -> f64 {
        match self {
            Self::ProbeRtt => PROBE_RTT_CWND_GAIN,
            Self::Up => 2.25,
            _ => 2.0,
        }
    }

    /// `IsInAProbeBWState`.
    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}
