//! Certificates and their fingerprints (RFC 8122 §5).

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use p256::ecdsa::{DerSignature, SigningKey};
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey, LineEnding};
use sha2::{Digest, Sha256};
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{Builder, CertificateBuilder};
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::asn1::UtcTime;
use x509_cert::der::{Decode, DecodePem, Encode, EncodePem};
use x509_cert::ext::Extension;
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef};
use x509_cert::time::{Time, Validity};

/// The time for which a certificate made here is valid. Peers compare fingerprints; few of them look at the dates.
const VALID_FOR: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Clocks of peers may be late.
const VALID_BEFORE: Duration = Duration::from_secs(86_400);

/// A certificate with its private key (ECDSA with P-256; RSA is not supported).
#[derive(Clone)]
pub struct Certificate {
    der: Vec<u8>,
    key: Vec<u8>,
}

/// The reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The text is not a certificate in PEM format.
    #[error("not a certificate in PEM format (-----BEGIN CERTIFICATE-----): {0}")]
    Certificate(String),
    /// The text is not a private key for ECDSA with P-256.
    #[error("not a private key of the curve P-256 in PEM format (-----BEGIN PRIVATE KEY-----): {0}")]
    Key(String),
    /// Key and certificate do not belong together.
    #[error("the private key is not that of the certificate")]
    OtherKey,
    /// The system has no random numbers, or the certificate cannot be encoded.
    #[error("cannot make a certificate: {0}")]
    Make(String),
}

impl Certificate {
    /// Makes a self-signed certificate with a new key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Self, CertificateError> {
        let key = new_key()?;
        let mut serial = [0; 16];
        getrandom::fill(&mut serial).map_err(make)?;
        // A positive number without leading zeros.
        serial[0] = serial[0] & 0x7f | 0x40;
        let now = SystemTime::now();
        let at = |time: SystemTime| -> Result<Time, CertificateError> {
            UtcTime::from_system_time(time).map(Time::UtcTime).map_err(make)
        };
        let validity = Validity::new(
            at(now.checked_sub(VALID_BEFORE).unwrap_or(now))?,
            at(now + VALID_FOR)?,
        );
        let public = SubjectPublicKeyInfoOwned::from_key(key.verifying_key()).map_err(make)?;
        let serial = SerialNumber::new(&serial).map_err(make)?;
        let builder = CertificateBuilder::new(SelfSigned, serial, validity, public).map_err(make)?;
        let certificate = builder.build::<_, DerSignature>(&key).map_err(make)?;
        Ok(Self {
            der: certificate.to_der().map_err(make)?,
            key: key.to_pkcs8_der().map_err(make)?.as_bytes().to_vec(),
        })
    }

    /// Reads a certificate and its private key (PKCS #8) from texts in PEM format.
    ///
    /// # Errors
    /// A text is not of this format, the key is of another kind, or the two do not belong together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, CertificateError> {
        let read = x509_cert::Certificate::from_pem(certificate)
            .map_err(|error| CertificateError::Certificate(error.to_string()))?;
        let key =
            SigningKey::from_pkcs8_pem(key).map_err(|error| CertificateError::Key(error.to_string()))?;
        let own = SubjectPublicKeyInfoOwned::from_key(key.verifying_key()).map_err(make)?;
        if *read.tbs_certificate().subject_public_key_info() != own {
            return Err(CertificateError::OtherKey);
        }
        Ok(Self {
            der: read.to_der().map_err(make)?,
            key: key.to_pkcs8_der().map_err(make)?.as_bytes().to_vec(),
        })
    }

    /// The certificate and the private key as texts in PEM format.
    ///
    /// # Errors
    /// The certificate cannot be encoded.
    pub fn to_pem(&self) -> Result<(String, String), CertificateError> {
        let certificate = x509_cert::Certificate::from_der(&self.der).map_err(make)?;
        let key = SigningKey::from_pkcs8_der(&self.key).map_err(make)?;
        let text = certificate.to_pem(LineEnding::LF).map_err(make)?;
        Ok((text, key.to_pkcs8_pem(LineEnding::LF).map_err(make)?.to_string()))
    }

    /// The certificate's fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.der)
    }

    pub(crate) fn for_dtls(&self) -> dimpl::DtlsCertificate {
        dimpl::DtlsCertificate {
            certificate: self.der.clone(),
            private_key: self.key.clone(),
        }
    }
}

/// The key is secret.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.fingerprint())
    }
}

fn make(error: impl fmt::Display) -> CertificateError {
    CertificateError::Make(error.to_string())
}

fn new_key() -> Result<SigningKey, CertificateError> {
    loop {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(make)?;
        // Fewer than one of 2^32 numbers is not a key of the curve.
        if let Ok(key) = SigningKey::from_slice(&secret) {
            return Ok(key);
        }
    }
}

/// A certificate that says nothing about its holder.
struct SelfSigned;

impl BuilderProfile for SelfSigned {
    fn get_issuer(&self, subject: &Name) -> Name {
        subject.clone()
    }

    fn get_subject(&self) -> Name {
        Name::from_str("CN=anabranch").unwrap_or_default()
    }

    fn build_extensions(
        &self,
        _own: SubjectPublicKeyInfoRef<'_>,
        _issuer: SubjectPublicKeyInfoRef<'_>,
        _certificate: &TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        Ok(Vec::new())
    }
}

/// The SHA-256 digest of a certificate (RFC 8122 §5): `sha-256 AB:CD:…` in SDP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

/// The text is not a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a SHA-256 fingerprint: 32 bytes in hexadecimal with colons, such as AB:CD:…")]
pub struct FingerprintError(String);

impl Fingerprint {
    /// The fingerprint of a certificate in DER format.
    #[must_use]
    pub fn of(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }

    /// The digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let colon = if place == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Accepts upper and lower case, and `sha-256` before it.
impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let refused = || FingerprintError(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let digits = lower.strip_prefix("sha-256").unwrap_or(&lower).trim();
        let mut bytes = [0; 32];
        let mut parts = digits.split(':');
        for byte in &mut bytes {
            let part = parts
                .next()
                .filter(|part| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit()))
                .ok_or_else(refused)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| refused())?;
        }
        match parts.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_survives_its_text() {
        let one = Certificate::generate().unwrap();
        let (certificate, key) = one.to_pem().unwrap();
        let read = Certificate::from_pem(&certificate, &key).unwrap();
        assert_eq!(read.fingerprint(), one.fingerprint());
        let other = Certificate::generate().unwrap();
        assert_ne!(other.fingerprint(), one.fingerprint());
        let (_, other_key) = other.to_pem().unwrap();
        let error = Certificate::from_pem(&certificate, &other_key).unwrap_err();
        assert!(matches!(error, CertificateError::OtherKey), "{error}");
        assert!(Certificate::from_pem(&key, &key).is_err());
        assert!(Certificate::from_pem(&certificate, &certificate).is_err());
        assert!(!format!("{one:?}").contains(&key), "the key is secret");
    }

    #[test]
    fn fingerprints_are_read_and_written_as_in_sdp() {
        let one = Fingerprint::of(b"abc");
        let text = one.to_string();
        assert!(text.starts_with("BA:78:16:BF:8F:01:CF:EA:"), "{text}");
        assert_eq!(text.parse(), Ok(one));
        assert_eq!(text.to_lowercase().parse(), Ok(one));
        assert_eq!(format!("sha-256 {text}").parse(), Ok(one));
        for wrong in [
            "",
            "AB",
            &text[3..],
            &format!("{text}:00"),
            &text.replace("BA", "+A"),
            &text.replace(':', ""),
        ] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
