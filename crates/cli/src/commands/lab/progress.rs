//! The progress of the experiments, on standard error: on a terminal a bar with the remaining time, otherwise some lines.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::note;

/// Lines for each experiment without a terminal, in addition to the line after its first run.
const LINES: usize = 4;

/// Shows the number of finished runs of the present experiment and of all. Any thread can use it.
#[derive(Debug)]
pub(super) struct Progress {
    shown: Shown,
    count: Mutex<Count>,
}

#[derive(Debug)]
enum Shown {
    /// Nothing (`--json`).
    Nothing,
    Lines,
    Bar(ProgressBar),
}

#[derive(Debug)]
struct Count {
    began: Instant,
    /// Runs of all experiments, and of the finished experiments.
    total: usize,
    over: usize,
    /// Runs that were known before they were needed: of the present experiment, and of all experiments so far.
    known_here: Option<usize>,
    known: usize,
    /// The number of the last line that was printed for the present experiment.
    told: usize,
}

impl Progress {
    /// The progress of `total` runs.
    pub(super) fn new(total: usize, silent: bool) -> Self {
        let shown = match (silent, std::io::stderr().is_terminal()) {
            (true, _) => Shown::Nothing,
            (false, false) => Shown::Lines,
            (false, true) => {
                let bar = ProgressBar::new(total as u64);
                let style = ProgressStyle::with_template("{prefix} {bar:30} {pos} of {len} runs{msg}");
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                Shown::Bar(bar)
            }
        };
        let count = Count {
            began: Instant::now(),
            total,
            over: 0,
            known_here: None,
            known: 0,
            told: 0,
        };
        Self {
            shown,
            count: Mutex::new(count),
        }
    }

    /// Starts a new estimate of the time left, because the following runs may take longer than the runs before.
    pub(super) fn begin(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        count.began = Instant::now();
        count.known = count.over;
    }

    /// Shows that `done` of the `total` runs of this experiment are finished. The first call for an experiment gives the runs that
    /// were known before.
    pub(super) fn show(&self, name: &str, done: usize, total: usize) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = count.known_here.is_none();
        if is_first {
            count.known_here = Some(done);
            count.known += done;
        }
        let left = match count.left(done) {
            Some(left) => format!(", about {} left", rough(left)),
            None => String::new(),
        };
        match &self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                bar.set_prefix(name.to_owned());
                bar.set_message(left);
                bar.set_position((count.over + done) as u64);
            }
            Shown::Lines => {
                let line = (done * LINES).checked_div(total).unwrap_or(LINES);
                let first_run = count.known_here.is_some_and(|known| done == known + 1);
                if line > count.told || first_run || (is_first && done > 0) {
                    count.told = line;
                    note(format!("{name}: {done} of {total} runs{left}"));
                }
            }
        }
    }

    /// An experiment with this many runs has finished; clears the terminal's line for its results.
    pub(super) fn end(&self, total: usize) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        count.over += total;
        count.known_here = None;
        count.told = 0;
        if let Shown::Bar(bar) = &self.shown {
            if count.over >= count.total {
                bar.finish_and_clear();
            } else {
                // The next output overwrites the bar's line.
                bar.suspend(|| {});
            }
        }
    }
}

impl Count {
    /// The remaining time, if the remaining runs take as long as the runs so far.
    fn left(&self, done: usize) -> Option<Duration> {
        let done = self.over + done;
        let made = done.checked_sub(self.known).filter(|made| *made > 0)?;
        let left = self.total.checked_sub(done).filter(|left| *left > 0)?;
        Some(self.began.elapsed().mul_f64(left as f64 / made as f64))
    }
}

/// A rounded time.
fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{} s", seconds.max(1)),
        seconds @ 100..6000 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h", (seconds + 1800) / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_rough() {
        let texts = [
            (0, "1 s"),
            (99, "99 s"),
            (100, "2 min"),
            (3600, "60 min"),
            (7000, "2 h"),
        ];
        for (seconds, text) in texts {
            assert_eq!(rough(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn what_was_done_before_took_no_time() {
        let began = Instant::now().checked_sub(Duration::from_secs(10));
        let count = Count {
            began: began.expect("the clock has run for ten seconds"),
            total: 100,
            over: 30,
            known_here: Some(20),
            known: 45,
            told: 0,
        };
        assert_eq!(count.left(15), None, "nothing was made yet");
        let left = count.left(20).expect("5 made, 50 left").as_secs();
        assert!((100..200).contains(&left), "{left}");
        assert_eq!(count.left(70), None, "nothing is left");
    }
}
