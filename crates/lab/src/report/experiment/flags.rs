//! Flags of one panel, explained below the figures that have them.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::FlagKind;
use crate::report::document::Block;
use crate::report::prose::Prose;
use crate::report::threats;
use crate::report::view::{ExperimentView, Panel};

/// Returns a list with one entry per kind of flag: its meaning, and the figures that have it.
pub(super) fn blocks(view: &ExperimentView<'_>, panel: &Panel<'_>) -> Option<Block> {
    let mut kinds: BTreeMap<FlagKind, BTreeMap<usize, Vec<&str>>> = BTreeMap::new();
    for row in &panel.rows {
        for (at, point) in row.points.iter().enumerate() {
            for kind in point.flags().into_keys() {
                let with = kinds.entry(kind).or_default().entry(at).or_default();
                with.push(&row.target.title);
            }
        }
    }
    let explained = |(kind, places): (&FlagKind, &BTreeMap<usize, Vec<&str>>)| {
        let prose = Prose::new("! ").text(threats::meaning(*kind)).text(" At ");
        prose.name(&figures(view, panel, places)).text(".")
    };
    let list: Vec<Prose> = kinds.iter().map(explained).collect();
    (!list.is_empty()).then_some(Block::List(list))
}

/// Names the flagged figures: `clients 500, 1000: all; clients 1: PgBouncer`.
fn figures(
    view: &ExperimentView<'_>,
    panel: &Panel<'_>,
    places: &BTreeMap<usize, Vec<&str>>,
) -> String {
    let mut groups: Vec<(String, BTreeSet<usize>)> = Vec::new();
    for (at, titles) in places {
        let measured = panel.rows.iter().filter(|row| {
            let point = row.points.get(*at);
            point.is_some_and(|point| !point.cells.is_empty())
        });
        let all = titles.len() > 1 && titles.len() == measured.count();
        let titles = if all {
            "all".to_owned()
        } else {
            titles.join("; ")
        };
        match groups.iter_mut().find(|(known, _)| *known == titles) {
            Some((_, with)) => {
                with.insert(*at);
            }
            None => groups.push((titles, BTreeSet::from([*at]))),
        }
    }
    let group = |(titles, at): &(String, BTreeSet<usize>)| {
        let names = at.iter().filter_map(|at| panel.places.get(*at));
        let names: Vec<&str> = names
            .map(String::as_str)
            .filter(|name| !name.is_empty())
            .collect();
        if names.is_empty() {
            format!("all loads: {titles}")
        } else {
            format!("{} {}: {titles}", view.experiment.axis, names.join(", "))
        }
    };
    groups.iter().map(group).collect::<Vec<_>>().join("; ")
}
