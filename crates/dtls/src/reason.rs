//! Why a handshake failed, in words that name the way out, and which signs of failure count: anybody can send records without encryption.

use dimpl::{CertificateError, CryptoError, Error, SecurityError, UnexpectedMessageError};

use crate::connection::DtlsError;

/// The record header: content type, version, epoch, sequence number, length (RFC 6347 §4.1).
const HEADER: usize = 13;
const ALERT: u8 = 21;

/// Whether the library refuses a datagram without harm to the handshake: it is no answer to a ClientHello.
pub(crate) fn is_harmless(error: &Error) -> bool {
    matches!(
        error,
        Error::UnexpectedMessage(UnexpectedMessageError::UnrecognizedAutoServerResponse)
    )
}

/// The end that an error of the library means.
pub(crate) fn of(error: &Error) -> DtlsError {
    match error {
        Error::CertificateError(
            CertificateError::NoServerCertificateReceived
            | CertificateError::NoClientCertificateReceived
            | CertificateError::MissingEcCurveParameter
            | CertificateError::InvalidEcCurveParameter
            | CertificateError::UnsupportedEcCurve,
        )
        | Error::CryptoError(
            CryptoError::UnsupportedPublicKeyAlgorithm
            | CryptoError::UnsupportedEcCurve
            | CryptoError::UnsupportedSignatureAlgorithm(_),
        ) => DtlsError::NoEcdsaCertificate,
        Error::Timeout(_) => DtlsError::Timeout,
        Error::SecurityError(SecurityError::FatalAlert { description }) => DtlsError::Alert(*description),
        other => DtlsError::Failed(other.to_string()),
    }
}

/// The usual cause of an alert (RFC 8446 §6.2).
pub(crate) fn in_words(alert: u8) -> &'static str {
    match alert {
        40 | 71 => {
            "it shares no cipher or group with this endpoint, or its certificate has no ECDSA key; RSA certificates are not supported"
        }
        42 | 43 | 46 | 48 => "it does not accept this endpoint's certificate",
        70 => "it has neither DTLS 1.2 nor 1.3",
        116 => "it wants a certificate",
        _ => "RFC 8446, section 6.2, lists the alerts",
    }
}

/// A datagram without the alerts in it that are not encrypted, and the first one that is fatal. `None` if it has none.
pub(crate) fn without_alerts(datagram: &[u8]) -> Option<(Vec<u8>, Option<u8>)> {
    let (mut rest, mut fatal, mut kept) = (datagram, None, Vec::new());
    let mut found = false;
    while let Some((record, later)) = split_record(rest) {
        match record {
            [ALERT, _, _, 0, 0, ..] => {
                found = true;
                // RFC 8446 §6: the level says nothing any more. close_notify and user_canceled are not fatal.
                let code = record.get(HEADER + 1).copied();
                fatal = fatal.or(code.filter(|code| !matches!(code, 0 | 90)));
            }
            _ => kept.extend_from_slice(record),
        }
        rest = later;
    }
    kept.extend_from_slice(rest);
    found.then_some((kept, fatal))
}

/// The first record with a header of DTLS 1.2, and what follows it.
fn split_record(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let header = datagram.first_chunk::<HEADER>()?;
    let has_header = (20..=25).contains(&header[0]);
    let len = usize::from(u16::from_be_bytes([header[11], header[12]]));
    datagram.split_at_checked(HEADER + len).filter(|_| has_header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, epoch: u8, body: &[u8]) -> Vec<u8> {
        let mut record = vec![kind, 254, 253, 0, epoch, 0, 0, 0, 0, 0, 1, 0, body.len() as u8];
        record.extend_from_slice(body);
        record
    }

    #[test]
    fn plain_alerts_are_taken_out_wherever_they_are() {
        let [hello, fatal, close] = [
            record(22, 0, &[2, 3]),
            record(21, 0, &[2, 40]),
            record(21, 0, &[1, 0]),
        ];
        let encrypted = record(21, 1, &[9; 20]);
        // RFC 9147 §4: the rest of the datagram has the header of DTLS 1.3.
        let unified = [47, 1, 2, 21, 0];
        assert_eq!(without_alerts(&[&hello[..], &encrypted, &unified].concat()), None);
        assert_eq!(
            without_alerts(&[&hello[..], &close, &fatal, &encrypted, &unified].concat()),
            Some(([&hello[..], &encrypted, &unified].concat(), Some(40)))
        );
        assert_eq!(without_alerts(&close), Some((Vec::new(), None)));
        for end in 0..fatal.len() {
            assert_eq!(without_alerts(&fatal[..end]), None);
        }
    }
}
