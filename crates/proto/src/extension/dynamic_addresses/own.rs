//! Owns the states of the addresses of this endpoint: whether the peer knows them, and the fate of the requests for them.

use core::time::Duration;
use std::net::IpAddr;

use crate::time::Timestamp;

/// How long a new address rests at first after nothing reached the peer from there.
const FIRST_REST: Duration = Duration::from_secs(1);

/// Whether the peer knows an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    Unknown,
    /// A wildcard addition was retransmitted from another source, or a request was withdrawn: the peer may know the address.
    Doubtful,
    Known,
}

#[derive(Debug)]
pub(super) struct OwnAddress {
    pub(super) address: IpAddr,
    pub(super) knowledge: Knowledge,
    /// The name of its pair: the Correlation ID of the request that added it. `None` if pairs were not negotiated.
    pub(super) name: Option<u32>,
    /// The peer knows the address and does not answer there: its translator may have forgotten it.
    pub(super) is_silent: bool,
    /// The peer refused to change the address: no second request until the application changes its list.
    pub(super) is_refused: bool,
    /// Nothing reached the peer from there: when the address is added again. `None` if that is due.
    pub(super) rests_until: Option<Timestamp>,
    /// How often it has rested.
    rests: u32,
}

impl OwnAddress {
    fn new(address: IpAddr, knowledge: Knowledge) -> Self {
        Self {
            address,
            knowledge,
            name: None,
            is_silent: false,
            is_refused: false,
            rests_until: None,
            rests: 0,
        }
    }

    /// Nothing reached the peer from there: the address rests, each time twice as long, at most this long.
    pub(super) fn rest(&mut self, now: Timestamp, longest: Duration) {
        let time = FIRST_REST.saturating_mul(1 << self.rests.min(16));
        self.rests_until = Some(now + time.min(longest));
        self.rests += 1;
    }

    pub(super) fn end_rests(&mut self) {
        self.rests_until = None;
        self.rests = 0;
    }

    /// The peer may know the address.
    pub(super) fn doubt(&mut self) {
        if self.knowledge == Knowledge::Unknown {
            self.knowledge = Knowledge::Doubtful;
        }
    }

    /// The peer has no pair with this address.
    pub(super) fn forget(&mut self) {
        self.knowledge = Knowledge::Unknown;
        self.name = None;
        self.is_silent = false;
    }
}

/// The addresses that the peer knows or that requests were about, in the order in which they came.
#[derive(Debug)]
pub(super) struct OwnAddresses(Vec<OwnAddress>);

impl OwnAddresses {
    pub(super) fn new(known: &[IpAddr]) -> Self {
        let known_address = |address: &IpAddr| OwnAddress::new(*address, Knowledge::Known);
        Self(known.iter().map(known_address).collect())
    }

    pub(super) fn iter(&self) -> core::slice::Iter<'_, OwnAddress> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> core::slice::IterMut<'_, OwnAddress> {
        self.0.iter_mut()
    }

    /// Whether this address has such a state.
    pub(super) fn is(&self, address: IpAddr, it: impl Fn(&OwnAddress) -> bool) -> bool {
        self.iter().any(|own| own.address == address && it(own))
    }

    /// The state of this address, which begins if there is none.
    pub(super) fn of(&mut self, address: IpAddr) -> &mut OwnAddress {
        let place = self.iter().position(|own| own.address == address);
        let place = place.unwrap_or_else(|| {
            self.0.push(OwnAddress::new(address, Knowledge::Unknown));
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    /// The addresses that the peer knows.
    pub(super) fn known(&self) -> impl Iterator<Item = IpAddr> {
        let known = self.iter().filter(|own| own.knowledge == Knowledge::Known);
        known.map(|own| own.address)
    }

    pub(super) fn knows(&self, address: IpAddr) -> bool {
        self.known().any(|known| known == address)
    }

    /// The application changed the list of its addresses: requests begin anew.
    pub(super) fn on_wanted(&mut self, wanted: &[IpAddr]) {
        self.0.retain(|own| own.knowledge != Knowledge::Unknown);
        for own in &mut self.0 {
            own.is_refused = false;
            own.end_rests();
            own.is_silent &= wanted.contains(&own.address);
        }
    }
}
