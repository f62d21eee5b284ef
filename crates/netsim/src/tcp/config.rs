//! A connection's settings, the same at both ends.

use core::time::Duration;

/// How a sender recovers from losses that duplicate acknowledgements show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Recovery {
    /// Retransmits one segment after each three duplicate acknowledgements (RFC 5681 §3.2).
    Reno,
    /// Retransmits one segment per round-trip time until all data outstanding at the loss is acknowledged (RFC 6582).
    #[default]
    NewReno,
    /// Retransmits all segments that SACK blocks show to be lost (RFC 6675).
    Sack,
}

/// How the congestion window grows in congestion avoidance, and how far a loss reduces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TcpCongestionControl {
    /// Grows by one segment per round-trip time; a loss halves it (RFC 5681).
    #[default]
    Reno,
    /// Grows by a cubic function of the time since the last loss; a loss reduces it by three tenths (RFC 9438).
    Cubic,
}

/// The settings of a connection. The defaults are those of the RFCs where these give one, with NewReno.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Bytes of data in a full segment; 1,460 by default, which fills an Ethernet packet without timestamps.
    pub mss: u16,
    /// Loss recovery; NewReno by default.
    pub recovery: Recovery,
    /// Congestion control; Reno by default.
    pub congestion_control: TcpCongestionControl,
    /// Whether CUBIC releases more bandwidth to other flows if the window at the last loss was smaller than at the loss before (RFC 9438
    /// §4.7); on by default.
    pub fast_convergence: bool,
    /// Whether CUBIC's Reno-friendly window grows by a whole segment per round-trip time once it has reached the window before the loss
    /// (RFC 9438 §4.3, a SHOULD); on by default. Linux 6.18 continues to grow by 9/17 of a segment.
    pub reno_increase: bool,
    /// Whether the first slow start ends when the round-trip time grows (HyStart++, RFC 9406); off by default.
    pub hystart: bool,
    /// Segments that may be sent before the first acknowledgement; 3 by default (RFC 5681 §3.1), 10 in RFC 6928.
    pub initial_window: u16,
    /// Slow start threshold at the beginning, in bytes; by default only a loss ends the first slow start.
    pub initial_ssthresh: u64,
    /// Receive window in bytes, which limits the outstanding data; 1 MiB by default.
    pub receive_window: u32,
    /// Minimum of the retransmission timeout: 1 s by default (RFC 6298 §2.4), 200 ms in Linux.
    pub min_rto: Duration,
    /// Maximum of the retransmission timeout; 60 s by default.
    pub max_rto: Duration,
    /// How long an acknowledgement may be delayed while the receiver waits for a second segment: 200 ms by default. With `None` the
    /// receiver acknowledges every segment at once.
    pub delayed_ack: Option<Duration>,
    /// Whether segments carry timestamps (RFC 7323), 12 bytes in addition to `mss`; off by default.
    pub timestamps: bool,
    /// Whether the congestion window grows by acknowledged bytes (RFC 3465, L = 2) instead of the number of acknowledgements (as in ns-2);
    /// off by default. With delayed acknowledgements, byte counting makes it grow faster.
    pub byte_counting: bool,
    /// Whether each of the first two duplicate acknowledgements allows one new segment (RFC 3042); on by default.
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
    /// The defaults of Linux with its `reno` (for its `cubic`, see [`Self::with_cubic`]): SACK, byte counting, an initial window of 10
    /// segments, timestamps, a minimum retransmission timeout of 200 ms, and acknowledgements delayed by 40 ms.
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

    /// Sets the loss recovery.
    #[must_use]
    pub fn with_recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Uses CUBIC with HyStart++ instead of Reno.
    #[must_use]
    pub fn with_cubic(mut self) -> Self {
        self.congestion_control = TcpCongestionControl::Cubic;
        self.hystart = true;
        self
    }

    /// Adds timestamps to every segment, and reduces its data by their 12 bytes.
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

    /// The shift with which the receive window fits its header field (RFC 7323 §2.2: at most 14).
    pub(super) fn window_shift(&self) -> u8 {
        let bits = 32 - self.receive_window.leading_zeros();
        bits.saturating_sub(16).min(14) as u8
    }
}
