//! Explanation of charts and maps, given once.

use super::document::{Block, Entry, Table, Tone};
use super::prose::Prose;

/// Returns the section.
pub(super) fn blocks() -> Vec<Block> {
    let mut key = Table::new("Key of the maps", &["", "", "", "", "", "", "", ""]);
    key.heat = true;
    let tile = |text: &str, tone| Entry {
        tone,
        ..Entry::new(text)
    };
    key.rows.push(vec![
        Entry::new("Ratio to the base"),
        tile("much worse", Tone::Worse(5)),
        tile("worse", Tone::Worse(2)),
        tile("~ noise", Tone::Noise),
        tile("better", Tone::Better(2)),
        tile("much better", Tone::Better(5)),
        tile("≠ other work", Tone::Unjudged),
        Entry {
            flagged: true,
            ..tile("flagged", Tone::Base)
        },
    ]);
    vec![
        Block::section("How to read it"),
        Block::List(vec![
            Prose::new(
                "Charts: marks are means over the blocks, percentiles those of all blocks' transactions together; \
                 bars go from the smallest block to the largest; hollow marks are flagged. Steps on the axis are \
                 evenly spaced. Broken lines repeat another target under a second name.",
            ),
            Prose::new(
                "Faint dotted lines are published figures: their ratio to the base, put on our base, because \
                 figures of another machine cannot be compared.",
            ),
            Prose::new(
                "Maps: each tile is the geometric mean of the ratios to the base inside of blocks. “~” is within \
                 the noise: the 95 % interval holds one, or the noise floor is wider. “?” is a single block, of \
                 which nothing is claimed. “≠” compares different work, because a target cannot do what was asked for, and \
                 is in no count. Hatched tiles are flagged: something speaks against the cell, and the list below the \
                 maps says what.",
            ),
        ]),
        Block::Key(key),
    ]
}
