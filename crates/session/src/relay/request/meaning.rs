//! What a name of the client stands for on the server that it has now.
//!
//! A statement belongs to the settings that it was parsed under, and to what it returned then. Both may have changed since
//! (hazards COR-15, COR-16). PostgreSQL takes the text anew and refuses if it would return something else; so do we, and
//! where we cannot know that, we ask: then the client's message waits for the answer.

use std::sync::Arc;

use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frontend;

use super::Work;
use super::prepared::looks_like_ours;
use crate::expected::{Duty, Expected, Kind, Renamed};
use crate::relay::Link;
use crate::server::Comparison;
use crate::statement::{Presence, Statement};

/// What becomes of a name in a message.
#[derive(Debug)]
pub(super) enum Meaning {
    /// It goes to the server as it is.
    AsItIs,
    /// The server is asked first what a statement returns: the message has to wait.
    Open,
    /// A name of ours takes its place, which the server knows by the time of the message.
    Ours {
        renamed: Renamed,
        /// The client relies on nothing that the statement returned before.
        is_fresh: bool,
    },
}

impl Meaning {
    /// The message goes to the server: it may be the first of a batch that can be put to it again.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours { .. })
    }

    /// What the server owes for the message.
    pub(super) fn entry(self, kind: Kind, begins: bool) -> Expected {
        let mut entry = Expected::new(kind, Duty::Forward);
        if let Self::Ours { renamed, is_fresh } = self {
            entry.renamed = Some(renamed);
            entry.is_fresh = is_fresh;
            entry.begins = begins;
        }
        entry
    }

    /// The statement of ours in it.
    pub(super) fn statement(&self) -> Option<&Arc<Statement>> {
        match self {
            Self::Ours { renamed, .. } => Some(&renamed.ours),
            Self::AsItIs | Self::Open => None,
        }
    }
}

/// Whether what a statement returns has to be compared with what the client goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compares {
    /// The server was asked.
    Asks,
    /// It has the statement, or will have it exactly if the client's own Parse succeeds.
    IsThere,
    /// The client goes by nothing.
    NeedsNot,
}

impl Work<'_, '_, '_, '_> {
    /// What a name in a Bind or Describe stands for.
    pub(super) fn meaning(&mut self, name: &[u8]) -> Meaning {
        // It was about the message that came last, which is this one.
        let asked = self.link.server.comparison.take();
        if name.is_empty() || !self.tracks_names() || self.link.server.queue.is_skipping() {
            return Meaning::AsItIs;
        }
        let Some(((known, statement), is_fresh)) = self.link.client.statement_to_use(name) else {
            return self.unknown(name);
        };
        let Some(statement) = statement else {
            return Meaning::AsItIs;
        };
        let (known, statement) = (Arc::clone(known), Arc::clone(statement));
        let (ours, is_there) = if self.link.server.status() == TransactionStatus::Failed {
            // Only what ends the transaction runs, and that means the same everywhere.
            (statement, false)
        } else {
            match self.taken_now(&known, statement, is_fresh, asked) {
                Some(ours) => ours,
                None => return Meaning::Open,
            }
        };
        if !is_there {
            self.ensure(&ours, &known);
        }
        // PostgreSQL repeats a name as it was sent, not as it compares it.
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

    /// A statement of the client, as PostgreSQL would take it now, and whether it is known that nothing has to be done for
    /// the server to have it. None if the server has to say first what it returns.
    fn taken_now(
        &mut self,
        name: &Arc<[u8]>,
        statement: Arc<Statement>,
        is_fresh: bool,
        asked: Option<Box<Comparison>>,
    ) -> Option<(Arc<Statement>, bool)> {
        if statement.is_useless() {
            self.link.server.prepared.lose(&statement);
        }
        let relied_on = if is_fresh { 0 } else { statement.shape() };
        let asked = asked.filter(|asked| Arc::ptr_eq(&asked.of, &statement));
        let moved = match asked {
            Some(asked) if self.link.server.queue.describes(&asked.next) => {
                self.link.server.comparison = Some(asked);
                return None;
            }
            Some(asked) if asked.said != 0 && asked.said != relied_on => {
                return Some((self.refused(name, &asked), true));
            }
            // Others went by something else, so it is theirs no more.
            Some(asked) if asked.next.is_useless() => self.meant_now(&statement),
            Some(asked) => (!Arc::ptr_eq(&asked.next, &statement)).then_some(asked.next),
            None => {
                let moved = self.meant_now(&statement);
                let next = moved.as_ref().unwrap_or(&statement);
                match self.compares(next, name, relied_on) {
                    Compares::Asks => {
                        let next = Arc::clone(next);
                        let of = statement;
                        let asked = Comparison { of, next, said: 0 };
                        self.link.server.comparison = Some(Box::new(asked));
                        return None;
                    }
                    Compares::IsThere if moved.is_none() => return Some((statement, true)),
                    Compares::IsThere | Compares::NeedsNot => moved,
                }
            }
        };
        let Some(next) = moved else {
            return Some((statement, false));
        };
        let client = &mut *self.link.client;
        client.remember(Arc::clone(name), Some(Arc::clone(&next)));
        Some((next, false))
    }

    /// What is bound in place of a statement that returns something else by now. PostgreSQL refuses until the statement
    /// returns again what it did; where tables have changed we let the client have it after one error.
    fn refused(&mut self, name: &Arc<[u8]>, asked: &Comparison) -> Arc<Statement> {
        let Link {
            client, registry, ..
        } = &mut *self.link;
        if asked.of.is_useless() {
            let next = if asked.next.is_useless() {
                Arc::new(asked.next.anew(asked.said))
            } else {
                Arc::clone(&asked.next)
            };
            client.remember(Arc::clone(name), Some(next));
        }
        registry.outdated()
    }

    /// What the text is now, if it is another statement: settings that change planning, or tables, have changed.
    fn meant_now(&mut self, statement: &Arc<Statement>) -> Option<Arc<Statement>> {
        let Link {
            client,
            server,
            registry,
            proven,
            ..
        } = &mut *self.link;
        if server.is_settings_unsure() {
            // What the server holds it plans again as it has to. What it does not hold nobody else may get.
            let presence = server.prepared.touch(statement, server.queue.batch());
            if presence != Presence::Absent || statement.is_private() {
                return None;
            }
            return Some(registry.private(&statement.body));
        }
        let context = client.planned.context(&client.settings, registry, proven);
        if statement.is_of(context) {
            return None;
        }
        Some(registry.intern(statement.context_in(context), &statement.body))
    }

    /// The client goes by what a statement returned: has the server say what it returns now, unless it is the server's
    /// own affair to notice a change.
    fn compares(&mut self, next: &Arc<Statement>, name: &[u8], relied_on: u64) -> Compares {
        let shape = next.shape();
        let parses = match self.presence(next) {
            Presence::Held if shape == relied_on => return Compares::IsThere,
            _ if relied_on == 0 => return Compares::NeedsNot,
            // The client did not wait for its own Parse, so it goes by nothing yet.
            Presence::Unsure if self.link.server.queue.is_named_last(next, name) => {
                return Compares::IsThere;
            }
            Presence::Held if shape == 0 => false,
            // What it returned when it was prepared says nothing about now.
            Presence::Held | Presence::Unsure => {
                self.close_ours(next, false);
                true
            }
            Presence::Absent => true,
        };
        self.link.server.needs_sync = true;
        if parses {
            // Should it fail, the client hears why: its message would fail for the same reason.
            self.prepare(next, Duty::Try, None);
        }
        self.describe_ours(next, name, false);
        // Five bytes always fit.
        let _ = encode::flush(self.to_server.insert());
        Compares::Asks
    }

    pub(super) fn presence(&mut self, statement: &Statement) -> Presence {
        let server = &mut *self.link.server;
        server.prepared.touch(statement, server.queue.batch())
    }

    /// Makes sure that the server has a statement by the time of the next message, if the client has it by then.
    pub(super) fn ensure(&mut self, statement: &Arc<Statement>, name: &[u8]) {
        match self.presence(statement) {
            Presence::Held => return,
            // The client did not wait for its own Parse: if that fails, what comes next has to fail too.
            Presence::Unsure if self.link.server.queue.is_named_last(statement, name) => return,
            Presence::Unsure => self.close_ours(statement, false),
            Presence::Absent => {}
        }
        self.prepare(statement, Duty::Swallow, None);
        self.compare(statement, name);
    }

    /// Has the server say what it has just prepared for a client that does not go by any other answer.
    pub(super) fn compare(&mut self, statement: &Arc<Statement>, name: &[u8]) {
        if statement.returns_rows {
            self.describe_ours(statement, name, true);
        }
    }

    fn describe_ours(&mut self, statement: &Arc<Statement>, name: &[u8], is_fresh: bool) {
        // Names of ours are short and hold no NUL.
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
