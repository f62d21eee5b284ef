//! The settings of an association with several paths.

use std::sync::Arc;

use super::Association;
use crate::time::Timestamp;

/// Paths were added: with several, data leaves a failed one fast ([`crate::config::Failover::Fast`]).
pub(super) fn on_paths_added(it: &mut Association, now: Timestamp) {
    if it.paths.has_one_path() {
        return;
    }
    if let Some(config) = it.config.of_several_paths() {
        it.paths.adopt_timeouts(now, &it.config, &config);
        it.receiver.adopt_delay(&config.sack);
        it.config = Arc::new(config);
    }
}
