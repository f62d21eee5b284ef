//! Sizes, rates and durations on the command line and in reports.

use std::ops::RangeInclusive;
use std::time::Duration;

const SIZES: &[(&str, u64)] = &[
    ("b", 1),
    ("kb", 1_000),
    ("kib", 1 << 10),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
];
const RATES: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
];
const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a size like `1kib`, `10mb` or `1500` in bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten();
    plain
        .or_else(|| with_unit(text, SIZES))
        .ok_or_else(|| "a size is a number of bytes, or one with a unit, like 64kib, 10mb or 1gib".to_owned())
}

/// Reads a size that must lie in `range`; otherwise the error is `allowed`.
pub(crate) fn parse_size_within(
    text: &str,
    range: RangeInclusive<u64>,
    allowed: &str,
) -> Result<u64, String> {
    let size = parse_size(text)?;
    range
        .contains(&size)
        .then_some(size)
        .ok_or_else(|| allowed.to_owned())
}

/// Reads a duration like `40ms`, `1.5s` or `2min`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    with_unit(text, TIMES)
        .map(Duration::from_nanos)
        .ok_or_else(|| "a duration is a number with a unit, like 200us, 40ms, 1.5s or 2min".to_owned())
}

/// Reads a duration like [`parse_duration`], or a plain number of seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    with_unit(text, TIMES)
        .or_else(|| with_unit(&format!("{text}s"), TIMES))
        .map(Duration::from_nanos)
        .ok_or_else(|| {
            "a time is a number of seconds, or one with a unit, like 10, 1.5s, 200ms or 2min".to_owned()
        })
}

/// Reads a rate like `10mbit` in bits per second.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    with_unit(text, RATES)
        .filter(|&rate| rate > 0)
        .ok_or_else(|| "a rate is a number with a unit, like 500kbit, 10mbit or 1.5gbit".to_owned())
}

/// A decimal number with one of the units. `None` for fractions below the smallest unit and for numbers that are too large.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let &(_, scale) = units.iter().find(|(name, _)| *name == unit.trim())?;
    let (whole, fraction) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<u128>().ok()?
    };
    let part = fraction * u128::from(scale);
    if !part.is_multiple_of(divisor) {
        return None;
    }
    let whole = whole.parse::<u128>().ok()?.checked_mul(u128::from(scale))?;
    u64::try_from(whole.checked_add(part / divisor)?).ok()
}

/// A size in a report: `4.00 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// A duration in a report, in three or four digits: `40.2 ms`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.001 => format!("{:.0} us", s * 1e6),
        s if s < 0.01 => format!("{:.2} ms", s * 1e3),
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 120.0 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

/// Bits per second; `None` if no time passed.
pub(crate) fn bits_per_second(bytes: u64, duration: Duration) -> Option<f64> {
    (!duration.is_zero()).then(|| bytes as f64 * 8.0 / duration.as_secs_f64())
}

/// A rate in a report: `1.42 Mbit/s`.
pub(crate) fn rate(bytes: u64, duration: Duration) -> String {
    match bits_per_second(bytes, duration) {
        None => "no time".to_owned(),
        Some(bits) if bits < 1e3 => format!("{bits:.0} bit/s"),
        Some(bits) if bits < 1e6 => format!("{:.1} kbit/s", bits / 1e3),
        Some(bits) if bits < 1e9 => format!("{:.2} Mbit/s", bits / 1e6),
        Some(bits) => format!("{:.2} Gbit/s", bits / 1e9),
    }
}

/// A number with its noun: `1 message`, `2 messages`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let sizes = [
            ("1500", 1500),
            ("1kib", 1024),
            ("10mb", 10_000_000),
            ("1.5MiB", 1_572_864),
            ("2 gib", 2 << 30),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for wrong in [
            "",
            "b",
            "-1",
            "1.5b",
            "1kibi",
            "1k",
            "99999999999gib",
            "1e3",
            ".5mb",
            "1..5mb",
        ] {
            assert!(parse_size(wrong).unwrap_err().contains("64kib"), "{wrong}");
        }
    }

    #[test]
    fn durations_are_read() {
        let durations = [
            ("40ms", 40_000_000),
            ("1.5s", 1_500_000_000),
            ("0s", 0),
            ("2min", 120_000_000_000),
        ];
        for (text, nanos) in durations {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for wrong in ["", "5", "ms", "-5ms", "5 parsecs", "9999999999999h"] {
            assert!(parse_duration(wrong).unwrap_err().contains("40ms"), "{wrong}");
        }
    }

    #[test]
    fn seconds_and_rates_are_read() {
        assert_eq!(parse_seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_seconds("40ms"), Ok(Duration::from_millis(40)));
        assert!(parse_seconds("soon").unwrap_err().contains("200ms"));
        assert_eq!(parse_rate("10mbit"), Ok(10_000_000));
        assert_eq!(parse_rate("1.5Gbit"), Ok(1_500_000_000));
        for wrong in ["", "10", "0mbit", "10mb", "-1mbit", "unlimited"] {
            assert!(parse_rate(wrong).unwrap_err().contains("10mbit"), "{wrong}");
        }
    }

    #[test]
    fn reports_have_few_digits() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(4 << 20), "4.00 MiB");
        assert_eq!(duration(Duration::from_micros(40_210)), "40.2 ms");
        assert_eq!(duration(Duration::from_millis(1_234)), "1.23 s");
        assert_eq!(rate(1_000_000, Duration::from_secs(1)), "8.00 Mbit/s");
        assert_eq!(rate(1, Duration::ZERO), "no time");
        assert_eq!(counted(1, "message"), "1 message");
        assert_eq!(counted(0, "message"), "0 messages");
    }
}
