//! The lines between two reports. On a terminal a report erases them: the last lines are kept, and each report shows them again.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::output::{Output, note};
use crate::terminal::{Size, wrapped};
use crate::units;

/// The number of messages that are kept.
const KEPT: usize = 5;

/// The column of the messages' texts, after the time.
const TEXT_BEGINS: usize = 9;

/// Prints messages, and keeps the last ones. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    output: Output,
    began: Instant,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The texts, with the time since the command began.
    last: VecDeque<(Duration, String)>,
    /// Why there is no association, and when the next attempt begins.
    disconnected: Option<(String, Instant)>,
    was_connected: bool,
}

impl Messages {
    pub(super) fn new(output: Output) -> Self {
        Self {
            output,
            began: Instant::now(),
            kept: Arc::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, text: String) {
        let mut kept = self.kept();
        kept.last.push_back((self.began.elapsed(), text));
        if kept.last.len() > KEPT {
            kept.last.pop_front();
        }
    }

    /// Prints a result.
    pub(super) fn fact(&self, text: impl Display, record: &Value) {
        let text = text.to_string();
        self.print(&text, record);
        self.keep(text);
    }

    /// Prints a line, on a terminal in lines that fit it.
    fn print(&self, text: &str, record: &Value) {
        let text = wrapped(Size::of(&io::stdout()), text.to_owned());
        self.output.fact(text, record);
    }

    /// Prints a note to standard error.
    pub(super) fn note(&self, text: impl Display) {
        let text = text.to_string();
        note(&text);
        self.keep(text);
    }

    /// Prints why there is no association. Reports show the reason until [`Messages::connected`]. The reason of attempts that fail alike is
    /// printed and kept once.
    pub(super) fn disconnected(&self, reason: &str, retry_in: Duration, record: &Value) {
        let text = format!("not connected: {reason}");
        let pause = units::duration(retry_in);
        let next = Instant::now() + retry_in;
        let former = self.kept().disconnected.replace((text.clone(), next));
        if former.is_some_and(|(former, _)| former == text) {
            self.print(
                &format!("not connected: as before; the next attempt is in {pause}"),
                record,
            );
        } else {
            self.print(&format!("{text}; the next attempt is in {pause}"), record);
            self.keep(text);
        }
    }

    /// Prints that there is no answer yet, unless the reason of an earlier attempt is known.
    pub(super) fn waiting(&self, server: impl Display) {
        if self.kept().disconnected.is_none() {
            let cause = match self.was_connected() {
                true => "",
                false => " (a server whose public key is not that of --peer does not answer)",
            };
            self.note(format!("no answer from {server} yet{cause}"));
        }
    }

    pub(super) fn connected(&self) {
        let mut kept = self.kept();
        kept.disconnected = None;
        kept.was_connected = true;
    }

    /// Whether there was an association, so that the keys and the address of the server are right.
    pub(super) fn was_connected(&self) -> bool {
        self.kept().was_connected
    }

    /// The last messages, the newest one at the end; empty if there is none. If all of them have more lines than `most` on a terminal of this
    /// size, the oldest ones are left out, but never the newest one.
    pub(super) fn last(&self, size: Size, most: usize) -> String {
        let kept = self.kept();
        let mut lines = String::new();
        if let Some((text, next)) = &kept.disconnected {
            let wait = next.saturating_duration_since(Instant::now());
            let attempt = match wait.is_zero() {
                true => "trying now".to_owned(),
                false => format!("next attempt in {:.1} s", wait.as_secs_f64()),
            };
            lines.push_str(&size.wrap(&format!("\n{text}; {attempt}\n"), 0));
        }
        if !kept.last.is_empty() {
            lines.push_str("\nlast messages, with the seconds since the start:\n");
        }
        let texts = kept
            .last
            .iter()
            .map(|(time, text)| size.wrap(&format!("{:>7.1}  {text}\n", time.as_secs_f64()), TEXT_BEGINS));
        let mut texts: VecDeque<String> = texts.collect();
        let taken = |texts: &VecDeque<String>| texts.iter().map(|text| size.lines_of(text)).sum::<usize>();
        while texts.len() > 1 && size.lines_of(&lines) + taken(&texts) > most {
            texts.pop_front();
        }
        lines.extend(texts);
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_messages_and_a_missing_association_are_kept() {
        let messages = Messages::new(Output::Text);
        let last = || messages.last(Size::LEAST, usize::MAX);
        assert_eq!(last(), "");
        for number in 0..=KEPT {
            messages.fact(format!("message {number}"), &json!({}));
        }
        assert!(!last().contains("message 0"), "{}", last());
        assert!(last().contains("message 1"), "{}", last());
        messages.waiting("192.0.2.1:9899");
        assert!(
            last().contains("no answer from 192.0.2.1:9899 yet ("),
            "{}",
            last()
        );
        // Of attempts that fail alike, one displaces a message.
        for _ in 0..KEPT {
            messages.disconnected("no answer", Duration::from_secs(10), &json!({}));
        }
        messages.waiting("192.0.2.1:9899");
        let text = last();
        assert!(
            text.starts_with("\nnot connected: no answer; next attempt in "),
            "{text}"
        );
        assert!(text.contains("message 3"), "{text}");
        // The message before the newest one takes two lines of the terminal.
        let few = messages.last(Size::LEAST, 7);
        assert_eq!(Size::LEAST.lines_of(&few), 7, "{few}");
        assert!(few.ends_with("not connected: no answer\n"), "{few}");
        let newest = messages.last(Size::LEAST, 0);
        assert!(newest.ends_with("not connected: no answer\n"), "{newest}");
        messages.connected();
        assert!(!last().contains("next attempt"), "{}", last());
        assert!(last().ends_with("not connected: no answer\n"));
        // The key is right.
        messages.waiting("192.0.2.1:9899");
        assert!(
            last().ends_with("no answer from 192.0.2.1:9899 yet\n"),
            "{}",
            last()
        );
    }
}
