//! The nearest known name to an unknown one, for *did you mean* in error texts.

/// `did you mean "NAME"? `, with a space at its end, for the known name that is most similar to `name`; empty if none is similar.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean {near:?}? "),
        None => String::new(),
    }
}

/// The known name that is most similar to `name`, if one is similar: at most every third letter differs, or `name` is a part of it.
fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    let similar = |known: &'a str| {
        let known_lower = known.to_lowercase();
        let differing = strsim::damerau_levenshtein(&name, &known_lower);
        let is_close = differing <= (length / 3).max(1) && differing < length;
        let is_part = length >= 3 && known_lower.contains(&name);
        (is_close || is_part).then_some((differing, known))
    };
    let near = known.into_iter().filter_map(similar);
    near.min_by_key(|(differing, _)| *differing)
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
