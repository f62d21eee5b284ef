//! Loss models: a link loses packets at random, in bursts, or as a script says. Queue drops are separate.

use core::fmt;
use core::time::Duration;
use std::str::FromStr;

use anabranch_proto::Timestamp;

use crate::random::{Generator, Probability};
use crate::units::{self, Problem};

/// How a link loses packets. A lost packet still takes its place in the queue and its time on the link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LossModel {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet is lost with this probability, independently of the others.
    Bernoulli(Probability),
    /// Two states with a loss probability each (Gilbert 1960, Elliott 1963). The model starts in the good state.
    GilbertElliott {
        /// Probability, after each packet, to change from the good to the bad state (p).
        to_bad: Probability,
        /// Probability, after each packet, to change from the bad to the good state (r). The bad state lasts 1 / r packets on average.
        to_good: Probability,
        /// Loss probability in the good state.
        good_loss: Probability,
        /// Loss probability in the bad state.
        bad_loss: Probability,
    },
    /// Exactly these packets are lost. They are counted from 0 in the order in which they came to the link, including packets that the
    /// queue refused. Ascending.
    Script(Vec<u64>),
    /// Every packet that comes to the link during one of these intervals is lost. The start is included, the end is not; both count from
    /// the start of the run. Ascending.
    Outages(Vec<(Duration, Duration)>),
}

impl LossModel {
    /// Independent losses with a probability between 0 and 1.
    #[must_use]
    pub fn bernoulli(probability: f64) -> Self {
        Self::Bernoulli(Probability::new(probability))
    }

    /// Bursts in which every packet is lost. The probability of starting one is `to_bad` for each packet, that of ending it `to_good`.
    #[must_use]
    pub fn bursts(to_bad: f64, to_good: f64) -> Self {
        Self::GilbertElliott {
            to_bad: to_bad.into(),
            to_good: to_good.into(),
            good_loss: Probability::NEVER,
            bad_loss: Probability::ALWAYS,
        }
    }

    /// The long-run share of lost packets; `None` if the model has none.
    #[must_use]
    pub fn expected_loss(&self) -> Option<f64> {
        match self {
            Self::None => Some(0.0),
            Self::Bernoulli(probability) => Some(probability.as_f64()),
            Self::GilbertElliott {
                to_bad,
                to_good,
                good_loss,
                bad_loss,
            } => {
                let (p, r) = (to_bad.as_f64(), to_good.as_f64());
                if p + r == 0.0 {
                    return Some(good_loss.as_f64());
                }
                Some((p * bad_loss.as_f64() + r * good_loss.as_f64()) / (p + r))
            }
            Self::Script(_) | Self::Outages(_) => None,
        }
    }
}

impl From<Probability> for LossModel {
    fn from(probability: Probability) -> Self {
        Self::Bernoulli(probability)
    }
}

/// The state of a loss model during a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossState {
    bad: bool,
    /// Number of entries of a script or of a list of outages that have passed.
    passed: usize,
}

impl LossState {
    /// Whether the packet with this index, which comes at `now`, is lost. Call it once for each packet, in order.
    pub(crate) fn loses(
        &mut self,
        model: &LossModel,
        now: Timestamp,
        index: u64,
        random: &mut Generator,
    ) -> bool {
        match model {
            LossModel::None => false,
            LossModel::Bernoulli(probability) => random.chance(*probability),
            LossModel::GilbertElliott {
                to_bad,
                to_good,
                good_loss,
                bad_loss,
            } => {
                let lost = random.chance(if self.bad { *bad_loss } else { *good_loss });
                if random.chance(if self.bad { *to_good } else { *to_bad }) {
                    self.bad = !self.bad;
                }
                lost
            }
            LossModel::Script(indexes) => {
                self.passed += indexes[self.passed..].iter().take_while(|&&i| i < index).count();
                indexes.get(self.passed) == Some(&index)
            }
            LossModel::Outages(intervals) => {
                let now = Duration::from_nanos(now.0);
                self.passed += intervals[self.passed..]
                    .iter()
                    .take_while(|(_, to)| *to <= now)
                    .count();
                intervals.get(self.passed).is_some_and(|(from, _)| *from <= now)
            }
        }
    }
}

impl fmt::Display for LossModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Bernoulli(probability) => probability.fmt(f),
            Self::GilbertElliott {
                to_bad,
                to_good,
                good_loss,
                bad_loss,
            } => {
                write!(f, "burst:{to_bad}/{to_good}/{good_loss}/{bad_loss}")
            }
            Self::Script(indexes) => {
                f.write_str("script:")?;
                list(f, indexes, |f, index| index.fmt(f))
            }
            Self::Outages(intervals) => {
                f.write_str("outage:")?;
                list(f, intervals, |f, &(from, to)| {
                    units::write_with_unit(f, units::nanos(from), units::TIME)?;
                    f.write_str("-")?;
                    units::write_with_unit(f, units::nanos(to), units::TIME)
                })
            }
        }
    }
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str("/")?;
        }
        write(f, item)?;
    }
    Ok(())
}

impl FromStr for LossModel {
    type Err = Problem;

    /// Reads `none`, `0.1%`, `burst:P/R`, `burst:P/R/GOOD/BAD`, `script:3/17/18` or `outage:2s-3s/5s-5.5s`.
    fn from_str(text: &str) -> Result<Self, Problem> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::None);
        }
        let Some((kind, rest)) = text.split_once(':') else {
            return text.parse().map(Self::Bernoulli);
        };
        let items = rest.split('/').filter(|item| !item.is_empty());
        match kind.to_ascii_lowercase().as_str() {
            "burst" => {
                let values = items
                    .map(str::parse)
                    .collect::<Result<Vec<Probability>, Problem>>()?;
                let (to_bad, to_good, good_loss, bad_loss) = match values[..] {
                    [p, r] => (p, r, Probability::NEVER, Probability::ALWAYS),
                    [p, r, good, bad] => (p, r, good, bad),
                    _ => return Err(Problem::Form),
                };
                Ok(Self::GilbertElliott {
                    to_bad,
                    to_good,
                    good_loss,
                    bad_loss,
                })
            }
            "script" => {
                let indexes = items
                    .map(|i| i.parse().map_err(|_| Problem::Form))
                    .collect::<Result<Vec<u64>, Problem>>()?;
                if indexes.is_sorted_by(|a, b| a < b) {
                    Ok(Self::Script(indexes))
                } else {
                    Err(Problem::Form)
                }
            }
            "outage" => {
                let intervals = items
                    .map(|item| {
                        let (from, to) = item.split_once('-').ok_or(Problem::Form)?;
                        let interval = (units::duration(from)?, units::duration(to)?);
                        if interval.0 < interval.1 {
                            Ok(interval)
                        } else {
                            Err(Problem::Form)
                        }
                    })
                    .collect::<Result<Vec<_>, Problem>>()?;
                if intervals.is_sorted_by(|a, b| a.1 <= b.0) {
                    Ok(Self::Outages(intervals))
                } else {
                    Err(Problem::Form)
                }
            }
            _ => Err(Problem::Form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(model: &LossModel, packets: u64) -> Vec<bool> {
        let mut random = Generator::of_process(3, "loss");
        let mut state = LossState::default();
        (0..packets)
            .map(|i| state.loses(model, Timestamp::from_millis(i), i, &mut random))
            .collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let lost = losses(&LossModel::bernoulli(0.02), 200_000);
        assert!((share(&lost) - 0.02).abs() < 0.001, "{}", share(&lost));
    }

    #[test]
    fn gilbert_elliott_loses_its_share_in_bursts() {
        let model = LossModel::bursts(0.01, 0.25);
        let lost = losses(&model, 500_000);
        let expected = model.expected_loss().unwrap();
        assert!(
            (share(&lost) - expected).abs() < 0.05 * expected,
            "{} {expected}",
            share(&lost)
        );
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let mean = lost.iter().filter(|&&lost| lost).count() as f64 / bursts as f64;
        assert!(
            (mean - 4.0).abs() < 0.2,
            "a burst lasts 1 / r = 4 packets, not {mean}"
        );
    }

    #[test]
    fn a_script_loses_what_it_says() {
        let lost = losses(&LossModel::Script(vec![0, 3, 4]), 8);
        assert_eq!(lost, [true, false, false, true, true, false, false, false]);
    }

    #[test]
    fn outages_lose_from_their_start_to_before_their_end() {
        let ms = Duration::from_millis;
        let lost = losses(&LossModel::Outages(vec![(ms(1), ms(3)), (ms(5), ms(6))]), 8);
        assert_eq!(lost, [false, true, true, false, false, true, false, false]);
    }

    #[test]
    fn models_are_written_and_read_back() {
        for text in [
            "none",
            "0.1%",
            "burst:1%/20%/0%/100%",
            "script:3/17/18",
            "outage:2s-3s/5s-5500ms",
        ] {
            assert_eq!(text.parse::<LossModel>().unwrap().to_string(), text);
        }
        assert_eq!(
            "burst:1%/20%".parse::<LossModel>(),
            Ok(LossModel::bursts(0.01, 0.2))
        );
        for wrong in [
            "",
            "2",
            "burst:1%",
            "script:3/3",
            "outage:3s-2s",
            "outage:1s-3s/2s-4s",
            "other:1",
        ] {
            assert!(wrong.parse::<LossModel>().is_err(), "{wrong}");
        }
    }
}
