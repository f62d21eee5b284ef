//! The values of `--path`: where a path begins, and the peer's address to which it leads.

use std::fmt;
use std::net::IpAddr;

use anabranch::PathSource;

use crate::local_address::LocalAddress;

/// Longest name of an interface on Linux, in bytes (`IFNAMSIZ` less the final zero).
const LONGEST_NAME: usize = 15;

/// Where a path begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    Address(LocalAddress),
    /// The addresses of interfaces, as they come and go.
    Interfaces(PathSource),
}

impl Local {
    pub(crate) fn address(&self) -> Option<LocalAddress> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Interfaces(_) => None,
        }
    }

    pub(crate) fn source(&self) -> PathSource {
        match self {
            Self::Address(address) => address.ip.into(),
            Self::Interfaces(source) => source.clone(),
        }
    }
}

/// A path that `--path` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathArg {
    pub(crate) local: Local,
    /// The peer's address at the other end of the path.
    pub(crate) remote: Option<IpAddr>,
}

impl fmt::Display for PathArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.local {
            Local::Address(address) => address.fmt(f),
            Local::Interfaces(source) => source.fmt(f),
        }?;
        self.remote.map_or(Ok(()), |remote| write!(f, ",{remote}"))
    }
}

/// Reads a value of `--path`.
pub(crate) fn parse(text: &str) -> Result<PathArg, String> {
    let (local, remote) = match text.split_once(',') {
        Some((local, remote)) => (local, Some(address(remote, "REMOTE")?)),
        None => (text, None),
    };
    if let Some(source) = interfaces(local) {
        if remote.is_some() {
            return Err("REMOTE needs an address as LOCAL: leave it out after an interface".to_owned());
        }
        let local = Local::Interfaces(source);
        return Ok(PathArg { local, remote: None });
    }
    let local = address(local, "LOCAL")?;
    if remote.is_some_and(|remote| remote.ip.is_ipv4() != local.ip.is_ipv4()) {
        return Err(
            "LOCAL and REMOTE must both be IPv4 or both IPv6: give --path once for each IP version"
                .to_owned(),
        );
    }
    if remote.is_some_and(|remote| !remote.shares_zone(local)) {
        return Err("LOCAL and REMOTE must have the same interface".to_owned());
    }
    Ok(PathArg {
        local: Local::Address(local),
        remote: remote.map(|remote| remote.ip),
    })
}

/// The interfaces, `auto` for those with a default route, if the text cannot be meant as an address: addresses have colons, or digits and
/// dots alone.
fn interfaces(text: &str) -> Option<PathSource> {
    let is_name = !text.is_empty()
        && text.len() <= LONGEST_NAME
        && !text.contains([':', '/', '%'])
        && !text.contains(char::is_whitespace)
        && text.contains(|letter: char| !letter.is_ascii_digit() && letter != '.');
    is_name.then(|| PathSource::from(text))
}

fn address(text: &str, what: &str) -> Result<LocalAddress, String> {
    let address = text.parse::<LocalAddress>().map_err(|problem| {
        let names = if what == "LOCAL" {
            ", the name of an interface, or auto"
        } else {
            ""
        };
        format!("{what} must be an IP address{names}, as in --path 10.0.0.1,10.0.0.2: {problem}")
    })?;
    if address.ip.is_unspecified() || address.ip.is_multicast() {
        return Err(format!(
            "{what} must be the address of one interface, not {address}"
        ));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_names_and_addresses_have_numbers() {
        for (text, source) in [
            ("wlan0", PathSource::from("wlan0")),
            ("eth0.100", PathSource::from("eth0.100")),
            ("auto", PathSource::DefaultRoutes),
        ] {
            let path = parse(text).expect("an interface");
            assert_eq!(
                (&path.local, path.to_string()),
                (&Local::Interfaces(source), text.to_owned())
            );
        }
        for text in ["10.0.0.1", "2001:db8::1"] {
            let path = parse(text).expect("an address");
            assert_eq!(
                path.local.source(),
                PathSource::Address(text.parse().expect("an address"))
            );
        }
        for (text, part) in [
            ("10.0.0", "LOCAL must be an IP address"),
            ("10.0.0.1:9899", "without a port"),
            ("averylonginterface", "the name of an interface, or auto"),
            ("", "LOCAL must be an IP address"),
            ("wlan0,10.0.0.9", "leave it out after an interface"),
            ("10.0.0.1,wlan0", "REMOTE must be an IP address"),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_link_local_path_has_one_interface() {
        let wrong = parse("fe80::1%lo,fe80::2%1000000").unwrap_err();
        assert!(wrong.contains("same interface"), "{wrong}");
    }
}
