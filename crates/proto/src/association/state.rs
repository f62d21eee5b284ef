//! The states of RFC 9260 §4, each with what only it needs.

use anabranch_wire::chunk::Init;
use bytes::Bytes;

/// The states of RFC 9260 §4, as a caller sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationState {
    /// Over.
    Closed,
    /// INIT sent.
    CookieWait,
    /// COOKIE ECHO sent.
    CookieEchoed,
    /// Set up.
    Established,
    /// The application asked for a shutdown, data is still outstanding.
    ShutdownPending,
    /// SHUTDOWN sent.
    ShutdownSent,
    /// SHUTDOWN received, data is still outstanding.
    ShutdownReceived,
    /// SHUTDOWN ACK sent.
    ShutdownAckSent,
}

/// The states, with their data.
#[derive(Debug)]
pub(crate) enum State {
    Closed,
    CookieWait(Box<SetUp>),
    CookieEchoed(Box<SetUp>),
    Established,
    ShutdownPending,
    ShutdownSent { repeats: u32 },
    ShutdownReceived,
    ShutdownAckSent { repeats: u32 },
}

/// What is kept while a set-up is under way.
#[derive(Debug)]
pub(crate) struct SetUp {
    /// The INIT as it was sent, to be repeated and to answer a collision with the same parameters (§5.2.1).
    pub(crate) init: Init,
    /// The peer's cookie, once it came.
    pub(crate) cookie: Bytes,
    /// Parameters of the INIT ACK that the peer is told were not recognised, whole (§5.1, §3.2.2).
    pub(crate) unrecognized: Vec<Bytes>,
    /// INITs or COOKIE ECHOs repeated.
    pub(crate) repeats: u32,
    /// Times the peer said that its cookie is stale (§5.2.6).
    pub(crate) stale: u32,
}

impl State {
    pub(crate) fn kind(&self) -> AssociationState {
        match self {
            Self::Closed => AssociationState::Closed,
            Self::CookieWait(_) => AssociationState::CookieWait,
            Self::CookieEchoed(_) => AssociationState::CookieEchoed,
            Self::Established => AssociationState::Established,
            Self::ShutdownPending => AssociationState::ShutdownPending,
            Self::ShutdownSent { .. } => AssociationState::ShutdownSent,
            Self::ShutdownReceived => AssociationState::ShutdownReceived,
            Self::ShutdownAckSent { .. } => AssociationState::ShutdownAckSent,
        }
    }

    /// Whether DATA may leave (§4, §6).
    pub(crate) fn sends_data(&self) -> bool {
        matches!(
            self,
            Self::CookieEchoed(_) | Self::Established | Self::ShutdownPending | Self::ShutdownReceived
        )
    }

    /// Whether DATA is taken (§6, §9.2).
    pub(crate) fn takes_data(&self) -> bool {
        matches!(
            self,
            Self::Established | Self::ShutdownPending | Self::ShutdownSent { .. }
        )
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    pub(crate) fn is_setting_up(&self) -> bool {
        matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_))
    }
}
