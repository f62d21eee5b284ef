//! Ctrl-C and SIGTERM: the first one asks the command to finish with what it has, the second one ends it at once.

use tokio::sync::watch;

/// Whether the user asked to stop. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    asked: watch::Receiver<bool>,
}

impl Interrupt {
    /// Listens to the signals from now on. Must be called within the runtime.
    pub(crate) fn install() -> Self {
        let (sender, asked) = watch::channel(false);
        tokio::spawn(async move {
            signal().await;
            sender.send_replace(true);
            signal().await;
            std::process::exit(130);
        });
        Self { asked }
    }

    /// Whether it was asked.
    pub(crate) fn is_set(&self) -> bool {
        *self.asked.borrow()
    }

    /// Waits until it is asked.
    pub(crate) async fn wait(&self) {
        let mut asked = self.asked.clone();
        if asked.wait_for(|asked| *asked).await.is_err() {
            // No signal can come any more.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return interrupt().await;
    };
    tokio::select! {
        () = interrupt() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    interrupt().await;
}

async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        // The system tells no signals: then it ends the program itself.
        std::future::pending::<()>().await;
    }
}
