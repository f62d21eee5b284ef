//! The size of the terminal, and text in lines that fit it.

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) lines: usize,
}

impl Size {
    /// The size that tables are made for.
    pub(crate) const LEAST: Self = Self {
        columns: 80,
        lines: 24,
    };

    /// The size of the terminal to which this stream writes; `None` if it writes elsewhere.
    #[cfg(unix)]
    pub(crate) fn of(stream: &(impl std::io::IsTerminal + std::os::fd::AsFd)) -> Option<Self> {
        stream
            .is_terminal()
            .then(|| match rustix::termios::tcgetwinsize(stream) {
                // A terminal that does not know its size reports zeros.
                Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Self {
                    columns: size.ws_col.into(),
                    lines: size.ws_row.into(),
                },
                _ => Self::LEAST,
            })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(stream: &impl std::io::IsTerminal) -> Option<Self> {
        stream.is_terminal().then_some(Self::LEAST)
    }

    /// The lines of the terminal that a text takes: those that are too long continue on another one.
    pub(crate) fn lines_of(self, text: &str) -> usize {
        let lines = |line: &str| line.chars().count().div_ceil(self.columns).max(1);
        text.lines().map(lines).sum()
    }

    /// The text with line ends between words, where lines are too long. A line continues two columns further than it begins, or `indent` columns
    /// from the left if this is more. A word that is longer than a line stays as it is.
    pub(crate) fn wrap(self, text: &str, indent: usize) -> String {
        let lines = text.split('\n').map(|line| self.wrap_line(line, indent));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn wrap_line(self, line: &str, indent: usize) -> String {
        let begins = line.len() - line.trim_start_matches(' ').len();
        let indent = indent.max(begins + 2);
        let (mut wrapped, mut column, mut is_empty) = (String::new(), 0, true);
        for (number, word) in line.split(' ').enumerate() {
            let length = word.chars().count();
            if !is_empty && column + 1 + length > self.columns {
                wrapped.push_str(&format!("\n{:indent$}", ""));
                column = indent;
            } else if number > 0 {
                wrapped.push(' ');
                column += 1;
            }
            wrapped.push_str(word);
            column += length;
            is_empty &= word.is_empty();
        }
        wrapped
    }
}

/// A text for a stream with this terminal, if it has one.
pub(crate) fn wrapped(terminal: Option<Size>, text: String) -> String {
    match terminal {
        Some(size) => size.wrap(&text, 0),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        let size = Size {
            columns: 12,
            lines: 24,
        };
        assert_eq!(size.wrap("one two", 0), "one two");
        assert_eq!(size.wrap("one two three four", 0), "one two\n  three four");
        assert_eq!(size.wrap("one two thre", 0), "one two thre", "it fits exactly");
        assert_eq!(
            size.wrap("one\n  two three four", 0),
            "one\n  two three\n    four"
        );
        assert_eq!(size.wrap("one two three", 6), "one two\n      three");
        assert_eq!(
            size.wrap("a longest_word_of_all b", 0),
            "a\n  longest_word_of_all\n  b"
        );
        for text in ["", "\n", "  ", "x\n\n"] {
            assert_eq!(size.wrap(text, 0), text);
        }
    }
}
