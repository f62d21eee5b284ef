//! The task that receives from a socket: whole batches, so that acknowledgements and what they release leave in
//! batches too.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::association::Shared;
use super::{Hub, stopped};
use crate::socket::{Datagram, ReceiveBuffers};

/// System calls in a row before other tasks get their turn.
const CALLS_IN_A_ROW: usize = 8;
/// How often associations may answer while a batch is handled.
const ANSWERS_PER_BATCH: usize = 8;
/// Pause after an error, so that a broken socket does not take a processor.
const PAUSE: Duration = Duration::from_millis(10);

impl Hub {
    pub(super) async fn receive(self: Arc<Self>, index: usize, mut stop: watch::Receiver<bool>) {
        let mut buffers = ReceiveBuffers::new();
        let mut touched = Vec::new();
        loop {
            tokio::select! {
                // An error is told by the call that receives.
                _ = self.sockets[index].readable() => {}
                () = stopped(&mut stop) => return,
            }
            for _ in 0..CALLS_IN_A_ROW {
                match self.receive_batch(index, &mut buffers, &mut touched) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        tracing::debug!(%error, "receiving failed");
                        tokio::time::sleep(PAUSE).await;
                        break;
                    }
                }
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Handles `count` datagrams that came together, and lets the associations answer a few times meanwhile. An answer
    /// to each would cost a system call for every second packet; one to all of them would tell a sender of a loss
    /// once, where it waits to be told three times (RFC 9260 §7.2.4).
    pub(super) fn handle_batch(
        self: &Arc<Self>,
        mut datagrams: impl Iterator<Item = Datagram>,
        count: usize,
        local: SocketAddr,
        touched: &mut Vec<Arc<Shared>>,
    ) {
        let step = count.div_ceil(ANSWERS_PER_BATCH).max(1);
        for _ in 0..count.div_ceil(step) {
            self.handle_datagrams(datagrams.by_ref().take(step), local, touched);
            for association in touched.drain(..) {
                association.after_packets();
            }
        }
    }

    fn receive_batch(
        self: &Arc<Self>,
        index: usize,
        buffers: &mut ReceiveBuffers,
        touched: &mut Vec<Arc<Shared>>,
    ) -> io::Result<()> {
        let socket = &self.sockets[index];
        socket.try_recv(buffers)?;
        let count = (0..buffers.filled())
            .map(|buffer| buffers.datagrams(buffer))
            .sum();
        let datagrams = (0..buffers.filled()).flat_map(|buffer| socket.datagrams(buffers, buffer));
        match &self.link {
            Some(link) => link.enqueue_received(self.now(), socket.local(), datagrams),
            None => self.handle_batch(datagrams, count, socket.local(), touched),
        }
        Ok(())
    }
}
