//! The progress of the demonstration, on standard error: on a terminal bars that change, otherwise a new line every 2 s.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::board::{Board, Kind};
use crate::output::note;
use crate::paint::Paint;
use crate::units;

/// Time between two lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Shows the present state of a board.
#[derive(Debug)]
pub(super) enum Progress {
    /// Nothing (`--json`).
    Silent,
    Lines {
        next: Duration,
    },
    Bars {
        file: ProgressBar,
        readings: [ProgressBar; 2],
    },
}

impl Progress {
    pub(super) fn new(silent: bool) -> Self {
        if silent {
            return Self::Silent;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines { next: LINE_INTERVAL };
        }
        let style = |colour: &str, rest: &str| {
            // A bar of 24 characters leaves room for the texts in 80 columns.
            let colour = if Paint::stderr().is_on() { colour } else { "" };
            let template = format!("{{prefix:19}} {{bar:24{colour}}} {rest}");
            ProgressStyle::with_template(&template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("█▌░")
        };
        let all = MultiProgress::new();
        let bar = |kind: Kind, length, style| {
            let bar = all.add(ProgressBar::new(length));
            bar.set_style(style);
            bar.set_prefix(kind.name());
            bar
        };
        // The bars of the readings count tenths of a percent.
        let [deadline, reliable] = Kind::READINGS;
        Self::Bars {
            file: bar(Kind::File, 0, style(".blue", "{bytes} of {total_bytes}, {msg}")),
            readings: [
                bar(deadline, 1000, style(".green", "{msg}")),
                bar(reliable, 1000, style(".red", "{msg}")),
            ],
        }
    }

    pub(super) fn show(&mut self, board: &Board, elapsed: Duration) {
        let shares = Kind::READINGS.map(|kind| board.stream(kind).settled_share());
        match self {
            Self::Silent => {}
            Self::Lines { next } => {
                if elapsed >= *next {
                    *next = elapsed + LINE_INTERVAL;
                    note(format!(
                        "{:3.0} s: file {} of {}; in time: {:.1} %, reliable {:.1} %",
                        elapsed.as_secs_f64(),
                        units::size(board.file_bytes()),
                        units::size(board.file_length()),
                        shares[0],
                        shares[1],
                    ));
                }
            }
            Self::Bars { file, readings } => {
                file.set_length(board.file_length());
                file.set_position(board.file_bytes());
                file.set_message(units::rate(board.file_bytes(), elapsed));
                for (bar, share) in readings.iter().zip(shares) {
                    bar.set_position((share * 10.0) as u64);
                    bar.set_message(format!("{share:5.1} % in time"));
                }
            }
        }
    }

    /// Removes the bars before the table is printed.
    pub(super) fn finish(&self) {
        if let Self::Bars { file, readings } = self {
            readings.iter().for_each(ProgressBar::finish_and_clear);
            file.finish_and_clear();
        }
    }
}
