//! Grafana's model of a dashboard, as far as the board needs it. Fields are written in the order in which they stand here.

use serde::Serialize;

/// Data source that the reader of the board chooses.
const DATA_SOURCE: &str = "${datasource}";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Dashboard {
    pub(super) uid: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) tags: [&'static str; 2],
    pub(super) schema_version: u32,
    pub(super) version: u32,
    pub(super) editable: bool,
    pub(super) refresh: &'static str,
    pub(super) time: Time,
    pub(super) timezone: &'static str,
    pub(super) graph_tooltip: u32,
    pub(super) templating: List<Variable>,
    pub(super) annotations: List<Nothing>,
    pub(super) panels: Vec<Panel>,
}

/// Element of a list that is always empty.
#[derive(Serialize)]
pub(super) enum Nothing {}

#[derive(Serialize)]
pub(super) struct List<T> {
    pub(super) list: Vec<T>,
}

/// Span of time that the board shows at first.
#[derive(Serialize)]
pub(super) struct Time {
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

/// Choice in the head of the board.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(super) enum Variable {
    Label {
        name: &'static str,
        label: &'static str,
        r#type: &'static str,
        datasource: DataSource,
        query: LabelQuery,
        definition: String,
        refresh: u32,
        include_all: bool,
        multi: bool,
        all_value: &'static str,
        current: Current,
        sort: u32,
    },
    Source {
        name: &'static str,
        label: &'static str,
        r#type: &'static str,
        query: &'static str,
        current: NoValue,
    },
}

/// Object without fields.
#[derive(Serialize)]
pub(super) struct NoValue {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LabelQuery {
    pub(super) query: String,
    pub(super) ref_id: &'static str,
}

/// Value of a variable.
#[derive(Serialize)]
pub(super) struct Current {
    pub(super) text: &'static str,
    pub(super) value: &'static str,
}

#[derive(Serialize)]
pub(super) struct DataSource {
    r#type: &'static str,
    uid: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Panel {
    Graph(Box<Graph>),
    Row(Row),
}

/// Line that begins a group of panels.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) id: usize,
    pub(super) r#type: &'static str,
    pub(super) title: &'static str,
    pub(super) collapsed: bool,
    pub(super) grid_pos: Place,
    pub(super) panels: Vec<Nothing>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Graph {
    pub(super) id: usize,
    pub(super) r#type: &'static str,
    pub(super) title: &'static str,
    pub(super) description: String,
    pub(super) datasource: DataSource,
    pub(super) grid_pos: Place,
    pub(super) field_config: FieldConfig,
    pub(super) targets: Vec<Target>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) transformations: Vec<Transformation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) options: Option<Options>,
}

/// Place in the grid of 24 columns.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Place {
    pub(super) h: u32,
    pub(super) w: u32,
    pub(super) x: u32,
    pub(super) y: u32,
}

#[derive(Serialize)]
pub(super) struct FieldConfig {
    pub(super) defaults: Defaults,
    pub(super) overrides: Vec<Override>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Defaults {
    pub(super) unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) min: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_value: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) mappings: Vec<Mapping>,
}

/// Properties of one column.
#[derive(Serialize)]
pub(super) struct Override {
    pub(super) matcher: Matcher,
    pub(super) properties: Vec<Property>,
}

#[derive(Serialize)]
pub(super) struct Matcher {
    pub(super) id: &'static str,
    pub(super) options: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "id", content = "value")]
pub(super) enum Property {
    #[serde(rename = "custom.cellOptions")]
    Cell { r#type: &'static str },
    #[serde(rename = "mappings")]
    Mappings(Vec<Mapping>),
}

/// Text and colour for values.
#[derive(Serialize)]
pub(super) struct Mapping {
    pub(super) r#type: &'static str,
    pub(super) options: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    pub(super) ref_id: char,
    pub(super) datasource: DataSource,
    pub(super) expr: String,
    pub(super) legend_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instant: Option<bool>,
}

#[derive(Serialize)]
#[serde(tag = "id", content = "options", rename_all = "camelCase")]
pub(super) enum Transformation {
    #[serde(rename_all = "camelCase")]
    FilterFieldsByName { exclude: Names },
}

#[derive(Serialize)]
pub(super) struct Names {
    pub(super) names: Vec<&'static str>,
}

#[derive(Serialize)]
pub(super) struct Options {
    pub(super) legend: Legend,
    pub(super) tooltip: Tooltip,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Legend {
    pub(super) display_mode: &'static str,
    pub(super) placement: &'static str,
}

#[derive(Serialize)]
pub(super) struct Tooltip {
    pub(super) mode: &'static str,
    pub(super) sort: &'static str,
}

impl DataSource {
    pub(super) const CHOSEN: Self = Self {
        r#type: "prometheus",
        uid: DATA_SOURCE,
    };
}

impl Mapping {
    /// Maps each value to its text and colour.
    pub(super) fn of_values<V: ToString>(values: &[(V, &str, &str)]) -> Self {
        let options = values.iter().map(|(value, text, color)| {
            let shown = serde_json::json!({ "color": color, "text": text });
            (value.to_string(), shown)
        });
        Self {
            r#type: "value",
            options: options.collect(),
        }
    }
}
