//! Authenticated chunks (RFC 4895): the parameters RANDOM, CHUNKS and HMAC-ALGO (`parameters`), the association shared keys (`keys`), the
//! HMACs (`mac`), the signing of packets (`signer`) and the verification of received AUTH chunks (`session`). [`Authentication`] is the state
//! of an association.

mod keys;
mod mac;
mod parameters;
mod session;
mod signer;
#[cfg(test)]
mod tests;
mod verdict;

use anabranch_wire::chunk::{Auth, RawChunk, kind};

pub(crate) use parameters::{AuthParameters, KeyExchange, ParameterReader, RANDOM_LEN, offer};
pub(crate) use signer::Signer;
pub(crate) use verdict::Verdict;

use crate::config::{AuthenticationConfig, Config, SharedKey};
use crate::error::AuthenticationKeyError;
use crate::inbound::Inbound;
use crate::stats::AuthenticationStats;
use keys::SharedKeys;
use session::Session;

/// How far the packet that is being handled is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Arrival {
    /// No packet is being handled.
    #[default]
    None,
    /// The packet has had no AUTH chunk so far.
    Plain,
    /// The chunks from here on are authenticated.
    Authenticated,
}

/// The authentication of an association.
#[derive(Debug, Default)]
pub(crate) struct Authentication(Option<Box<State>>);

#[derive(Debug)]
struct State {
    config: AuthenticationConfig,
    keys: SharedKeys,
    /// The parameters that this endpoint sends in its INIT. It uses them in each INIT ACK before set-up is complete as well.
    own: AuthParameters,
    /// `None` before the peer's parameters are known, and with a peer that does not support authentication.
    session: Option<Session>,
    arrival: Arrival,
}

/// Set-up and keys.
impl Authentication {
    /// The authentication that `config` asks for, with these parameters of this endpoint.
    pub(crate) fn new(config: &Config, own: Option<AuthParameters>) -> Self {
        let config = config.offered_authentication();
        Self(config.zip(own).map(|(config, own)| {
            Box::new(State {
                keys: SharedKeys::new(&config),
                config,
                own,
                session: None,
                arrival: Arrival::None,
            })
        }))
    }

    /// The parameters of this endpoint, if it offers authentication.
    pub(crate) fn own(&self) -> Option<&AuthParameters> {
        self.0.as_ref().map(|state| &state.own)
    }

    /// Adopts the parameters exchanged at set-up; `None` if the peer does not support authentication.
    pub(crate) fn adopt(&mut self, exchange: Option<KeyExchange<'_>>) {
        if let Some(state) = &mut self.0 {
            state.session = exchange.map(|exchange| {
                if let Some(random) = exchange.local_random {
                    state.own.random = random;
                }
                Session::new(&state.config, &state.keys, &state.own, exchange.peer)
            });
        }
    }

    /// Whether the peer supports authentication; `None` if this endpoint does not offer it.
    pub(crate) fn is_negotiated(&self) -> Option<bool> {
        self.0.as_ref().map(|state| state.session.is_some())
    }

    /// Signs with this key from now on.
    pub(crate) fn activate_key(&mut self, id: u16) -> Result<(), AuthenticationKeyError> {
        self.change_keys(|keys| keys.activate(id))
    }

    /// Adds a key, or replaces the key with the same identifier.
    pub(crate) fn put_key(&mut self, key: SharedKey) -> Result<(), AuthenticationKeyError> {
        self.change_keys(|keys| keys.put(key))
    }

    /// Forgets a key.
    pub(crate) fn remove_key(&mut self, id: u16) -> Result<(), AuthenticationKeyError> {
        self.change_keys(|keys| keys.remove(id))
    }

    fn change_keys(
        &mut self,
        change: impl FnOnce(&mut SharedKeys) -> Result<(), AuthenticationKeyError>,
    ) -> Result<(), AuthenticationKeyError> {
        let state = self.0.as_mut().ok_or(AuthenticationKeyError::NotOffered)?;
        change(&mut state.keys)?;
        if let Some(session) = &mut state.session {
            session.on_keys_changed(&state.keys);
        }
        Ok(())
    }

    /// The values for the application, if authentication was negotiated.
    pub(crate) fn stats(&self) -> Option<AuthenticationStats> {
        let state = self.0.as_ref()?;
        let session = state.session.as_ref()?;
        Some(AuthenticationStats {
            hmac: session.hmac(),
            active_key: state.keys.active(),
            peer_key: session.peer_key(),
            chunks_required: session.required().iter().collect(),
            chunks_signed: session.signed().iter().collect(),
        })
    }
}

/// Sending.
impl Authentication {
    /// Signs the chunks that the peer requires to be authenticated; `None` if there are none.
    pub(crate) fn signer(&self) -> Option<&Signer> {
        self.0.as_ref()?.session.as_ref()?.signer()
    }
}

/// Receiving.
impl Authentication {
    /// A packet arrived; `authenticated` if its AUTH chunk was verified before with the keys of its cookie.
    pub(crate) fn begin_packet(&mut self, authenticated: bool) {
        if let Some(state) = &mut self.0 {
            state.arrival = if authenticated {
                Arrival::Authenticated
            } else {
                Arrival::Plain
            };
        }
    }

    /// The packet was handled.
    pub(crate) fn end_packet(&mut self) {
        if let Some(state) = &mut self.0 {
            state.arrival = Arrival::None;
        }
    }

    /// Whether a chunk of this type is discarded because it is not authenticated (RFC 4895 §6.3).
    pub(crate) fn refuses(&self, kind: u8) -> bool {
        match &self.0 {
            Some(state) => state.refuses(kind),
            None => false,
        }
    }

    /// Whether a chunk of this packet that violates the protocol must not end the association: only authenticated ABORTs may, and this
    /// chunk is not authenticated (RFC 4895 §6.3).
    pub(crate) fn keeps_association(&self) -> bool {
        let plain = self
            .0
            .as_ref()
            .is_some_and(|state| state.arrival == Arrival::Plain);
        plain && self.refuses(kind::ABORT)
    }

    /// An AUTH chunk arrived; `None` if authentication was not negotiated. A packet has at most one (RFC 4895 §5.1): the second costs no
    /// HMAC and ends the packet.
    pub(crate) fn on_auth(&mut self, raw: &RawChunk<'_>) -> Option<Verdict> {
        let state = self.0.as_mut()?;
        let session = state.session.as_mut()?;
        if state.arrival == Arrival::Authenticated {
            return Some(Verdict::Discard);
        }
        let verdict = match Auth::decode(raw) {
            Ok(auth) => session.verify(&state.keys, &auth, raw.to_packet_end()),
            Err(_) => Verdict::Discard,
        };
        if matches!(verdict, Verdict::Genuine { .. }) {
            state.arrival = Arrival::Authenticated;
        }
        Some(verdict)
    }
}

impl State {
    fn refuses(&self, kind: u8) -> bool {
        let required = self.session.as_ref().map(Session::required);
        self.arrival != Arrival::Authenticated && required.is_some_and(|types| types.contains(kind))
    }
}

/// How a packet with a COOKIE ECHO may set up an association (RFC 4895 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CookieAdmission {
    /// Its COOKIE ECHO is not authenticated, and need not be.
    Plain,
    /// The COOKIE ECHO and all chunks after it are authenticated.
    Authenticated,
    /// The packet is discarded.
    Refused,
}

/// Verifies a packet whose valid cookie has these parameters, for which there is no association yet: with the parameters of the cookie
/// and the keys of `config` (RFC 4895 §6.3).
pub(crate) fn admit_cookie(
    config: &Config,
    exchange: Option<KeyExchange<'_>>,
    inbound: &Inbound,
) -> CookieAdmission {
    admit(config, None, exchange, inbound)
}

impl Authentication {
    /// As [`admit_cookie`], for an association whose set-up has begun: with its own keys, which the application may have changed.
    pub(crate) fn admit_cookie(
        &self,
        config: &Config,
        exchange: Option<KeyExchange<'_>>,
        inbound: &Inbound,
    ) -> CookieAdmission {
        let keys = self.0.as_ref().map(|state| &state.keys);
        admit(config, keys, exchange, inbound)
    }
}

fn admit(
    config: &Config,
    keys: Option<&SharedKeys>,
    exchange: Option<KeyExchange<'_>>,
    inbound: &Inbound,
) -> CookieAdmission {
    let auth = inbound.chunks().next().filter(|first| first.kind == kind::AUTH);
    let Some(exchange) = exchange else {
        // An AUTH chunk is of unknown type, so that the chunks after it are discarded.
        return match auth {
            None => CookieAdmission::Plain,
            Some(_) => CookieAdmission::Refused,
        };
    };
    let Some(random) = exchange.local_random else {
        return CookieAdmission::Refused;
    };
    // The cookie has AUTH, and the endpoint that opens it does not: another configuration made it.
    let Some(own) = offer(config, || random) else {
        return CookieAdmission::Refused;
    };
    let mut trial = Authentication::new(config, Some(own));
    if let Some((state, keys)) = trial.0.as_mut().zip(keys) {
        state.keys = keys.clone();
    }
    trial.adopt(Some(exchange));
    trial.begin_packet(false);
    match auth.and_then(|raw| trial.on_auth(&raw)) {
        Some(Verdict::Genuine { .. }) => CookieAdmission::Authenticated,
        Some(Verdict::Discard | Verdict::UnsupportedHmac(_)) => CookieAdmission::Refused,
        None if trial.refuses(kind::COOKIE_ECHO) => CookieAdmission::Refused,
        None => CookieAdmission::Plain,
    }
}
