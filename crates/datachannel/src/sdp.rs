//! Offers and answers (RFC 8866, RFC 9429) for data channels alone: the one section `m=application … webrtc-datachannel` (RFC 8841). An offer
//! may have other sections; the answer rejects them.

use std::fmt::Write;
use std::net::SocketAddr;

use anabranch_dtls::Fingerprint;
use is::{Candidate, IceCreds};

/// Limits of what a peer may send.
const MOST_BYTES: usize = 64 << 10;
pub(crate) const MOST_CANDIDATES: usize = 64;
const MOST_SECTIONS: usize = 32;

/// The largest message if a peer announces none (RFC 8841 §6.1).
const DEFAULT_MAX_MESSAGE: usize = 64 << 10;

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
    #[error("the description has more than 64 KiB, or too many sections")]
    TooLong,
    /// The text is no SDP.
    #[error("line {0} is not of the form type=value")]
    Line(usize),
    /// There is no section for data channels.
    #[error(
        "there is no section `m=application … UDP/DTLS/SCTP webrtc-datachannel`; create a data channel before the offer"
    )]
    NoDataChannel,
    /// An attribute is missing or wrong.
    #[error("the attribute `a={0}` is missing or wrong")]
    Attribute(&'static str),
    /// The peers cannot agree on who is the DTLS client.
    #[error("the attribute `a=setup` of offer and answer do not fit together")]
    Setup,
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

/// A description of one peer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Description {
    pub(crate) credentials: IceCreds,
    pub(crate) is_lite: bool,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) setup: Setup,
    pub(crate) sctp_port: u16,
    pub(crate) max_message: usize,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) sections: Sections,
}

/// The sections of an offer, which the answer has in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sections {
    /// The first line of each section after `m=`.
    lines: Vec<String>,
    /// The section of the data channels, and its identification.
    data: usize,
    mid: String,
}

impl Sections {
    /// Those of an offer of this side.
    pub(crate) fn alone() -> Self {
        Self {
            lines: vec!["application 9 UDP/DTLS/SCTP webrtc-datachannel".to_owned()],
            data: 0,
            mid: "0".to_owned(),
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
        if text.len() > MOST_BYTES {
            return Err(SdpError::TooLong);
        }
        let mut lines = Vec::new();
        // The attributes before the first section, and those of the section of the data channels.
        let (mut session, mut media) = (Vec::new(), Vec::new());
        let mut data = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            let (kind, value) = line
                .split_once('=')
                .filter(|(kind, _)| kind.len() == 1)
                .ok_or(SdpError::Line(number + 1))?;
            match kind {
                "m" => {
                    if lines.len() >= MOST_SECTIONS {
                        return Err(SdpError::TooLong);
                    }
                    if data.is_none() && is_data(value) {
                        data = Some(lines.len());
                    }
                    lines.push(value.to_owned());
                }
                "a" if lines.is_empty() => session.push(value),
                "a" if data == Some(lines.len() - 1) => media.push(value),
                _ => {}
            }
        }
        let data = data.ok_or(SdpError::NoDataChannel)?;
        let attribute = |name: &'static str| {
            let of = |list: &[&'_ str]| {
                list.iter()
                    .find_map(|line| value_of(line, name))
                    .map(str::to_owned)
            };
            of(&media).or_else(|| of(&session))
        };
        let needed = |name: &'static str| attribute(name).ok_or(SdpError::Attribute(name));
        let credential = |name: &'static str, lengths: std::ops::RangeInclusive<usize>| {
            let value = needed(name)?;
            let fits = lengths.contains(&value.len()) && value.bytes().all(|c| c.is_ascii_graphic());
            fits.then_some(value).ok_or(SdpError::Attribute(name))
        };
        let number = |name: &'static str, default: usize| match attribute(name) {
            None => Ok(default),
            Some(text) => text.parse::<usize>().map_err(|_| SdpError::Attribute(name)),
        };
        let port = number("sctp-port", 5000)?;
        let max_message = match number("max-message-size", DEFAULT_MAX_MESSAGE)? {
            // No limit (RFC 8841 §6).
            0 => usize::MAX,
            limit => limit,
        };
        let candidates = media.iter().filter(|line| line.starts_with("candidate:"));
        let setup = needed("setup")?;
        Ok(Self {
            // RFC 8839 §5.4.
            credentials: IceCreds {
                ufrag: credential("ice-ufrag", 4..=256)?,
                pass: credential("ice-pwd", 22..=256)?,
            },
            is_lite: session.contains(&"ice-lite"),
            fingerprint: needed("fingerprint")?
                .parse()
                .map_err(|_| SdpError::Attribute("fingerprint"))?,
            setup: Setup::read(&setup).ok_or(SdpError::Attribute("setup"))?,
            sctp_port: u16::try_from(port)
                .ok()
                .filter(|port| *port > 0)
                .ok_or(SdpError::Attribute("sctp-port"))?,
            max_message,
            // Names of mDNS and candidates over TCP are skipped: the peer's checks show its address.
            candidates: candidates
                .filter_map(|line| Candidate::from_sdp_string(line).ok())
                .take(MOST_CANDIDATES)
                .collect(),
            sections: Sections {
                lines,
                data,
                mid: attribute("mid").unwrap_or_else(|| "0".to_owned()),
            },
        })
    }

    /// The text of an offer or an answer: the one with this version in the session of this number.
    pub(crate) fn write(&self, id: u64, version: u64) -> String {
        let mut text = format!(
            "v=0\r\no=- {id} {version} IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE {}\r\n",
            self.sections.mid
        );
        if self.is_lite {
            text.push_str("a=ice-lite\r\n");
        }
        for (place, line) in self.sections.lines.iter().enumerate() {
            if place == self.sections.data {
                self.write_data(&mut text);
            } else {
                // Port 0 rejects a section (RFC 3264 §6).
                let mut words = line.split(' ');
                let kind = words.next().unwrap_or("audio");
                let rest: Vec<&str> = words.skip(1).collect();
                let _ = write!(
                    text,
                    "m={kind} 0 {}\r\nc=IN IP4 0.0.0.0\r\na=inactive\r\n",
                    rest.join(" ")
                );
            }
        }
        text
    }

    fn write_data(&self, text: &mut String) {
        let Self {
            credentials,
            fingerprint,
            ..
        } = self;
        let _ = write!(
            text,
            "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:{}\r\na=ice-ufrag:{}\r\n\
             a=ice-pwd:{}\r\na=fingerprint:sha-256 {fingerprint}\r\na=setup:{}\r\na=sctp-port:{}\r\na=max-message-size:{}\r\n",
            self.sections.mid,
            credentials.ufrag,
            credentials.pass,
            self.setup.text(),
            self.sctp_port,
            self.max_message,
        );
        for candidate in &self.candidates {
            let line = candidate.to_sdp_string();
            let line = line.strip_prefix("a=").unwrap_or(&line);
            let _ = write!(text, "a={line}\r\n");
        }
        text.push_str("a=end-of-candidates\r\n");
    }
}

/// Whether a section is for data channels (RFC 8841 §4).
fn is_data(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    matches!(
        words[..],
        [
            "application",
            _,
            "UDP/DTLS/SCTP" | "TCP/DTLS/SCTP",
            "webrtc-datachannel"
        ]
    )
}

/// The value of an attribute `name:value`.
fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name)?.strip_prefix(':').map(str::trim)
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
            fingerprint: Fingerprint::of(b"certificate"),
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
            answer.contains("a=group:BUNDLE 1\r\na=ice-lite\r\nm=video 0 UDP/TLS/RTP/SAVPF 96 97\r\n"),
            "{answer}"
        );
        assert!(
            answer.contains(
                "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:1\r\n"
            ),
            "{answer}"
        );
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
            (
                "a=fingerprint:sha-256",
                "a=fingerprint:sha-1",
                SdpError::Attribute("fingerprint"),
            ),
            (
                "a=sctp-port:5000",
                "a=sctp-port:0",
                SdpError::Attribute("sctp-port"),
            ),
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
