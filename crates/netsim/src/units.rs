//! Parses and formats numbers with units, as on a command line, without rounding.

use core::time::Duration;
use std::fmt;

/// Parses a decimal number like `1.5` in units of `1 / scale`. `None` if the text is not a number, the number is too large, or it has more
/// digits than the scale can hold exactly.
pub(crate) fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    if !whole
        .bytes()
        .chain(fraction.bytes())
        .all(|byte| byte.is_ascii_digit())
        || fraction.len() > 18
    {
        return None;
    }
    let number = |digits: &str| {
        if digits.is_empty() {
            Some(0)
        } else {
            digits.parse::<u128>().ok()
        }
    };
    let part = number(fraction)? * u128::from(scale);
    let divisor = 10_u128.pow(fraction.len() as u32);
    if !part.is_multiple_of(divisor) {
        return None;
    }
    let value = number(whole)?
        .checked_mul(u128::from(scale))?
        .checked_add(part / divisor)?;
    u64::try_from(value).ok()
}

/// Parses a decimal number followed by one of the `units`, each given with its size.
pub(crate) fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let &(_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    decimal(number, scale)
}

/// Writes `value` in the largest of the `units` (largest first, the last of size 1) that divides it.
pub(crate) fn write_with_unit(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fits = |size: u64| value.is_multiple_of(size) && value != 0;
    let last = units.last().copied().unwrap_or(("", 1));
    let (name, size) = units
        .iter()
        .copied()
        .find(|&(_, size)| fits(size))
        .unwrap_or(last);
    write!(f, "{}{name}", value / size)
}

/// Units of time, in nanoseconds.
pub(crate) const TIME: &[(&str, u64)] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
/// Units of rate, in bits per second.
pub(crate) const RATE: &[(&str, u64)] = &[
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];
/// Units of size, in bytes.
pub(crate) const SIZE: &[(&str, u64)] = &[
    ("mib", 1 << 20),
    ("kib", 1 << 10),
    ("mb", 1_000_000),
    ("kb", 1_000),
    ("b", 1),
];

/// Reads a duration like `5ms`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    with_unit(text, TIME).map(Duration::from_nanos)
}

/// A duration in nanoseconds, for [`write_with_unit`] and for arithmetic; at most `u64::MAX`.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("1.5", 1000), Some(1500));
        assert_eq!(decimal("0.001", 1000), Some(1));
        assert_eq!(decimal(".5", 10), Some(5));
        assert_eq!(decimal("0.0001", 1000), None);
        for wrong in ["", ".", "-1", "1e3", "1.2.3", "99999999999999999999"] {
            assert_eq!(decimal(wrong, 1), None, "{wrong}");
        }
    }

    #[test]
    fn units_are_told_apart() {
        assert_eq!(with_unit("5ms", TIME), Some(5_000_000));
        assert_eq!(with_unit("1.5S", TIME), Some(1_500_000_000));
        assert_eq!(with_unit("64kib", SIZE), Some(65_536));
        assert_eq!(with_unit("64kb", SIZE), Some(64_000));
        assert_eq!(with_unit("2Mbit", RATE), Some(2_000_000));
        assert_eq!(with_unit("2", RATE), None);
        assert_eq!(with_unit("2mbits", RATE), None);
    }
}
