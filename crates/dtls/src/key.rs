//! How [`Peers`](crate::Peers) tells its peers apart.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address of a peer, or what a program uses in place of one.
pub trait PeerKey: Copy + Ord {
    /// The address at which the peer must prove with a cookie that it receives. Limits for one address are counted by it. `None`: another
    /// protocol has proved the address, as ICE does.
    fn address(&self) -> Option<SocketAddr>;
}

impl PeerKey for SocketAddr {
    fn address(&self) -> Option<SocketAddr> {
        Some(*self)
    }
}

/// The only peer, whose address another protocol has proved.
impl PeerKey for () {
    fn address(&self) -> Option<SocketAddr> {
        None
    }
}

/// The number of an IPv4 address, for simulations.
impl PeerKey for u32 {
    fn address(&self) -> Option<SocketAddr> {
        Some((Ipv4Addr::from(*self), 0).into())
    }
}

/// Everything that one host can have as its addresses: an IPv4 address, or the first 64 bits of an IPv6 address.
pub(crate) fn host<K: PeerKey>(key: K) -> IpAddr {
    match key.address().map(|address| address.ip().to_canonical()) {
        Some(IpAddr::V6(ip)) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        Some(ip) => ip,
        None => Ipv4Addr::UNSPECIFIED.into(),
    }
}
