//! Failure of a probe, as the caller reports it.

use std::fmt;
use std::sync::Arc;

/// Failure of a probe, or of the idle connection that probes use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Words of the host or of the operating system.
    pub text: Arc<str>,
}

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The host answered the probe with an error, or with something that is no answer.
    BadAnswer,
    /// The host starts or stops (57P03): it serves nobody.
    Busy,
    /// The host has no connection left (53300). Sessions that it has go on.
    Full,
    /// The host refused the login of the probe for another reason: it is alive.
    Login,
    /// The connection was refused: nobody listens.
    Refused,
    /// The connection was reset or closed.
    Reset,
    /// No answer came in time.
    Timeout,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadAnswer => "the answer to a probe is no answer",
            Self::Busy => "it starts or stops",
            Self::Full => "it has no connection left",
            Self::Login => "it refuses the login of the probe",
            Self::Refused => "connection refused",
            Self::Reset => "connection closed",
            Self::Timeout => "no answer in time",
        })
    }
}
