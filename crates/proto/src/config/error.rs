//! Owns the check that a setting is within its range.

/// A setting that is out of range, or that contradicts another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} {problem}")]
pub struct ConfigError {
    /// The setting, as `Config` names it.
    pub setting: &'static str,
    /// The rule that it breaks.
    pub problem: &'static str,
}

/// The first rule that does not hold: a condition, the setting and the rule.
pub(super) fn check(rules: &[(bool, &'static str, &'static str)]) -> Result<(), ConfigError> {
    match rules.iter().find(|(holds, ..)| !holds) {
        Some(&(_, setting, problem)) => Err(ConfigError { setting, problem }),
        None => Ok(()),
    }
}
