//! The path's MTU and what fits a packet of it (RFC 9260 §7.3, PMDCS and AMDCS of §1.6).

use anabranch_wire::packet::COMMON_HEADER_LEN;

use crate::config::Config;

const IPV4_HEADER_LEN: u16 = 20;
const IPV6_HEADER_LEN: u16 = 40;
const UDP_HEADER_LEN: u16 = 8;

/// The least that IPv4 hosts must take (RFC 791), and so the least a report of the network is believed.
const SMALLEST: u16 = 576;

/// The largest IP packet of a path, and the headers below SCTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pmtu {
    mtu: u16,
    below: u16,
}

impl Pmtu {
    pub(crate) fn new(config: &Config, ipv6: bool) -> Self {
        let ip = if ipv6 { IPV6_HEADER_LEN } else { IPV4_HEADER_LEN };
        let below = ip
            + if config.udp_encapsulation {
                UDP_HEADER_LEN
            } else {
                0
            };
        Self {
            mtu: config.path_mtu,
            below,
        }
    }

    pub(crate) fn current(self) -> u16 {
        self.mtu
    }

    /// The network said that a packet was too large.
    pub(crate) fn on_too_large(&mut self, mtu: Option<u16>) {
        let told = mtu.filter(|mtu| *mtu >= SMALLEST).unwrap_or(SMALLEST);
        self.mtu = self.mtu.min(told);
    }

    /// The largest SCTP packet, a multiple of 4.
    pub(crate) fn max_packet(self) -> usize {
        usize::from(self.mtu - self.below) & !3
    }

    /// PMDCS: the largest DATA chunk, its header included.
    pub(crate) fn max_data(self) -> usize {
        self.max_packet() - COMMON_HEADER_LEN
    }
}
