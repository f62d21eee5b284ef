//! The side that takes everything at once, and notes when.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch::{Association, Config, Endpoint, StreamId, Transport};
use anabranch_bed::Side;
use anabranch_lab::traffic::{FirstTimes, message_of};
use anabranch_proto::Timestamp;
use bytes::Bytes;

use crate::clock::Clock;
use crate::error::FieldError;
use crate::sender::CONTENT;

/// The SCTP port.
pub(crate) const PORT: u16 = 7;

/// What was delivered so far; the run looks at it to know whether it is over.
#[derive(Debug, Default)]
pub(crate) struct Received(Mutex<Deliveries>);

/// Deliveries, and what the association counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deliveries {
    pub(crate) first: FirstTimes,
    pub(crate) all: Vec<(Timestamp, u32)>,
    pub(crate) packets: u64,
}

impl Received {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Deliveries> {
        // Nobody panics with it held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses of a side on so many paths.
pub(crate) fn addresses(side: Side, paths: usize) -> Vec<IpAddr> {
    (1..).take(paths).map(|path| side.ipv4(path).into()).collect()
}

/// An endpoint directly over IP, as the scenario has it, on all addresses of a side.
pub(crate) fn endpoint(config: &Config, addresses: &[IpAddr]) -> Result<Endpoint, FieldError> {
    let mut config = config.clone();
    if addresses.len() > 1 {
        config.local_addresses = addresses.to_vec();
    }
    let sockets: Vec<SocketAddr> = addresses.iter().map(|address| (*address, 0).into()).collect();
    let builder = Endpoint::builder().config(config).transport(Transport::RawIp);
    Ok(builder.bind_all(&sockets)?)
}

/// Runs something on this thread that waits for packets and time.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, FieldError>>) -> Result<T, FieldError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result: io::Result<_> = runtime.map(|runtime| runtime.block_on(work));
    result?
}

/// What a receiver sends that sends as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likewise {
    /// Bytes of each message.
    pub(crate) len: usize,
    /// From when on there are no more.
    pub(crate) until: Timestamp,
}

/// Receives until the run is over, and sends meanwhile if it is told to. `ready` is called when somebody may
/// connect.
pub(crate) async fn receive(
    config: &Config,
    (paths, likewise): (usize, Option<Likewise>),
    clock: &Clock<'_>,
    received: &Received,
    ready: impl FnOnce(),
) -> Result<(), FieldError> {
    let endpoint = endpoint(config, &addresses(Side::Right, paths))?;
    endpoint.listen(PORT)?;
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
