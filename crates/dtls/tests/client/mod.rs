//! A client that is not [`Peers`](anabranch_dtls::Peers): the library alone, with one version of DTLS.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anabranch_dtls::Certificate;
use anabranch_proto::Timestamp;
use dimpl::{Config, Dtls, DtlsCertificate, Output};

/// The versions that a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// As older stacks.
    Dtls12,
    #[allow(dead_code, reason = "not every test file uses all versions")]
    Dtls13,
    #[allow(dead_code, reason = "not every test file uses all versions")]
    Both,
}

/// The library's time.
pub(crate) fn instant(time: Timestamp) -> Instant {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    *ORIGIN + Duration::from_nanos(time.0)
}

/// A client, and the packets that it received.
pub(crate) struct Client {
    pub dtls: Dtls,
    pub packets: Vec<Vec<u8>>,
    #[allow(dead_code, reason = "not every test file asks")]
    pub connected: bool,
}

impl Client {
    pub(crate) fn new(version: Version, now: Timestamp) -> Self {
        Self::with(version, now, Config::default())
    }

    pub(crate) fn with(version: Version, now: Timestamp, config: Config) -> Self {
        let now = instant(now);
        let (certificate, key) = Certificate::generate().unwrap().to_pem().unwrap();
        let [certificate, private_key] = [certificate, key].map(|pem| der(&pem));
        let certificate = DtlsCertificate {
            certificate,
            private_key,
        };
        let config = config.into();
        let mut dtls = match version {
            Version::Dtls12 => Dtls::new_12(config, certificate, now),
            Version::Dtls13 => Dtls::new_13(config, certificate, now),
            Version::Both => Dtls::new_auto(config, certificate, now),
        };
        dtls.set_active(true);
        dtls.handle_timeout(now).unwrap();
        Self {
            dtls,
            packets: Vec::new(),
            connected: false,
        }
    }

    /// Its datagrams.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        let mut buffer = vec![0; 20_000];
        loop {
            match self.dtls.poll_output(&mut buffer) {
                Output::Packet(datagram) => datagrams.push(datagram.to_vec()),
                Output::ApplicationData(data) => self.packets.push(data.to_vec()),
                Output::Connected => self.connected = true,
                Output::Timeout(_) => return datagrams,
                _ => {}
            }
        }
    }
}

/// The bytes of a text in PEM format.
fn der(pem: &str) -> Vec<u8> {
    let digits: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = digits.bytes().filter(|c| *c != b'=').map(value).collect();
    let word = |four: &[u8]| {
        four.iter()
            .fold(0_u32, |word, digit| word << 6 | u32::from(*digit))
            << (6 * (4 - four.len()))
    };
    digits
        .chunks(4)
        .flat_map(|four| word(four).to_be_bytes()[1..four.len()].to_vec())
        .collect()
}
