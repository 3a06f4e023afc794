//! Result of the analysis of one workload, as a record.

use serde::{Deserialize, Serialize};
use weir_advisor::analysis::criteria::{Criterion, CriterionKind};
use weir_advisor::analysis::{Analysis, Answer, Kind, Machine, Sweep, SweepError, usl};
use weir_advisor::controller::Goal;

use super::spot::Spot;

/// Input of the analysis besides the measurements.
#[derive(Clone, Debug)]
pub(super) struct Question<'a> {
    pub(super) kind: Kind,
    pub(super) cores: Option<u32>,
    pub(super) spindles: u32,
    pub(super) goal: Goal,
    pub(super) seed: u64,
    /// Number of cells after which money was missing: their figures are of work that was not done.
    pub(super) wrong_books: usize,
    /// Doubts that concern all workloads.
    pub(super) doubts: &'a [String],
}

/// Criterion and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Name, for display.
    pub name: String,
    /// Formula of the criterion.
    pub formula: String,
    /// Number of connections; `None` if the criterion would have to extrapolate.
    pub connections: Option<f64>,
    /// Share of the best throughput at that number.
    pub part_of_best: Option<f64>,
    /// True if the result comes from measurements.
    pub measured: bool,
}

/// Value with the 95 % interval of its bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Banded {
    /// Value of the fit.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Fit of the Universal Scalability Law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Throughput of one connection.
    pub gamma: Banded,
    /// Contention.
    pub sigma: f64,
    /// Coherency.
    pub kappa: f64,
    /// Largest relative distance of a point from the curve.
    pub residual_max: f64,
    /// Number of connections at the peak, if it is within reach.
    pub peak: Option<Banded>,
    /// Number of connections at 95 % of the peak.
    pub near_peak: Option<Banded>,
}

/// Recommended number of connections, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Verdict {
    /// A number can be recommended.
    Recommended {
        /// Number of connections.
        connections: u32,
        /// Reason for it.
        reason: String,
        /// Loss against the highest throughput.
        price: String,
        /// Confidence: `high`, `medium` or `low`.
        confidence: String,
        /// Doubts about it.
        doubts: Vec<String>,
        /// Configuration lines to paste, for all databases and for one. They are valid in
        /// `weir.toml` and in an ini.
        configuration: [String; 2],
    },
    /// An answer would be a guess.
    Refused {
        /// Reason, and what to do.
        reason: String,
    },
}

/// Result of the analysis of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Criteria with their results.
    pub rules: Vec<Rule>,
    /// The fitted curve, if the points allow one.
    pub curve: Option<Curve>,
    /// Elasticities: from, to, and growth of throughput in per cent for each per cent more
    /// connections.
    pub elasticities: Vec<(u32, u32, f64)>,
    /// Checks of Little's law: connections, clients, throughput times latency.
    pub little: Vec<(u32, f64, f64)>,
    /// The answer.
    pub verdict: Verdict,
}

/// Converts the spots for the analysis.
pub(super) fn sweep(spots: &[Spot], kind: Kind) -> Result<Sweep, SweepError> {
    Sweep::new(kind, spots.iter().filter_map(Spot::point).collect())
}

/// Analyses the spots; refuses an answer if books were wrong.
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

/// Analyses a sweep.
pub(super) fn of(sweep: &Sweep, question: &Question<'_>) -> Judgement {
    let machine = Machine {
        cores: question.cores.unwrap_or(0),
        spindles: question.spindles,
    };
    let analysis = Analysis::of(sweep, machine, question.goal, question.seed);
    // The rule of thumb needs the number of cores.
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
                // Same scale as in the analysis, but including the doubts that only the measurement
                // knows.
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
