//! Text from outside made safe for a terminal, and its width there.
//!
//! Names, application names, statements and errors are chosen by others. They may hold escape sequences, characters
//! that turn the direction of a line, and characters that take two columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Stands in place of a character that a terminal might obey.
const INSTEAD: char = '\u{fffd}';

/// Returns the text on one line, without any character that a terminal would obey: white space becomes spaces, and
/// control and format characters become U+FFFD.
pub(crate) fn clean(text: &str) -> String {
    let safe = |character: char| match character {
        '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        character if character.is_control() || is_format(character) => INSTEAD,
        character => character,
    };
    text.chars().map(safe).collect()
}

/// True for characters that are invisible or change how their neighbours are shown: marks of direction, joiners, fillers,
/// variation selectors and tags.
const fn is_format(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Number of columns that the text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Returns the text shortened to this many columns; a shortened text ends in `…`.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    for character in text.chars() {
        let more = character.width().unwrap_or_default();
        if used + more >= columns {
            break;
        }
        used += more;
        short.push(character);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// Side on which a text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Returns the text in exactly this many columns.
pub(crate) fn fitted(text: &str, columns: usize, side: Side) -> String {
    let short = shortened(text, columns);
    let spaces = " ".repeat(columns.saturating_sub(width(&short)));
    match side {
        Side::Left => short + &spaces,
        Side::Right => spaces + &short,
    }
}

/// Splits a text into lines of at most this many columns, at spaces where possible.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word.to_owned();
        while let Some(line) = lines.last_mut() {
            let gap = usize::from(!line.is_empty());
            if width(line) + gap + width(&word) <= columns {
                line.push_str(if gap == 1 { " " } else { "" });
                line.push_str(&word);
                break;
            }
            if !line.is_empty() {
                lines.push(String::new());
                continue;
            }
            let rest = word.split_off(prefix(&word, columns));
            line.push_str(&word);
            word = rest;
            lines.push(String::new());
        }
    }
    lines
}

/// Length in bytes of the longest beginning that takes at most this many columns.
fn prefix(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += character.width().unwrap_or_default();
        if used > columns {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let hostile = "a\x1b[2Jb\u{9b}31mc\x07\u{202e}d\u{200d}\x7f\ne\tf\u{e0041}";
        let clean = clean(hostile);
        assert_eq!(
            clean,
            "a\u{fffd}[2Jb\u{fffd}31mc\u{fffd}\u{fffd}d\u{fffd}\u{fffd} e f\u{fffd}"
        );
        assert!(!clean.chars().any(char::is_control));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(width("数据"), 4);
        assert_eq!(shortened("数据库", 5), "数据…");
        assert_eq!(shortened("数据库", 4), "数…");
        assert_eq!(fitted("数据库", 4, Side::Left), "数… ");
        assert_eq!(fitted("数", 4, Side::Right), "  数");
        assert_eq!(shortened("abc", 0), "");
    }

    #[test]
    fn lines_break_at_spaces_and_within_long_words() {
        assert_eq!(wrapped("ab cd efghij", 5), ["ab cd", "efghi", "j"]);
        assert_eq!(wrapped("数据库", 3), ["数", "据", "库"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
