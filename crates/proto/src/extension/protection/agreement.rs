//! The key management method and the roles, from the parameters of both endpoints (draft-ietf-tsvwg-sctp-dtls-chunk §5.1).

use anabranch_wire::cause::Cause;
use anabranch_wire::parameter::{HEADER_LEN, KeyManagement, KeyManagementFlags};
use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::config::{MOST_METHODS, ProtectionConfig};

/// The role of an endpoint in key management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRole {
    /// It begins the handshake.
    Client,
    /// It answers.
    Server,
}

impl KeyRole {
    /// The role of the peer.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The result of set-up for key management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The role of this endpoint.
    pub role: KeyRole,
    /// The identifier of the method.
    pub method: u8,
    /// The DTLS Key Management Parameter of the endpoint with the role of the client: with its header and without padding, as it was in its
    /// INIT or INIT ACK. Keys are derived from both parameters, so that nobody can change them unnoticed.
    pub client: Bytes,
    /// The same of the endpoint with the role of the server.
    pub server: Bytes,
}

impl Agreement {
    /// Whether both endpoints set the R bit of their parameters: each keeps restart keys, and answers a restart that uses them.
    #[must_use]
    pub fn permits_restart(&self) -> bool {
        let parameters = [&self.client, &self.server];
        parameters.iter().all(|parameter| {
            let value = parameter.get(HEADER_LEN..).map(Bytes::copy_from_slice);
            let parameter = value.and_then(KeyManagement::from_value);
            parameter.is_some_and(|parameter| parameter.flags().restart)
        })
    }
}

/// The parameters of both endpoints, as far as this endpoint has to keep its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyParameters<'a> {
    /// `None` for that of its INIT.
    pub(crate) own: Option<&'a KeyManagement>,
    pub(crate) peer: &'a KeyManagement,
}

/// The parameters of both endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyExchange {
    pub(crate) own: KeyManagement,
    pub(crate) peer: KeyManagement,
}

/// The parameter of an INIT: this endpoint takes either role, as two endpoints that set up an association at once need it.
pub(crate) fn offer(config: &ProtectionConfig, tie_breaker: u32) -> KeyManagement {
    let flags = KeyManagementFlags {
        restart: config.restart,
        server: true,
        client: true,
    };
    KeyManagement::new(tie_breaker, flags, &config.methods)
}

/// The parameter of an INIT ACK that answers an INIT with this parameter: the endpoint that sent the INIT becomes the client if it can.
pub(crate) fn answer(config: &ProtectionConfig, peer: &KeyManagement, tie_breaker: u32) -> KeyManagement {
    let server = peer.flags().client;
    let flags = KeyManagementFlags {
        restart: config.restart,
        server,
        client: !server,
    };
    KeyManagement::new(tie_breaker, flags, &config.methods)
}

/// Whether the parameter of a peer is compatible (§5.1); the cause with which its association is refused if it is not.
pub(crate) fn check_peer(config: &ProtectionConfig, peer: Option<&KeyManagement>) -> Result<(), Cause> {
    let peer = peer.ok_or(Cause::MissingDtlsSupport)?;
    let common = config
        .methods
        .iter()
        .any(|method| peer.methods().contains(method));
    // A list this long has an identifier twice, or names methods that nobody has registered.
    if !common || peer.methods().len() > MOST_METHODS {
        return Err(Cause::NoCommonKeyManagement);
    }
    let flags = peer.flags();
    if !flags.client && !flags.server {
        return Err(Cause::IncompatibleKeyManagementRoles);
    }
    Ok(())
}

/// Length in a cookie in bytes of the longest parameters.
#[cfg(test)]
pub(crate) const MOST_COOKIE_LEN: usize = 2 * (1 + 5 + MOST_METHODS);

/// Length in bytes by which a cookie is longer for endpoints with parameters as long as this one.
pub(crate) fn cookie_len(own: &KeyManagement) -> usize {
    2 * (1 + own.value().len())
}

impl KeyExchange {
    /// Appends the parameters to a cookie.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        for parameter in [&self.own, &self.peer] {
            out.put_u8(parameter.value().len() as u8);
            out.put_slice(parameter.value());
        }
    }

    /// Reads the parameters from a cookie of this endpoint.
    pub(crate) fn decode(from: &mut &[u8]) -> Option<Self> {
        let mut next = || {
            let len = usize::from(from.try_get_u8().ok()?);
            let value = Bytes::copy_from_slice(from.get(..len)?);
            from.advance(len);
            KeyManagement::from_value(value)
        };
        Some(Self {
            own: next()?,
            peer: next()?,
        })
    }

    /// The role of this endpoint.
    fn role(&self) -> Result<KeyRole, Cause> {
        let (own, peer) = (self.own.flags(), self.peer.flags());
        let may_be_client = own.client && peer.server;
        let may_be_server = own.server && peer.client;
        match (may_be_client, may_be_server) {
            (true, false) => Ok(KeyRole::Client),
            (false, true) => Ok(KeyRole::Server),
            (false, false) => Err(Cause::IncompatibleKeyManagementRoles),
            (true, true) => match self.own.tie_breaker().cmp(&self.peer.tie_breaker()) {
                core::cmp::Ordering::Less => Ok(KeyRole::Client),
                core::cmp::Ordering::Greater => Ok(KeyRole::Server),
                core::cmp::Ordering::Equal => Err(Cause::TieBreakerCollision),
            },
        }
    }

    /// The role of this endpoint and the method: the first of the server's list that the client lists too. The cause of the refusal if there
    /// is none.
    pub(crate) fn agree(&self) -> Result<Agreement, Cause> {
        let role = self.role()?;
        let (client, server) = match role {
            KeyRole::Client => (&self.own, &self.peer),
            KeyRole::Server => (&self.peer, &self.own),
        };
        let common = |method: &&u8| client.methods().contains(method);
        let method = server.methods().iter().find(common);
        Ok(Agreement {
            role,
            method: *method.ok_or(Cause::NoCommonKeyManagement)?,
            client: client.whole().into(),
            server: server.whole().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: (bool, bool) = (true, true);

    fn parameter(tie_breaker: u32, (client, server): (bool, bool), methods: &[u8]) -> KeyManagement {
        let flags = KeyManagementFlags {
            restart: false,
            server,
            client,
        };
        KeyManagement::new(tie_breaker, flags, methods)
    }

    /// Both endpoints agree, or refuse with the same cause.
    fn agreed(own: &KeyManagement, peer: &KeyManagement) -> Result<(KeyRole, u8), Cause> {
        let exchange = |own: &KeyManagement, peer: &KeyManagement| KeyExchange {
            own: own.clone(),
            peer: peer.clone(),
        };
        let (here, there) = (exchange(own, peer).agree(), exchange(peer, own).agree());
        match (here, there) {
            (Ok(here), Ok(there)) => {
                assert_eq!(here.role, there.role.other());
                assert_eq!((&here.client, &here.server), (&there.client, &there.server));
                assert_eq!(here.method, there.method);
                Ok((here.role, here.method))
            }
            (here, there) => {
                let cause = here.expect_err("refused");
                assert_eq!(there, Err(cause.clone()));
                Err(cause)
            }
        }
    }

    #[test]
    fn a_single_role_decides_and_otherwise_the_tie_breaker() {
        let both = |tie| parameter(tie, BOTH, &[192]);
        let client = parameter(9, (true, false), &[192]);
        let server = parameter(1, (false, true), &[192]);
        assert_eq!(agreed(&client, &server), Ok((KeyRole::Client, 192)));
        assert_eq!(agreed(&both(1), &client), Ok((KeyRole::Server, 192)));
        assert_eq!(agreed(&both(9), &server), Ok((KeyRole::Client, 192)));
        // The larger tie breaker is the server.
        assert_eq!(agreed(&both(2), &both(1)), Ok((KeyRole::Server, 192)));
        assert_eq!(agreed(&both(2), &both(2)), Err(Cause::TieBreakerCollision));
        assert_eq!(
            agreed(&client, &client),
            Err(Cause::IncompatibleKeyManagementRoles)
        );
    }

    #[test]
    fn the_servers_preference_decides() {
        let client = parameter(1, (true, false), &[1, 2, 3]);
        let server = |methods: &[u8]| parameter(1, (false, true), methods);
        assert_eq!(agreed(&client, &server(&[7, 3, 2])), Ok((KeyRole::Client, 3)));
        assert_eq!(agreed(&client, &server(&[7])), Err(Cause::NoCommonKeyManagement));
    }

    #[test]
    fn a_peer_is_refused_with_the_cause_of_the_draft() {
        let config = ProtectionConfig::default();
        let check = |peer: &KeyManagement| check_peer(&config, Some(peer));
        assert_eq!(check_peer(&config, None), Err(Cause::MissingDtlsSupport));
        assert_eq!(check(&parameter(1, BOTH, &[192])), Ok(()));
        assert_eq!(
            check(&parameter(1, BOTH, &[7])),
            Err(Cause::NoCommonKeyManagement)
        );
        assert_eq!(
            check(&parameter(1, BOTH, &[192; 33])),
            Err(Cause::NoCommonKeyManagement)
        );
        assert_eq!(
            check(&parameter(1, (false, false), &[192])),
            Err(Cause::IncompatibleKeyManagementRoles)
        );
    }

    #[test]
    fn the_answer_takes_the_other_role() {
        let config = ProtectionConfig::default();
        for (peer, role) in [
            (BOTH, KeyRole::Server),
            ((true, false), KeyRole::Server),
            ((false, true), KeyRole::Client),
        ] {
            let peer = parameter(5, peer, &[192]);
            let own = answer(&config, &peer, 5);
            assert_eq!(agreed(&own, &peer), Ok((role, 192)));
        }
    }
}
