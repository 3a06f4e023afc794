//! Questions of readers, and the loads that answer them.

use crate::experiment::{self, Experiment};
use crate::record::{self, Setting};
use crate::report::view::Factors;

/// Most clients that count as few: no more than the servers of the larger pools here.
const FEW_MAX: u64 = 50;
/// Fewest clients that count as many.
const MANY_MIN: u64 = 500;
/// Program in front of several poolers in the question about it.
const HAPROXY: &str = "haproxy";

/// Kind of use that readers ask about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Hardly more clients than servers.
    FewClients,
    /// Many more clients than servers.
    ManyClients,
    /// Clients use TLS.
    Tls,
    /// Statements are prepared once and executed many times.
    Prepared,
    /// HAProxy distributes the clients over several poolers.
    BehindHaproxy,
}

impl Question {
    /// All questions, in the order of the report.
    pub(super) const ALL: [Self; 5] = [
        Self::FewClients,
        Self::ManyClients,
        Self::Tls,
        Self::Prepared,
        Self::BehindHaproxy,
    ];

    /// Returns the beginning of its sentence.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::FewClients => "With few clients",
            Self::ManyClients => "With many clients",
            Self::Tls => "Over TLS",
            Self::Prepared => "With prepared statements",
            Self::BehindHaproxy => "Behind HAProxy",
        }
    }

    /// True if a load with this set-up and these factors answers it. Replicas and programs in front belong to no
    /// question but their own, and without a database no load says what an application would see.
    pub(super) fn asks(self, setting: &Setting, factors: &Factors) -> bool {
        let clients: Option<u64> = factors.get("clients").and_then(|text| text.parse().ok());
        let tls = factors.get("tls").map_or(setting.tls, |tls| tls != "none");
        let plain = setting.front.is_none() && setting.replicas == 0;
        let fits = match self {
            Self::FewClients => plain && clients.is_some_and(|clients| clients <= FEW_MAX),
            Self::ManyClients => plain && clients.is_some_and(|clients| clients >= MANY_MIN),
            Self::Tls => plain && tls,
            Self::Prepared => {
                plain
                    && factors
                        .get("protocol")
                        .is_some_and(|name| name == "prepared")
            }
            Self::BehindHaproxy => setting.front.as_deref() == Some(HAPROXY),
        };
        fits && setting.database
    }
}

/// Returns the set-up of an experiment. Results of earlier versions do not have it: the built-in experiment of the
/// same name then tells.
pub(super) fn setting(experiment: &record::Experiment) -> Option<Setting> {
    experiment.setting.clone().or_else(|| {
        let text = experiment::builtin_text(&experiment.name)?;
        let built_in = Experiment::parse(&experiment.name, text).ok()?;
        Some(built_in.setting())
    })
}
