//! Hints to the router that a text carries in a comment.

/// Word before the pairs of a comment that is for the router alone.
const MARK: &[u8] = b"weir:";

/// Beginning of the names in a comment that several programs share.
const PREFIX: &str = "weir_";

/// Maximum length in bytes of a comment that is read.
const COMMENT_MAX: usize = 1024;

/// Calls `visit` with the name and the value of each hint to the router in a text, as they are written.
///
/// A comment at the beginning of the text is read as `/* weir: role=replica max_staleness=5s */`. A comment at either end is
/// also read in the form of sqlcommenter, in which other programs may have added their own pairs:
/// `/*route='%2Fcart',weir_role='replica'*/`. The prefix is left out of those names. Comments of more than 1 KiB have no
/// hints.
///
/// ```
/// let mut hints = Vec::new();
/// weir_sql::hints(b"/* weir: role=primary */ SELECT 1", &mut |name, value| hints.push(format!("{name} {value}")));
/// assert_eq!(hints, ["role primary"]);
/// ```
pub fn hints(text: &[u8], visit: &mut dyn FnMut(&str, &str)) {
    let text = text.trim_ascii();
    let front = text.strip_prefix(b"/*").and_then(|rest| {
        let head = rest.get(..COMMENT_MAX.min(rest.len()))?;
        rest.get(..position(head, b"*/")?)
    });
    if let Some(comment) = front {
        match comment.trim_ascii_start().strip_prefix(MARK) {
            Some(pairs) => of_words(pairs, visit),
            None => of_list(comment, visit),
        }
    }
    if let Some(comment) = at_end(text)
        && front.is_none_or(|front| front.as_ptr() != comment.as_ptr())
    {
        of_list(comment, visit);
    }
}

/// Returns the inside of the comment with which a text ends. Spaces and a semicolon may follow.
fn at_end(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
    let text = text.strip_suffix(b"*/")?;
    let from = text.len().saturating_sub(COMMENT_MAX);
    let tail = text.get(from..)?;
    let begin = tail.windows(2).rposition(|pair| pair == b"/*")?;
    tail.get(begin + 2..)
}

fn position(text: &[u8], pair: &[u8; 2]) -> Option<usize> {
    text.windows(2).position(|found| found == pair)
}

/// Reads `name=value` between spaces or commas.
fn of_words(pairs: &[u8], visit: &mut dyn FnMut(&str, &str)) {
    let Ok(pairs) = std::str::from_utf8(pairs) else {
        return;
    };
    let words = pairs.split([' ', '\t', '\r', '\n', ',']);
    for word in words.filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        visit(name, unquoted(value).unwrap_or(value));
    }
}

/// Reads the pairs of a list `name='value',name='value'` that are for the router.
fn of_list(list: &[u8], visit: &mut dyn FnMut(&str, &str)) {
    let Ok(list) = std::str::from_utf8(list) else {
        return;
    };
    for pair in list.split(',') {
        let pair = pair.trim().strip_prefix(PREFIX);
        if let Some((name, value)) = pair.and_then(|pair| pair.split_once('='))
            && let Some(value) = unquoted(value)
        {
            visit(name, value);
        }
    }
}

fn unquoted(value: &str) -> Option<&str> {
    value.strip_prefix('\'')?.strip_suffix('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        let mut all = Vec::new();
        hints(text.as_bytes(), &mut |name, value| {
            all.push(format!("{name}={value}"));
        });
        all.join(" ")
    }

    #[test]
    fn a_comment_in_front_is_for_the_router() {
        for text in [
            "/* weir: role=replica max_staleness=5s */ SELECT 1",
            "\n/*weir:role=replica,max_staleness='5s'*/SELECT 1",
        ] {
            assert_eq!(found(text), "role=replica max_staleness=5s", "{text}");
        }
        assert_eq!(found("/* weir: role */ SELECT 1"), "role=");
        assert_eq!(found("/* weir: */ SELECT 1"), "");
    }

    #[test]
    fn a_shared_list_of_pairs_may_stand_at_either_end() {
        for text in [
            "SELECT 1 /*action='%2Fa',weir_role='replica',traceparent='00-5b'*/",
            "SELECT 1 /*weir_role='replica'*/ ; ",
            "/*weir_role='replica'*/ SELECT 1",
            "/*weir_role='replica'*/",
        ] {
            assert_eq!(found(text), "role=replica", "{text}");
        }
    }

    #[test]
    fn other_places_and_forms_have_no_hints() {
        for text in [
            "",
            "/*",
            "*/",
            "/*/",
            "SELECT 1",
            "SELECT '/* weir: role=replica */'",
            "SELECT /* weir: role=replica */ 1",
            "SELECT 1 /* weir: role=replica */",
            "SELECT 1 /*weir_role=replica*/",
            "/* weirs: role=replica */ SELECT 1",
            "/* weir: role=replica",
        ] {
            assert_eq!(found(text), "", "{text}");
        }
        let long = format!("/* weir: role=replica {} */ SELECT 1", "x".repeat(2000));
        assert_eq!(found(&long), "");
    }
}
