//! The task that receives from a socket: whole batches, so that acknowledgements and what they release leave in
//! batches too. It reads and routes; the rest is the associations' work, which theirs can do beside it.

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

    /// Hands datagrams that came together to their associations. One that got all of them is served here and now, which
    /// spares it a change of tasks; several are left to their tasks, which run on other processors if there are any.
    pub(super) fn handle_batch(
        self: &Arc<Self>,
        datagrams: impl Iterator<Item = Datagram>,
        local: SocketAddr,
        touched: &mut Vec<Arc<Shared>>,
    ) {
        self.handle_datagrams(datagrams, local, touched);
        let one = touched.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1]));
        for association in touched.drain(..) {
            if !(one && association.try_work()) {
                association.wake();
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
        let datagrams = (0..buffers.filled()).flat_map(|buffer| socket.datagrams(buffers, buffer));
        match &self.link {
            Some(link) => {
                let free = link.enqueue_received(self.now(), socket.local(), datagrams);
                self.handle_batch(free.into_iter(), socket.local(), touched);
            }
            None => self.handle_batch(datagrams, socket.local(), touched),
        }
        Ok(())
    }
}
