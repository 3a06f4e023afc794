//! What one statement does, in either protocol.

use weir_wire::backend::TransactionStatus::{Failed, Idle, InTransaction};
use weir_wire::encode;

use super::sql::Sql;
use super::{Backend, Failure, Settings};

impl Backend {
    /// Runs anything but a COPY FROM STDIN as a Query; `alone`: it is the only statement there.
    pub(super) fn run(&mut self, sql: &Sql, alone: bool) -> Result<(), Failure> {
        if self.status == Failed && !sql.ends_transaction() {
            return Err(Failure::in_failed_transaction());
        }
        match sql {
            Sql::Rows(count, what) => {
                self.describe_row();
                self.rows(0, *count, what);
                self.complete(&format!("SELECT {count}"));
            }
            other => self.run_without_rows(other, alone)?,
        }
        Ok(())
    }

    /// Runs a statement that returns no rows.
    pub(super) fn run_without_rows(&mut self, sql: &Sql, alone: bool) -> Result<(), Failure> {
        match sql {
            Sql::Begin => self.begin(),
            Sql::Commit | Sql::Rollback => self.end_transaction(sql),
            Sql::CopyOut(lines) => self.copy_out(*lines),
            Sql::DeallocateAll => {
                self.forget_statements();
                self.complete("DEALLOCATE ALL");
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
            Sql::DiscardAll => self.discard_all(alone)?,
            Sql::Do => self.complete("DO"),
            Sql::Error(text) => return Err(Failure::new("22012", format!("error {text}"))),
            Sql::Notice(text) => {
                self.notice("00000", text);
                self.complete("DO");
            }
            Sql::Reset(name) => {
                let default = Settings::default().now.get(name).cloned();
                self.set(name, &default.unwrap_or_default());
                self.complete("RESET");
            }
            Sql::Set(name, value) => {
                self.set(name, value);
                self.complete("SET");
            }
            Sql::CopyIn | Sql::Rows(..) => unreachable!("run elsewhere"),
        }
        Ok(())
    }

    fn begin(&mut self) {
        if self.status == InTransaction {
            self.notice("25001", "there is already a transaction in progress");
        }
        self.status = InTransaction;
        self.complete("BEGIN");
    }

    fn end_transaction(&mut self, sql: &Sql) {
        let was = std::mem::replace(&mut self.status, Idle);
        if was == Idle {
            self.notice("25P01", "there is no transaction in progress");
        }
        let commits = *sql == Sql::Commit && was != Failed;
        if !commits {
            self.settings.now = self.settings.committed.clone();
        }
        self.finish();
        self.complete(if commits { "COMMIT" } else { "ROLLBACK" });
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
        self.forget_statements();
        let defaults = Settings::default();
        self.settings.now = defaults.now;
        self.settings.committed = defaults.committed;
        self.complete("DISCARD ALL");
        Ok(())
    }

    /// The unnamed one is kept apart by PostgreSQL, and survives.
    fn forget_statements(&mut self) {
        self.statements.retain(|name, _| name.is_empty());
    }

    fn set(&mut self, name: &str, value: &str) {
        self.settings.now.insert(name.to_owned(), value.to_owned());
    }

    fn copy_out(&mut self, lines: usize) {
        // CopyOutResponse: text, one column in text.
        self.buffered
            .extend_from_slice(&[b'H', 0, 0, 0, 9, 0, 0, 1, 0, 0]);
        for line in 0..lines {
            self.put(|out| encode::copy_data(out, format!("line {line}\n").as_bytes()));
        }
        self.put(encode::copy_done);
        self.complete(&format!("COPY {lines}"));
    }

    pub(super) fn describe_row(&mut self) {
        let column = encode::Column {
            name: "what",
            type_oid: 25,
            type_len: -1,
        };
        self.put(|out| encode::row_description(out, &[column]));
    }

    pub(super) fn rows(&mut self, from: usize, to: usize, what: &str) {
        for row in from..to {
            let value = if row == 0 {
                what.to_owned()
            } else {
                format!("{what}{row}")
            };
            self.put(|out| encode::data_row(out, &[Some(value.as_bytes())]));
        }
    }

    pub(super) fn complete(&mut self, command: &str) {
        self.put(|out| encode::command_complete(out, command.as_bytes()));
    }

    fn notice(&mut self, code: &str, text: &str) {
        let fields = [
            (b'S', &b"WARNING"[..]),
            (b'V', b"WARNING"),
            (b'C', code.as_bytes()),
            (b'M', text.as_bytes()),
        ];
        self.put(|out| encode::notice_response(out, &fields));
    }
}
