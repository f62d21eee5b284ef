//! The queue of tasks that wait for room in the send buffer. The next task is that of the stream with the highest priority; at
//! equal priority, the task that has waited longest. A task that was served and calls again goes to the end of the queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

/// A place in the queue; the smallest place is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The priority of the stream; 0 is the highest.
    class: u16,
    arrival: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Senders {
    waiting: BTreeMap<Place, Arc<Notify>>,
    arrivals: u64,
}

impl Senders {
    /// Adds a task behind the tasks of its priority; the task waits for the returned notice.
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

    /// Removes a task. If it was the next, the task after it is woken.
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

    /// Whether a task of equal or higher priority waits.
    pub(crate) fn has_before(&self, class: u16) -> bool {
        self.waiting
            .first_key_value()
            .is_some_and(|(next, _)| next.class <= class)
    }

    /// Wakes the next task: the send buffer may have room.
    pub(crate) fn wake_next(&self) {
        if let Some((_, notice)) = self.waiting.first_key_value() {
            notice.notify_one();
        }
    }

    /// Wakes all tasks: the association accepts no more messages.
    pub(crate) fn wake_all(&self) {
        self.waiting.values().for_each(|notice| notice.notify_one());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves all waiting tasks one by one; returns their names in order.
    fn served(senders: &mut Senders, names: &[(Place, char)]) -> String {
        let mut order = String::new();
        while let Some((place, name)) = names.iter().find(|(place, _)| senders.is_next(*place)) {
            order.push(*name);
            senders.leave(*place);
        }
        order
    }

    #[test]
    fn the_highest_priority_is_next_then_the_first_arrival() {
        let mut senders = Senders::default();
        let names: Vec<_> = [(7, 'a'), (0, 'b'), (7, 'c'), (3, 'd'), (0, 'e')]
            .map(|(class, name)| (senders.enter(class).0, name))
            .to_vec();
        assert_eq!(served(&mut senders, &names), "bedac");
        assert!(!senders.has_before(u16::MAX));
    }

    #[test]
    fn a_served_task_goes_to_the_end_of_the_queue() {
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
    fn a_new_task_passes_only_tasks_of_lower_priority() {
        let mut senders = Senders::default();
        assert!(!senders.has_before(5));
        let (place, _) = senders.enter(5);
        assert!(!senders.has_before(4));
        assert!(senders.has_before(5) && senders.has_before(6));
        senders.leave(place);
        assert!(!senders.has_before(6));
    }

    #[tokio::test]
    async fn the_next_task_is_woken_when_the_task_before_it_leaves() {
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
