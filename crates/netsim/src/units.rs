//! The grammar of durations, sizes and rates that people type: in options of commands, in link descriptions and in experiment files. There
//! is no other parser of these quantities in the project.
//!
//! A quantity is a decimal number and a unit, with or without spaces and in upper or lower case: `40ms`, `1.5 MiB`, `.5s`, `10Mbit/s`.
//!
//! | quantity | units | without a unit |
//! | --- | --- | --- |
//! | duration | `ns`, `us` (or `µs`), `ms`, `s`, `m` (or `min`), `h`, `d` | only `0` |
//! | size | `B`, `kB`, `KiB`, `MB`, `MiB`, `GB`, `GiB` | bytes |
//! | rate | `bit`, `kbit`, `Mbit`, `Gbit`, each also with `/s` | no |
//!
//! A duration may have several parts, in descending order of their units: `1m30s`, `1h 0.5s`. Only the last part may have a fraction. `5M` is
//! refused: other programs read it as months.
//!
//! ```
//! use anabranch_netsim::units;
//! use std::time::Duration;
//!
//! assert_eq!(units::parse_duration("1m30s")?, Duration::from_secs(90));
//! assert_eq!(units::parse_size("64KiB")?, 65_536);
//! assert_eq!(units::parse_rate("2.5Gbit")?, 2_500_000_000);
//! # Ok::<(), units::UnitError>(())
//! ```

use core::time::Duration;
use std::fmt;

/// Units of time, in nanoseconds, as they are written.
pub(crate) const TIME: &[Unit] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
/// More units of time that are read.
const MORE_TIME: &[Unit] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    // The micro sign and the Greek letter.
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
];
/// Units of rate, in bits per second.
pub(crate) const RATE: &[Unit] = &[
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];
/// Units of size, in bytes, as they are written.
pub(crate) const SIZE: &[Unit] = &[
    ("mib", 1 << 20),
    ("kib", 1 << 10),
    ("mb", 1_000_000),
    ("kb", 1_000),
    ("b", 1),
];
/// More units of size that are read.
const MORE_SIZE: &[Unit] = &[("gib", 1 << 30), ("gb", 1_000_000_000)];

/// A unit in lower case, and how many of the smallest unit it is.
type Unit = (&'static str, u64);

/// Why a text is not a quantity, with examples of texts that are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {examples}")]
pub struct UnitError {
    /// The fault of a text.
    pub problem: Problem,
    examples: &'static str,
}

/// The fault of a text that has to be a quantity or a probability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text has none of the forms that are read here.
    #[error("it has another form")]
    Form,
    /// The text, or a part of it, does not begin with a decimal number.
    #[error("there is no number before the unit")]
    NoNumber,
    /// The unit is missing.
    #[error("the number has no unit")]
    NoUnit,
    /// The unit is unknown.
    #[error("there is no unit {0:?} here")]
    Unit(String),
    /// A rate in bytes.
    #[error("{0:?} counts bytes, and a rate counts bits")]
    Bytes(String),
    /// The unit `M` of a duration.
    #[error("\"M\" could be minutes or months: write m or min for minutes")]
    Minutes,
    /// The parts of a duration are not in order.
    #[error("its units must descend, with a fraction only in the last part, as in 1m30.5s")]
    Order,
    /// The number has more digits than are counted.
    #[error("it has too many digits after the point")]
    TooFine,
    /// The number is too large.
    #[error("it is too large")]
    TooLarge,
    /// The number is 0.
    #[error("it must be more than 0")]
    Zero,
    /// The probability is the bare number 1.
    #[error("1 % or 0.01? Write 1% or 0.01 for one of a hundred, and 100% for all")]
    BareOne,
    /// The probability is above 1.
    #[error("a share is at most 100%, or a number below 1: write 5% or 0.05 for five of a hundred")]
    AboveOne,
    /// The fault of a file that the text names.
    #[error("{0}")]
    File(String),
}

/// Reads a duration like `40ms`, `1m30s` or `0`.
///
/// # Errors
/// The text is not a duration, has digits below a nanosecond, or is longer than 2^64 nanoseconds (584 years).
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    duration(text).map_err(|problem| UnitError {
        problem,
        examples: "a duration is a number with a unit, like 200us, 40ms, 1.5s, 2min or 1m30s",
    })
}

/// Reads a duration like [`parse_duration`], or a plain number of seconds.
///
/// # Errors
/// As for [`parse_duration`].
pub fn parse_seconds(text: &str) -> Result<Duration, UnitError> {
    let seconds = match decimal(text.trim(), TIME[0].1, Digits::AllCount) {
        Ok(nanos) => Ok(Duration::from_nanos(nanos)),
        Err(Problem::NoNumber) => duration(text),
        Err(problem) => Err(problem),
    };
    seconds.map_err(|problem| UnitError {
        problem,
        examples: "a time is a number of seconds, or one with a unit, like 10, 1.5s, 200ms, 2min or 1m30s",
    })
}

/// Reads a size like `64KiB`, `10MB` or `1500` in bytes. A fraction is rounded to the nearest byte, because few fractions of a KiB are whole
/// numbers of bytes; a fraction of a byte is refused.
///
/// # Errors
/// The text is not a size, or is 2^64 bytes or more.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let size = match size(text) {
        Err(Problem::NoUnit) => decimal(text.trim(), 1, Digits::AllCount),
        size => size,
    };
    size.map_err(|problem| UnitError {
        problem,
        examples: "a size is a number of bytes, or one with a unit, like 64kib, 10mb or 1gib",
    })
}

/// Reads a rate like `500kbit`, `10Mbit/s` or `2.5Gbit` in bits per second, above 0.
///
/// # Errors
/// The text is not a rate, is 0, has digits below 1 bit/s, or is 2^64 bit/s or more.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    rate(text).map_err(|problem| UnitError {
        problem,
        examples: "a rate is a number with a unit, like 500kbit, 10mbit or 1.5gbit",
    })
}

/// Reads a duration like `5ms` or `1m30s`.
pub(crate) fn duration(text: &str) -> Result<Duration, Problem> {
    let units: Vec<Unit> = [TIME, MORE_TIME].concat();
    let mut rest = text.trim();
    let mut total = 0_u64;
    let mut larger = u64::MAX;
    loop {
        let (number, unit, after) = split(rest);
        if unit.is_empty()
            && rest == text.trim()
            && after.is_empty()
            && decimal(number, 1, Digits::AllCount) == Ok(0)
        {
            return Ok(Duration::ZERO);
        }
        if unit == "M" {
            return Err(Problem::Minutes);
        }
        let scale = scale_of(number, unit, &units)?;
        if scale >= larger || !after.is_empty() && number.contains('.') {
            return Err(Problem::Order);
        }
        let part = decimal(number, scale, Digits::AllCount)?;
        total = total.checked_add(part).ok_or(Problem::TooLarge)?;
        if after.is_empty() {
            return Ok(Duration::from_nanos(total));
        }
        (rest, larger) = (after, scale);
    }
}

/// Reads a size with a unit, like `64kib`, rounded to the nearest byte.
pub(crate) fn size(text: &str) -> Result<u64, Problem> {
    one_part(text, &[SIZE, MORE_SIZE].concat(), Digits::Rounded)
}

/// Reads a rate above 0, like `10mbit`.
pub(crate) fn rate(text: &str) -> Result<u64, Problem> {
    let lower = text.trim().to_ascii_lowercase();
    let bits = lower.strip_suffix("/s").unwrap_or(&lower);
    match one_part(bits, RATE, Digits::AllCount) {
        Ok(0) => Err(Problem::Zero),
        Err(Problem::Unit(unit)) if size(&format!("0{unit}")).is_ok() => Err(Problem::Bytes(unit)),
        rate => rate,
    }
}

/// Reads a number of packets, like `50p`.
pub(crate) fn packets(text: &str) -> Result<u64, Problem> {
    one_part(text, &[("p", 1)], Digits::AllCount)
}

/// A decimal number followed by one of the units.
fn one_part(text: &str, units: &[Unit], digits: Digits) -> Result<u64, Problem> {
    let (number, unit, after) = split(text.trim());
    let scale = scale_of(number, unit, units)?;
    match after.is_empty() {
        true => decimal(number, scale, digits),
        false => Err(Problem::Form),
    }
}

/// The number and the unit at the beginning of a text, and the rest. Spaces between them are left out.
fn split(text: &str) -> (&str, &str, &str) {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let end = rest.find(|c: char| is_number(c) || c.is_whitespace());
    let (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
    (number, unit, rest.trim_start())
}

/// The size of the unit behind a number.
fn scale_of(number: &str, unit: &str, units: &[Unit]) -> Result<u64, Problem> {
    if number.is_empty() {
        return Err(Problem::NoNumber);
    }
    if unit.is_empty() {
        return Err(Problem::NoUnit);
    }
    let known = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    known
        .map(|(_, scale)| *scale)
        .ok_or_else(|| Problem::Unit(unit.to_owned()))
}

/// The rule for digits below the smallest unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digits {
    /// They are refused.
    AllCount,
    /// The number is rounded, but not if it is a number of the smallest unit.
    Rounded,
}

/// Parses a decimal number like `1.5` in units of `1 / scale`. [`Problem::NoNumber`] if the text is not a decimal number.
pub(crate) fn decimal(text: &str, scale: u64, digits: Digits) -> Result<u64, Problem> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut all = whole.bytes().chain(fraction.bytes()).peekable();
    if all.peek().is_none() || !all.all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::NoNumber);
    }
    if fraction.len() > 18 {
        return Err(Problem::TooFine);
    }
    let number = |digits: &str| match digits {
        "" => Ok(0),
        digits => digits.parse::<u128>().map_err(|_| Problem::TooLarge),
    };
    let part = number(fraction)? * u128::from(scale);
    let divisor = 10_u128.pow(fraction.len() as u32);
    if !part.is_multiple_of(divisor) && (digits == Digits::AllCount || scale == 1) {
        return Err(Problem::TooFine);
    }
    let value = number(whole)?.checked_mul(u128::from(scale));
    let value = value.and_then(|value| value.checked_add((part + divisor / 2) / divisor));
    value
        .and_then(|value| u64::try_from(value).ok())
        .ok_or(Problem::TooLarge)
}

/// Writes `value` in the largest of the `units` (largest first, the last of size 1) that divides it.
pub(crate) fn write_with_unit(f: &mut fmt::Formatter<'_>, value: u64, units: &[Unit]) -> fmt::Result {
    let fits = |size: u64| value.is_multiple_of(size) && value != 0;
    let last = units.last().copied().unwrap_or(("", 1));
    let (name, size) = units
        .iter()
        .copied()
        .find(|&(_, size)| fits(size))
        .unwrap_or(last);
    write!(f, "{}{name}", value / size)
}

/// A duration in nanoseconds, for [`write_with_unit`] and for arithmetic; at most `u64::MAX`.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
