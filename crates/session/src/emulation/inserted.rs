//! Statements of ours inside a client's simple query.
//!
//! A client may begin with values of its own (start-up packet), but its servers begin without them. A RESET there would
//! return to another value than the client's. So after each statement that returns to the start (`weir_sql::Return`),
//! Weir inserts a statement that sets the client's value into the same text. The inserted statement runs in the same
//! transaction, and is undone and skipped with it. Replies to it are dropped, and error positions are mapped back to
//! the client's own text.

use weir_sql::{Resets, Return};
use weir_wire::backend;

use crate::settings::Settings;

/// Insertion behind one statement of a text.
#[derive(Debug, PartialEq, Eq)]
struct Spot {
    /// Number of SET and RESET statements before that statement.
    nth: usize,
    /// Number of inserted statements.
    count: usize,
    /// Number of characters of the client's text before the insertion.
    at: usize,
    /// Number of inserted characters.
    length: usize,
}

/// Insertions into one text, and how much of it has been answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inserted {
    spots: Vec<Spot>,
    /// Index of the next of `spots`.
    next: usize,
    /// Number of SET and RESET statements of the client that were answered.
    answered: usize,
    /// Number of inserted statements whose replies come next.
    ours: usize,
}

/// Text to insert, and its offset in bytes of the client's text.
pub(crate) type Piece = (usize, String);

/// Returns the insertions for this text of a client that began with `startup`; `None` if there are none.
pub(crate) fn pieces(
    text: &[u8],
    returns: &[Return],
    startup: &Settings,
) -> Option<(Inserted, Vec<Piece>)> {
    let (mut spots, mut pieces) = (Vec::new(), Vec::new());
    // DISCARD ALL fails unless it stands alone.
    let others = returns.iter();
    for found in others.filter(|found| found.resets != Resets::Session) {
        let statements = statements(&found.resets, found.is_local, startup);
        if statements.is_empty() {
            continue;
        }
        // A new line ends a comment that the statement may end with.
        let mut piece = String::new();
        for statement in &statements {
            piece.push_str("\n;");
            piece.push_str(statement);
        }
        spots.push(Spot {
            nth: found.nth,
            count: statements.len(),
            at: characters(text.get(..found.end).unwrap_or_default()),
            length: piece.chars().count(),
        });
        pieces.push((found.end, piece));
    }
    let inserted = Inserted {
        spots,
        next: 0,
        answered: 0,
        ours: 0,
    };
    (!pieces.is_empty()).then_some((inserted, pieces))
}

/// Returns the statements that set a client's initial values again, one for each of these settings.
pub(crate) fn statements(resets: &Resets, is_local: bool, startup: &Settings) -> Vec<String> {
    match resets {
        Resets::Nothing => Vec::new(),
        Resets::Names(names) => {
            let values = names.iter().filter_map(|name| {
                let value = startup.get(name)?;
                Some(Settings::statement(name, value, is_local))
            });
            values.collect()
        }
        Resets::All => startup.set_statements(false),
        Resets::Session => startup.set_statements(true),
    }
}

/// Counts characters as PostgreSQL counts positions, if the text is UTF-8 or has one byte per character.
fn characters(text: &[u8]) -> usize {
    std::str::from_utf8(text).map_or(text.len(), |text| text.chars().count())
}

impl Inserted {
    /// True if the next reply belongs to an inserted statement.
    pub(crate) fn is_ours(&self) -> bool {
        self.ours > 0
    }

    /// Records that a statement was completed with this tag (the body of a CommandComplete).
    pub(crate) fn complete(&mut self, tag: &[u8]) {
        if self.ours > 0 {
            self.ours -= 1;
            return;
        }
        if !matches!(tag, b"SET\0" | b"RESET\0" | b"SET CONSTRAINTS\0") {
            return;
        }
        let spot = self.spots.get(self.next);
        if let Some(spot) = spot.filter(|spot| spot.nth == self.answered) {
            self.ours = spot.count;
            self.next += 1;
        }
        self.answered += 1;
    }

    /// Returns an ErrorResponse or NoticeResponse with its position mapped to the client's own text; `None` if the
    /// position is unchanged.
    pub(crate) fn repositioned(&self, tag: u8, body: &[u8]) -> Option<Vec<u8>> {
        let fields = backend::ErrorFields::parse(body).ok()?;
        let told: usize = std::str::from_utf8(fields.get(b'P')?).ok()?.parse().ok()?;
        // Positions start at 1.
        let (mut position, mut shift) = (told.checked_sub(1)?, 0);
        for spot in &self.spots {
            if position < spot.at {
                break;
            }
            // A position inside an insertion maps to the end of the client's statement before it.
            let inside = (position - spot.at).min(spot.length);
            position -= inside;
            shift += inside;
        }
        if shift == 0 {
            return None;
        }
        let mut message = vec![tag, 0, 0, 0, 0];
        for (code, value) in fields {
            message.push(code);
            if code == b'P' {
                message.extend_from_slice((position + 1).to_string().as_bytes());
            } else {
                message.extend_from_slice(value);
            }
            message.push(0);
        }
        message.push(0);
        let length = u32::try_from(message.len() - 1).ok()?;
        message
            .get_mut(1..5)?
            .copy_from_slice(&length.to_be_bytes());
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use weir_sql::{Functions, Judge};
    use weir_wire::backend::tag;
    use weir_wire::encode;

    use super::*;

    fn put_in(text: &str) -> Option<(Inserted, String)> {
        let startup = Settings::from_pairs([("a", "x"), ("role", "r"), ("search_path", "s, t")]);
        let effects = Judge::new(Functions::default()).effects(text.as_bytes(), false)?;
        let (inserted, pieces) = pieces(text.as_bytes(), &effects.returns, &startup)?;
        let mut whole = text.to_owned();
        for (at, piece) in pieces.iter().rev() {
            whole.insert_str(*at, piece);
        }
        Some((inserted, whole))
    }

    #[test]
    fn each_return_to_the_start_is_followed_by_the_clients_own_value() {
        let (_, text) = put_in("begin; reset a; show a; reset b; set local a to default").unwrap();
        assert_eq!(
            text,
            "begin; reset a\n;SET \"a\" TO E'x'; show a; reset b; set local a to default\n;SET LOCAL \"a\" TO E'x'"
        );
        let (_, text) = put_in("reset all -- to the start").unwrap();
        assert_eq!(
            text,
            "reset all -- to the start\n;SET \"a\" TO E'x'\n;SELECT pg_catalog.set_config(E'search_path',E's, t',false)"
        );
        assert!(put_in("reset b; set a to 5; select 1").is_none());
        assert!(put_in("discard all").is_none());
    }

    #[test]
    fn answers_to_ours_are_told_by_the_tags_before_them() {
        let (mut inserted, _) = put_in("set b to 1; reset all; select 1; reset a").unwrap();
        let mut seen = Vec::new();
        for tag in [
            &b"SET\0"[..],
            b"RESET\0",
            b"SET\0",
            b"SELECT 1\0",
            b"SELECT 1\0",
            b"RESET\0",
            b"SET\0",
        ] {
            seen.push(inserted.is_ours());
            inserted.complete(tag);
        }
        assert_eq!(seen, [false, false, true, true, false, false, true]);
        assert!(!inserted.is_ours());
    }

    #[test]
    fn errors_point_into_the_clients_text() {
        let (text, place) = ("set b to 'ü'; reset a; select nothing", 31);
        let (inserted, whole) = put_in(text).unwrap();
        let there = whole.find("nothing").unwrap();
        let there = whole[..there].chars().count() + 1;
        let error = |position: usize| {
            let mut message = Vec::new();
            let position = position.to_string();
            let fields = [(b'C', &b"42703"[..]), (b'P', position.as_bytes())];
            encode::error_response(&mut message, &fields).unwrap();
            message
        };
        let moved = inserted.repositioned(tag::ERROR_RESPONSE, &error(there)[5..]);
        assert_eq!(moved, Some(error(place)));
        assert_eq!(
            inserted.repositioned(tag::ERROR_RESPONSE, &error(3)[5..]),
            None
        );
        // PostgreSQL never sends position 0.
        let nowhere = inserted.repositioned(tag::ERROR_RESPONSE, &error(0)[5..]);
        assert_eq!(nowhere, None);
    }
}
