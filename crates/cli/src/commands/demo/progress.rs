//! The progress of the demonstration, on standard error: on a terminal a bar and two lines that change, otherwise a new line
//! every 3 s.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::board::{Board, Kind, Stream};
use crate::output::note;
use crate::units;

/// Time between two lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(3);

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
        others: [ProgressBar; 2],
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
        let style = |template: &str| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        let all = MultiProgress::new();
        let file = all.add(ProgressBar::new(0));
        file.set_style(style("file       {bar:30} {bytes} of {total_bytes}, {msg}"));
        let others = [Kind::Chat, Kind::Telemetry].map(|kind| {
            let line = all.add(ProgressBar::new_spinner());
            line.set_style(style("{prefix:10} {msg}"));
            line.set_prefix(kind.name());
            line
        });
        Self::Bars { file, others }
    }

    pub(super) fn show(&mut self, board: &Board, elapsed: Duration) {
        match self {
            Self::Silent => {}
            Self::Lines { next } => {
                if elapsed >= *next {
                    *next = elapsed + LINE_INTERVAL;
                    let (chat, telemetry) = (board.stream(Kind::Chat), board.stream(Kind::Telemetry));
                    note(format!(
                        "{:3.0} s: file {} of {}; chat {}; telemetry {}",
                        elapsed.as_secs_f64(),
                        units::size(board.file_bytes()),
                        units::size(board.file_length()),
                        line(chat),
                        line(telemetry)
                    ));
                }
            }
            Self::Bars { file, others } => {
                file.set_length(board.file_length());
                file.set_position(board.file_bytes());
                file.set_message(units::rate(board.file_bytes(), elapsed));
                for (bar, kind) in others.iter().zip([Kind::Chat, Kind::Telemetry]) {
                    bar.set_message(line(board.stream(kind)));
                }
            }
        }
    }

    /// Removes the bars before the table is printed.
    pub(super) fn finish(&self) {
        if let Self::Bars { file, others } = self {
            others.iter().for_each(ProgressBar::finish_and_clear);
            file.finish_and_clear();
        }
    }
}

fn line(stream: &Stream) -> String {
    format!(
        "{} of {} delivered, the last after {}",
        stream.delivered,
        stream.sent,
        units::duration(stream.latest)
    )
}
