//! The extended protocol: statements and portals.

use weir_wire::backend::TransactionStatus::{Failed, Idle};
use weir_wire::encode;
use weir_wire::frontend::{self, Kind, tag};

use super::copy::Copying;
use super::sql::{self, Sql};
use super::{Backend, Failure};

/// A statement with its values, perhaps half run.
#[derive(Debug)]
pub(super) struct Portal {
    sql: Option<Sql>,
    /// Rows that were sent.
    at: usize,
    /// It was run and cannot be run again.
    done: bool,
}

/// Names as PostgreSQL compares them.
fn key(name: &[u8]) -> Vec<u8> {
    name.get(..63).unwrap_or(name).to_vec()
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn no_statement(name: &[u8]) -> Failure {
    let text = if name.is_empty() {
        "unnamed prepared statement does not exist".to_owned()
    } else {
        format!("prepared statement \"{}\" does not exist", shown(name))
    };
    Failure::new("26000", text)
}

fn no_portal(name: &[u8]) -> Failure {
    Failure::new(
        "34000",
        format!("portal \"{}\" does not exist", shown(name)),
    )
}

fn malformed() -> Failure {
    Failure::new("08P01", "invalid message format")
}

impl Backend {
    pub(super) fn extended_message(&mut self, tag: u8, body: &[u8]) -> Result<(), Failure> {
        match tag {
            tag::PARSE => {
                self.parse(&frontend::Parse::parse(body).map_err(|_| malformed())?)?;
            }
            tag::BIND => self.bind(&frontend::Bind::parse(body).map_err(|_| malformed())?)?,
            tag::DESCRIBE => {
                let describe = frontend::Describe::parse(body).map_err(|_| malformed())?;
                match describe.kind {
                    Kind::Statement => self.describe_statement(describe.name)?,
                    Kind::Portal => self.describe_portal(describe.name)?,
                }
            }
            tag::EXECUTE => {
                let execute = frontend::Execute::parse(body).map_err(|_| malformed())?;
                self.execute(execute.portal, execute.max_rows)?;
            }
            tag::CLOSE => {
                let close = frontend::Close::parse(body).map_err(|_| malformed())?;
                match close.kind {
                    Kind::Statement => drop(self.statements.remove(&key(close.name))),
                    Kind::Portal => drop(self.portals.remove(close.name)),
                }
                self.put(encode::close_complete);
            }
            _ => self.fatal("08P01", &format!("invalid frontend message type {tag}")),
        }
        Ok(())
    }

    fn parse(&mut self, parse: &frontend::Parse<'_>) -> Result<(), Failure> {
        let name = key(parse.name);
        if name.is_empty() {
            self.statements.remove(&name);
        }
        let statements = sql::parse(parse.sql).map_err(|error| Failure::new("42601", error))?;
        if statements.len() > 1 {
            return Err(Failure::new(
                "42601",
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        if let Some(first) = statements.first()
            && self.status == Failed
            && !first.ends_transaction()
        {
            return Err(Failure::in_failed_transaction());
        }
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(Failure::new(
                "42P05",
                format!(
                    "prepared statement \"{}\" already exists",
                    shown(parse.name)
                ),
            ));
        }
        self.statements.insert(name, statements);
        self.put(encode::parse_complete);
        Ok(())
    }

    fn statement(&self, name: &[u8]) -> Result<Option<Sql>, Failure> {
        let found = self.statements.get(&key(name));
        let found = found.ok_or_else(|| no_statement(name))?;
        Ok(found.first().cloned())
    }

    fn bind(&mut self, bind: &frontend::Bind<'_>) -> Result<(), Failure> {
        let sql = self.statement(bind.statement)?;
        if self.status == Failed && !sql.as_ref().is_some_and(Sql::ends_transaction) {
            return Err(Failure::in_failed_transaction());
        }
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            return Err(Failure::new(
                "42P03",
                format!("cursor \"{}\" already exists", shown(bind.portal)),
            ));
        }
        let portal = Portal {
            sql,
            at: 0,
            done: false,
        };
        self.portals.insert(bind.portal.to_vec(), portal);
        self.put(encode::bind_complete);
        Ok(())
    }

    fn describe_statement(&mut self, name: &[u8]) -> Result<(), Failure> {
        let sql = self.statement(name)?;
        let rows = sql.as_ref().is_some_and(Sql::returns_rows);
        if rows && self.status == Failed {
            return Err(Failure::in_failed_transaction());
        }
        // ParameterDescription of no parameters.
        self.buffered.extend_from_slice(&[b't', 0, 0, 0, 6, 0, 0]);
        self.describe(rows);
        Ok(())
    }

    fn describe_portal(&mut self, name: &[u8]) -> Result<(), Failure> {
        let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
        let rows = portal.sql.as_ref().is_some_and(Sql::returns_rows);
        if rows && self.status == Failed {
            return Err(Failure::in_failed_transaction());
        }
        self.describe(rows);
        Ok(())
    }

    fn describe(&mut self, rows: bool) {
        if rows {
            self.describe_row();
        } else {
            self.put(encode::no_data);
        }
    }

    fn execute(&mut self, name: &[u8], max_rows: i32) -> Result<(), Failure> {
        let portal = self.portals.get_mut(name).ok_or_else(|| no_portal(name))?;
        let Some(sql) = portal.sql.clone() else {
            self.put(encode::empty_query_response);
            return Ok(());
        };
        if self.status == Failed && !sql.ends_transaction() {
            return Err(Failure::in_failed_transaction());
        }
        if portal.done {
            return Err(Failure::new(
                "55000",
                format!("portal \"{}\" cannot be run", shown(name)),
            ));
        }
        match &sql {
            Sql::Rows(count, what) => {
                let left = count.saturating_sub(portal.at);
                let limit = usize::try_from(max_rows).unwrap_or(0);
                let now = if limit == 0 { left } else { left.min(limit) };
                let from = portal.at;
                portal.at += now;
                self.rows(from, from + now, what);
                if limit > 0 && now == limit {
                    self.put(encode::portal_suspended);
                } else {
                    self.complete(&format!("SELECT {now}"));
                }
            }
            Sql::CopyIn => {
                portal.done = true;
                self.start_copy(Copying::execute());
            }
            other => {
                portal.done = true;
                self.run_without_rows(other, true)?;
            }
        }
        self.pipelining = true;
        if sql.commits_at_once() && self.status == Idle {
            self.finish();
        }
        Ok(())
    }
}
