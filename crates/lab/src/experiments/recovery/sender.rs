//! The compared senders: their loss detection and their congestion control algorithm.

use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{Config, LowerLayer, RecoveryRules};

use super::super::plain_config;

/// A combination of loss detection and congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// Missing reports and RFC 9260's congestion control, as in the papers' experiments.
    Rfc9260,
    /// RACK-TLP, otherwise as [`Sender::Rfc9260`]: the ablation that changes only the loss detection.
    Rack,
    /// Missing reports and CUBIC: the second half of that ablation.
    CubicWithoutRack,
    /// RACK-TLP and CUBIC.
    Cubic,
    /// RACK-TLP and BBR.
    Bbr,
    /// RACK-TLP and BBR with `tolerate_random_loss`.
    BbrRandomLoss,
}

impl Sender {
    /// The senders of the tables.
    pub(super) const COMPARED: [Self; 4] = [Self::Rfc9260, Self::Cubic, Self::Bbr, Self::BbrRandomLoss];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rfc9260 => "rfc9260",
            Self::Rack => "rack",
            Self::CubicWithoutRack => "cubic-without-rack",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::BbrRandomLoss => "bbr-random-loss",
        }
    }

    fn detection(self) -> RecoveryRules {
        match self {
            Self::Rfc9260 | Self::CubicWithoutRack => RecoveryRules::RFC9260,
            Self::Rack | Self::Cubic | Self::Bbr | Self::BbrRandomLoss => RecoveryRules::RACK,
        }
    }

    fn control(self) -> CongestionControl {
        match self {
            Self::Rfc9260 | Self::Rack => CongestionControl::Rfc9260,
            Self::CubicWithoutRack | Self::Cubic => CongestionControl::Cubic,
            Self::Bbr => CongestionControl::Bbr(BbrConfig::default()),
            Self::BbrRandomLoss => CongestionControl::Bbr(BbrConfig {
                tolerate_random_loss: true,
            }),
        }
    }

    /// `config` with this sender's recovery rules and congestion control.
    pub(crate) fn of(self, mut config: Config) -> Config {
        config.recovery = self.detection();
        config.congestion_control = self.control();
        config
    }

    /// Settings for packets of 1,500 bytes with SCTP over UDP, and with send and receive buffers of `buffers` bytes.
    pub(super) fn config(self, buffers: u32) -> Config {
        let mut config = self.of(plain_config());
        config.lower_layer = LowerLayer::Udp;
        config.initial_window = match self {
            Self::Rfc9260 | Self::Rack => None,
            Self::CubicWithoutRack | Self::Cubic | Self::Bbr | Self::BbrRandomLoss => Some(10),
        };
        config.buffers.send = buffers as usize;
        config.buffers.receive = buffers;
        config
    }
}
