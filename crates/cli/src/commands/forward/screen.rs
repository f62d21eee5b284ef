//! The tables between two messages: on a terminal within its lines, otherwise whole.

use super::messages::Messages;
use super::status::Status;
use crate::terminal::Size;
use crate::units::counted;

/// The tables and messages that fit. Messages take what the tables leave, and at least a third.
fn fit(size: Size, status: &Status, messages: &Messages) -> String {
    // Below is an empty line, and the line of the cursor.
    let most = size.lines.saturating_sub(2);
    let tables = status.tables(size.columns);
    let left = most.saturating_sub(size.lines_of(&tables));
    let messages = messages.last(size, left.max(most / 3));
    let tables = cut(size, &tables, most.saturating_sub(size.lines_of(&messages)));
    format!("{tables}\n{messages}")
}

/// The first lines of a text, if it takes more lines of the terminal than `most`, and how many are left out.
fn cut(size: Size, text: &str, most: usize) -> String {
    if size.lines_of(text) <= most {
        return text.to_owned();
    }
    let mut taken = 1;
    let fits = |line: &&str| {
        taken += size.lines_of(line).max(1);
        taken <= most
    };
    let shown: Vec<&str> = text.lines().take_while(fits).collect();
    let left_out = counted((text.lines().count() - shown.len()) as u64, "more line");
    let note = format!("and {left_out}: a higher terminal, --page or --json shows them");
    [shown.as_slice(), &[&note]].concat().join("\n")
}

/// Draws tables: on a terminal over the ones before, with the last messages, otherwise below them.
#[derive(Debug)]
pub(super) struct Screen<'a> {
    /// `None` without a terminal: there, nothing erases the messages.
    messages: Option<&'a Messages>,
}

impl<'a> Screen<'a> {
    pub(super) fn new(messages: Option<&'a Messages>) -> Self {
        Self { messages }
    }

    pub(super) fn draw(&self, status: &Status) -> String {
        // The sequences of ECMA-48: the cursor to the first line, and erase what follows.
        const OVER: &str = "\x1b[H\x1b[J";
        match self.messages {
            Some(messages) => {
                let size = Size::of(&std::io::stdout()).unwrap_or(Size::LEAST);
                format!("{OVER}{}", fit(size, status, messages))
            }
            None => format!("{}\n", status.tables(usize::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::status::tests::{association, widest};
    use super::*;
    use crate::output::Output;

    #[test]
    fn without_clients_there_are_messages() {
        let status = Status { clients: Vec::new() };
        assert_eq!(Screen::new(None).draw(&status), "no client\n");
        let messages = Messages::new(Output::Text);
        let over = Screen::new(Some(&messages)).draw(&status);
        assert_eq!(over, "\x1b[H\x1b[Jno client\n");
        messages.fact("page at http://127.0.0.1:1/", &json!({}));
        let over = Screen::new(Some(&messages)).draw(&status);
        assert!(
            over.starts_with("\x1b[H\x1b[Jno client\n\nlast messages"),
            "{over}"
        );
        assert!(over.ends_with("page at http://127.0.0.1:1/\n"), "{over}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_clients_fit_the_terminal() {
        let association = association().await;
        let view = widest(&association, &["203.0.113.7:54321", "198.51.100.7:54321"]);
        let messages = Messages::new(Output::Text);
        for clients in 1..8 {
            let status = Status {
                clients: vec![view.clone(); clients],
            };
            let whole = status.tables(80);
            let drawn = fit(Size::LEAST, &status, &messages);
            // Two more lines: an empty one, and that of the cursor.
            assert!(Size::LEAST.lines_of(&drawn) <= 22, "{drawn}");
            let tables = drawn.split("\nlast messages").next().unwrap_or_default();
            let tables = tables.trim_end().lines();
            let shown = tables.filter(|line| !line.starts_with("and ")).count();
            let left_out = whole.lines().count() - shown;
            let note = format!("and {}: ", counted(left_out as u64, "more line"));
            assert_eq!(drawn.contains(&note), clients > 1, "{drawn}");
            // Several lines of a message, and one that the terminal continues on the next line.
            messages.fact(format!("{clients}\n  a rule\n{}", "x".repeat(100)), &json!({}));
        }
        let one = Status { clients: vec![view] };
        let drawn = fit(Size::LEAST, &one, &messages);
        assert!(drawn.contains("  7\n  a rule\n"), "{drawn}");
        assert!(Size::LEAST.lines_of(&drawn) <= 22, "{drawn}");
    }
}
