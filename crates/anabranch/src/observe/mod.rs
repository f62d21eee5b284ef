//! The trace events of associations ([`anabranch_proto::TraceEvent`]) for people and programs: the log (`tracing`), qlog files, and
//! metrics.

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "qlog")]
mod qlog;

use std::net::SocketAddr;

use anabranch_proto::{AssociationId, TraceEvent, TraceLevel};
use tracing::Span;

use crate::capture::Capture;

#[cfg(feature = "qlog")]
pub(crate) use qlog::Qlog;

/// The target of log events, for filters such as `RUST_LOG=anabranch::trace=debug`.
const TARGET: &str = "anabranch::trace";

/// The files that record an endpoint's packets and the trace events of its associations.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    pub(crate) capture: Option<Capture>,
    #[cfg(feature = "qlog")]
    pub(crate) qlog: Option<Qlog>,
}

/// The trace of one association.
#[derive(Debug)]
pub(crate) struct Watched {
    level: TraceLevel,
    #[cfg(feature = "qlog")]
    id: AssociationId,
    /// The span of the association's log events; disabled if nobody wants them.
    span: Span,
}

impl Observers {
    /// A new association: how much it has to record, and where its events belong.
    pub(crate) fn watch(&self, id: AssociationId, remote: SocketAddr) -> Watched {
        let logged = if tracing::enabled!(target: TARGET, tracing::Level::TRACE) {
            TraceLevel::Packets
        } else if tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
            TraceLevel::Events
        } else {
            TraceLevel::Off
        };
        let span = if logged == TraceLevel::Off {
            Span::none()
        } else {
            tracing::debug_span!(target: TARGET, "association", id = id.0, peer = %remote)
        };
        let level = logged.max(self.level());
        Watched {
            level,
            #[cfg(feature = "qlog")]
            id,
            span,
        }
    }

    /// The events that files and metrics need.
    fn level(&self) -> TraceLevel {
        #[cfg(feature = "qlog")]
        if self.qlog.is_some() {
            return TraceLevel::Packets;
        }
        if cfg!(feature = "metrics") {
            TraceLevel::Events
        } else {
            TraceLevel::Off
        }
    }

    /// An event of an association.
    pub(crate) fn tell(&self, watched: &Watched, event: &TraceEvent) {
        if !watched.span.is_disabled() {
            watched.log(event);
        }
        #[cfg(feature = "qlog")]
        if let Some(qlog) = &self.qlog {
            qlog.write(watched.id, event);
        }
        #[cfg(feature = "metrics")]
        metrics::count(event);
    }

    /// Writes what waits to the files, as far as somebody reads them.
    pub(crate) async fn flush(&self) {
        if let Some(capture) = &self.capture {
            capture.flush().await;
        }
        #[cfg(feature = "qlog")]
        if let Some(qlog) = &self.qlog {
            qlog.flush().await;
        }
    }
}

impl Watched {
    /// How much the association records.
    pub(crate) fn level(&self) -> TraceLevel {
        self.level
    }

    fn log(&self, event: &TraceEvent) {
        use anabranch_proto::TraceKind::{PacketReceived, PacketSent};
        let (at, name, text) = (event.at, event.kind.name(), &event.kind);
        self.span.in_scope(|| match text {
            PacketSent { .. } | PacketReceived { .. } => {
                tracing::trace!(target: TARGET, %at, event = name, "{text}");
            }
            _ => tracing::debug!(target: TARGET, %at, event = name, "{text}"),
        });
    }
}
