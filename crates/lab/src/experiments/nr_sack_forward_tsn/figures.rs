//! The paper's figures 3, 4 and 7, and the variants beside plain SCTP: the delay of important messages.

use crate::figure::{Figure, FigureCurve};

/// The cells of a curve with rules A.
#[derive(Clone, Copy)]
struct Cells {
    rules: &'static str,
    variant: &'static str,
    sizes: &'static str,
    load: &'static str,
}

const EXISTING: Cells = Cells {
    rules: "A",
    variant: "existing",
    sizes: "normal",
    load: "30",
};
const NR_SACK: Cells = Cells {
    variant: "nr-sack",
    ..EXISTING
};

impl Cells {
    /// The curve of these cells over the share of important messages, for messages of one length.
    fn by_share(self, name: &'static str, bytes: &'static str) -> FigureCurve {
        self.curve(name, ("bytes", bytes))
    }

    /// The curve of these cells over the length of messages, for one share of important messages.
    fn by_bytes(self, name: &'static str, important: &'static str) -> FigureCurve {
        self.curve(name, ("important", important))
    }

    fn curve(self, name: &'static str, of: (&'static str, &'static str)) -> FigureCurve {
        let of_cells = [
            ("rules", self.rules),
            ("variant", self.variant),
            ("sizes", self.sizes),
            ("load", self.load),
        ];
        FigureCurve {
            name,
            at: of_cells.into_iter().chain([of]).collect(),
            paper: &[],
        }
    }

    const fn load(self, load: &'static str) -> Self {
        Self { load, ..self }
    }

    const fn fixed(self) -> Self {
        Self {
            sizes: "fixed",
            ..self
        }
    }

    const fn rules(self, rules: &'static str) -> Self {
        Self { rules, ..self }
    }

    const fn variant(self, variant: &'static str) -> Self {
        Self { variant, ..self }
    }
}

/// A figure over the share of important messages. The vertical axis is linear, as in the paper: a logarithmic one would flatten the bump.
fn figure(name: &'static str, title: &'static str, paper: &'static str, curves: Vec<FigureCurve>) -> Figure {
    Figure {
        name,
        title,
        paper,
        x: ("important", "important messages [%]"),
        y: ("important_delay", "delay of important messages [s]"),
        logarithmic: false,
        curves,
    }
}

/// The existing variant with each length of messages.
fn of_sizes(cells: Cells) -> Vec<FigureCurve> {
    [
        ("72 B", "72"),
        ("164 B", "164"),
        ("348 B", "348"),
        ("716 B", "716"),
    ]
    .map(|(name, bytes)| cells.by_share(name, bytes))
    .into()
}

/// The existing variant at each load.
fn of_loads(bytes: &'static str) -> Vec<FigureCurve> {
    let loads = [
        ("15 % load", "15"),
        ("30 % load", "30"),
        ("45 % load", "45"),
        ("60 % load", "60"),
        ("80 % load", "80"),
    ];
    loads
        .map(|(name, load)| EXISTING.load(load).by_share(name, bytes))
        .into()
}

pub(super) fn figures() -> Vec<Figure> {
    let mut figures = vec![
        figure(
            "share",
            "72 bytes, 30 % load, two interpretations of RFC 9260",
            "the existing FORWARD-TSN has a bump, highest at half important messages; with NR-SACKs the delay rises evenly, over 75 % lower \
             at 1 % important and over 65 % lower at 50 %; at 100 % the two coincide",
            vec![
                EXISTING.fixed().by_share("existing, rules A", "72"),
                NR_SACK.fixed().by_share("nr-sack, rules A", "72"),
                EXISTING.fixed().rules("B").by_share("existing, rules B", "72"),
                NR_SACK.fixed().rules("B").by_share("nr-sack, rules B", "72"),
            ],
        ),
        figure(
            "baseline",
            "72 bytes, 30 % load: the variants and their baselines",
            "100 % important messages are standard SCTP; the existing variant has plain SACK",
            vec![
                EXISTING.fixed().by_share("existing", "72"),
                NR_SACK.fixed().by_share("nr-sack", "72"),
                EXISTING
                    .fixed()
                    .variant("plain-sack")
                    .by_share("plain-sack", "72"),
                EXISTING.fixed().variant("sctp").by_share("sctp", "72"),
            ],
        ),
    ];
    figures.extend(of_the_existing_variant());
    figures.extend(of_both_variants());
    figures
}

fn of_the_existing_variant() -> Vec<Figure> {
    vec![
        figure(
            "fig-3a",
            "Fig. 3a: existing FORWARD-TSN, messages of fixed size, 30 % load",
            "highest at 72 bytes and half important messages; lower with larger messages and to both sides",
            of_sizes(EXISTING.fixed()),
        ),
        figure(
            "fig-3b",
            "Fig. 3b: existing FORWARD-TSN, normally distributed sizes, 30 % load",
            "no significant change from fixed sizes",
            of_sizes(EXISTING),
        ),
        figure(
            "fig-4a",
            "Fig. 4a: existing FORWARD-TSN, 72 bytes on average, by load",
            "considerably higher delays at half important messages, at every load but 15 %",
            of_loads("72"),
        ),
        figure(
            "fig-4b",
            "Fig. 4b: existing FORWARD-TSN, 716 bytes on average, by load",
            "rising with the share of important messages, very rapidly at 80 % load",
            of_loads("716"),
        ),
    ]
}

fn of_both_variants() -> Vec<Figure> {
    vec![
        Figure {
            x: ("bytes", "mean length of messages [B]"),
            ..figure(
                "fig-7a",
                "Fig. 7a: both variants by length, normal sizes, 30 % load",
                "the gain begins below 348 bytes; at 72 bytes it is over 75 % at 1 % important and over 65 % at 50 %",
                vec![
                    EXISTING.by_bytes("existing, 1 % important", "1"),
                    NR_SACK.by_bytes("nr-sack, 1 %", "1"),
                    EXISTING.by_bytes("existing, 50 %", "50"),
                    NR_SACK.by_bytes("nr-sack, 50 %", "50"),
                ],
            )
        },
        figure(
            "fig-7b-low",
            "Fig. 7b, loads to 45 %: both variants, 72 bytes on average",
            "a significant gain at every load; with NR-SACK the delay grows with the share; at 100 % both coincide",
            vec![
                EXISTING.load("15").by_share("existing, 15 % load", "72"),
                NR_SACK.load("15").by_share("nr-sack, 15 %", "72"),
                EXISTING.load("30").by_share("existing, 30 %", "72"),
                NR_SACK.load("30").by_share("nr-sack, 30 %", "72"),
                EXISTING.load("45").by_share("existing, 45 %", "72"),
                NR_SACK.load("45").by_share("nr-sack, 45 %", "72"),
            ],
        ),
        figure(
            "fig-7b-high",
            "Fig. 7b, loads from 60 %: both variants, 72 bytes on average",
            "a significant gain at every load; with NR-SACK the delay grows with the share; at 100 % both coincide",
            vec![
                EXISTING.load("60").by_share("existing, 60 % load", "72"),
                NR_SACK.load("60").by_share("nr-sack, 60 %", "72"),
                EXISTING.load("80").by_share("existing, 80 %", "72"),
                NR_SACK.load("80").by_share("nr-sack, 80 %", "72"),
            ],
        ),
    ]
}
