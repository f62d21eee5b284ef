//! Settings: those of `sctp-proto`, and below them the settings of the core.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anabranch_proto::{Config, LowerLayer};
use bytes::Bytes;

use crate::error::Error;

/// The SCTP port of data channels.
pub const DEFAULT_SCTP_PORT: u16 = 5000;

/// Bytes of a packet beside the user data of a DATA chunk: the headers of the packet and of the chunk.
const SCTP_HEADERS: u32 = 12 + 16;
/// Bytes of the headers below: IPv4 and UDP.
const LOWER_HEADERS: u32 = 20 + 8;
/// The smallest path MTU of the core.
const LEAST_MTU: u32 = 576;
/// The most bytes of a layer between UDP and SCTP, as the core knows it.
const MOST_OVERHEAD: u32 = 256;

static DEFAULT_TRANSPORT: OnceLock<TransportConfig> = OnceLock::new();

/// Sets what [`TransportConfig::default`] returns from now on, in this whole process. `str0m` begins with it and changes the limits of the
/// receiver and of retransmissions. Returns whether the settings were taken: they are set once, before the first endpoint.
pub fn set_default_transport(config: TransportConfig) -> bool {
    DEFAULT_TRANSPORT.set(config).is_ok()
}

/// The settings of associations.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    core: Config,
    pub(crate) max_send_message_size: u32,
    pub(crate) max_receive_message_size: u32,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) lifetime_is_deadline: bool,
}

impl Default for TransportConfig {
    /// Those of [`set_default_transport`]. Without it: the core's defaults, with as many streams as there can be, and without a limit of
    /// retransmissions, because the layers below a data channel tell when the peer is gone.
    fn default() -> Self {
        DEFAULT_TRANSPORT.get().cloned().unwrap_or_else(|| {
            let mut core = Config::default();
            core.streams.outbound = u16::MAX;
            Self::from(core).with_max_data_retransmits(None)
        })
    }
}

impl From<Config> for TransportConfig {
    /// Settings of the core, with the other settings of [`TransportConfig::default`]. The crate sets the lower layer, the largest packet and
    /// the size of the send buffer itself, and associations have one address of each side.
    fn from(core: Config) -> Self {
        Self {
            core,
            max_send_message_size: 65_536,
            max_receive_message_size: 65_536,
            local_port: DEFAULT_SCTP_PORT,
            remote_port: DEFAULT_SCTP_PORT,
            lifetime_is_deadline: false,
        }
    }
}

/// A number of retransmissions of the core. Without a limit: one that is never reached.
fn retransmissions(limit: Option<usize>) -> u32 {
    limit.map_or(u32::MAX, |limit| u32::try_from(limit).unwrap_or(u32::MAX))
}

impl TransportConfig {
    /// Sets the receive buffer, in bytes of user data; at least 1,500.
    #[must_use]
    pub fn with_max_receive_buffer_size(mut self, bytes: u32) -> Self {
        self.core.buffers.receive = bytes.max(1500);
        self
    }

    /// Sets the longest message that may be written.
    #[must_use]
    pub fn with_max_send_message_size(mut self, bytes: u32) -> Self {
        self.max_send_message_size = bytes;
        self
    }

    /// Sets the longest message that the peer may send. An association whose peer sends a longer one is aborted.
    #[must_use]
    pub fn with_max_receive_message_size(mut self, bytes: u32) -> Self {
        self.max_receive_message_size = bytes;
        self
    }

    /// Sets the number of streams to the peer.
    #[must_use]
    pub fn with_max_num_outbound_streams(mut self, streams: u16) -> Self {
        self.core.streams.outbound = streams.max(1);
        self
    }

    /// Sets the most streams from the peer.
    #[must_use]
    pub fn with_max_num_inbound_streams(mut self, streams: u16) -> Self {
        self.core.streams.max_inbound = streams.max(1);
        self
    }

    /// Sets the most retransmissions of INIT and COOKIE ECHO; `None` sets no limit.
    #[must_use]
    pub fn with_max_init_retransmits(mut self, limit: Option<usize>) -> Self {
        self.core.retransmissions.max_init_retransmits = retransmissions(limit);
        self
    }

    /// Sets after how many unanswered retransmissions the association ends; `None` sets no limit.
    #[must_use]
    pub fn with_max_data_retransmits(mut self, limit: Option<usize>) -> Self {
        self.core.retransmissions.association_max_retrans = retransmissions(limit);
        self.core.retransmissions.path_max_retrans = retransmissions(limit);
        self
    }

    /// Sets `RTO.Initial`, in milliseconds.
    #[must_use]
    pub fn with_rto_initial_ms(mut self, millis: u64) -> Self {
        self.core.rto.initial = Duration::from_millis(millis);
        self
    }

    /// Sets `RTO.Min`, in milliseconds.
    #[must_use]
    pub fn with_rto_min_ms(mut self, millis: u64) -> Self {
        self.core.rto.min = Duration::from_millis(millis);
        self
    }

    /// Sets `RTO.Max`, in milliseconds.
    #[must_use]
    pub fn with_rto_max_ms(mut self, millis: u64) -> Self {
        self.core.rto.max = Duration::from_millis(millis);
        self
    }

    /// Sets the SCTP port of this side, on which a server accepts associations too.
    #[must_use]
    pub fn with_local_port(mut self, port: u16) -> Self {
        self.local_port = port;
        self
    }

    /// Sets the SCTP port to which an association connects.
    #[must_use]
    pub fn with_remote_port(mut self, port: u16) -> Self {
        self.remote_port = port;
        self
    }

    /// Sets whether the lifetime of messages ([`crate::ReliabilityType::Timed`]) is a deadline: the messages are then sent so that they
    /// arrive within it, with copies where the network loses packets. Default false. `sctp-proto` has no such setting.
    #[must_use]
    pub fn with_lifetime_is_deadline(mut self, is_deadline: bool) -> Self {
        self.lifetime_is_deadline = is_deadline;
        self
    }

    /// The settings of the core, with packets of at most this many bytes of user data.
    pub(crate) fn core(&self, max_payload_size: u32) -> Config {
        let mut core = self.core.clone();
        let mtu = max_payload_size.saturating_add(SCTP_HEADERS + LOWER_HEADERS);
        // The core's path MTU has a minimum. For shorter packets, a layer below SCTP takes the rest.
        let overhead = LEAST_MTU.saturating_sub(mtu).min(MOST_OVERHEAD) as u16;
        let mtu = u16::try_from(mtu.max(LEAST_MTU)).unwrap_or(u16::MAX);
        core.path_mtu_limit = core.path_mtu_limit.min(mtu);
        core.lower_layer = LowerLayer::Dtls { overhead };
        // `write` cannot wait for room. The caller bounds what it writes by the buffered amount.
        core.buffers.send = usize::MAX >> 10;
        core.buffers.max_message = usize::MAX >> 10;
        core.local_addresses.clear();
        core.path_pairs.clear();
        core.dynamic_addresses = None;
        core
    }

    /// The most bytes of incomplete messages.
    pub(crate) fn most_incomplete(&self) -> usize {
        self.core.buffers.receive.max(self.max_receive_message_size) as usize
    }
}

/// The settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    max_payload_size: u32,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl EndpointConfig {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_payload_size: 1200,
        }
    }

    /// Sets the most bytes of user data in a packet with one DATA chunk, which bounds the packets that leave: they are at most 28 bytes
    /// longer. At least 264 bytes are used.
    pub fn max_payload_size(&mut self, bytes: u32) -> &mut Self {
        self.max_payload_size = bytes;
        self
    }

    /// The most bytes of user data in a packet.
    #[must_use]
    pub fn get_max_payload_size(&self) -> u32 {
        self.max_payload_size
    }
}

/// The settings of associations that peers set up.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// Their settings.
    pub transport: Arc<TransportConfig>,
}

impl ServerConfig {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The settings of an association that this side sets up.
#[derive(Clone, Debug, Default)]
pub struct ClientConfig {
    /// Its settings.
    pub transport: Arc<TransportConfig>,
    pub(crate) snap: bool,
}

impl ClientConfig {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for an association without a handshake, which [`crate::Endpoint::connect`] refuses: Anabranch has no SNAP.
    #[must_use]
    pub fn with_snap(mut self, _local_init: Bytes, _remote_init: Bytes) -> Self {
        self.snap = true;
        self
    }
}

/// Makes an INIT chunk for the description of a session (SNAP, draft-hancke-tsvwg-snap).
///
/// # Errors
/// Always [`Error::ErrUnimplemented`]: Anabranch has no SNAP. Callers then set up the association by the handshake of SCTP, as `str0m` does.
pub fn generate_snap_token(_config: &TransportConfig) -> Result<Bytes, Error> {
    Err(Error::ErrUnimplemented)
}
