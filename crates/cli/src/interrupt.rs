//! Ctrl-C and SIGTERM: the first signal asks the command to stop and to report its results so far; the second signal ends the
//! program at once.

use tokio::sync::watch;

/// Whether the user asked to stop. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    asked: watch::Receiver<bool>,
}

impl Interrupt {
    /// Handles the signals from now on. Must be called within the runtime.
    pub(crate) fn install() -> Self {
        let (sender, asked) = watch::channel(false);
        let mut signals = Signals::install();
        tokio::spawn(async move {
            signals.next().await;
            sender.send_replace(true);
            signals.next().await;
            std::process::exit(130);
        });
        Self { asked }
    }

    /// Whether a signal came.
    pub(crate) fn is_set(&self) -> bool {
        *self.asked.borrow()
    }

    /// Waits for a signal.
    pub(crate) async fn wait(&self) {
        let mut asked = self.asked.clone();
        if asked.wait_for(|asked| *asked).await.is_err() {
            // The task that receives signals has ended: none can arrive.
            std::future::pending::<()>().await;
        }
    }
}

/// The signals. If a handler cannot be installed, the signal ends the program as usual.
#[cfg(unix)]
struct Signals([Option<tokio::signal::unix::Signal>; 2]);

#[cfg(unix)]
impl Signals {
    fn install() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self([SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok()))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            () = told(interrupt) => {}
            () = told(terminate) => {}
        }
    }
}

/// SIGHUP: the user asks a server to read its configuration again. Other systems have no such signal.
#[derive(Debug)]
pub(crate) struct Reload(#[cfg(unix)] Option<tokio::signal::unix::Signal>);

impl Reload {
    /// Handles the signal from now on. Must be called within the runtime.
    pub(crate) fn install() -> Self {
        #[cfg(unix)]
        return Self(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok());
        #[cfg(not(unix))]
        return Self();
    }

    /// Waits for the next signal.
    pub(crate) async fn asked(&mut self) {
        #[cfg(unix)]
        told(&mut self.0).await;
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn told(signal: &mut Option<tokio::signal::unix::Signal>) {
    let told = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if told.is_none() {
        std::future::pending::<()>().await;
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn install() -> Self {
        Self
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
