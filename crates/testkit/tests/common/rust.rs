//! The parts of Rust source that are neither code nor space: comments, strings and characters in quotes.

pub(crate) fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

pub(crate) fn word_len(rest: &str) -> usize {
    rest.find(|c| !is_word_character(c)).unwrap_or(rest.len())
}

/// The length of a comment that `rest` begins with.
pub(crate) fn comment_len(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let len = if rest[at..].starts_with("/*") {
            depth += 1;
            2
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        at += len;
        if depth == 0 {
            break;
        }
    }
    Some(at)
}

/// The length of a string that `rest` begins with, or of a byte in quotes.
pub(crate) fn string_len(rest: &str) -> Option<usize> {
    let prefix = &rest[..rest.find(|c| !"bcr".contains(c))?];
    let body = &rest[prefix.len()..];
    match prefix {
        "r" | "br" | "cr" => {
            let hashes = body.find(|c| c != '#')?;
            let text = body[hashes..].strip_prefix('"')?;
            let close = format!("\"{}", &body[..hashes]);
            let end = text.find(&close).map_or(text.len(), |at| at + close.len());
            Some(prefix.len() + hashes + 1 + end)
        }
        "" | "b" | "c" if body.starts_with('"') => {
            let mut escaped = false;
            let end = body[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            Some(prefix.len() + end.map_or(body.len(), |at| at + 2))
        }
        "b" if body.starts_with('\'') => Some(prefix.len() + quote_len(body)),
        _ => None,
    }
}

/// The length of a character in quotes, or of a lifetime.
pub(crate) fn quote_len(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        // The character after the backslash may be a quote itself.
        (Some((_, '\\')), Some((at, _))) => {
            let after = at + 1;
            rest[after..].find('\'').map_or(rest.len(), |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1 + word_len(&rest[1..]),
    }
}
