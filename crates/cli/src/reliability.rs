//! Messages that may be given up, on the command line: how long each is worth the trouble, which extensions are offered,
//! and what came of it (`docs/PARTIAL-RELIABILITY.md`).

use std::time::Duration;

use anabranch::{Config, Counters, Extensions, Reliability};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::units;

/// Longer than this is no lifetime, but a typing error.
const LONGEST_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// More retransmissions than an association survives losses in a row, by far.
const MOST_RETRANSMISSIONS: u64 = 100;
/// Half of the largest congestion window that makes sense, in packets.
const FARTHEST: u64 = 10_000;

/// Of each argument here, not of the struct: that would go on over what is flattened after it.
const HEADING: &str = "Messages that may be given up";

/// How long each message is worth the trouble.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Persist {
    /// Give a message up when it is older than this, like 100ms: then it is neither sent nor repeated
    #[arg(long, help_heading = HEADING, value_name = "DURATION", value_parser = lifetime,
        conflicts_with_all = ["max_retransmissions", "pr_priority"])]
    lifetime: Option<Duration>,
    /// Repeat what is lost at most so often, then give the message up; 0 sends everything once
    #[arg(long, help_heading = HEADING, value_name = "NUMBER", value_parser = retransmissions,
        allow_negative_numbers = true, conflicts_with = "pr_priority")]
    max_retransmissions: Option<u32>,
    /// Give messages up that wait while the send buffer is full, if what comes is more important; 0 is the most important
    #[arg(long, help_heading = HEADING, value_name = "NUMBER", allow_negative_numbers = true)]
    pr_priority: Option<u32>,
}

/// What of it both sides offer each other.
#[derive(Clone, Debug, Args)]
pub(crate) struct Offer {
    /// Give a message up at the first sign of its loss, not at the third
    #[arg(long, help_heading = HEADING)]
    early_discard: bool,
    /// Tell the receiver of each message that will not be repeated, so many packets [default: 1] after it, so that what
    /// follows is not held up by its loss; `listen` and `perf server` take it from whoever asks for it
    #[arg(long, help_heading = HEADING, value_name = "DISTANCE", num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_parser = distance)]
    selective_forward_tsn: Option<u32>,
    /// Whether acknowledgements tell what the receiver will never take back (NR-SACK)
    #[arg(
        long,
        help_heading = HEADING,
        value_enum,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true
    )]
    nr_sack: Switch,
    /// Do not offer FORWARD-TSN (RFC 3758): what was sent once is repeated until it arrives
    #[arg(long, help_heading = HEADING, conflicts_with_all = ["early_discard", "selective_forward_tsn"])]
    no_partial_reliability: bool,
    /// Let messages of several streams leave and arrive interleaved (I-DATA, RFC 8260), so that a large one holds up no other;
    /// `listen` and `perf server` take it from whoever asks for it
    #[arg(long, help_heading = "Streams")]
    interleave: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// It is offered
    On,
    /// It is not
    Off,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text)? {
        time if time.is_zero() => Err(
            "without any lifetime nothing is sent: give some, like 100ms, or send everything once with \
             --max-retransmissions 0"
                .to_owned(),
        ),
        time if time > LONGEST_LIFETIME => Err(
            "a lifetime is at most 24h: leave --lifetime away for messages that are never given up"
                .to_owned(),
        ),
        time => Ok(time),
    }
}

/// A whole number in a range; what is beyond it is answered with `allowed`.
fn within(text: &str, least: u64, most: u64, allowed: &str) -> Result<u32, String> {
    let number = text.parse::<u64>().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| allowed.to_owned())
}

fn retransmissions(text: &str) -> Result<u32, String> {
    let allowed = "give 0 (send everything once) to 100: leave --max-retransmissions away for messages that are \
                   never given up";
    within(text, 0, MOST_RETRANSMISSIONS, allowed)
}

fn distance(text: &str) -> Result<u32, String> {
    let allowed = "the distance is 1 to 10000 packets: leave --selective-forward-tsn away for none";
    within(text, 1, FARTHEST, allowed)
}

impl Persist {
    /// How hard each message is tried.
    pub(crate) fn reliability(&self) -> Reliability {
        match (self.lifetime, self.max_retransmissions, self.pr_priority) {
            (Some(lifetime), ..) => Reliability::Lifetime(lifetime),
            (_, Some(count), _) => Reliability::Retransmissions(count),
            (.., Some(priority)) => Reliability::Priority(priority),
            (None, None, None) => Reliability::Reliable,
        }
    }

    /// Whether messages may be given up.
    pub(crate) fn is_partial(&self) -> bool {
        self.reliability() != Reliability::Reliable
    }
}

/// In words, if it is not simply reliable.
pub(crate) fn describe(reliability: Reliability) -> Option<String> {
    match reliability {
        Reliability::Reliable => None,
        Reliability::Lifetime(lifetime) => Some(format!("given up after {}", units::duration(lifetime))),
        Reliability::Retransmissions(0) => Some("sent once".to_owned()),
        Reliability::Retransmissions(count) => Some(format!("repeated at most {count}×")),
        Reliability::Priority(priority) => Some(format!("of priority {priority}")),
    }
}

impl Offer {
    /// Changes the settings of who begins an association.
    pub(crate) fn apply(&self, config: &mut Config) {
        let partial = &mut config.partial_reliability;
        partial.offer = !self.no_partial_reliability;
        partial.early_discard = self.early_discard;
        partial.selective_forward_tsn = self.selective_forward_tsn;
        config.nr_sack.offer = self.nr_sack == Switch::On;
        config.interleaving.offer |= self.interleave;
    }

    /// What was asked for and the peer did not offer too, in words.
    pub(crate) fn refused(&self, persist: &Persist, negotiated: &Extensions) -> Option<String> {
        if (persist.is_partial() || self.early_discard) && !negotiated.partial_reliability {
            let who = if self.no_partial_reliability {
                "this side does"
            } else {
                "the peer does"
            };
            return Some(format!(
                "{who} not offer FORWARD-TSN (RFC 3758): only what waits to be sent is given up, what was sent once is \
                 repeated until it arrives"
            ));
        }
        if self.interleave && !negotiated.interleaving {
            return Some(
                "the peer does not offer interleaving (RFC 8260): a message that has begun to leave holds up all others"
                    .to_owned(),
            );
        }
        let notices = self.selective_forward_tsn.is_some() && !negotiated.selective_forward_tsn;
        notices.then(|| {
            "the peer does not offer selective forward TSN: losses hold up what follows until FORWARD-TSN passes them"
                .to_owned()
        })
    }

    /// Changes the settings of who waits for associations: what the peer decides is offered.
    pub(crate) fn apply_to_server(&self, config: &mut Config) {
        self.apply(config);
        config.interleaving.offer = true;
        if config.partial_reliability.offer {
            config.partial_reliability.selective_forward_tsn.get_or_insert(1);
        }
    }
}

/// Messages that were given up.
pub(crate) fn abandoned(counters: &Counters) -> u64 {
    counters.abandoned_sent + counters.abandoned_unsent
}

/// The counters for people: a line for each side of it that there is something to tell of.
pub(crate) fn lines(counters: &Counters) -> Vec<String> {
    let mut lines = Vec::new();
    if abandoned(counters) > 0 {
        lines.push(format!(
            "gave {} up: {} after sending, {} before, {} at the first sign of loss",
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
        (counters.late_messages, "message", "came too late and dropped"),
        (counters.chunks_reneged, "chunk", "taken back"),
    ];
    let told = told.iter().filter(|(count, ..)| *count > 0);
    let told: Vec<String> = told
        .map(|(count, what, how)| format!("{} {how}", units::counted(*count, what)))
        .collect();
    if !told.is_empty() {
        lines.push(told.join(", "));
    }
    if counters.freed_early_bytes > 0 {
        lines.push(format!(
            "{} freed early, thanks to NR-SACK",
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
        "forward_tsns_sent": counters.forward_tsns_sent, "forward_tsns_received": counters.forward_tsns_received,
        "selective_notices_sent": counters.selective_notices_sent,
        "selective_notices_received": counters.selective_notices_received,
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
    fn options_say_how_hard_a_message_is_tried() {
        let reliability = |args: &[&str]| parse(args).unwrap().persist.reliability();
        assert_eq!(reliability(&[]), Reliability::Reliable);
        let lifetime = Reliability::Lifetime(Duration::from_millis(100));
        assert_eq!(reliability(&["--lifetime", "100ms"]), lifetime);
        let once = Reliability::Retransmissions(0);
        assert_eq!(reliability(&["--max-retransmissions", "0"]), once);
        assert_eq!(reliability(&["--pr-priority", "3"]), Reliability::Priority(3));
    }

    #[test]
    fn only_one_of_them_and_nothing_absurd() {
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
                "0 (send everything once) to 100",
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
    fn what_is_offered_is_set() {
        let config = |args: &[&str]| {
            let mut config = Config::default();
            parse(args).unwrap().offer.apply(&mut config);
            config
        };
        assert_eq!(config(&[]), Config::default());
        assert_eq!(
            config(&["--nr-sack", "off", "--no-partial-reliability"]),
            Config::default().without_extensions()
        );
        let all = config(&["--early-discard", "--selective-forward-tsn"]).partial_reliability;
        assert_eq!((all.early_discard, all.selective_forward_tsn), (true, Some(1)));
        let far = config(&["--selective-forward-tsn=3"]).partial_reliability;
        assert_eq!(far.selective_forward_tsn, Some(3));
        assert!(config(&["--interleave"]).interleaving.offer);
    }

    #[test]
    fn what_the_peer_refused_is_told() {
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
        partial.interleaving = true;
        assert_eq!(refused(&["--interleave"], &partial), "");
    }

    #[test]
    fn a_server_leaves_the_choice_to_its_peer() {
        let config = |args: &[&str]| {
            let mut config = Config::default();
            parse(args).unwrap().offer.apply_to_server(&mut config);
            assert!(config.interleaving.offer);
            config.partial_reliability.selective_forward_tsn
        };
        assert_eq!(config(&[]), Some(1));
        assert_eq!(config(&["--selective-forward-tsn=4"]), Some(4));
        assert_eq!(config(&["--no-partial-reliability"]), None);
    }

    #[test]
    fn only_what_happened_is_told() {
        let mut counters = Counters::default();
        assert!(lines(&counters).is_empty());
        counters.abandoned_unsent = 1;
        counters.forward_tsns_received = 2;
        let said = lines(&counters).join("\n");
        assert!(
            said.contains("1 message up") && said.contains("2 FORWARD-TSNs received"),
            "{said}"
        );
        assert_eq!(to_json(&counters)["abandoned_unsent"], 1);
    }
}
