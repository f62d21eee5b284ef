//! Transfers of a file over one path: alone with random losses, or with TCP cross traffic, whose queue causes the losses.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit};
use anabranch_proto::{SendOptions, Timestamp};

use super::super::pair::{PEER, PEER_BESIDE_TCP, Pair};
use super::{MESSAGE, Setting, config, retransmissions};
use crate::experiment::Extent;
use crate::traffic::Source;
use crate::trial::Trial;

/// The rate of the path, or of the bottleneck, in bit/s.
const RATE: u64 = 10_000_000;
/// The greedy TCP flows of the cross traffic.
const FLOWS: u32 = 4;
/// The time between two looks whether the transfer is complete: the precision of its time.
const LOOK: Duration = Duration::from_millis(5);
/// A transfer that takes longer than this counts as taking this time.
const LONGEST: Duration = Duration::from_secs(3600);

/// A place on the axis `paths` that is a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    /// Whether TCP flows share the bottleneck.
    beside_tcp: bool,
    /// The round-trip time in milliseconds.
    rtt: u64,
}

impl Transfer {
    /// The transfer that this place names, if it names one.
    pub(super) fn named(paths: &str) -> Option<Self> {
        let (kind, rtt) = paths.split_once('-')?;
        let beside_tcp = match kind {
            "file" => false,
            "tcp" => true,
            _ => return None,
        };
        Some(Self {
            beside_tcp,
            rtt: rtt.parse().ok()?,
        })
    }
}

/// The bytes of the file.
fn bytes(extent: Extent) -> usize {
    match extent {
        Extent::Quick => 2_000_000,
        Extent::Short | Extent::Full => 8_000_000,
    }
}

/// The numbers of a run. All of them are of the time from the first submission to the acknowledgement of the last chunk.
pub(super) fn numbers(setting: Setting, transfer: Transfer, extent: Extent, trial: &Trial<'_>) -> Vec<f64> {
    let messages = bytes(extent) / MESSAGE;
    let options = SendOptions {
        unordered: true,
        ..SendOptions::default()
    };
    let link = LinkConfig::default()
        .with_rate(RATE)
        .with_delay(Duration::from_millis(transfer.rtt) / 2);
    let config = config(setting, trial);
    let mut pair = if transfer.beside_tcp {
        let source = Source::greedy(PEER_BESIDE_TCP, options, MESSAGE).at_most(messages);
        // The suite's access link: a queue of 100 ms.
        let queue = RATE / 8 / 10 / 1500;
        Pair::beside_tcp(
            trial,
            &config,
            link.with_queue(QueueLimit::Packets(queue)),
            FLOWS,
            source,
        )
    } else {
        let percent: f64 = setting.loss.parse().unwrap_or_default();
        let back = link.with_queue(QueueLimit::Packets(trial.knob_or("queue", 50.0) as u64));
        let there = back.clone().with_loss(LossModel::bernoulli(percent / 100.0));
        let source = Source::greedy(PEER, options, MESSAGE).at_most(messages);
        Pair::over(trial, &config, vec![(there, back)], source)
    };
    while pair.source().submitted().is_empty() && pair.network.now() < Timestamp::ZERO + LONGEST {
        pair.network.run_for(LOOK);
    }
    let begin = pair
        .source()
        .submitted()
        .first()
        .map_or(Timestamp::ZERO, |first| first.at);
    let now = pair.network.now();
    pair.sender_mut().measure_queue(now);
    while !is_complete(&pair, messages) && pair.network.now() < begin + LONGEST {
        pair.network.run_for(LOOK);
    }
    let end = pair.network.now();
    let seconds = end.saturating_duration_since(begin).as_secs_f64();
    let counters = pair.counters();
    let queue = pair.sender_mut().queue(end);
    let of_queue = |number: fn(&crate::queue_meter::QueueMeter) -> f64| queue.map_or(f64::NAN, number);
    vec![
        (messages * MESSAGE * 8) as f64 / 1e6 / seconds,
        of_queue(|queue| queue.utilisation_in_recovery()),
        of_queue(|queue| queue.utilisation()),
        of_queue(|queue| queue.blocked()),
        counters.timeouts as f64,
        retransmissions(&counters),
        seconds,
    ]
}

fn is_complete(pair: &Pair, messages: usize) -> bool {
    let all_submitted = pair.source().submitted().len() == messages;
    all_submitted
        && pair.association().is_none_or(|association| {
            let stats = association.stats();
            stats.queued_bytes + stats.outstanding_bytes == 0
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Knobs;

    fn run(paths: &'static str, loss: &'static str, nr_sack: bool) -> Vec<f64> {
        let setting = Setting {
            paths,
            loss,
            buffer: 64,
            nr_sack,
        };
        let transfer = Transfer::named(paths).unwrap();
        numbers(
            setting,
            transfer,
            Extent::Quick,
            &Trial::new(1, &Knobs::default()),
        )
    }

    #[test]
    fn places_name_transfers() {
        let file = Transfer::named("file-100").unwrap();
        assert_eq!((file.beside_tcp, file.rtt), (false, 100));
        assert!(Transfer::named("tcp-20").unwrap().beside_tcp);
        for paths in ["one", "three", "10+2", "file-", "disk-20"] {
            assert_eq!(Transfer::named(paths), None, "{paths}");
        }
    }

    /// Without loss the window of 64 KiB limits the rate: 64 KiB in 100 ms take at least 3.8 s for 2 MB. Losses take longer, and other
    /// traffic as well.
    #[test]
    fn a_transfer_takes_the_time_of_its_window_and_longer_with_losses() {
        let time = |numbers: &[f64]| numbers[6];
        let [clean, lossy, shared] = [("file-100", "0"), ("file-100", "5"), ("tcp-100", "queue")]
            .map(|(paths, loss)| run(paths, loss, true));
        assert!((3.0..4.5).contains(&time(&clean)), "{clean:?}");
        assert!(time(&lossy) > 2.0 * time(&clean), "{lossy:?}");
        assert!(time(&shared) > 1.2 * time(&clean), "{shared:?}");
        assert_eq!(
            (clean[2], clean[5]),
            (1.0, 0.0),
            "nothing is lost, so nothing waits"
        );
    }
}
