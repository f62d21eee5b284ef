//! A connection's settings, the same at both ends.

use core::time::Duration;

/// How a sender repairs losses that duplicate acknowledgements told it of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Recovery {
    /// One segment for each time that three duplicates come (RFC 5681 §3.2).
    Reno,
    /// One segment a round trip until all that was outstanding is acknowledged (RFC 6582).
    #[default]
    NewReno,
    /// All that the receiver's SACK blocks show to be lost (RFC 6675).
    Sack,
}

/// How the congestion window grows in congestion avoidance, and by how much a loss reduces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TcpCongestionControl {
    /// A segment a round trip, and half (RFC 5681).
    #[default]
    Reno,
    /// By a cubic function of the time since the last loss, and three tenths (RFC 9438).
    Cubic,
}

/// The settings of a connection. The default is what the RFCs say where they say it, with NewReno.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Bytes of data in a full segment; 1,460 by default, which fills an Ethernet packet without timestamps.
    pub mss: u16,
    /// How losses are repaired.
    pub recovery: Recovery,
    /// How the congestion window grows and falls.
    pub congestion_control: TcpCongestionControl,
    /// Whether CUBIC leaves more to other flows when its window shrinks from loss to loss (RFC 9438 §4.7); on by default.
    pub fast_convergence: bool,
    /// Whether CUBIC's Reno-friendly window grows by a whole segment a round trip once it is as large as the window was before the loss
    /// (RFC 9438 §4.3, a SHOULD); on by default. Linux 6.18 grows by 9/17 of a segment on.
    pub reno_increase: bool,
    /// Whether the first slow start ends when the round trip grows (HyStart++, RFC 9406); off by default.
    pub hystart: bool,
    /// Segments that may be sent before the first acknowledgement; 3 by default (RFC 5681 §3.1), 10 by RFC 6928.
    pub initial_window: u16,
    /// Bytes at which slow start ends the first time; by default only a loss ends it.
    pub initial_ssthresh: u64,
    /// Bytes that the receiver has room for: what may be outstanding at most; 1 MiB by default.
    pub receive_window: u32,
    /// The shortest retransmission timeout: 1 s by default (RFC 6298 §2.4), 200 ms in Linux.
    pub min_rto: Duration,
    /// The longest; 60 s by default.
    pub max_rto: Duration,
    /// How long an acknowledgement may wait for a second segment: 200 ms by default. `None` acknowledges every segment
    /// at once.
    pub delayed_ack: Option<Duration>,
    /// Whether segments carry timestamps (RFC 7323), 12 bytes that `mss` does not count; off by default.
    pub timestamps: bool,
    /// Whether the window grows by what was acknowledged (RFC 3465, L = 2) rather than by acknowledgements, as in ns-2;
    /// off by default. With delayed acknowledgements it grows faster so.
    pub byte_counting: bool,
    /// Whether the first two duplicate acknowledgements let a new segment out each (RFC 3042); on by default.
    pub limited_transmit: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            recovery: Recovery::default(),
            congestion_control: TcpCongestionControl::default(),
            fast_convergence: true,
            reno_increase: true,
            hystart: false,
            initial_window: 3,
            initial_ssthresh: u64::MAX,
            receive_window: 1 << 20,
            min_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(60),
            delayed_ack: Some(Duration::from_millis(200)),
            timestamps: false,
            byte_counting: false,
            limited_transmit: true,
        }
    }
}

impl TcpConfig {
    /// What Linux does by default with its `reno` (for its `cubic`, see [`Self::with_cubic`]): SACK, a window that grows by bytes from 10 segments, timestamps, timeouts of 200 ms or
    /// more, acknowledgements that wait for 40 ms.
    #[must_use]
    pub fn linux() -> Self {
        Self {
            recovery: Recovery::Sack,
            reno_increase: false,
            initial_window: 10,
            min_rto: Duration::from_millis(200),
            delayed_ack: Some(Duration::from_millis(40)),
            byte_counting: true,
            ..Self::default()
        }
        .with_timestamps()
    }

    /// Sets how losses are repaired.
    #[must_use]
    pub fn with_recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// CUBIC with HyStart++, in place of Reno.
    #[must_use]
    pub fn with_cubic(mut self) -> Self {
        self.congestion_control = TcpCongestionControl::Cubic;
        self.hystart = true;
        self
    }

    /// Puts timestamps into every segment, and takes their 12 bytes from the data.
    #[must_use]
    pub fn with_timestamps(mut self) -> Self {
        if !self.timestamps {
            self.timestamps = true;
            self.mss = self.mss.saturating_sub(12);
        }
        self
    }

    /// Bytes of data in a full segment.
    pub(super) fn segment_len(&self) -> u64 {
        u64::from(self.mss.max(1))
    }

    /// The shift under which the receive window fits into its field (RFC 7323 §2.2: at most 14).
    pub(super) fn window_shift(&self) -> u8 {
        let bits = 32 - self.receive_window.leading_zeros();
        bits.saturating_sub(16).min(14) as u8
    }
}
