//! Lines about networks that come and go: the paths of the client's association, compared from time to time.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch::PathState;
use serde_json::{Value, json};

use super::status::{ClientView, remark, state_name};
use crate::output::Output;

/// The time between two looks at the paths.
const LOOK: Duration = Duration::from_millis(250);

/// The states of the paths by their names.
type Paths = BTreeMap<String, PathState>;

/// Prints a line for each path that comes or goes.
pub(super) async fn tell(output: Output, view: impl Fn() -> ClientView) {
    let mut before = Paths::new();
    let mut looks = tokio::time::interval(LOOK);
    loop {
        looks.tick().await;
        let view = view();
        if view.association.is_none() {
            // The end of the association has a line of its own.
            before.clear();
            continue;
        }
        let paths = view.paths().iter();
        let now = paths.map(|path| (view.path_name(path), path.state)).collect();
        for (text, record) in changes(&before, &now) {
            output.fact(text, &record);
        }
        before = now;
    }
}

/// A line and its record for each path that is active and was not, or was active and is not.
fn changes(before: &Paths, now: &Paths) -> Vec<(String, Value)> {
    let is_active = |paths: &Paths, name: &String| paths.get(name) == Some(&PathState::Active);
    let mut lines = Vec::new();
    for (name, state) in now {
        let text = match (is_active(before, name), is_active(now, name)) {
            (false, true) => format!("path {name}: works"),
            (true, false) => format!("path {name}: does not work: {}", remark(*state)),
            (true, true) | (false, false) => continue,
        };
        lines.push((text, record(name, state_name(*state))));
    }
    for name in before.keys() {
        if is_active(before, name) && !now.contains_key(name) {
            let text = format!("path {name}: does not work: its network went away");
            lines.push((text, record(name, "removed")));
        }
    }
    lines
}

fn record(path: &str, state: &str) -> Value {
    json!({ "event": "path", "path": path, "state": state })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(states: &[(&str, PathState)]) -> Paths {
        states
            .iter()
            .map(|(name, state)| ((*name).to_owned(), *state))
            .collect()
    }

    fn texts(before: &Paths, now: &Paths) -> Vec<String> {
        changes(before, now).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn a_path_has_a_line_when_it_comes_and_when_it_goes() {
        let none = Paths::new();
        let unconfirmed = paths(&[("a", PathState::Active), ("b", PathState::Unconfirmed)]);
        let both = paths(&[("a", PathState::Active), ("b", PathState::Active)]);
        let failed = paths(&[("a", PathState::PotentiallyFailed), ("b", PathState::Active)]);
        let inactive = paths(&[("a", PathState::Inactive), ("b", PathState::Active)]);
        let one = paths(&[("a", PathState::Active)]);
        assert_eq!(texts(&none, &unconfirmed), ["path a: works"]);
        assert_eq!(texts(&unconfirmed, &both), ["path b: works"]);
        assert_eq!(texts(&both, &both), [""; 0]);
        assert_eq!(
            texts(&both, &failed),
            ["path a: does not work: a timeout: heartbeats test it"]
        );
        assert_eq!(texts(&failed, &inactive), [""; 0]);
        assert_eq!(texts(&inactive, &both), ["path a: works"]);
        assert_eq!(
            texts(&both, &one),
            ["path b: does not work: its network went away"]
        );
        assert_eq!(texts(&unconfirmed, &one), [""; 0]);
        let (_, record) = changes(&both, &one).remove(0);
        assert_eq!(
            record,
            json!({ "event": "path", "path": "b", "state": "removed" })
        );
    }
}
