//! `SHOW TLS`: how each hop is protected, and until when its certificates are valid.

use weir_stats::TlsRow;

use super::{Row, Show, filled, int8, some, text, timestamp};

/// `SHOW TLS`. PgBouncer has no such table.
pub(crate) static TLS: Show = Show {
    headings: &[
        text("hop").ours(),
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
    let certificate = tls.certificate.as_ref();
    vec![
        some(tls.hop),
        filled(&tls.database),
        some(tls.sslmode),
        certificate.and_then(|c| filled(&c.file)),
        certificate.and_then(|c| filled(&c.subject)),
        certificate.and_then(|c| filled(&c.issuer)),
        certificate.and_then(|c| some(timestamp(c.not_before))),
        certificate.and_then(|c| some(timestamp(c.not_after))),
        certificate.and_then(|c| some(c.days_left)),
        filled(&tls.protocols),
    ]
}
