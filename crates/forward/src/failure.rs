//! Targets that do not accept. The peer's program learns nothing of the reason: the operator at this endpoint has to, and not too often.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::{Lock, lock};
use crate::rule::{Protocol, Target};

/// The time after which the same failure is told again.
const PAUSE: Duration = Duration::from_secs(60);
/// Failures that are told in this time: a client may try many targets.
const MOST: usize = 64;

/// A target that did not accept a connection, or where no program receives datagrams.
#[derive(Clone, Debug, thiserror::Error)]
#[error("target {target}/{protocol}{} does not accept: {error}", if *is_remote { " of the peer" } else { "" })]
#[non_exhaustive]
pub struct TargetFailure {
    /// The protocol of the rule.
    pub protocol: Protocol,
    /// The target.
    pub target: Target,
    /// Whether the other endpoint connects to the target, and this one to the other.
    pub is_remote: bool,
    /// The error of the operating system; if the target is remote, only whether it failed or is forbidden there.
    pub error: String,
}

/// The failures that were told lately, by their names.
#[derive(Debug)]
pub(crate) struct Told<K>(Lock<BTreeMap<K, Instant>>);

/// The targets of both endpoints: whether one is remote, its protocol and its place.
pub(crate) type ToldTargets = Told<(bool, Protocol, String)>;

impl<K> Default for Told<K> {
    fn default() -> Self {
        Self(Lock::default())
    }
}

impl<K: Ord> Told<K> {
    /// Whether a failure is to be told now.
    pub(crate) fn admits(&self, what: K, now: Instant) -> bool {
        let mut told = lock(&self.0);
        told.retain(|_, time| now.duration_since(*time) < PAUSE);
        let admits = told.len() < MOST && !told.contains_key(&what);
        if admits {
            told.insert(what, now);
        }
        admits
    }
}

/// Tells the failures of a session's targets.
pub(crate) struct Failures {
    told: Arc<ToldTargets>,
    tell: Box<dyn Fn(TargetFailure) + Send + Sync>,
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failures")
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

impl Failures {
    pub(crate) fn new(told: &Arc<ToldTargets>, tell: impl Fn(TargetFailure) + Send + Sync + 'static) -> Self {
        Self {
            told: Arc::clone(told),
            tell: Box::new(tell),
        }
    }

    pub(crate) fn report(&self, protocol: Protocol, target: &Target, error: &io::Error) {
        self.tell(protocol, target, false, error);
    }

    /// The other endpoint says that it does not reach its target.
    pub(crate) fn report_remote(&self, protocol: Protocol, target: &Target, error: &str) {
        self.tell(protocol, target, true, &error);
    }

    fn tell(&self, protocol: Protocol, target: &Target, is_remote: bool, error: &dyn fmt::Display) {
        if self
            .told
            .admits((is_remote, protocol, target.to_string()), Instant::now())
        {
            (self.tell)(TargetFailure {
                protocol,
                target: target.clone(),
                is_remote,
                error: error.to_string(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_told_once_a_minute_and_few_are() {
        let (told, start) = (ToldTargets::default(), Instant::now());
        let admits =
            |protocol, port, time| told.admits((false, protocol, format!("127.0.0.1:{port}")), start + time);
        assert!(admits(Protocol::Udp, 1, Duration::ZERO));
        assert!(!admits(Protocol::Udp, 1, PAUSE - Duration::from_secs(1)));
        assert!(admits(Protocol::Tcp, 1, Duration::ZERO));
        assert!(admits(Protocol::Udp, 1, PAUSE));
        let new = (2..1000).filter(|&port| admits(Protocol::Udp, port, PAUSE));
        assert_eq!(new.count(), MOST - 1);
    }
}
