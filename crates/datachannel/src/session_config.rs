//! The settings of a session, and the reasons why it cannot begin.

use std::net::SocketAddr;

use anabranch_dtls::Certificate;
use anabranch_proto::{Config, SchedulerKind};

use crate::interface::ChannelLimits;
use crate::sdp::SdpError;

/// The settings of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionConfig {
    /// The certificate of this side.
    pub certificate: Certificate,
    /// The addresses and UDP ports at which this side receives; no unspecified address.
    pub local: Vec<SocketAddr>,
    /// Whether this side only answers checks (ICE-lite, RFC 8445 §2.5): for servers with a public address. Default false.
    pub ice_lite: bool,
    /// The limits of the channels. `peer_max_message` is taken from the peer's description.
    pub limits: ChannelLimits,
    /// The settings of SCTP. The session sets those that WebRTC and DTLS fix.
    pub sctp: Config,
}

impl SessionConfig {
    /// The defaults with this certificate and these addresses. Channels have strict priorities and message interleaving.
    #[must_use]
    pub fn new(certificate: Certificate, local: impl Into<Vec<SocketAddr>>) -> Self {
        let mut sctp = Config::default();
        sctp.scheduler = SchedulerKind::Priority;
        // The default too. RFC 8831 §6.1 demands it for data channels, so it stays if the default changes. To browsers that do not offer it
        // the session sends DATA.
        sctp.interleaving.offer = true;
        Self {
            certificate,
            local: local.into(),
            ice_lite: false,
            limits: ChannelLimits::default(),
            sctp,
        }
    }

    /// Sets whether this side only answers checks.
    #[must_use]
    pub fn ice_lite(mut self, lite: bool) -> Self {
        self.ice_lite = lite;
        self
    }

    /// Sets the limits of the channels.
    #[must_use]
    pub fn limits(mut self, limits: ChannelLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the settings of SCTP.
    #[must_use]
    pub fn sctp(mut self, config: Config) -> Self {
        self.sctp = config;
        self
    }
}

/// The reason why a session cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The peer's description cannot be used.
    #[error("the description cannot be used: {0}")]
    Sdp(#[from] SdpError),
    /// No address was given, or one that cannot be a candidate.
    #[error("give between 1 and 16 addresses at which this side receives, none of them unspecified: {0}")]
    Local(String),
    /// Both peers only answer checks.
    #[error("both sides are ICE-lite, so that none of them begins; set ice_lite to false")]
    BothLite,
    /// A setting of SCTP is out of its range.
    #[error("invalid configuration: {0}")]
    Sctp(String),
    /// The system has no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
    /// The peer's description is not known yet, or the session has ended.
    #[error("the session has no description of the peer, or has ended")]
    NotBegun,
    /// The offer or answer has another certificate or another role in DTLS than before.
    #[error("the description is of another DTLS connection; begin a new session with it")]
    OtherPeer,
    /// The session does not wait for an answer.
    #[error("the session does not wait for an answer")]
    NoAnswerExpected,
}
