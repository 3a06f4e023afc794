//! Resolves a client's statement name to a statement on its present server.
//!
//! A statement belongs to the settings under which it was parsed, and to the types that it took and returned then. Both
//! may have changed since (hazards COR-15, COR-16). PostgreSQL parses the text anew, with the original parameter types,
//! and refuses if the result type differs; Weir does the same. Where Weir cannot know the result type, it asks the
//! server, and the client's message waits for the answer. A copy older than the client's own Parse may refer to other
//! tables or functions, so it is prepared anew.

use std::sync::Arc;

use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frontend;

use super::Work;
use super::prepared::looks_like_ours;
use crate::client::{Parsed, Since};
use crate::expected::{Duty, Expected, Kind, Renamed, Undo};
use crate::relay::Link;
use crate::server::{Comparison, Sent};
use crate::statement::{Copy, Presence, Statement};

/// Resolution of a name in a message.
#[derive(Debug)]
pub(super) enum Meaning {
    /// The message goes to the server unchanged.
    AsItIs,
    /// The server must first describe the statement; the message has to wait.
    Open,
    /// A name of ours replaces the client's. The server has that statement by the time of the message.
    Ours {
        renamed: Renamed,
        /// See [`Expected::is_fresh`].
        is_fresh: bool,
    },
}

impl Meaning {
    /// True if a name of ours replaces the client's. The message may then be the first of a batch that can be sent
    /// again.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours { .. })
    }

    /// Returns the owed reply for the message.
    pub(super) fn entry(self, kind: Kind, begins: bool) -> Expected {
        let mut entry = Expected::new(kind, Duty::Forward);
        if let Self::Ours { renamed, is_fresh } = self {
            entry.renamed = Some(renamed);
            entry.is_fresh = is_fresh;
            entry.begins = begins;
        }
        entry
    }

    /// Returns the statement of ours in the message.
    pub(super) fn statement(&self) -> Option<&Arc<Statement>> {
        match self {
            Self::Ours { renamed, .. } => Some(&renamed.ours),
            Self::AsItIs | Self::Open => None,
        }
    }
}

impl Work<'_, '_, '_, '_> {
    /// Resolves a name in a Bind or Describe.
    pub(super) fn meaning(&mut self, name: &[u8]) -> Meaning {
        // The comparison was for the last message that waited, which is this one.
        let asked = self.link.server.comparison.take();
        if name.is_empty() || !self.tracks_names() || self.link.server.queue.is_skipping() {
            return Meaning::AsItIs;
        }
        let Some(((known, statement), parsed)) = self.link.client.statement_to_use(name) else {
            return self.unknown(name);
        };
        let Some(statement) = statement else {
            return Meaning::AsItIs;
        };
        let known = Arc::clone(known);
        let statement = Arc::clone(statement);
        let parses = self.statements.server_parses;
        let statement = self.placed(&known, statement);
        let ours = if self.link.server.status() == TransactionStatus::Failed {
            // Only a statement that ends the transaction can run, and its meaning is the same everywhere.
            if !self.link.server.queue.is_named_last(&statement, &known) {
                self.ensure(&statement);
            }
            statement
        } else {
            match self.taken_now(&known, statement, parsed, asked) {
                Some(ours) => ours,
                None => return Meaning::Open,
            }
        };
        // True if the client's own Describe follows.
        let is_fresh = match parsed {
            // Only a Parse that was sent changes this.
            Parsed::Known(_) if self.statements.server_parses == parses => false,
            _ => matches!(self.link.client.parsed(name), Some(Parsed::Sent(_))),
        };
        // PostgreSQL repeats a name as it was sent, not in its truncated form.
        let is_short = known.len() == name.len();
        Meaning::Ours {
            renamed: Renamed {
                ours,
                theirs: if is_short { known } else { name.into() },
            },
            is_fresh,
        }
    }

    fn unknown(&self, name: &[u8]) -> Meaning {
        if !looks_like_ours(name) {
            return Meaning::AsItIs;
        }
        Meaning::Ours {
            renamed: Renamed {
                ours: self.link.registry.nobody(),
                theirs: name.into(),
            },
            is_fresh: false,
        }
    }

    /// Returns the statement of a name, with an id of its own if it had none.
    pub(super) fn placed(&mut self, name: &[u8], statement: Arc<Statement>) -> Arc<Statement> {
        if !statement.is_apart() {
            return statement;
        }
        let registry = &mut *self.link.registry;
        let placed = match statement.context() {
            Some(context) => registry.version(context, &statement),
            None => registry.private_version(&statement),
        };
        self.link.client.replace(name, &placed);
        placed
    }

    /// Returns the client's statement as PostgreSQL would resolve it now; the server has it by the time of the message.
    /// `None` if the message must wait for the description of a copy or of the client's own Parse.
    fn taken_now(
        &mut self,
        name: &Arc<[u8]>,
        statement: Arc<Statement>,
        parsed: Parsed,
        asked: Option<Box<Comparison>>,
    ) -> Option<Arc<Statement>> {
        if let Some(asked) = asked.filter(|asked| Arc::ptr_eq(&asked.of, &statement)) {
            if self.link.server.queue.describes(&asked.next) {
                self.link.server.comparison = Some(asked);
                return None;
            }
            if !asked.is_same {
                return Some(self.link.registry.outdated());
            }
            self.link.client.replace(name, &asked.next);
            self.ensure(&asked.next);
            return Some(asked.next);
        }
        match parsed {
            Parsed::Deferred => Some(self.parse_now(name, &statement)),
            Parsed::Known(since) => {
                let since = self.link.client.use_parsed(name, since, &statement);
                self.copy(name, statement, since)
            }
            Parsed::Sent(own) => {
                let (presence, copy) = self.copy_of(&statement);
                if presence != Presence::Absent && copy.parsed_at == own {
                    return Some(statement);
                }
                if !self.link.server.queue.describes(&statement) {
                    return Some(self.parse_now(name, &statement));
                }
                // Something has replaced the client's own copy, and the description of that copy is outstanding.
                self.link.server.sent = Sent::OpenBatch;
                self.flush();
                None
            }
        }
    }

    /// Sends the client's Parse, which was answered without a server, and so resolves it now.
    fn parse_now(&mut self, name: &Arc<[u8]>, statement: &Arc<Statement>) -> Arc<Statement> {
        let ours = match self.link.server.is_settings_unsure() || self.may_be_temporary() {
            true => self.link.registry.private(&statement.body),
            false => self.current(statement),
        };
        let began = Arc::clone(name);
        self.parse_anew(name, &ours, Duty::Try, |_| Undo::Began(began), false);
        ours
    }

    /// Returns the statement that a Parse of this text would give the client now.
    fn current(&mut self, statement: &Statement) -> Arc<Statement> {
        let Link {
            client,
            registry,
            proven,
            ..
        } = &mut *self.link;
        let context = client.planned.context(&client.settings, registry, proven);
        registry.intern(statement.context_in(context), &statement.body)
    }

    /// Sends a Parse of the client's under our name. It replaces the server's copy, if there is one, so that names and
    /// types are resolved now. Other users of the statement get the new copy if its description is the same.
    pub(super) fn parse_anew(
        &mut self,
        name: &Arc<[u8]>,
        statement: &Arc<Statement>,
        duty: Duty,
        undo: impl FnOnce(u64) -> Undo,
        is_described_next: bool,
    ) {
        if self.copy_of(statement).0 != Presence::Absent {
            self.close_ours(statement, false);
        }
        let own = statement.tick();
        let parsed = if statement.needs_description() {
            Parsed::Sent(own)
        } else {
            Parsed::known(own)
        };
        let client = &mut *self.link.client;
        client.sends_parse(name, statement, parsed);
        self.send_parse(statement, duty, Some(undo(own)), own);
        if statement.needs_description() && !is_described_next {
            self.describe_ours(statement, name, true);
        }
    }

    /// Returns a copy with the parameter types of the client's own Parse, and not older than that Parse. `None` if the
    /// server must first confirm that the columns are the same.
    fn copy(
        &mut self,
        name: &Arc<[u8]>,
        statement: Arc<Statement>,
        since: Since,
    ) -> Option<Arc<Statement>> {
        let moved = self.meant_now(&statement);
        let next = moved.as_ref().unwrap_or(&statement);
        let (presence, copy) = self.copy_of(next);
        let is_there = match presence {
            Presence::Held => true,
            // The client did not wait for its own Parse. If that Parse fails, the next message must fail too.
            Presence::Unsure => self.link.server.queue.is_named_last(next, name),
            Presence::Absent => false,
        };
        let is_good = is_there && since.allows(copy);
        if is_there && !is_good && !copy.is_described && self.link.server.queue.describes(next) {
            // The copy is of another name's own Parse, whose description is outstanding.
            self.link.server.sent = Sent::OpenBatch;
            self.flush();
            return None;
        }
        if !is_good {
            if !statement.is_settled() {
                return Some(self.parse_now(name, &statement));
            }
            if presence != Presence::Absent {
                self.close_ours(next, false);
            }
            if statement.shape() != 0 {
                let next = Arc::clone(next);
                self.ask_for_columns(statement, next, name);
                return None;
            }
            self.prepare(next, Duty::Swallow, None);
        }
        let Some(next) = moved else {
            return Some(statement);
        };
        self.link.client.replace(name, &next);
        Some(next)
    }

    /// Has the server prepare a copy and describe its columns, before the client's message.
    fn ask_for_columns(&mut self, of: Arc<Statement>, next: Arc<Statement>, name: &[u8]) {
        let is_first = self.link.server.sent != Sent::OpenBatch;
        self.link.server.sent = Sent::OpenBatch;
        // If this fails, the client gets the error: its message would fail for the same reason.
        self.prepare(&next, Duty::Try, None);
        self.describe_ours(&next, name, true);
        self.flush();
        let asked = Comparison {
            of,
            next,
            is_first,
            is_same: false,
        };
        self.link.server.comparison = Some(Box::new(asked));
    }

    pub(super) fn flush(&mut self) {
        // Cannot fail: five bytes fit.
        let _ = encode::flush(self.to_server.insert());
    }

    /// Returns the statement that the text now stands for, if that is another: settings that affect planning have
    /// changed.
    fn meant_now(&mut self, statement: &Arc<Statement>) -> Option<Arc<Statement>> {
        let Link {
            client,
            server,
            registry,
            proven,
            ..
        } = &mut *self.link;
        if server.is_settings_unsure() {
            // The server replans its own copies as needed. Statements that it does not have must not be shared.
            let (presence, _) = server.prepared.touch(statement, server.queue.batch());
            if presence != Presence::Absent || statement.is_private() {
                return None;
            }
            return Some(registry.private_version(statement));
        }
        let context = client.planned.context(&client.settings, registry, proven);
        if statement.is_private() || statement.is_of(context) {
            return None;
        }
        Some(registry.version(statement.context_in(context), statement))
    }

    /// Returns the presence of a statement on the server, and its copy there.
    #[inline]
    pub(super) fn copy_of(&mut self, statement: &Statement) -> (Presence, Copy) {
        let server = &mut *self.link.server;
        server.prepared.touch(statement, server.queue.batch())
    }

    /// Makes sure that the server has a statement by the time of the next message, however old the copy is.
    pub(super) fn ensure(&mut self, statement: &Arc<Statement>) {
        match self.copy_of(statement).0 {
            Presence::Held => return,
            Presence::Unsure => self.close_ours(statement, false),
            Presence::Absent => {}
        }
        self.prepare(statement, Duty::Swallow, None);
    }

    /// Has the server describe a Parse of ours: of a copy or, with the client's name, of its own Parse.
    pub(super) fn describe_ours(
        &mut self,
        statement: &Arc<Statement>,
        name: &[u8],
        is_fresh: bool,
    ) {
        // Cannot fail: names of ours are short and contain no NUL.
        let _ = encode::describe(
            self.to_server.insert(),
            frontend::Kind::Statement,
            &statement.name,
        );
        let renamed = Renamed {
            ours: Arc::clone(statement),
            theirs: name.into(),
        };
        let mut entry = Expected::new(Kind::Describe, Duty::Try).with_renamed(Some(renamed));
        entry.is_fresh = is_fresh;
        self.expect(entry);
    }
}
