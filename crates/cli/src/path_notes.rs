//! Notes about paths that join, fail, work again and leave while a command runs.

use std::net::IpAddr;

use anabranch::{AddressEvent, Association, Event, PathState, PathStats};

use crate::output::note;

/// The addresses of a path, and whether it works now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Now {
    local: Option<IpAddr>,
    remote: IpAddr,
    works: bool,
}

impl Now {
    fn of(path: &PathStats) -> Self {
        Self {
            local: path.local,
            remote: path.remote.ip(),
            works: path.state == PathState::Active,
        }
    }
}

/// A path as the user knows it.
#[derive(Debug)]
struct Known {
    now: Now,
    /// The news if it works: nothing for a path of set-up.
    news: Option<&'static str>,
}

/// The paths that the user knows.
#[derive(Debug)]
pub(crate) struct PathNotes(Vec<Known>);

impl PathNotes {
    pub(crate) fn new(association: &Association) -> Self {
        Self::of_set_up(association.paths().iter().map(Now::of))
    }

    fn of_set_up(paths: impl Iterator<Item = Now>) -> Self {
        let known = |now| Known { now, news: None };
        Self(paths.map(known).collect())
    }

    /// Prints what an event means for the paths.
    pub(crate) fn tell(&mut self, event: &Event, association: &Association) {
        if !matches!(event, Event::PathChanged { .. } | Event::Addresses(_)) {
            return;
        }
        let now: Vec<_> = association.paths().iter().map(Now::of).collect();
        let notes = self.changes(&now).into_iter().chain(refusal(event));
        notes.for_each(|text| note(format!("note: {text}")));
    }

    /// The differences between what the user knows and the paths now.
    fn changes(&mut self, paths: &[Now]) -> Vec<String> {
        let mut notes = Vec::new();
        self.0.retain(|known| {
            let stays = paths.iter().any(|path| is_same(path, &known.now));
            if !stays {
                notes.push(format!("{} left", name(&known.now)));
            }
            stays
        });
        for path in paths {
            let place = self.0.iter().position(|known| is_same(path, &known.now));
            let place = place.unwrap_or_else(|| {
                let now = Now {
                    works: false,
                    ..*path
                };
                let news = Some("joined");
                self.0.push(Known { now, news });
                self.0.len() - 1
            });
            let known = &mut self.0[place];
            match (known.now.works, path.works) {
                (false, true) => notes.extend(known.news.take().map(|news| format!("{} {news}", name(path)))),
                (true, false) => {
                    notes.push(format!("{} failed: the peer does not answer there", name(path)));
                    known.news = Some("works again");
                }
                _ => {}
            }
            known.now = *path;
        }
        notes
    }
}

fn is_same(one: &Now, other: &Now) -> bool {
    (one.local, one.remote) == (other.local, other.remote)
}

fn name(path: &Now) -> String {
    let local = path
        .local
        .map_or("any address".to_owned(), |local| local.to_string());
    format!("the path from {local} to {}", path.remote)
}

/// The peer will not use an address of this machine.
fn refusal(event: &Event) -> Option<String> {
    match event {
        Event::Addresses(AddressEvent::LocalRefused { address, cause }) => Some(format!(
            "the peer refused a change of the address {address} (RFC 5061, error cause {cause:#06x})"
        )),
        Event::Addresses(AddressEvent::NotSupported) => Some(
            "the peer does not understand requests to add addresses (RFC 5061): no path joins any more"
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_join_fail_and_leave_are_told() {
        let path = |last: u8, works| Now {
            local: Some([10, 0, last, 1].into()),
            remote: [203, 0, 113, 5].into(),
            works,
        };
        let mut notes = PathNotes::of_set_up([path(1, true), path(2, false)].into_iter());
        let name = |last: u8| format!("the path from 10.0.{last}.1 to 203.0.113.5");
        let nothing = Vec::<String>::new();
        assert_eq!(
            notes.changes(&[path(1, true), path(2, true)]),
            nothing,
            "the paths of set-up"
        );
        let failed = [format!("{} failed: the peer does not answer there", name(2))];
        assert_eq!(
            notes.changes(&[path(1, true), path(2, false), path(3, false)]),
            failed
        );
        assert_eq!(
            notes.changes(&[path(1, true), path(2, false), path(3, true)]),
            [format!("{} joined", name(3))]
        );
        let again = [format!("{} works again", name(2))];
        assert_eq!(
            notes.changes(&[path(1, true), path(2, true), path(3, true)]),
            again
        );
        assert_eq!(
            notes.changes(&[path(3, true)]),
            [format!("{} left", name(1)), format!("{} left", name(2))]
        );
        assert_eq!(
            notes.changes(&[path(3, true), path(1, true)]),
            [format!("{} joined", name(1))]
        );
    }

    #[test]
    fn a_refusal_has_its_cause() {
        let address = [10, 0, 0, 1].into();
        let event = Event::Addresses(AddressEvent::LocalRefused { address, cause: 0xa1 });
        assert!(refusal(&event).is_some_and(|text| text.contains("10.0.0.1") && text.contains("0x00a1")));
        assert_eq!(
            refusal(&Event::Addresses(AddressEvent::LocalAdded(address))),
            None
        );
    }
}
