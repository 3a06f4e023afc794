//! The dashboard for Grafana, `contrib/monitoring/grafana-dashboard.json`. A table of panels names metrics of the table of
//! metrics; labels to select by, units and descriptions come from there.

mod grafana;
mod panels;
mod units;

use std::collections::BTreeSet;

use self::grafana::{
    Current, Dashboard, DataSource, Defaults, FieldConfig, Graph, LabelQuery, Legend, List,
    Mapping, Matcher, Names, NoValue, Options, Override, Place, Property, Target, Time, Tooltip,
    Transformation, Variable,
};
use self::units::Unit;
use super::{Metric, promql};

/// Columns of Grafana's grid.
const COLUMNS: u32 = 24;
const RED: &str = "red";
const ORANGE: &str = "orange";
const BLUE: &str = "blue";
/// Text of the panels of conditions if no condition holds.
const CALM: &str = "No condition holds";
/// Parts of a histogram that a panel shows: line and quantile.
const QUANTILES: [(&str, &str); 3] = [("p50", "0.5"), ("p95", "0.95"), ("p99", "0.99")];

/// Panels below a heading.
struct Section {
    title: &'static str,
    panels: &'static [Panel],
}

struct Panel {
    title: &'static str,
    form: Form,
    queries: Queries,
    /// Size in the grid.
    width: u32,
    height: u32,
    /// `None`: the unit follows from the names of the metrics.
    unit: Option<Unit>,
    /// Empty: the descriptions of the metrics.
    description: &'static str,
}

/// Form in which Grafana shows the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Conditions that hold now, with their labels.
    Conditions,
    /// Lines over time.
    Graph,
    /// Current value in large figures.
    Stat,
    /// Current values with their labels.
    Table,
    /// Spans of time in which conditions held.
    Timeline,
}

enum Queries {
    /// Lines with their names. `[$__rate_interval]` stands behind each counter.
    Lines(&'static [(&'static str, &'static str)]),
    /// Quantiles of a histogram over all pools.
    Quantiles(&'static str),
}

impl Panel {
    const fn new(title: &'static str, form: Form, queries: Queries) -> Self {
        Self {
            title,
            form,
            queries,
            width: 6,
            height: 8,
            unit: None,
            description: "",
        }
    }

    const fn graph(title: &'static str, lines: &'static [(&'static str, &'static str)]) -> Self {
        Self::new(title, Form::Graph, Queries::Lines(lines))
    }

    const fn quantiles(title: &'static str, histogram: &'static str) -> Self {
        Self::new(title, Form::Graph, Queries::Quantiles(histogram)).width(8)
    }

    const fn stat(title: &'static str, line: &'static [(&'static str, &'static str)]) -> Self {
        Self::new(title, Form::Stat, Queries::Lines(line)).size(4, 4)
    }

    const fn width(mut self, width: u32) -> Self {
        self.width = width;
        self
    }

    const fn size(mut self, width: u32, height: u32) -> Self {
        self.width = width;
        self.height = height;
        self
    }

    const fn unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    const fn described(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Expressions as in the table, with the names of their lines.
    fn lines(&self) -> Vec<(&'static str, String)> {
        match self.queries {
            Queries::Lines(lines) => lines
                .iter()
                .map(|(name, expression)| (*name, (*expression).to_owned()))
                .collect(),
            Queries::Quantiles(histogram) => QUANTILES
                .map(|(name, quantile)| {
                    let rate = format!("rate({histogram}_bucket[$__rate_interval])");
                    let of_all = format!("sum by (le) ({rate})");
                    (name, format!("histogram_quantile({quantile}, {of_all})"))
                })
                .into(),
        }
    }

    fn unit_name(&self) -> &'static str {
        let unit = self.unit.unwrap_or_else(|| {
            let lines = self.lines();
            let units: BTreeSet<_> = lines.iter().map(|(_, line)| Unit::of(line)).collect();
            // Lines that are measured differently share an axis without a unit.
            match units.first() {
                Some(unit) if units.len() == 1 => *unit,
                _ => Unit::Number,
            }
        });
        unit.name()
    }

    /// Description, or those of the metrics in the order of their lines.
    fn text(&self) -> String {
        if !self.description.is_empty() {
            return self.description.to_owned();
        }
        let mut told: Vec<&str> = Vec::new();
        for (_, line) in self.lines() {
            let helps = promql::names(&line).filter_map(promql::find);
            for help in helps.map(|metric| metric.help) {
                if !told.contains(&help) {
                    told.push(help);
                }
            }
        }
        told.join("\n\n")
    }

    fn targets(&self) -> Vec<Target> {
        let is_table = matches!(self.form, Form::Conditions | Form::Table);
        ('A'..)
            .zip(self.lines())
            .map(|(ref_id, (name, line))| Target {
                ref_id,
                datasource: DataSource::CHOSEN,
                expr: promql::narrowed(&line, chosen),
                legend_format: name,
                format: is_table.then_some("table"),
                instant: is_table.then_some(true),
            })
            .collect()
    }

    fn fields(&self) -> FieldConfig {
        let is_of_conditions = matches!(self.form, Form::Conditions | Form::Timeline);
        let defaults = Defaults {
            unit: self.unit_name(),
            min: (!is_of_conditions).then_some(0),
            no_value: is_of_conditions.then_some(CALM),
            mappings: match self.form {
                Form::Timeline => vec![Mapping::of_values(&[
                    (1, "info", BLUE),
                    (2, "warning", ORANGE),
                    (3, "critical", RED),
                ])],
                _ => Vec::new(),
            },
        };
        let overrides = match self.form {
            Form::Conditions => vec![of_severity()],
            _ => Vec::new(),
        };
        FieldConfig {
            defaults,
            overrides,
        }
    }

    fn transformations(&self) -> Vec<Transformation> {
        let names = match self.form {
            Form::Conditions => vec!["Time", "Value"],
            Form::Table => vec!["Time"],
            _ => return Vec::new(),
        };
        let exclude = Names { names };
        vec![Transformation::FilterFieldsByName { exclude }]
    }

    fn placed(&self, id: usize, grid_pos: Place) -> grafana::Panel {
        grafana::Panel::Graph(Box::new(Graph {
            id,
            r#type: self.form.name(),
            title: self.title,
            description: self.text(),
            datasource: DataSource::CHOSEN,
            grid_pos,
            field_config: self.fields(),
            targets: self.targets(),
            transformations: self.transformations(),
            options: (self.form == Form::Graph).then_some(Options {
                legend: Legend {
                    display_mode: "list",
                    placement: "bottom",
                },
                tooltip: Tooltip {
                    mode: "multi",
                    sort: "desc",
                },
            }),
        }))
    }
}

impl Form {
    /// Name of the panel's type in Grafana.
    const fn name(self) -> &'static str {
        match self {
            Self::Conditions | Self::Table => "table",
            Self::Graph => "timeseries",
            Self::Stat => "stat",
            Self::Timeline => "state-timeline",
        }
    }
}

/// Colours for the column of severities.
fn of_severity() -> Override {
    let colours = Mapping::of_values(&[
        ("critical", "critical", RED),
        ("info", "info", BLUE),
        ("warning", "warning", ORANGE),
    ]);
    Override {
        matcher: Matcher {
            id: "byName",
            options: "severity",
        },
        properties: vec![
            Property::Cell {
                r#type: "color-text",
            },
            Property::Mappings(vec![colours]),
        ],
    }
}

/// Conditions on labels: the instances and databases that the reader has chosen.
fn chosen(metric: &Metric) -> String {
    let mut conditions = r#"instance=~"$instance""#.to_owned();
    if metric.name.starts_with("process_") {
        // Names that other programs have too.
        conditions.push_str(r#",job="weir""#);
    }
    // Certificates of the side of clients have an empty database.
    if metric.labels.contains(&"database") && !metric.labels.contains(&"side") {
        conditions.push_str(r#",database=~"$database""#);
    }
    conditions
}

/// Returns the text of the board, as Grafana imports it.
#[must_use]
pub fn grafana_board_json() -> String {
    let board = Dashboard {
        uid: "weir-overview",
        title: "Weir",
        description: "Generated from the table of metrics of Weir: cargo xtask docs.",
        tags: ["weir", "postgresql"],
        schema_version: 39,
        version: 1,
        editable: true,
        refresh: "30s",
        time: Time {
            from: "now-1h",
            to: "now",
        },
        timezone: "",
        graph_tooltip: 1,
        templating: List { list: variables() },
        annotations: List { list: Vec::new() },
        panels: placed(),
    };
    // The model has neither maps with keys other than texts nor types that fail.
    let mut text = serde_json::to_string_pretty(&board).unwrap_or_default();
    text.push('\n');
    text
}

/// Choices in the head of the board.
fn variables() -> Vec<Variable> {
    let source = Variable::Source {
        name: "datasource",
        label: "Data source",
        r#type: "datasource",
        query: "prometheus",
        current: NoValue {},
    };
    let of_label = |name, label, metric| {
        let definition = format!("label_values({metric}, {name})");
        Variable::Label {
            name,
            label,
            r#type: "query",
            datasource: DataSource::CHOSEN,
            query: LabelQuery {
                query: definition.clone(),
                ref_id: name,
            },
            definition,
            refresh: 2,
            include_all: true,
            multi: true,
            all_value: ".*",
            current: Current {
                text: "All",
                value: "$__all",
            },
            sort: 1,
        }
    };
    vec![
        source,
        of_label("instance", "Instance", "weir_build_info"),
        of_label("database", "Database", "weir_pool_size"),
    ]
}

/// Panels with their places: from left to right, and on to the next line where the width ends.
fn placed() -> Vec<grafana::Panel> {
    let mut placed = Vec::new();
    let mut y = 0;
    for section in panels::SECTIONS {
        placed.push(grafana::Panel::Row(grafana::Row {
            id: placed.len() + 1,
            r#type: "row",
            title: section.title,
            collapsed: false,
            grid_pos: Place {
                h: 1,
                w: COLUMNS,
                x: 0,
                y,
            },
            panels: Vec::new(),
        }));
        y += 1;
        let (mut x, mut line_height) = (0, 0);
        for panel in section.panels {
            if x + panel.width > COLUMNS {
                y += line_height;
                (x, line_height) = (0, 0);
            }
            let (w, h) = (panel.width, panel.height);
            placed.push(panel.placed(placed.len() + 1, Place { h, w, x, y }));
            x += w;
            line_height = line_height.max(h);
        }
        y += line_height;
    }
    placed
}

/// Returns the names of all metrics on the board, as its expressions have them.
#[cfg(test)]
pub(super) fn series() -> BTreeSet<String> {
    let sections = panels::SECTIONS.iter();
    let lines = sections.flat_map(|section| section.panels.iter().flat_map(Panel::lines));
    let names =
        |(_, line): (_, String)| promql::names(&line).map(str::to_owned).collect::<Vec<_>>();
    lines.flat_map(names).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    /// After a change of the table run this test with UPDATE_EXPECT=1.
    #[test]
    fn the_board_is_fresh() {
        let file = expect_file!["../../../../contrib/monitoring/grafana-dashboard.json"];
        file.assert_eq(&grafana_board_json());
    }

    #[test]
    fn no_line_of_panels_has_a_gap_at_its_end() {
        for section in panels::SECTIONS {
            let width: u32 = section.panels.iter().map(|panel| panel.width).sum();
            assert_eq!(width % COLUMNS, 0, "{}", section.title);
        }
    }

    #[test]
    fn who_chooses_a_database_keeps_what_has_none() {
        let of = |name| chosen(promql::find(name).unwrap());
        let database = r#"database=~"$database""#;
        assert!(of("weir_pool_size").contains(database));
        assert!(!of("weir_tls_certificate_days_left").contains(database));
        assert!(!of("weir_worker_turns_total").contains(database));
        assert!(of("process_open_fds").contains(r#"job="weir""#));
    }
}
