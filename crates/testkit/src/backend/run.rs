//! Execution of one statement, in either protocol.

use weir_wire::backend::TransactionStatus::{Failed, Idle, InTransaction};
use weir_wire::encode;

use super::database::Letter;
use super::extended::{Portal, Prepared};
use super::session::{Intent, Table};
use super::sql::{Notice, OnCommit, Part, Select, Sql};
use super::{Backend, Failure};

/// True if the statement returns rows, or may.
pub(super) fn may_return_rows(sql: &Sql) -> bool {
    matches!(
        sql,
        Sql::Select(_)
            | Sql::Show(_)
            | Sql::Execute(_)
            | Sql::Fetch(..)
            | Sql::InsertParameter { returns: true, .. }
    )
}

impl Backend {
    /// Runs any statement except COPY FROM STDIN as a Query; `alone` is true if the Query has no
    /// other statement.
    pub(super) fn run(&mut self, sql: &Sql, alone: bool) -> Result<(), Failure> {
        if self.status == Failed && !sql.ends_transaction() {
            return Err(Failure::in_failed_transaction());
        }
        if matches!(sql, Sql::InsertParameter { .. }) {
            return Err(Failure::new("42P02", "there is no parameter $1"));
        }
        if !may_return_rows(sql) {
            return self.run_without_rows(sql, alone);
        }
        let columns = self.columns(sql)?;
        // Only a SELECT sends its RowDescription before it runs.
        let at_once = matches!(sql, Sql::Select(select) if *select != Select::FailsEarly);
        if let Some(columns) = columns.as_ref().filter(|_| at_once) {
            self.describe_rows(columns);
        }
        let rows = self.compute(sql)?;
        if let Some(columns) = columns.as_ref().filter(|_| !at_once) {
            self.describe_rows(columns);
        }
        self.put_rows(&rows.values);
        self.complete(&rows.tag.with(rows.values.len()));
        Ok(())
    }

    /// Runs a statement that returns no rows.
    pub(super) fn run_without_rows(&mut self, sql: &Sql, alone: bool) -> Result<(), Failure> {
        match sql {
            Sql::Begin(is_read_only) => self.begin(*is_read_only),
            Sql::Commit | Sql::Rollback => self.end_block(sql),
            Sql::Savepoint(name) => self.savepoint(name)?,
            Sql::Release(name) => self.release(name)?,
            Sql::RollbackTo(name) => self.rollback_to(name)?,
            Sql::CopyOut { lines, first, what } => {
                self.see(sql);
                self.copy_out(*lines, *first, what);
            }
            Sql::Die => {
                return Err(Failure {
                    fatal: true,
                    ..Failure::new(
                        "57P01",
                        "terminating connection due to administrator command",
                    )
                });
            }
            Sql::Do => self.complete("DO"),
            Sql::DoSet(name, value) => {
                self.set_inside(name, value)?;
                self.complete("DO");
            }
            Sql::Error(code, text) => return Err(Failure::new(code, text.as_str())),
            Sql::Notice(kind, text) => {
                self.notice(*kind, "00000", text);
                self.complete("DO");
            }
            Sql::Reset(name) => {
                self.defaults.check(name)?;
                self.session.change().values.set(name, None, false);
                self.complete("RESET");
            }
            Sql::ResetAll => {
                self.session.change().values.reset_all();
                self.complete("RESET");
            }
            Sql::Set(setting) => {
                self.set(setting)?;
                self.complete("SET");
            }
            Sql::Load => self.complete("LOAD"),
            other => self.run_with_objects(other, alone)?,
        }
        Ok(())
    }

    /// Runs statements about objects that a session holds.
    fn run_with_objects(&mut self, sql: &Sql, alone: bool) -> Result<(), Failure> {
        self.refuse_write(sql)?;
        match sql {
            Sql::Alter(table, to_int) => self.alter(table, *to_int)?,
            Sql::CreateTemp { table, on_commit } => self.create(table, *on_commit)?,
            Sql::Drop(table) => self.drop_table(table)?,
            Sql::Retype(table, number) => self.retype(table, *number)?,
            Sql::View(makes) => self.change_view(*makes)?,
            Sql::InsertParameter { .. } => self.complete("INSERT 0 1"),
            Sql::Insert(table, _) => {
                self.relation(table)?;
                let rows = self.compute(sql)?;
                self.complete(&rows.tag.with(0));
            }
            Sql::Prepare(name, query) => self.prepare(name, query)?,
            Sql::Deallocate(name) => self.deallocate(name.as_deref())?,
            Sql::Declare { name, hold, query } => self.declare(name, *hold, query)?,
            Sql::CloseCursor(None) => {
                self.portals.clear();
                self.complete("CLOSE CURSOR ALL");
            }
            Sql::CloseCursor(Some(name)) => {
                if self.portals.remove(name.as_bytes()).is_none() {
                    let text = format!("cursor \"{name}\" does not exist");
                    return Err(Failure::new("34000", text));
                }
                self.complete("CLOSE CURSOR");
            }
            Sql::Listen(channel) => {
                self.session.intents.push(Intent::Listen(channel.clone()));
                self.complete("LISTEN");
            }
            Sql::Unlisten(channel) => {
                let intent = Intent::Unlisten(channel.clone());
                self.session.intents.push(intent);
                self.complete("UNLISTEN");
            }
            Sql::Notify(channel, payload) => {
                let letter = Letter {
                    process: self.process,
                    channel: channel.clone(),
                    payload: payload.clone(),
                };
                if !self.session.letters.contains(&letter) {
                    self.session.letters.push(letter);
                }
                self.complete("NOTIFY");
            }
            Sql::Discard(part) => self.discard(*part),
            Sql::DiscardAll => self.discard_all(alone)?,
            other => unreachable!("{other:?} runs elsewhere"),
        }
        Ok(())
    }

    fn begin(&mut self, is_read_only: bool) {
        self.is_read_only |= is_read_only;
        if self.status == InTransaction {
            let text = "there is already a transaction in progress";
            self.notice(Notice::Warning, "25001", text);
        }
        self.status = InTransaction;
        self.complete("BEGIN");
    }

    fn end_block(&mut self, sql: &Sql) {
        let was = std::mem::replace(&mut self.status, Idle);
        if was == Idle {
            let text = "there is no transaction in progress";
            self.notice(Notice::Warning, "25P01", text);
        }
        let commits = *sql == Sql::Commit && was != Failed;
        self.pipelining = false;
        self.end_transaction(commits);
        self.complete(if commits { "COMMIT" } else { "ROLLBACK" });
    }

    /// Changes a column's type; the model never undoes it.
    fn alter(&mut self, table: &str, to_int: bool) -> Result<(), Failure> {
        if self.status != Idle {
            return Err(Failure::new("25001", "the model alters no table here"));
        }
        let mut shared = self.database.shared();
        if to_int {
            shared.ints.insert(table.to_owned());
        } else {
            shared.ints.remove(table);
        }
        drop(shared);
        self.complete("ALTER TABLE");
        Ok(())
    }

    fn create(&mut self, table: &str, on_commit: OnCommit) -> Result<(), Failure> {
        let values = &self.session.state.values;
        let empty = Table {
            owner: self.defaults.current_user(values).to_owned(),
            rows: Vec::new(),
            on_commit,
        };
        if self.session.state.tables.contains_key(table) {
            let text = format!("relation \"{table}\" already exists");
            return Err(Failure::new("42P07", text));
        }
        self.session.change().tables.insert(table.to_owned(), empty);
        self.complete("CREATE TABLE");
        Ok(())
    }

    fn drop_table(&mut self, table: &str) -> Result<(), Failure> {
        let user = self.defaults.current_user(&self.session.state.values);
        let is_superuser = self.setting("is_superuser") == Some("on");
        let Some(found) = self.session.state.tables.get(table) else {
            let text = format!("table \"{table}\" does not exist");
            return Err(Failure::new("42P01", text));
        };
        if !is_superuser && found.owner != user {
            let text = format!("must be owner of table {table}");
            return Err(Failure::new("42501", text));
        }
        self.session.change().tables.remove(table);
        self.complete("DROP TABLE");
        Ok(())
    }

    fn prepare(&mut self, name: &str, query: &Sql) -> Result<(), Failure> {
        let prepared = Prepared {
            statements: vec![query.clone()],
            columns: self.columns(query)?,
            from_sql: true,
            parameter: None,
            view: self.view(),
        };
        if self.statements.contains_key(name.as_bytes()) {
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(Failure::new("42P05", text));
        }
        self.statements.insert(name.as_bytes().to_vec(), prepared);
        self.complete("PREPARE");
        Ok(())
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<(), Failure> {
        let Some(name) = name else {
            self.forget_statements();
            self.complete("DEALLOCATE ALL");
            return Ok(());
        };
        if self.statements.remove(name.as_bytes()).is_none() {
            let text = format!("prepared statement \"{name}\" does not exist");
            return Err(Failure::new("26000", text));
        }
        self.complete("DEALLOCATE");
        Ok(())
    }

    fn declare(&mut self, name: &str, hold: bool, query: &Sql) -> Result<(), Failure> {
        if !hold && self.status == Idle && !self.in_implicit_block {
            let text = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(Failure::new("25P01", text));
        }
        let columns = self.columns(query)?;
        if self.portals.contains_key(name.as_bytes()) {
            let text = format!("cursor \"{name}\" already exists");
            return Err(Failure::new("42P03", text));
        }
        let rows = self.compute(query)?;
        let depth = self.session.depth();
        let cursor = Portal::cursor(hold, columns, rows, depth);
        self.portals.insert(name.as_bytes().to_vec(), cursor);
        self.complete("DECLARE CURSOR");
        Ok(())
    }

    fn discard(&mut self, part: Part) {
        let word = match part {
            Part::Plans => "DISCARD PLANS",
            Part::Sequences => {
                self.session.sequences.clear();
                "DISCARD SEQUENCES"
            }
            Part::Temp => {
                self.session.change().tables.clear();
                "DISCARD TEMP"
            }
        };
        self.complete(word);
    }

    fn discard_all(&mut self, alone: bool) -> Result<(), Failure> {
        if !alone || self.status != Idle {
            return Err(Failure::new(
                "25001",
                "DISCARD ALL cannot run inside a transaction block",
            ));
        }
        if self.pipelining {
            return Err(Failure::new(
                "25001",
                "DISCARD ALL cannot be executed within a pipeline",
            ));
        }
        self.portals.clear();
        self.forget_statements();
        let state = self.session.change();
        state.values.discard();
        state.tables.clear();
        self.session.intents.push(Intent::Unlisten(None));
        let mut shared = self.database.shared();
        shared.unlock_all(self.session.number);
        drop(shared);
        self.session.sequences.clear();
        self.complete("DISCARD ALL");
        Ok(())
    }

    /// Drops the named statements. PostgreSQL keeps the unnamed statement apart, so it survives.
    fn forget_statements(&mut self) {
        self.statements.retain(|name, _| name.is_empty());
    }

    fn copy_out(&mut self, lines: usize, first: usize, what: &str) {
        // CopyOutResponse: text, one column in text.
        self.buffered
            .extend_from_slice(&[b'H', 0, 0, 0, 9, 0, 0, 1, 0, 0]);
        for line in first..first + lines {
            self.put(|out| encode::copy_data(out, format!("{what}{line}\n").as_bytes()));
        }
        self.put(encode::copy_done);
        self.complete(&format!("COPY {lines}"));
    }

    pub(super) fn complete(&mut self, command: &str) {
        self.put(|out| encode::command_complete(out, command.as_bytes()));
    }
}
