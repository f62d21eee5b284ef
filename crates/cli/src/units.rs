//! Sizes, rates and durations on the command line, in the grammar of [`anabranch_netsim::units`], and in reports.

use std::ops::RangeInclusive;
use std::time::Duration;

use anabranch_netsim::units;

/// Reads a size like `1kib`, `10mb` or `1500` in bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|error| error.to_string())
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

/// Reads the size of a packet in bytes, from `least` to `most`.
pub(crate) fn parse_packet_size(text: &str, least: u16, most: u16) -> Result<u16, String> {
    let allowed = || format!("give {least} to {most} bytes, like 1500 or 9kb");
    let size = u16::try_from(parse_size(text)?).map_err(|_| allowed())?;
    let fits = (least..=most).contains(&size);
    fits.then_some(size).ok_or_else(allowed)
}

/// Reads a duration like `40ms`, `1m30s` or `0`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(|error| error.to_string())
}

/// Reads a duration like [`parse_duration`], or a plain number of seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    units::parse_seconds(text).map_err(|error| error.to_string())
}

/// Reads a rate like `10mbit` in bits per second.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    units::parse_rate(text).map_err(|error| error.to_string())
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

/// Three digits or more: `1.42`, `14.2`, `142`.
fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A size in a table, in at most 8 characters below 10 TiB: `4.00 MiB`.
pub(crate) fn short_size(bytes: u64) -> String {
    let (divisor, unit) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..0x10_0000 => (1 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    format!("{} {unit}", three_digits(bytes as f64 / f64::from(divisor)))
}

/// A rate in a table, in at most 11 characters below 10 Tbit/s: `1.42 Mbit/s`.
pub(crate) fn short_rate(bytes_per_second: u64) -> String {
    let bits = bytes_per_second as f64 * 8.0;
    let (divisor, unit) = match bits {
        bits if bits < 1e3 => return format!("{bits:.0} bit/s"),
        bits if bits < 1e6 => (1e3, "kbit/s"),
        bits if bits < 1e9 => (1e6, "Mbit/s"),
        _ => (1e9, "Gbit/s"),
    };
    format!("{} {unit}", three_digits(bits / divisor))
}

/// A number in a table, in at most 6 characters below 10 billion: `123456`, `1.23 M`.
pub(crate) fn short_count(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        _ => format!("{} M", three_digits(number as f64 / 1e6)),
    }
}

/// A share in a table, in at most 5 characters: `2.5 %`, `12 %`.
pub(crate) fn short_share(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
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
    fn sizes_outside_their_range_have_the_range_in_the_error() {
        assert_eq!(parse_size_within("1kib", 1..=1024, "at most 1kib"), Ok(1024));
        let error = parse_size_within("1025", 1..=1024, "at most 1kib");
        assert_eq!(error, Err("at most 1kib".to_owned()));
        assert_eq!(parse_packet_size("1.5kB", 548, 65_507), Ok(1500));
        for wrong in ["547", "65508", "1mib"] {
            let error = parse_packet_size(wrong, 548, 65_507).unwrap_err();
            assert!(error.contains("548 to 65507 bytes"), "{error}");
        }
    }

    /// A number of a report can be given to an option.
    #[test]
    fn what_reports_print_can_be_read() {
        let near = |read: f64, true_value: f64| (read - true_value).abs() <= 0.06 * true_value;
        for exponent in 0..53_u32 {
            for bytes in [1_u64 << exponent, (1 << exponent) + (1 << exponent) / 3] {
                let text = size(bytes);
                assert!(near(parse_size(&text).unwrap() as f64, bytes as f64), "{text}");
                let text = rate(bytes, Duration::from_secs(1));
                assert!(
                    near(parse_rate(&text).unwrap() as f64, bytes as f64 * 8.0),
                    "{text}"
                );
                let text = duration(Duration::from_micros(bytes));
                let read = parse_duration(&text).map(|time| time.as_secs_f64() * 1e6);
                assert!(near(read.unwrap(), bytes as f64), "{text}");
            }
        }
    }

    #[test]
    fn tables_have_narrow_cells() {
        let sizes = [1023, 1024, 10_235, 1_048_575, 1_073_741_823, 10 << 40].map(short_size);
        assert_eq!(sizes[1..3], ["1.00 KiB", "10.0 KiB"]);
        assert!(sizes[..5].iter().all(|size| size.len() <= 8), "{sizes:?}");
        assert_eq!(sizes[5], "10240 GiB");
        let rates = [124, 125, 1_249_999, 124_999_999, 125_000_000_000].map(short_rate);
        assert_eq!(rates[1..3], ["1.00 kbit/s", "10.0 Mbit/s"]);
        assert!(rates.iter().all(|rate| rate.len() <= 11), "{rates:?}");
        let counts = [999_999, 1_000_000, 12_345_678, 9_999_499_999].map(short_count);
        assert_eq!(counts, ["999999", "1.00 M", "12.3 M", "9999 M"]);
        let shares = [0.0, 0.0994, 0.0996, 1.0].map(short_share);
        assert_eq!(shares, ["0.0 %", "9.9 %", "10 %", "100 %"]);
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
