//! The extended protocol: statements and portals.

use weir_wire::backend::TransactionStatus::{Failed, Idle};
use weir_wire::encode;
use weir_wire::frontend::{self, Kind, tag};

use super::copy::Copying;
use super::resolved::Number;
use super::run::may_return_rows;
use super::select::{Column, Rows};
use super::sql::{self, Select, Sql};
use super::{Backend, Failure};

/// PostgreSQL's error when a statement would return other columns than when it was prepared.
pub(super) const RESULT_CHANGED: &str = "cached plan must not change result type";

/// Prepared statement, of the protocol or of SQL.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The statement; empty if the text was empty.
    pub(super) statements: Vec<Sql>,
    /// Columns at the time of the Parse; later executions must not return others.
    pub(super) columns: Option<Vec<Column>>,
    /// True if made by PREPARE.
    pub(super) from_sql: bool,
    /// Type of the parameter at the time of the Parse, if there is one.
    pub(super) parameter: Option<Number>,
    /// Number of the view `ann.spot` at the time of the Parse.
    pub(super) view: Option<u64>,
}

/// Statement with its values, possibly half executed; or a cursor.
#[derive(Debug)]
pub(super) struct Portal {
    sql: Option<Sql>,
    pub(super) columns: Option<Vec<Column>>,
    /// All rows, once execution has begun.
    pub(super) rows: Option<Rows>,
    /// Number of rows sent.
    pub(super) at: usize,
    /// True if it was executed and cannot be executed again.
    done: bool,
    /// True for WITH HOLD.
    pub(super) hold: bool,
    /// True if it has outlived its transaction.
    held: bool,
    /// Number of savepoints at the time it was created.
    pub(super) depth: usize,
}

impl Portal {
    pub(super) fn cursor(
        hold: bool,
        columns: Option<Vec<Column>>,
        rows: Rows,
        depth: usize,
    ) -> Self {
        Self {
            sql: None,
            columns,
            rows: Some(rows),
            at: 0,
            done: false,
            hold,
            held: false,
            depth,
        }
    }

    /// Ends a transaction for this portal; true if the portal survives.
    pub(super) fn outlives(&mut self, commits: bool) -> bool {
        self.held |= self.hold && commits;
        self.depth = 0;
        self.held
    }
}

/// Truncates a name as PostgreSQL does.
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
        // Constants are read when a statement is prepared.
        if let Some(Sql::Error(code @ "22P02", text)) = statements.first() {
            return Err(Failure::new(code, text.as_str()));
        }
        let columns = match statements.first() {
            Some(first) => self.columns(first)?,
            None => None,
        };
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(Failure::new(
                "42P05",
                format!(
                    "prepared statement \"{}\" already exists",
                    shown(parse.name)
                ),
            ));
        }
        let parameter = statements.first();
        let parameter = parameter.and_then(|first| self.parameter(first, parse.rest));
        let prepared = Prepared {
            statements,
            columns,
            from_sql: false,
            parameter,
            view: self.view(),
        };
        self.statements.insert(name, prepared);
        self.put(encode::parse_complete);
        Ok(())
    }

    /// Returns what a statement does now (`RevalidateCachedQuery` in plancache.c).
    pub(super) fn replan(&mut self, name: &[u8]) -> Result<Sql, Failure> {
        let sql = self.planned(name)?.0;
        sql.ok_or_else(|| no_statement(name))
    }

    fn planned(&mut self, name: &[u8]) -> Result<(Option<Sql>, Option<Vec<Column>>), Failure> {
        if self.status != Failed {
            self.find_again(&key(name));
        }
        let found = self.statements.get(&key(name));
        let found = found.ok_or_else(|| no_statement(name))?;
        let Some(sql) = found.statements.first() else {
            return Ok((None, None));
        };
        if !sql.is_plannable() || self.status == Failed {
            return Ok((Some(sql.clone()), found.columns.clone()));
        }
        let columns = self.columns(sql)?;
        if columns != found.columns {
            return Err(Failure::new("0A000", RESULT_CHANGED));
        }
        Ok((Some(found.resolved(sql)), columns))
    }

    /// Type of a statement's parameter, if it has one.
    fn parameter_of(&self, name: &[u8]) -> Option<Number> {
        let found = self.statements.get(&key(name));
        found.and_then(|found| found.parameter)
    }

    fn bind(&mut self, bind: &frontend::Bind<'_>) -> Result<(), Failure> {
        let (sql, mut columns) = self.planned(bind.statement)?;
        if self.status == Failed && !sql.as_ref().is_some_and(Sql::ends_transaction) {
            return Err(Failure::in_failed_transaction());
        }
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            return Err(Failure::new(
                "42P03",
                format!("cursor \"{}\" already exists", shown(bind.portal)),
            ));
        }
        self.read_parameter(
            &shown(bind.statement),
            self.parameter_of(bind.statement),
            bind.rest,
        )?;
        match &sql {
            Some(Sql::Select(Select::FailsEarly)) => {
                return Err(Failure::new("22012", "division by zero"));
            }
            Some(sql) if !sql.is_plannable() && self.status != Failed => {
                columns = self.columns(sql)?;
            }
            _ => {}
        }
        let portal = Portal {
            sql,
            columns,
            rows: None,
            at: 0,
            done: false,
            hold: false,
            held: false,
            depth: self.session.depth(),
        };
        self.portals.insert(bind.portal.to_vec(), portal);
        self.put(encode::bind_complete);
        Ok(())
    }

    fn describe_statement(&mut self, name: &[u8]) -> Result<(), Failure> {
        let (_, columns) = self.planned(name)?;
        if columns.is_some() && self.status == Failed {
            return Err(Failure::in_failed_transaction());
        }
        match self.parameter_of(name) {
            // ParameterDescription without parameters.
            None => self.buffered.extend_from_slice(&[b't', 0, 0, 0, 6, 0, 0]),
            Some(number) => {
                self.buffered.extend_from_slice(&[b't', 0, 0, 0, 10, 0, 1]);
                self.buffered.extend_from_slice(&number.oid().to_be_bytes());
            }
        }
        self.describe(columns.as_deref());
        Ok(())
    }

    fn describe_portal(&mut self, name: &[u8]) -> Result<(), Failure> {
        let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
        let columns = portal.columns.clone();
        if columns.is_some() && self.status == Failed {
            return Err(Failure::in_failed_transaction());
        }
        self.describe(columns.as_deref());
        Ok(())
    }

    fn describe(&mut self, columns: Option<&[Column]>) {
        match columns {
            Some(columns) => self.describe_rows(columns),
            None => self.put(encode::no_data),
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
            sql if may_return_rows(sql) => self.execute_rows(name, sql, max_rows)?,
            Sql::CopyIn(table) => {
                portal.done = true;
                self.copy_target(table.as_ref())?;
                self.start_copy(Copying::execute(table.clone()));
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

    fn execute_rows(&mut self, name: &[u8], sql: &Sql, max_rows: i32) -> Result<(), Failure> {
        let begun = self
            .portals
            .get(name)
            .and_then(|portal| portal.rows.clone());
        let rows = match begun {
            Some(rows) => rows,
            None => self.compute(sql)?,
        };
        let Some(portal) = self.portals.get_mut(name) else {
            return Ok(());
        };
        let left = rows.values.get(portal.at..).unwrap_or_default();
        let limit = usize::try_from(max_rows).unwrap_or(0);
        let now = if limit == 0 {
            left.len()
        } else {
            left.len().min(limit)
        };
        let (left, tag) = (left.get(..now).unwrap_or_default().to_vec(), rows.tag);
        portal.at += now;
        portal.rows = Some(rows);
        self.put_rows(&left);
        if limit > 0 && now == limit {
            self.put(encode::portal_suspended);
        } else {
            self.complete(&tag.with(now));
        }
        Ok(())
    }
}
