//! Allow-lists: the statements that a user may run, learnt from what the user has run.
//!
//! A statement is known by its canonical form, in which literals are left out, or by its whole text where literals are code
//! ([`weir_sql::literals_matter`]). Fingerprints are not enough: `SELECT a.* FROM t a, u b` and `SELECT a.* FROM t b, u a` have
//! one.
//!
//! **Invariants.** A decision is kept by shape only if the text is sure to be read as its shape tells, and if its literals do not
//! matter. A statement of which a part cannot be read is not in any list.

use std::collections::HashMap;
use std::sync::Arc;

use weir_sql::{ShapeKey, is_clear, is_control};

use crate::rule::Rejection;
use crate::verdict::Stage;

mod entry;
mod record;

pub use entry::{BadEntry, BadKnown, Entry, Form, Known};
use record::Looked;
pub use record::{Record, Recorded, Standing, StatementList, Totals};

/// Number of shapes whose decisions are kept in each of two generations.
const SHAPES_MAX: usize = 5_000;

/// Name that stands for the list where a rule has its own.
const NAME: &str = "statement_policy";

/// SQLSTATE of a refused statement: insufficient_privilege.
const CODE: [u8; 5] = *b"42501";

/// Treatment of statements that are not in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// They run, and are recorded.
    Learn,
    /// They run, and are recorded and reported.
    Warn,
    /// They fail, and are recorded and reported.
    Enforce,
}

/// A statement that was reported for the first time.
#[derive(Debug)]
pub struct News<'a> {
    /// User who has sent it.
    pub user: &'a str,
    /// Treatment of the statement.
    pub policy: Policy,
    /// The statement.
    pub entry: &'a Entry,
}

/// List of the statements of one user, on one worker.
#[derive(Debug)]
pub struct AllowList {
    user: Arc<str>,
    policy: Policy,
    list: Arc<StatementList>,
    record: Arc<Record>,
    tell: fn(&News<'_>),
    decisions: Decisions,
}

/// Decision about the statements of a shape.
#[derive(Debug, Clone)]
enum Decision {
    /// Each text is decided on, because its literals matter.
    ByText,
    Passes,
    Refused(Arc<Rejection>),
    Warned,
}

/// Decisions by shape, of the shapes that were seen last.
#[derive(Debug, Default)]
struct Decisions {
    current: HashMap<ShapeKey, Decision>,
    before: HashMap<ShapeKey, Decision>,
}

impl AllowList {
    /// Creates the list of a user. `tell` reports each statement once.
    #[must_use]
    pub fn new(
        user: &str,
        policy: Policy,
        list: Arc<StatementList>,
        record: Arc<Record>,
        tell: fn(&News<'_>),
    ) -> Self {
        Self {
            user: user.into(),
            policy,
            list,
            record,
            tell,
            decisions: Decisions::default(),
        }
    }

    /// True if statements that are not in the list fail.
    #[must_use]
    pub fn enforces(&self) -> bool {
        self.policy == Policy::Enforce
    }

    /// Decides on a statement. Its shape is none if the text is longer than shapes are. Returns the error of a refusal.
    pub fn judge(
        &mut self,
        shape: Option<ShapeKey>,
        statement: &[u8],
        stage: Stage,
    ) -> Option<Arc<Rejection>> {
        let shape = shape.filter(|_| is_clear(statement));
        let kept = shape.and_then(|shape| self.decisions.find(shape));
        match kept {
            Some(Decision::Passes) => return None,
            Some(Decision::Refused(rejection)) => {
                self.record.count_refused();
                return Some(Arc::clone(rejection));
            }
            Some(Decision::Warned) => {
                self.count_warned(stage);
                return None;
            }
            Some(Decision::ByText) | None => {}
        }
        let (decision, is_of_shape) = self.decide(statement);
        if let Some(shape) = shape {
            let kept = match is_of_shape {
                true => decision.clone(),
                false => Decision::ByText,
            };
            self.decisions.keep(shape, kept);
        }
        match decision {
            Decision::ByText | Decision::Passes => None,
            Decision::Refused(rejection) => {
                self.record.count_refused();
                Some(rejection)
            }
            Decision::Warned => {
                self.count_warned(stage);
                None
            }
        }
    }

    /// Decides on a text of which only the beginning is here, or nothing.
    pub fn judge_unread(&self) -> Option<Arc<Rejection>> {
        self.reject_unseen(
            "a statement that is too long to be looked up is not in the list of user",
            "Send its values as parameters, or in several statements.",
        )
    }

    /// Decides on a function call of the protocol, which no list has.
    pub fn judge_function(&self) -> Option<Arc<Rejection>> {
        self.reject_unseen(
            "a function call of the protocol is not in the list of user",
            "Call the function by SELECT.",
        )
    }

    /// Decides on a statement that was prepared before the list was enforced, and whose text is not known.
    pub fn judge_unknown(&self) -> Option<Arc<Rejection>> {
        self.reject_unseen(
            "a statement that was prepared before the list was enforced is not in the list of user",
            "Connect again, and prepare the statement again.",
        )
    }

    fn reject_unseen(&self, what: &str, hint: &str) -> Option<Arc<Rejection>> {
        self.record.count_unread();
        if !self.enforces() {
            return None;
        }
        self.record.count_refused();
        Some(Arc::new(Rejection {
            rule: NAME.into(),
            message: format!("{what} {}", self.user),
            code: CODE,
            hint: hint.to_owned(),
        }))
    }

    fn count_warned(&self, stage: Stage) {
        if stage == Stage::Run {
            self.record.count_warned();
        }
    }

    /// Decides on a text. True if the decision is that on all statements of its shape.
    fn decide(&self, statement: &[u8]) -> (Decision, bool) {
        if is_control(statement) {
            return (Decision::Passes, true);
        }
        let (known, mut entry) = Entry::of(statement);
        let is_of_shape = entry.is_of_shape();
        if self.list.contains(&known) {
            return (Decision::Passes, is_of_shape);
        }
        match self.record.find(&known) {
            Looked::Known(fingerprint) => entry.fingerprint = fingerprint,
            Looked::New => entry.find_fingerprint(statement),
            // A parse takes long for some texts, and whoever has filled the record would have one for each.
            Looked::Full => {}
        }
        let (standing, decision) = match self.policy {
            Policy::Learn => (Standing::Learnt, Decision::Passes),
            Policy::Warn => (Standing::Warned, Decision::Warned),
            Policy::Enforce => (
                Standing::Refused,
                Decision::Refused(self.refusal(&known, &entry)),
            ),
        };
        let is_new = self.record.add(known, &entry, standing);
        if is_new && self.policy != Policy::Learn {
            (self.tell)(&News {
                user: &self.user,
                policy: self.policy,
                entry: &entry,
            });
        }
        (decision, is_of_shape)
    }

    fn refusal(&self, known: &Known, entry: &Entry) -> Arc<Rejection> {
        let user = &self.user;
        let id = match entry.fingerprint {
            Some(fingerprint) => format!("fingerprint {fingerprint}"),
            None => format!("sha256 {known}"),
        };
        Arc::new(Rejection {
            rule: NAME.into(),
            message: format!("statement is not in the list of user {user}"),
            code: CODE,
            hint: format!(
                "It has {id}. To allow it, review what \"weir statements export --refused\" prints for this user, and add it to \
                 statement_list_dir."
            ),
        })
    }
}

impl Decisions {
    fn find(&mut self, shape: ShapeKey) -> Option<&Decision> {
        if let Some(old) = self.before.remove(&shape) {
            self.keep(shape, old);
        }
        self.current.get(&shape)
    }

    fn keep(&mut self, shape: ShapeKey, decision: Decision) {
        if self.current.len() >= SHAPES_MAX {
            self.before = std::mem::take(&mut self.current);
        }
        self.current.insert(shape, decision);
    }
}

#[cfg(test)]
mod tests;
