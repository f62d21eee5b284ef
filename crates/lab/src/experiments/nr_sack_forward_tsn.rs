//! Rajiullah and Brunstrom, *Optimizing PR-SCTP Performance using NR-SACKs*: small messages with deadlines and greedy TCP cross traffic.
//! With NR-SACK, FORWARD-TSN passes chunks that the receiver reported as non-renegable; the existing FORWARD-TSN does not.

pub(super) mod bursts;
mod claims;
mod figures;
pub(super) mod late_binding;
mod simulation;

use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::stage::Stage;
use crate::trial::Knob;
use simulation::{Rules, Setting, Variant, numbers, scenario};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "bottleneck",
        value: "10 Mbit/s, 40 ms, 73 kB by dummynet's rule, each way",
        from_paper: true,
    },
    Parameter {
        name: "cross traffic",
        value: "4 greedy TCP flows in the same direction: NewReno, windows that grow by acknowledged bytes (RFC 3465), segments of \
                1,460 B, delayed acknowledgements, started between 0 and 3 s",
        from_paper: false,
    },
    Parameter {
        name: "messages",
        value: "Poisson from 15 s, unordered, load in percent of 2 Mbit/s; lifetime 5 s important, 0.1 s normal",
        from_paper: true,
    },
    Parameter {
        name: "hosts",
        value: "links of 1 Gbit/s to the bottleneck",
        from_paper: false,
    },
    Parameter {
        name: "volume",
        value: "14 MB of messages in each run (quick: 60 or 120 s; short: 60 s)",
        from_paper: true,
    },
    Parameter {
        name: "sender",
        value: "no Nagle, Max.Burst 4, RTO.Min 1 s, a send buffer that never fills, expired messages are still sent once",
        from_paper: false,
    },
];

pub(super) const RATE: Knob = Knob {
    name: "rate",
    unit: "Mbit/s",
    about: "rate of the bottleneck",
    usual: "10",
    range: (0.1, 1_000.0),
};
pub(super) const DELAY: Knob = Knob {
    name: "delay",
    unit: "ms",
    about: "one-way delay of the bottleneck",
    usual: "40",
    range: (0.0, 10_000.0),
};
pub(super) const QUEUE: Knob = Knob {
    name: "queue",
    unit: "B",
    about: "queue limit of the bottleneck",
    usual: "73000, or 74752 with rules O and P",
    range: (1_500.0, 100_000_000.0),
};

const KNOBS: &[Knob] = &[
    RATE,
    DELAY,
    QUEUE,
    Knob {
        name: "host_jitter",
        unit: "ms",
        about: "maximum random delay, without reordering, between simulated hosts and the bottleneck",
        usual: "0",
        range: (0.0, 1_000.0),
    },
    Knob {
        name: "important_lifetime",
        unit: "ms",
        about: "lifetime of important messages",
        usual: "5000",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "normal_lifetime",
        unit: "ms",
        about: "lifetime of normal messages",
        usual: "100",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "time in which messages are submitted",
        usual: "until 14 MB; 60 or 120 with --quick, 60 with --short",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric(
        "important_delay",
        "s",
        "submission to delivery of delivered important messages, mean",
    ),
    metric(
        "normal_delay",
        "s",
        "submission to delivery of delivered normal messages, mean",
    ),
    metric(
        "important_queue",
        "s",
        "part of important_delay before the first transmission",
    ),
    metric("important_delivered", "", "share of important messages delivered"),
    metric("normal_delivered", "", "share of normal messages delivered"),
    metric("timeouts", "", "T3-rtx expirations"),
    metric("fast_recoveries", "", "times that fast recovery was entered"),
    metric("forward_tsns", "", "FORWARD-TSN chunks sent"),
    metric("loss", "", "share of the data packets lost"),
    metric("tcp_goodput", "Mbit/s", "mean goodput of a TCP flow"),
    Metric {
        name: "digest",
        unit: "",
        about: "hash of all packets that the sender sent and their times",
        is_shown: false,
    },
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "nr-sack-forward-tsn",
        question: "Small messages with deadlines and TCP cross traffic: what is their delay if FORWARD-TSN stops in front of received \
                   chunks, and if it passes them?",
        source: "Rajiullah, Brunstrom: Optimizing PR-SCTP Performance using NR-SACKs",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 5,
            Extent::Short => 12,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims::claims,
        figures: &figures::figures,
        timelines: &Vec::new,
    }
}

fn cells(extent: Extent) -> Vec<Cell> {
    let settings = match extent {
        Extent::Quick => quick_settings(),
        Extent::Short | Extent::Full => full_settings(),
    };
    let cell = |setting: Setting| {
        let stage = Stage::new(move |trial| scenario(setting, extent, trial), numbers);
        let stage = stage.usual(is_main(setting));
        // The windows of Linux's TCP always grow by acknowledged bytes.
        let is_possible = setting.rules != Rules::L;
        let stage = if is_possible {
            stage
        } else {
            stage.simulated_only()
        };
        Cell::staged(coordinates(setting), stage)
    };
    settings.into_iter().map(cell).collect()
}

fn coordinates(setting: Setting) -> Vec<(&'static str, String)> {
    vec![
        ("rules", setting.rules.name().to_owned()),
        ("variant", setting.variant.name().to_owned()),
        ("bytes", setting.bytes.to_string()),
        (
            "sizes",
            if setting.normal_sizes { "normal" } else { "fixed" }.to_owned(),
        ),
        ("load", setting.load.to_string()),
        ("important", setting.important.to_string()),
    ]
}

const MAIN: Setting = Setting {
    rules: Rules::A,
    variant: Variant::Existing,
    bytes: 72,
    normal_sizes: false,
    load: 30,
    important: 50,
};

/// Few important messages, and half of them: the cells for which the paper states numbers.
fn is_main(setting: Setting) -> bool {
    let places = [1, 50].map(|important| Setting { important, ..MAIN });
    places.into_iter().flat_map(both).any(|main| main == setting)
}

/// The setting with the existing FORWARD-TSN, and with NR-SACK.
fn both(setting: Setting) -> [Setting; 2] {
    [Variant::Existing, Variant::NrSack].map(|variant| Setting { variant, ..setting })
}

/// The setting with several shares of important messages, each with both variants.
fn with_shares(setting: Setting, shares: &[u32]) -> Vec<Setting> {
    shares
        .iter()
        .flat_map(|&important| both(Setting { important, ..setting }))
        .collect()
}

/// The shares of important messages. The paper's text names 1, 50 and 100 %; the axes of its figures are lost to us.
const SHARES: [u32; 7] = [1, 10, 25, 50, 75, 90, 100];

/// Plain SACK with 100 % important messages, where SACK and NR-SACK must agree.
const PLAIN_SACK: Setting = Setting {
    variant: Variant::PlainSack,
    important: 100,
    ..MAIN
};

/// SCTP without partial reliability.
const SCTP: Setting = Setting {
    variant: Variant::Sctp,
    ..MAIN
};

/// FORWARD-TSN that lists abandoned chunks above chunks that the receiver waits for.
const EXTENDED: Setting = Setting {
    variant: Variant::Extended,
    ..MAIN
};

/// The paper's baselines without NR-SACK, at all shares.
fn baselines() -> impl Iterator<Item = Setting> {
    let variants = [PLAIN_SACK, SCTP].into_iter();
    variants.flat_map(|setting| SHARES.map(|important| Setting { important, ..setting }))
}

/// The cells with normally distributed sizes: all sizes at 30 % load (figs. 3b and 7a), and the paper's two sizes at the other loads
/// (figs. 4 and 7b).
fn normal_sizes() -> Vec<Setting> {
    let at = |bytes, load| Setting {
        bytes,
        load,
        normal_sizes: true,
        ..MAIN
    };
    let sizes = [72, 164, 348, 716].map(|bytes| at(bytes, 30));
    let loads = [15, 45, 60, 80].into_iter();
    let loads = loads.flat_map(|load| [72, 716].map(|bytes| at(bytes, load)));
    let settings = sizes.into_iter().chain(loads);
    settings
        .flat_map(|setting| with_shares(setting, &SHARES))
        .collect()
}

/// The cells of the table of ablations: fixed sizes, and normally distributed ones as in the paper's figure 7.
fn with_both_sizes(rules: Rules) -> Vec<Setting> {
    let at = |normal_sizes, shares| {
        let setting = Setting {
            rules,
            normal_sizes,
            ..MAIN
        };
        with_shares(setting, shares)
    };
    [at(false, &[1, 50, 100]), at(true, &[1, 50])].concat()
}

/// The cells that most claims need. The others are judged in the full setting only, so that this setting stays short.
fn quick_settings() -> Vec<Setting> {
    let mut settings = with_shares(MAIN, &[1, 50, 100]);
    settings.extend([PLAIN_SACK, SCTP, EXTENDED]);
    let normal_sizes = Setting {
        normal_sizes: true,
        ..MAIN
    };
    settings.push(Setting {
        important: 1,
        ..normal_sizes
    });
    settings.push(Setting {
        variant: Variant::NrSack,
        ..normal_sizes
    });
    settings.extend(both(Setting { load: 15, ..MAIN }));
    settings.extend(both(Setting { bytes: 716, ..MAIN }));
    settings.extend([1, 100].map(|important| Setting {
        bytes: 716,
        important,
        ..MAIN
    }));
    settings.extend(both(Setting {
        rules: Rules::B,
        ..MAIN
    }));
    settings.extend(both(Setting {
        rules: Rules::C,
        important: 1,
        ..MAIN
    }));
    settings
}

/// The cells of the paper's figures, and of the table of ablations.
fn full_settings() -> Vec<Setting> {
    let mut settings: Vec<Setting> = baselines().collect();
    for bytes in [72, 164, 348, 716] {
        settings.extend(with_shares(Setting { bytes, ..MAIN }, &SHARES));
        for load in [15, 45, 60, 80] {
            settings.extend(with_shares(Setting { bytes, load, ..MAIN }, &[1, 50, 100]));
        }
    }
    settings.extend(normal_sizes());
    for rules in [Rules::A, Rules::C] {
        settings.extend([1, 50, 100].map(|important| Setting {
            rules,
            important,
            ..EXTENDED
        }));
    }
    let crowded = Setting {
        rules: Rules::J,
        bytes: 716,
        load: 80,
        ..MAIN
    };
    settings.extend(with_shares(crowded, &[1, 50, 100]));
    let other_rules = Rules::ALL.into_iter().filter(|rules| *rules != Rules::A);
    settings.extend(other_rules.flat_map(with_both_sizes));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Knobs, Trial};

    /// The full setting has the cells of the quick one and those of the paper's figures, 30 times with 14 MB each.
    #[test]
    fn the_full_setting_has_the_extent_of_the_paper() {
        let full = full_settings();
        let is_in = |setting: &Setting| full.iter().filter(|one| *one == setting).count() == 1;
        let needed: Vec<Setting> = quick_settings()
            .into_iter()
            .chain(normal_sizes())
            .chain(baselines())
            .collect();
        let missing: Vec<_> = needed.iter().filter(|setting| !is_in(setting)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!((experiment().seeds)(Extent::Full), 30);
        let knobs = Knobs::default();
        for setting in needed {
            let (from, to) = scenario(setting, Extent::Full, &Trial::new(1, &knobs)).counts;
            let seconds = to.saturating_duration_since(from).as_secs_f64();
            let bytes = seconds * 2e6 * f64::from(setting.load) / 100.0 / 8.0;
            assert!((bytes - 14e6).abs() < 1.0, "{setting:?}: {bytes} bytes");
        }
    }
}
