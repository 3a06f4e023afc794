//! The analysis of one workload, as a record.

use serde::{Deserialize, Serialize};
use weir_advisor::analysis::criteria::{Criterion, CriterionKind};
use weir_advisor::analysis::{Analysis, Answer, Kind, Machine, Sweep, SweepError, usl};
use weir_advisor::controller::Goal;

use super::spot::Spot;

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Question<'a> {
    pub(super) kind: Kind,
    pub(super) cores: Option<u32>,
    pub(super) spindles: u32,
    pub(super) goal: Goal,
    pub(super) seed: u64,
    /// Cells after which money was missing: their figures are of work that was not done.
    pub(super) wrong_books: usize,
    /// What speaks against all workloads alike.
    pub(super) doubts: &'a [String],
}

/// A criterion and what it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// For people.
    pub name: String,
    /// How it is reckoned.
    pub formula: String,
    /// Connections; nothing if it cannot tell without extrapolating.
    pub connections: Option<f64>,
    /// What part of the best throughput that is.
    pub part_of_best: Option<f64>,
    /// Whether it comes from measurements.
    pub measured: bool,
}

/// A value with the interval that holds 95 % of its bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Banded {
    /// Of the fit itself.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The Universal Scalability Law, fitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Throughput of one connection.
    pub gamma: Banded,
    /// Contention.
    pub sigma: f64,
    /// Coherency.
    pub kappa: f64,
    /// The largest relative distance of a point.
    pub residual_max: f64,
    /// Where it is highest, if that is within reach.
    pub peak: Option<Banded>,
    /// Where it has 95 % of that.
    pub near_peak: Option<Banded>,
}

/// How many, or why that cannot be said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Verdict {
    /// So many.
    Recommended {
        /// How many.
        connections: u32,
        /// Why.
        reason: String,
        /// What it costs against the highest throughput.
        price: String,
        /// `high`, `medium` or `low`.
        confidence: String,
        /// What speaks against it.
        doubts: Vec<String>,
        /// Lines to paste, for all databases and for one; the same in `weir.toml` and in an ini.
        configuration: [String; 2],
    },
    /// Nothing can be said without guessing.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
}

/// Everything that one workload says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Every criterion with its figure.
    pub rules: Vec<Rule>,
    /// The fitted curve, if the points allow one.
    pub curve: Option<Curve>,
    /// From, to, and by how many per cent throughput grew per cent of connections.
    pub elasticities: Vec<(u32, u32, f64)>,
    /// Little's law: connections, clients, throughput times latency.
    pub little: Vec<(u32, f64, f64)>,
    /// The answer.
    pub verdict: Verdict,
}

/// The spots as the analysis wants them.
pub(super) fn sweep(spots: &[Spot], kind: Kind) -> Result<Sweep, SweepError> {
    Sweep::new(kind, spots.iter().filter_map(Spot::point).collect())
}

/// Asks the analysis.
pub(super) fn judge(spots: &[Spot], question: &Question<'_>) -> Judgement {
    let sweep = match sweep(spots, question.kind) {
        Ok(sweep) => sweep,
        Err(error) => return refused(error.to_string()),
    };
    let mut judgement = of(&sweep, question);
    if question.wrong_books > 0 {
        judgement.verdict = Verdict::Refused {
            reason: format!(
                "the books were wrong after {} cells: money appeared or vanished, and figures of such work mean nothing",
                question.wrong_books
            ),
        };
    }
    judgement
}

fn refused(reason: String) -> Judgement {
    Judgement {
        rules: Vec::new(),
        curve: None,
        elasticities: Vec::new(),
        little: Vec::new(),
        verdict: Verdict::Refused { reason },
    }
}

/// The analysis of a sweep.
pub(super) fn of(sweep: &Sweep, question: &Question<'_>) -> Judgement {
    let machine = Machine {
        cores: question.cores.unwrap_or(0),
        spindles: question.spindles,
    };
    let analysis = Analysis::of(sweep, machine, question.goal, question.seed);
    // Without the cores there is no rule of thumb.
    let known = |criterion: &&Criterion| {
        question.cores.is_some() || criterion.kind != CriterionKind::Heuristic
    };
    Judgement {
        rules: analysis.criteria.iter().filter(known).map(rule).collect(),
        curve: analysis.usl.as_ref().map(curve),
        elasticities: analysis.elasticities.clone(),
        little: analysis
            .little
            .iter()
            .map(|check| (check.connections, check.clients, check.reckoned))
            .collect(),
        verdict: verdict(analysis.answer, question.doubts),
    }
}

fn rule(criterion: &Criterion) -> Rule {
    Rule {
        name: criterion.kind.name().to_owned(),
        formula: criterion.kind.formula().to_owned(),
        connections: criterion.connections,
        part_of_best: criterion.part_of_best,
        measured: criterion.kind.is_measured(),
    }
}

fn curve(usl: &usl::Banded) -> Curve {
    let banded = |band: usl::Band| Banded {
        value: band.value,
        low: band.low,
        high: band.high,
    };
    Curve {
        gamma: banded(usl.gamma),
        sigma: usl.fit.sigma,
        kappa: usl.fit.kappa,
        residual_max: usl.fit.residual_max,
        peak: usl.peak.map(banded),
        near_peak: usl.near_peak.map(banded),
    }
}

fn verdict(answer: Answer, more: &[String]) -> Verdict {
    match answer {
        Answer::Refused(refusal) => Verdict::Refused {
            reason: refusal.to_string(),
        },
        Answer::Recommended(recommendation) => {
            let mut doubts = recommendation.doubts;
            doubts.extend(more.iter().cloned());
            let connections = recommendation.connections;
            Verdict::Recommended {
                connections,
                reason: recommendation.reason,
                price: recommendation.price,
                // The same scale as the analysis has, with what only the measurement knows.
                confidence: match doubts.len() {
                    0 => "high",
                    1 | 2 => "medium",
                    _ => "low",
                }
                .to_owned(),
                doubts,
                configuration: [
                    format!("default_pool_size = {connections}"),
                    format!("pool_size = {connections}"),
                ],
            }
        }
    }
}
