//! `SHOW MEM`: memory of the object kinds that exist in large numbers.

use super::{Show, int, int4, some, text};

/// `SHOW MEM`.
pub(crate) static MEM: Show = Show {
    headings: &[
        text("name"),
        int4("size"),
        int4("used"),
        int4("free"),
        int4("memtotal"),
    ],
    is_live: true,
    rows: |context| {
        let kinds = context.snapshot.memory.iter();
        let rows = kinds.map(|(kind, row)| {
            let total = row.size.saturating_mul(row.used + row.free);
            vec![
                some(kind),
                int(row.size),
                int(row.used),
                int(row.free),
                int(total),
            ]
        });
        rows.collect()
    },
};
