//! The states of RFC 9260 §4, each with the data that only it needs.

use super::set_up::{CookieEchoed, SetUp};
use crate::association_state::AssociationState;
use crate::close_reason::CloseReason;
use crate::control::Request;

/// The states, with their data.
#[derive(Debug)]
pub(crate) enum State {
    Closed,
    CookieWait(Box<SetUp>),
    CookieEchoed(Box<CookieEchoed>),
    Established,
    ShutdownPending,
    /// With the SHUTDOWN, which T2-shutdown retransmits.
    ShutdownSent(Request),
    ShutdownReceived,
    /// With the SHUTDOWN ACK, which T2-shutdown retransmits.
    ShutdownAckSent(Request),
}

impl State {
    pub(crate) fn kind(&self) -> AssociationState {
        match self {
            Self::Closed => AssociationState::Closed,
            Self::CookieWait(_) => AssociationState::CookieWait,
            Self::CookieEchoed(_) => AssociationState::CookieEchoed,
            Self::Established => AssociationState::Established,
            Self::ShutdownPending => AssociationState::ShutdownPending,
            Self::ShutdownSent(_) => AssociationState::ShutdownSent,
            Self::ShutdownReceived => AssociationState::ShutdownReceived,
            Self::ShutdownAckSent(_) => AssociationState::ShutdownAckSent,
        }
    }

    /// The INIT, COOKIE ECHO, SHUTDOWN or SHUTDOWN ACK that waits for its answer.
    pub(crate) fn request(&self) -> Option<&Request> {
        match self {
            Self::CookieWait(set_up) => Some(&set_up.request),
            Self::CookieEchoed(echoed) => Some(&echoed.request),
            Self::ShutdownSent(request) | Self::ShutdownAckSent(request) => Some(request),
            Self::Closed | Self::Established | Self::ShutdownPending | Self::ShutdownReceived => None,
        }
    }

    pub(crate) fn request_mut(&mut self) -> Option<&mut Request> {
        match self {
            Self::CookieWait(set_up) => Some(&mut set_up.request),
            Self::CookieEchoed(echoed) => Some(&mut echoed.request),
            Self::ShutdownSent(request) | Self::ShutdownAckSent(request) => Some(request),
            Self::Closed | Self::Established | Self::ShutdownPending | Self::ShutdownReceived => None,
        }
    }

    /// Whether the state permits this, or one of these.
    pub(crate) fn may(&self, permits: u8) -> bool {
        self.kind().may(permits)
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Whether everything is acknowledged both ways, and only the peer's SHUTDOWN COMPLETE is missing (§9.2).
    pub(crate) fn has_finished(&self) -> bool {
        matches!(self, Self::ShutdownAckSent(_))
    }

    /// Why the association ends if the peer does not answer. If the peer requested the shutdown and was told that everything is
    /// acknowledged, it may end without an answer: the reason is then a graceful shutdown; else `otherwise`.
    pub(crate) fn reason_of_silence(&self, otherwise: CloseReason) -> CloseReason {
        if self.has_finished() {
            CloseReason::Shutdown
        } else {
            otherwise
        }
    }
}
