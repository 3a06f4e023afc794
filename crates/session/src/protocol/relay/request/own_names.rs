//! Gives a client's statements their own names on its server where SQL text may use them.
//!
//! In PostgreSQL, statements of the protocol and of SQL's PREPARE share one namespace. `EXECUTE p` may run a statement
//! from a Parse, and a name that is taken is refused (42P05). On servers a client's statements have names of ours,
//! which separates clients, and also these two kinds of statements.
//!
//! So before a text uses statements by name, Weir prepares those that it may mean under the client's own names. New
//! statements of the client keep their names from then on. The server then answers for itself, and after the
//! transaction Weir asks it which of the client's names exist. With the end of the lease the names are ours again, and
//! the server drops all statements before its next use.
//!
//! A text that reads `pg_prepared_statements` may mean every name. Before it, all of the client's statements get their
//! own names, and copies under names of ours are closed. The view then shows what it would show without a pooler.

use std::collections::HashMap;
use std::sync::Arc;

use weir_sql::{Effects, Reason};
use weir_wire::backend::TransactionStatus;
use weir_wire::before_nul;
use weir_wire::encode;
use weir_wire::frontend;

use super::{Link, Message, Work};
use crate::client::{Mentioned, Parsed, key};
use crate::expected::{CopyState, Duty, Expected, Kind, Renamed, Undo};
use crate::server::Sent;
use crate::sql::{self, Deallocated};
use crate::statement::{NAME_PREFIX, Statement};

/// Precedes a Parse of ours inside a transaction block of the client's.
const SAVEPOINT: &str = "SAVEPOINT weir_own";

/// Follows that Parse: undoes a failure and keeps the prepared statement.
const TO_SAVEPOINT: &str = "ROLLBACK TO SAVEPOINT weir_own;RELEASE SAVEPOINT weir_own";

/// Statements that a client's server has under the client's own names.
#[derive(Debug, Default)]
pub(crate) struct OwnNames {
    /// Statements that the server has confirmed.
    pub(crate) known: HashMap<Arc<[u8]>, Arc<Statement>>,
    /// Statements prepared only to be listed, whose columns are not compared with those the client relies on.
    pub(crate) unchecked: HashMap<Arc<[u8]>, Arc<Statement>>,
}

impl Work<'_, '_, '_, '_> {
    /// Prepares for a text that uses statements by name and is about to be run or only parsed. Returns false if it must
    /// wait.
    pub(super) fn share_names(&mut self, effects: &Effects, text: &[u8], runs: bool) -> bool {
        let queue = &self.link.server.queue;
        if !self.tracks_names() || queue.is_skipping() {
            return true;
        }
        if queue.is_fenced() {
            // A Sync of ours in between would end the protection by the fence.
            return self.stall();
        }
        if !effects.lists_statements {
            self.hide_others(text);
        }
        // A lone DEALLOCATE is handled by the client's names (see `deallocate`).
        if let Some(deallocated) = sql::deallocated(text) {
            self.forget_listed(&deallocated);
            return true;
        }
        let queue = &self.link.server.queue;
        // Behind another request it is unknown if a transaction block is open.
        let is_behind = self.link.server.sent != Sent::OpenBatch && !queue.is_ours();
        if queue.changes_names_apart() || is_behind && self.link.client.statement_count() > 0 {
            return self.stall();
        }
        // A statement in flight may deallocate all names, and a removed one must not come back. A COPY that reads data ends
        // with the client's next message, whose reply is an error.
        let is_run = |entry: &Expected| entry.kind == Kind::Execute && entry.duty == Duty::Forward;
        let waits = !queue.is_skipping() && !matches!(queue.copy(), CopyState::In { .. });
        if waits && queue.iter().any(is_run) && self.link.client.statement_count() > 0 {
            self.flush();
            return self.stall();
        }
        let fails = self.has_failed();
        let mut named = self.link.client.statements_in(text);
        if !fails && self.link.client.own_names.is_some() {
            named.iter().for_each(|(name, _)| self.use_listed(name));
            named = self.link.client.statements_in(text);
            if let Some(own) = self
                .link
                .client
                .own_names
                .as_mut()
                .filter(|_| effects.unseen)
            {
                // The text may deallocate statements that it does not name.
                own.unchecked.clear();
            }
        }
        let lists = effects.lists_statements || named.iter().any(|one| self.lists_statements(one));
        if lists {
            self.hide_all();
        }
        let prepares = lists || effects.unseen || effects.reasons.contains(Reason::Prepared);
        if fails || named.is_empty() && !prepares {
            return true;
        }
        self.begin_own_names();
        for (name, statement) in named {
            if runs {
                self.note_named(&name, statement.as_ref());
            }
            if let Some(statement) = statement {
                self.give_own_name(name, &statement, true);
            }
        }
        if lists {
            self.give_all_names();
        }
        true
    }

    /// Gives every statement its own name. Statements that are only listed neither run nor return anything.
    fn give_all_names(&mut self) {
        for (name, statement) in self.link.client.all_statements() {
            if let Some(statement) = statement {
                self.give_own_name(name, &statement, false);
            }
        }
    }

    /// Forgets that statements were only listed before they are removed: a removed name must not come back.
    fn forget_listed(&mut self, deallocated: &Deallocated) {
        let Some(own) = &mut self.link.client.own_names else {
            return;
        };
        match deallocated {
            Deallocated::One(name) => drop(own.unchecked.remove(key(name))),
            Deallocated::All => own.unchecked.clear(),
        }
    }

    /// Gives a statement that was only listed our name again before it is used, so that its columns are compared as
    /// usual.
    pub(super) fn use_listed(&mut self, name: &[u8]) {
        // In a failed transaction its replacement could not be prepared.
        let fails = self.has_failed();
        let Link { client, server, .. } = &mut *self.link;
        let own = client.own_names.as_mut();
        let Some(own) = own.filter(|_| !fails && !server.queue.is_skipping()) else {
            return;
        };
        let Some((name, statement)) = own.unchecked.remove_entry(key(name)) else {
            return;
        };
        own.known.remove(&name);
        let Some((_, None)) = client.statement(&name) else {
            return;
        };
        let undo = Undo::Closed(Arc::clone(&name), None, Parsed::of(&statement));
        let parsed = Parsed::of(&statement);
        client.remember(Arc::clone(&name), Some(statement), parsed);
        // Cannot fail: a client's name contains no NUL.
        let kind = frontend::Kind::Statement;
        let _ = encode::close(self.to_server.insert(), kind, &name);
        self.expect(Expected::new(Kind::Close, Duty::Swallow).with_undo(undo));
    }

    /// Prepares for a statement that uses other statements by name and is about to be bound or described. Its Parse
    /// must come behind theirs, since PostgreSQL resolves the names when it parses the statement.
    pub(super) fn share_names_for(
        &mut self,
        statement: &[u8],
        effects: &Effects,
        runs: bool,
    ) -> bool {
        let client = &*self.link.client;
        let mapped = client.statement(statement);
        let mapped = mapped.and_then(|(name, known)| Some((Arc::clone(name), Arc::clone(known?))));
        let text = match &mapped {
            Some((_, known)) => known.text().to_vec(),
            None if statement.is_empty() => before_nul(client.current_unnamed().1).to_vec(),
            None => {
                let own = client.own_names.as_ref();
                let known = own.and_then(|own| own.known.get(key(statement)));
                known.map_or_else(Vec::new, |known| known.text().to_vec())
            }
        };
        if !self.share_names(effects, &text, runs) {
            return false;
        }
        if let Some((name, known)) = mapped
            && self.link.client.own_names.is_some()
            && !self.has_failed()
            && self.has_statement(&name)
        {
            self.give_own_name(name, &known, true);
        }
        true
    }

    /// Does the same as [`Work::share_names_for`] for a Describe.
    pub(super) fn share_names_to_describe(&mut self, statement: &[u8]) -> bool {
        let known = match self.link.client.statement(statement) {
            Some((_, Some(known))) => Arc::clone(known),
            _ => return true,
        };
        match self.effects_of(&known) {
            Some(effects) if effects.names => self.share_names_for(statement, &effects, false),
            _ => true,
        }
    }

    /// True if the transaction has failed, and nothing is in flight: nothing can be prepared.
    pub(super) fn has_failed(&self) -> bool {
        let server = &self.link.server;
        server.queue.is_empty() && server.status() == TransactionStatus::Failed
    }

    fn begin_own_names(&mut self) {
        self.link.client.own_names.get_or_insert_default();
        self.link.server.question.add_reason(Reason::Prepared);
    }

    /// Hides other clients' statements from a text that contains one of our names.
    fn hide_others(&mut self, text: &[u8]) {
        let places = text.windows(NAME_PREFIX.len());
        if !places
            .into_iter()
            .any(|word| word.eq_ignore_ascii_case(NAME_PREFIX))
        {
            return;
        }
        self.hide_all();
    }

    /// Closes every statement under a name of ours.
    fn hide_all(&mut self) {
        if self.link.server.has_taken {
            let taken = self.link.registry.taken();
            self.close_empty(&taken);
            self.link.server.has_taken = false;
        }
        for statement in self.link.server.prepared.all() {
            self.link.server.prepared.lose(&statement);
            self.close_ours(&statement, false);
        }
    }

    /// True if EXECUTE of this statement reads `pg_prepared_statements`.
    fn lists_statements(&mut self, (_, statement): &Mentioned) -> bool {
        let effects = statement.as_ref().and_then(|known| self.effects_of(known));
        effects.is_some_and(|effects| effects.lists_statements)
    }

    /// Records the effects of the statement behind a name, which a text may run.
    fn note_named(&mut self, name: &[u8], mapped: Option<&Arc<Statement>>) {
        let mut effects = Vec::new();
        match mapped {
            Some(statement) => effects.extend(self.effects_of(statement)),
            None => effects = self.effects_of_own(name),
        }
        effects.iter().for_each(|effects| self.note(effects));
    }

    /// Returns the effects of statements under the client's own name, confirmed or in flight.
    pub(super) fn effects_of_own(&mut self, name: &[u8]) -> Vec<Arc<Effects>> {
        let Some(own) = &self.link.client.own_names else {
            return Vec::new();
        };
        let known = own.known.get(key(name)).cloned();
        let coming =
            self.link
                .server
                .queue
                .iter()
                .filter_map(|entry| match entry.undo.as_deref() {
                    Some(Undo::Owned(own, statement, _)) if key(own) == key(name) => {
                        Some(Arc::clone(statement))
                    }
                    _ => None,
                });
        let statements: Vec<_> = known.into_iter().chain(coming).collect();
        let effects = statements.iter().filter_map(|one| self.effects_of(one));
        effects.collect()
    }

    /// Prepares a statement under the client's own name. If that fails, the statement keeps our name, and the client's
    /// transaction block is unharmed.
    fn give_own_name(&mut self, name: Arc<[u8]>, statement: &Arc<Statement>, is_used: bool) {
        let is_first = self.link.server.sent != Sent::OpenBatch;
        let is_in_block = is_first && self.link.server.status() == TransactionStatus::InTransaction;
        if is_in_block {
            self.say(SAVEPOINT);
        }
        self.link.server.has_own_names = true;
        let parsed = self.link.client.parsed(&name);
        // Types that other servers resolved do not apply to a Parse that no server has seen.
        let statement = match parsed {
            Some(Parsed::Known(_)) => Arc::clone(statement),
            _ => Arc::new(statement.apart(None)),
        };
        self.link.client.remember_own(Arc::clone(&name));
        let (before, after) = statement.literals(&self.link.client.settings);
        // Inside a batch of the client's that a failure skips too, the client gets the error.
        let duty = if is_first { Duty::Swallow } else { Duty::Try };
        before.iter().for_each(|sql| self.run_for(duty, sql));
        statement.put_parse(self.to_server.insert(), &name);
        let undo = Undo::Owned(Arc::clone(&name), Arc::clone(&statement), true);
        self.expect(Expected::new(Kind::Parse, Duty::Swallow).with_undo(undo));
        if statement.needs_description() {
            // The statement's columns are compared with those that the client relies on.
            match self.link.client.own_names.as_mut().filter(|_| !is_used) {
                Some(own) => drop(own.unchecked.insert(key(&name).into(), statement)),
                None => self.describe_own(statement, name, Duty::Swallow),
            }
        }
        after.iter().for_each(|sql| self.run_for(duty, sql));
        if is_first {
            // With a Sync of ours, a failure skips nothing of the client's. Cannot fail: five bytes fit.
            let _ = encode::sync(self.to_server.insert());
            self.expect(Expected::new(Kind::Sync, Duty::Swallow));
        }
        if is_in_block {
            self.say(TO_SAVEPOINT);
        }
    }

    /// Sends a query of ours.
    fn say(&mut self, sql: &str) {
        // Cannot fail: a constant text fits.
        let _ = (self.link.server).ask_for(sql, Duty::Try, self.to_server.insert());
    }

    /// True if a Parse must keep the client's name, because SQL may have taken it.
    pub(super) fn keeps_names(&self) -> bool {
        let client = &*self.link.client;
        client.own_names.is_some() || client.held_reasons().contains(Reason::Prepared)
    }

    /// Passes on a Parse under the client's own name.
    pub(super) fn parse_own(&mut self, message: Message, name: &[u8], statement: &Arc<Statement>) {
        self.begin_own_names();
        self.link.server.has_own_names = true;
        let client = &mut *self.link.client;
        let name: Arc<[u8]> = name.into();
        if client.statement(&name).is_none() {
            client.remember_own(Arc::clone(&name));
        }
        self.pass(message, None);
        // Copies of other clients do not come from this Parse.
        let statement = Arc::new(statement.apart(None));
        let undo = Undo::Owned(Arc::clone(&name), Arc::clone(&statement), false);
        self.expect(Expected::new(Kind::Parse, Duty::Forward).with_undo(undo));
        if statement.needs_description() {
            self.describe_own(statement, name, Duty::Try);
        }
    }

    /// Has the server describe a statement under the client's own name.
    fn describe_own(&mut self, statement: Arc<Statement>, name: Arc<[u8]>, duty: Duty) {
        // Cannot fail: a client's name contains no NUL.
        let kind = frontend::Kind::Statement;
        let _ = encode::describe(self.to_server.insert(), kind, &name);
        let renamed = Renamed {
            ours: statement,
            theirs: name,
        };
        self.expect(Expected::new(Kind::Describe, duty).with_renamed(Some(renamed)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_sql::{Functions, Judge};
    use weir_wire::frame::{Side, header};

    use super::*;
    use crate::client::Client;
    use crate::relay::{Link, Rules, SequencePolicy, StatePolicy, requests};
    use crate::server::Server;
    use crate::splice::Splice;
    use crate::statement::{Copy, Proven, Registry};

    /// Returns the messages that a server gets for these, sent one by one: tags and names.
    fn sent(client: &mut Client, server: &mut Server, messages: &[Vec<u8>]) -> Vec<String> {
        sent_by_rule(10, client, server, messages)
    }

    fn sent_by_rule(
        max_prepared: usize,
        client: &mut Client,
        server: &mut Server,
        messages: &[Vec<u8>],
    ) -> Vec<String> {
        let mut registry = Registry::new(0, 1);
        let (mut judge, proven) = (Judge::new(Functions::default()), Arc::<Proven>::default());
        let mut all = Vec::new();
        for message in messages {
            let (mut buffer, mut answers) = (Vec::new(), Vec::new());
            let mut link = Link {
                client,
                server,
                registry: &mut registry,
                judge: &mut judge,
                proven: &proven,
                rules: Rules {
                    max_prepared,
                    tracks_unnamed: true,
                    prepare_unnamed: 0,
                    refuse_simple_query: false,
                    message_max: u32::MAX,
                    state: StatePolicy::Track,
                    sequences: SequencePolicy::Learn,
                },
                digests: None,
                ruling: None,
            };
            let mut out = Splice::new(message, &mut buffer);
            requests(&mut link, message, &mut out, &mut answers).unwrap();
            all.extend_from_slice(out.finish());
        }
        let mut told = Vec::new();
        let mut rest = &all[..];
        while let Some(head) = header(rest, Side::Frontend).unwrap() {
            let body = &rest[5..head.total_len()];
            let name = body.split(|byte| *byte == 0).next().unwrap_or_default();
            told.push(format!("{} {}", char::from(head.tag), name.escape_ascii()));
            rest = &rest[head.total_len()..];
        }
        told
    }

    fn parse(name: &str, text: &str) -> Vec<u8> {
        let mut message = Vec::new();
        encode::parse(&mut message, name.as_bytes(), text.as_bytes(), &[0, 0]).unwrap();
        message
    }

    fn query(text: &str) -> Vec<u8> {
        let mut message = Vec::new();
        encode::query(&mut message, text.as_bytes()).unwrap();
        message
    }

    #[test]
    fn what_sql_may_mean_gets_its_own_name_and_nothing_else() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let first = [parse("p", "delete from t"), parse("q", "delete from u")];
        let told = sent(&mut client, &mut server, &first);
        assert!(
            told.iter().all(|one| one.starts_with("P weir_")),
            "{told:?}"
        );
        assert_eq!(first.len(), told.len());
        // A Sync would end the open batch.
        let told = sent(&mut client, &mut server, &[query("EXECUTE P(1)")]);
        assert_eq!(told, ["P p", "Q EXECUTE P(1)"]);
        // The Query ends the batch, so the next one waits for its answer.
        assert!(sent(&mut client, &mut server, &[query("execute p")]).is_empty());
        while server.queue.pop().is_some() {}
        let told = sent(
            &mut client,
            &mut server,
            &[query("execute p"), parse("r", "x")],
        );
        assert_eq!(told, ["Q execute p", "P r", "D Sr"]);
    }

    #[test]
    fn a_failure_of_ours_is_not_the_clients() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        client.remember(
            b"p".as_slice().into(),
            Some(Registry::new(0, 1).private(b"select 1\0\0\0")),
            Parsed::known(1),
        );
        let told = sent(&mut client, &mut server, &[query("PREPARE p AS SELECT 1")]);
        assert_eq!(told, ["P p", "D Sp", "S ", "Q PREPARE p AS SELECT 1"]);
        let entry = server.queue.pop().unwrap();
        server.take_back([entry], &mut client);
        assert!(matches!(client.statement(b"p"), Some((_, Some(_)))));
    }

    #[test]
    fn a_failure_of_ours_leaves_a_transaction_block_as_it_was() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let statement = Registry::new(0, 1).private(b"delete from t\0\0\0");
        let known = Some(Arc::clone(&statement));
        client.remember(b"p".as_slice().into(), known, Parsed::known(1));
        let begin = query("BEGIN");
        let list = query("SELECT * FROM pg_prepared_statements");
        // A reply must first show if a transaction block is open.
        let told = sent(&mut client, &mut server, &[begin, list.clone()]);
        assert_eq!(told, ["Q BEGIN"]);
        server.queue.pop().unwrap();
        server.status = TransactionStatus::InTransaction;
        let told = sent(&mut client, &mut server, &[list]);
        let sent = [
            "Q SAVEPOINT weir_own",
            "P p",
            "S ",
            "Q ROLLBACK TO SAVEPOINT weir_own;RELEASE SAVEPOINT weir_own",
            "Q SELECT * FROM pg_prepared_statements",
        ];
        assert_eq!(told, sent);
    }

    #[test]
    fn a_statement_keeps_our_name_in_a_block_that_has_failed() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let statement = Registry::new(0, 1).private(b"execute q\0\0\0");
        let known = Some(Arc::clone(&statement));
        client.remember(b"p".as_slice().into(), known, Parsed::known(1));
        client.own_names = Some(Box::default());
        server.prepared.add(&statement, 10, 0, Copy::default());
        server.status = TransactionStatus::Failed;
        let mut bind = Vec::new();
        encode::bind_head(&mut bind, b"", b"p", 6).unwrap();
        bind.extend_from_slice(&[0; 6]);
        // Its Parse would fail, and the Bind would not find the name.
        assert_eq!(sent(&mut client, &mut server, &[bind]), ["B "]);
        assert!(matches!(client.statement(b"p"), Some((_, Some(_)))));
    }

    #[test]
    fn with_the_lease_the_names_are_ours_again() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let statement = Registry::new(0, 1).private(b"select 1\0\0\0");
        let known = Some(Arc::clone(&statement));
        client.remember(b"p".as_slice().into(), known, Parsed::known(1));
        sent(&mut client, &mut server, &[query("EXECUTE p")]);
        client.owns(&b"p".as_slice().into(), &statement);
        client.owns(&b"gone".as_slice().into(), &statement);
        client.owns_only(&[b"p".as_slice().into()].into());
        client.leave_own_names();
        assert!(matches!(client.statement(b"p"), Some((_, Some(_)))));
        assert!(client.statement(b"gone").is_none());
        assert_eq!(server.forget_own_names(), Some("DEALLOCATE ALL"));
        assert_eq!(server.forget_own_names(), None);
    }

    #[test]
    fn a_reload_changes_no_name_that_a_client_has() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let told = sent_by_rule(0, &mut client, &mut server, &[parse("p", "x")]);
        assert_eq!(told, ["P p"]);
        let told = sent_by_rule(10, &mut client, &mut server, &[parse("q", "x")]);
        assert_eq!(told, ["P q"]);
        let mut other = Client::default();
        let told = sent_by_rule(10, &mut other, &mut server, &[parse("p", "x")]);
        assert_ne!(told, ["P p"]);
        let told = sent_by_rule(0, &mut other, &mut server, &[parse("q", "y")]);
        assert_ne!(told, ["P q"]);
    }

    #[test]
    fn the_view_of_statements_shows_the_clients_own_and_no_others() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let foreign = Registry::new(0, 1).private(b"select 'secret'\0\0\0");
        server.prepared.add(&foreign, 10, 0, Default::default());
        let close = format!("C S{}", String::from_utf8_lossy(&foreign.name));
        let own = Registry::new(0, 1).private(b"select 1\0\0\0");
        client.remember(b"p".as_slice().into(), Some(own), Parsed::known(1));
        let list = "table pg_prepared_statements";
        let told = sent(&mut client, &mut server, &[query(list)]);
        let listing = format!("Q {list}");
        assert_eq!(told, [&close, "P p", "S ", &listing]);
        // When used, the statement has our name again, so that its columns are compared.
        let mut bind = Vec::new();
        encode::bind_head(&mut bind, b"", b"p", 6).unwrap();
        bind.extend_from_slice(&[0; 6]);
        let told = sent(&mut client, &mut server, &[bind]);
        assert_eq!(told.first().map(String::as_str), Some("C Sp"));
        assert!(
            told.iter().any(|one| one.starts_with("P weir_")),
            "{told:?}"
        );
        // The next statement keeps its name too, and the server drops all of them.
        let told = sent(&mut client, &mut server, &[parse("q", "select 2")]);
        assert_eq!(told.first().map(String::as_str), Some("P q"));
        assert_eq!(server.forget_own_names(), Some("DEALLOCATE ALL"));

        // A client without statements of its own sees none.
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        server.prepared.add(&foreign, 10, 0, Default::default());
        let told = sent(&mut client, &mut server, &[parse("", list)]);
        assert_eq!(told, [&close, "P "]);
    }

    #[test]
    fn nobody_runs_what_others_have_prepared() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let foreign = Registry::new(0, 1).private(b"select 'secret'\0\0\0");
        server.prepared.add(&foreign, 10, 0, Default::default());
        client.remember(
            b"p".as_slice().into(),
            Some(Registry::new(0, 1).private(b"select 1\0\0\0")),
            Parsed::known(1),
        );
        let text = format!("EXECUTE {}", String::from_utf8_lossy(&foreign.name));
        let told = sent(&mut client, &mut server, &[query(&text)]);
        assert!(
            told[0].starts_with("C S") && told[1].starts_with("Q "),
            "{told:?}"
        );
    }
}
