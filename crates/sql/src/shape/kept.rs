//! Shapes of the text that was read last, for whoever asks about the same text next.

use std::ops::Range;

use super::{SHAPE_MAX, ShapeKey, Shaper};

/// Shapes of one text.
#[derive(Debug, Default)]
pub(super) struct Kept {
    text: Vec<u8>,
    is_whole: bool,
    shapes: Vec<(ShapeKey, Range<usize>)>,
}

impl Kept {
    #[inline]
    fn is_of(&self, text: &[u8], is_whole: bool) -> bool {
        self.is_whole == is_whole && *self.text == *text
    }

    fn read(&mut self, shaper: &Shaper, text: &[u8], is_whole: bool) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.is_whole = is_whole;
        self.shapes.clear();
        let mut walk = shaper.walk(text, is_whole);
        self.shapes.extend(std::iter::from_fn(|| walk.statement()));
    }
}

impl Shaper {
    /// Does the same as [`Shaper::shapes`], and keeps the result for whoever asks about the same text next. So rules and
    /// digests read a text once. Texts of more than 8 KiB are not kept, and read to their end: their shapes here are not those
    /// that [`Shaper::shapes`] finds.
    pub fn shapes_and_keep(
        &self,
        text: &[u8],
        is_whole: bool,
        visit: &mut dyn FnMut(ShapeKey, Range<usize>),
    ) {
        if text.len() > SHAPE_MAX {
            let mut walk = self.walk_all(text, is_whole);
            while let Some((key, range)) = walk.statement() {
                visit(key, range);
            }
            return;
        }
        let mut kept = self.last.take().unwrap_or_default();
        if !kept.is_of(text, is_whole) {
            kept.read(self, text, is_whole);
        }
        for (key, range) in &kept.shapes {
            visit(*key, range.clone());
        }
        self.last.set(Some(kept));
    }

    /// Calls `visit` with what is kept of a text. False if nothing is.
    #[inline]
    pub(super) fn visit_kept(
        &self,
        text: &[u8],
        is_whole: bool,
        visit: &mut dyn FnMut(ShapeKey, Range<usize>),
    ) -> bool {
        let Some(kept) = self.last.take() else {
            return false;
        };
        let is_known = kept.is_of(text, is_whole);
        if is_known {
            for (key, range) in &kept.shapes {
                visit(*key, range.clone());
            }
        }
        self.last.set(Some(kept));
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Shapes = Vec<(ShapeKey, Range<usize>)>;

    fn read(
        text: &[u8],
        is_whole: bool,
        shapes: impl Fn(&mut dyn FnMut(ShapeKey, Range<usize>)),
    ) -> Shapes {
        let mut found = Vec::new();
        shapes(&mut |key, range| found.push((key, range)));
        let fresh = Shaper::new(1);
        let mut expected = Vec::new();
        fresh.shapes(text, is_whole, &mut |key, range| {
            expected.push((key, range))
        });
        assert_eq!(found, expected, "{text:?}");
        assert_eq!(
            fresh.first(text, is_whole),
            found.first().map(|first| first.0)
        );
        found
    }

    #[test]
    fn what_is_kept_is_what_a_new_look_finds() {
        let shaper = Shaper::new(1);
        let texts = [
            "SELECT 1; SELECT a",
            "SELECT a",
            "SELECT 1",
            "",
            ";",
            "SELECT 'a",
            "SELECT 2; SELECT a",
        ];
        for text in texts.into_iter().flat_map(|text| [text, text]) {
            let text = text.as_bytes();
            for is_whole in [true, false, true] {
                read(text, is_whole, |visit| shaper.shapes(text, is_whole, visit));
                read(text, is_whole, |visit| {
                    shaper.shapes_and_keep(text, is_whole, visit)
                });
                read(text, is_whole, |visit| shaper.shapes(text, is_whole, visit));
                let first = shaper.first(text, is_whole);
                assert_eq!(first, Shaper::new(1).first(text, is_whole));
            }
        }
    }

    #[test]
    fn a_long_text_is_read_to_its_end() {
        let shaper = Shaper::new(1);
        let mut keys = Vec::new();
        for end in ["b", "c"] {
            let text = format!("SELECT {}{end}; SELECT 2", "a, ".repeat(4_000));
            let mut ranges = Vec::new();
            shaper.shapes_and_keep(text.as_bytes(), true, &mut |key, range| {
                keys.push(key);
                ranges.push(range);
            });
            assert_eq!(ranges, [0..12_008, 12_010..text.len()]);
        }
        assert_ne!(keys[0], keys[2]);
        assert_eq!(keys[1], keys[3]);
    }

    #[test]
    fn a_text_is_read_once_for_all_who_ask() {
        let shaper = Shaper::new(1);
        let text = b"SELECT 1; SELECT 2, 3";
        let first = read(text, true, |visit| {
            shaper.shapes_and_keep(text, true, visit)
        });
        // Marks what is kept: whoever reads the text again finds something else.
        let mut kept = shaper.last.take().unwrap();
        kept.shapes.truncate(1);
        shaper.last.set(Some(kept));
        let mut found = Vec::new();
        shaper.shapes(text, true, &mut |key, range| found.push((key, range)));
        shaper.shapes_and_keep(text, true, &mut |key, range| found.push((key, range)));
        assert_eq!(found, [first[0].clone(), first[0].clone()]);
    }
}
