//! Statements that a mirror may run, and how far their answers can be compared.

use std::collections::HashMap;
use std::sync::Arc;

use weir_sql::{
    Blank, Facts, Names, ShapeKey, Shaper, StatementKind, access, has_same_rows, sample,
    without_literals,
};

/// Maximum number of shapes that are remembered.
const SHAPES_MAX: usize = 2_000;

/// Longest text that is shown, in bytes.
const TEXT_MAX: usize = 1024;

/// Treatment of a statement by a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The mirror runs it.
    Runs,
    /// The mirror leaves it out, and counts that.
    Skips,
    /// The mirror leaves it out, because it stands for itself: the mirror has its own transactions and settings.
    Ignores,
}

/// Judgement about a statement.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) treatment: Treatment,
    /// True if its rows can be compared.
    pub(super) has_same_rows: bool,
    /// Text without literals.
    pub(super) text: Arc<str>,
}

/// Judgements by shape.
#[derive(Debug)]
pub(super) struct Judgements {
    shaper: Shaper,
    names: Names,
    writes: bool,
    known: HashMap<ShapeKey, Judged>,
}

impl Judgements {
    /// Creates a judge of statements that read, or of all that are about data.
    pub(super) fn new(shaper: Shaper, names: Names, writes: bool) -> Self {
        Self {
            shaper,
            names,
            writes,
            known: HashMap::new(),
        }
    }

    /// Judges a text. None if it is not one statement.
    pub(super) fn of(&mut self, text: &[u8]) -> Option<Judged> {
        let mut shapes = Vec::new();
        self.shaper
            .shapes(text, true, &mut |shape, _| shapes.push(shape));
        let [shape] = shapes.as_slice() else {
            return None;
        };
        if let Some(known) = self.known.get(shape) {
            return Some(known.clone());
        }
        let judged = self.judge(text);
        if self.known.len() >= SHAPES_MAX {
            self.known.clear();
        }
        self.known.insert(*shape, judged.clone());
        Some(judged)
    }

    fn judge(&self, text: &[u8]) -> Judged {
        let sample = sample(text);
        let kind = Facts::of(&sample).map(|facts| facts.kind);
        let is_read = kind == Some(StatementKind::Select) && access(text, &self.names).is_read();
        let writes = matches!(
            kind,
            Some(
                StatementKind::Delete
                    | StatementKind::Insert
                    | StatementKind::Merge
                    | StatementKind::Select
                    | StatementKind::Update
            )
        );
        let is_own = matches!(
            kind,
            Some(StatementKind::Transaction | StatementKind::Setting)
        );
        Judged {
            treatment: match is_read || self.writes && writes {
                true => Treatment::Runs,
                false if is_own => Treatment::Ignores,
                false => Treatment::Skips,
            },
            has_same_rows: has_same_rows(&sample),
            text: without_literals(text, Blank::Mark, TEXT_MAX).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_reads_and_writes_only_if_it_may() {
        let judge = |writes| Judgements::new(Shaper::new(1), Names::default(), writes);
        let (mut reads, mut all) = (judge(false), judge(true));
        use Treatment::{Ignores, Runs, Skips};
        for (text, of_reads, of_all) in [
            ("SELECT a FROM t WHERE b = 1", Runs, Runs),
            ("SELECT a FROM t FOR UPDATE", Skips, Runs),
            ("SELECT pg_advisory_lock(1)", Skips, Runs),
            ("SELECT set_config('a.b', 'c', false)", Skips, Runs),
            ("INSERT INTO t VALUES (1)", Skips, Runs),
            ("COPY t TO STDOUT", Skips, Skips),
            ("SET a.b = 'c'", Ignores, Ignores),
            ("BEGIN", Ignores, Ignores),
            ("no SQL", Skips, Skips),
        ] {
            for (judge, treatment) in [(&mut reads, of_reads), (&mut all, of_all)] {
                let judged = judge.of(text.as_bytes()).map(|it| it.treatment);
                assert_eq!(judged, Some(treatment), "{text}");
            }
        }
        assert!(reads.of(b"SELECT 1; SELECT 2").is_none());
        assert!(reads.of(b"").is_none());
        let judged = reads.of(b"SELECT a FROM t WHERE b = 2 LIMIT 1").unwrap();
        assert!(!judged.has_same_rows);
        assert_eq!(&*judged.text, "SELECT a FROM t WHERE b = ? LIMIT ?");
    }
}
