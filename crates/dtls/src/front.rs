//! The cookie exchange before a handshake, without state (RFC 6347 §4.2.1, RFC 9147 §5.1).
//!
//! The library keeps the state of a connection from the first ClientHello on. So it gets its first ClientHello twice. At first, a server
//! that is dropped again makes the HelloVerifyRequest or HelloRetryRequest. If a second ClientHello brings the cookie back, the first one is
//! built again from it, and the connection's server gets both. Both servers make the same cookie, because it comes from here: the library
//! computes its cookies with `hmac_sha256` of its provider, and nothing else ([`CookieHmac`]).

use std::cell::Cell;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::Timestamp;
use dimpl::CryptoError;
use dimpl::crypto::aws_lc_rs::default_provider;
use dimpl::crypto::{Buf, HashAlgorithm, HmacProvider, KeyProvider, SignatureAlgorithm, SigningKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::connection::{Connection, State};
use crate::effects::Collected;
use crate::hello::{Hello, KEY_SHARE, Original, extensions};
use crate::settings::DtlsConfig;

pub(crate) type Cookie = [u8; 32];

/// The secret of cookies changes after this time. A cookie is valid for this time at least, and for twice this time at most.
const PERIOD: Duration = Duration::from_secs(60);

/// The place of the extensions in a datagram with a HelloRetryRequest and an empty session ID.
const RETRY_EXTENSIONS: usize = 13 + 12 + 2 + 32 + 1 + 2 + 1;

/// The alert if nothing that the client offers can be used, and the alert for a wrong cookie (RFC 9147 §5.1).
pub(crate) const HANDSHAKE_FAILURE: u8 = 40;
pub(crate) const ILLEGAL_PARAMETER: u8 = 47;

/// Answers first ClientHellos, and knows the cookies.
pub(crate) struct Front {
    key: [u8; 32],
    /// The time from which periods are counted: that of the first ClientHello.
    start: Option<Timestamp>,
    dtls: Arc<dimpl::Config>,
    scratch: Collected,
}

impl Front {
    pub(crate) fn new() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the system has random numbers");
        Self {
            key,
            start: None,
            dtls: Arc::new(library(&NoKey)),
            scratch: Collected::default(),
        }
    }

    /// Reads a ClientHello.
    pub(crate) fn read<'a>(&mut self, now: Timestamp, address: SocketAddr, datagram: &'a [u8]) -> Read<'a> {
        match Hello::read(datagram) {
            Some(hello) if hello.number() == 0 => Read::First(hello),
            Some(hello) if hello.number() == 1 => self.read_second(now, address, &hello),
            _ => Read::Nothing,
        }
    }

    fn read_second<'a>(&mut self, now: Timestamp, address: SocketAddr, hello: &Hello<'a>) -> Read<'a> {
        let Ok(cookie) = Cookie::try_from(hello.cookie()) else {
            return Read::Forged;
        };
        let [asked, high, low, ..] = cookie;
        let original = Original::from_bytes([asked, high, low]);
        let period = self.period(now);
        let mut periods = [Some(period), period.checked_sub(1)].into_iter().flatten();
        if periods.any(|period| is_equal(self.cookie(period, address, hello, original), cookie)) {
            Read::Proved(cookie, hello.first(original))
        } else {
            Read::Forged
        }
    }

    /// Answers a first ClientHello with a cookie, or with the alert that it cannot be served. The answer is not longer than the ClientHello.
    pub(crate) fn answer(
        &mut self,
        now: Timestamp,
        address: SocketAddr,
        config: &DtlsConfig,
        (hello, datagram): (&Hello<'_>, &[u8]),
        out: &mut Collected,
    ) {
        let original = hello.original();
        let period = self.period(now);
        let cookie = self.cookie(period, address, hello, original);
        let mut server = Connection::new(config, false, now);
        server.start(config, &self.dtls, now);
        self.scratch.clear();
        with_cookie(cookie, || {
            server.handle_datagram(now, datagram, &mut self.scratch);
        });
        // The library has no word for a ClientHello without a suite or group that it knows.
        let refusal = server.refusal.unwrap_or(HANDSHAKE_FAILURE);
        match self.scratch.datagrams().next() {
            Some(answer)
                if answer.len() <= datagram.len() && (original.asked_for_group || !names_a_group(answer)) =>
            {
                out.copy_datagram(answer);
            }
            _ => out.copy_datagram(&alert(0, refusal)),
        }
    }

    fn period(&mut self, now: Timestamp) -> u64 {
        let start = *self.start.get_or_insert(now);
        now.saturating_duration_since(start).as_secs() / PERIOD.as_secs()
    }

    /// The cookie of an address for a ClientHello in a period. It begins with what is needed to build the first ClientHello again.
    fn cookie(&self, period: u64, address: SocketAddr, hello: &Hello<'_>, original: Original) -> Cookie {
        let mut hmac = Hmac::<Sha256>::new_from_slice(&self.key).expect("any length is a key");
        hmac.update(&period.to_be_bytes());
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        hmac.update(&ip.octets());
        hmac.update(&address.port().to_be_bytes());
        hmac.update(&original.to_bytes());
        for part in hello.unchanged() {
            hmac.update(part);
        }
        let mut cookie: Cookie = hmac.finalize().into_bytes().into();
        cookie[..Original::LEN].copy_from_slice(&original.to_bytes());
        cookie
    }
}

/// A ClientHello as a stranger's.
#[derive(Debug)]
pub(crate) enum Read<'a> {
    /// It is not complete.
    Nothing,
    /// The first one of a handshake.
    First(Hello<'a>),
    /// The second one, whose cookie proves that the peer receives at its address; and the datagram with the first one.
    Proved(Cookie, Vec<u8>),
    /// The second one, with a cookie that is not for this address, too old, or not of this endpoint.
    Forged,
}

/// The key is secret.
impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").finish_non_exhaustive()
    }
}

/// Begins a connection with a ClientHello whose cookie is valid. The library gets both ClientHellos; the peer has the answer to the first one.
pub(crate) fn begin(
    connection: &mut Connection,
    now: Timestamp,
    (cookie, first): (Cookie, &[u8]),
    second: &[u8],
    out: &mut Collected,
) {
    let before = out.datagrams.len();
    with_cookie(cookie, || {
        connection.handle_datagram(now, first, &mut Collected::default());
        connection.handle_datagram(now, second, out);
    });
    if connection.state == State::Handshake && out.datagrams.len() == before {
        connection.refuse();
    }
    if let (State::Ended(_), Some(code)) = (&connection.state, connection.refusal) {
        out.copy_datagram(&alert(LATER, code));
    }
}

/// The number of an alert's record after an answer, beyond those of the records that the library may have sent.
pub(crate) const LATER: u8 = 255;

/// A fatal alert without encryption, which ends a handshake that has no keys.
pub(crate) fn alert(record: u8, code: u8) -> [u8; 15] {
    [21, 254, 253, 0, 0, 0, 0, 0, 0, 0, record, 0, 2, 2, code]
}

/// Whether an answer is a HelloRetryRequest that asks for a key share of another group.
fn names_a_group(answer: &[u8]) -> bool {
    const SERVER_HELLO: u8 = 2;
    let list = extensions(answer, RETRY_EXTENSIONS).unwrap_or_default();
    answer.get(13) == Some(&SERVER_HELLO) && list.iter().any(|(kind, _)| *kind == KEY_SHARE)
}

/// Compares in a time that does not depend on the place of a difference.
fn is_equal(a: Cookie, b: Cookie) -> bool {
    a.iter().zip(b).fold(0, |unlike, (a, b)| unlike | (a ^ b)) == 0
}

/// The library's settings, with cookies from here.
pub(crate) fn library(keys: &'static dyn KeyProvider) -> dimpl::Config {
    let mut provider = default_provider();
    provider.hmac_provider = &CookieHmac;
    provider.key_provider = keys;
    let config = dimpl::Config::builder().with_crypto_provider(provider);
    config.build().expect("the default settings are valid")
}

thread_local! {
    /// The cookie that the library makes and expects during a call.
    static COOKIE: Cell<Option<Cookie>> = const { Cell::new(None) };
}

/// Calls the library with this cookie. The library has no argument for it: it calls its provider without context, in the same thread.
fn with_cookie(cookie: Cookie, call: impl FnOnce()) {
    COOKIE.set(Some(cookie));
    call();
    COOKIE.set(None);
}

/// The library's HMAC, with cookies from [`Front`].
#[derive(Debug)]
struct CookieHmac;

impl HmacProvider for CookieHmac {
    /// The library computes cookies with this function, and nothing else.
    fn hmac_sha256(&self, key: &[u8], data: &[u8]) -> Result<[u8; 32], CryptoError> {
        match COOKIE.get() {
            Some(cookie) => Ok(cookie),
            None => default_provider().hmac_provider.hmac_sha256(key, data),
        }
    }

    fn hmac(
        &self,
        hash: HashAlgorithm,
        key: &[u8],
        data: &[u8],
        out: &mut [u8],
    ) -> Result<usize, CryptoError> {
        default_provider().hmac_provider.hmac(hash, key, data, out)
    }
}

/// In place of the private key, for servers that sign nothing. To read the key takes longer than everything else.
#[derive(Debug)]
struct NoKey;

impl KeyProvider for NoKey {
    fn load_private_key(&self, _key: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError> {
        Ok(Box::new(Self))
    }
}

impl SigningKey for NoKey {
    fn sign(&mut self, _data: &[u8], _hash: HashAlgorithm, _out: &mut Buf) -> Result<(), CryptoError> {
        Err(CryptoError::NoPrivateKeyConfigured)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::SHA256
    }

    fn supported_hash_algorithms(&self) -> &[HashAlgorithm] {
        &[HashAlgorithm::SHA256]
    }
}
