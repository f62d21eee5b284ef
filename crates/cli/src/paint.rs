//! Colours of texts on the terminal.

use std::io::{self, IsTerminal};

/// The colours of the terminal (ECMA-48, *Select graphic rendition*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Red,
    Green,
    Blue,
}

/// Whether texts have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    /// No colours.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self(false);

    /// For standard output: colours if it is a terminal that has them.
    pub(crate) fn stdout() -> Self {
        Self(io::stdout().is_terminal() && wanted(|name| std::env::var(name).ok()))
    }

    /// The same for standard error.
    pub(crate) fn stderr() -> Self {
        Self(io::stderr().is_terminal() && wanted(|name| std::env::var(name).ok()))
    }

    /// Whether there are colours.
    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    /// The text in a colour.
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        if !self.0 || text.is_empty() {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Blue => 34,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Whether the environment allows colours: not with a non-empty `NO_COLOR` (no-color.org), nor on a terminal without them.
fn wanted(variable: impl Fn(&str) -> Option<String>) -> bool {
    let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && variable("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_refuses_colours() {
        let with = |name: &'static str, value: &'static str| {
            wanted(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(with("TERM", "xterm-256color"));
        assert!(with("NO_COLOR", ""));
        assert!(!with("NO_COLOR", "1"));
        assert!(!with("TERM", "dumb"));
    }

    #[test]
    fn a_text_without_colours_is_unchanged() {
        assert_eq!(Paint::PLAIN.paint(Colour::Red, "late"), "late");
        assert_eq!(Paint(true).paint(Colour::Red, "late"), "\u{1b}[31mlate\u{1b}[0m");
        assert_eq!(Paint(true).paint(Colour::Red, ""), "");
    }
}
