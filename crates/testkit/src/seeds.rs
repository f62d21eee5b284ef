//! Runs a test with many seeds, and prints the command that runs a failed seed again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A test whose runs are determined by a number, the seed.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// The environment variable that chooses other seeds: `FROM..TO`, or one number.
    pub variable: &'static str,
    /// The test program of this crate, as after `--test`, and, where it has other tests too, a word of the test's path.
    pub binary: &'static str,
}

impl Seeds {
    /// The seeds to run: those of the environment variable, else `usual`.
    ///
    /// # Panics
    /// If the environment variable has neither a range nor a number.
    #[must_use]
    pub fn chosen(&self, usual: Range<u64>) -> Range<u64> {
        let Ok(text) = std::env::var(self.variable) else {
            return usual;
        };
        let number = |text: &str| {
            let number = text.trim().parse::<u64>();
            number.unwrap_or_else(|_| panic!("{} is FROM..TO or one number", self.variable))
        };
        match text.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => number(&text)..number(&text) + 1,
        }
    }

    /// Runs each seed, on all processors, and returns for each name that `run` reports the number of runs that reported it.
    ///
    /// # Panics
    /// If a run panicked, after all runs. The command that runs the failed seed again was printed when it failed.
    pub fn run(
        &self,
        seeds: Range<u64>,
        run: impl Fn(u64) -> Vec<&'static str> + Sync,
    ) -> BTreeMap<&'static str, u64> {
        let next = AtomicU64::new(seeds.start);
        let coverage = Mutex::new(BTreeMap::<&str, u64>::new());
        let failed = Mutex::new(Vec::new());
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return;
                }
                if let Ok(reached) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
                    let mut coverage = coverage.lock().expect("no panic holds it");
                    reached
                        .into_iter()
                        .for_each(|what| *coverage.entry(what).or_default() += 1);
                } else {
                    let Self { variable, binary } = self;
                    eprintln!("again: {variable}={seed} cargo test -p anabranch-testkit --test {binary}");
                    failed.lock().expect("no panic holds it").push(seed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        let coverage = coverage.into_inner().expect("no panic holds it");
        println!("seeds {seeds:?} reached:");
        for (what, count) in &coverage {
            println!("  {what:<16} {count}");
        }
        let failed = failed.into_inner().expect("no panic holds it");
        assert!(failed.is_empty(), "{} seeds failed: {failed:?}", failed.len());
        coverage
    }
}
