//! Offers and answers (RFC 9429) for data channels alone: the one section `m=application … webrtc-datachannel` (RFC 8841). An offer may have
//! other sections; the answer rejects them.

mod text;

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anabranch_dtls::Fingerprint;
use is::{Candidate, IceCreds, Protocol};
use text::{Attributes, Text, number};

/// Limits of what a peer may send; `text` has further ones.
pub(crate) const MOST_CANDIDATES: usize = 64;
const MOST_FINGERPRINTS: usize = 16;
/// A check names the user fragments of both sides and a colon. The library for ICE panics if that is longer than 128 bytes; the fragment of
/// this side has 16.
const MOST_FRAGMENT: usize = 128 - 1 - 16;

/// The largest message if a peer announces none (RFC 8841 §6.1).
const DEFAULT_MAX_MESSAGE: usize = 64 << 10;

/// The address and port of a section whose candidates are not known (RFC 9429 §5.2.1).
const NO_CANDIDATE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9);
/// The address and port of a section that is rejected (RFC 3264 §6).
const REJECTED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The part of a peer in the DTLS handshake (RFC 8842 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// Client or server, as the answer chooses.
    ActPass,
    /// Client.
    Active,
    /// Server.
    Passive,
}

/// The reason why an offer or answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SdpError {
    /// The text is too long.
    #[error("the description has more than 64 KiB, 32 sections or 16 fingerprints")]
    TooLong,
    /// The text is no SDP (RFC 8866).
    #[error(
        "line {0} is not of the form type=value, or not of the form `m=` media type, port, protocol, formats"
    )]
    Line(usize),
    /// There is no section for data channels.
    #[error(
        "there is no section `m=application … UDP/DTLS/SCTP webrtc-datachannel`; create a data channel before the offer"
    )]
    NoDataChannel,
    /// The section for data channels, or the SCTP port in it, has port 0 (RFC 3264 §6, RFC 8841 §10).
    #[error("the peer rejected the data channels: they have port 0")]
    Rejected,
    /// An attribute is missing or wrong, or it has several values although it may have only one.
    #[error("the attribute `a={0}` is missing, wrong or ambiguous")]
    Attribute(&'static str),
    /// No fingerprint of the peer's certificate is one of SHA-256 (RFC 8122 §5).
    #[error("no attribute `a=fingerprint` is of sha-256, the only known hash")]
    Hash,
    /// The peers cannot agree on who is the DTLS client.
    #[error("the attribute `a=setup` of offer and answer do not fit together")]
    Setup,
    /// The answer has not the sections of the offer, each with its protocol and its identification (RFC 9429 §5.8.3).
    #[error("the answer has other sections than the offer")]
    Sections,
}

/// The addresses at which the peer of this offer or answer says that it receives. On a machine with several addresses, a socket can be bound
/// to one that the peer reaches. Names of mDNS are left out: only a browser that may use the camera announces addresses instead.
///
/// # Errors
/// The description cannot be used.
pub fn candidate_addresses(description: &str) -> Result<Vec<SocketAddr>, SdpError> {
    let candidates = Description::read(description)?.candidates;
    Ok(candidates.iter().map(Candidate::addr).collect())
}

/// The candidate of a line; `None` if it cannot be used, or ends the list.
pub(crate) fn candidate_of(line: &str) -> Result<Option<Candidate>, SdpError> {
    let line = line.trim();
    let attribute = line.strip_prefix("a=").unwrap_or(line);
    if attribute.is_empty() || attribute == "end-of-candidates" {
        return Ok(None);
    }
    let is_candidate = attribute.starts_with("candidate:") && attribute.split(' ').nth(6) == Some("typ");
    if !is_candidate {
        return Err(SdpError::Attribute("candidate"));
    }
    Ok(read_candidate(line))
}

/// Reads a candidate (RFC 8839 §5.1), with or without `a=` and `candidate:` before it. `None` of a candidate that cannot be used: over TCP,
/// of another component than the first, with a name of mDNS, or with an address that is not that of one host. If the peer has such an address,
/// its checks show it.
fn read_candidate(line: &str) -> Option<Candidate> {
    let line = line.trim();
    let line = line.strip_prefix("a=").unwrap_or(line);
    let line = line.strip_prefix("candidate:").unwrap_or(line);
    let component = line.split_ascii_whitespace().nth(1)?;
    let candidate = Candidate::from_sdp_string(&format!("candidate:{line}")).ok()?;
    let (ip, port) = (candidate.addr().ip(), candidate.addr().port());
    let is_host = !ip.is_unspecified() && !ip.is_multicast() && ip != Ipv4Addr::BROADCAST && port > 0;
    (candidate.proto() == Protocol::Udp && component == "1" && is_host).then_some(candidate)
}

/// A description of one peer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Description {
    pub(crate) credentials: IceCreds,
    pub(crate) is_lite: bool,
    /// The peer's certificate has one of them.
    pub(crate) fingerprints: Vec<Fingerprint>,
    pub(crate) setup: Setup,
    pub(crate) sctp_port: u16,
    pub(crate) max_message: usize,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) sections: Sections,
}

/// The sections of an offer, which the answer has in the same order, and the options that an answer has only if the offer has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sections {
    list: Vec<Section>,
    /// The place of the section of the data channels.
    data: usize,
    /// The place of the section with the attributes of ICE and DTLS. All sections but these two are rejected.
    transport: usize,
    /// Whether the section of the data channels is in a BUNDLE group.
    is_bundled: bool,
    /// Whether the peer takes candidates later (RFC 8840).
    pub(crate) trickle: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Section {
    media: String,
    /// The protocol and the formats.
    formats: String,
    /// The identification (RFC 5888).
    mid: Option<String>,
    /// Lines about the formats.
    lines: Vec<String>,
}

impl Sections {
    /// Those of an offer of this side.
    pub(crate) fn alone() -> Self {
        Self {
            list: vec![Section {
                media: "application".to_owned(),
                formats: "UDP/DTLS/SCTP webrtc-datachannel".to_owned(),
                mid: Some("0".to_owned()),
                lines: Vec::new(),
            }],
            data: 0,
            transport: 0,
            is_bundled: true,
            trickle: true,
        }
    }

    /// Whether an answer with these sections fits this offer.
    ///
    /// # Errors
    /// [`SdpError::Sections`].
    pub(crate) fn check_answer(&self, offer: &Self) -> Result<(), SdpError> {
        let fits = self.data == offer.data
            && self.list.len() == offer.list.len()
            && self.list.iter().zip(&offer.list).all(|(answered, offered)| {
                answered.media == offered.media
                    && answered.protocol() == offered.protocol()
                    && (answered.mid.is_none() || answered.mid == offered.mid)
            });
        fits.then_some(()).ok_or(SdpError::Sections)
    }
}

impl Section {
    fn protocol(&self) -> Option<&str> {
        self.formats.split(' ').next()
    }

    fn write(&self, text: &mut String, address: SocketAddr) {
        let Self { media, formats, .. } = self;
        let (family, ip, port) = (
            if address.is_ipv4() { 4 } else { 6 },
            address.ip(),
            address.port(),
        );
        let _ = write!(text, "m={media} {port} {formats}\r\nc=IN IP{family} {ip}\r\n");
        if let Some(mid) = &self.mid {
            let _ = write!(text, "a=mid:{mid}\r\n");
        }
    }

    fn write_inactive(&self, text: &mut String) {
        text.push_str("a=inactive\r\n");
        for line in &self.lines {
            let _ = write!(text, "a={line}\r\n");
        }
    }
}

impl Setup {
    fn read(text: &str) -> Option<Self> {
        match text {
            "actpass" => Some(Self::ActPass),
            "active" => Some(Self::Active),
            "passive" => Some(Self::Passive),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::ActPass => "actpass",
            Self::Active => "active",
            Self::Passive => "passive",
        }
    }
}

impl Description {
    /// Reads an offer or an answer.
    pub(crate) fn read(text: &str) -> Result<Self, SdpError> {
        let text = Text::read(text)?;
        let (data, transport) = text.data()?;
        let own = &text.sections[data].attributes;
        let shared = &text.sections[transport].attributes;
        // A section has those attributes of the session that it does not have itself (RFC 9429 §5.8).
        let places = [shared, &text.session];
        let needed = |name: &'static str| {
            let value = match places[0].one(name)? {
                None => places[1].one(name)?,
                value => value,
            };
            value.ok_or(SdpError::Attribute(name))
        };
        let credential = |name: &'static str, lengths: std::ops::RangeInclusive<usize>| {
            let value = needed(name)?;
            let fits = lengths.contains(&value.len()) && value.bytes().all(|c| c.is_ascii_graphic());
            fits.then(|| value.to_owned()).ok_or(SdpError::Attribute(name))
        };
        let max_message = match own.one("max-message-size")?.map(number) {
            None => DEFAULT_MAX_MESSAGE,
            // No limit (RFC 8841 §6).
            Some(Some(0)) => usize::MAX,
            Some(limit) => limit.ok_or(SdpError::Attribute("max-message-size"))?,
        };
        // RFC 8841 §5.1: there is no default.
        let port = own.one("sctp-port")?.and_then(number);
        let sctp_port = port
            .and_then(|port| u16::try_from(port).ok())
            .ok_or(SdpError::Attribute("sctp-port"))?;
        if sctp_port == 0 {
            return Err(SdpError::Rejected);
        }
        let mut options = places.iter().flat_map(|place| place.all("ice-options"));
        let list = text.sections.iter().map(|section| Section {
            media: section.media.to_owned(),
            formats: section.formats.to_owned(),
            mid: section.mid.map(str::to_owned),
            lines: section.attributes.of_formats().map(str::to_owned).collect(),
        });
        Ok(Self {
            // RFC 8839 §5.4.
            credentials: IceCreds {
                ufrag: credential("ice-ufrag", 4..=MOST_FRAGMENT)?,
                pass: credential("ice-pwd", 22..=256)?,
            },
            is_lite: text.session.has("ice-lite"),
            fingerprints: fingerprints(places)?,
            setup: Setup::read(needed("setup")?).ok_or(SdpError::Attribute("setup"))?,
            sctp_port,
            max_message,
            candidates: shared
                .all("candidate")
                .filter_map(read_candidate)
                .take(MOST_CANDIDATES)
                .collect(),
            sections: Sections {
                list: list.collect(),
                data,
                transport,
                is_bundled: text.is_bundled(data),
                trickle: options.any(|line| line.split(' ').any(|option| option == "trickle")),
            },
        })
    }

    /// The text of an offer or an answer: the one of this version in the session with this number.
    ///
    /// If the data channels are on the transport of another section, that section is not rejected, because a group without its first section
    /// has no transport (RFC 9143 §7.3.1). It is inactive: neither side sends RTP (RFC 3264 §6.1).
    pub(crate) fn write(&self, id: u64, version: u64) -> String {
        let Sections {
            list,
            data,
            transport,
            ..
        } = &self.sections;
        let mut text = format!("v=0\r\no=- {id} {version} IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n");
        if self.sections.is_bundled {
            // Rejected sections are in no group (RFC 9143 §7.3.3), and the first section has the transport (§7.3.1).
            let second = Some(data).filter(|data| *data != transport);
            let places = std::iter::once(transport).chain(second);
            let mids = places.filter_map(|place| list[*place].mid.as_deref());
            let _ = write!(text, "a=group:BUNDLE {}\r\n", mids.collect::<Vec<_>>().join(" "));
        }
        if self.is_lite {
            text.push_str("a=ice-lite\r\n");
        }
        if self.sections.trickle {
            text.push_str("a=ice-options:trickle\r\n");
        }
        for (place, section) in list.iter().enumerate() {
            let (is_data, is_transport) = (place == *data, place == *transport);
            let is_rejected = !is_data && !is_transport;
            let address = if is_rejected {
                REJECTED
            } else {
                self.default_address()
            };
            section.write(&mut text, address);
            // RFC 9143 §7.1.3 wants these attributes in the section with the transport alone. But browsers write them in all sections, Firefox
            // 153 crashes if they are missing in a bundled one, and aiortc looks for them in rejected ones.
            self.write_transport(&mut text);
            if is_data {
                let (port, max_message) = (self.sctp_port, self.max_message);
                let _ = write!(text, "a=sctp-port:{port}\r\na=max-message-size:{max_message}\r\n");
            } else {
                section.write_inactive(&mut text);
            }
            for candidate in self.candidates.iter().filter(|_| is_transport) {
                let line = candidate.to_sdp_string();
                let line = line.strip_prefix("a=").unwrap_or(&line);
                let _ = write!(text, "a={line}\r\n");
            }
            text.push_str("a=end-of-candidates\r\n");
        }
        text
    }

    /// The address of the default candidate (RFC 8839 §4.2): one of IPv4, which more peers have.
    fn default_address(&self) -> SocketAddr {
        let mut addresses = self.candidates.iter().map(Candidate::addr);
        let first = addresses.clone().next().unwrap_or(NO_CANDIDATE);
        addresses.find(SocketAddr::is_ipv4).unwrap_or(first)
    }

    /// Writes the attributes of ICE and DTLS. Rejected sections have them too, because aiortc looks for them and for the formats in every section
    /// of an answer, whatever the port is.
    fn write_transport(&self, text: &mut String) {
        let IceCreds { ufrag, pass } = &self.credentials;
        let _ = write!(text, "a=ice-ufrag:{ufrag}\r\na=ice-pwd:{pass}\r\n");
        for fingerprint in &self.fingerprints {
            let _ = write!(text, "a=fingerprint:sha-256 {fingerprint}\r\n");
        }
        let _ = write!(text, "a=setup:{}\r\n", self.setup.text());
    }
}

/// The fingerprints of the first of these places that has some. RFC 8122 §5: the certificate must have one of those of the strongest known
/// hash. SHA-256 is the only known hash.
fn fingerprints(places: [&Attributes; 2]) -> Result<Vec<Fingerprint>, SdpError> {
    const NAME: &str = "fingerprint";
    let lines = places
        .into_iter()
        .map(|place| place.all(NAME).collect::<Vec<_>>());
    let lines = lines.into_iter().find(|lines| !lines.is_empty());
    let mut known: Vec<Fingerprint> = Vec::new();
    for line in lines.ok_or(SdpError::Attribute(NAME))? {
        let (hash, digest) = line.split_once(' ').ok_or(SdpError::Attribute(NAME))?;
        if !hash.eq_ignore_ascii_case("sha-256") {
            continue;
        }
        let fingerprint = digest.parse().map_err(|_| SdpError::Attribute(NAME))?;
        if known.len() >= MOST_FINGERPRINTS {
            return Err(SdpError::TooLong);
        }
        known.push(fingerprint);
    }
    if known.is_empty() {
        return Err(SdpError::Hash);
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Description {
        Description {
            credentials: IceCreds {
                ufrag: "abcd".to_owned(),
                pass: "0123456789012345678901".to_owned(),
            },
            is_lite: true,
            fingerprints: vec![Fingerprint::of(b"certificate"), Fingerprint::of(b"next")],
            setup: Setup::Passive,
            sctp_port: 5000,
            max_message: 262_144,
            candidates: vec![Candidate::host("192.0.2.1:9".parse().unwrap(), "udp").unwrap()],
            sections: Sections::alone(),
        }
    }

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let text = example().write(7, 1);
        let read = Description::read(&text).unwrap();
        assert_eq!(read.write(7, 1), text);
        assert_eq!(
            candidate_addresses(&text),
            Ok(vec!["192.0.2.1:9".parse().unwrap()])
        );
        assert_eq!((read.is_lite, read.max_message), (true, 262_144));
    }

    /// An offer of Chromium with video, shortened: its candidate has a name of mDNS.
    #[test]
    fn the_offer_of_a_browser() {
        let print = Fingerprint::of(b"x");
        let offer = format!(
            "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\na=extmap-allow-mixed\r\n\
             m=video 9 UDP/TLS/RTP/SAVPF 96 97\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=ice-ufrag:wrong\r\n\
             m=application 55000 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n\
             a=candidate:1 1 udp 2113937151 0a0b0c0d-0000-0000-0000-000000000000.local 55000 typ host generation 0\r\n\
             a=ice-ufrag:yQrI\r\na=ice-pwd:0123456789012345678901ab\r\na=ice-options:trickle\r\n\
             a=fingerprint:sha-256 {print}\r\na=setup:actpass\r\na=mid:1\r\na=sctp-port:5000\r\na=max-message-size:262144\r\n"
        );
        let read = Description::read(&offer).unwrap();
        assert_eq!(
            (read.credentials.ufrag.as_str(), read.setup),
            ("yQrI", Setup::ActPass)
        );
        assert!(read.candidates.is_empty());
        let answer = Description {
            sections: read.sections,
            ..example()
        }
        .write(1, 1);
        assert!(
            answer.contains(
                "a=group:BUNDLE 1\r\na=ice-lite\r\na=ice-options:trickle\r\nm=video 0 UDP/TLS/RTP/SAVPF 96 97\r\n\
                 c=IN IP4 0.0.0.0\r\na=mid:0\r\n"
            ),
            "{answer}"
        );
        assert!(
            answer.contains(
                "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 192.0.2.1\r\na=mid:1\r\n"
            ),
            "{answer}"
        );
    }

    /// Without candidates, the section has an address that nobody has, so that a peer waits for candidates (RFC 8840 §4.1).
    #[test]
    fn a_description_without_candidates() {
        let none = Description {
            candidates: Vec::new(),
            ..example()
        };
        let text = none.write(1, 1);
        let section = "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n";
        assert!(text.contains(section), "{text}");
        assert_eq!(Description::read(&text), Ok(none));
    }

    #[test]
    fn a_candidate_is_read_from_its_line() {
        let line = "1 1 udp 2122252543 2001:db8::1 50000 typ srflx raddr 10.0.0.1 rport 9 generation 0";
        for prefix in ["", "candidate:", "a=candidate:"] {
            let candidate = read_candidate(&format!("{prefix}{line}\r\n")).expect(prefix);
            assert_eq!(candidate.addr(), "[2001:db8::1]:50000".parse().unwrap());
        }
        for line in ["", "candidate:", "a=", "1 1", "a=end-of-candidates"] {
            assert!(read_candidate(line).is_none(), "{line}");
        }
    }

    proptest::proptest! {
        /// An answer to any offer that can be read has the offer's sections, and the peer can read it.
        #[test]
        fn an_answer_can_be_read(choices in proptest::collection::vec(0..22usize, 0..40)) {
            let print = format!("fingerprint:sha-256 {}", Fingerprint::of(b"x"));
            let lines = [
                "a=group:BUNDLE a d", "a=group:BUNDLE d a e", "a=mid:a", "a=mid:d", "a=mid:e", "a=bundle-only", "a=setup:actpass",
                "a=ice-ufrag:abcd", "a=ice-ufrag:efgh", "a=ice-pwd:0123456789012345678901", "a=sctp-port:5000", "a=sctp-port:0",
                "a=ice-options:trickle", "a=rtcp-mux", "a=rtpmap:96 VP8/90000", "a=candidate:1 1 udp 1 192.0.2.1 9 typ host",
                "m=video 9 UDP/TLS/RTP/SAVPF 96", "m=video 0 UDP/TLS/RTP/SAVPF 96", "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
                "m=application 0 UDP/DTLS/SCTP webrtc-datachannel", "m=application 9 TCP/DTLS/SCTP webrtc-datachannel", "a=ice-lite",
            ];
            // Most offers without these attributes would be errors.
            let session = format!("a={print}\r\na=setup:actpass\r\na=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\n");
            let chosen: String = choices.iter().map(|choice| format!("{}\r\n", lines[*choice])).collect();
            if let Ok(offer) = Description::read(&format!("{session}{chosen}")) {
                let answer = Description { sections: offer.sections.clone(), ..example() };
                let read = Description::read(&answer.write(1, 1));
                proptest::prop_assert!(read.is_ok(), "{read:?}: {chosen}");
                let read = read.unwrap();
                proptest::prop_assert_eq!(read.sections.check_answer(&offer.sections), Ok(()));
                proptest::prop_assert_eq!(read.candidates.len(), 1);
                proptest::prop_assert_eq!(&read.fingerprints, &answer.fingerprints);
                proptest::prop_assert_eq!(read.sections.is_bundled, offer.sections.is_bundled);
            }
        }
    }

    #[test]
    fn errors_name_the_line_or_the_attribute() {
        let good = example().write(1, 1);
        let cases = [
            ("a=setup:passive\r\n", "", SdpError::Attribute("setup")),
            (
                "a=setup:passive",
                "a=setup:holdconn",
                SdpError::Attribute("setup"),
            ),
            (
                "a=ice-ufrag:abcd",
                "a=ice-ufrag:a",
                SdpError::Attribute("ice-ufrag"),
            ),
            (
                "a=ice-pwd:0123",
                "a=ice-pwd:\u{1}123",
                SdpError::Attribute("ice-pwd"),
            ),
            ("a=fingerprint:sha-256", "a=fingerprint:sha-1", SdpError::Hash),
            ("a=sctp-port:5000", "a=sctp-port:0", SdpError::Rejected),
            (
                "a=sctp-port:5000",
                "a=sctp-port:70000",
                SdpError::Attribute("sctp-port"),
            ),
            (
                "a=max-message-size:262144",
                "a=max-message-size:-1",
                SdpError::Attribute("max-message-size"),
            ),
            ("webrtc-datachannel", "other", SdpError::NoDataChannel),
            ("s=-", "nothing", SdpError::Line(3)),
        ];
        for (from, to, expected) in cases {
            let text = good.replace(from, to);
            assert_ne!(text, good, "{from}");
            assert_eq!(Description::read(&text), Err(expected), "{to}");
        }
        assert_eq!(Description::read(""), Err(SdpError::NoDataChannel));
        assert_eq!(
            Description::read(&"m=audio 9 x y\r\n".repeat(33)),
            Err(SdpError::TooLong)
        );
        assert_eq!(
            Description::read(&"a=x\r\n".repeat(20_000)),
            Err(SdpError::TooLong)
        );
    }
}
