//! Endpoints that encrypt, in one call.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_tls::TlsSettings;
use tokio::net::ToSocketAddrs;

use crate::endpoint::Endpoint;
use crate::error::BindError;

impl Endpoint {
    /// A server that encrypts: binds to this address and UDP port, and accepts associations on SCTP port
    /// [`DEFAULT_SCTP_PORT`](crate::DEFAULT_SCTP_PORT). The settings say how the server shows who it is, and which clients it accepts: a
    /// client is always verified, unless the settings name `TlsTrust::accept_anybody_even_an_attacker`.
    ///
    /// It is short for [`EndpointBuilder::secure`](crate::EndpointBuilder::secure), `bind` and [`Endpoint::listen`]; a server with other
    /// settings uses these. Servers usually take UDP port [`DEFAULT_UDP_PORT`](crate::DEFAULT_UDP_PORT). Needs the feature `tls`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::{Endpoint, Identity, SecretKey, TlsSettings, TlsTrust};
    ///
    /// // Programs read their keys from files: TlsSettings::from_key_files("server.key", "client.key.pub").
    /// let (own, peer) = (SecretKey::generate()?, SecretKey::generate()?);
    /// let settings = |own: &SecretKey, peer: &SecretKey| -> Result<_, Box<dyn std::error::Error>> {
    ///     let trust = TlsTrust::public_keys([peer.public()]);
    ///     Ok(TlsSettings::new(&Identity::from_key(own)?, &trust)?)
    /// };
    /// let server = Endpoint::server("127.0.0.1:0", settings(&own, &peer)?).await?;
    /// let client = Endpoint::client(settings(&peer, &own)?).await?;
    /// let association = client.connect(server.local_addr()).await?;
    /// association.send(0, "nobody else reads this").await?;
    /// let message = server.accept().await.ok_or("closed")?.recv().await?;
    /// assert_eq!(message.ok_or("no message")?.into_bytes(), "nobody else reads this");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn server(local: impl ToSocketAddrs, settings: TlsSettings) -> Result<Self, BindError> {
        let endpoint = Self::builder().secure(settings).bind(local).await?;
        let listening = endpoint.listen();
        debug_assert!(
            listening.is_ok(),
            "a new endpoint is open, and the default port is not 0"
        );
        Ok(endpoint)
    }

    /// A client that encrypts: binds to any free UDP port, for servers with IPv6 and with IPv4 if the system has both. The settings say how
    /// the client shows who it is, and which servers it accepts: a server is always verified, unless the settings name
    /// `TlsTrust::accept_anybody_even_an_attacker`.
    ///
    /// It is short for [`EndpointBuilder::secure`](crate::EndpointBuilder::secure) and `bind`; a client with several paths or other
    /// settings uses these. Needs the feature `tls`. [`Endpoint::server`] has an example.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn client(settings: TlsSettings) -> Result<Self, BindError> {
        let any = [
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        ];
        match Self::builder().secure(settings.clone()).bind(any[0]).await {
            // The system has no IPv6.
            Err(BindError::Bind { .. }) => Self::builder().secure(settings).bind(any[1]).await,
            bound => bound,
        }
    }
}
