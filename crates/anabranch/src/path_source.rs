//! Where paths begin: an address of this host, an interface, or each interface with a default route; and the addresses that these have now.

use std::fmt;
use std::io;
use std::net::IpAddr;

use anabranch_proto::AddressError;

use crate::interfaces::{self, Device, HostAddress};

/// Where paths begin: [`EndpointBuilder::bind_paths`](crate::EndpointBuilder::bind_paths) and
/// [`Association::add_path`](crate::Association::add_path). Interfaces work on Linux only.
///
/// ```
/// use anabranch::PathSource;
///
/// assert_eq!(PathSource::from("wlan0"), PathSource::Interface("wlan0".to_owned()));
/// assert_eq!(PathSource::from("192.168.1.20"), PathSource::Address([192, 168, 1, 20].into()));
/// assert_eq!(PathSource::from("auto"), PathSource::DefaultRoutes);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathSource {
    /// This address of this host.
    Address(IpAddr),
    /// The network interface of this name: one IPv4 address and one IPv6 address of it, those from which the system would send.
    Interface(String),
    /// Each network interface that has a default route.
    DefaultRoutes,
}

/// The text of [`PathSource::DefaultRoutes`].
const AUTO: &str = "auto";

impl fmt::Display for PathSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Interface(name) => f.write_str(name),
            Self::DefaultRoutes => f.write_str(AUTO),
        }
    }
}

impl From<IpAddr> for PathSource {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl From<[u8; 4]> for PathSource {
    fn from(address: [u8; 4]) -> Self {
        Self::Address(address.into())
    }
}

impl From<&str> for PathSource {
    /// Reads an address, `auto` for [`PathSource::DefaultRoutes`], or the name of an interface.
    fn from(text: &str) -> Self {
        match text.parse() {
            Ok(address) => Self::Address(address),
            Err(_) if text == AUTO => Self::DefaultRoutes,
            Err(_) => Self::Interface(text.to_owned()),
        }
    }
}

impl PathSource {
    /// The addresses of this host at which paths begin now. Empty if the interface is down, or the host does not have the address yet. Where the
    /// system does not list addresses, a given address counts as one of this host.
    ///
    /// # Errors
    /// [`PathSourceError::UnknownInterface`], [`PathSourceError::System`].
    pub fn addresses(&self) -> Result<Vec<IpAddr>, PathSourceError> {
        self.check()?;
        match (Host::read(std::slice::from_ref(self)), self) {
            (Ok(host), _) => Ok(host.addresses_of(self, &[])),
            (Err(_), Self::Address(address)) => Ok(vec![*address]),
            (Err(error), _) => Err(PathSourceError::System(error)),
        }
    }

    /// Whether the host has the interface.
    pub(crate) fn check(&self) -> Result<(), PathSourceError> {
        let Self::Interface(name) = self else {
            return Ok(());
        };
        let existing = interfaces::names().map_err(PathSourceError::System)?;
        if existing.contains(name) {
            return Ok(());
        }
        Err(PathSourceError::UnknownInterface {
            name: name.clone(),
            existing,
        })
    }
}

/// Why a path cannot begin there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathSourceError {
    /// This host has no interface of this name.
    #[error("this host has no network interface {name:?}; it has {}", existing.join(", "))]
    UnknownInterface {
        /// The name.
        name: String,
        /// The interfaces that this host has.
        existing: Vec<String>,
    },
    /// No path can begin now, because no interface has an address.
    #[error(
        "no address to begin with: the interfaces are down or have no address, or with `auto` none has a default route; `ip address` and `ip route` \
         list them"
    )]
    NoAddress,
    /// The association has no such path.
    #[error("the association has no path from {0}")]
    NotUsed(PathSource),
    /// The association cannot change its addresses.
    #[error(transparent)]
    Addresses(#[from] AddressError),
    /// The operating system refused the socket.
    #[error("cannot bind {address}: {source}")]
    Socket {
        /// The address.
        address: IpAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The system does not list the interfaces.
    #[error("the network interfaces cannot be listed: {0}; this works on Linux only")]
    System(#[source] io::Error),
}

/// The addresses of this host at one time.
#[derive(Debug, Default)]
pub(crate) struct Host {
    addresses: Vec<HostAddress>,
    /// The interfaces with a default route, the preferred one first.
    default_routes: Vec<String>,
}

impl Host {
    /// Reads what these sources need.
    pub(crate) fn read(sources: &[PathSource]) -> io::Result<Self> {
        let default_routes = if sources.contains(&PathSource::DefaultRoutes) {
            interfaces::default_routes()?
        } else {
            Vec::new()
        };
        let addresses = interfaces::addresses()?;
        Ok(Self {
            addresses,
            default_routes,
        })
    }

    /// Whether packets can leave from this address.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        // The system lists one address of the loopback network, and has all of them.
        address.is_loopback() || self.addresses.iter().any(|one| one.address == address)
    }

    /// The interface that has this address.
    pub(crate) fn interface_of(&self, address: IpAddr) -> Option<Device> {
        let own = self.addresses.iter().find(|one| one.address == address)?;
        Some(Device {
            name: own.interface.clone(),
            index: interfaces::index(&own.interface)?,
        })
    }

    /// The addresses at which paths of this source begin. An address that is in use stays while the host has it, although the system may
    /// prefer a newer one (RFC 8981).
    pub(crate) fn addresses_of(&self, source: &PathSource, used: &[IpAddr]) -> Vec<IpAddr> {
        match source {
            PathSource::Address(address) => Vec::from_iter(Some(*address).filter(|one| self.has(*one))),
            PathSource::Interface(name) => self.addresses_on(name, used),
            PathSource::DefaultRoutes => {
                let names = self.default_routes.iter();
                names.flat_map(|name| self.addresses_on(name, used)).collect()
            }
        }
    }

    /// The same for several sources, without duplicates.
    pub(crate) fn addresses_of_all(&self, sources: &[PathSource], used: &[IpAddr]) -> Vec<IpAddr> {
        let mut all = Vec::new();
        for address in sources.iter().flat_map(|source| self.addresses_of(source, used)) {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        all
    }

    fn addresses_on(&self, name: &str, used: &[IpAddr]) -> Vec<IpAddr> {
        let of_version = |is_ipv4: bool| {
            let own = self.addresses.iter().filter(|one| one.interface == name);
            let own: Vec<_> = own
                .map(|one| one.address)
                .filter(|one| one.is_ipv4() == is_ipv4)
                .collect();
            let in_use = own.iter().find(|one| used.contains(one));
            let preferred = || interfaces::preferred_source(name, is_ipv4).filter(|one| own.contains(one));
            in_use.copied().or_else(preferred).or(own.first().copied())
        };
        [true, false].into_iter().filter_map(of_version).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(addresses: &[(&str, &str)], default_routes: &[&str]) -> Host {
        let address = |(interface, address): &(&str, &str)| HostAddress {
            interface: (*interface).to_owned(),
            address: address.parse().expect("an address"),
        };
        Host {
            addresses: addresses.iter().map(address).collect(),
            default_routes: default_routes.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn an_interface_has_one_address_of_each_version_and_keeps_it() {
        let [v4, other, v6] = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
        let [v4_ip, other_ip, v6_ip] = [v4, other, v6].map(|text| text.parse().expect("an address"));
        let host = host(
            &[("zz0", v4), ("zz0", other), ("zz0", v6), ("zz1", "198.51.100.1")],
            &["zz1", "zz0"],
        );
        let zz0 = PathSource::from("zz0");
        assert_eq!(host.addresses_of(&zz0, &[]), [v4_ip, v6_ip]);
        assert_eq!(
            host.addresses_of(&zz0, &[other_ip]),
            [other_ip, v6_ip],
            "the address in use stays"
        );
        assert!(host.addresses_of(&PathSource::from("zz2"), &[]).is_empty());
        let zz1: IpAddr = [198, 51, 100, 1].into();
        assert_eq!(
            host.addresses_of(&PathSource::DefaultRoutes, &[]),
            [zz1, v4_ip, v6_ip],
            "in the order of the routes"
        );
        let all = [
            zz0,
            PathSource::DefaultRoutes,
            PathSource::Address([203, 0, 113, 1].into()),
        ];
        assert_eq!(
            host.addresses_of_all(&all, &[]),
            [v4_ip, v6_ip, zz1],
            "an address that the host lacks is left out"
        );
        assert!(host.has([127, 84, 0, 1].into()));
    }

    #[test]
    #[cfg(any(target_os = "android", target_os = "linux"))]
    fn the_loopback_interface_is_found_and_an_unknown_one_is_not() {
        let loopback = PathSource::from("lo")
            .addresses()
            .expect("the loopback interface");
        assert!(loopback.contains(&[127, 0, 0, 1].into()), "{loopback:?}");
        let unknown = PathSource::from("nosuch0")
            .addresses()
            .expect_err("there is none");
        assert!(unknown.to_string().contains("it has lo"), "{unknown}");
        PathSource::DefaultRoutes
            .addresses()
            .expect("the system lists its routes");
    }
}
