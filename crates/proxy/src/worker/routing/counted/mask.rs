//! Texts of statements without their literals, for people to read. Not for decisions.
//!
//! Strings and numbers become `?`, a list of them a single one; comments go, blanks shrink. Where the end of a string
//! depends on the server's settings, the rest of the text is left out, so that no literal is shown by mistake.

/// Maximum number of bytes of a text that are read.
const READ_MAX: usize = 2 * 1024;
/// Maximum number of bytes that are shown.
const SHOWN_MAX: usize = 200;

/// Returns the beginning of a text without its literals.
pub(super) fn shown(text: &[u8]) -> String {
    let mut out = Vec::new();
    let mut is_cut = false;
    mask(text, |bytes| {
        let room = SHOWN_MAX.saturating_sub(out.len());
        is_cut |= bytes.len() > room;
        out.extend(bytes.iter().take(room));
    });
    // A character may have been cut.
    let mut shown = String::from_utf8_lossy(&out).into_owned();
    if is_cut {
        shown.push('…');
    }
    shown.retain(|c| !c.is_control());
    shown
}

/// Returns a number that texts share which differ in literals, comments and blanks only. Allocates nothing.
pub(super) fn hash(text: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |word: u64| {
        hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The upper bits depend on all of the word.
        hash ^= hash >> 32;
    };
    mask(text, |bytes| {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
        let rest = rest
            .iter()
            .fold(rest.len() as u64, |rest, byte| rest << 8 | u64::from(*byte));
        mix(rest);
    });
    hash
}

/// Kind of the token that was read last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Literal,
    /// A literal and a comma, which is not written yet.
    LiteralComma,
    Other,
}

/// Reads a text and writes it without literals. The pieces depend on what is written only.
fn mask(text: &[u8], put: impl FnMut(&[u8])) {
    let text = text.get(..READ_MAX).unwrap_or(text);
    let mut writer = Writer {
        put,
        has_gap: false,
        is_empty: true,
        last: Last::Other,
    };
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let taken = match first {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => {
                writer.has_gap = true;
                Some(1)
            }
            b'-' if behind.starts_with(b"-") => {
                writer.has_gap = true;
                Some(line_comment(rest))
            }
            b'/' if behind.starts_with(b"*") => {
                writer.has_gap = true;
                comment(rest)
            }
            b'\'' => writer.literal(string(rest, false)),
            b'$' => match dollar(rest) {
                Some(len) => writer.literal(len),
                None => writer.other(parameter(rest)),
            },
            b'"' => writer.other(rest.get(..identifier(rest)).unwrap_or(rest)),
            b'0'..=b'9' => writer.literal(Some(number(rest))),
            b'.' if behind.first().is_some_and(u8::is_ascii_digit) => {
                writer.literal(Some(number(rest)))
            }
            b',' => {
                writer.comma();
                Some(1)
            }
            _ if is_word(first) => writer.word(rest),
            _ => writer.other(&[first]),
        };
        // The rest may be a string.
        let Some(taken) = taken else { return };
        rest = rest.get(taken..).unwrap_or_default();
    }
}

struct Writer<P> {
    put: P,
    has_gap: bool,
    is_empty: bool,
    last: Last,
}

impl<P: FnMut(&[u8])> Writer<P> {
    /// Writes `?` for a literal of this length, unless it continues a list of them. None has no end; it is the last.
    fn literal(&mut self, len: Option<usize>) -> Option<usize> {
        if self.last == Last::LiteralComma {
            self.has_gap = false;
        } else {
            self.write(b"?");
        }
        self.last = Last::Literal;
        len
    }

    fn comma(&mut self) {
        if self.last == Last::Literal {
            self.last = Last::LiteralComma;
            self.has_gap = false;
        } else {
            self.other(b",");
        }
    }

    /// Writes a word, or `?` if it is the prefix of a string.
    fn word(&mut self, rest: &[u8]) -> Option<usize> {
        let is_in = |byte: &u8| IN_WORDS.get(usize::from(*byte)) == Some(&true);
        let len = rest.iter().position(|byte| !is_in(byte));
        let (word, behind) = rest.split_at(len.unwrap_or(rest.len()));
        if let ([prefix @ (b'e' | b'E' | b'b' | b'B' | b'x' | b'X' | b'n' | b'N')], Some(b'\'')) =
            (word, behind.first())
        {
            let has_escapes = matches!(prefix, b'e' | b'E');
            return self.literal(string(behind, has_escapes).map(|len| len + 1));
        }
        self.other(word)
    }

    fn other(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.last == Last::LiteralComma {
            let has_gap = std::mem::replace(&mut self.has_gap, false);
            self.write(b",");
            self.has_gap = has_gap;
        }
        self.write(bytes);
        self.last = Last::Other;
        Some(bytes.len())
    }

    fn write(&mut self, bytes: &[u8]) {
        if std::mem::take(&mut self.has_gap) && !self.is_empty {
            (self.put)(b" ");
        }
        self.is_empty = false;
        (self.put)(bytes);
    }
}

/// True at the bytes that a word has behind its first one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "the compiler computes it, for numbers below 256"
)]
const IN_WORDS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        let char = byte as u8;
        table[byte] = is_word(char) || char.is_ascii_digit() || char == b'$';
        byte += 1;
    }
    table
};

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii()
}

fn line_comment(rest: &[u8]) -> usize {
    let end = rest.iter().position(|byte| *byte == b'\n');
    end.map_or(rest.len(), |end| end + 1)
}

/// Returns the length of a comment, which may contain others; none if it has no end.
fn comment(rest: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(pair) = rest.get(at..at + 2) {
        match pair {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" if depth <= 1 => return Some(at + 2),
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    None
}

/// Returns the length of a string in single quotes; none if its end is not certain.
fn string(rest: &[u8], has_escapes: bool) -> Option<usize> {
    let mut at = 1;
    loop {
        match (rest.get(at)?, rest.get(at + 1)) {
            (b'\\', _) if has_escapes => at += 2,
            // Depends on standard_conforming_strings.
            (b'\\', Some(b'\'')) => return None,
            (b'\'', Some(b'\'')) => at += 2,
            (b'\'', _) => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Returns the length of a string in dollar quotes: none if it is no such string, none inside if it has no end.
fn dollar(rest: &[u8]) -> Option<Option<usize>> {
    let inner = rest.get(1..)?;
    let len = inner.iter().position(|byte| *byte == b'$')?;
    if inner.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let is_tag = |byte: &u8| is_word(*byte) || byte.is_ascii_digit();
    if !inner.get(..len)?.iter().all(is_tag) {
        return None;
    }
    let (tag, body) = rest.split_at_checked(len + 2)?;
    let end = body.windows(tag.len()).position(|window| window == tag);
    Some(end.map(|end| tag.len() + end + tag.len()))
}

/// Returns a parameter, or a lone dollar sign.
fn parameter(rest: &[u8]) -> &[u8] {
    let digits = rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit());
    let len = 1 + digits.count();
    rest.get(..len).unwrap_or(rest)
}

fn identifier(rest: &[u8]) -> usize {
    let end = rest.iter().skip(1).position(|byte| *byte == b'"');
    end.map_or(rest.len(), |end| end + 2)
}

fn number(rest: &[u8]) -> usize {
    let is_in = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    rest.iter()
        .position(|byte| !is_in(byte))
        .unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_comments_and_blanks_do_not_count() {
        for (text, expect) in [
            (
                "select  a\nfrom t -- x\n where b = 'it''s' and c=12.5e3",
                "select a from t where b = ? and c=?",
            ),
            (
                "select * from t where a in (1, 2,3 , 4)",
                "select * from t where a in (?)",
            ),
            ("select 1, a, 2", "select ?, a, ?"),
            ("select $1, $2", "select $1, $2"),
            (
                "select t1.a, \"b 2\" from t1",
                "select t1.a, \"b 2\" from t1",
            ),
            (
                "select E'a\\'b', $x$ it's $x$, B'1' /* a /* b */ c */ + 1",
                "select ? + ?",
            ),
            ("select .5", "select ?"),
            ("", ""),
        ] {
            assert_eq!(shown(text.as_bytes()), expect, "{text}");
        }
        assert_eq!(hash(b"select 1"), hash(b"select /* c */ 'x'"));
        assert_ne!(hash(b"select a"), hash(b"select b"));
    }

    /// Where it is not certain what belongs to a string, nothing behind it is shown.
    #[test]
    fn no_literal_is_shown_by_mistake() {
        for text in [
            r"select 'a\'secret'",
            "select 'secret",
            "select $a$secret",
            "select ? /* secret",
        ] {
            let shown = shown(text.as_bytes());
            assert!(!shown.contains("secret"), "{shown}");
        }
    }

    #[test]
    fn long_texts_are_cut() {
        let text = format!("select {}", "é, ".repeat(5_000));
        let shown = shown(text.as_bytes());
        assert!(
            shown.len() < SHOWN_MAX + 8 && shown.ends_with('…'),
            "{shown}"
        );
    }
}
