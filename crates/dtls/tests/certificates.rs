//! Peers whose certificates cannot be used: the error says what is wrong.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_dtls::{Certificate, CertificateError, DtlsConfig, DtlsError, Effects, Peers};
use anabranch_proto::Timestamp;
use dimpl::{Dtls, DtlsCertificate, Output};

/// A certificate with an RSA key of 2,048 bits: `openssl req -x509 -newkey rsa:2048 -subj /CN=rsa -outform DER`.
const RSA: &[u8] = include_bytes!("fixtures/rsa.der");

/// A peer that shows the RSA certificate. It signs with another key, which nobody notices before.
fn rsa_peer(version: u16, now: Instant) -> Dtls {
    let key = Certificate::generate().unwrap().to_pem().unwrap().1;
    let certificate = DtlsCertificate {
        certificate: RSA.to_vec(),
        private_key: pem(&key),
    };
    let config = Arc::new(dimpl::Config::default());
    match version {
        12 => Dtls::new_12(config, certificate, now),
        _ => Dtls::new_13(config, certificate, now),
    }
}

/// The bytes of a text in PEM format (RFC 7468).
fn pem(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for digit in text
        .lines()
        .filter(|line| !line.starts_with('-'))
        .flat_map(str::bytes)
    {
        let Some(value) = DIGITS.iter().position(|known| *known == digit) else {
            continue;
        };
        (bits, count) = ((bits << 6 | value as u32) & 0xffff, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

fn take(peer: &mut Dtls) -> Vec<Vec<u8>> {
    let (mut buffer, mut datagrams) = (vec![0; 20_000], Vec::new());
    loop {
        match peer.poll_output(&mut buffer) {
            Output::Packet(datagram) => datagrams.push(datagram.to_vec()),
            Output::Timeout(_) => return datagrams,
            _ => {}
        }
    }
}

#[test]
fn an_rsa_certificate_is_named_in_the_error() {
    for (version, peer_is_client) in [(12, false), (12, true), (13, false), (13, true)] {
        let mut now = Timestamp::ZERO;
        let ours: Peers<u32> = Peers::new(DtlsConfig::new(Certificate::generate().unwrap()));
        let start = Instant::now();
        let mut peer = rsa_peer(version, start);
        peer.set_active(peer_is_client);
        peer.handle_timeout(start).unwrap();
        let mut effects = Effects::default();
        if !peer_is_client {
            ours.connect(now, 1, &mut effects);
        }
        for _ in 0..20 {
            now += Duration::from_millis(10);
            let from_us: Vec<_> = effects.datagrams().map(|(_, bytes)| bytes.to_vec()).collect();
            effects.clear();
            for datagram in from_us {
                let _ = peer.handle_packet(&datagram);
            }
            for datagram in take(&mut peer) {
                ours.handle_datagram(now, 1, &datagram, &mut effects);
            }
            if !effects.ended.is_empty() {
                break;
            }
        }
        let told = &effects.ended[..];
        assert!(
            matches!(told, [(1, DtlsError::NoEcdsaCertificate)]),
            "DTLS {version}, the peer is the client: {peer_is_client}: {told:?}"
        );
        assert!(told[0].1.to_string().contains("RSA"), "{}", told[0].1);
        assert_eq!(ours.connections(), 0);
    }
}

#[test]
fn an_alert_is_explained() {
    let words = DtlsError::Alert(40).to_string();
    assert!(words.contains("alert 40") && words.contains("RSA"), "{words}");
}

/// This endpoint's own certificate.
#[test]
fn an_own_key_of_another_kind_is_an_error() {
    let (certificate, _) = Certificate::generate().unwrap().to_pem().unwrap();
    let key = "-----BEGIN PRIVATE KEY-----\nMA0GCSqGSIb3DQEBAQUABAA=\n-----END PRIVATE KEY-----\n";
    let error = Certificate::from_pem(&certificate, key).unwrap_err();
    assert!(matches!(error, CertificateError::Key(_)), "{error}");
    assert!(error.to_string().contains("P-256"), "{error}");
}
