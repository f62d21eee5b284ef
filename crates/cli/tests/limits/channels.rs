use crate::Scenario;

pub(crate) const SCENARIOS: &[Scenario] = &[];
