//! Offers and answers that the input changes, and the one of the hostile peer.

use is::IceCreds;

use crate::input::Input;

/// Lines that replace others or come between them.
const LINES: [&str; 50] = [
    "",
    "x",
    "a=",
    "=",
    "v=1",
    "c=IN IP6 ::",
    "b=AS:1",
    "a=ice-lite",
    "a=ice-options:trickle renomination",
    "a=ice-ufrag:abc",
    "a=ice-ufrag:other",
    "a=ice-pwd:0123456789012345678901",
    "a=ice-mismatch",
    "a=remote-candidates:1 10.0.0.2 4001",
    "a=setup:active",
    "a=setup:passive",
    "a=setup:actpass",
    "a=setup:holdconn",
    "a=tls-id:0123456789012345678901",
    "a=fingerprint:sha-1 00:11:22",
    "a=fingerprint:sha-256 00:11:22",
    "a=fingerprint:sha-512 00",
    "a=sctp-port:1",
    "a=sctp-port:0",
    "a=sctp-port:65536",
    "a=sctpmap:5000 webrtc-datachannel 256",
    "a=max-message-size:0",
    "a=max-message-size:1",
    "a=max-message-size:18446744073709551615",
    "a=max-message-size:18446744073709551616",
    "a=group:BUNDLE 0 1",
    "a=bundle-only",
    "a=extmap-allow-mixed",
    "a=mid:1",
    "a=mid:\u{fc}\u{1f600}",
    "a=inactive",
    "a=end-of-candidates",
    "m=audio 9 UDP/TLS/RTP/SAVPF 111",
    "m=application 0 UDP/DTLS/SCTP webrtc-datachannel",
    "m=application 9 TCP/DTLS/SCTP webrtc-datachannel",
    "m=application 9 DTLS/SCTP 5000",
    "a=candidate:1 1 udp 4294967295 10.0.0.2 4001 typ host",
    "a=candidate:2 1 udp 1 10.0.0.3 9 typ srflx raddr 0.0.0.0 rport 0",
    "a=candidate:3 1 tcp 1 10.0.0.2 9 typ host tcptype active",
    "a=candidate:4 1 udp 1 [::1] 9 typ host",
    "a=candidate:5 1 udp 1 2001:db8::1 9 typ relay raddr :: rport 0",
    "a=candidate:6 2 udp 1 10.0.0.2 4001 typ host ufrag other",
    "a=candidate:7 1 udp 1 0.0.0.0 0 typ prflx",
    "a=candidate:8 1 udp 1 255.255.255.255 65535 typ host",
    "a=candidate:9 1 udp 1 0a0b0c0d.local 9 typ host generation 0",
];

/// A line of the dictionary, or any text.
pub(super) fn line<'a>(input: &mut Input<'a>) -> std::borrow::Cow<'a, str> {
    match usize::from(input.u8()) {
        number if number < LINES.len() => LINES[number].into(),
        len => String::from_utf8_lossy(input.take(len & 63)),
    }
}

/// Changes a description as often as the input says, most often not at all.
pub(super) fn change(text: &str, input: &mut Input<'_>) -> String {
    let mut lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
    for _ in 0..input.u8() & 7 {
        let bits = input.u8();
        let at = usize::from(input.u8()) % lines.len();
        let line = |input: &mut Input<'_>| LINES[usize::from(input.u8()) % LINES.len()].to_owned();
        match bits & 7 {
            0 if lines.len() > 1 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = usize::from(input.u8()) % lines.len();
                lines.swap(at, other);
            }
            3 => lines[at] = line(input),
            4 => lines.insert(at, line(input)),
            5 => {
                // A longer value, or a line often.
                let count = usize::from(input.u8());
                if bits & 0x80 == 0 {
                    let last = lines[at].pop().unwrap_or('x');
                    lines[at].extend(std::iter::repeat_n(last, 1 + count));
                } else {
                    let again = vec![lines[at].clone(); count];
                    lines.splice(at..at, again);
                }
            }
            6 => {
                let place = usize::from(input.u8());
                let mut characters: Vec<char> = lines[at].chars().collect();
                if !characters.is_empty() {
                    let place = place % characters.len();
                    characters[place] = char::from(input.u8());
                }
                lines[at] = characters.into_iter().collect();
            }
            _ => lines.truncate(at.max(1)),
        }
    }
    lines.join("\r\n")
}

/// The value of the first attribute of this name.
pub(super) fn attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix("a=")?.strip_prefix(name)?.strip_prefix(':');
    text.lines().find_map(value)
}

/// The credentials of a description.
pub(super) fn credentials(text: &str) -> IceCreds {
    let value = |name| attribute(text, name).unwrap_or_default().to_owned();
    IceCreds {
        ufrag: value("ice-ufrag"),
        pass: value("ice-pwd"),
    }
}

/// The description of a peer at 10.0.0.2.
pub(super) fn description(credentials: &IceCreds, fingerprint: &str, setup: &str, lite: bool) -> String {
    let IceCreds { ufrag, pass } = credentials;
    let lite = if lite { "a=ice-lite\r\n" } else { "" };
    format!(
        "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n{lite}\
         m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=ice-ufrag:{ufrag}\r\n\
         a=ice-pwd:{pass}\r\na=fingerprint:sha-256 {fingerprint}\r\na=setup:{setup}\r\na=sctp-port:5000\r\n\
         a=max-message-size:262144\r\na=candidate:1 1 udp 2130706431 10.0.0.2 4001 typ host\r\na=end-of-candidates\r\n"
    )
}
