//! The types of addresses that an endpoint supports (Supported Address Types, RFC 9260 §3.3.2.1.5).

use std::net::IpAddr;

/// The parameter types of an IPv4 and of an IPv6 address (§3.3.2.1.1, §3.3.2.1.2).
const IPV4: u16 = 5;
const IPV6: u16 = 6;

/// The IP versions with which an endpoint can send and receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressTypes {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl Default for AddressTypes {
    fn default() -> Self {
        Self::BOTH
    }
}

impl AddressTypes {
    /// IPv4 and IPv6; the value of a peer that sends no list.
    pub const BOTH: Self = Self {
        ipv4: true,
        ipv6: true,
    };

    /// Reads the list of a peer. Host names (type 11) and unknown types are ignored.
    pub(crate) fn of_list(types: &[u16]) -> Self {
        Self {
            ipv4: types.contains(&IPV4),
            ipv6: types.contains(&IPV6),
        }
    }

    /// The list for the peer; `None` if all types are supported, which a peer assumes without a list.
    pub(crate) fn list(self) -> Option<Vec<u16>> {
        let types = [(self.ipv4, IPV4), (self.ipv6, IPV6)];
        let supported = types.into_iter().filter(|(supported, _)| *supported);
        (self != Self::BOTH).then(|| supported.map(|(_, kind)| kind).collect())
    }

    pub(crate) fn has(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        }
    }

    /// These types and that of an address in use.
    pub(crate) fn with(self, address: IpAddr) -> Self {
        Self {
            ipv4: self.ipv4 || address.is_ipv4(),
            ipv6: self.ipv6 || address.is_ipv6(),
        }
    }
}
