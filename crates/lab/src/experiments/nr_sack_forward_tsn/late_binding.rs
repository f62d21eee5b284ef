//! NR-SACK with late binding: messages that expire before their first transmission are not sent. Rajiullah and Brunstrom used FreeBSD,
//! which sent such messages; they write that their optimisation “will not be affected” by late binding.

use super::simulation::{Rules, Setting, Variant, numbers, scenario};
use super::{KNOBS, MAIN, METRICS, PARAMETERS, both};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent};
use crate::figure::{Figure, FigureCurve};
use crate::results::Results;
use crate::stage::Stage;

/// The experiment.
pub(in crate::experiments) fn experiment() -> Experiment {
    Experiment {
        name: "nr-sack-late-binding",
        question: "If expired messages are not even sent, how much does NR-SACK still gain?",
        source: "Rajiullah, Brunstrom: Optimizing PR-SCTP Performance using NR-SACKs, discussion",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 5,
            Extent::Short => 6,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims,
        figures: &figures,
        timelines: &Vec::new,
    }
}

fn cells(extent: Extent) -> Vec<Cell> {
    let shares: &[u32] = match extent {
        Extent::Quick => &[1, 50],
        Extent::Short | Extent::Full => &[1, 10, 25, 50, 75, 90, 100],
    };
    let cell = |setting: Setting| {
        let late = setting.rules == Rules::H;
        let coordinates = vec![
            ("binding", if late { "late" } else { "early" }.to_owned()),
            ("variant", setting.variant.name().to_owned()),
            ("important", setting.important.to_string()),
        ];
        let stage = Stage::new(move |trial| scenario(setting, extent, trial), numbers);
        Cell::staged(coordinates, stage)
    };
    let rules = [Rules::A, Rules::H].into_iter();
    let settings = rules.flat_map(|rules| {
        let important = shares.iter();
        important.flat_map(move |&important| {
            both(Setting {
                rules,
                important,
                ..MAIN
            })
        })
    });
    settings.map(cell).collect()
}

type At = [(&'static str, &'static str); 3];

fn at(binding: &'static str, variant: Variant, important: &'static str) -> At {
    [
        ("binding", binding),
        ("variant", variant.name()),
        ("important", important),
    ]
}

fn ratio(metric: &'static str, of: At, to: At) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| results.ratio(&of, &to, metric)
}

fn claims() -> Vec<Claim> {
    let delay = |of, to| ratio("important_delay", of, to);
    let (early, late) = (
        |variant| at("early", variant, "50"),
        |variant| at("late", variant, "50"),
    );
    vec![
        Claim::of_ratio(
            "half important: late binding alone leaves at most 40 % of the existing variant's delay",
            "“will improve PR-SCTP performance in general”",
            Bound::AtMost(0.4),
            delay(late(Variant::Existing), early(Variant::Existing)),
        )
        .must(),
        Claim::of_ratio(
            "half important: NR-SACK reduces the delay by over 65 % with late binding too",
            "“our NR-SACKs based optimization will not be affected”",
            Bound::AtMost(0.35),
            delay(late(Variant::NrSack), late(Variant::Existing)),
        )
        .fails_because(
            "NR-SACK reduces the delay of a queue of expired messages, and with late binding this queue does not exist: the cells \
             with binding “late” have as little delay as NR-SACK achieves with binding “early”",
        ),
        Claim::of_ratio(
            "half important: with late binding NR-SACK still reduces the delay by at least 5 %",
            "“our NR-SACKs based optimization will not be affected”",
            Bound::AtMost(0.95),
            delay(late(Variant::NrSack), late(Variant::Existing)),
        ),
        Claim::of_ratio(
            "half important: NR-SACK with late binding has at most 0.9 times the delay of NR-SACK alone",
            "“our NR-SACKs based optimization will not be affected”",
            Bound::AtMost(0.9),
            delay(late(Variant::NrSack), early(Variant::NrSack)),
        ),
        Claim::of_ratio(
            "1 % important: late binding alone leaves at most 80 % of the existing variant's delay",
            "“will improve PR-SCTP performance in general”",
            Bound::AtMost(0.8),
            delay(at("late", Variant::Existing, "1"), at("early", Variant::Existing, "1")),
        ),
        Claim::of_ratio(
            "half important: late binding reduces the number of delivered normal messages by at most a fifth",
            "not stated",
            Bound::AtLeast(0.8),
            ratio("normal_delivered", late(Variant::NrSack), early(Variant::NrSack)),
        ),
    ]
}

fn figures() -> Vec<Figure> {
    let curve = |name, binding, variant: Variant| FigureCurve {
        name,
        at: vec![("binding", binding), ("variant", variant.name())],
        paper: &[],
    };
    vec![Figure {
        name: "delay",
        title: "Late binding and NR-SACK, rules A, 72 bytes",
        paper: "late binding discussed, not measured; NR-SACK “will not be affected”.",
        x: ("important", "important messages [%]"),
        y: ("important_delay", "delay of important messages [s]"),
        logarithmic: false,
        curves: vec![
            curve("existing", "early", Variant::Existing),
            curve("nr-sack", "early", Variant::NrSack),
            curve("late binding", "late", Variant::Existing),
            curve("nr-sack and late binding", "late", Variant::NrSack),
        ],
    }]
}
