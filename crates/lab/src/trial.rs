//! The input of one run of a cell: its seed, the user's settings, and the packet capture.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_netsim::{Network, units};

use crate::experiment::Experiment;
use crate::near::did_you_mean;
use crate::trace::{OwnPoints, Tracing};

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The seed of all random numbers.
    pub seed: u64,
    knobs: &'a Knobs,
    capture: Option<&'a Capture>,
    tracing: Option<&'a Tracing>,
}

impl<'a> Trial<'a> {
    /// A run with this seed and these settings.
    #[must_use]
    pub fn new(seed: u64, knobs: &'a Knobs) -> Self {
        Self {
            seed,
            knobs,
            capture: None,
            tracing: None,
        }
    }

    /// The same run with a packet capture.
    #[must_use]
    pub fn captured(self, capture: &'a Capture) -> Self {
        Self {
            capture: Some(capture),
            ..self
        }
    }

    /// The same run with a trace.
    pub(crate) fn traced(self, tracing: &'a Tracing) -> Self {
        Self {
            tracing: Some(tracing),
            ..self
        }
    }

    /// The destination of the run's trace, if one is wanted.
    pub(crate) fn tracing(&self) -> Option<&Tracing> {
        self.tracing
    }

    /// Adds points to the run's trace, if one is wanted. `points` computes them only then.
    pub(crate) fn trace_points(&self, points: impl FnOnce() -> OwnPoints) {
        if let Some(tracing) = self.tracing {
            tracing.add_points(points());
        }
    }

    /// The settings that the user changed.
    pub(crate) fn settings(&self) -> &Knobs {
        self.knobs
    }

    /// The value of a setting, if the user set it.
    #[must_use]
    pub fn knob(&self, name: &str) -> Option<f64> {
        self.knobs.0.get(name).copied()
    }

    /// The value of a setting, or `usual` if the user did not set it.
    #[must_use]
    pub fn knob_or(&self, name: &str, usual: f64) -> f64 {
        self.knob(name).unwrap_or(usual)
    }

    /// Captures the packets of this network from now on, if a capture is wanted. All links of the network should exist already.
    pub fn observe(&self, network: &mut Network) {
        if let Some(capture) = self.capture {
            // The capture keeps its first error until it is finished.
            let _ = network.capture(capture.clone());
        }
    }
}

/// A number of an experiment that a user may change. Claims are judged and figures drawn only with unchanged numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// The name: lower case with underscores.
    pub name: &'static str,
    /// Its unit; empty for pure numbers.
    pub unit: &'static str,
    /// The meaning of the number.
    pub about: &'static str,
    /// The default, in words if it depends on other settings.
    pub usual: &'static str,
    /// The smallest and the largest value.
    pub range: (f64, f64),
}

/// The settings that the user changed, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knobs(BTreeMap<&'static str, f64>);

/// A setting that the experiment does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// The experiment has no setting of this name.
    #[error("{experiment} has no setting {name:?}; {near}{has}")]
    Unknown {
        /// The experiment.
        experiment: &'static str,
        /// The name that the user gave.
        name: String,
        /// The most similar name that exists, as a question with a space at its end; empty if none is similar.
        near: String,
        /// The names that exist.
        has: String,
    },
    /// The value is not a number, or out of range.
    #[error("{name} cannot be {value:?}: give a number from {least} to {most}{unit}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The value that the user gave.
        value: String,
        /// The smallest value.
        least: String,
        /// The largest value.
        most: String,
        /// The unit, with a space in front.
        unit: String,
    },
}

/// Reads a value with a unit, like `1m30s`, as a number in the unit of its setting. `None` if units of the grammar do not fit the setting.
fn with_unit(value: &str, unit: &str) -> Option<f64> {
    let seconds = || Some(units::parse_duration(value).ok()?.as_secs_f64());
    let bytes = || Some(units::parse_size(value).ok()? as f64);
    match unit {
        "s" => seconds(),
        "ms" => Some(seconds()? * 1e3),
        "B" => bytes(),
        "KiB" => Some(bytes()? / 1024.0),
        "Mbit/s" => Some(units::parse_rate(value).ok()? as f64 / 1e6),
        _ => None,
    }
}

impl Knobs {
    /// Sets one of the experiment's knobs to a number in its unit, or to a number with a unit, like `1m30s`.
    ///
    /// # Errors
    /// The experiment has no such knob, or the value is not a number in its range. The error says what is allowed.
    pub fn set(&mut self, experiment: &Experiment, name: &str, value: &str) -> Result<(), KnobError> {
        let Some(knob) = experiment.knobs.iter().find(|knob| knob.name == name) else {
            let names: Vec<&str> = experiment.knobs.iter().map(|knob| knob.name).collect();
            let has = match names.as_slice() {
                [] => "it has none".to_owned(),
                names => format!("it has: {}", names.join(", ")),
            };
            return Err(KnobError::Unknown {
                experiment: experiment.name,
                near: did_you_mean(name, names.iter().copied()),
                name: name.to_owned(),
                has,
            });
        };
        let (least, most) = knob.range;
        let number = value.parse().ok().or_else(|| with_unit(value, knob.unit));
        let number = number.filter(|number| (least..=most).contains(number));
        let number = number.ok_or_else(|| KnobError::Value {
            name: knob.name,
            value: value.to_owned(),
            least: least.to_string(),
            most: most.to_string(),
            unit: match knob.unit {
                "" => String::new(),
                unit => format!(" {unit}"),
            },
        })?;
        self.0.insert(knob.name, number);
        Ok(())
    }

    /// Whether no setting was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.0.iter().map(|(name, value)| (*name, *value))
    }
}

/// `name=value` for each changed setting, separated by spaces; empty if none was changed.
impl fmt::Display for Knobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.iter().enumerate() {
            let space = if place > 0 { " " } else { "" };
            write!(f, "{space}{name}={value}")?;
        }
        Ok(())
    }
}

/// The destination of a run's packets. Clones write to the same destination.
#[derive(Clone)]
pub struct Capture(Arc<Mutex<Captured>>);

struct Captured {
    out: Box<dyn Write + Send>,
    error: Option<io::Error>,
}

impl Capture {
    /// A capture that writes to `out`, in many small writes.
    #[must_use]
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Captured {
            out: Box::new(out),
            error: None,
        })))
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The first write error, if there was one.
    pub fn finish(&self) -> io::Result<()> {
        let mut captured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match captured.error.take() {
            Some(error) => Err(error),
            None => captured.out.flush(),
        }
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").finish_non_exhaustive()
    }
}

impl Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut captured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = captured.out.write(bytes);
        if let Err(error) = &written {
            let copy = io::Error::new(error.kind(), error.to_string());
            captured.error.get_or_insert(copy);
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut captured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        captured.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        Experiment {
            name: "toy",
            question: "",
            source: "",
            parameters: &[],
            knobs: &[Knob {
                name: "rtt",
                unit: "ms",
                about: "",
                usual: "250",
                range: (1.0, 1e4),
            }],
            metrics: &[],
            seeds: &|_| 1,
            cells: &|_| vec![],
            claims: &Vec::new,
            figures: &Vec::new,
            timelines: &Vec::new,
        }
    }

    #[test]
    fn an_unknown_setting_names_the_known_ones() {
        let mut knobs = Knobs::default();
        let mut error = |name, value| knobs.set(&experiment(), name, value).unwrap_err().to_string();
        assert_eq!(error("rate", "1"), "toy has no setting \"rate\"; it has: rtt");
        assert_eq!(
            error("rt", "1"),
            "toy has no setting \"rt\"; did you mean \"rtt\"? it has: rtt"
        );
        for value in ["0", "1e5", "NaN", "fast", "-3"] {
            let error = error("rtt", value);
            assert_eq!(
                error,
                format!("rtt cannot be {value:?}: give a number from 1 to 10000 ms")
            );
        }
        assert!(knobs.is_empty() && knobs.to_string().is_empty());
        knobs.set(&experiment(), "rtt", "0.5e2").unwrap();
        assert_eq!(knobs.to_string(), "rtt=50");
        knobs.set(&experiment(), "rtt", ".05s").unwrap();
        assert_eq!(knobs.to_string(), "rtt=50");
        let trial = Trial::new(7, &knobs);
        assert_eq!((trial.knob("rtt"), trial.knob_or("rate", 3.0)), (Some(50.0), 3.0));
    }

    #[test]
    fn units_are_converted_to_that_of_the_setting() {
        for (value, unit, number) in [
            ("1m30s", "s", Some(90.0)),
            ("1.5s", "ms", Some(1500.0)),
            ("64KiB", "KiB", Some(64.0)),
            ("64KiB", "B", Some(65_536.0)),
            ("2.5Gbit/s", "Mbit/s", Some(2500.0)),
            ("5ms", "packets", None),
            ("5ms", "Mbit/s", None),
            ("5ms", "", None),
        ] {
            assert_eq!(with_unit(value, unit), number, "{value} in {unit}");
        }
    }

    #[test]
    fn finishing_a_capture_returns_the_first_error() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self
                    .0
                    .checked_sub(bytes.len())
                    .ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let capture = Capture::new(Full(3));
        assert!(capture.clone().write_all(b"abc").is_ok());
        assert!(capture.finish().is_ok());
        assert!(capture.clone().write_all(b"d").is_err());
        assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
