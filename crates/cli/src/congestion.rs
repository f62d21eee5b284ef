//! Congestion control and loss recovery on the command line (`docs/CONGESTION-CONTROLLERS.md`).

use anabranch::controller::{BbrConfig, CongestionControl};
use anabranch::{Config, RecoveryRules};
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::path_choice::Coupling;

const HEADING: &str = "Congestion control and loss recovery";

/// The congestion control algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Algorithm {
    /// RFC 9260 §7.2
    Rfc9260,
    /// RFC 9438
    Cubic,
    /// BBR version 3
    Bbr,
    /// BBR version 3 that tolerates random loss
    BbrRandomLoss,
}

impl Algorithm {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl From<Algorithm> for CongestionControl {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Rfc9260 => Self::Rfc9260,
            Algorithm::Cubic => Self::Cubic,
            Algorithm::Bbr => Self::Bbr(BbrConfig::default()),
            Algorithm::BbrRandomLoss => Self::Bbr(BbrConfig {
                tolerate_random_loss: true,
            }),
        }
    }
}

/// Reads the value of `--congestion`. In earlier versions the flag took the values of `--coupling`.
fn algorithm(text: &str) -> Result<Algorithm, String> {
    let names = || {
        let names: Vec<String> = Algorithm::value_variants().iter().map(|one| one.name()).collect();
        names.join(", ")
    };
    if Coupling::from_str(text, false).is_ok() {
        return Err(format!(
            "{text} is a value of --coupling (coupled congestion control of several paths): use --coupling {text}; \
             --congestion takes an algorithm: {}",
            names()
        ));
    }
    Algorithm::from_str(text, false)
        .map_err(|_| format!("there is no such algorithm; give one of {}", names()))
}

/// The loss recovery algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Recovery {
    /// RFC 8985
    Rack,
    /// RFC 9260 §7.2.4
    Rfc9260,
}

impl From<Recovery> for RecoveryRules {
    fn from(recovery: Recovery) -> Self {
        match recovery {
            Recovery::Rack => Self::RACK,
            Recovery::Rfc9260 => Self::RFC9260,
        }
    }
}

/// The congestion control and loss recovery of this side.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CongestionArgs {
    /// Preset for interactive traffic: --congestion bbr-random-loss --scheduler priority
    /// --low-priority-delay 20ms. Options that are also given override the preset
    #[arg(long, help_heading = HEADING)]
    low_latency: bool,
    /// Congestion control algorithm of this sender: rfc9260, cubic (RFC 9438), bbr (BBRv3, keeps queues short) or
    /// bbr-random-loss (BBRv3 for links with random loss, such as radio) [default: cubic; with --coupling lia or
    /// resource-pooling: rfc9260]
    #[arg(long, help_heading = HEADING, value_name = "NAME", value_parser = algorithm)]
    congestion: Option<Algorithm>,
    /// Loss detection of this sender: rack (RACK-TLP, RFC 8985: reordering window and tail loss probe) or rfc9260 (three
    /// missing reports, and T3-rtx) [default: rack]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    recovery: Option<Recovery>,
    /// Offer Explicit Congestion Notification (ECN): routers mark packets instead of dropping them. Both peers must give
    /// this flag. The sender stops using ECN on a path that drops ECN-capable packets
    #[arg(long, help_heading = HEADING)]
    ecn: bool,
}

impl CongestionArgs {
    /// The settings before the other options are applied.
    pub(crate) fn config(&self) -> Config {
        if self.low_latency {
            Config::low_latency()
        } else {
            Config::default()
        }
    }

    /// Applies the options to settings in which the multipath mode is already set.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<(), Failure> {
        if let Some(algorithm) = self.congestion {
            config.congestion_control = algorithm.into();
        }
        if let Some(recovery) = self.recovery {
            config.recovery = recovery.into();
        }
        config.ecn |= self.ecn;
        config.validate().map_err(|error| match self.congestion {
            chosen if error.setting == "multipath.congestion" => Failure::new(format!(
                "--coupling lia and --coupling resource-pooling need --congestion rfc9260; with --{} use --coupling grouped, the default",
                chosen.map_or("low-latency".to_owned(), |algorithm| format!("congestion {}", algorithm.name()))
            )),
            _ => Failure::new(error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        congestion: CongestionArgs,
    }

    fn config(args: &[&str]) -> Config {
        let line = Line::parse_from([&["anabranch"], args].concat());
        let mut config = line.congestion.config();
        assert!(line.congestion.apply(&mut config).is_ok(), "{args:?}");
        config
    }

    #[test]
    fn each_algorithm_reaches_the_settings() {
        let tolerant = BbrConfig {
            tolerate_random_loss: true,
        };
        for (name, control) in [
            ("rfc9260", CongestionControl::Rfc9260),
            ("cubic", CongestionControl::Cubic),
            ("bbr", CongestionControl::Bbr(BbrConfig::default())),
            ("bbr-random-loss", CongestionControl::Bbr(tolerant)),
        ] {
            let mut expected = Config::default();
            expected.congestion_control = control;
            assert_eq!(config(&["--congestion", name]), expected);
        }
    }

    #[test]
    fn other_options_override_low_latency() {
        assert_eq!(config(&["--low-latency"]), Config::low_latency());
        let mut expected = Config::low_latency();
        expected.congestion_control = CongestionControl::Cubic;
        assert_eq!(config(&["--low-latency", "--congestion", "cubic"]), expected);
    }

    #[test]
    fn the_rules_of_recovery_reach_the_settings() {
        for (name, recovery) in [("rack", RecoveryRules::RACK), ("rfc9260", RecoveryRules::RFC9260)] {
            let mut expected = Config::default();
            expected.recovery = recovery;
            assert_eq!(config(&["--recovery", name]), expected);
        }
    }

    #[test]
    fn ecn_is_off_unless_asked_for() {
        assert!(!config(&[]).ecn);
        assert!(config(&["--ecn"]).ecn);
    }

    /// The help texts state these defaults.
    #[test]
    fn the_defaults_are_those_of_the_core() {
        assert_eq!(config(&[]), Config::default());
        // These options leave the order of the streams, the failover and the time of a shutdown as they are.
        let mut expected = Config::rfc9260();
        expected.retransmissions = Config::default().retransmissions;
        expected.shutdown_guard = Config::default().shutdown_guard;
        expected.scheduler = Config::default().scheduler;
        expected.buffers.stream_shares = Config::default().buffers.stream_shares;
        expected.interleaving = Config::default().interleaving;
        assert_eq!(
            config(&["--congestion", "rfc9260", "--recovery", "rfc9260"]),
            expected
        );
    }

    #[test]
    fn errors_name_the_flag_to_use() {
        let error = |args: [&str; 3]| Line::try_parse_from(args).unwrap_err().to_string();
        for coupling in ["lia", "resource-pooling", "uncoupled"] {
            let said = error(["", "--congestion", coupling]);
            assert!(
                said.contains(&format!("use --coupling {coupling}"))
                    && said.contains("rfc9260, cubic, bbr, bbr-random-loss"),
                "{said}"
            );
        }
        let said = error(["", "--congestion", "reno"]);
        assert!(
            said.contains("--congestion") && said.contains("rfc9260, cubic, bbr, bbr-random-loss"),
            "{said}"
        );
        let said = error(["", "--recovery", "sack"]);
        assert!(said.contains("--recovery"), "{said}");
    }
}
