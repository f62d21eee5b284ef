//! Protected packets (draft-ietf-tsvwg-sctp-dtls-chunk) in the swarm. Their random numbers come from a generator of their own, so that all
//! other choices of a seed stay as they are.

use anabranch_netsim::Generator;
use anabranch_proto::Config;
use anabranch_testkit::{Pair, Side, protect};

/// Protects the packets of one story in six, and returns whether it did.
pub(super) fn choose(seed: u64, configs: &mut [Config; 2]) -> bool {
    let is_protected = Generator::of_process(seed, "swarm protection").below(6) == 0;
    if is_protected {
        configs.iter_mut().for_each(protect);
    }
    is_protected
}

/// Whether both hosts protect what they send.
pub(super) fn is_complete(pair: &mut Pair) -> bool {
    Side::BOTH.into_iter().all(|side| {
        let protection = pair.association(side).stats().protection;
        protection.is_some_and(|stats| stats.is_protected)
    })
}
