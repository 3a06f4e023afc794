//! What a text may do to its session: the verdict of step 2.

use crate::reason::{Reason, Reasons};

/// Settings that the server must be asked for when the transaction is over. Nothing else can have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// All settings that the server lists. It lists none of an application's own (`app.tenant`).
    pub all: bool,
    /// These, in lower case, listed or not. `role` and `session_authorization` are names too.
    pub names: Box<[Box<str>]>,
}

impl Asks {
    /// Just these settings.
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

/// Which settings return to the values that the client started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Resets {
    /// None.
    #[default]
    Nothing,
    /// These, in lower case.
    Names(Box<[Box<str>]>),
    /// All of them but who the session is: RESET ALL.
    All,
    /// All of them: DISCARD ALL.
    Session,
}

/// A statement after which settings have the values that the session started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// Where it ends in its text: at its `;` or at the end of the text, in bytes.
    pub end: usize,
    /// How many statements that begin with SET or RESET stand before it in the text. Each of them is
    /// answered by the tag `SET`, `RESET` or `SET CONSTRAINTS`, and no other is.
    pub nth: usize,
    /// The settings.
    pub resets: Resets,
    /// Until the end of the transaction: `SET LOCAL x TO DEFAULT`.
    pub is_local: bool,
}

/// What a text does with sequences, as far as names in it tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sequences {
    /// Nothing.
    #[default]
    Untouched,
    /// `nextval`, `setval`.
    Moves,
    /// `currval`, `lastval`, possibly after a move.
    Reads,
}

/// A LISTEN or UNLISTEN. Names are folded and cut to 63 bytes as PostgreSQL does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    /// `LISTEN name`
    Listen(Box<[u8]>),
    /// `UNLISTEN name`
    Unlisten(Box<[u8]>),
    /// `UNLISTEN *`
    UnlistenAll,
}

/// A statement that gives code a name: from then on, using the name has effects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Names of the objects concerned, without their schemas, in lower case.
    pub names: Vec<Box<[u8]>>,
    /// Effects of using one.
    pub effects: Effects,
}

/// What a text may do to its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Which settings to ask for.
    pub asks: Asks,
    /// Which settings return to where they started.
    pub resets: Resets,
    /// The same until the end of the transaction.
    pub resets_locally: Resets,
    /// Where they do, in the order of the text; none if that depends on how the text is read.
    pub returns: Vec<Return>,
    /// What may pin as a result, whether the server can be asked about it or not.
    pub reasons: Reasons,
    /// The part of `reasons` that no question to the server can confirm: pins at once.
    pub certain: Reasons,
    /// It runs code whose text is not here (DO, CALL, `query_to_xml`), or ends the time in which such
    /// code ran (DEALLOCATE, after EXECUTE): anything that the server can be asked about may have come
    /// of it, though no reason is given.
    pub unseen: bool,
    /// It deals with prepared statements by name (PREPARE, EXECUTE, DEALLOCATE): the names are those of the
    /// protocol, too.
    pub names: bool,
    /// True if it reads `pg_prepared_statements`; `names` is set, too.
    pub lists_statements: bool,
    /// What it does with sequences.
    pub sequences: Sequences,
    /// All that the text does, in order, if that is nothing but LISTEN and UNLISTEN; else none.
    pub channels: Vec<Channel>,
    /// It asks what the session listens to.
    pub lists_channels: bool,
    /// Every UNLISTEN in it, in order; none if that depends on how the text is read.
    pub unlistens: Vec<Channel>,
    /// May end something that pins.
    pub frees: bool,
    /// What comes of it depends on what the session has done before, and not by this client alone: it wants one that
    /// nobody else has used.
    pub wants_new: bool,
    /// It names views or functions of what sessions have counted: it wants to see what its own session did.
    pub reads_statistics: bool,
    /// Code that it defines, by which a session may be changed.
    pub defines: Vec<Definition>,
    /// How many statements the text has; more if one holds others (CREATE RULE, BEGIN ATOMIC).
    pub statements: usize,
}

impl Effects {
    /// Whether nothing can come of it in a session that is not pinned.
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

    /// Whether it cannot end a pin either.
    pub fn is_harmless_while_pinned(&self) -> bool {
        self.is_harmless() && !self.frees
    }

    /// The part that code of a database may have wherever it runs: settings, what pins, and the list of prepared
    /// statements. What is known of sequences, names of statements and channels goes by the client's own statements.
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

    /// What either may do. Statements stay those of the first that has any.
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

    /// These are the effects of one statement, which ends there.
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

    /// The server can be asked about it.
    pub(crate) fn may_leave(&mut self, reason: Reason) {
        self.reasons.insert(reason);
        if reason == Reason::Unknown {
            self.ask_all();
        }
    }

    /// The server cannot be asked about it.
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
