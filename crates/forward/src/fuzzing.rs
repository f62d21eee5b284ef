//! The code of the fuzz target: it accepts any bytes and panics if an invariant is violated.

use bytes::Bytes;

use crate::policy::Policy;
use crate::rule::{Listen, Target};
use crate::wire::{Message, RuleOffer, VERSION};

/// Decodes a message. Encoding it gives the same bytes, and the places in a Hello are read and judged.
///
/// # Panics
/// A message or a place differs from its encoded form.
pub fn message(input: &[u8]) {
    let input = Bytes::copy_from_slice(input);
    let Ok(message) = Message::decode(input.clone()) else {
        return;
    };
    match &message {
        // The rest of it is not read.
        Message::Hello(hello) if hello.version != VERSION => return,
        Message::Hello(hello) => hello.rules.iter().for_each(judge),
        _ => {}
    }
    assert_eq!(message.encode(), input, "{message:?}");
}

/// A place is read as what it shows, and nothing permits it by default.
fn judge(offer: &RuleOffer) {
    let nothing = Policy::default();
    if let Ok(target) = offer.place.parse::<Target>() {
        assert_eq!(target.to_string().parse(), Ok(target.clone()));
        assert!(!nothing.may_reach(offer.protocol, &target));
    }
    if let Ok(place) = offer.place.parse::<Listen>() {
        assert_eq!(place.to_string().parse(), Ok(place.clone()));
        assert!(!nothing.permits_listening(offer.protocol, &place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_inputs_pass() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/forward");
        let files = std::fs::read_dir(folder).expect("the folder can be read");
        let mut messages = 0;
        for file in files {
            let input = std::fs::read(file.expect("a file").path()).expect("it can be read");
            message(&input);
            messages += usize::from(Message::decode(input.into()).is_ok());
        }
        assert!(messages > 10, "most of them are messages: {messages}");
    }
}
