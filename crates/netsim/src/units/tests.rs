//! Texts that are read, texts that are refused and the reason, and that everything written can be read again.

use proptest::prelude::*;

use super::*;
use crate::{Aqm, CoDelConfig, FqCoDelConfig, LinkConfig, LossModel, MarkThreshold, Probability, QueueLimit};

#[test]
fn durations_are_read() {
    for (text, nanos) in [
        ("1m30s", 90_000_000_000),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("250us", 250_000),
        ("250\u{b5}s", 250_000),
        ("250\u{3bc}s", 250_000),
        ("0", 0),
        ("0s", 0),
        ("40MS", 40_000_000),
        ("1.5S", 1_500_000_000),
        (" 40 ms ", 40_000_000),
        ("2min", 120_000_000_000),
        ("2m", 120_000_000_000),
        ("1H", 3_600_000_000_000),
        ("1d", 86_400_000_000_000),
        ("1h 1m 1s 1ms 1us 1ns", 3_661_001_001_001),
        ("1m30.5s", 90_500_000_000),
    ] {
        assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
    }
}

#[test]
fn durations_that_are_refused_have_their_reason() {
    let unit = |text: &str| Problem::Unit(text.to_owned());
    for (text, problem) in [
        ("", Problem::NoNumber),
        ("ms", Problem::NoNumber),
        ("-5ms", Problem::NoNumber),
        ("1..5ms", Problem::NoNumber),
        (".s", Problem::NoNumber),
        ("5", Problem::NoUnit),
        ("1m30", Problem::NoUnit),
        ("1m0", Problem::NoUnit),
        ("5 parsecs", unit("parsecs")),
        ("1e3s", unit("e")),
        ("5M", Problem::Minutes),
        ("1h5M", Problem::Minutes),
        ("30s1m", Problem::Order),
        ("1m1min", Problem::Order),
        ("1.5m30s", Problem::Order),
        ("0.1ns", Problem::TooFine),
        ("9999999999999h", Problem::TooLarge),
        ("213503d86400s", Problem::TooLarge),
    ] {
        let error = parse_duration(text).unwrap_err();
        assert_eq!(error.problem, problem, "{text}");
        assert!(error.to_string().contains("40ms"), "{error}");
    }
}

#[test]
fn seconds_need_no_unit() {
    for (text, millis) in [
        ("10", 10_000),
        ("0.5", 500),
        ("0", 0),
        ("40ms", 40),
        ("1m30s", 90_000),
    ] {
        assert_eq!(parse_seconds(text), Ok(Duration::from_millis(millis)), "{text}");
    }
    assert!(parse_seconds("soon").unwrap_err().to_string().contains("200ms"));
}

#[test]
fn sizes_are_read() {
    for (text, bytes) in [
        ("1500", 1500),
        ("64KiB", 65_536),
        ("64kib", 65_536),
        ("1MB", 1_000_000),
        ("1.5MiB", 1_572_864),
        ("2 gib", 2 << 30),
        (".5mb", 500_000),
        ("1.1kib", 1_126),
        ("0.7kib", 717),
    ] {
        assert_eq!(parse_size(text), Ok(bytes), "{text}");
    }
    for (text, problem) in [
        ("", Problem::NoNumber),
        ("b", Problem::NoNumber),
        ("-1", Problem::NoNumber),
        ("1.5", Problem::TooFine),
        ("1.5b", Problem::TooFine),
        ("1kibi", Problem::Unit("kibi".to_owned())),
        ("1k", Problem::Unit("k".to_owned())),
        ("1mb2kb", Problem::Form),
        ("99999999999gib", Problem::TooLarge),
        ("99999999999999999999", Problem::TooLarge),
    ] {
        let error = parse_size(text).unwrap_err();
        assert_eq!(error.problem, problem, "{text}");
        assert!(error.to_string().contains("64kib"), "{error}");
    }
}

#[test]
fn rates_are_read() {
    for (text, bits) in [
        ("10Mbit", 10_000_000),
        ("10mbit/s", 10_000_000),
        ("10 Mbit/s", 10_000_000),
        ("2.5Gbit", 2_500_000_000),
        ("9600bit", 9_600),
        (".5kbit", 500),
    ] {
        assert_eq!(parse_rate(text), Ok(bits), "{text}");
    }
    for (text, problem) in [
        ("", Problem::NoNumber),
        ("10", Problem::NoUnit),
        ("0mbit", Problem::Zero),
        ("10MB", Problem::Bytes("mb".to_owned())),
        ("10mb/s", Problem::Bytes("mb".to_owned())),
        ("-1mbit", Problem::NoNumber),
        ("unlimited", Problem::NoNumber),
        ("2mbits", Problem::Unit("mbits".to_owned())),
        ("1.5bit", Problem::TooFine),
    ] {
        let error = parse_rate(text).unwrap_err();
        assert_eq!(error.problem, problem, "{text}");
        assert!(error.to_string().contains("10mbit"), "{error}");
    }
}

#[test]
fn decimals_are_exact() {
    let exact = |text, scale| decimal(text, scale, Digits::AllCount);
    assert_eq!(exact("1.5", 1000), Ok(1500));
    assert_eq!(exact("0.001", 1000), Ok(1));
    assert_eq!(exact(".5", 10), Ok(5));
    assert_eq!(exact("5.", 10), Ok(50));
    assert_eq!(exact("0.0001", 1000), Err(Problem::TooFine));
    for wrong in ["", ".", "-1", "1e3", "1.2.3", "99999999999999999999"] {
        assert!(exact(wrong, 1).is_err(), "{wrong}");
    }
}

/// A value as [`write_with_unit`] writes it.
struct Written(u64, &'static [Unit]);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_unit(f, self.0, self.1)
    }
}

fn time() -> impl Strategy<Value = Duration> {
    // Each scale of a duration occurs, not only the long ones.
    let scales = prop::sample::select(vec![1_u64, 1_000, 1_000_000, 1_000_000_000]);
    (0..10_000_u64, scales).prop_map(|(number, scale)| Duration::from_nanos(number * scale))
}

fn share() -> impl Strategy<Value = Probability> {
    prop_oneof![
        Just(Probability::NEVER),
        Just(Probability::ALWAYS),
        (0..=1_000_000_000_u32).prop_map(|billionths| Probability::new(f64::from(billionths) / 1e9)),
    ]
}

fn loss() -> impl Strategy<Value = LossModel> {
    let outages = prop::collection::vec(1..1_000_000_u64, 2..9).prop_map(|gaps| {
        let mut end = 0;
        let mut ends = gaps.iter().map(|gap| {
            end += gap;
            Duration::from_micros(end)
        });
        LossModel::Outages(std::iter::from_fn(|| Some((ends.next()?, ends.next()?))).collect())
    });
    prop_oneof![
        Just(LossModel::None),
        share().prop_map(LossModel::Bernoulli),
        (share(), share(), share(), share()).prop_map(|(to_bad, to_good, good_loss, bad_loss)| {
            LossModel::GilbertElliott {
                to_bad,
                to_good,
                good_loss,
                bad_loss,
            }
        }),
        prop::collection::btree_set(any::<u64>(), 1..5)
            .prop_map(|indexes| LossModel::Script(indexes.into_iter().collect())),
        outages,
    ]
}

fn queue() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Unlimited),
        any::<u64>().prop_map(QueueLimit::Bytes),
        any::<u64>().prop_map(QueueLimit::Packets),
        (0..1_000_u64).prop_map(|kib| QueueLimit::Dummynet(kib << 10)),
    ]
}

fn aqm() -> impl Strategy<Value = Aqm> {
    let codel = || {
        (time(), time()).prop_map(|(target, interval)| CoDelConfig {
            target,
            interval: interval.max(Duration::from_nanos(1)),
        })
    };
    let fq = (codel(), 1..100_000_u32, 1..=65_536_u32);
    prop_oneof![
        Just(Aqm::None),
        codel().prop_map(Aqm::CoDel),
        fq.prop_map(|(codel, quantum, flows)| Aqm::FqCoDel(FqCoDelConfig {
            codel,
            quantum,
            flows
        })),
    ]
}

fn link() -> impl Strategy<Value = LinkConfig> {
    let mark = prop_oneof![
        Just(None),
        any::<u64>().prop_map(|bytes| Some(MarkThreshold::Bytes(bytes))),
        any::<u64>().prop_map(|packets| Some(MarkThreshold::Packets(packets))),
    ];
    let rest = (
        loss(),
        mark,
        (share(), share(), share(), share(), time()),
        576..=u16::MAX,
    );
    let first = (prop::option::of(1..=u64::MAX), time(), time(), queue(), aqm());
    (first, rest).prop_map(
        |((rate, delay, jitter, queue, aqm), (loss, ecn_mark, shares, mtu))| {
            let (ect_loss, late, duplicate, corrupt, extra_delay) = shares;
            let config = LinkConfig::default()
                .with_delay(delay)
                .with_jitter(jitter)
                .with_mtu(mtu)
                .with_queue(queue)
                .with_aqm(aqm)
                .with_loss(loss)
                .with_ect_loss(ect_loss)
                .with_reorder(late, extra_delay)
                .with_duplicate(duplicate)
                .with_corrupt(corrupt);
            LinkConfig {
                rate,
                ecn_mark,
                ..config
            }
        },
    )
}

proptest! {
    #[test]
    fn written_quantities_are_read_as_the_same(value in prop_oneof![any::<u64>(), 0..100_000_u64], thousands in 0..4_u32) {
        let value = value.saturating_mul(1_000_u64.pow(thousands));
        prop_assert_eq!(parse_duration(&Written(value, TIME).to_string()), Ok(Duration::from_nanos(value)));
        prop_assert_eq!(parse_size(&Written(value, SIZE).to_string()), Ok(value));
        prop_assert_eq!(parse_size(&value.to_string()), Ok(value));
        let rate = parse_rate(&Written(value, RATE).to_string()).map_err(|error| error.problem);
        prop_assert_eq!(rate, if value == 0 { Err(Problem::Zero) } else { Ok(value) });
    }

    #[test]
    fn written_links_are_read_as_the_same(config in link()) {
        let text = config.to_string();
        prop_assert_eq!(text.parse(), Ok(config.clone()), "{}", text);
        prop_assert_eq!(text.to_ascii_uppercase().parse(), Ok(config), "{}", text);
    }

    /// Letter case and spaces change nothing.
    #[test]
    fn parts_of_a_duration_add_up(hours in 0..100_u64, minutes in 0..1_000_u64, millis in 0..100_000_u64, spaces in any::<bool>()) {
        let seconds = millis as f64 / 1e3;
        let space = if spaces { " " } else { "" };
        let text = format!("{hours}H{space}{minutes}m{space}{seconds}{space}s");
        let expected = Duration::from_secs(hours * 3600 + minutes * 60) + Duration::from_millis(millis);
        prop_assert_eq!(parse_duration(&text), Ok(expected), "{}", text);
    }

    /// No text makes a parser panic, and what is refused has examples in its error.
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9.a-zA-Z /%\u{b5}-]{0,12}|\\PC{0,12}") {
        for error in [
            parse_duration(&text).err(),
            parse_seconds(&text).err(),
            parse_size(&text).err(),
            parse_rate(&text).err(),
        ].into_iter().flatten() {
            prop_assert!(error.to_string().contains(", like "), "{}", error);
        }
        let _ = text.parse::<LinkConfig>();
        let _ = text.parse::<Probability>();
    }
}
