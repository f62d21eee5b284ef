//! The counters of networks over the whole run. A path begins to count when it begins: if its interface comes back, or the client connects again,
//! another path counts from zero.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch::{PathId, PathStats};

/// The most networks with a row of their own: a client that moves has ever new addresses.
const MOST: usize = 16;
/// The name for the networks above this number.
const OTHERS: &str = "other networks";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Early copies included: a mobile network counts them too.
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) chunks_sent: u64,
    pub(super) chunks_lost: u64,
    pub(super) chunks_retransmitted: u64,
}

impl Counts {
    pub(super) fn of(path: &PathStats) -> Self {
        Self {
            bytes_sent: path.data_bytes_sent + path.copy_bytes_sent,
            bytes_received: path.data_bytes_received,
            chunks_sent: path.data_chunks_sent,
            chunks_lost: path.chunks_lost,
            chunks_retransmitted: path.chunks_retransmitted,
        }
    }

    /// The share of chunks that were lost.
    pub(super) fn loss(&self) -> f64 {
        match self.chunks_sent {
            0 => 0.0,
            sent => self.chunks_lost as f64 / sent as f64,
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.chunks_sent += other.chunks_sent;
        self.chunks_lost += other.chunks_lost;
        self.chunks_retransmitted += other.chunks_retransmitted;
    }
}

/// A network at one time: an interface, or an address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) name: String,
    /// The sums of all its paths since the client started.
    pub(super) counts: Counts,
    /// The time since its last path went away while the association went on.
    pub(super) down_for: Option<Duration>,
}

/// The paths of one network.
#[derive(Debug, Default)]
struct Paths {
    /// The sums of paths that have ended.
    ended: Counts,
    present: BTreeMap<Key, Counts>,
    down_since: Option<Instant>,
}

impl Paths {
    fn replace(&mut self, present: BTreeMap<Key, Counts>) {
        for (key, before) in std::mem::replace(&mut self.present, present) {
            // A path of another association begins with smaller counters.
            let now = self.present.get(&key);
            let is_another = |now: &Counts| {
                now.chunks_sent < before.chunks_sent || now.bytes_received < before.bytes_received
            };
            if now.is_none_or(is_another) {
                self.ended.add(before);
            }
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = self.ended;
        self.present.values().for_each(|present| counts.add(*present));
        counts
    }
}

/// A path of a network: its number in the association, and its local address.
pub(super) type Key = (PathId, Option<IpAddr>);

/// The counters of all networks. Data that a path sends between the last [`Totals::take`] and its end is not counted.
#[derive(Debug, Default)]
pub(super) struct Totals(Mutex<BTreeMap<String, Paths>>);

impl Totals {
    /// Gives each of these networks a row, also before it has a path.
    pub(super) fn expect(&self, names: impl IntoIterator<Item = String>) {
        let mut networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            networks.entry(name).or_default();
        }
    }

    /// Takes the counters that the paths of each network have now, and returns those of the whole run.
    pub(super) fn take(
        &self,
        mut present: BTreeMap<String, BTreeMap<Key, Counts>>,
        is_connected: bool,
        now: Instant,
    ) -> Vec<Network> {
        let mut networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in present.keys() {
            networks.entry(name.clone()).or_default();
        }
        for (name, paths) in networks.iter_mut() {
            paths.replace(present.remove(name).unwrap_or_default());
            if !paths.present.is_empty() {
                paths.down_since = None;
            } else if is_connected && name != OTHERS {
                paths.down_since.get_or_insert(now);
            }
        }
        merge(&mut networks);
        let network = |(name, paths): (&String, &Paths)| Network {
            name: name.clone(),
            counts: paths.counts(),
            down_for: paths.down_since.map(|since| now.duration_since(since)),
        };
        networks.iter().map(network).collect()
    }
}

/// The sums over all paths of each client of a server, with those that have ended. Data that a path sends between the last [`Sums::take`] and its
/// end is not counted.
#[derive(Debug, Default)]
pub(super) struct Sums(Mutex<BTreeMap<String, Paths>>);

impl Sums {
    /// Takes the counters that the paths of each client have now, and returns the sums since it connected. Clients that are gone are forgotten.
    pub(super) fn take(
        &self,
        mut present: BTreeMap<String, BTreeMap<Key, Counts>>,
    ) -> BTreeMap<String, Counts> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|name, _| present.contains_key(name));
        for name in present.keys() {
            clients.entry(name.clone()).or_default();
        }
        for (name, paths) in clients.iter_mut() {
            paths.replace(present.remove(name).unwrap_or_default());
        }
        clients
            .iter()
            .map(|(name, paths)| (name.clone(), paths.counts()))
            .collect()
    }
}

/// Merges the networks above the limit that are down for the longest time.
fn merge(networks: &mut BTreeMap<String, Paths>) {
    while networks.len() > MOST {
        let down = networks
            .iter()
            .filter_map(|(name, paths)| Some((paths.down_since?, name.clone())));
        let Some((_, oldest)) = down.min() else {
            return;
        };
        let merged = networks.remove(&oldest).unwrap_or_default().counts();
        networks.entry(OTHERS.to_owned()).or_default().ended.add(merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(sent: &[(&str, u64)]) -> BTreeMap<String, BTreeMap<Key, Counts>> {
        let path = |&(name, sent): &(&str, u64)| {
            let counts = Counts {
                bytes_sent: sent * 100,
                bytes_received: sent * 10,
                chunks_sent: sent,
                ..Counts::default()
            };
            (name.to_owned(), BTreeMap::from([((PathId(0), None), counts)]))
        };
        sent.iter().map(path).collect()
    }

    #[test]
    fn a_network_that_comes_back_goes_on_counting() {
        let (totals, start) = (Totals::default(), Instant::now());
        let second = Duration::from_secs(1);
        let sent = |networks: &[Network]| {
            networks
                .iter()
                .map(|one| one.counts.chunks_sent)
                .collect::<Vec<_>>()
        };
        totals.take(paths(&[("lte", 5), ("wifi", 7)]), true, start);
        let down = totals.take(paths(&[("lte", 6)]), true, start + second);
        assert_eq!(sent(&down), [6, 7]);
        let down = totals.take(paths(&[("lte", 6)]), true, start + 3 * second);
        assert_eq!(down[1].down_for, Some(2 * second));
        let back = totals.take(paths(&[("lte", 6), ("wifi", 1)]), true, start + 4 * second);
        assert_eq!((sent(&back), back[1].down_for), (vec![6, 8], None));
        assert_eq!(
            (back[1].counts.bytes_sent, back[1].counts.bytes_received),
            (800, 80)
        );
        // Another association, seen after a look without one and at once.
        totals.take(paths(&[]), false, start + 5 * second);
        let lost = totals.take(paths(&[("lte", 2), ("wifi", 3)]), true, start + 6 * second);
        assert_eq!(sent(&lost), [8, 11]);
        let replaced = totals.take(paths(&[("lte", 1), ("wifi", 1)]), true, start + 7 * second);
        assert_eq!(sent(&replaced), [9, 12]);
        // One that has had no path is down as long as the association lasts.
        totals.expect(["usb".to_owned(), "lte".to_owned()]);
        totals.take(paths(&[("lte", 2), ("wifi", 2)]), true, start + 8 * second);
        let all = totals.take(paths(&[("lte", 2), ("wifi", 2)]), true, start + 9 * second);
        assert_eq!(sent(&all), [10, 0, 13]);
        assert_eq!((&*all[1].name, all[1].down_for), ("usb", Some(second)));
    }

    #[test]
    fn the_sum_of_a_client_has_the_paths_that_ended() {
        let sums = Sums::default();
        let of = |path: u8, sent: u64| {
            let counts = Counts {
                chunks_sent: sent,
                ..Counts::default()
            };
            ((PathId(path), None), counts)
        };
        let take = |paths: &[(u8, u64)]| {
            let paths = paths.iter().map(|&(path, sent)| of(path, sent)).collect();
            let sums = sums.take(BTreeMap::from([("client".to_owned(), paths)]));
            sums["client"].chunks_sent
        };
        assert_eq!(take(&[(0, 5), (1, 7)]), 12);
        assert_eq!(take(&[(1, 8)]), 13);
        assert_eq!(take(&[(1, 8), (2, 1)]), 14);
        assert!(sums.take(BTreeMap::new()).is_empty());
        assert_eq!(take(&[(1, 8)]), 8, "another client of this name");
    }

    #[test]
    fn the_number_of_networks_is_limited_and_nothing_is_forgotten() {
        let (totals, start) = (Totals::default(), Instant::now());
        for number in 0..100 {
            let name = format!("192.0.2.{number}");
            let networks = totals.take(paths(&[(&name, 1)]), true, start + Duration::from_secs(number));
            assert!(networks.len() <= MOST, "{networks:?}");
            let sum: u64 = networks.iter().map(|one| one.counts.chunks_sent).sum();
            assert_eq!(sum, number + 1);
        }
    }
}
