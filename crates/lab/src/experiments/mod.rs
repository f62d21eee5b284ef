//! The experiments, and their shared code.

mod beside_tcp;
mod early_discard;
mod eca;
mod everything;
mod in_time;
mod notice_distance;
mod nr_sack_forward_tsn;
pub(crate) mod outcome;
pub(crate) mod pair;
mod priority_deadlines;
mod recovery;
mod retransmission_queue;
mod rivals;
mod stream_drift;
mod stream_priority;
mod tcp;
mod tcp_cubic;
mod time_sensitive;
mod timely;

use anabranch_proto::{Config, LowerLayer};

use crate::experiment::Experiment;

/// All experiments, in the order in which they are listed.
#[must_use]
pub fn all() -> Vec<Experiment> {
    vec![
        eca::experiment(),
        nr_sack_forward_tsn::experiment(),
        retransmission_queue::experiment(),
        stream_priority::experiment(),
        time_sensitive::experiment(),
        retransmission_queue::transfer::experiment(),
        nr_sack_forward_tsn::late_binding::experiment(),
        nr_sack_forward_tsn::bursts::experiment(),
        early_discard::experiment(),
        notice_distance::experiment(),
        stream_drift::experiment(),
        priority_deadlines::experiment(),
        everything::experiment(),
        recovery::experiment(),
        tcp::experiment(),
        tcp_cubic::experiment(),
        in_time::experiment(),
        beside_tcp::experiment(),
        rivals::experiment(),
    ]
}

/// The experiment with this name.
#[must_use]
pub fn named(name: &str) -> Option<Experiment> {
    all().into_iter().find(|experiment| experiment.name == name)
}

/// Settings for packets of 1,500 bytes directly over IP, with buffers of constant size and without HEARTBEATs.
pub(crate) fn plain_config() -> Config {
    let mut config = Config::rfc9260();
    config.lower_layer = LowerLayer::Ip;
    config.path_mtu = 1500;
    config.path_mtu_limit = 1500;
    config.heartbeat.interval = None;
    config.heartbeat.max_burst = 1;
    config.buffers.growth = 1;
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Extent;

    /// Each claim that names a figure names one of its experiment.
    #[test]
    fn claims_name_existing_figures() {
        let mut named = 0;
        for experiment in all() {
            let mut figures: Vec<&str> = (experiment.figures)().iter().map(|figure| figure.name).collect();
            figures.extend((experiment.timelines)().iter().map(|timeline| timeline.name));
            for claim in (experiment.claims)() {
                let Some(figure) = claim.figure else { continue };
                assert!(
                    figures.contains(&figure),
                    "{}: {figure}, {}",
                    experiment.name,
                    claim.says
                );
                named += 1;
            }
        }
        assert!(named > 30, "{named}");
    }

    /// Each figure draws existing metrics, and each of its curves has one cell at each place of its axis.
    #[test]
    fn figures_fit_their_experiments() {
        for experiment in all() {
            let metrics: Vec<&str> = experiment.metrics.iter().map(|metric| metric.name).collect();
            let cells = (experiment.cells)(Extent::Full);
            let coordinates: Vec<_> = cells.iter().map(|cell| cell.coordinates()).collect();
            for figure in (experiment.figures)() {
                assert_eq!(figure.fault(&coordinates, &metrics), None, "{}", experiment.name);
            }
        }
    }
}
