//! A table of a file, read key by key. Errors name the key and its line; a key that was never read is an error as well.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, QueueLimit};
use toml_edit::{Item, TableLike, Value};

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct FileError {
    /// Where, from 1.
    pub line: usize,
    /// The problem, with the key.
    pub problem: String,
}

/// The line number of a byte offset in a text, from 1.
pub(super) fn line_of(text: &str, place: usize) -> usize {
    1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count()
}

/// A table.
pub(super) struct Section<'a> {
    text: &'a str,
    /// The name in the file, for error texts; empty for the top level.
    name: String,
    /// The byte offset of its beginning.
    place: usize,
    table: &'a dyn TableLike,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(super) fn new(text: &'a str, name: String, place: usize, table: &'a dyn TableLike) -> Self {
        Self {
            text,
            name,
            place,
            table,
            asked: Vec::new(),
        }
    }

    /// An error about a key, with the line of the key or, if the key is missing, of the table.
    pub(super) fn wrong(&self, key: &str, problem: &str) -> FileError {
        let found = self.table.get_key_value(key);
        let place = found.and_then(|(key, item)| key.span().or(item.span()));
        let name = match self.name.as_str() {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        };
        FileError {
            line: line_of(self.text, place.map_or(self.place, |place| place.start)),
            problem: format!("{name} {problem}"),
        }
    }

    fn item(&mut self, key: &'static str) -> Option<&'a Item> {
        self.asked.push(key);
        self.table.get(key)
    }

    /// A text, if the key is there.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<&'a str>, FileError> {
        let Some(item) = self.item(key) else {
            return Ok(None);
        };
        let text = item
            .as_str()
            .ok_or_else(|| self.wrong(key, "must be a text in quotation marks"));
        text.map(Some)
    }

    /// A text that must be there.
    pub(super) fn required(&mut self, key: &'static str) -> Result<&'a str, FileError> {
        self.text(key)?.ok_or_else(|| self.wrong(key, "is missing"))
    }

    /// A text that `parse` accepts; error texts describe it as `expected`.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, FileError> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        let value =
            parse(text).ok_or_else(|| self.wrong(key, &format!("cannot be {text:?}: give {expected}")));
        value.map(Some)
    }

    /// A time, like "20ms".
    pub(super) fn time(&mut self, key: &'static str) -> Result<Option<Duration>, FileError> {
        self.parsed(key, "a time, like \"20ms\" or \"1.5s\"", |text| {
            // Reuses the parser of a link's delay.
            let link: LinkConfig = format!("delay={text}").parse().ok()?;
            Some(link.delay).filter(|time| !text.contains(',') && !time.is_zero())
        })
    }

    /// A number of bytes, like "64kib".
    pub(super) fn bytes(&mut self, key: &'static str) -> Result<Option<u64>, FileError> {
        self.parsed(key, "a number of bytes, like \"1400b\" or \"64kib\"", |text| {
            // Reuses the parser of a link's queue.
            let link: LinkConfig = format!("queue={text}").parse().ok()?;
            match link.queue {
                QueueLimit::Bytes(bytes) if bytes > 0 && !text.contains(',') => Some(bytes),
                _ => None,
            }
        })
    }

    /// A whole number within a range, ends included.
    pub(super) fn whole(
        &mut self,
        key: &'static str,
        (least, most): (u64, u64),
    ) -> Result<Option<u64>, FileError> {
        let Some(item) = self.item(key) else {
            return Ok(None);
        };
        let number = item.as_integer().and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| (least..=most).contains(number));
        let number =
            number.ok_or_else(|| self.wrong(key, &format!("must be a whole number from {least} to {most}")));
        number.map(Some)
    }

    /// True or false; false if the key is not there.
    pub(super) fn flag(&mut self, key: &'static str) -> Result<bool, FileError> {
        let Some(item) = self.item(key) else {
            return Ok(false);
        };
        item.as_bool()
            .ok_or_else(|| self.wrong(key, "must be true or false"))
    }

    /// Texts in brackets, at least one; `None` if the key is not there.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<&'a str>>, FileError> {
        let Some(item) = self.item(key) else {
            return Ok(None);
        };
        let texts = item
            .as_array()
            .and_then(|array| array.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let texts = texts.filter(|texts| !texts.is_empty());
        let texts = texts.ok_or_else(|| self.wrong(key, "must be texts in brackets, like [\"0%\", \"1%\"]"));
        texts.map(Some)
    }

    /// A nested table, if it is there.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Option<Section<'a>>, FileError> {
        let Some(item) = self.item(key) else {
            return Ok(None);
        };
        let table = item
            .as_table_like()
            .ok_or_else(|| self.wrong(key, &format!("must be a table: [{key}]")))?;
        let place = item.span().map_or(self.place, |span| span.start);
        Ok(Some(Section::new(self.text, key.to_owned(), place, table)))
    }

    /// The tables of a list, which must have `least` to `most` tables.
    pub(super) fn sections(
        &mut self,
        key: &'static str,
        (least, most): (usize, usize),
    ) -> Result<Vec<Section<'a>>, FileError> {
        let tables = match self.item(key) {
            None => Vec::new(),
            Some(item) => {
                let list = item.as_array_of_tables();
                let list =
                    list.ok_or_else(|| self.wrong(key, &format!("must be a list of tables: [[{key}]]")))?;
                list.iter().collect()
            }
        };
        if !(least..=most).contains(&tables.len()) {
            let problem = format!(
                "must occur {least} to {most} times, as [[{key}]]; it occurs {} times",
                tables.len()
            );
            return Err(self.wrong(key, &problem));
        }
        let sections = tables.into_iter().map(|table| {
            let place = table.span().map_or(self.place, |span| span.start);
            Section::new(self.text, key.to_owned(), place, table)
        });
        Ok(sections.collect())
    }

    /// Rejects a key that was never read.
    pub(super) fn end(self) -> Result<(), FileError> {
        let unknown = self.table.iter().find(|(key, _)| !self.asked.contains(key));
        match unknown {
            None => Ok(()),
            Some((key, _)) => {
                let problem = format!("is unknown; known keys: {}", self.asked.join(", "));
                Err(self.wrong(key, &problem))
            }
        }
    }
}
