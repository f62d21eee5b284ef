//! The queue of tasks that wait for room in the send buffer. The next task is that of the stream with the highest priority; at
//! equal priority, the task that has waited longest. A task that was served and calls again goes to the end of the queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

/// A place among those that wait; the least is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The stream's class, 0 being the most urgent.
    class: u16,
    arrival: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Senders {
    waiting: BTreeMap<Place, Arc<Notify>>,
    arrivals: u64,
}

impl Senders {
    /// Takes a sender in, behind those of its class; it waits for the answer's notice.
    pub(crate) fn enter(&mut self, class: u16) -> (Place, Arc<Notify>) {
        let place = Place {
            class,
            arrival: self.arrivals,
        };
        self.arrivals += 1;
        let notice = Arc::new(Notify::new());
        self.waiting.insert(place, Arc::clone(&notice));
        (place, notice)
    }

    /// Lets a sender go. If it was next, so may another be served.
    pub(crate) fn leave(&mut self, place: Place) {
        let was_next = self.is_next(place);
        self.waiting.remove(&place);
        if was_next {
            self.wake_next();
        }
    }

    pub(crate) fn is_next(&self, place: Place) -> bool {
        self.waiting
            .first_key_value()
            .is_some_and(|(next, _)| *next == place)
    }

    /// Whether a sender of this class that comes now has to stand behind somebody.
    pub(crate) fn has_before(&self, class: u16) -> bool {
        self.waiting
            .first_key_value()
            .is_some_and(|(next, _)| next.class <= class)
    }

    /// There may be room.
    pub(crate) fn wake_next(&self) {
        if let Some((_, notice)) = self.waiting.first_key_value() {
            notice.notify_one();
        }
    }

    /// There will be none any more.
    pub(crate) fn wake_all(&self) {
        self.waiting.values().for_each(|notice| notice.notify_one());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves all that wait, one by one; their names.
    fn served(senders: &mut Senders, names: &[(Place, char)]) -> String {
        let mut order = String::new();
        while let Some((place, name)) = names.iter().find(|(place, _)| senders.is_next(*place)) {
            order.push(*name);
            senders.leave(*place);
        }
        order
    }

    #[test]
    fn the_most_urgent_is_next_and_of_these_who_came_first() {
        let mut senders = Senders::default();
        let names: Vec<_> = [(7, 'a'), (0, 'b'), (7, 'c'), (3, 'd'), (0, 'e')]
            .map(|(class, name)| (senders.enter(class).0, name))
            .to_vec();
        assert_eq!(served(&mut senders, &names), "bedac");
        assert!(!senders.has_before(u16::MAX));
    }

    #[test]
    fn who_was_served_goes_behind_those_that_wait() {
        let mut senders = Senders::default();
        let (mut file, _) = senders.enter(0);
        let (mut chat, _) = senders.enter(0);
        let mut order = String::new();
        for _ in 0..3 {
            assert!(senders.is_next(file) && !senders.is_next(chat));
            senders.leave(file);
            file = senders.enter(0).0;
            order.push('f');
            assert!(senders.is_next(chat) && !senders.is_next(file));
            senders.leave(chat);
            chat = senders.enter(0).0;
            order.push('c');
        }
        assert_eq!(order, "fcfcfc");
    }

    #[test]
    fn a_newcomer_passes_only_those_less_urgent() {
        let mut senders = Senders::default();
        assert!(!senders.has_before(5));
        let (place, _) = senders.enter(5);
        assert!(!senders.has_before(4));
        assert!(senders.has_before(5) && senders.has_before(6));
        senders.leave(place);
        assert!(!senders.has_before(6));
    }

    #[tokio::test]
    async fn the_next_is_woken_when_the_one_before_it_leaves() {
        let mut senders = Senders::default();
        let (first, _) = senders.enter(1);
        let (second, notice) = senders.enter(1);
        let (third, other) = senders.enter(1);
        senders.leave(first);
        notice.notified().await;
        // A task that leaves without having been next wakes no other task.
        senders.leave(third);
        assert!(senders.is_next(second));
        drop(other);
        senders.wake_all();
        notice.notified().await;
    }
}
