//! Effects of a text on its session: the verdict of step 2.

use crate::reason::{Reason, Reasons};

/// Settings that the server must be asked for after the transaction; no other setting can have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// True for all settings that the server lists. It lists no custom settings (`app.tenant`).
    pub all: bool,
    /// Names of settings in lower case, listed or not, including `role` and `session_authorization`.
    pub names: Box<[Box<str>]>,
}

impl Asks {
    /// Creates a set of just these settings.
    pub fn of<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        Self {
            all: false,
            names: names.into_iter().map(|name| name.as_ref().into()).collect(),
        }
    }

    /// True if no setting can have changed.
    #[inline]
    pub fn is_nothing(&self) -> bool {
        !self.all && self.names.is_empty()
    }
}

/// Settings that return to the client's start values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Resets {
    /// No settings.
    #[default]
    Nothing,
    /// These settings, in lower case.
    Names(Box<[Box<str>]>),
    /// All settings except the session's identity: RESET ALL.
    All,
    /// All settings: DISCARD ALL.
    Session,
}

/// A statement that returns settings to their start values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// End of the statement in its text, in bytes: its `;` or the end of the text.
    pub end: usize,
    /// Number of statements before this one in the text that begin with SET or RESET. Exactly these are answered by the
    /// tag
    /// `SET`, `RESET` or `SET CONSTRAINTS`.
    pub nth: usize,
    /// Settings concerned.
    pub resets: Resets,
    /// True if the settings return only until the end of the transaction: `SET LOCAL x TO DEFAULT`.
    pub is_local: bool,
}

/// Use of sequences in a text, as far as names in it show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sequences {
    /// Uses no sequence.
    #[default]
    Untouched,
    /// Advances one: `nextval`, `setval`.
    Moves,
    /// Reads one: `currval`, `lastval`, possibly after an advance.
    Reads,
}

/// A LISTEN or UNLISTEN. Names are folded and truncated to 63 bytes as PostgreSQL does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    /// `LISTEN name`
    Listen(Box<[u8]>),
    /// `UNLISTEN name`
    Unlisten(Box<[u8]>),
    /// `UNLISTEN *`
    UnlistenAll,
}

/// A statement that names code: from then on, using the name has effects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Names of the objects concerned, without schema, in lower case.
    pub names: Vec<Box<[u8]>>,
    /// Effects of using one of these objects.
    pub effects: Effects,
}

/// Effects that a text may have on its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Settings to ask for.
    pub asks: Asks,
    /// Settings that return to their start values.
    pub resets: Resets,
    /// Settings that do so until the end of the transaction.
    pub resets_locally: Resets,
    /// Statements that return settings, in the order of the text; empty if that depends on how the text is read.
    pub returns: Vec<Return>,
    /// Reasons to pin that may result, detectable by a query or not.
    pub reasons: Reasons,
    /// Those of `reasons` that no query to the server can confirm; they pin at once.
    pub certain: Reasons,
    /// True if the text runs code that it does not contain (DO, CALL, `query_to_xml`), or ends the time in which such
    /// code ran (DEALLOCATE, after EXECUTE). Any state that the server can report may have resulted, although no reason
    /// is given.
    pub unseen: bool,
    /// True if the text uses prepared statements by name (PREPARE, EXECUTE, DEALLOCATE). The protocol's statements
    /// share these names.
    pub names: bool,
    /// True if the text reads `pg_prepared_statements`; `names` is then set too.
    pub lists_statements: bool,
    /// Use of sequences.
    pub sequences: Sequences,
    /// Every statement in order, if all are LISTEN or UNLISTEN; otherwise empty.
    pub channels: Vec<Channel>,
    /// True if the text asks for the session's channels.
    pub lists_channels: bool,
    /// Every UNLISTEN in the text, in order; empty if that depends on how the text is read.
    pub unlistens: Vec<Channel>,
    /// True if the text may end a pin.
    pub frees: bool,
    /// True if the result depends on what the session has done before, also for other clients. It then needs a server
    /// that no other client has used.
    pub wants_new: bool,
    /// True if the text names views or functions of session statistics, where its client expects its own activity.
    pub reads_statistics: bool,
    /// Code that the text defines and that may change a session.
    pub defines: Vec<Definition>,
    /// Number of statements in the text; more if one contains others (CREATE RULE, BEGIN ATOMIC).
    pub statements: usize,
}

impl Effects {
    /// True if the text has no effect in a session that is not pinned.
    pub fn is_harmless(&self) -> bool {
        self.asks.is_nothing()
            && self.resets == Resets::Nothing
            && self.resets_locally == Resets::Nothing
            && self.reasons.is_empty()
            && !self.unseen
            && !self.names
            && self.sequences == Sequences::Untouched
            && !self.reads_statistics
            && self.channels.is_empty()
            && !self.lists_channels
    }

    /// True if, in addition, the text cannot end a pin.
    pub fn is_harmless_while_pinned(&self) -> bool {
        self.is_harmless() && !self.frees
    }

    /// Returns the effects that a database's code may have wherever it runs: settings, reasons to pin, and the list of
    /// prepared statements. Sequences, statement names and channels are known from the client's own statements only.
    #[must_use]
    pub(crate) fn of_objects(self) -> Self {
        Self {
            asks: self.asks,
            reasons: self.reasons,
            certain: self.certain,
            unseen: self.unseen,
            names: self.lists_statements,
            lists_statements: self.lists_statements,
            ..Self::default()
        }
    }

    /// Returns the effects of both. The number of statements becomes the greater of the two.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.asks.all |= other.asks.all;
        other.asks.names.iter().for_each(|name| self.ask(name));
        self.resets.join(other.resets);
        self.resets_locally.join(other.resets_locally);
        self.returns.extend(other.returns);
        self.reasons = self.reasons.union(other.reasons);
        self.certain = self.certain.union(other.certain);
        self.sequences(other.sequences);
        self.channels.extend(other.channels);
        self.lists_channels |= other.lists_channels;
        self.unlistens.extend(other.unlistens);
        self.frees |= other.frees;
        self.unseen |= other.unseen;
        self.wants_new |= other.wants_new;
        self.reads_statistics |= other.reads_statistics;
        self.names |= other.names;
        self.lists_statements |= other.lists_statements;
        self.defines.extend(other.defines);
        self.statements = self.statements.max(other.statements);
        self
    }

    pub(crate) fn ask(&mut self, name: &str) {
        push(&mut self.asks.names, name);
    }

    pub(crate) fn ask_all(&mut self) {
        self.asks.all = true;
    }

    pub(crate) fn reset(&mut self, name: &str) {
        self.resets.add(name);
    }

    pub(crate) fn reset_locally(&mut self, name: &str) {
        self.resets_locally.add(name);
    }

    /// Records the returns of one statement, which ends at `end`.
    pub(crate) fn note_returns(&mut self, end: usize, nth: usize) {
        for (resets, is_local) in [(&self.resets, false), (&self.resets_locally, true)] {
            if *resets != Resets::Nothing {
                self.returns.push(Return {
                    end,
                    nth,
                    resets: resets.clone(),
                    is_local,
                });
            }
        }
    }

    pub(crate) fn list_statements(&mut self) {
        self.names = true;
        self.lists_statements = true;
    }

    pub(crate) fn runs_unseen(&mut self) {
        self.unseen = true;
        self.ask_all();
    }

    /// Adds a reason that the server can confirm.
    pub(crate) fn may_leave(&mut self, reason: Reason) {
        self.reasons.insert(reason);
        if reason == Reason::Unknown {
            self.ask_all();
        }
    }

    /// Adds a reason that the server cannot confirm.
    pub(crate) fn leaves(&mut self, reason: Reason) {
        self.may_leave(reason);
        self.ask_all();
        self.certain.insert(reason);
    }

    pub(crate) fn sequences(&mut self, sequences: Sequences) {
        self.sequences = self.sequences.max(sequences);
    }
}

impl Resets {
    fn add(&mut self, name: &str) {
        match self {
            Self::Nothing => *self = Self::Names([name.into()].into()),
            Self::Names(names) => push(names, name),
            Self::All | Self::Session => {}
        }
    }

    fn join(&mut self, other: Self) {
        match (&*self, other) {
            (_, Self::Nothing) | (Self::Session, _) | (Self::All, Self::Names(_)) => {}
            (_, Self::Names(names)) => names.iter().for_each(|name| self.add(name)),
            (_, other) => *self = other,
        }
    }
}

fn push(names: &mut Box<[Box<str>]>, name: &str) {
    if names.iter().any(|known| &**known == name) {
        return;
    }
    let mut longer = std::mem::take(names).into_vec();
    longer.push(name.into());
    *names = longer.into();
}
