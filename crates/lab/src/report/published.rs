//! What others published, beside what was measured here.

use super::document::{Block, Column, Entry, Table};
use super::format::{self, Style};
use super::prose::Prose;
use super::view::{ExperimentView, Panel, published};
use crate::record::Published;

/// The section's part, if something was published.
pub(super) fn blocks(view: &ExperimentView<'_>) -> Vec<Block> {
    let tables: Vec<Block> = view
        .panels
        .iter()
        .filter_map(|panel| table(view, panel))
        .map(Block::Table)
        .collect();
    if tables.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::heading(4, "Beside the published figures")];
    blocks.extend(
        view.experiment
            .published_setup
            .as_deref()
            .map(Prose::quote)
            .map(Block::Note),
    );
    blocks.extend(tables);
    blocks.push(Block::Note(Prose::new(
        "Transactions per second, and in brackets the ratio to the base of the same study. Figures of \
         different machines cannot be compared; ratios can, with care.",
    )));
    blocks
}

/// The published ratio to the base at a place, for one of our targets.
pub(super) fn ratio(
    view: &ExperimentView<'_>,
    panel: &Panel<'_>,
    target: &str,
    at: usize,
) -> Option<f64> {
    let factors = panel.factors(at)?;
    let figure = |ours: &str| {
        let mut all = published(view.experiment, factors);
        all.find(|figure| figure.ours.as_deref() == Some(ours))
            .map(|figure| figure.tps)
    };
    let ratio = figure(target)? / figure(&view.experiment.base)?;
    ratio.is_finite().then_some(ratio)
}

fn table(view: &ExperimentView<'_>, panel: &Panel<'_>) -> Option<Table> {
    let at = |place: usize| {
        let factors = panel.factors(place);
        factors
            .into_iter()
            .flat_map(|factors| published(view.experiment, factors))
    };
    let mut names: Vec<(&str, Option<&str>)> = Vec::new();
    for place in 0..panel.places.len() {
        for figure in at(place) {
            if !names.iter().any(|(name, _)| *name == figure.target) {
                names.push((&figure.target, figure.ours.as_deref()));
            }
        }
    }
    if names.is_empty() {
        return None;
    }
    let mut table = Table::new(caption(view, panel), &["Target"]);
    let column = |place: &String| Column {
        title: format!("{} {place}", view.experiment.axis),
        right: true,
    };
    table.columns.extend(panel.places.iter().map(column));
    for (name, ours) in names {
        let figure = |place: usize| at(place).find(|figure| figure.target == name);
        let mut row = vec![Entry::new(format!("{name}, published"))];
        let places = 0..panel.places.len();
        row.extend(
            places
                .clone()
                .map(|place| theirs(view, panel, figure(place), place)),
        );
        table.rows.push(row);
        let title = ours
            .and_then(|ours| panel.row(ours))
            .map(|row| row.target.title.as_str());
        let mut row = vec![Entry::new(title.map_or_else(
            || format!("{name}: not measured here"),
            |title| format!("{title}, here"),
        ))];
        row.extend(places.map(|place| here(view, panel, ours, place)));
        table.rows.push(row);
    }
    Some(table)
}

fn caption(view: &ExperimentView<'_>, panel: &Panel<'_>) -> String {
    match panel.label.as_str() {
        "" => format!("{}: published and here", view.experiment.name),
        label => format!("{}, {label}: published and here", view.experiment.name),
    }
}

fn theirs(
    view: &ExperimentView<'_>,
    panel: &Panel<'_>,
    figure: Option<&Published>,
    at: usize,
) -> Entry {
    let Some(figure) = figure else {
        return Entry::new(format::NONE);
    };
    let base = panel.factors(at).and_then(|factors| {
        let mut all = published(view.experiment, factors);
        all.find(|other| other.ours.as_deref() == Some(view.experiment.base.as_str()))
    });
    Entry::new(with_ratio(
        figure.tps,
        base.map(|base| figure.tps / base.tps),
    ))
}

fn here(view: &ExperimentView<'_>, panel: &Panel<'_>, ours: Option<&str>, at: usize) -> Entry {
    let row = ours.and_then(|ours| panel.row(ours));
    let Some((row, point)) = row.and_then(|row| Some((row, row.points.get(at)?))) else {
        return Entry::new(format::NONE);
    };
    let Some(value) = point.center(view.main()) else {
        return Entry::new(format::NONE);
    };
    let ratio = match panel.base_row() {
        Some(base) if base.target.name == row.target.name => Some(1.0),
        _ => view
            .judge(view.main(), panel, row, at)
            .map(|judged| judged.ratio.mean),
    };
    Entry {
        flagged: !point.flags().is_empty(),
        ..Entry::new(with_ratio(value, ratio))
    }
}

fn with_ratio(tps: f64, ratio: Option<f64>) -> String {
    match ratio.filter(|ratio| ratio.is_finite()) {
        Some(ratio) => format!("{} ({})", Style::Rate.show(tps), Style::Ratio.show(ratio)),
        None => Style::Rate.show(tps),
    }
}
