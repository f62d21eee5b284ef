//! Errors in a file: the line and the key of a place in its text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use crate::near::did_you_mean;

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct FileError {
    /// Where, from 1.
    pub line: usize,
    /// The problem, with the key.
    pub problem: String,
}

/// The text of a file, and the key at each place.
pub(super) struct Places<'a> {
    text: &'a str,
    /// The range of each key with its value, and of each table's header.
    keys: Vec<(Range<usize>, String)>,
}

impl<'a> Places<'a> {
    pub(super) fn new(text: &'a str, file: &DeTable<'_>) -> Self {
        let mut keys = Vec::new();
        note_keys(file, "", &mut keys);
        Self { text, keys }
    }

    /// An error at a range of bytes, or in the whole file.
    pub(super) fn wrong(&self, place: Option<Range<usize>>, problem: &str) -> FileError {
        let place = place.unwrap_or(0..self.text.len());
        let key = match self.key_of(&place) {
            "" => String::new(),
            key => format!("{key}: "),
        };
        FileError {
            line: line_of(self.text, place.start),
            problem: format!("{key}{problem}"),
        }
    }

    /// The innermost key whose range contains this range; empty for the top level.
    fn key_of(&self, place: &Range<usize>) -> &str {
        // The place of the top level is empty.
        let contains =
            |range: &Range<usize>| range.start <= place.start && place.end <= range.end && !place.is_empty();
        let around = self.keys.iter().filter(|(range, _)| contains(range));
        let innermost = around.min_by_key(|(range, _)| range.len());
        innermost.map_or("", |(_, key)| key)
    }

    /// The error of a file that is not TOML.
    pub(super) fn not_toml(text: &str, error: &Error) -> FileError {
        FileError {
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            problem: error.message().trim_end().to_owned(),
        }
    }

    /// The error of a key or a value that the file may not have.
    pub(super) fn not_known(&self, error: &Error) -> FileError {
        self.wrong(error.span(), &in_our_words(error.message()))
    }
}

/// The line number of a byte offset in a text, from 1.
fn line_of(text: &str, place: usize) -> usize {
    1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count()
}

/// `serde`'s message with *key* for *field*, and with the most similar known key.
fn in_our_words(message: &str) -> String {
    let message = message.trim_end();
    let Some(names) = message.strip_prefix("unknown field ") else {
        return message.replacen("missing field", "missing key", 1);
    };
    // The names are between backticks: first the unknown one, then the known ones.
    let mut names = names.split('`').skip(1).step_by(2);
    let unknown = names.next().unwrap_or_default();
    let known: Vec<&str> = names.collect();
    format!(
        "unknown key `{unknown}`; {}known keys: {}",
        did_you_mean(unknown, known.iter().copied()),
        known.join(", ")
    )
}

fn note_keys(table: &DeTable<'_>, above: &str, keys: &mut Vec<(Range<usize>, String)>) {
    for (name, value) in table {
        let path = match above {
            "" => name.get_ref().to_string(),
            above => format!("{above}.{}", name.get_ref()),
        };
        keys.push((name.span().start..value.span().end, path.clone()));
        note_value(value, &path, keys);
    }
}

/// The keys of tables, also of those in arrays. Each table `[[key]]` has the place of its own header.
fn note_value(value: &Spanned<DeValue<'_>>, path: &str, keys: &mut Vec<(Range<usize>, String)>) {
    match value.get_ref() {
        DeValue::Table(table) => {
            keys.push((value.span(), path.to_owned()));
            note_keys(table, path, keys);
        }
        DeValue::Array(array) => array.iter().for_each(|value| note_value(value, path, keys)),
        _ => {}
    }
}
