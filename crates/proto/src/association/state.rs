//! The states of RFC 9260 §4, each with the data that only it needs.

use super::handshake::{CookieEchoed, SetUp};
use crate::control::Request;
use crate::event::CloseReason;
pub use crate::stats::AssociationState;
use crate::transmit::DataPhase;

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

    /// The data that the sender may send in this state.
    pub(crate) fn data_phase(&self) -> DataPhase {
        match self {
            Self::Closed => DataPhase::Closed,
            Self::CookieWait(_) => DataPhase::SettingUp,
            Self::CookieEchoed(_) => DataPhase::CookieEchoed,
            Self::Established => DataPhase::Open,
            Self::ShutdownPending | Self::ShutdownReceived => DataPhase::Ending,
            Self::ShutdownSent(_) | Self::ShutdownAckSent(_) => DataPhase::Over,
        }
    }

    /// Whether DATA may be sent, and acknowledgements of it are processed (§4, §6).
    pub(crate) fn sends_data(&self) -> bool {
        matches!(
            self,
            Self::CookieEchoed(_) | Self::Established | Self::ShutdownPending | Self::ShutdownReceived
        )
    }

    /// Whether received DATA is processed (§6, §9.2).
    pub(crate) fn takes_data(&self) -> bool {
        matches!(
            self,
            Self::Established | Self::ShutdownPending | Self::ShutdownSent(_)
        )
    }

    /// Whether received DATA or acknowledgements of DATA are processed.
    pub(crate) fn takes_any_data(&self) -> bool {
        self.takes_data() || self.sends_data()
    }

    /// Whether the application may begin messages.
    pub(crate) fn begins_messages(&self) -> bool {
        self.is_setting_up() || matches!(self, Self::Established)
    }

    /// Whether the application may end a message that it began before.
    pub(crate) fn ends_messages(&self) -> bool {
        self.is_setting_up() || matches!(self, Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// Whether heartbeats are sent (§8.3).
    pub(crate) fn sends_heartbeats(&self) -> bool {
        matches!(
            self,
            Self::Established | Self::ShutdownPending | Self::ShutdownReceived | Self::ShutdownSent(_)
        )
    }

    /// Whether an ASCONF that was sent before is still retransmitted and acknowledged. RFC 5061 §5.1.1 C4 leaves out SHUTDOWN-ACK-SENT: an
    /// endpoint without another address could then never send its SHUTDOWN ACK.
    pub(crate) fn completes_asconf(&self) -> bool {
        self.sends_heartbeats() || matches!(self, Self::ShutdownAckSent(_))
    }

    /// Whether path MTU probes are sent.
    pub(crate) fn probes_paths(&self) -> bool {
        matches!(
            self,
            Self::Established | Self::ShutdownPending | Self::ShutdownReceived
        )
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    pub(crate) fn is_setting_up(&self) -> bool {
        matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_))
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
