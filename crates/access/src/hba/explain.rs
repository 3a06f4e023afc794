//! Explains for every line, in one plain sentence, why it fits a visitor or does not.

use std::fmt;

use crate::error::Place;
use crate::hba::{Column, Decision, Hba, Lack, Verdict, judge, source};
use crate::rule::{ClientCertificate, Kind, Method, Rule};
use crate::visitor::{Answer, Fact, Facts, Visitor};

/// Result of [`Hba::explain`].
///
/// `Display` writes two text lines per rule, and the decision at the end.
#[derive(Clone, Debug)]
pub struct Explanation<'h> {
    /// The lines in their order.
    pub lines: Vec<ExplainedLine>,
    /// The decision of [`Hba::decide`].
    pub decision: Decision<'h>,
}

/// A line and its result for the visitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedLine {
    /// Place of the line.
    pub place: Place,
    /// Text of the line, as [`Rule::text`].
    pub text: String,
    /// Result of the comparison.
    pub outcome: Outcome,
    /// Reason in one sentence: lower case, without a full stop.
    pub why: String,
}

/// Result of comparing a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The line fits; the first such line decides.
    Fits,
    /// The line does not fit.
    Misses,
    /// A fact has to be looked up first.
    Open,
}

impl Hba {
    /// Explains every line up to the one that decides.
    #[must_use]
    pub fn explain(&self, visitor: &Visitor<'_>, facts: &Facts<'_>) -> Explanation<'_> {
        let mut explanation = self.explain_all(visitor, facts);
        let decides = |line: &ExplainedLine| line.outcome != Outcome::Misses;
        if let Some(first) = explanation.lines.iter().position(decides) {
            explanation.lines.truncate(first + 1);
        }
        explanation
    }

    /// Explains every line, also those behind the one that decides.
    #[must_use]
    pub fn explain_all(&self, visitor: &Visitor<'_>, facts: &Facts<'_>) -> Explanation<'_> {
        let lines = self.rules().iter();
        Explanation {
            lines: lines.map(|rule| line(rule, visitor, facts)).collect(),
            decision: self.decide(visitor, facts),
        }
    }
}

fn line(rule: &Rule, visitor: &Visitor<'_>, facts: &Facts<'_>) -> ExplainedLine {
    let (outcome, why) = match judge(rule, visitor, facts) {
        Verdict::Fits => (Outcome::Fits, fits(rule, visitor)),
        Verdict::Lacks { lack, fits } => {
            let (outcome, so) = match fits {
                true => (Outcome::Fits, "a reject line counts as fitting then"),
                false => (Outcome::Misses, "the line counts as not fitting then"),
            };
            (
                outcome,
                format!("{} could not be found out; {so}", lacks(lack)),
            )
        }
        Verdict::Miss(column) => (Outcome::Misses, misses(rule, column, visitor, facts)),
        Verdict::Needs(fact) => {
            let what = lacks(Lack::Fact(fact));
            (Outcome::Open, format!("it depends on {what}"))
        }
    };
    ExplainedLine {
        place: rule.place().clone(),
        text: rule.text().to_owned(),
        outcome,
        why,
    }
}

fn fits(rule: &Rule, visitor: &Visitor<'_>) -> String {
    let then = match rule.method() {
        Method::Reject => "the connection is refused".to_owned(),
        Method::Trust => "the user is let in without proof".to_owned(),
        method => format!("the user has to log in by {}", method.name()),
    };
    let certificate = match rule.client_certificate() {
        ClientCertificate::NotNeeded => "",
        _ if rule.lacks_certificate(visitor.transport) => {
            ", but a verified client certificate is needed and there is none, so the login fails"
        }
        ClientCertificate::VerifyCa => ", with a verified client certificate",
        ClientCertificate::VerifyFull => {
            ", with a verified client certificate whose name leads to the user"
        }
    };
    format!("every column fits: {then}{certificate}")
}

const fn lacks(lack: Lack) -> &'static str {
    match lack {
        Lack::Fact(Fact::HostName) => "the name of the client's host",
        Lack::Fact(Fact::Roles) => "the roles of the user",
        Lack::Interfaces => "the list of this machine's addresses",
    }
}

fn misses(rule: &Rule, column: Column, visitor: &Visitor<'_>, facts: &Facts<'_>) -> String {
    let user = visitor.user;
    match column {
        Column::Address => wrong_address(visitor, facts),
        Column::Database if visitor.physical_replication => {
            "physical replication fits only the keyword replication in the database column".into()
        }
        Column::Database => format!(
            "the database \"{}\" of user \"{user}\" is not in the database column",
            visitor.database
        ),
        Column::Kind => wrong_kind(rule.kind()).into(),
        Column::User => format!("the user \"{user}\" is not in the user column"),
    }
}

fn wrong_address(visitor: &Visitor<'_>, facts: &Facts<'_>) -> String {
    let Some((ip, _)) = source(visitor.origin) else {
        return "the connection has no address".into();
    };
    match facts.host_name {
        Answer::Known(Some(name)) => {
            format!("the client's address {ip} ({name}) is not in the address column")
        }
        Answer::Known(None) => format!(
            "the client's address {ip}, which has no confirmed name, is not in the address column"
        ),
        Answer::Failed | Answer::NotAsked => {
            format!("the client's address {ip} is not in the address column")
        }
    }
}

const fn wrong_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Local => "the line is for Unix sockets, the connection came over TCP",
        Kind::Host | Kind::HostNoGssEnc => {
            "the line is for TCP, the connection came over a Unix socket"
        }
        Kind::HostSsl => "the line is for TCP with TLS, which the connection is not",
        Kind::HostNoSsl => "the line is for TCP without TLS, which the connection is not",
        Kind::HostGssEnc => "the line is for encryption by GSSAPI, which is never offered",
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        match self.decision {
            Decision::Needs(fact) => {
                write!(
                    f,
                    "undecided: {} must be looked up",
                    lacks(Lack::Fact(fact))
                )
            }
            Decision::NoRule => f.write_str("refused: no line fits"),
            Decision::Rule(rule) => match rule.method() {
                Method::Reject => write!(f, "refused by {}", rule.place()),
                method => write!(f, "{} by {}", method.name(), rule.place()),
            },
        }
    }
}

impl fmt::Display for ExplainedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Fits => "fits",
            Outcome::Misses => "does not fit",
            Outcome::Open => "open",
        };
        let Self {
            place, text, why, ..
        } = self;
        write!(f, "{place}: {text}\n    {outcome}: {why}")
    }
}
