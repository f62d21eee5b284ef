//! The places of a server that its clients may use: none, unless the operator lists them.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::rule::{Listen, Protocol, RuleError, Target};

/// A place that clients may use, for example `127.0.0.1:9000/udp`: a host, a port and a protocol.
///
/// * The host is an address, a network (`10.0.0.0/8`, `[fd00::]/8`), a name, or `*` for any address.
/// * The port is a number, a range (`5000-5010`) or `*`.
/// * The protocol is `/udp` or `/tcp`; without it, both are permitted.
/// * `unix:/PATH` is a Unix socket.
///
/// The owner of a name decides to which address it leads, today and tomorrow. A name and `*` therefore never permit loopback, link-local,
/// multicast and unspecified addresses, which lead to the server itself or to services of its network that trust it. An entry with an address or
/// a network does, and so does the name `localhost` for loopback addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    place: Place,
    protocol: Option<Protocol>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Host { host: Host, ports: RangeInclusive<u16> },
    Unix(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Any,
    Network { address: IpAddr, prefix: u8 },
    Name(String),
}

const FORM: &str =
    "write HOST:PORT/udp or HOST:PORT/tcp, as in 127.0.0.1:9000/udp, 10.0.0.0/8:5000-5010 or *:443/tcp";

impl FromStr for Permission {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let problem = || RuleError(format!("{text:?} is no place that can be permitted: {FORM}"));
        if text.starts_with("unix:") {
            let Target::Unix(path) = text.parse()? else {
                return Err(problem());
            };
            let place = Place::Unix(path.to_str().ok_or_else(problem)?.to_owned());
            return Ok(Self {
                place,
                protocol: Some(Protocol::Tcp),
            });
        }
        let (rest, protocol) = match text.rsplit_once('/') {
            Some((rest, "udp")) => (rest, Some(Protocol::Udp)),
            Some((rest, "tcp")) => (rest, Some(Protocol::Tcp)),
            _ => (text, None),
        };
        let (host, ports) = rest.rsplit_once(':').ok_or_else(problem)?;
        let place = Place::Host {
            host: read_host(host).ok_or_else(problem)?,
            ports: read_ports(ports).ok_or_else(problem)?,
        };
        Ok(Self { place, protocol })
    }
}

fn read_ports(text: &str) -> Option<RangeInclusive<u16>> {
    if text == "*" {
        return Some(0..=u16::MAX);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first != 0 && first <= last).then_some(first..=last)
}

fn read_host(text: &str) -> Option<Host> {
    if text == "*" {
        return Some(Host::Any);
    }
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let bracketed = address
        .strip_prefix('[')
        .and_then(|address| address.strip_suffix(']'));
    // An IPv6 address has brackets, or its end could be a port.
    let read = match bracketed {
        Some(inner) => Some(IpAddr::V6(inner.parse().ok()?)),
        None => address.parse().ok().map(IpAddr::V4),
    };
    match read {
        Some(address) => {
            let longest = if address.is_ipv4() { 32 } else { 128 };
            let prefix = prefix.unwrap_or(longest);
            (prefix <= longest).then_some(Host::Network { address, prefix })
        }
        None if prefix.is_none() && crate::rule::is_name(text) => Some(Host::Name(text.to_ascii_lowercase())),
        None => None,
    }
}

/// Whether the first bits of both addresses are the same.
fn is_in(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differing = address.to_bits() ^ network.to_bits();
            differing.leading_zeros() >= prefix.into()
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differing = address.to_bits() ^ network.to_bits();
            differing.leading_zeros() >= prefix.into()
        }
        _ => false,
    }
}

/// Whether an address leads to the server itself, or means something else for each host.
fn is_special(address: IpAddr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || match address {
            IpAddr::V4(address) => {
                address.is_link_local() || address.is_broadcast() || address.octets()[0] == 0
            }
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
}

impl Permission {
    fn covers(&self, protocol: Protocol, port: u16) -> Option<&Host> {
        let fits = self.protocol.is_none_or(|own| own == protocol);
        match &self.place {
            Place::Host { host, ports } if fits && ports.contains(&port) => Some(host),
            _ => None,
        }
    }

    /// Whether a flow to the host of this name may use this address, to which the name leads now.
    fn permits(&self, protocol: Protocol, name: &str, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        match self.covers(protocol, address.port()) {
            None => false,
            Some(Host::Any) => !is_special(ip),
            Some(Host::Network { address, prefix }) => is_in(ip, *address, *prefix),
            Some(Host::Name(own)) => {
                own == name && (!is_special(ip) || (own == "localhost" && ip.is_loopback()))
            }
        }
    }

    /// Whether a reverse rule may listen at this address.
    fn permits_listening(&self, protocol: Protocol, address: SocketAddr) -> bool {
        match self.covers(protocol, address.port()) {
            Some(Host::Any) => true,
            Some(Host::Network { address: own, prefix }) => is_in(address.ip().to_canonical(), *own, *prefix),
            Some(Host::Name(_)) | None => false,
        }
    }
}

/// The places that a client may use. The default permits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The targets of rules.
    pub targets: Vec<Permission>,
    /// The places where reverse rules listen.
    pub listening: Vec<Permission>,
}

impl Policy {
    /// Whether no address could be permitted, so that the client can be told before it opens a flow.
    pub(crate) fn may_reach(&self, protocol: Protocol, target: &Target) -> bool {
        self.targets.iter().any(|entry| match target {
            Target::Unix(path) => is_unix(entry, path.to_str()),
            Target::Host { host, port } => match (entry.covers(protocol, *port), host.parse::<IpAddr>()) {
                (None, _) => false,
                (Some(_), Ok(ip)) => entry.permits(protocol, host, SocketAddr::new(ip, *port)),
                (Some(Host::Name(own)), Err(_)) => own == host,
                (Some(_), Err(_)) => true,
            },
        })
    }

    /// Whether this address may be used, to which the target leads now.
    pub(crate) fn permits(&self, protocol: Protocol, name: &str, address: SocketAddr) -> bool {
        self.targets
            .iter()
            .any(|entry| entry.permits(protocol, name, address))
    }

    /// Whether a reverse rule may listen here.
    pub(crate) fn permits_listening(&self, protocol: Protocol, place: &Listen) -> bool {
        self.listening.iter().any(|entry| match place {
            Listen::Socket(address) => entry.permits_listening(protocol, *address),
            Listen::Unix(path) => is_unix(entry, path.to_str()),
        })
    }
}

fn is_unix(entry: &Permission, path: Option<&str>) -> bool {
    matches!(&entry.place, Place::Unix(own) if path == Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(entries: &[&str]) -> Policy {
        let read = |entry: &&str| entry.parse().expect("a permission");
        Policy {
            targets: entries.iter().map(read).collect(),
            listening: entries.iter().map(read).collect(),
        }
    }

    /// Whether the target may lead to this address.
    fn may(policy: &Policy, protocol: Protocol, target: &str, leads_to: &str) -> bool {
        let target: Target = target.parse().expect("a target");
        let Target::Host { host, port } = &target else {
            panic!("no host");
        };
        let address = SocketAddr::new(leads_to.parse().expect("an address"), *port);
        policy.may_reach(protocol, &target) && policy.permits(protocol, host, address)
    }

    use Protocol::{Tcp, Udp};

    #[test]
    fn nothing_is_permitted_by_default() {
        let none = Policy::default();
        assert!(!none.may_reach(Tcp, &"127.0.0.1:22".parse().expect("a target")));
        assert!(!none.permits(Tcp, "127.0.0.1", ([127, 0, 0, 1], 22).into()));
        assert!(!none.permits_listening(Tcp, &"8080".parse().expect("a place")));
    }

    #[test]
    fn host_port_and_protocol_must_fit() {
        let policy = policy(&["127.0.0.1:9000/udp", "10.0.0.0/8:5000-5010", "[fd00::]/8:22/tcp"]);
        for (protocol, target, address, fits) in [
            (Udp, "127.0.0.1:9000", "127.0.0.1", true),
            (Tcp, "127.0.0.1:9000", "127.0.0.1", false),
            (Udp, "127.0.0.1:9001", "127.0.0.1", false),
            (Udp, "127.0.0.2:9000", "127.0.0.2", false),
            (Udp, "10.255.0.1:5000", "10.255.0.1", true),
            (Tcp, "10.255.0.1:5010", "10.255.0.1", true),
            (Tcp, "10.255.0.1:5011", "10.255.0.1", false),
            (Tcp, "11.0.0.1:5010", "11.0.0.1", false),
            (Tcp, "[fd00::1]:22", "fd00::1", true),
            (Tcp, "[fe00::1]:22", "fe00::1", false),
        ] {
            assert_eq!(
                may(&policy, protocol, target, address),
                fits,
                "{protocol} {target}"
            );
        }
    }

    /// A name that leads to another address since it was permitted reaches nothing that the operator did not list.
    #[test]
    fn a_name_does_not_lead_to_the_server_itself() {
        let policy = policy(&["example.net:80", "*:443", "localhost:22", "192.0.2.0/24:53"]);
        for (target, address, fits) in [
            ("example.net:80", "198.51.100.1", true),
            ("example.net:80", "10.0.0.1", true),
            ("example.net:80", "127.0.0.1", false),
            ("example.net:80", "::1", false),
            ("example.net:80", "::ffff:127.0.0.1", false),
            ("example.net:80", "169.254.169.254", false),
            ("example.net:80", "0.0.0.0", false),
            ("other.net:80", "198.51.100.1", false),
            ("other.net:443", "198.51.100.1", true),
            ("other.net:443", "127.0.0.1", false),
            ("127.0.0.1:443", "127.0.0.1", false),
            ("localhost:22", "127.0.0.1", true),
            ("localhost:22", "169.254.0.1", false),
            ("other.net:22", "127.0.0.1", false),
            ("other.net:53", "192.0.2.7", true),
            ("other.net:53", "192.0.3.7", false),
        ] {
            assert_eq!(may(&policy, Tcp, target, address), fits, "{target} at {address}");
        }
    }

    #[test]
    fn reverse_rules_listen_at_listed_addresses() {
        let policy = policy(&["127.0.0.1:8080", "0.0.0.0:9000/tcp", "name:7000"]);
        for (place, fits) in [
            ("8080", true),
            ("8081", false),
            ("0.0.0.0:9000", true),
            ("0.0.0.0:8080", false),
            ("127.0.0.1:9000", false),
            ("127.0.0.1:0", false),
            ("7000", false),
        ] {
            let place = place.parse().expect("a place");
            assert_eq!(policy.permits_listening(Tcp, &place), fits, "{place}");
        }
        let any = super::tests::policy(&["*:*"]);
        assert!(any.permits_listening(Tcp, &"0".parse().expect("a place")));
    }

    #[test]
    #[cfg(unix)]
    fn unix_sockets_are_listed_by_their_paths() {
        let policy = policy(&["unix:/run/a.sock"]);
        assert!(policy.may_reach(Tcp, &"unix:/run/a.sock".parse().expect("a target")));
        assert!(!policy.may_reach(Tcp, &"unix:/run/b.sock".parse().expect("a target")));
        assert!(policy.permits_listening(Tcp, &"unix:/run/a.sock".parse().expect("a place")));
    }

    #[test]
    fn errors_show_the_form() {
        for text in [
            "9000",
            "host",
            "host:0",
            "host:9-3",
            "::1:80",
            "10.0.0.0/33:80",
            "ho st:80",
            "[::1:80",
        ] {
            let problem = text.parse::<Permission>().expect_err(text).to_string();
            assert!(problem.contains("127.0.0.1:9000/udp"), "{problem}");
        }
    }
}
