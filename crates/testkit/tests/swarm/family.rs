//! Dynamic addresses (RFC 5061) and authenticated chunks (RFC 4895) in the swarm. Their random numbers come from a generator of their own,
//! so that all other choices of a seed stay as they are.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_netsim::Generator;
use anabranch_proto::{
    AddressForm, AssociationState, AuthenticationConfig, Config, DynamicAddressConfig, PathState, SharedKey,
};
use anabranch_testkit::{Pair, Side};
use anabranch_wire::chunk::kind;
use bytes::Bytes;

use super::pick;

/// Time for a request and its answer over clean paths, after timers that backed off.
const SETTLED_LIMIT: Duration = Duration::from_secs(1800);

/// Chunk types that the hosts may ask each other to sign. With COOKIE ECHO a host could not restart (RFC 4895 §6.3).
const SIGNED: [u8; 11] = [
    kind::DATA,
    kind::I_DATA,
    kind::SACK,
    kind::NR_SACK,
    kind::HEARTBEAT,
    kind::HEARTBEAT_ACK,
    kind::ABORT,
    kind::SHUTDOWN,
    kind::SHUTDOWN_ACK,
    kind::FORWARD_TSN,
    kind::I_FORWARD_TSN,
];

/// Adds random settings of these extensions to both hosts.
pub(super) fn choose(random: &mut Generator, configs: &mut [Config; 2]) {
    let secret = Bytes::from(vec![random.below(256) as u8; random.below(40) as usize]);
    let authenticated = random.below(3) == 0;
    for config in configs {
        if authenticated {
            let chunks = SIGNED.into_iter().filter(|_| random.below(3) == 0);
            let mut authentication = AuthenticationConfig::default();
            authentication.keys = vec![SharedKey {
                id: 3,
                secret: secret.clone(),
            }];
            authentication.chunks = chunks.collect();
            authentication.required = random.below(2) == 0;
            config.authentication = Some(authentication);
        }
        if random.below(4) > 0 {
            let form = pick(random, &[AddressForm::ByEncapsulation, AddressForm::Explicit]);
            config.dynamic_addresses = Some(DynamicAddressConfig { form });
        }
    }
}

/// Whether a host can change its addresses now.
fn may_move(pair: &Pair, side: Side) -> bool {
    pair.state(side) == Some(AssociationState::Established)
        && pair.association(side).stats().extensions.dynamic_addresses
}

/// A host has some of its addresses from now on. Returns whether it could say so.
pub(super) fn readdress(random: &mut Generator, pair: &mut Pair, side: Side) -> bool {
    let mut some: Vec<IpAddr> = pair.addresses(side).to_vec();
    some.retain(|_| random.below(2) == 0);
    if some.is_empty() {
        some.push(pick(random, pair.addresses(side)));
    }
    set(pair, side, &some)
}

fn set(pair: &mut Pair, side: Side, addresses: &[IpAddr]) -> bool {
    if !may_move(pair, side) {
        return false;
    }
    let now = pair.now();
    let set = pair.association_mut(side).local_addresses().set(now, addresses);
    assert!(set.is_ok(), "{set:?}");
    true
}

/// All addresses of both hosts again.
pub(super) fn restore(pair: &mut Pair) {
    for side in Side::BOTH {
        let all = pair.addresses(side).to_vec();
        set(pair, side, &all);
    }
    settle(pair);
    // An ABORT from an address that is not confirmed would not tell of the restart (RFC 9260 §5.4).
    let limit = pair.now() + SETTLED_LIMIT;
    let is_confirmed = |pair: &mut Pair| Side::BOTH.into_iter().all(|side| knows_all(pair, side));
    assert!(pair.run_to(limit, is_confirmed));
}

/// Whether all addresses of the peer are confirmed.
fn knows_all(pair: &Pair, side: Side) -> bool {
    let paths = pair.association(side).stats().paths;
    !may_move(pair, side) || paths.iter().all(|path| path.state != PathState::Unconfirmed)
}

/// Runs until each host knows the addresses that the other one has.
pub(super) fn settle(pair: &mut Pair) {
    let settled = |pair: &mut Pair| {
        let mut sides = Side::BOTH.into_iter();
        sides.all(|side| is_known(pair, side) && !pair.association_mut(side).local_addresses().is_pending())
    };
    let limit = pair.now() + SETTLED_LIMIT;
    if !pair.run_to(limit, settled) {
        let told = Side::BOTH.map(|side| pair.events(side));
        let [a, z] = Side::BOTH.map(|side| known(pair, side));
        panic!("A {a:?}, Z {z:?}, {told:?}");
    }
}

/// The addresses of a host, and those that its peer has paths to.
fn known(pair: &mut Pair, side: Side) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let mut wanted = pair.association_mut(side).local_addresses().list();
    let paths = pair.association(side.other()).stats().paths;
    let mut known: Vec<_> = paths.iter().map(|path| path.remote.ip()).collect();
    wanted.sort_unstable();
    known.sort_unstable();
    // Several paths may lead to one address.
    known.dedup();
    (wanted, known)
}

fn is_known(pair: &mut Pair, side: Side) -> bool {
    if !may_move(pair, side) {
        return true;
    }
    let (wanted, known) = known(pair, side);
    // A request with a wildcard cannot delete one of several addresses.
    let is_wildcard = pair
        .config(side)
        .dynamic_addresses
        .is_some_and(|one| one.form != AddressForm::Explicit);
    wanted == known || (is_wildcard && wanted.len() > 1 && wanted.iter().all(|one| known.contains(one)))
}
