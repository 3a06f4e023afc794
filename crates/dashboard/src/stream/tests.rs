//! Messages of a stream: only changes, and none that would take figures away.

use super::*;
use crate::pages;
use crate::shown;

fn cell(text: &str) -> Cell {
    Cell {
        text: text.to_owned(),
        ..Cell::default()
    }
}

fn model(rows: &[&str], failed: Option<&str>) -> Model {
    let page = pages::find("applications").unwrap();
    let shown = match failed {
        Some(why) => shown::missing(why.to_owned()),
        None => Shown {
            heads: vec![Head {
                name: "application".to_owned(),
                is_number: false,
                sorted: None,
            }],
            rows: rows.iter().map(|text| vec![cell(text)]).collect(),
            total: rows.len(),
            note: String::new(),
        },
    };
    Model {
        page,
        verdict: Verdict {
            level: "good",
            text: "Healthy".to_owned(),
        },
        tables: vec![(&page.views[0], shown)],
        failed: failed.map(str::to_owned),
        at: 1_700_000_000,
        acts: false,
    }
}

fn tell(told: &mut Told, rows: &[&str]) -> String {
    let message = told.tell(model(rows, None), None);
    serde_json::to_string(&message.tables).unwrap()
}

#[test]
fn a_stream_tells_only_what_has_changed() {
    let mut told = Told::default();
    assert_eq!(
        tell(&mut told, &["a", "b"]),
        r#"{"t-applications":{"len":2,"total":2,"note":"","heads":[{"name":"application","is_number":false,"sorted":null}],"rows":{"0":[{"t":"a"}],"1":[{"t":"b"}]}}}"#
    );
    assert_eq!(tell(&mut told, &["a", "b"]), "{}");
    assert_eq!(
        tell(&mut told, &["a", "c", "d"]),
        r#"{"t-applications":{"len":3,"total":3,"note":"","rows":{"1":[{"t":"c"}],"2":[{"t":"d"}]}}}"#
    );
    assert_eq!(
        tell(&mut told, &["a"]),
        r#"{"t-applications":{"len":1,"total":1,"note":"","rows":{}}}"#
    );
}

#[test]
fn rows_stay_while_the_workers_do_not_answer() {
    let mut told = Told::default();
    let first = told.tell(model(&["a"], None), None);
    assert!(first.full);
    let message = told.tell(model(&[], Some("no answer")), None);
    assert!(message.tables.is_empty() && !message.full);
    assert_eq!(message.failed.as_deref(), Some("no answer"));
    assert_eq!(tell(&mut told, &["a"]), "{}");
}
