//! Which addresses of the host an endpoint follows.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use tokio::runtime::Handle;

use crate::path_source::PathSource;

/// Which addresses of the host an endpoint follows.
#[derive(Debug)]
pub(crate) struct Following {
    /// Where the paths of each new association begin.
    sources: Vec<PathSource>,
    /// Associations without sources move to the address of the route to their peer.
    pub(super) moves: bool,
    /// The task that follows the host runs.
    pub(super) has_task: AtomicBool,
    /// Held while sockets of paths are opened or closed, and their addresses given to the associations. It comes before the lock of an
    /// association.
    pub(super) turn: Mutex<()>,
    pub(super) runtime: Handle,
}

impl Following {
    /// Must be called within a tokio runtime.
    pub(super) fn new(sources: Vec<PathSource>, moves: bool) -> Self {
        Self {
            sources,
            moves,
            has_task: AtomicBool::new(false),
            turn: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    pub(crate) fn sources(&self) -> &[PathSource] {
        &self.sources
    }

    /// Whether a path may begin at an interface that does not exist yet.
    pub(crate) fn waits_for_interfaces(&self) -> bool {
        self.moves
    }
}
