//! Compares one target under one load in both runs.

use crate::record::Target;
use crate::report::judge::{Floor, Verdict};
use crate::report::metric::Metric;
use crate::report::view::{ExperimentView, Factors, Panel, Point, View};
use crate::statistics::{Ratio, Sample, rank};

/// Largest p that counts as a difference.
pub(super) const P: f64 = 0.05;

/// Run of a comparison, and its view of the experiment.
pub(super) struct Side<'v, 'a> {
    pub(super) view: &'v View<'a>,
    pub(super) experiment: &'v ExperimentView<'a>,
}

/// Comparison of a cell that both runs have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    /// [`Target::name`].
    pub(super) target: String,
    /// Title of the target, for display.
    pub(super) title: String,
    /// Values of the varied factors, for display.
    pub(super) load: String,
    /// Values of the first run, as measured.
    pub(super) before: Sample,
    /// Values of the second run, as measured.
    pub(super) after: Sample,
    /// Ratio of second to first run; of values divided by the base's, if [`Self::by_base`].
    pub(super) ratio: Ratio,
    /// Probability that the rank test gives.
    pub(super) p: f64,
    /// True if values were divided by the base's of the same block.
    pub(super) by_base: bool,
    pub(super) verdict: Verdict,
    pub(super) flagged: bool,
}

impl Pair {
    /// Returns the size of the change, in steps of the heat map.
    pub(super) fn step(&self) -> u8 {
        crate::report::judge::Judged::new(self.ratio, None, true).step()
    }
}

/// Returns the pairs of all cells that both runs have.
pub(super) fn all(sides: &[Side<'_, '_>; 2], metric: Metric) -> Vec<Pair> {
    let [before, after] = sides;
    let targets = &before.view.results.run.targets;
    let mut pairs = Vec::new();
    // By target first: a reader looks for the row of loads of one target.
    for target in targets {
        for panel in &before.experiment.panels {
            for at in 0..panel.places.len() {
                let Some(factors) = panel.factors(at) else {
                    continue;
                };
                let found = find(after.experiment, factors);
                let here = (panel, at);
                pairs.extend(found.and_then(|there| pair(sides, metric, target, here, there)));
            }
        }
    }
    pairs
}

/// Position of a cell: a panel and a place in it.
type Spot<'p, 'a> = (&'p Panel<'a>, usize);

fn find<'p, 'a>(experiment: &'p ExperimentView<'a>, factors: &Factors) -> Option<Spot<'p, 'a>> {
    experiment.panels.iter().find_map(|panel| {
        let places = 0..panel.places.len();
        let at = places
            .into_iter()
            .find(|at| panel.factors(*at) == Some(factors))?;
        Some((panel, at))
    })
}

fn point<'p, 'a>((panel, at): Spot<'p, 'a>, target: &str) -> Option<&'p Point<'a>> {
    panel.row(target)?.points.get(at)
}

fn pair(
    sides: &[Side<'_, '_>; 2],
    metric: Metric,
    target: &Target,
    here: Spot<'_, '_>,
    there: Spot<'_, '_>,
) -> Option<Pair> {
    let [before, after] = sides;
    let (one, two) = (point(here, &target.name)?, point(there, &target.name)?);
    let base = before.experiment.experiment.base.as_str();
    let relative = (target.name != base && same_program(sides, base))
        .then(|| {
            Some((
                over(here, base, one, metric)?,
                over(there, base, two, metric)?,
            ))
        })
        .flatten();
    let by_base = relative.is_some();
    let raw = |point: &Point<'_>| -> Vec<f64> {
        point
            .cells
            .values()
            .filter_map(|cell| metric.of(cell))
            .collect()
    };
    let (first, second) = relative.unwrap_or_else(|| (raw(one), raw(two)));
    let ratio = Ratio::unpaired(&first, &second)?;
    let p = rank::test(&first, &second)?.p;
    let floors = [before, after].map(|side| side.experiment.floors.get(&metric));
    let differs = differs(&ratio, p, (first.len(), second.len()), floors);
    let verdict = match differs {
        _ if one.other_work() != two.other_work() => Verdict::OtherWork,
        None => Verdict::Unjudged,
        Some(false) => Verdict::Noise,
        Some(true) if (ratio.mean > 1.0) == metric.more_is_better() => Verdict::Better,
        Some(true) => Verdict::Worse,
    };
    Some(Pair {
        target: target.name.clone(),
        title: target.title.clone(),
        load: here.0.load(&before.experiment.experiment.axis, here.1),
        before: one.sample(metric)?,
        after: two.sample(metric)?,
        ratio,
        p,
        by_base,
        verdict,
        flagged: !one.flags().is_empty() || !two.flags().is_empty(),
    })
}

/// Returns the values divided by the base's in the same block; `None` if no block has both.
fn over(spot: Spot<'_, '_>, base: &str, point: &Point<'_>, metric: Metric) -> Option<Vec<f64>> {
    let pairs = point.pairs(self::point(spot, base)?, metric);
    let ratios: Vec<f64> = pairs.iter().map(|(one, base)| one / base).collect();
    (!ratios.is_empty()).then_some(ratios)
}

/// True if the program of this name is known to be identical in both runs (by its SHA-256).
pub(super) fn same_program(sides: &[Side<'_, '_>; 2], name: &str) -> bool {
    let [one, two] = sides.each_ref().map(|side| {
        let mut targets = side.view.results.run.targets.iter();
        targets
            .find(|target| target.name == name)?
            .sha256
            .as_deref()
    });
    one.is_some() && one == two
}

/// Returns whether the difference counts, by the rules of the module above; `None` if it cannot be
/// judged.
fn differs(
    ratio: &Ratio,
    p: f64,
    (first, second): (usize, usize),
    floors: [Option<&Floor>; 2],
) -> Option<bool> {
    let by_rank = (rank::least_p(first, second) <= P).then_some(p <= P);
    let own = by_rank.or_else(|| ratio.differs());
    let passed = floors
        .into_iter()
        .flatten()
        .filter_map(|floor| floor.is_passed(ratio.mean, ratio.pairs));
    let floor = passed.reduce(|one, two| one && two);
    match (own, floor) {
        (Some(own), Some(floor)) => Some(own && floor),
        (own, floor) => own.or(floor),
    }
}
