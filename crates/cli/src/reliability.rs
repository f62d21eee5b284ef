//! Partial reliability on the command line: the policy of each message, the extensions to offer, and the counters
//! (`docs/PARTIAL-RELIABILITY.md`).

use std::time::Duration;

use anabranch::{Config, Counters, Extensions, Reliability, SendOptions};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::options::RESEARCH;
use crate::units;

/// A longer lifetime is probably a typing error.
const LONGEST_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// The limit of `--max-retransmissions`: an association fails after far fewer losses in a row.
const MOST_RETRANSMISSIONS: u64 = 100;
/// The limit of `--selective-forward-tsn`: half of the largest reasonable congestion window, in packets.
const FARTHEST: u64 = 10_000;

/// The limit of `--early-copies`: more are rarely sent, because the acknowledgement arrives before.
pub(crate) const MOST_COPIES: u8 = 10;

/// Each argument names this heading: on the struct, it would also apply to the arguments that are flattened after it.
const HEADING: &str = "Partial reliability (abandon late messages)";

/// When the sender abandons a message.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Persist {
    /// Abandon a message when it is older than this, for example 100ms (timed reliability, RFC 3758), at most 24h
    /// [default: never]
    #[arg(long, help_heading = HEADING, value_name = "DURATION", value_parser = lifetime,
        conflicts_with_all = ["max_retransmissions", "pr_priority"])]
    lifetime: Option<Duration>,
    /// Abandon a message after this many retransmissions of a chunk, 0 to 100 (RFC 7496) [default: never]
    #[arg(long, help_heading = HEADING, value_name = "NUMBER", value_parser = retransmissions,
        allow_negative_numbers = true, conflicts_with = "pr_priority")]
    max_retransmissions: Option<u32>,
    /// Abandon waiting messages of lower priority while the send buffer is full (RFC 7496); 0 is the highest priority
    /// [default: never]
    #[arg(long, help_heading = HEADING, value_name = "NUMBER", allow_negative_numbers = true)]
    pr_priority: Option<u32>,
}

/// Messages that must arrive in time.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Urgency {
    /// The time after which a message is of no use, for example 100ms, at most 24h: the association decides how often it is sent,
    /// and when it is abandoned. Messages are unordered [default: none]
    #[arg(long, help_heading = HEADING, value_name = "DURATION", value_parser = deadline,
        conflicts_with_all = ["lifetime", "max_retransmissions", "pr_priority", "early_copies"])]
    pub(crate) deadline: Option<Duration>,
    /// Send a message again this many times (0 to 10) while it is not acknowledged, a third of the round-trip time apart: for
    /// messages that are useful for less than two round-trip times
    #[arg(long, help_heading = HEADING, value_name = "NUMBER", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(..=i64::from(MOST_COPIES)))]
    pub(crate) early_copies: u8,
}

/// The extensions that are offered to the peer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Offer {
    /// Abandon a lost message at the first missing report instead of the third
    #[arg(long, help_heading = RESEARCH)]
    early_discard: bool,
    /// Announce each message that will not be retransmitted, DISTANCE packets after the message (1 to 10000) [default: 1],
    /// so that its loss does not delay later messages. `listen` and `perf server` always accept the announcements
    #[arg(long, help_heading = RESEARCH, value_name = "DISTANCE", num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_parser = distance)]
    selective_forward_tsn: Option<u32>,
    /// List abandoned unordered messages that FORWARD-TSN cannot pass yet, because the receiver waits for one before them.
    /// `listen` and `perf server` always accept the list
    #[arg(long, help_heading = RESEARCH)]
    extended_forward_tsn: bool,
    /// Offer NR-SACK: acknowledgements after which the receiver may not renege, so that the sender frees memory earlier
    #[arg(
        long,
        help_heading = RESEARCH,
        value_enum,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true
    )]
    nr_sack: Switch,
    /// Do not offer FORWARD-TSN (RFC 3758): a message that was sent once is retransmitted until it arrives
    #[arg(long, help_heading = RESEARCH, conflicts_with_all = ["early_discard", "selective_forward_tsn", "extended_forward_tsn"])]
    no_partial_reliability: bool,
    /// Do not offer user message interleaving (I-DATA, RFC 8260): a large message then blocks other streams while it is
    /// sent. Both peers must offer it
    #[arg(long, help_heading = RESEARCH)]
    no_interleaving: bool,
    /// Say it if the peer does not offer interleaving. Scripts give it from the time when interleaving was offered only on
    /// request
    #[arg(long, hide = true, conflicts_with = "no_interleaving")]
    interleave: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// The extension is offered
    On,
    /// The extension is not offered
    Off,
}

/// A time of more than 0 and at most a day; otherwise the error is `none` or `too_long`.
fn within_a_day(text: &str, none: &str, too_long: &str) -> Result<Duration, String> {
    match units::parse_duration(text)? {
        time if time.is_zero() => Err(none.to_owned()),
        time if time > LONGEST_LIFETIME => Err(too_long.to_owned()),
        time => Ok(time),
    }
}

fn deadline(text: &str) -> Result<Duration, String> {
    within_a_day(
        text,
        "no message arrives at once: give for example 100ms",
        "a deadline is at most 24h: leave --deadline out for messages that are always of use",
    )
}

fn lifetime(text: &str) -> Result<Duration, String> {
    within_a_day(
        text,
        "with a lifetime of 0 no message is sent: give for example 100ms, or --max-retransmissions 0 to send every \
         message once",
        "a lifetime is at most 24h: leave --lifetime out for messages that are never abandoned",
    )
}

/// A whole number in a range; otherwise the error is `allowed`.
fn within(text: &str, least: u64, most: u64, allowed: &str) -> Result<u32, String> {
    let number = text.parse::<u64>().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| allowed.to_owned())
}

fn retransmissions(text: &str) -> Result<u32, String> {
    let allowed = "give 0 (send every message once) to 100, or leave --max-retransmissions out for messages that are \
                   never abandoned";
    within(text, 0, MOST_RETRANSMISSIONS, allowed)
}

fn distance(text: &str) -> Result<u32, String> {
    let allowed =
        "the distance is 1 to 10000 packets: leave --selective-forward-tsn out to announce no message";
    within(text, 1, FARTHEST, allowed)
}

impl Urgency {
    /// The options of a message, if it has these without a deadline.
    pub(crate) fn apply(&self, options: SendOptions) -> SendOptions {
        match self.deadline {
            Some(deadline) => options.deadline(deadline),
            None => options.early_copies(self.early_copies),
        }
    }
}

impl Persist {
    /// The reliability policy of each message.
    pub(crate) fn reliability(&self) -> Reliability {
        match (self.lifetime, self.max_retransmissions, self.pr_priority) {
            (Some(lifetime), ..) => Reliability::Lifetime(lifetime),
            (_, Some(count), _) => Reliability::Retransmissions(count),
            (.., Some(priority)) => Reliability::Priority(priority),
            (None, None, None) => Reliability::Reliable,
        }
    }

    /// Whether messages may be abandoned.
    pub(crate) fn is_partial(&self) -> bool {
        self.reliability() != Reliability::Reliable
    }
}

/// A description for the user; `None` for reliable messages.
pub(crate) fn describe(reliability: Reliability) -> Option<String> {
    match reliability {
        Reliability::Reliable => None,
        Reliability::Lifetime(lifetime) => Some(format!("abandoned after {}", units::duration(lifetime))),
        Reliability::Retransmissions(0) => Some("sent once".to_owned()),
        Reliability::Retransmissions(count) => Some(format!("retransmitted at most {count}×")),
        Reliability::Priority(priority) => Some(format!("of priority {priority}")),
    }
}

impl Offer {
    /// Applies the options to a client's settings.
    pub(crate) fn apply(&self, config: &mut Config) {
        let partial = &mut config.partial_reliability;
        partial.offer = !self.no_partial_reliability;
        partial.early_discard = self.early_discard;
        partial.selective_forward_tsn = self.selective_forward_tsn;
        partial.extended_forward_tsn = self.extended_forward_tsn;
        config.nr_sack.offer = self.nr_sack == Switch::On;
        config.interleaving.offer = !self.no_interleaving;
    }

    /// A note about requested extensions that were not negotiated.
    pub(crate) fn refused(&self, persist: &Persist, negotiated: &Extensions) -> Option<String> {
        if (persist.is_partial() || self.early_discard) && !negotiated.partial_reliability {
            let who = if self.no_partial_reliability {
                "this side does"
            } else {
                "the peer does"
            };
            return Some(format!(
                "{who} not offer FORWARD-TSN (RFC 3758): messages are abandoned only before they are sent; a message that \
                 was sent once is retransmitted until it arrives"
            ));
        }
        if self.interleave && !negotiated.interleaving {
            let why = if negotiated.extended_forward_tsn {
                "it is not used together with the extended FORWARD-TSN"
            } else {
                "the peer does not offer it"
            };
            return Some(format!(
                "interleaving (RFC 8260) is off, and a large message blocks other streams while it is sent: {why}"
            ));
        }
        let notices = self.selective_forward_tsn.is_some() && !negotiated.selective_forward_tsn;
        if notices {
            return Some(
                "the peer does not offer selective forward TSN: a loss delays later messages until FORWARD-TSN skips it"
                    .to_owned(),
            );
        }
        if self.extended_forward_tsn && !negotiated.extended_forward_tsn {
            let why = if negotiated.eca {
                "it is not used together with ECA-SCTP"
            } else {
                "the peer does not offer it"
            };
            return Some(format!("the extended FORWARD-TSN is off: {why}"));
        }
        None
    }

    /// Applies the options to a listener's settings. Extensions that the peer decides on are always offered.
    pub(crate) fn apply_to_server(&self, config: &mut Config) {
        self.apply(config);
        if config.partial_reliability.offer {
            config.partial_reliability.selective_forward_tsn.get_or_insert(1);
            config.partial_reliability.extended_forward_tsn = true;
        }
    }
}

/// Messages that the sender abandoned.
pub(crate) fn abandoned(counters: &Counters) -> u64 {
    counters.abandoned_sent + counters.abandoned_unsent
}

/// The counters as text, without those that are zero.
pub(crate) fn lines(counters: &Counters) -> Vec<String> {
    let mut lines = Vec::new();
    if abandoned(counters) > 0 {
        lines.push(format!(
            "abandoned {}: {} after sending, {} before, {} at the first missing report",
            units::counted(abandoned(counters), "message"),
            counters.abandoned_sent,
            counters.abandoned_unsent,
            units::counted(counters.early_discards, "chunk"),
        ));
    }
    let told = [
        (counters.forward_tsns_sent, "FORWARD-TSN", "sent"),
        (counters.forward_tsns_received, "FORWARD-TSN", "received"),
        (counters.selective_notices_sent, "selective notice", "sent"),
        (
            counters.selective_notices_received,
            "selective notice",
            "received",
        ),
        (counters.late_messages, "message", "arrived too late and dropped"),
        (counters.chunks_reneged, "chunk", "reneged"),
    ];
    let told = told.iter().filter(|(count, ..)| *count > 0);
    let told: Vec<String> = told
        .map(|(count, what, how)| format!("{} {how}", units::counted(*count, what)))
        .collect();
    if !told.is_empty() {
        lines.push(told.join(", "));
    }
    if counters.early_copies > 0 {
        lines.push(format!(
            "early copies: {} sent ({}), {} of them unnecessary",
            counters.early_copies,
            units::size(counters.redundancy_bytes),
            counters.early_copies_unnecessary,
        ));
    }
    if counters.freed_early_bytes > 0 {
        lines.push(format!(
            "{} freed early because of NR-SACK",
            units::size(counters.freed_early_bytes)
        ));
    }
    lines
}

/// The counters for `--json`.
pub(crate) fn to_json(counters: &Counters) -> Value {
    json!({
        "abandoned_sent": counters.abandoned_sent, "abandoned_unsent": counters.abandoned_unsent,
        "early_discards": counters.early_discards,
        "early_copies": counters.early_copies, "early_copies_unnecessary": counters.early_copies_unnecessary,
        "redundancy_bytes": counters.redundancy_bytes,
        "forward_tsns_sent": counters.forward_tsns_sent, "forward_tsns_received": counters.forward_tsns_received,
        "selective_notices_sent": counters.selective_notices_sent,
        "selective_notices_received": counters.selective_notices_received,
        "extended_forwards_sent": counters.extended_forwards_sent,
        "extended_forwards_received": counters.extended_forwards_received,
        "late_messages": counters.late_messages, "freed_early_bytes": counters.freed_early_bytes,
        "chunks_reneged": counters.chunks_reneged, "nr_sack_contradictions": counters.nr_sack_contradictions,
        "retransmissions_fast": counters.retransmissions_fast,
        "retransmissions_timeout": counters.retransmissions_timeout,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Both {
        #[command(flatten)]
        persist: Persist,
        #[command(flatten)]
        offer: Offer,
    }

    fn parse(args: &[&str]) -> Result<Both, String> {
        Both::try_parse_from([&[""], args].concat()).map_err(|error| error.to_string())
    }

    #[test]
    fn options_set_the_reliability_policy() {
        let reliability = |args: &[&str]| parse(args).unwrap().persist.reliability();
        assert_eq!(reliability(&[]), Reliability::Reliable);
        let lifetime = Reliability::Lifetime(Duration::from_millis(100));
        assert_eq!(reliability(&["--lifetime", "100ms"]), lifetime);
        let once = Reliability::Retransmissions(0);
        assert_eq!(reliability(&["--max-retransmissions", "0"]), once);
        assert_eq!(reliability(&["--pr-priority", "3"]), Reliability::Priority(3));
    }

    #[test]
    fn policies_exclude_each_other_and_values_have_limits() {
        let once = ["--lifetime", "1s", "--max-retransmissions", "0"];
        let priority = ["--lifetime", "1s", "--pr-priority", "0"];
        let both = ["--max-retransmissions", "1", "--pr-priority", "0"];
        for args in [once, priority, both] {
            let error = parse(&args).unwrap_err();
            assert!(error.contains(args[0]) && error.contains(args[2]), "{error}");
        }
        let off = parse(&["--no-partial-reliability", "--early-discard"]).unwrap_err();
        assert!(
            off.contains("--no-partial-reliability") && off.contains("--early-discard"),
            "{off}"
        );
        let wrong = [
            (["--lifetime", "0ms"], "--max-retransmissions 0"),
            (["--lifetime", "100"], "200us"),
            (["--lifetime", "25h"], "at most 24h"),
            (
                ["--max-retransmissions", "101"],
                "0 (send every message once) to 100",
            ),
            (["--max-retransmissions", "-1"], "--max-retransmissions"),
            (["--nr-sack", "maybe"], "--nr-sack"),
        ];
        for (args, part) in wrong {
            let error = parse(&args).unwrap_err();
            assert!(error.contains(args[0]) && error.contains(part), "{error}");
        }
        let none = parse(&["--selective-forward-tsn=0"]).unwrap_err();
        assert!(none.contains("1 to 10000 packets"), "{none}");
    }

    #[test]
    fn offered_extensions_are_set() {
        let config = |args: &[&str]| {
            let mut config = Config::default();
            parse(args).unwrap().offer.apply(&mut config);
            config
        };
        assert_eq!(config(&[]), Config::default());
        let mut without = Config::default().without_extensions();
        // No option turns stream reconfiguration off.
        without.reconfiguration.offer = true;
        let off = [
            "--nr-sack",
            "off",
            "--no-partial-reliability",
            "--no-interleaving",
        ];
        assert_eq!(config(&off), without);
        let all = config(&["--early-discard", "--selective-forward-tsn"]).partial_reliability;
        assert_eq!((all.early_discard, all.selective_forward_tsn), (true, Some(1)));
        let far = config(&["--selective-forward-tsn=3"]).partial_reliability;
        assert_eq!(far.selective_forward_tsn, Some(3));
        assert!(!far.extended_forward_tsn);
        assert!(
            config(&["--extended-forward-tsn"])
                .partial_reliability
                .extended_forward_tsn
        );
        assert_eq!(config(&["--interleave"]), Config::default());
        assert!(parse(&["--interleave", "--no-interleaving"]).is_err());
    }

    #[test]
    fn extensions_that_were_not_negotiated_are_told() {
        let refused = |args: &[&str], negotiated: &Extensions| {
            let both = parse(args).unwrap();
            both.offer.refused(&both.persist, negotiated).unwrap_or_default()
        };
        let none = Extensions::default();
        assert_eq!(refused(&[], &none), "");
        assert!(refused(&["--lifetime", "1s"], &none).contains("the peer does not offer FORWARD-TSN"));
        let own = ["--lifetime", "1s", "--no-partial-reliability"];
        assert!(refused(&own, &none).contains("this side does not offer"));
        let mut partial = none;
        partial.partial_reliability = true;
        assert_eq!(refused(&["--lifetime", "1s"], &partial), "");
        assert!(refused(&["--selective-forward-tsn"], &partial).contains("selective forward TSN"));
        assert!(refused(&["--interleave"], &partial).contains("interleaving"));
        let extended = ["--extended-forward-tsn"];
        assert!(refused(&extended, &partial).contains("the peer does not offer it"));
        partial.eca = true;
        assert!(refused(&extended, &partial).contains("together with ECA-SCTP"));
        partial.extended_forward_tsn = true;
        assert_eq!(refused(&extended, &partial), "");
        assert!(refused(&["--interleave"], &partial).contains("together with the extended FORWARD-TSN"));
        partial.interleaving = true;
        assert_eq!(refused(&["--interleave"], &partial), "");
    }

    #[test]
    fn a_server_leaves_the_choice_to_its_peer() {
        let config = |args: &[&str]| {
            let mut config = Config::default();
            parse(args).unwrap().offer.apply_to_server(&mut config);
            assert_eq!(config.interleaving.offer, !args.contains(&"--no-interleaving"));
            let partial = config.partial_reliability;
            (partial.selective_forward_tsn, partial.extended_forward_tsn)
        };
        assert_eq!(config(&[]), (Some(1), true));
        assert_eq!(config(&["--selective-forward-tsn=4"]), (Some(4), true));
        assert_eq!(config(&["--no-partial-reliability"]), (None, false));
        assert_eq!(config(&["--no-interleaving"]), (Some(1), true));
    }

    #[test]
    fn counters_of_zero_are_left_out() {
        let mut counters = Counters::default();
        assert!(lines(&counters).is_empty());
        counters.abandoned_unsent = 1;
        counters.forward_tsns_received = 2;
        let said = lines(&counters).join("\n");
        assert!(
            said.contains("abandoned 1 message") && said.contains("2 FORWARD-TSNs received"),
            "{said}"
        );
        assert_eq!(to_json(&counters)["abandoned_unsent"], 1);
    }
}
