//! The states of an association (RFC 9260 §4), and what it does in each of them.

/// The states of RFC 9260 §4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationState {
    /// CLOSED: the association has ended.
    Closed,
    /// COOKIE-WAIT: INIT sent.
    CookieWait,
    /// COOKIE-ECHOED: COOKIE ECHO sent.
    CookieEchoed,
    /// ESTABLISHED: set-up is complete.
    Established,
    /// SHUTDOWN-PENDING: the application requested a shutdown, data is still outstanding.
    ShutdownPending,
    /// SHUTDOWN-SENT: SHUTDOWN sent.
    ShutdownSent,
    /// SHUTDOWN-RECEIVED: SHUTDOWN received, data is still outstanding.
    ShutdownReceived,
    /// SHUTDOWN-ACK-SENT: SHUTDOWN ACK sent.
    ShutdownAckSent,
}

/// Actions of an association that some states permit and others do not. Each is one bit.
pub(crate) mod permit {
    /// Set-up is not complete: T1-init or T1-cookie runs (§5.1).
    pub(crate) const SET_UP: u8 = 1;
    /// DATA is sent, and acknowledgements of it are processed (§4, §6).
    pub(crate) const SEND_DATA: u8 = 1 << 1;
    /// Received DATA is processed (§6, §9.2).
    pub(crate) const TAKE_DATA: u8 = 1 << 2;
    /// Data is exchanged, in one direction at least.
    pub(crate) const EXCHANGE_DATA: u8 = SEND_DATA | TAKE_DATA;
    /// The application may begin messages.
    pub(crate) const BEGIN_MESSAGES: u8 = 1 << 3;
    /// The application may end a message that it began before.
    pub(crate) const END_MESSAGES: u8 = 1 << 4;
    /// Heartbeats are sent (§8.3), and ASCONFs (RFC 5061).
    pub(crate) const HEARTBEAT: u8 = 1 << 5;
    /// Path MTU probes are sent.
    pub(crate) const PROBE: u8 = 1 << 6;
    /// An ASCONF that was sent before is retransmitted and its answer processed. RFC 5061 §5.1.1 C4 leaves out SHUTDOWN-ACK-SENT: an endpoint
    /// without another address could then never send its SHUTDOWN ACK.
    pub(crate) const COMPLETE_ASCONF: u8 = 1 << 7;
    /// Nothing.
    pub(crate) const NOTHING: u8 = 0;
    /// All that any state but CLOSED permits.
    pub(crate) const ANYTHING: u8 = u8::MAX;
}

impl AssociationState {
    /// All that an association does in this state.
    const fn permits(self) -> u8 {
        use permit::*;
        match self {
            Self::Closed => 0,
            Self::CookieWait => SET_UP | BEGIN_MESSAGES | END_MESSAGES,
            Self::CookieEchoed => SET_UP | SEND_DATA | BEGIN_MESSAGES | END_MESSAGES,
            Self::Established => SEND_DATA | TAKE_DATA | BEGIN_MESSAGES | HEARTBEAT | PROBE | COMPLETE_ASCONF,
            Self::ShutdownPending => {
                SEND_DATA | TAKE_DATA | END_MESSAGES | HEARTBEAT | PROBE | COMPLETE_ASCONF
            }
            Self::ShutdownReceived => SEND_DATA | END_MESSAGES | HEARTBEAT | PROBE | COMPLETE_ASCONF,
            Self::ShutdownSent => TAKE_DATA | HEARTBEAT | COMPLETE_ASCONF,
            Self::ShutdownAckSent => COMPLETE_ASCONF,
        }
    }

    /// Whether the state permits this, or one of these.
    pub(crate) const fn may(self, permits: u8) -> bool {
        self.permits() & permits != 0
    }
}
