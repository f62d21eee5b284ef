//! Addresses of this machine on the command line: IP addresses, and link-local IPv6 addresses with their zone (RFC 4007 §11), the interface.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::str::FromStr;

/// An IP address of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalAddress {
    pub(crate) ip: IpAddr,
    /// The index of the interface; 0 if the address is not link-local.
    zone: u32,
}

impl LocalAddress {
    pub(crate) fn with_port(self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V4(ip) => SocketAddr::new(ip.into(), port),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.zone).into(),
        }
    }

    /// Whether both addresses are on the same interface, as far as they name it.
    pub(crate) fn shares_zone(self, other: Self) -> bool {
        self.zone == other.zone || self.zone == 0 || other.zone == 0
    }
}

impl From<IpAddr> for LocalAddress {
    fn from(ip: IpAddr) -> Self {
        Self { ip, zone: 0 }
    }
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone {
            0 => self.ip.fmt(f),
            zone => write!(f, "{}%{zone}", self.ip),
        }
    }
}

impl FromStr for LocalAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (bare, zone) = match text.split_once('%') {
            Some((bare, zone)) => (bare, Some(zone)),
            None => (text, None),
        };
        let ip: IpAddr = bare
            .parse()
            .map_err(|_| format!("give an IP address without a port, not {text:?}"))?;
        let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        match zone {
            None if is_link_local => Err(format!("{ip} is link-local: add its interface, as in {ip}%eth0")),
            None => Ok(ip.into()),
            Some(_) if !is_link_local => Err(format!("{ip} is not link-local: leave the interface out")),
            Some(zone) => {
                let zone = index(text)
                    .ok_or_else(|| format!("no interface of this machine has the name or number {zone:?}"))?;
                Ok(Self { ip, zone })
            }
        }
    }
}

/// The zone of an address with the name or number of an interface. The system's resolver knows the names, and asks nobody for an address that
/// is given in numbers.
fn index(text: &str) -> Option<u32> {
    let found = (text, 0).to_socket_addrs().ok()?.next()?;
    match found {
        SocketAddr::V6(found) => Some(found.scope_id()).filter(|zone| *zone != 0),
        SocketAddr::V4(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_zone_is_a_name_or_a_number() {
        let number = std::fs::read_to_string("/sys/class/net/lo/ifindex").expect("the loopback interface");
        let number: u32 = number.trim().parse().expect("a number");
        for zone in ["lo".to_owned(), number.to_string()] {
            let address: LocalAddress = format!("fe80::1%{zone}").parse().expect("an address with a zone");
            let SocketAddr::V6(socket) = address.with_port(9899) else {
                panic!("{address} is IPv6");
            };
            assert_eq!((*socket.ip(), socket.port()), ("fe80::1".parse().unwrap(), 9899));
            assert_eq!(socket.scope_id(), number, "{zone}");
            assert_eq!(address.to_string(), format!("fe80::1%{number}"));
        }
    }

    #[test]
    fn addresses_without_a_zone_stay_as_they_are() {
        for text in ["10.0.0.1", "::", "2001:db8::1", "127.0.0.1"] {
            let address: LocalAddress = text.parse().expect("an address");
            assert_eq!(address.to_string(), text);
            assert_eq!(address.with_port(7), SocketAddr::new(text.parse().unwrap(), 7));
        }
    }

    #[test]
    fn errors_name_the_remedy() {
        for (text, part) in [
            ("fe80::1", "fe80::1%eth0"),
            ("fe80::1%", "no interface"),
            ("fe80::1%no-such-interface", "no interface"),
            ("2001:db8::1%lo", "leave the interface out"),
            ("10.0.0.1%lo", "leave the interface out"),
            ("10.0.0.1:7", "without a port"),
        ] {
            let problem = text.parse::<LocalAddress>().unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
