//! The nearest known name to an unknown one, for *did you mean* in error texts.

/// The least Jaro similarity, from 0 to 1, at which a name is suggested: that of clap for the names of options.
const SIMILAR: f64 = 0.7;

/// `did you mean "NAME"? `, with a space at its end, for the known name that is most similar to `name`; empty if none is similar.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean {near:?}? "),
        None => String::new(),
    }
}

/// The known name that is most similar to `name`, if one is similar.
fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let similar = |known: &'a str| {
        let lower = known.to_lowercase();
        // A part of a name is similar to the whole name, however short the part is.
        let is_part = name.len() >= 3 && lower.contains(&name);
        (
            strsim::jaro(&name, &lower).max(if is_part { SIMILAR } else { 0.0 }),
            known,
        )
    };
    let known = known.into_iter().map(similar);
    let near = known.filter(|(similarity, _)| *similarity >= SIMILAR);
    near.max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_suggested_and_no_other() {
        let known = ["time-sensitive", "stream-priority", "tcp", "tcp-cubic"];
        assert_eq!(nearest("time-sensitve", known), Some("time-sensitive"));
        assert_eq!(nearest("Priority", known), Some("stream-priority"));
        assert_eq!(nearest("tpc", known), Some("tcp"));
        assert_eq!(nearest("nonsense", known), None);
        assert_eq!(did_you_mean("rt", ["rtt"]), "did you mean \"rtt\"? ");
        assert_eq!(did_you_mean("colour", ["rtt"]), "");
    }
}
