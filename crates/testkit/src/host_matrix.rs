//! The matrix of hosts: every combination of the addresses that two hosts have, list and use (RFC 9260 §5.1.2, §5.4), and a
//! covering array of these combinations for tests that take long.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// The address that the host under test binds its socket to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The wildcard address; the host lists no address.
    Wildcard,
    /// The host's last address; the host lists no address.
    Bound,
    /// Each of the host's addresses; the host lists all of them.
    Listed,
    /// The wildcard address; the host lists all its addresses.
    WildcardListed,
}

/// The addresses that the peer lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// None; the peer's socket is bound to the wildcard address.
    Nothing,
    /// All addresses that the peer has.
    All,
    /// All addresses that the peer has, and one of a third host, which answers with an ABORT or not at all.
    OneWrong,
    /// All addresses that the peer has. The host under test has one of them too, like the address of a bridge that each host
    /// has locally.
    Shared,
}

/// The IP versions that both hosts have, and the one used for set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Both, set up over IPv4.
    BothOverV4,
    /// Both, set up over IPv6.
    BothOverV6,
}

impl Family {
    /// Whether set-up uses IPv6.
    #[must_use]
    pub fn sets_up_over_v6(self) -> bool {
        matches!(self, Self::V6 | Self::BothOverV6)
    }

    /// Whether the hosts have addresses of this IP version.
    #[must_use]
    pub fn has(self, v6: bool) -> bool {
        match self {
            Self::V4 => !v6,
            Self::V6 => v6,
            Self::BothOverV4 | Self::BothOverV6 => true,
        }
    }

    fn count(self) -> usize {
        [false, true].into_iter().filter(|v6| self.has(*v6)).count()
    }
}

/// One combination of all properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Interfaces of the host under test, 1 to 3. Interfaces with the same number are on one network. Other networks are
    /// reached through a host's first interface.
    pub interfaces: usize,
    /// Interfaces of its peer, 1 to 3.
    pub peer_interfaces: usize,
    /// The socket of the host under test.
    pub binding: Binding,
    /// Whether the host under test sends the INIT. It then connects to the peer's last interface.
    pub is_client: bool,
    /// The addresses that the peer lists.
    pub lists: Lists,
    /// The IP versions.
    pub family: Family,
    /// Whether SCTP runs directly over IP.
    pub raw_ip: bool,
}

const BINDINGS: [Binding; 4] = [
    Binding::Wildcard,
    Binding::Bound,
    Binding::Listed,
    Binding::WildcardListed,
];
const LISTS: [Lists; 4] = [Lists::Nothing, Lists::All, Lists::OneWrong, Lists::Shared];
const FAMILIES: [Family; 4] = [Family::V4, Family::V6, Family::BothOverV4, Family::BothOverV6];

/// The number of choices of each property, in the order of the fields of [`Cell`].
const CHOICES: [usize; 7] = [3, 3, BINDINGS.len(), 2, LISTS.len(), FAMILIES.len(), 2];

/// One choice of each property.
type Choices = [usize; CHOICES.len()];

fn all_choices() -> Vec<Choices> {
    let count = CHOICES.iter().product();
    let nth = |mut number: usize| {
        CHOICES.map(|choices| {
            let choice = number % choices;
            number /= choices;
            choice
        })
    };
    (0..count).map(nth).collect()
}

/// Every pair of properties with the choices made for them.
fn pairs(choices: &Choices) -> impl Iterator<Item = [(usize, usize); 2]> {
    let chosen = |property: usize| (property, choices[property]);
    (0..choices.len()).flat_map(move |second| (0..second).map(move |first| [chosen(first), chosen(second)]))
}

impl Cell {
    fn new(choices: Choices) -> Self {
        let [interfaces, peer_interfaces, binding, client, lists, family, raw] = choices;
        Self {
            interfaces: interfaces + 1,
            peer_interfaces: peer_interfaces + 1,
            binding: BINDINGS[binding],
            is_client: client == 0,
            lists: LISTS[lists],
            family: FAMILIES[family],
            raw_ip: raw == 1,
        }
    }

    /// All combinations.
    #[must_use]
    pub fn all() -> Vec<Self> {
        all_choices().into_iter().map(Self::new).collect()
    }

    /// A covering array: combinations that contain every pair of choices for two properties at least once.
    ///
    /// # Panics
    /// Never, since there are combinations.
    #[must_use]
    pub fn pairwise() -> Vec<Self> {
        let all = all_choices();
        let mut missing: BTreeSet<_> = all.iter().flat_map(pairs).collect();
        let mut cells = Vec::new();
        while !missing.is_empty() {
            let gain = |choices: &&Choices| pairs(choices).filter(|pair| missing.contains(pair)).count();
            let best = all.iter().max_by_key(gain).expect("there are combinations");
            for pair in pairs(best) {
                missing.remove(&pair);
            }
            cells.push(Self::new(*best));
        }
        cells
    }

    /// The cells that a test runs: all, or those whose names contain the value of this environment variable.
    ///
    /// # Panics
    /// If no name contains it.
    #[must_use]
    pub fn chosen(cells: Vec<Self>, variable: &str) -> Vec<Self> {
        let Ok(part) = std::env::var(variable) else {
            return cells;
        };
        let chosen: Vec<_> = cells
            .into_iter()
            .filter(|cell| cell.to_string().contains(&part))
            .collect();
        assert!(!chosen.is_empty(), "no cell's name contains {part:?}");
        chosen
    }

    /// The addresses of a host (1 is the host under test, 2 its peer) with this many interfaces: those of each interface in
    /// turn, then the address that both hosts have.
    pub fn addresses(&self, host: u8, interfaces: usize) -> Vec<IpAddr> {
        let of = |interface: usize| {
            [false, true]
                .into_iter()
                .filter(|v6| self.family.has(*v6))
                .map(move |v6| address(interface, host, v6))
        };
        (0..interfaces).flat_map(of).chain(self.shared()).collect()
    }

    /// The address that a client connects to: the address of the last interface.
    #[must_use]
    pub fn connects_to(&self) -> IpAddr {
        let v6 = self.family.sets_up_over_v6();
        if self.is_client {
            address(self.peer_interfaces - 1, 2, v6)
        } else {
            address(self.interfaces - 1, 1, v6)
        }
    }

    /// The address of the third host.
    #[must_use]
    pub fn stranger(&self) -> IpAddr {
        address(9, 9, self.family.sets_up_over_v6())
    }

    /// The address that both hosts have locally.
    #[must_use]
    pub fn shared(&self) -> Option<IpAddr> {
        (self.lists == Lists::Shared).then(|| address(8, 8, self.family.sets_up_over_v6()))
    }

    /// The address that the peer lists and at which the host under test does not reach the peer.
    #[must_use]
    pub fn wrong_address(&self) -> Option<IpAddr> {
        match self.lists {
            Lists::OneWrong => Some(self.stranger()),
            _ => self.shared(),
        }
    }

    /// The address that the host under test lists and at which its peer does not reach it.
    #[must_use]
    pub fn peer_wrong_address(&self) -> Option<IpAddr> {
        self.shared().filter(|_| self.lists_own())
    }

    /// Whether a host (`is_peer`: the peer of the host under test) has this path only because it lists an address that it does not have, from
    /// which it tries to send.
    #[must_use]
    pub fn leads_nowhere(&self, is_peer: bool, local: Option<IpAddr>, remote: IpAddr) -> bool {
        let mut addresses = [self.wrong_address(), self.peer_wrong_address()];
        if is_peer {
            addresses.reverse();
        }
        let [wrong, own] = addresses;
        own.is_some() && local == own && Some(remote) != wrong
    }

    fn lists_own(&self) -> bool {
        matches!(self.binding, Binding::Listed | Binding::WildcardListed)
    }

    /// The addresses that the host under test lists.
    #[must_use]
    pub fn listed(&self) -> Vec<IpAddr> {
        if self.lists_own() {
            self.addresses(1, self.interfaces)
        } else {
            Vec::new()
        }
    }

    /// The addresses that the peer lists. A wrong address is not the last one, if there are several.
    #[must_use]
    pub fn peer_listed(&self) -> Vec<IpAddr> {
        if self.lists == Lists::Nothing {
            return Vec::new();
        }
        let mut listed = self.addresses(2, self.peer_interfaces);
        if self.lists == Lists::OneWrong {
            listed.insert(1, self.stranger());
        }
        listed
    }

    /// The number of confirmed paths of the host under test: one to each address of the peer that it knows and can send to, and one from
    /// each address of its own that it lists.
    #[must_use]
    pub fn paths(&self) -> usize {
        match (self.lists, self.lists_own()) {
            (Lists::Nothing, true) => self.interfaces,
            (Lists::Nothing, false) => 1,
            (_, true) => self.interfaces.max(self.peer_interfaces) * self.family.count(),
            (_, false) => self.peer_interfaces,
        }
    }

    /// The number of confirmed paths of the peer.
    #[must_use]
    pub fn peer_paths(&self) -> usize {
        match (self.lists_own(), self.lists) {
            (false, Lists::Nothing) => 1,
            (false, _) => self.peer_interfaces,
            (true, Lists::Nothing) => self.interfaces,
            (true, _) => self.interfaces.max(self.peer_interfaces) * self.family.count(),
        }
    }
}

/// The address of an interface of a host.
#[must_use]
pub fn address(interface: usize, host: u8, v6: bool) -> IpAddr {
    if v6 {
        IpAddr::from([0xfd00, 0x77, 0, interface as u16, 0, 0, 0, u16::from(host)])
    } else {
        IpAddr::from([10, 77, interface as u8, host])
    }
}

/// The name, such as `2x3-wildcard-client-all-v4-udp`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binding = match self.binding {
            Binding::Wildcard => "wildcard",
            Binding::Bound => "bound",
            Binding::Listed => "listed",
            Binding::WildcardListed => "wildlisted",
        };
        let lists = match self.lists {
            Lists::Nothing => "none",
            Lists::All => "all",
            Lists::OneWrong => "wrong",
            Lists::Shared => "shared",
        };
        let family = match self.family {
            Family::V4 => "v4",
            Family::V6 => "v6",
            Family::BothOverV4 => "both4",
            Family::BothOverV6 => "both6",
        };
        let role = if self.is_client { "client" } else { "server" };
        let transport = if self.raw_ip { "raw" } else { "udp" };
        let (ours, theirs) = (self.interfaces, self.peer_interfaces);
        write!(f, "{ours}x{theirs}-{binding}-{role}-{lists}-{family}-{transport}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_covering_array_has_every_pair() {
        let cells = Cell::pairwise();
        assert!((12..=40).contains(&cells.len()), "{}", cells.len());
        let names: BTreeSet<_> = Cell::all().iter().map(Cell::to_string).collect();
        assert_eq!(names.len(), 2304);
        for together in ["3x3-", "-wildcard-server", "-wrong-both4", "-both6-raw"] {
            assert!(
                cells.iter().any(|cell| cell.to_string().contains(together)),
                "{together}"
            );
        }
    }
}
