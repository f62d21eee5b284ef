//! The places for visitors, and for TCP connections: few for each address, and visitors that have not connected leave first.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

/// Places, of which nobody can take all with one address.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    /// The places of an address.
    share: usize,
    state: Mutex<State>,
    /// A place was left.
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By age, the oldest first.
    taken: BTreeMap<u64, Taken>,
    begun: u64,
}

#[derive(Debug)]
struct Taken {
    network: Option<IpAddr>,
    is_connected: bool,
    /// Dropped to displace the visitor.
    _stay: oneshot::Sender<()>,
}

/// The reason why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// All places are taken by visitors that have connected.
    Full,
    /// All places of this address are.
    Share,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// `most` places, and `share` for each IPv4 address and each IPv6 network of 64 bits. Addresses of this machine have no share: a proxy
    /// has one, and brings visitors of many addresses.
    pub(crate) fn new(most: usize, share: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            share,
            state: Mutex::default(),
            left: Notify::new(),
        })
    }

    /// Takes a place for a visitor with this address. If there is none, the oldest visitor that has not connected is displaced: one with the
    /// same address, if the address has its share. The future ends when the new visitor is displaced.
    pub(crate) fn take(
        self: &Arc<Self>,
        address: IpAddr,
    ) -> Result<(Place, impl Future<Output = ()> + use<>), Refused> {
        let network = network(address);
        let mut state = self.lock();
        let of_network = state.taken.values().filter(|taken| taken.network == network);
        let has_share = network.is_some() && of_network.count() >= self.share;
        if has_share || state.taken.len() >= self.most {
            let mut waiting = state.taken.iter().filter(|(_, taken)| !taken.is_connected);
            let oldest = waiting.find(|(_, taken)| !has_share || taken.network == network);
            let refused = if has_share { Refused::Share } else { Refused::Full };
            let oldest = *oldest.ok_or(refused)?.0;
            state.taken.remove(&oldest);
        }
        let (stay, displaced) = oneshot::channel();
        let taken = Taken {
            network,
            is_connected: false,
            _stay: stay,
        };
        state.begun += 1;
        let number = state.begun;
        state.taken.insert(number, taken);
        drop(state);
        let place = Place {
            places: Arc::clone(self),
            number,
        };
        let displaced = async {
            let _ = displaced.await;
        };
        Ok((place, displaced))
    }

    /// Waits until no place is taken.
    pub(crate) async fn empty(&self) {
        loop {
            let left = self.left.notified();
            if self.lock().taken.is_empty() {
                return;
            }
            left.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The visitor has connected: it is not displaced any more.
    pub(crate) fn connected(&self) {
        if let Some(taken) = self.places.lock().taken.get_mut(&self.number) {
            taken.is_connected = true;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().taken.remove(&self.number);
        self.places.left.notify_waiters();
    }
}

/// The addresses that a visitor may have at the same time: an IPv4 address, or 64 bits of an IPv6 address.
fn network(address: IpAddr) -> Option<IpAddr> {
    match address.to_canonical() {
        address if address.is_loopback() => None,
        IpAddr::V6(address) => Some(IpAddr::V6((address.to_bits() >> 64 << 64).into())),
        address => Some(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn an_address_has_a_share_and_displaces_only_itself() {
        let places = Places::new(8, 2);
        let (other, _) = places.take(visitor(1)).unwrap();
        let kept: Vec<_> = (0..20).map(|_| places.take(visitor(2)).unwrap()).collect();
        assert_eq!(places.lock().taken.len(), 3);
        assert!(places.lock().taken.contains_key(&other.number));
        let [.., (second, _), (last, _)] = &kept[..] else {
            panic!("20 places")
        };
        assert_eq!(
            places.lock().taken.keys().copied().collect::<Vec<_>>(),
            [other.number, second.number, last.number]
        );
        second.connected();
        last.connected();
        assert_eq!(places.take(visitor(2)).err(), Some(Refused::Share));
        assert!(places.take(visitor(3)).is_ok());
    }

    #[tokio::test]
    async fn the_oldest_visitor_that_has_not_connected_leaves_first() {
        let places = Places::new(3, 1);
        let (first, _) = places.take(visitor(1)).unwrap();
        first.connected();
        let (_second, displaced) = places.take(visitor(2)).unwrap();
        let (third, _) = places.take(visitor(3)).unwrap();
        let (fourth, _) = places.take(visitor(4)).unwrap();
        displaced.await;
        third.connected();
        fourth.connected();
        assert_eq!(places.take(visitor(5)).err(), Some(Refused::Full));
        drop(first);
        assert!(places.take(visitor(5)).is_ok());
    }

    #[tokio::test]
    async fn a_place_is_free_when_it_is_left() {
        let places = Places::new(1, 1);
        let (first, _) = places.take(visitor(1)).unwrap();
        let (second, _) = places.take(visitor(2)).unwrap();
        // It was displaced: the place is another visitor's.
        drop(first);
        assert_eq!(places.lock().taken.len(), 1);
        drop(second);
        places.empty().await;
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_this_machine_is_none() {
        let read = |text: &str| network(text.parse().unwrap());
        assert_eq!(read("2001:db8::1"), read("2001:db8::ffff:1"));
        assert_ne!(read("2001:db8::1"), read("2001:db8:0:1::1"));
        assert_eq!(read("::ffff:192.0.2.1"), read("192.0.2.1"));
        assert_ne!(read("192.0.2.1"), read("192.0.2.2"));
        assert_eq!((read("127.0.0.1"), read("::1")), (None, None));
    }
}
