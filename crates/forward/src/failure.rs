//! Targets that do not accept. The peer's program learns nothing of the reason: the operator at this endpoint has to, and not too often.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::{Lock, lock};
use crate::rule::{Protocol, Target};

/// The time after which the same target is told again.
const PAUSE: Duration = Duration::from_secs(60);
/// Targets that are told in this time: a client may try many.
const MOST: usize = 64;

/// A target that did not accept a connection, or where no program receives datagrams.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TargetFailure {
    /// The protocol of the rule.
    pub protocol: Protocol,
    /// The target.
    pub target: Target,
    /// The error of the operating system.
    pub error: String,
}

/// The targets of an endpoint that were told lately.
#[derive(Debug, Default)]
pub(crate) struct Told(Lock<BTreeMap<(Protocol, String), Instant>>);

impl Told {
    /// Whether the failure of a target is to be told now.
    fn admits(&self, protocol: Protocol, target: &Target, now: Instant) -> bool {
        let mut told = lock(&self.0);
        told.retain(|_, time| now.duration_since(*time) < PAUSE);
        let target = (protocol, target.to_string());
        let admits = told.len() < MOST && !told.contains_key(&target);
        if admits {
            told.insert(target, now);
        }
        admits
    }
}

/// Tells the failures of a session's targets.
pub(crate) struct Failures {
    told: Arc<Told>,
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
    pub(crate) fn new(told: &Arc<Told>, tell: impl Fn(TargetFailure) + Send + Sync + 'static) -> Self {
        Self {
            told: Arc::clone(told),
            tell: Box::new(tell),
        }
    }

    pub(crate) fn report(&self, protocol: Protocol, target: &Target, error: &io::Error) {
        if self.told.admits(protocol, target, Instant::now()) {
            (self.tell)(TargetFailure {
                protocol,
                target: target.clone(),
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
        let (told, start) = (Told::default(), Instant::now());
        let target = |port: usize| format!("127.0.0.1:{port}").parse::<Target>().unwrap();
        let admits = |protocol, port, time| told.admits(protocol, &target(port), start + time);
        assert!(admits(Protocol::Udp, 1, Duration::ZERO));
        assert!(!admits(Protocol::Udp, 1, PAUSE - Duration::from_secs(1)));
        assert!(admits(Protocol::Tcp, 1, Duration::ZERO));
        assert!(admits(Protocol::Udp, 1, PAUSE));
        let new = (2..1000).filter(|&port| admits(Protocol::Udp, port, PAUSE));
        assert_eq!(new.count(), MOST - 1);
    }
}
