//! Published figures beside the measured ones.

use super::document::{Block, Column, Entry, Table};
use super::format::{self, Style};
use super::judge::Verdict;
use super::prose::Prose;
use super::view::{ExperimentView, Panel, Point, Row, is_ours, published};
use crate::record::Published;

/// Returns the part of the section on published figures, if there are any.
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

/// Returns the published ratio to the base at a place, for one of our targets.
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
    let places = || 0..panel.places.len();
    for (name, ours) in &names {
        let figure = |place: usize| at(place).find(|figure| figure.target == *name);
        let mut row = vec![Entry::new(format!("{name}, published"))];
        row.extend(places().map(|place| theirs(view, panel, figure(place), place)));
        table.rows.push(row);
        match ours.and_then(|ours| panel.row(ours)) {
            Some(row) => table.rows.push(measured(view, panel, row)),
            None => {
                let mut row = vec![Entry::new(format!("{name}: not measured here"))];
                row.extend(places().map(|_| Entry::new(format::NONE)));
                table.rows.push(row);
            }
        }
    }
    let named = |row: &&Row<'_>| {
        names
            .iter()
            .any(|(_, ours)| *ours == Some(row.target.name.as_str()))
    };
    let own = panel
        .rows
        .iter()
        .filter(|row| is_ours(&row.target.name) && !named(row));
    table.rows.extend(own.map(|row| measured(view, panel, row)));
    Some(table)
}

fn caption(view: &ExperimentView<'_>, panel: &Panel<'_>) -> String {
    match panel.label.as_str() {
        "" => format!("{}: published and here", view.experiment.title),
        label => format!("{}, {label}: published and here", view.experiment.title),
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

fn measured(view: &ExperimentView<'_>, panel: &Panel<'_>, row: &Row<'_>) -> Vec<Entry> {
    let mut entries = vec![Entry::new(format!("{}, here", row.target.title))];
    let here = |(at, point): (usize, &Point<'_>)| here(view, panel, row, at, point);
    entries.extend(row.points.iter().enumerate().map(here));
    entries
}

fn here(
    view: &ExperimentView<'_>,
    panel: &Panel<'_>,
    row: &Row<'_>,
    at: usize,
    point: &Point<'_>,
) -> Entry {
    let Some(value) = point.center(view.main()) else {
        return Entry::new(format::NONE);
    };
    let ratio = match panel.base_row() {
        Some(base) if base.target.name == row.target.name => Some(1.0),
        _ => view
            .judge(view.main(), panel, row, at)
            .filter(|judged| judged.verdict != Verdict::OtherWork)
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
