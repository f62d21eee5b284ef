//! Owns the data of the states COOKIE-WAIT and COOKIE-ECHOED (RFC 9260 §5.1): the chunk that waits for its answer, and its timer.

use core::time::Duration;
use std::sync::Arc;

use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{CHUNK_HEADER_LEN, Chunk, ErrorChunk, Init, kind, padded};
use anabranch_wire::parameter::KeyManagement;
use bytes::Bytes;

use crate::config::Config;
use crate::control::Request;
use crate::extension::auth::{AuthParameters, Signer};
use crate::negotiation::{InitGuard, init_parameters, prove};
use crate::path::{HeartbeatInfo, PathId, Paths};

/// COOKIE-WAIT: an INIT was sent and waits for the INIT ACK.
#[derive(Debug)]
pub(crate) struct SetUp {
    /// The INIT as sent, for retransmission, or for a new INIT with a longer cookie preservative.
    pub(super) init: Init,
    /// Proves each INIT.
    guard: Option<Arc<dyn InitGuard>>,
    /// T1-init.
    pub(super) request: Request,
    /// How many times the peer reported a stale cookie (§5.2.6).
    pub(super) stale: u32,
}

/// COOKIE-ECHOED: a COOKIE ECHO was sent and waits for the COOKIE ACK.
#[derive(Debug)]
pub(crate) struct CookieEchoed {
    pub(super) init: Init,
    guard: Option<Arc<dyn InitGuard>>,
    pub(super) cookie: Bytes,
    /// Parameters of the INIT ACK to be reported to the peer as unrecognized, complete (§5.1, §3.2.2).
    unrecognized: Vec<Bytes>,
    /// T1-cookie.
    pub(super) request: Request,
    pub(super) stale: u32,
}

impl SetUp {
    pub(super) fn new(init: Init, guard: Option<Arc<dyn InitGuard>>, config: &Config) -> Self {
        Self {
            init: prove(guard.as_deref(), init),
            guard,
            request: Request::with_limit(config.retransmissions.max_init_retransmits),
            stale: 0,
        }
    }

    /// An INIT ACK arrived with this cookie.
    pub(super) fn echo(self, cookie: Bytes, unrecognized: Vec<Bytes>, config: &Config) -> CookieEchoed {
        CookieEchoed {
            init: self.init,
            guard: self.guard,
            cookie,
            unrecognized,
            request: Request::with_limit(config.retransmissions.max_init_retransmits),
            stale: self.stale,
        }
    }
}

impl CookieEchoed {
    /// The path of the next COOKIE ECHO: each time another address of the peer if a heartbeat fits into the packet (§5.4), otherwise the
    /// address that the application named.
    pub(super) fn path(&self, paths: &Paths, signer: Option<&Signer>) -> PathId {
        let path = PathId((self.request.retransmissions() as usize % paths.len()) as u8);
        let room = paths.path(path).pmtu.max_data();
        let overhead = |kind| signer.map_or(0, |signer| signer.overhead(kind));
        let auth_len = overhead(kind::COOKIE_ECHO).max(overhead(kind::HEARTBEAT));
        let fits = padded(CHUNK_HEADER_LEN + self.cookie.len()) + HeartbeatInfo::CHUNK_LEN + auth_len <= room;
        if fits { path } else { PathId(0) }
    }

    /// The ERROR that accompanies a COOKIE ECHO, if the INIT ACK had parameters to be reported.
    pub(super) fn errors(&self) -> Option<Chunk> {
        let causes = self.unrecognized.iter().cloned();
        let causes: Vec<_> = causes.map(Cause::UnrecognizedParameters).collect();
        (!causes.is_empty()).then(|| {
            Chunk::Error(ErrorChunk {
                causes: Causes::from_causes(&causes),
            })
        })
    }

    /// The cookie had expired by this time when it arrived (§5.2.6): a new INIT asks for a lifetime longer by that time and one second.
    pub(super) fn on_stale(
        self,
        staleness_us: u32,
        config: &Config,
        authentication: Option<&AuthParameters>,
        key_management: Option<&KeyManagement>,
    ) -> SetUp {
        let wanted = Duration::from_micros(staleness_us.into()).min(Duration::from_secs(60));
        let more = wanted + Duration::from_secs(1);
        let increment_ms = u32::try_from(more.as_millis()).unwrap_or(u32::MAX);
        let mut init = self.init;
        init.parameters = init_parameters(config, authentication, key_management, Some(increment_ms));
        SetUp {
            stale: self.stale + 1,
            ..SetUp::new(init, self.guard, config)
        }
    }
}
