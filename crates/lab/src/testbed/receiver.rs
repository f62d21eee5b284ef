//! The receiver: it reads every message at once and notes the time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch::{Association, Config, Endpoint, StreamId, Transport};
use anabranch_bed::Side;
use anabranch_proto::Timestamp;
use bytes::Bytes;

use super::clock::Clock;
use super::error::TestbedError;
use super::sender::CONTENT;
use crate::traffic::{FirstTimes, message_of};

/// The SCTP port.
pub(crate) const PORT: u16 = 7;

/// The deliveries so far; the run reads them to know whether it is over.
#[derive(Debug, Default)]
pub(crate) struct Received(Mutex<Deliveries>);

/// Deliveries, and the number of packets that the association received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deliveries {
    pub(crate) first: FirstTimes,
    /// Each message that the application read, and when.
    pub(crate) all: Vec<(Timestamp, u32)>,
    pub(crate) packets: u64,
}

impl Received {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Deliveries> {
        // No thread panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses of a side, one for each path.
pub(crate) fn addresses(side: Side, paths: usize) -> Vec<IpAddr> {
    (1..).take(paths).map(|path| side.ipv4(path).into()).collect()
}

/// An endpoint directly over IP with the scenario's settings, on all addresses of a side.
pub(crate) fn endpoint(config: &Config, addresses: &[IpAddr]) -> Result<Endpoint, TestbedError> {
    let mut config = config.clone();
    if addresses.len() > 1 {
        config.local_addresses = addresses.to_vec();
    }
    let sockets: Vec<SocketAddr> = addresses.iter().map(|address| (*address, 0).into()).collect();
    // As in virtual time, the settings alone limit the set-up.
    let builder = Endpoint::builder()
        .config(config)
        .transport(Transport::RawIp)
        .connect_timeout(Duration::MAX);
    Ok(builder.bind_all(&sockets)?)
}

/// Runs an asynchronous task on this thread, with a runtime of its own.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, TestbedError>>) -> Result<T, TestbedError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result: io::Result<_> = runtime.map(|runtime| runtime.block_on(work));
    result?
}

/// The data that the receiver sends itself, if data flows both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likewise {
    /// Bytes of each message.
    pub(crate) len: usize,
    /// The receiver sends no message after this time.
    pub(crate) until: Timestamp,
}

/// Receives until the run is over, and sends meanwhile if `likewise` is given. `ready` is called when the sender can connect.
pub(crate) async fn receive(
    config: &Config,
    (paths, likewise): (usize, Option<Likewise>),
    clock: &Clock<'_>,
    received: &Received,
    ready: impl FnOnce(),
) -> Result<(), TestbedError> {
    let endpoint = endpoint(config, &addresses(Side::Right, paths))?;
    endpoint.listen_on_port(PORT)?;
    ready();
    let mut association = None;
    let _ = clock
        .unless_over(take(&endpoint, likewise, (clock, received), &mut association))
        .await;
    if let Some(association) = association {
        received.lock().packets = association.stats().counters.packets_received;
    }
    Ok(())
}

async fn take(
    endpoint: &Endpoint,
    likewise: Option<Likewise>,
    (clock, received): (&Clock<'_>, &Received),
    accepted: &mut Option<Association>,
) {
    let Some(association) = endpoint.accept().await else {
        return;
    };
    *accepted = Some(association.clone());
    let receive = async {
        while let Ok(Some(message)) = association.recv().await {
            let now = clock.now();
            let number = message_of(message.ppid);
            let mut deliveries = received.lock();
            deliveries.first.note(number, now);
            deliveries.all.push((now, number));
        }
    };
    let send = async {
        let Some(Likewise { len, until }) = likewise else {
            return;
        };
        let content = Bytes::from_static(&CONTENT[..len]);
        while clock.now() < until && association.send(StreamId(0), content.clone()).await.is_ok() {}
    };
    tokio::join!(receive, send);
}
