//! How far an experiment is, on standard error: a bar with the time left on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::note;

/// Without a terminal, so many lines from the first run to the last.
const LINES: usize = 4;

/// Shows how many runs are done; from any thread.
#[derive(Debug)]
pub(super) enum Progress {
    /// `--json`: nothing.
    Silent,
    Lines {
        name: &'static str,
        told: AtomicUsize,
    },
    Bar(ProgressBar),
}

impl Progress {
    pub(super) fn new(name: &'static str, silent: bool) -> Self {
        if silent {
            return Self::Silent;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines {
                name,
                told: AtomicUsize::new(0),
            };
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos} of {len} runs, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name);
        Self::Bar(bar)
    }

    pub(super) fn show(&self, done: usize, total: usize) {
        match self {
            Self::Silent => {}
            Self::Lines { name, told } => {
                let line = (done * LINES).checked_div(total).unwrap_or(LINES);
                if line > told.fetch_max(line, Ordering::Relaxed) {
                    note(format!("{name}: {done} of {total} runs"));
                }
            }
            Self::Bar(bar) => {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
            }
        }
    }

    /// Makes room for the results.
    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
