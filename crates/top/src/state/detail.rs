//! The chosen row with all columns of its table.

use super::State;
use crate::cell::{Cell, Format, Value};
use crate::columns::Source;
use crate::text;

/// Column of a row with its value, both safe for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl State {
    /// Columns of the chosen row: those of the view that are computed, then all of the table.
    pub(crate) fn fields(&self) -> Option<Vec<Field>> {
        let grid = self.grid.as_ref()?;
        let line = grid.lines.get(self.position().row)?;
        let table = (grid.sheet.table)(self.feed.data())?;
        let row = table.rows.get(line.number)?;
        let computed = grid.headings.iter().zip(&line.cells);
        let computed = computed.filter(|(heading, _)| {
            let source = heading.column.source;
            !matches!(source, Source::Count(..) | Source::Field(_))
        });
        let computed = computed.map(|(heading, cell)| Field {
            name: heading.text.to_owned(),
            value: cell.text().to_owned(),
        });
        let all = table.columns.iter().zip(row).map(|(column, value)| {
            let value = Value::text(value.as_deref());
            let value = Cell::new(value, Format::Text);
            Field {
                name: text::clean(column),
                value: value.text().to_owned(),
            }
        });
        Some(computed.chain(all).collect())
    }

    /// The chosen row as text for the clipboard.
    pub(crate) fn row_text(&self) -> Option<String> {
        let fields = self.fields()?;
        let lines = fields
            .iter()
            .map(|field| format!("{}: {}\n", field.name, field.value));
        Some(lines.collect())
    }

    /// Id and description of the client in the chosen row.
    pub(super) fn client(&self) -> Option<(String, String)> {
        let grid = self.grid.as_ref()?;
        let line = grid.lines.get(self.position().row)?;
        let table = (grid.sheet.table)(self.feed.data())?;
        let row = table.rows.get(line.number)?;
        let field = |name: &str| crate::data::field(&table, row, name);
        let id = field("id").filter(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric()))?;
        let part = |name: &str| field(name).filter(|value| !value.is_empty()).unwrap_or("-");
        let label = format!(
            "client {id} ({}, {}/{} from {})",
            part("application_name"),
            part("database"),
            part("user"),
            part("addr"),
        );
        Some((id.to_owned(), text::clean(&label)))
    }
}
