//! Poolers under the loads of one question, compared pair by pair.

use std::collections::{BTreeMap, BTreeSet};

use super::question::{Question, setting};
use crate::record::{Measure, Target};
use crate::report::judge::{Floor, Judged, Verdict};
use crate::report::metric::Metric;
use crate::report::view::{ExperimentView, Panel, Point, View, is_ours, is_relay};
use crate::statistics::{Ratio, mean};

/// Load of a question: a place in a panel of an experiment.
#[derive(Debug, Clone, Copy)]
struct Load<'v, 'a> {
    experiment: &'v ExperimentView<'a>,
    panel: &'v Panel<'a>,
    at: usize,
}

impl<'v, 'a> Load<'v, 'a> {
    fn point(&self, target: &str) -> Option<&'v Point<'a>> {
        self.panel.row(target)?.points.get(self.at)
    }

    /// Returns the point of a target that was measured at the work that was asked for.
    fn asked(&self, target: &str) -> Option<&'v Point<'a>> {
        let point = self.point(target)?;
        (point.measured() > 0 && point.other_work().is_empty()).then_some(point)
    }

    fn clients(&self) -> Option<u64> {
        self.panel.factors(self.at)?.get("clients")?.parse().ok()
    }
}

/// Reason why a pooler is in no comparison of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absence {
    /// No cell could be run.
    Failed,
    /// All cells did other work than was asked for.
    OtherWork,
}

/// All loads of a question, and the poolers that were measured under them.
#[derive(Debug)]
pub(super) struct Contest<'v, 'a> {
    pub(super) question: Question,
    /// Number of workers or processes of each contender.
    pub(super) workers: u32,
    loads: Vec<Load<'v, 'a>>,
    /// Poolers with the same number of workers or processes, in the order of the run.
    pub(super) contenders: Vec<&'a Target>,
    /// Poolers with as many workers that cannot be compared.
    pub(super) absent: Vec<(&'a Target, Absence)>,
}

/// Comparison of one pooler with another over all loads that both have.
#[derive(Debug, Clone)]
pub(super) struct Comparison<'a> {
    pub(super) rival: &'a Target,
    pub(super) judged: Judged,
    /// Loads that both have, as numbers in the contest.
    pub(super) loads: BTreeSet<usize>,
    /// Those of these loads at which it is ahead beyond the noise.
    ahead: BTreeSet<usize>,
    /// Those of these loads at which the rival is ahead beyond the noise.
    pub(super) behind: BTreeSet<usize>,
    /// Those of these loads with a flagged cell of either.
    pub(super) flagged: BTreeSet<usize>,
}

impl Comparison<'_> {
    /// True if the lead counts: it is beyond the noise over all loads and at one of them at least, and no load says
    /// the opposite.
    fn is_lead(&self) -> bool {
        let is_beyond_noise = self.judged.verdict == Verdict::Better;
        is_beyond_noise && !self.ahead.is_empty() && self.behind.is_empty()
    }
}

/// Result of a contest by one metric.
#[derive(Debug, Clone)]
pub(super) struct Standing<'a> {
    pub(super) leader: &'a Target,
    /// Rivals that the leader is ahead of, the nearest first.
    pub(super) beaten: Vec<Comparison<'a>>,
    /// Rivals that no lead over is known, the nearest first.
    pub(super) open: Vec<Comparison<'a>>,
}

/// True if a target is a pooler that readers may choose: no relay, no second name, and no variant of Weir.
pub(super) fn is_contender(target: &Target) -> bool {
    let name = target.name.as_str();
    let is_variant = name.starts_with("weir-") && !is_ours(name);
    !is_relay(name) && target.twin_of.is_none() && !is_variant
}

/// Returns the number of workers or processes in a target's name, such as `odyssey-2` or `pgbouncer-x2`.
fn workers(target: &Target) -> u32 {
    let last = target.name.rsplit_once('-').map(|(_, last)| last);
    let number = last.map(|last| last.strip_prefix('x').unwrap_or(last));
    number.and_then(|text| text.parse().ok()).unwrap_or(1)
}

impl<'v, 'a> Contest<'v, 'a> {
    /// Collects the loads that answer `question`, and the poolers under them. Of several numbers of workers the one
    /// with most poolers counts, and of equal ones the smallest.
    pub(super) fn new(view: &'v View<'a>, question: Question) -> Self {
        let loads: Vec<Load<'v, 'a>> = view
            .experiments
            .iter()
            .filter(|experiment| experiment.experiment.measure == Measure::Throughput)
            .flat_map(|experiment| loads(experiment, question))
            .collect();
        let mut classes: BTreeMap<u32, Vec<&'a Target>> = BTreeMap::new();
        let targets = view
            .results
            .run
            .targets
            .iter()
            .filter(|target| is_contender(target));
        for target in targets {
            if loads.iter().any(|load| load.asked(&target.name).is_some()) {
                classes.entry(workers(target)).or_default().push(target);
            }
        }
        let largest = classes.iter().rev().max_by_key(|(_, class)| class.len());
        let (class, contenders) = largest.map_or((1, Vec::new()), |(n, found)| (*n, found.clone()));
        let mut contest = Self {
            question,
            workers: class,
            loads,
            contenders,
            absent: Vec::new(),
        };
        let others = view
            .results
            .run
            .targets
            .iter()
            .filter(|target| is_contender(target));
        let others = others.filter(|target| workers(target) == class);
        contest.absent = others
            .filter_map(|target| Some((target, contest.absence(target)?)))
            .collect();
        contest
    }

    /// True if nothing was measured or tried under a load of the question.
    pub(super) fn is_empty(&self) -> bool {
        self.contenders.is_empty() && self.absent.is_empty()
    }

    /// Returns the smallest and the largest number of clients.
    pub(super) fn clients(&self) -> Option<(u64, u64)> {
        let clients = || self.loads.iter().filter_map(Load::clients);
        clients().min().zip(clients().max())
    }

    /// Ranks the poolers by a metric; `None` if no two of them can be compared.
    pub(super) fn standing(&self, metric: Metric) -> Option<Standing<'a>> {
        let reference = self.reference()?;
        let gain = |target: &'a Target| {
            if target.name == reference.name {
                Some(0.0)
            } else {
                Some(self.compare(target, reference, metric)?.judged.gain())
            }
        };
        let ranked = self.contenders.iter().copied();
        let ranked = ranked.filter_map(|target| Some((gain(target)?, target)));
        let (_, leader) = ranked.max_by(|one, two| one.0.total_cmp(&two.0))?;
        let rivals = self.contenders.iter().copied();
        let rivals = rivals.filter(|target| target.name != leader.name);
        let mut all: Vec<Comparison<'a>> = rivals
            .filter_map(|rival| self.compare(leader, rival, metric))
            .collect();
        all.sort_by(|one, two| one.judged.gain().total_cmp(&two.judged.gain()));
        let (beaten, open): (Vec<_>, Vec<_>) = all.into_iter().partition(Comparison::is_lead);
        (beaten.len() + open.len() > 0).then_some(Standing {
            leader,
            beaten,
            open,
        })
    }

    /// Returns the reason why a pooler is not among the contenders, if it was tried at all.
    fn absence(&self, target: &Target) -> Option<Absence> {
        if self
            .contenders
            .iter()
            .any(|other| other.name == target.name)
        {
            return None;
        }
        let points = self
            .loads
            .iter()
            .filter_map(|load| load.point(&target.name));
        let mut points = points.filter(|point| !point.cells.is_empty()).peekable();
        points.peek()?;
        if points.any(|point| point.measured() > 0) {
            Some(Absence::OtherWork)
        } else {
            Some(Absence::Failed)
        }
    }

    /// Returns the pooler that leads are measured against: the base of an experiment, or else the first of the others.
    fn reference(&self) -> Option<&'a Target> {
        let is_base = |target: &&&Target| {
            let mut loads = self.loads.iter();
            loads.any(|load| load.experiment.experiment.base == target.name)
        };
        let others = || {
            self.contenders
                .iter()
                .filter(|target| !is_ours(&target.name))
        };
        let found = others().find(is_base).or_else(|| others().next());
        found.or_else(|| self.contenders.first()).copied()
    }

    /// Compares two poolers. The blocks are the sample: in each the ratios of all loads are averaged, so that every
    /// load has the same weight. `None` if no block has both under every load that both have.
    fn compare(&self, one: &Target, rival: &'a Target, metric: Metric) -> Option<Comparison<'a>> {
        let mut logs: BTreeMap<usize, BTreeMap<u32, f64>> = BTreeMap::new();
        let [mut ahead, mut behind, mut flagged]: [BTreeSet<usize>; 3] = Default::default();
        let mut floors: BTreeMap<&str, &Floor> = BTreeMap::new();
        for (number, load) in self.loads.iter().enumerate() {
            let (Some(own), Some(other)) = (load.asked(&one.name), load.asked(&rival.name)) else {
                continue;
            };
            let by_block = own.logs_by_block(other, metric);
            if by_block.is_empty() {
                continue;
            }
            let alone: Vec<f64> = by_block.values().copied().collect();
            let floor = load.experiment.floors.get(&metric);
            let judged = Ratio::of_logs(&alone)
                .map(|ratio| Judged::new(ratio, floor, metric.more_is_better()));
            let by_itself: Option<&mut BTreeSet<usize>> = match judged.map(|judged| judged.verdict)
            {
                Some(Verdict::Better) => Some(&mut ahead),
                Some(Verdict::Worse) => Some(&mut behind),
                _ => None,
            };
            by_itself.map(|loads| loads.insert(number));
            if !own.flags().is_empty() || !other.flags().is_empty() {
                flagged.insert(number);
            }
            let name = load.experiment.experiment.name.as_str();
            floors.extend(floor.map(|floor| (name, floor)));
            logs.insert(number, by_block);
        }
        let each: Vec<&BTreeMap<u32, f64>> = logs.values().collect();
        let ratio = Ratio::of_logs(&means(&each))?;
        let floors: Vec<&Floor> = floors.into_values().collect();
        Some(Comparison {
            rival,
            judged: judged(ratio, &floors, metric),
            loads: logs.into_keys().collect(),
            ahead,
            behind,
            flagged,
        })
    }
}

/// Returns the loads of an experiment that answer a question.
fn loads<'v, 'a>(experiment: &'v ExperimentView<'a>, question: Question) -> Vec<Load<'v, 'a>> {
    let Some(setting) = setting(experiment.experiment) else {
        return Vec::new();
    };
    let places = experiment
        .panels
        .iter()
        .flat_map(|panel| (0..panel.places.len()).map(move |at| (panel, at)));
    let asked = places.filter(|(panel, at)| {
        let factors = panel.factors(*at);
        factors.is_some_and(|factors| question.asks(&setting, factors))
    });
    asked
        .map(|(panel, at)| Load {
            experiment,
            panel,
            at,
        })
        .collect()
}

/// Returns the mean over all loads for each block that all of them have.
fn means(logs: &[&BTreeMap<u32, f64>]) -> Vec<f64> {
    let blocks: BTreeSet<u32> = logs.iter().flat_map(|load| load.keys().copied()).collect();
    let of_block = |block: u32| {
        let values: Option<Vec<f64>> = logs.iter().map(|load| load.get(&block).copied()).collect();
        mean(&values?)
    };
    blocks.into_iter().filter_map(of_block).collect()
}

/// Judges a ratio against the noise floors of all experiments that it is from: it must pass each.
fn judged(ratio: Ratio, floors: &[&Floor], metric: Metric) -> Judged {
    let against = |floor| Judged::new(ratio, floor, metric.more_is_better());
    let all = floors.iter().map(|floor| against(Some(*floor)));
    // A verdict of noise dismisses, and an unjudged one supports nothing.
    let weight = |judged: &Judged| match judged.verdict {
        Verdict::Noise => 2,
        Verdict::OtherWork | Verdict::Unjudged => 1,
        Verdict::Better | Verdict::Worse => 0,
    };
    all.max_by_key(weight).unwrap_or_else(|| against(None))
}
