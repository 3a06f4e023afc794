//! Content of a page at one moment, from which both HTML and stream are made.

use std::sync::Arc;

use serde::Serialize;

use crate::desk::Desk;
use crate::format::{Unit, clock};
use crate::pages::{self, Chart, Page, View};
use crate::shown::{self, Query, Reader, Shown};
use crate::source::{Missing, Role, Scope, Series, Table};
use crate::visitor::Visitor;

/// Windows of charts: name and seconds.
pub(crate) const WINDOWS: [(&str, u32); 4] =
    [("5m", 300), ("15m", 900), ("1h", 3_600), ("24h", 86_400)];
/// Most values of a line that a browser gets.
const POINTS_MAX: usize = 600;

/// See the module's page.
pub(crate) struct Model {
    pub(crate) page: &'static Page,
    pub(crate) verdict: Verdict,
    pub(crate) tables: Vec<(&'static View, Shown)>,
    /// Reason why figures are old, if they are.
    pub(crate) failed: Option<String>,
    /// Time of the figures in Unix seconds.
    pub(crate) at: i64,
    /// True if the reader may act.
    pub(crate) acts: bool,
}

/// Judgement on the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    /// `critical`, `warning`, `info`, `good` or `quiet`.
    pub(crate) level: &'static str,
    pub(crate) text: String,
}

/// Charts of a page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Charts {
    /// Time of the first value, in Unix seconds.
    pub(crate) from: i64,
    pub(crate) step: u32,
    pub(crate) charts: Vec<Drawn>,
    /// Events: time and words.
    pub(crate) marks: Vec<(i64, String)>,
}

/// Content of a chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Drawn {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) names: Vec<&'static str>,
    pub(crate) values: Vec<Vec<Option<f64>>>,
    /// Sentence for readers who do not see the chart.
    pub(crate) summary: String,
}

impl Drawn {
    /// Unit of the chart's lines.
    pub(crate) fn unit_of(&self) -> Unit {
        self.names
            .first()
            .map_or(Unit::Count, |name| Unit::of(name))
    }
}

impl Model {
    pub(crate) async fn of(
        desk: &Arc<Desk>,
        page: &'static Page,
        query: &Query,
        visitor: &Visitor,
    ) -> Self {
        let acts = desk.source.options().has_actions && visitor.role == Role::Admin;
        let reader = Reader {
            role: visitor.role,
            acts,
        };
        let conditions = desk.table(pages::DIAGNOSIS).await;
        let state = desk.table(pages::STATE).await;
        let mut failed = None;
        let mut tables = Vec::new();
        for view in page.views {
            let shown = match desk.table(view.table).await {
                Ok(table) => shown::show(view, page, &table, query, reader),
                Err(Missing::Failed(why)) => {
                    let shown = shown::missing(format!("No figures: {why}."));
                    failed = Some(why);
                    shown
                }
                Err(missing) => {
                    shown::missing(format!("This table {missing}, which this version lacks."))
                }
            };
            tables.push((view, shown));
        }
        if let Err(Missing::Failed(why)) = &state {
            failed = Some(why.clone());
        }
        let verdict = match &failed {
            Some(why) => Verdict {
                level: "critical",
                text: format!("No figures: {why}"),
            },
            None => verdict(conditions.as_deref(), state.as_deref().ok()),
        };
        Self {
            page,
            verdict,
            tables,
            failed,
            at: desk.source.unix(),
            acts,
        }
    }

    /// Time of the figures, as people read it.
    pub(crate) fn clock(&self) -> String {
        clock(self.at)
    }
}

/// Judges by the conditions, which are judged in the process; here they are only counted.
fn verdict(conditions: Result<&Table, &Missing>, state: Option<&Table>) -> Verdict {
    let halted = state.and_then(halted);
    let worst = conditions.ok().map(count);
    let (level, text) = match (halted, worst, conditions) {
        (_, Some([critical @ (1..), warning, _]), _) => {
            let more = some(warning, "warning");
            (
                "critical",
                format!("{} critical{more}", counted(critical, "condition")),
            )
        }
        (Some(word), _, _) => ("warning", format!("Everything is {word}: RESUME ends it")),
        (_, Some([_, warning @ (1..), _]), _) => (
            "warning",
            format!("{} to look at", counted(warning, "warning")),
        ),
        (_, Some([_, _, info @ (1..)]), _) => {
            ("info", format!("Healthy, with {}", counted(info, "hint")))
        }
        (_, Some(_), _) => ("good", "Healthy: no condition holds".to_owned()),
        (_, None, Err(missing)) => ("quiet", format!("No verdict: {missing}")),
        (_, None, Ok(_)) => ("quiet", "No verdict".to_owned()),
    };
    Verdict { level, text }
}

fn counted(count: usize, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {word}{plural}")
}

fn some(count: usize, word: &str) -> String {
    match count {
        0 => String::new(),
        count => format!(", {}", counted(count, word)),
    }
}

/// Counts conditions by severity.
fn count(conditions: &Table) -> [usize; 3] {
    let place = conditions.column("severity");
    let of = |word: &str| {
        let rows = conditions.rows.iter();
        let words = rows.filter_map(|row| row.get(place?)?.as_deref());
        words.filter(|found| *found == word).count()
    };
    [of("critical"), of("warning"), of("info")]
}

fn halted(state: &Table) -> Option<&'static str> {
    let is = |key: &str| {
        let mut rows = state.rows.iter();
        rows.any(|row| {
            matches!(row.as_slice(), [Some(found), Some(value), ..] if found == key && value == "yes")
        })
    };
    ["suspended", "paused"].into_iter().find(|key| is(key))
}

/// Returns the window that a query names.
pub(crate) fn window(query: &Query) -> (&'static str, u32) {
    let found = WINDOWS.iter().find(|(name, _)| *name == query.window);
    found.copied().unwrap_or(("15m", 900))
}

/// Fetches the charts of a page.
///
/// # Errors
/// The process keeps no history of this.
pub(crate) async fn charts(
    desk: &Arc<Desk>,
    page: &'static Page,
    query: &Query,
) -> Result<Charts, Missing> {
    let scope = match page.is_of_pool {
        true => Scope::Pool {
            database: query.database.clone(),
            user: query.user.clone(),
        },
        false => Scope::Process,
    };
    let series = desk.history(&scope, window(query).1).await?;
    Ok(draw(page.charts, &series))
}

fn draw(charts: &'static [Chart], series: &Series) -> Charts {
    let len = series.lines.iter().map(|line| line.values.len()).max();
    let width = len.unwrap_or(0).div_ceil(POINTS_MAX).max(1);
    // Joined values begin at the same moments whenever a page is drawn, so that a stream can add to them.
    let step = series.step.max(1) * u32::try_from(width).unwrap_or(1);
    let late = (-series.from).rem_euclid(i64::from(step)) / i64::from(series.step.max(1));
    let skipped = usize::try_from(late).unwrap_or(0);
    let drawn = charts.iter().map(|chart| {
        let found = chart.lines.iter().filter_map(|name| {
            let line = series.lines.iter().find(|line| line.name == *name)?;
            let values = line.values.get(skipped..).unwrap_or_default();
            Some((*name, highest(values, width)))
        });
        let (names, values): (Vec<_>, Vec<_>) = found.unzip();
        let unit = chart
            .lines
            .first()
            .map_or(Unit::Count, |name| Unit::of(name));
        Drawn {
            title: chart.title,
            unit: unit.name(),
            summary: summary(unit, &names, &values),
            names,
            values,
        }
    });
    Charts {
        from: series.from + late * i64::from(series.step.max(1)),
        step,
        charts: drawn.collect(),
        marks: series.marks.clone(),
    }
}

impl Charts {
    /// Time of the last value, which may still grow.
    pub(crate) fn last(&self) -> i64 {
        let lines = self.charts.iter().flat_map(|chart| &chart.values);
        let len = lines.map(Vec::len).max().unwrap_or(0);
        let passed = i64::try_from(len.saturating_sub(1)).unwrap_or(0);
        self.from + passed * i64::from(self.step)
    }

    /// Leaves out the values before this time.
    pub(crate) fn since(mut self, time: i64) -> Self {
        let gone = (time - self.from).max(0) / i64::from(self.step.max(1));
        let count = usize::try_from(gone).unwrap_or(0);
        for values in self.charts.iter_mut().flat_map(|chart| &mut chart.values) {
            drop(values.drain(..count.min(values.len())));
        }
        self.from += gone * i64::from(self.step);
        self.marks.retain(|(at, _)| *at >= time);
        self
    }
}

/// Joins neighbouring values. The highest one stands for all of them: a mean would hide what the chart is for.
fn highest(values: &[Option<f64>], width: usize) -> Vec<Option<f64>> {
    let parts = values.chunks(width);
    parts
        .map(|part| part.iter().flatten().copied().reduce(f64::max))
        .collect()
}

fn summary(unit: Unit, names: &[&str], values: &[Vec<Option<f64>>]) -> String {
    let parts = names.iter().zip(values).map(|(name, values)| {
        let last = values.iter().rev().flatten().next();
        let most = values.iter().flatten().copied().reduce(f64::max);
        match (last, most) {
            (Some(last), Some(most)) => {
                format!(
                    "{name}: now {}, at most {}",
                    unit.show(*last),
                    unit.show(most)
                )
            }
            _ => format!("{name}: no values"),
        }
    });
    let parts: Vec<_> = parts.collect();
    match parts.is_empty() {
        true => "No values.".to_owned(),
        false => format!("{}.", parts.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Column, Kind, Line};

    fn table(columns: &[&str], rows: &[&[&str]]) -> Table {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            kind: Kind::Text,
        };
        let row = |row: &&[&str]| row.iter().map(|text| Some((*text).to_owned())).collect();
        Table {
            columns: columns.iter().map(column).collect(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn the_verdict_is_the_worst_condition() {
        let check = |severities: &[&str], paused: &str, expect: (&str, &str)| {
            let rows: Vec<[&str; 1]> = severities.iter().map(|word| [*word]).collect();
            let rows: Vec<&[&str]> = rows.iter().map(<[&str; 1]>::as_slice).collect();
            let conditions = table(&["severity"], &rows);
            let state = table(
                &["key", "value"],
                &[&["active", "yes"], &["paused", paused]],
            );
            let found = verdict(Ok(&conditions), Some(&state));
            assert_eq!((found.level, &*found.text), expect);
        };
        check(&[], "no", ("good", "Healthy: no condition holds"));
        check(&["info"], "no", ("info", "Healthy, with 1 hint"));
        check(
            &["warning", "warning"],
            "no",
            ("warning", "2 warnings to look at"),
        );
        check(
            &[],
            "yes",
            ("warning", "Everything is paused: RESUME ends it"),
        );
        check(
            &["info", "critical", "warning"],
            "yes",
            ("critical", "1 condition critical, 1 warning"),
        );
        let missing = Missing::Unknown("SHOW DIAGNOSIS".to_owned());
        let found = verdict(Err(&missing), None);
        assert_eq!(found.text, "No verdict: needs SHOW DIAGNOSIS");
    }

    #[test]
    fn a_long_history_keeps_its_peaks() {
        let mut values = vec![Some(1.0); 3_600];
        values[1_234] = Some(50.0);
        let series = Series {
            from: 1_200,
            step: 1,
            lines: vec![Line {
                name: "waiting".to_owned(),
                values,
            }],
            marks: Vec::new(),
        };
        let chart = Chart {
            title: "Waiting clients",
            lines: &["waiting", "absent"],
        };
        let drawn = draw(Box::leak(Box::new([chart])), &series);
        assert_eq!((drawn.step, drawn.charts[0].values[0].len()), (6, 600));
        assert_eq!(drawn.charts[0].values[0][205], Some(50.0));
        assert_eq!((drawn.from, drawn.last()), (1_200, 1_200 + 599 * 6));
        assert_eq!(drawn.charts[0].names, ["waiting"]);
        assert_eq!(drawn.charts[0].summary, "waiting: now 1, at most 50.");
        let tail = drawn.since(1_200 + 205 * 6);
        assert_eq!(
            (tail.from, tail.charts[0].values[0][0]),
            (2_430, Some(50.0))
        );
    }
}
