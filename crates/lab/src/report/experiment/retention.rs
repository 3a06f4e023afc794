//! Retention: the share of its throughput at 100 clients that a target keeps at 1000, beside published figures.

use crate::report::document::{Block, Entry, Table};
use crate::report::format::Style;
use crate::report::metric::Metric;
use crate::report::view::{ExperimentView, Panel, Row, published};

const FEW: &str = "100";
const MANY: &str = "1000";

/// Returns one table over all panels that have both places.
pub(super) fn blocks(view: &ExperimentView<'_>) -> Vec<Block> {
    if view.main() != Metric::Tps || view.experiment.axis != "clients" {
        return Vec::new();
    }
    let heads = [
        "Load",
        "Target",
        ">c100",
        ">c1000",
        ">c1000/c100",
        ">Published",
    ];
    let mut table = Table::new("Throughput kept from 100 clients to 1000", &heads);
    for panel in &view.panels {
        let at = |place: &str| panel.places.iter().position(|other| other == place);
        let (Some(few), Some(many)) = (at(FEW), at(MANY)) else {
            continue;
        };
        table.rows.extend(
            panel
                .rows
                .iter()
                .filter_map(|row| kept(view, panel, row, few, many)),
        );
    }
    if table.rows.is_empty() {
        Vec::new()
    } else {
        vec![Block::Table(table)]
    }
}

fn kept(
    view: &ExperimentView<'_>,
    panel: &Panel<'_>,
    row: &Row<'_>,
    few: usize,
    many: usize,
) -> Option<Vec<Entry>> {
    let (from, to) = (row.points.get(few)?, row.points.get(many)?);
    let (one, two) = (from.center(Metric::Tps)?, to.center(Metric::Tps)?);
    let theirs = |at: usize| {
        let mut all = published(view.experiment, panel.factors(at)?);
        all.find(|figure| figure.ours.as_deref() == Some(&row.target.name))
            .map(|figure| figure.tps)
    };
    let published = theirs(many).and_then(|many| Some(many / theirs(few)?));
    let label = if panel.label.is_empty() {
        &view.experiment.title
    } else {
        &panel.label
    };
    Some(vec![
        Entry::new(label),
        Entry::new(&row.target.title),
        Entry::new(Style::Rate.show(one)),
        Entry::new(Style::Rate.show(two)),
        Entry {
            flagged: !from.flags().is_empty() || !to.flags().is_empty(),
            ..Entry::new(Style::Ratio.show(two / one))
        },
        Entry::new(Style::Ratio.maybe(published)),
    ])
}
