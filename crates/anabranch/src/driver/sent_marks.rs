//! Marks of the encrypted datagrams that an endpoint sent lately. An ICMP message quotes the beginning of a datagram, and the encryption hides the
//! verification tag by which plain SCTP recognises its packets (ICMP6). Instead, the quote must have encrypted bytes of a datagram that was really
//! sent: a host off the path does not know them (RFC 8899 §4.6.1).

use std::collections::VecDeque;
use std::ops::Range;

/// So many datagrams are remembered. A router's message is about a datagram that left less than a round-trip time ago.
const MOST: usize = 1024;
/// The bytes of a datagram that are its mark: in DTLS 1.2 and 1.3, they are encrypted in each record of this length (RFC 6347 §4.1, RFC 5288 §3;
/// RFC 9147 §4). The system shows more bytes of a quote than these.
const MARK: Range<usize> = 32..40;

type Mark = [u8; 8];

/// The marks of the last datagrams.
#[derive(Debug, Default)]
pub(super) struct SentMarks {
    marks: VecDeque<Mark>,
}

impl SentMarks {
    /// A datagram is sent.
    pub(super) fn push(&mut self, datagram: &[u8]) {
        if let Some(mark) = mark(datagram) {
            if self.marks.len() >= MOST {
                self.marks.pop_front();
            }
            self.marks.push_back(mark);
        }
    }

    /// Whether this is the beginning of a datagram that was sent lately.
    pub(super) fn has(&self, quote: &[u8]) -> bool {
        mark(quote).is_some_and(|mark| self.marks.contains(&mark))
    }
}

fn mark(datagram: &[u8]) -> Option<Mark> {
    datagram.get(MARK)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_datagrams_are_recognised_by_their_beginning() {
        let mut sent = SentMarks::default();
        let datagram = |number: u32| [&[0; 32][..], &number.to_be_bytes(), &[7; 60]].concat();
        for number in 0..2000 {
            sent.push(&datagram(number));
        }
        sent.push(b"short");
        assert_eq!(sent.marks.len(), MOST);
        assert!(sent.has(&datagram(1999)) && sent.has(&datagram(1999)[..40]));
        assert!(
            sent.has(&datagram(976)) && !sent.has(&datagram(975)),
            "the oldest are forgotten"
        );
        assert!(!sent.has(&datagram(1999)[..39]) && !sent.has(b"short"));
        assert!(!sent.has(&datagram(2000)));
    }
}
