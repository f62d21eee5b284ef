//! Signed data and acknowledgements over two paths at once, in every format.

use anabranch_netsim::{LinkConfig, LossModel, Probability};
use anabranch_proto::{Config, MultipathMode};
use anabranch_testkit::{Ledger, Pair, Setup, Side};
use anabranch_wire::chunk::{ExperimentalChunkTypes, kind};

use super::fixture::MS;
use super::keys::with_key;

/// All formats of data, acknowledgements and notices.
fn types() -> Vec<u8> {
    let own = ExperimentalChunkTypes::default();
    vec![
        kind::DATA,
        kind::I_DATA,
        kind::SACK,
        kind::NR_SACK,
        kind::FORWARD_TSN,
        kind::I_FORWARD_TSN,
        own.e_data,
        own.e_i_data,
        own.coop_sack,
        own.forward_psn,
    ]
}

fn signed(mode: MultipathMode, interleaving: bool, nr_sack: bool) -> Config {
    let mut config = with_key("secret", &types());
    config.multipath.mode = mode;
    config.interleaving.offer = interleaving;
    config.nr_sack.offer = nr_sack;
    config.path_mtu_limit = 1500;
    config
}

fn carry(pair: &mut Pair) {
    let mut ledgers = [Ledger::new(1), Ledger::new(2)];
    for (side, ledger) in Side::BOTH.into_iter().zip(&mut ledgers) {
        let parcels: Vec<_> = (0..100)
            .map(|number| ledger.parcel(number % 3, 100 + 97 * usize::from(number), number % 5 == 0))
            .collect();
        pair.post(side, parcels);
    }
    let limit = pair.now() + 120_000 * MS;
    let all = pair.run_to(limit, |pair| {
        for (side, ledger) in Side::BOTH.into_iter().zip(&mut ledgers) {
            for message in pair.messages(side.other()) {
                ledger.check(&message).expect("as it was sent");
            }
        }
        ledgers.iter().all(|ledger| ledger.arrived() == ledger.sent())
    });
    assert!(all, "{}", pair.draw());
}

/// §6.2, §6.3: whatever the network loses, both ends verify all that they receive over two paths.
#[test]
fn two_paths_carry_signed_data() {
    for mode in [MultipathMode::Off, MultipathMode::Cmt, MultipathMode::Eca] {
        for (interleaving, nr_sack) in [(false, false), (true, false), (false, true), (true, true)] {
            let link = |delay| {
                LinkConfig::default()
                    .with_rate(10_000_000)
                    .with_delay(delay * MS)
                    .with_loss(LossModel::Bernoulli(Probability::new(0.02)))
            };
            let mut pair = Setup::new(7)
                .config(signed(mode, interleaving, nr_sack))
                .path(link(10))
                .path(link(35))
                .connect();
            carry(&mut pair);
            for side in Side::BOTH {
                let stats = pair.association(side).stats();
                let counters = stats.counters;
                assert_eq!(
                    (counters.packets_unverified, counters.chunks_unauthenticated),
                    (0, 0),
                    "{mode:?}"
                );
                let both =
                    mode == MultipathMode::Off || stats.paths.iter().all(|path| path.data_bytes_sent > 0);
                assert!(counters.packets_verified > 50 && both, "{mode:?}");
                assert_eq!(stats.extensions.eca, mode == MultipathMode::Eca);
                assert_eq!(stats.extensions.interleaving, interleaving);
                assert_eq!(stats.extensions.nr_sack, nr_sack);
            }
        }
    }
}
