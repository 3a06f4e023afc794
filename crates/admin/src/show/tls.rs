//! `SHOW TLS`: certificates in use, and their dates of expiry.

use weir_stats::TlsRow;

use super::{Row, Show, filled, int8, some, text, timestamp};

/// `SHOW TLS`. PgBouncer has no such table.
pub(crate) static TLS: Show = Show {
    headings: &[
        text("side").ours(),
        text("database").ours(),
        text("sslmode").ours(),
        text("file").ours(),
        text("subject").ours(),
        text("issuer").ours(),
        text("not_before").ours(),
        text("not_after").ours(),
        int8("days_left").ours(),
        text("protocols").ours(),
    ],
    is_live: true,
    rows: |context| context.snapshot.tls.iter().map(row).collect(),
};

fn row(tls: &TlsRow) -> Row {
    vec![
        some(&tls.side),
        filled(&tls.database),
        some(&tls.sslmode),
        filled(&tls.file),
        some(&tls.subject),
        some(&tls.issuer),
        some(timestamp(tls.not_before)),
        some(timestamp(tls.not_after)),
        some(tls.days_left),
        some(&tls.protocols),
    ]
}
