//! How many repair chunks a message needs.

use super::{MOST_FRAGMENTS, MOST_REPAIRS};

/// How probable it is that a chunk fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fates {
    /// Any chunk.
    pub(crate) any: f64,
    /// A chunk that follows a failed one.
    pub(crate) next: f64,
}

/// The number of repair chunks that a message of so many `fragments` needs, so that more chunks fail than there are repair chunks with the probability
/// `acceptable` at most; but no more than there are fragments, and than [`MOST_REPAIRS`].
///
/// Failures come in bursts: each chunk fails with a probability that depends on the chunk before it (the model of Gilbert). The repair chunks leave
/// later than the fragments, so that a burst does not take both.
pub(crate) fn needed_repairs(
    fragments: usize,
    of_fragment: Fates,
    of_repair: Fates,
    acceptable: f64,
) -> usize {
    let most = MOST_REPAIRS.min(fragments);
    // The probabilities that so many chunks have failed, by whether the last one did.
    let mut failed = vec![[0.0; 2]; MOST_FRAGMENTS + MOST_REPAIRS + 1];
    failed[0][0] = 1.0;
    for _ in 0..fragments {
        follow(&mut failed, of_fragment);
    }
    // The first repair chunk fails as any chunk does.
    for [arrived, lost] in &mut failed {
        let any = *arrived + *lost;
        (*arrived, *lost) = (any * (1.0 - of_repair.any), any * of_repair.any);
    }
    for repairs in 0..most {
        let more: f64 = failed[repairs + 1..].iter().flatten().sum();
        if more <= acceptable {
            return repairs;
        }
        follow(&mut failed, of_repair);
    }
    most
}

/// One more chunk.
fn follow(failed: &mut [[f64; 2]], fates: Fates) {
    let after_failure = fates.next;
    // So that any chunk fails as often as it should.
    let after_success = if fates.any < 1.0 {
        (fates.any * (1.0 - after_failure) / (1.0 - fates.any)).min(1.0)
    } else {
        1.0
    };
    let mut before = [0.0; 2];
    for now in failed.iter_mut() {
        let [arrived, lost] = *now;
        let fails = before[0] * after_success + before[1] * after_failure;
        before = [arrived, lost];
        *now = [
            arrived * (1.0 - after_success) + lost * (1.0 - after_failure),
            fails,
        ];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(any: f64) -> Fates {
        Fates { any, next: any }
    }

    fn needed(fragments: usize, any: f64) -> usize {
        needed_repairs(fragments, random(any), random(any), 0.001)
    }

    #[test]
    fn as_few_as_the_loss_needs() {
        assert_eq!([0.0, 0.01, 0.05, 0.1].map(|loss| needed(8, loss)), [0, 2, 4, 5]);
        assert_eq!(
            needed(40, 0.05),
            8,
            "a fifth more, where copies would be as many as the data"
        );
        assert_eq!(
            [needed(2, 0.3), needed(8, 1.0), needed(40, 1.0)],
            [2, 8, MOST_REPAIRS]
        );
    }

    #[test]
    fn bursts_need_more() {
        let bursts = Fates {
            any: 0.01,
            next: 0.75,
        };
        assert_eq!(needed_repairs(16, bursts, bursts, 0.01), 4);
    }

    #[test]
    fn fragments_that_can_be_retransmitted_need_fewer() {
        assert_eq!(needed_repairs(8, random(0.0025), random(0.05), 0.001), 2);
        assert_eq!(needed_repairs(6, random(0.0001), random(0.01), 0.001), 0);
    }
}
