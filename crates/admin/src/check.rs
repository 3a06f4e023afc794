//! JSON of a health check. Written by hand: the page has few fields, and no crate of the daemon writes JSON.

use std::fmt::Write;

use weir_proxy::monitor::Checked;
use weir_stats::DatabaseHostRow;

/// Returns the page of a health check, on one line.
pub(crate) fn json(checked: &Checked) -> String {
    let mut page = String::from("{\"database\":");
    text(&mut page, &checked.database);
    page.push_str(",\"reason\":");
    text(&mut page, &checked.reason);
    page.push_str(",\"hosts\":[");
    for (place, row) in checked.hosts.iter().enumerate() {
        if place > 0 {
            page.push(',');
        }
        host(&mut page, row);
    }
    page.push_str("]}\n");
    page
}

fn host(page: &mut String, row: &DatabaseHostRow) {
    let texts = [
        ("name", &*row.host),
        ("role", row.role),
        ("state", row.state),
    ];
    for (place, (key, value)) in texts.into_iter().enumerate() {
        page.push(if place == 0 { '{' } else { ',' });
        text(page, key);
        page.push(':');
        text(page, value);
    }
    let number = |known: Option<u64>| known.map_or_else(|| "null".to_owned(), |it| it.to_string());
    let timeline = Some(row.timeline).filter(|timeline| *timeline > 0);
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        ",\"takes_writes\":{},\"takes_reads\":{},\"timeline\":{},\"lag_bytes\":{}}}",
        row.takes_writes,
        row.takes_reads,
        number(timeline.map(u64::from)),
        number(row.lag_bytes),
    );
}

/// Appends a string (RFC 8259, section 7).
fn text(page: &mut String, value: &str) {
    page.push('"');
    for c in value.chars() {
        match c {
            '"' => page.push_str("\\\""),
            '\\' => page.push_str("\\\\"),
            c if c < ' ' => drop(write!(page, "\\u{:04x}", u32::from(c))),
            c => page.push(c),
        }
    }
    page.push('"');
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_page_is_json_whatever_names_contain() {
        let row = |host: &str, role, timeline, lag_bytes| DatabaseHostRow {
            host: host.to_owned(),
            role,
            state: "up",
            takes_reads: true,
            timeline,
            lag_bytes,
            ..DatabaseHostRow::default()
        };
        let page = json(&Checked {
            database: "a \"b\"\\\n".to_owned(),
            reason: "ä takes reads".to_owned(),
            hosts: vec![
                row("ä:5432", "replica", 3, Some(16)),
                row("[::1]:5432", "unknown", 0, None),
            ],
        });
        expect![[r#"
            {"database":"a \"b\"\\\u000a","reason":"ä takes reads","hosts":[{"name":"ä:5432","role":"replica","state":"up","takes_writes":false,"takes_reads":true,"timeline":3,"lag_bytes":16},{"name":"[::1]:5432","role":"unknown","state":"up","takes_writes":false,"takes_reads":true,"timeline":null,"lag_bytes":null}]}
        "#]]
        .assert_eq(&page);
    }
}
