//! Offers of peers with other sections than ours, and the answers to them (RFC 9429, RFC 8841, RFC 9143).

use std::net::SocketAddr;

use anabranch_datachannel::{Session, SessionConfig, SessionError, candidate_addresses};
use anabranch_dtls::{Certificate, Fingerprint};
use anabranch_proto::Timestamp;

/// The part of an offer before its sections, without a BUNDLE group.
const SESSION: &str = "v=0\r\no=- 1 2 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n";
const BUNDLE: &str = "a=group:BUNDLE a d\r\n";
const AUDIO: &str = "m=audio 9 UDP/TLS/RTP/SAVPF 111 0\r\nc=IN IP4 0.0.0.0\r\na=mid:a\r\na=rtpmap:111 opus/48000/2\r\na=sendrecv\r\n";
const DATA: &str =
    "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:d\r\na=sctp-port:5000\r\n";
const BUNDLE_ONLY: &str = "m=application 0 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=bundle-only\r\na=mid:d\r\na=sctp-port:5000\r\n";

/// The transport attributes of a section, with an address whose last byte is `number`.
fn transport(number: u8) -> String {
    format!(
        "a=ice-ufrag:user{number}\r\na=ice-pwd:0123456789012345678901\r\n{}a=setup:actpass\r\n\
         a=candidate:1 1 UDP 2122252543 192.0.2.{number} 50000 typ host\r\n",
        fingerprint()
    )
}

fn fingerprint() -> String {
    format!("a=fingerprint:sha-256 {}\r\n", Fingerprint::of(b"a certificate"))
}

fn config() -> SessionConfig {
    let local: SocketAddr = "192.0.2.200:4000".parse().unwrap();
    SessionConfig::new(Certificate::generate().unwrap(), [local])
}

fn answer(offer: &str) -> String {
    match Session::answer(Timestamp::ZERO, config(), offer) {
        Ok((_, answer)) => answer,
        Err(error) => panic!("{error}: {offer}"),
    }
}

/// The error of an offer.
fn error(offer: &str) -> String {
    let result = Session::answer(Timestamp::ZERO, config(), offer);
    result.expect_err(offer).to_string()
}

/// The part of an answer before its sections, and each section.
fn sections(description: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in description.split_inclusive("\r\n") {
        if line.starts_with("m=") {
            parts.push(String::new());
        }
        parts.last_mut().unwrap().push_str(line);
    }
    parts
}

/// RFC 9143 §7.3.3, RFC 5888 §7: only accepted sections are in the group, and each section keeps its identification.
#[test]
fn a_rejected_section_keeps_its_identification() {
    let answer = answer(&format!("{SESSION}{BUNDLE}{AUDIO}{0}{DATA}{0}", transport(1)));
    let parts = sections(&answer);
    assert!(parts[0].contains("a=group:BUNDLE d\r\n"), "{answer}");
    assert!(
        parts[1].starts_with("m=audio 0 UDP/TLS/RTP/SAVPF 111 0\r\n"),
        "{answer}"
    );
    for line in ["a=mid:a\r\n", "a=inactive\r\n", "a=rtpmap:111 opus/48000/2\r\n"] {
        assert!(parts[1].contains(line), "{answer}");
    }
    assert!(
        parts[2].starts_with("m=application 4000 UDP/DTLS/SCTP webrtc-datachannel\r\n"),
        "{answer}"
    );
    assert!(parts[2].contains("a=mid:d\r\n"), "{answer}");
    assert_eq!(parts.len(), 3);
}

/// RFC 9429 §5.3.1: `mid` if and only if it is in the offer, and a group only if one was offered.
#[test]
fn the_answer_has_no_group_and_no_identification_that_the_offer_lacks() {
    let without_group = format!("{SESSION}{DATA}{}", transport(1));
    let answer_of = answer(&without_group);
    assert!(!answer_of.contains("a=group"), "{answer_of}");
    assert!(answer_of.contains("a=mid:d\r\n"), "{answer_of}");
    let answer_of = answer(&without_group.replace("a=mid:d\r\n", ""));
    assert!(!answer_of.contains("a=mid"), "{answer_of}");
    // The data channels are in no group.
    let answer_of = answer(&format!(
        "{SESSION}a=group:BUNDLE a\r\n{AUDIO}{0}{DATA}{0}",
        transport(1)
    ));
    assert!(!answer_of.contains("a=group"), "{answer_of}");
    // A group of another kind is no BUNDLE group.
    let answer_of = answer(&format!(
        "{SESSION}a=group:LS a d\r\n{AUDIO}{0}{DATA}{0}",
        transport(1)
    ));
    assert!(!answer_of.contains("a=group"), "{answer_of}");
}

/// RFC 9143 §7.1.3: the transport attributes are in the first section of the group that has a port.
#[test]
fn a_bundled_section_has_the_transport_of_its_group() {
    let rejected = AUDIO.replace("audio 9", "audio 0").replace("mid:a", "mid:v");
    for offer in [
        format!("{SESSION}{BUNDLE}{AUDIO}{}{BUNDLE_ONLY}", transport(1)),
        // The attributes of a bundle-only section have no meaning.
        format!(
            "{SESSION}{BUNDLE}{AUDIO}{}{BUNDLE_ONLY}{}",
            transport(1),
            transport(2)
        ),
        // Chromium, with the bundle policy `max-bundle`.
        format!(
            "{SESSION}{BUNDLE}{AUDIO}{0}{DATA}{1}",
            transport(1),
            transport(1).split_inclusive("\r\n").take(4).collect::<String>()
        ),
        // As in a later offer.
        format!("{SESSION}{BUNDLE}{AUDIO}{}{DATA}", transport(1)),
        // The order of the group counts, and a section with port 0 has no transport.
        format!(
            "{SESSION}a=group:BUNDLE v a d\r\n{BUNDLE_ONLY}{rejected}{}{AUDIO}{}",
            transport(2),
            transport(1)
        ),
    ] {
        let addresses = candidate_addresses(&offer).expect(&offer);
        assert_eq!(addresses, ["192.0.2.1:50000".parse().unwrap()], "{offer}");
        let answer = answer(&offer);
        let parts = sections(&answer);
        assert!(parts[0].contains("a=group:BUNDLE a d\r\n"), "{answer}");
        // The group's first section stays, and has the candidates alone.
        let of = |start: &str| parts.iter().find(|part| part.starts_with(start)).expect(start);
        let (audio, data) = (of("m=audio 4000 "), of("m=application 4000 "));
        assert!(
            audio.contains("a=ice-ufrag:") && data.contains("a=ice-ufrag:"),
            "{answer}"
        );
        for line in ["a=inactive", "a=rtpmap:111 opus/48000/2", "a=candidate:"] {
            assert!(audio.contains(line), "{answer}");
            assert!(!data.contains(line), "{answer}");
        }
        assert!(!answer.contains("bundle-only"), "{answer}");
        assert_eq!(offer.contains("m=audio 0 "), answer.contains("m=audio 0 "));
    }
    // A section with its own transport keeps it: the group's first section is rejected (RFC 9143 §7.3.1).
    let (session, candidate) = {
        let all = transport(2);
        let place = all.find("a=candidate").unwrap();
        (all[..place].to_owned(), all[place..].to_owned())
    };
    for own in [
        format!("{SESSION}{BUNDLE}{AUDIO}{}{DATA}{}", transport(1), transport(2)),
        format!(
            "{SESSION}{session}{BUNDLE}{AUDIO}a=candidate:1 1 UDP 1 192.0.2.1 1 typ host\r\n{DATA}{candidate}"
        ),
    ] {
        let addresses = candidate_addresses(&own).expect(&own);
        assert_eq!(addresses, ["192.0.2.2:50000".parse().unwrap()], "{own}");
        let answer = answer(&own);
        assert!(answer.contains("m=audio 0 "), "{answer}");
    }
    let trickled = format!("{SESSION}{BUNDLE}{AUDIO}{}{DATA}{session}", transport(1));
    assert!(candidate_addresses(&trickled).unwrap().is_empty());
}

/// RFC 3264 §6, RFC 9143 §6: port 0 without a group.
#[test]
fn rejected_data_channels_are_an_error() {
    let rejected = DATA.replace("application 9", "application 0");
    for offer in [
        format!("{SESSION}{rejected}{}", transport(1)),
        format!("{SESSION}{BUNDLE}{AUDIO}{0}{rejected}{0}", transport(1)),
        format!("{SESSION}{AUDIO}{0}{BUNDLE_ONLY}{0}", transport(1)),
        format!("{SESSION}a=group:BUNDLE d\r\n{BUNDLE_ONLY}{}", transport(1)),
        // RFC 8841 §9.3: no association.
        format!("{SESSION}{}{}", DATA.replace(":5000", ":0"), transport(1)),
    ] {
        let error = error(&offer);
        assert!(error.contains("rejected the data channels"), "{error}: {offer}");
    }
    let (mut session, offer) = Session::offer(Timestamp::ZERO, config()).unwrap();
    let (_, answer) = Session::answer(Timestamp::ZERO, config(), &offer).unwrap();
    let rejected = answer.replace("m=application 4000", "m=application 0");
    assert_ne!(rejected, answer);
    let error = session
        .accept_answer(Timestamp::ZERO, &rejected)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the peer rejected the data channels"), "{error}");
}

#[test]
fn of_several_data_sections_the_first_usable_one_is_answered() {
    let rejected = DATA
        .replace("application 9", "application 0")
        .replace("mid:d", "mid:r");
    let second = DATA.replace("mid:d", "mid:e");
    let answer = answer(&format!(
        "{SESSION}a=group:BUNDLE d e\r\n{rejected}{DATA}{}{second}{}",
        transport(1),
        transport(2)
    ));
    let ports: Vec<String> = sections(&answer)[1..]
        .iter()
        .map(|section| {
            let lines: Vec<&str> = section
                .lines()
                .filter(|line| line.starts_with("m=") || line.starts_with("a=mid"))
                .collect();
            lines.join(" ").replace("UDP/DTLS/SCTP webrtc-datachannel ", "")
        })
        .collect();
    assert_eq!(
        ports,
        [
            "m=application 0 a=mid:r",
            "m=application 4000 a=mid:d",
            "m=application 0 a=mid:e"
        ]
    );
    assert!(answer.contains("a=group:BUNDLE d\r\n"), "{answer}");
}

/// RFC 8122 §5: the fingerprints of a hash that is not known are skipped; if none is known, the error says so.
#[test]
fn fingerprints_of_unknown_hashes_are_skipped() {
    let data = format!("{SESSION}{DATA}{}", transport(1));
    let with = |lines: &str| data.replace(&fingerprint(), lines);
    let sha512 = format!("a=fingerprint:sha-512 {}\r\n", "AB:".repeat(63) + "AB");
    let known = fingerprint();
    for lines in [
        format!("{sha512}{known}"),
        format!("{known}{sha512}"),
        format!("{known}{known}"),
        known.replace("sha-256", "SHA-256"),
        format!("a=fingerprint:sha3-999 nonsense\r\n{known}"),
    ] {
        answer(&with(&lines));
    }
    // A fingerprint of the section replaces that of the session.
    let session = format!("{SESSION}{known}");
    answer(&with("").replace(SESSION, &session));
    for offer in [with(&sha512), with(&sha512).replace(SESSION, &session)] {
        let error = error(&offer);
        assert!(error.contains("sha-256"), "{error}");
    }
    for lines in ["", "a=fingerprint:sha-256\r\n", "a=fingerprint:sha-256 AB\r\n"] {
        let error = error(&with(lines));
        assert!(error.contains("a=fingerprint"), "{error}");
    }
}

/// RFC 9429 §5.8.1: each of these attributes has one value.
#[test]
fn an_attribute_with_two_values_is_ambiguous() {
    let offer = format!(
        "{SESSION}{BUNDLE}{AUDIO}{0}{DATA}{0}a=max-message-size:1000\r\n",
        transport(1)
    );
    for (line, other) in [
        ("a=ice-ufrag:user1\r\n", "a=ice-ufrag:user2\r\n"),
        (
            "a=ice-pwd:0123456789012345678901\r\n",
            "a=ice-pwd:0123456789012345678902\r\n",
        ),
        ("a=setup:actpass\r\n", "a=setup:active\r\n"),
        ("a=sctp-port:5000\r\n", "a=sctp-port:5001\r\n"),
        ("a=max-message-size:1000\r\n", "a=max-message-size:2000\r\n"),
        ("a=mid:d\r\n", "a=mid:e\r\n"),
    ] {
        // The same line twice does no harm.
        answer(&offer.replace(line, &line.repeat(2)));
        let name = line[2..].split(':').next().unwrap();
        let error = error(&offer.replace(line, &format!("{line}{other}")));
        assert!(error.contains(&format!("a={name}")), "{line}: {error}");
    }
    // Two sections with one identification (RFC 5888 §4), and a section in two groups (RFC 9143 §5).
    let twice = error(&offer.replace("a=mid:a", "a=mid:d"));
    assert!(twice.contains("a=mid"), "{twice}");
    let both = error(&offer.replace(BUNDLE, "a=group:BUNDLE a d\r\na=group:BUNDLE d\r\n"));
    assert!(both.contains("a=group"), "{both}");
    let two = answer(&offer.replace(BUNDLE, "a=group:BUNDLE a x\r\na=group:BUNDLE d y\r\n"));
    assert!(two.contains("a=group:BUNDLE d\r\n"), "{two}");
}

/// RFC 8841 §5 and §6.
#[test]
fn numbers_have_the_form_of_the_rfc() {
    let offer = format!("{SESSION}{DATA}a=max-message-size:1000\r\n{}", transport(1));
    for (line, wrong) in [
        ("a=sctp-port:5000\r\n", ""),
        ("a=sctp-port:5000\r\n", "a=sctp-port:\r\n"),
        ("a=sctp-port:5000\r\n", "a=sctp-port:+5000\r\n"),
        ("a=sctp-port:5000\r\n", "a=sctp-port:05000\r\n"),
        ("a=sctp-port:5000\r\n", "a=sctp-port:65536\r\n"),
        ("a=max-message-size:1000\r\n", "a=max-message-size:+1000\r\n"),
        ("a=max-message-size:1000\r\n", "a=max-message-size:1k\r\n"),
    ] {
        let error = error(&offer.replace(line, wrong));
        let name = line[2..].split(':').next().unwrap();
        assert!(error.contains(&format!("a={name}")), "{wrong}: {error}");
    }
    // More than this program can count is no limit.
    answer(&offer.replace(":1000", &format!(":{}", "9".repeat(40))));
    // The session has no such attributes.
    let port = "a=sctp-port:5000\r\n";
    let session = offer
        .replace(port, "")
        .replace(SESSION, &format!("{SESSION}{port}"));
    assert!(error(&session).contains("a=sctp-port"));
}

/// RFC 9429 §5.1.2 and §5.3.1.
#[test]
fn the_answer_has_the_protocol_of_the_offer() {
    for protocol in ["UDP/DTLS/SCTP", "TCP/DTLS/SCTP", "DTLS/SCTP"] {
        let offer = format!("{SESSION}{DATA}{}", transport(1)).replace("UDP/DTLS/SCTP", protocol);
        let answer = answer(&offer);
        let line = format!("m=application 4000 {protocol} webrtc-datachannel\r\n");
        assert!(answer.contains(&line), "{answer}");
    }
}

/// RFC 9429 §5.8.3.
#[test]
fn the_answer_has_the_sections_of_the_offer() {
    let changed = |change: &dyn Fn(&str) -> String| {
        let (mut session, offer) = Session::offer(Timestamp::ZERO, config()).unwrap();
        let (_, answer) = Session::answer(Timestamp::ZERO, config(), &offer).unwrap();
        session.accept_answer(Timestamp::ZERO, &change(&answer))
    };
    changed(&str::to_owned).unwrap();
    changed(&|answer| {
        answer
            .replace("a=group:BUNDLE 0\r\n", "")
            .replace("a=mid:0\r\n", "")
    })
    .unwrap();
    for result in [
        changed(&|answer| format!("{answer}m=audio 0 UDP/TLS/RTP/SAVPF 0\r\n")),
        changed(&|answer| answer.replace("m=app", "m=audio 0 UDP/TLS/RTP/SAVPF 0\r\nm=app")),
        changed(&|answer| answer.replace("UDP/DTLS/SCTP", "TCP/DTLS/SCTP")),
        changed(&|answer| answer.replace("a=mid:0", "a=mid:1")),
    ] {
        assert!(matches!(result, Err(SessionError::Sdp(_))), "{result:?}");
    }
}

/// RFC 9429 §5.2.1 and §5.3.1: an offer has the option; an answer has the option if the offer has it.
#[test]
fn trickle_is_answered_if_it_was_offered() {
    const OPTION: &str = "a=ice-options:trickle\r\n";
    let (_, own) = Session::offer(Timestamp::ZERO, config()).unwrap();
    assert!(sections(&own)[0].contains(OPTION), "{own}");
    let offer = format!("{SESSION}{DATA}{}", transport(1));
    assert!(!answer(&offer).contains("a=ice-options"));
    for place in ["a=mid:d\r\n", "t=0 0\r\n"] {
        let with = offer.replace(place, &format!("{place}a=ice-options:ice2 trickle\r\n"));
        assert_ne!(with, offer);
        assert!(sections(&answer(&with))[0].contains(OPTION));
    }
}

/// RFC 8839 §4.2: the address and the port of the section are those of the default candidate.
#[test]
fn the_section_has_the_default_candidate() {
    let describe = |local: &[&str]| {
        let local: Vec<SocketAddr> = local.iter().map(|address| address.parse().unwrap()).collect();
        let config = SessionConfig::new(Certificate::generate().unwrap(), local);
        Session::offer(Timestamp::ZERO, config).unwrap().1
    };
    let dual = describe(&["[2001:db8::1]:4001", "192.0.2.200:4000"]);
    let start = "m=application 4000 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 192.0.2.200\r\n";
    assert!(dual.contains(start), "{dual}");
    let six = describe(&["[2001:db8::1]:4001"]);
    let start = "m=application 4001 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP6 2001:db8::1\r\n";
    assert!(six.contains(start), "{six}");
}

#[test]
fn only_usable_candidates_count() {
    let offer = format!("{SESSION}{DATA}{}", transport(1));
    let place = "a=setup:actpass\r\n";
    let others = [
        "1 1 TCP 2105458943 192.0.2.9 9 typ host tcptype active",
        "1 2 UDP 2122252542 192.0.2.9 50001 typ host",
        "1 1 UDP 2122252543 0b0c.local 50000 typ host",
        "1 1 UDP 2122252543 0.0.0.0 50000 typ host",
        "1 1 UDP 2122252543 255.255.255.255 50000 typ host",
        "1 1 UDP 2122252543 224.0.0.1 50000 typ host",
        "1 1 UDP 2122252543 ff02::1 50000 typ host",
        "1 1 UDP 2122252543 192.0.2.9 0 typ host",
        "nonsense",
    ];
    // Many of them take no room from the usable one.
    let lines: String = others
        .iter()
        .map(|line| format!("a=candidate:{line}\r\n"))
        .collect();
    let offer = offer.replace(place, &format!("{place}{}", lines.repeat(10)));
    assert_eq!(
        candidate_addresses(&offer).unwrap(),
        ["192.0.2.1:50000".parse().unwrap()]
    );
}

/// Unknown lines, other ends of lines, and attributes of the session (RFC 9429 §5.2.1) do no harm.
#[test]
fn the_form_of_the_text_does_not_matter() {
    let unknown = "a=tls-id:0123456789012345678901234\r\na=dtls-id:1\r\na=end-of-candidates\r\na=ice-pacing:50\r\na=x-y\r\nb=AS:30\r\n";
    let offer = format!(
        "{SESSION}{BUNDLE}a=msid-semantic:WMS *\r\na=extmap-allow-mixed\r\n{unknown}{AUDIO}{0}{DATA}{0}{unknown}",
        transport(1)
    );
    answer(&offer);
    answer(&offer.replace("\r\n", "\n"));
    answer(&offer.replace("\r\n", " \r\n\r\n"));
    let (moved, candidate) = {
        let all = transport(1);
        let place = all.find("a=candidate").unwrap();
        (all[..place].to_owned(), all[place..].to_owned())
    };
    let offer = format!("{SESSION}{moved}{BUNDLE}{AUDIO}{candidate}{BUNDLE_ONLY}");
    answer(&offer);
    assert_eq!(
        candidate_addresses(&offer).unwrap(),
        ["192.0.2.1:50000".parse().unwrap()]
    );
}

/// Text of the offer that comes back in the answer.
#[test]
fn a_line_that_is_no_sdp_is_an_error() {
    let offer = format!("{SESSION}{BUNDLE}{AUDIO}{0}{DATA}{0}", transport(1));
    for (from, to, line) in [
        ("s=-", "nothing", 3),
        ("SAVPF 111 0", "SAVPF 111\r0", 6),
        (
            "m=audio 9 UDP/TLS/RTP/SAVPF 111 0",
            "m=audio 9 UDP/TLS/RTP/SAVPF",
            6,
        ),
        ("m=audio 9 ", "m=audio x ", 6),
        ("m=audio 9 ", "m=audio 70000 ", 6),
    ] {
        let text = offer.replace(from, to);
        assert_ne!(text, offer, "{from}");
        let error = error(&text);
        assert!(error.contains(&format!("line {line} ")), "{to}: {error}");
    }
    answer(&offer.replace("m=audio 9 ", "m=audio 9/2 "));
    for mid in ["a=mid:\r\n", "a=mid:a b\r\n"] {
        let error = error(&offer.replace("a=mid:a\r\n", mid));
        assert!(error.contains("a=mid"), "{error}");
    }
}

#[test]
fn a_description_is_bounded() {
    let offer = format!("{SESSION}{DATA}{}", transport(1));
    let (known, place) = (fingerprint(), "a=setup:actpass\r\n");
    let fingerprints = |count: u8| -> String {
        let prints = (0..count).map(|number| Fingerprint::of(&[number]));
        let lines = prints.map(|print| format!("a=fingerprint:sha-256 {print}\r\n"));
        lines.collect()
    };
    answer(&offer.replace(&known, &fingerprints(16)));
    let candidates = |count: u8| -> String {
        let line = |number| format!("a=candidate:1 1 udp 1 192.0.3.{number} 5 typ host\r\n");
        (0..count).map(line).collect()
    };
    let many = offer.replace(place, &format!("{place}{}", candidates(200)));
    assert_eq!(candidate_addresses(&many).unwrap().len(), 64);
    let rejected = AUDIO.replace("audio 9", "audio 0").replace("a=mid:a\r\n", "");
    answer(&format!("{offer}{}", rejected.repeat(31)));
    for too_much in [
        offer.replace(&known, &fingerprints(17)),
        format!("{offer}{}", rejected.repeat(32)),
        format!("{offer}{}", "a=x\r\n".repeat(14_000)),
    ] {
        let error = error(&too_much);
        assert!(
            error.contains("64 KiB, 32 sections or 16 fingerprints"),
            "{error}"
        );
    }
}
