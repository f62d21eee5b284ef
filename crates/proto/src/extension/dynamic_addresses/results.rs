//! The responses in an ASCONF-ACK (RFC 5061 §4.1.2, §5.1 A7).

use anabranch_wire::cause::Causes;
use anabranch_wire::chunk::AsconfAck;
use anabranch_wire::parameter::Parameter;

use super::change::{Change, MOST_LOCAL};

/// The code of the cause Request to Delete Last Remaining IP Address.
pub(super) const DELETES_LAST: u16 = 0x00A0;
/// The code of the cause Request to Delete Source IP Address.
pub(super) const DELETES_SOURCE: u16 = 0x00A2;
/// The code of the cause Unrecognized Parameters.
pub(super) const UNRECOGNIZED_PARAMETERS: u16 = 8;

/// The responses in an ASCONF-ACK.
pub(super) struct Results {
    /// The requests with an error, and the code of its first cause.
    errors: Vec<(u32, u16)>,
    successes: Vec<u32>,
    /// The place of the first failed request: those after it failed unless they have a success indication (§5.1 A7).
    first_failed: Option<usize>,
    order: Vec<u32>,
}

impl Results {
    pub(super) fn of(ack: &AsconfAck, changes: &[Change]) -> Self {
        let (mut errors, mut successes) = (Vec::new(), Vec::new());
        // Each response takes at least 8 bytes; more responses than requests have no meaning.
        let responses = ack
            .parameters
            .iter()
            .map_while(Result::ok)
            .take(2 * MOST_LOCAL + 1);
        for response in responses {
            match Parameter::decode(response) {
                Ok(Parameter::AsconfError { correlation, causes }) => {
                    let first = Causes::from_bytes(causes).iter().next();
                    let code = first.and_then(Result::ok).map_or(0, |cause| cause.code());
                    errors.push((correlation, code));
                }
                Ok(Parameter::AsconfSuccess { correlation }) => successes.push(correlation),
                _ => {}
            }
        }
        let order: Vec<_> = changes.iter().map(|change| change.correlation).collect();
        let failed = |correlation: &u32| errors.iter().any(|(failed, _)| failed == correlation);
        let first_failed = order.iter().position(failed);
        Self {
            errors,
            successes,
            first_failed,
            order,
        }
    }

    /// The cause code with which a request failed; `None` if it succeeded.
    pub(super) fn error(&self, change: &Change) -> Option<u16> {
        let named = self
            .errors
            .iter()
            .find(|(failed, _)| *failed == change.correlation);
        if let Some((_, code)) = named {
            return Some(*code);
        }
        let place = self.order.iter().position(|one| *one == change.correlation);
        let after = self.first_failed.is_some_and(|failed| place > Some(failed));
        (after && !self.successes.contains(&change.correlation)).then_some(0)
    }
}
