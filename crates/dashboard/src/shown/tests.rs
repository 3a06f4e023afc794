//! Rows as a page shows them: sorted, filtered, cut, in words.

use super::*;
use crate::pages;
use crate::tests::fake::table;

const READER: Reader = Reader {
    role: Role::Admin,
    acts: true,
};

fn pools() -> Table {
    table(
        &[
            "database",
            "user",
            "#cl_waiting",
            "#maxwait",
            "#maxwait_us",
            "#size",
        ],
        &[
            &["shop", "app", "3", "1", "500000", "20"],
            &["Blog", "app", "12", "0", "250", "20"],
            &["pgbouncer", "pgbouncer", "0", "0", "0", "2"],
        ],
    )
}

/// First cells of the rows of the page of pools with this query.
fn databases(query: &Query) -> Vec<String> {
    let page = pages::find("pools").unwrap();
    let shown = show(&page.views[0], page, &pools(), query, READER);
    shown.rows.iter().map(|row| row[0].text.clone()).collect()
}

#[test]
fn rows_are_sorted_as_numbers_and_filtered_as_texts() {
    let query = |sort: &str, filter: &str| Query {
        sort: sort.to_owned(),
        q: filter.to_owned(),
        ..Query::default()
    };
    assert_eq!(databases(&query("", "")), ["Blog", "shop"]);
    assert_eq!(
        databases(&query("EXTENDED POOLS.cl_waiting", "")),
        ["shop", "Blog"]
    );
    assert_eq!(
        databases(&query("EXTENDED POOLS.-maxwait", "")),
        ["shop", "Blog"]
    );
    assert_eq!(databases(&query("CLIENTS.database", "")), ["Blog", "shop"]);
    assert_eq!(databases(&query("", "BLOG")), ["Blog"]);
    assert_eq!(databases(&query("", "!blog")), ["shop"]);
}

#[test]
fn a_cell_has_its_unit_its_mark_and_its_link() {
    let page = pages::find("pools").unwrap();
    let shown = show(&page.views[0], page, &pools(), &Query::default(), READER);
    let names: Vec<_> = shown.heads.iter().map(|head| &*head.name).collect();
    assert_eq!(names, ["database", "user", "cl_waiting", "maxwait", "size"]);
    assert_eq!(shown.heads[2].sorted, Some("descending"));
    let shop = &shown.rows[1];
    assert_eq!(
        shop[0].link.as_deref(),
        Some("/pool?database=shop&user=app")
    );
    assert_eq!((&*shop[2].text, shop[2].mark), ("3", Some("warning")));
    assert_eq!(shop[3].text, "1.5 s");
}

#[test]
fn a_page_of_a_pool_has_its_rows_only() {
    let page = pages::find("pool").unwrap();
    let query = Query {
        database: "shop".to_owned(),
        user: "app".to_owned(),
        ..Query::default()
    };
    let shown = show(&page.views[0], page, &pools(), &query, READER);
    assert_eq!((shown.total, shown.rows.len()), (1, 1));
}

#[test]
fn long_tables_and_texts_are_cut_and_say_so() {
    let text = "ä".repeat(1_500);
    let row: &[&str] = &["1", &text];
    let rows: Vec<&[&str]> = vec![row; ROWS_MAX + 1];
    let long = table(&["#id", "application_name"], &rows);
    let page = pages::find("clients").unwrap();
    let shown = show(&page.views[1], page, &long, &Query::default(), READER);
    assert_eq!((shown.rows.len(), shown.total), (ROWS_MAX, ROWS_MAX + 1));
    assert!(shown.note.starts_with("The first 500 of 501 rows"));
    assert_eq!(shown.rows[0][1].text, format!("{}...", "ä".repeat(1_000)));
}

#[test]
fn empty_and_filtered_tables_say_why() {
    let page = pages::find("clients").unwrap();
    let waits = &page.views[0];
    let empty = show(
        waits,
        page,
        &table(&["database"], &[]),
        &Query::default(),
        READER,
    );
    assert_eq!(empty.note, "No client waits: good.");
    let one = table(&["database"], &[&["shop"]]);
    let query = Query {
        q: "x".to_owned(),
        ..Query::default()
    };
    assert_eq!(
        show(waits, page, &one, &query, READER).note,
        "None of 1 rows fits the filter."
    );
}

#[test]
fn actions_are_links_only_for_those_who_may_act() {
    let page = pages::find("clients").unwrap();
    let clients = table(&["#id"], &[&["7"]]);
    let of = |reader| show(&page.views[1], page, &clients, &Query::default(), reader);
    let shown = of(READER);
    let link = shown.rows[0].last().unwrap().link.as_deref();
    assert_eq!(link, Some("/confirm?action=kill_client&target=7"));
    let reads = Reader {
        role: Role::Stats,
        acts: false,
    };
    assert_eq!(of(reads).heads.len(), 1);
}

#[test]
fn values_of_a_query_are_encoded() {
    assert_eq!(encoded("a b&c=ä/"), "a%20b%26c%3D%C3%A4%2F");
}
