//! The memory of a session, and the credit of byte streams (`PROTOCOL.md`, *Credit*).

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::lock::{Lock, lock};
use crate::wire::{FIRST_CREDIT, MESSAGE_COST, MOST_CREDIT, MOST_DATA, cost};

/// Bytes that may wait for programs, of all flows together.
#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicUsize,
    limit: usize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            limit,
        }
    }

    /// Takes bytes, if there are enough.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let add = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// The credit that the peer granted for one direction of a flow.
#[derive(Debug)]
pub(crate) struct Credit {
    available: Lock<u32>,
    granted: Notify,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            available: Lock::new(FIRST_CREDIT),
            granted: Notify::new(),
        }
    }
}

impl Credit {
    /// Takes the credit of one message with as many bytes as possible, at least one. One task may wait.
    pub(crate) async fn take(&self) -> u32 {
        loop {
            {
                let mut available = lock(&self.available);
                if *available > MESSAGE_COST {
                    let taken = (*available).min(cost(MOST_DATA));
                    *available -= taken;
                    return taken;
                }
            }
            self.granted.notified().await;
        }
    }

    /// Gives unused credit back.
    pub(crate) fn restore(&self, credit: u32) {
        *lock(&self.available) += credit;
    }

    /// The peer grants more. Returns whether it may.
    pub(crate) fn grant(&self, credit: u32) -> bool {
        let mut available = lock(&self.available);
        match available.checked_add(credit) {
            Some(sum) if sum <= MOST_CREDIT => {
                *available = sum;
                self.granted.notify_one();
                true
            }
            _ => false,
        }
    }
}

/// The credit that this endpoint grants for one direction of a flow. Its size is reserved in [`Memory`].
#[derive(Debug)]
pub(crate) struct Window {
    /// The most that the peer may send before the program takes data.
    size: u32,
    /// The credit that the peer has left.
    granted: u32,
    /// The cost of data that the program took since the last grant.
    taken: u32,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            size: FIRST_CREDIT,
            granted: FIRST_CREDIT,
            taken: 0,
        }
    }
}

impl Window {
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// Data arrived. Returns whether the peer had the credit.
    #[must_use]
    pub(crate) fn receive(&mut self, bytes: usize) -> bool {
        match self.granted.checked_sub(cost(bytes)) {
            Some(rest) => {
                self.granted = rest;
                true
            }
            None => false,
        }
    }

    /// The program took data. Returns the credit to grant, if it is time. The window of a program that has nothing left to take grows.
    pub(crate) fn take(&mut self, bytes: usize, keeps_up: bool, memory: &Memory) -> Option<u32> {
        self.taken += cost(bytes);
        if self.taken < self.size / 2 {
            return None;
        }
        let mut credit = std::mem::take(&mut self.taken);
        let growth = self.size.min(MOST_CREDIT - self.size);
        if keeps_up && growth != 0 && memory.reserve(growth as usize) {
            self.size += growth;
            credit += growth;
        }
        self.granted += credit;
        Some(credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_limit() {
        let memory = Memory::new(100);
        assert!(memory.reserve(60) && !memory.reserve(41) && memory.reserve(40));
        memory.release(60);
        assert!(memory.reserve(60) && !memory.reserve(usize::MAX));
        assert_eq!(memory.used(), 100);
    }

    #[tokio::test]
    async fn a_sender_spends_its_credit_and_waits() {
        let credit = Credit::default();
        let mut spent = 0;
        while spent + MESSAGE_COST < FIRST_CREDIT {
            spent += credit.take().await;
        }
        assert!(spent <= FIRST_CREDIT);
        let waiting = credit.take();
        tokio::pin!(waiting);
        let timeout = tokio::time::timeout(std::time::Duration::ZERO, &mut waiting).await;
        assert!(timeout.is_err(), "no credit is left");
        assert!(credit.grant(1000));
        assert!(waiting.await >= 1000);
    }

    #[test]
    fn a_peer_grants_no_more_than_the_limit() {
        let credit = Credit::default();
        assert!(!credit.grant(MOST_CREDIT) && !credit.grant(u32::MAX));
        assert!(credit.grant(MOST_CREDIT - FIRST_CREDIT) && !credit.grant(1));
    }

    /// Sends and takes data until the window stops growing.
    fn exchange(window: &mut Window, memory: &Memory, keeps_up: bool) -> u32 {
        let mut credit = window.size;
        for _ in 0..2000 {
            assert!(window.receive(MOST_DATA), "the sender has credit");
            credit -= cost(MOST_DATA);
            credit += window.take(MOST_DATA, keeps_up, memory).unwrap_or(0);
            assert!(credit <= MOST_CREDIT && credit >= cost(MOST_DATA), "{credit}");
        }
        window.size
    }

    #[test]
    fn the_window_of_a_fast_program_grows_and_that_of_a_slow_one_does_not() {
        let memory = Memory::new(64 << 20);
        assert_eq!(exchange(&mut Window::default(), &memory, true), MOST_CREDIT);
        assert_eq!(exchange(&mut Window::default(), &memory, false), FIRST_CREDIT);
        let little = Memory::new(100_000);
        assert_eq!(
            exchange(&mut Window::default(), &little, true),
            2 * FIRST_CREDIT,
            "as far as memory allows"
        );
    }

    #[test]
    fn a_sender_that_exceeds_its_credit_is_found() {
        let mut window = Window::default();
        let messages = std::iter::repeat_with(|| window.receive(1)).take_while(|fits| *fits);
        assert_eq!(
            messages.count(),
            (FIRST_CREDIT / (MESSAGE_COST + 1)) as usize,
            "short messages cost their memory"
        );
    }
}
