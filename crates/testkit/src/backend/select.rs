//! Statements that return rows: their columns and their values.

use weir_wire::encode;

use super::guc::canonical;
use super::resolved::Number;
use super::sql::{Ask, Lock, Name, Select, Setting, Sql};
use super::{Backend, Failure};

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    name: String,
    type_oid: u32,
    type_len: i16,
}

/// Rows of a result, and its CommandComplete.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) values: Vec<Vec<Option<String>>>,
    pub(super) tag: Tag,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Tag {
    /// Followed by the number of rows.
    Counted(&'static str),
    Plain(&'static str),
}

impl Tag {
    pub(super) fn with(self, count: usize) -> String {
        match self {
            Self::Counted(word) => format!("{word} {count}"),
            Self::Plain(word) => word.to_owned(),
        }
    }
}

/// Relation that a name, with or without a schema, refers to.
pub(super) enum Relation {
    /// Table of one column, and its only row.
    Permanent(Column, &'static str),
    Temporary,
}

const TEXT: (u32, i16) = (25, -1);
const BOOL: (u32, i16) = (16, 1);
const INT4: (u32, i16) = (23, 4);
const INT8: (u32, i16) = (20, 8);
const FLOAT8: (u32, i16) = (701, 8);
const NAME: (u32, i16) = (19, 64);
const VOID: (u32, i16) = (2278, 4);

fn column(name: &str, (type_oid, type_len): (u32, i16)) -> Column {
    Column {
        name: name.to_owned(),
        type_oid,
        type_len,
    }
}

fn no_relation(name: &Name) -> Failure {
    let name = match &name.schema {
        Some(schema) => format!("{schema}.{}", name.table),
        None => name.table.clone(),
    };
    Failure::new("42P01", format!("relation \"{name}\" does not exist"))
}

impl Backend {
    /// Resolves a name: temporary tables first, then the schemas of `search_path` in order.
    pub(super) fn relation(&self, name: &Name) -> Result<Relation, Failure> {
        if name.schema.is_none() && self.session.state.tables.contains_key(&name.table) {
            return Ok(Relation::Temporary);
        }
        let path = self.setting("search_path").unwrap_or_default();
        let listed = path
            .split(',')
            .map(|schema| schema.trim().trim_matches('"'));
        let schemas: Vec<&str> = match &name.schema {
            Some(schema) => vec![schema.as_str()],
            None => listed.collect(),
        };
        let found = schemas.into_iter().find_map(|schema| match schema {
            "one" if name.table == "place" => Some((column("name", TEXT), "one")),
            "two" if name.table == "place" => Some((column("name", TEXT), "two")),
            "three" if name.table == "place" => Some((column("name", INT4), "3")),
            schema if name.table == "spot" => {
                self.spot(schema).map(|row| (column("name", TEXT), row))
            }
            "public" if name.table.starts_with("kind_") => Some((column("v", INT4), "1")),
            "public" if name.table == "sink" => Some((column("a", TEXT), "")),
            "public" if name.table.starts_with("shape_") => {
                let is_int = self.database.shared().ints.contains(&name.table);
                Some((column("v", if is_int { INT4 } else { TEXT }), "1"))
            }
            _ => None,
        });
        let (column, row) = found.ok_or_else(|| no_relation(name))?;
        Ok(Relation::Permanent(column, row))
    }

    /// Analyses a statement and returns its columns, if it returns rows.
    pub(super) fn columns(&self, sql: &Sql) -> Result<Option<Vec<Column>>, Failure> {
        Ok(match sql {
            Sql::Insert(table, _) => {
                self.relation(table)?;
                None
            }
            Sql::InsertParameter { table, returns, .. } => {
                self.relation(table)?;
                returns.then(|| vec![column("pg_typeof", TEXT)])
            }
            Sql::Show(name) => {
                self.show(name)?;
                Some(vec![column(canonical(name), TEXT)])
            }
            Sql::Execute(name) => {
                let known = self.statements.get(name.as_bytes());
                known.and_then(|known| known.columns.clone())
            }
            Sql::Fetch(_, name) => {
                let cursor = self.portals.get(name.as_bytes());
                cursor.and_then(|cursor| cursor.columns.clone())
            }
            Sql::Select(Select::Question(_)) => {
                let texts = ["?column?", "name", "setting"];
                Some(texts.map(|name| column(name, TEXT)).to_vec())
            }
            Sql::Select(select) => Some(vec![self.column_of(select)?]),
            _ => None,
        })
    }

    fn column_of(&self, select: &Select) -> Result<Column, Failure> {
        Ok(match select {
            Select::Channels => column("pg_listening_channels", TEXT),
            Select::Currval(_) => column("currval", INT8),
            Select::CurrentSetting(_) => column("current_setting", TEXT),
            Select::CurrentUser => column("current_user", NAME),
            Select::CustomSetting(_) => column("coalesce", TEXT),
            Select::FailsEarly | Select::Integer(_) => column("?column?", INT4),
            Select::FailsLate => column("?column?", FLOAT8),
            Select::Guard(_) => column("none", INT4),
            Select::Lastval => column("lastval", INT8),
            Select::Ledger(_) => column("a", TEXT),
            Select::Literal(_) | Select::Series(..) => column("?column?", TEXT),
            Select::Lock(Lock::Take, _) => column("pg_advisory_lock", VOID),
            Select::Lock(Lock::Transaction, _) => column("pg_advisory_xact_lock", VOID),
            Select::Lock(Lock::Try, _) => column("pg_try_advisory_lock", BOOL),
            Select::Lock(Lock::Unlock, _) => column("pg_advisory_unlock", BOOL),
            Select::Lock(Lock::UnlockAll, _) => column("pg_advisory_unlock_all", VOID),
            Select::Nextval(_) => column("nextval", INT8),
            Select::Note(_) => column("note", TEXT),
            Select::Question(_) | Select::Rows(..) => column("what", TEXT),
            Select::SessionUser => column("session_user", NAME),
            Select::SetConfig { .. } => column("set_config", TEXT),
            Select::Table(table, name) => match self.relation(table)? {
                Relation::Temporary => column(name, TEXT),
                Relation::Permanent(column, _) => column,
            },
        })
    }

    /// Runs a statement that returns rows.
    pub(super) fn compute(&mut self, sql: &Sql) -> Result<Rows, Failure> {
        let plain = |value: String, word| Rows {
            values: vec![vec![Some(value)]],
            tag: Tag::Plain(word),
        };
        self.refuse_write(sql)?;
        self.see(sql);
        self.record(sql);
        match sql {
            Sql::Show(name) => Ok(plain(self.show(name)?, "SHOW")),
            Sql::Fetch(count, name) => self.fetch(*count, name),
            Sql::Execute(name) => {
                let sql = self.replan(name.as_bytes())?;
                self.compute(&sql)
            }
            Sql::Insert(table, value) => {
                self.insert(table, vec![value.clone()]);
                Ok(Rows {
                    values: Vec::new(),
                    tag: Tag::Plain("INSERT 0 1"),
                })
            }
            Sql::InsertParameter { number, .. } => {
                let name = number.map_or("unknown", Number::name);
                Ok(plain(name.to_owned(), "INSERT 0 1"))
            }
            Sql::Select(select) => Ok(Rows {
                values: self.select(select)?,
                tag: Tag::Counted("SELECT"),
            }),
            other => unreachable!("{other:?} returns no rows"),
        }
    }

    fn select(&mut self, select: &Select) -> Result<Vec<Vec<Option<String>>>, Failure> {
        let value = match select {
            Select::Channels => {
                let channels = self.session.channels.iter();
                return Ok(channels.map(|name| vec![Some(name.clone())]).collect());
            }
            Select::Question(asks) => return Ok(self.answer(asks)),
            Select::Rows(count, what) => {
                let row = |row| match row {
                    0 => what.clone(),
                    row => format!("{what}{row}"),
                };
                return Ok((0..*count).map(|at| vec![Some(row(at))]).collect());
            }
            Select::Series(count, what) => {
                let row = |row| vec![Some(format!("{what}{row}"))];
                return Ok((1..=*count).map(row).collect());
            }
            Select::Guard(lsn) if self.has_replayed(*lsn) => return Ok(Vec::new()),
            Select::Guard(_) => return Err(Failure::new("22012", "division by zero")),
            Select::Ledger(_) => return Ok(self.ledger_rows()),
            Select::Table(table, _) => return self.rows_of(table),
            Select::FailsEarly | Select::FailsLate => {
                return Err(Failure::new("22012", "division by zero"));
            }
            Select::Literal(value) | Select::Integer(value) => value.clone(),
            Select::Note(row) => {
                self.add_to_ledger(vec![row.clone()]);
                row.clone()
            }
            Select::CurrentSetting(name) => self.show(name)?,
            Select::CustomSetting(name) => {
                let value = self.show(name).unwrap_or_default();
                if value.is_empty() {
                    "none".to_owned()
                } else {
                    value
                }
            }
            Select::SetConfig { name, value, local } => {
                let value = Some(self.acceptable(name, value)?);
                self.session.change().values.set(name, value, *local);
                self.show(name)?
            }
            Select::CurrentUser => {
                let values = &self.session.state.values;
                self.defaults.current_user(values).to_owned()
            }
            Select::SessionUser => {
                let values = &self.session.state.values;
                self.defaults.session_user(values).to_owned()
            }
            Select::Lock(lock, key) => self.advisory(*lock, *key)?.to_owned(),
            Select::Nextval(_) | Select::Currval(_) | Select::Lastval => self.sequence(select)?,
        };
        Ok(vec![vec![Some(value)]])
    }

    fn rows_of(&self, table: &Name) -> Result<Vec<Vec<Option<String>>>, Failure> {
        match self.relation(table)? {
            Relation::Permanent(_, row) => Ok(vec![vec![Some(row.to_owned())]]),
            Relation::Temporary => {
                let found = self.session.state.tables.get(&table.table);
                let rows = found.map(|table| table.rows.clone()).unwrap_or_default();
                Ok(rows.into_iter().map(|row| vec![Some(row)]).collect())
            }
        }
    }

    pub(super) fn insert(&mut self, table: &Name, mut rows: Vec<String>) {
        if table.table == "sink" {
            self.add_to_ledger(rows);
        } else if self.session.state.tables.contains_key(&table.table)
            && let Some(table) = self.session.change().tables.get_mut(&table.table)
        {
            table.rows.append(&mut rows);
        }
    }

    fn sequence(&mut self, select: &Select) -> Result<String, Failure> {
        let undefined = |text| Failure::new("55000", text);
        let value = match select {
            Select::Nextval(name) => {
                let value = self.database.shared().nextval(name);
                self.session.sequences.insert(name.clone(), value);
                self.session.last_sequence = Some(name.clone());
                Some(value)
            }
            Select::Currval(name) => {
                let found = self.session.sequences.get(name).copied();
                let short = name.rsplit('.').next().unwrap_or(name);
                Some(found.ok_or_else(|| {
                    undefined(format!(
                        "currval of sequence \"{short}\" is not yet defined in this session"
                    ))
                })?)
            }
            _ => {
                let last = self.session.last_sequence.as_ref();
                last.and_then(|name| self.session.sequences.get(name).copied())
            }
        };
        let value = value
            .ok_or_else(|| undefined("lastval is not yet defined in this session".to_owned()))?;
        Ok(value.to_string())
    }

    /// Answers the questions of `weir_session::state` from the state of the model.
    fn answer(&self, asks: &[Ask]) -> Vec<Vec<Option<String>>> {
        let row = |kind: &str, name: &str, value| {
            vec![Some(kind.to_owned()), Some(name.to_owned()), value]
        };
        let mut rows = Vec::new();
        for ask in asks {
            match ask {
                Ask::AllSettings => {
                    let all = self.defaults.of_session(&self.session.state.values);
                    rows.extend(
                        all.into_iter()
                            .map(|(name, value)| row("s", &name, Some(value))),
                    );
                }
                Ask::Setting(name) => rows.push(row("s", name, self.show(name).ok())),
                Ask::Pinned(word, held) if self.holds(*held) => {
                    rows.push(row("p", word, Some(String::new())));
                }
                Ask::Pinned(..) => {}
                Ask::Statements => {
                    let known = self.statements.iter().filter(|(_, known)| !known.from_sql);
                    let names = known.map(|(name, _)| String::from_utf8_lossy(name).into_owned());
                    rows.extend(names.map(|name| row("n", &name, Some(String::new()))));
                }
            }
        }
        rows
    }

    // --- cursors ---

    fn fetch(&mut self, count: usize, name: &str) -> Result<Rows, Failure> {
        let missing = || Failure::new("34000", format!("cursor \"{name}\" does not exist"));
        let cursor = self.portals.get_mut(name.as_bytes()).ok_or_else(missing)?;
        let all = cursor.rows.as_ref().map(|rows| rows.values.as_slice());
        let left = all.unwrap_or_default().get(cursor.at..).unwrap_or_default();
        let values: Vec<_> = left.iter().take(count).cloned().collect();
        cursor.at += values.len();
        Ok(Rows {
            values,
            tag: Tag::Counted("FETCH"),
        })
    }

    // --- messages ---

    pub(super) fn describe_rows(&mut self, columns: &[Column]) {
        let columns: Vec<_> = columns
            .iter()
            .map(|column| encode::Column {
                name: &column.name,
                type_oid: column.type_oid,
                type_len: column.type_len,
            })
            .collect();
        self.put(|out| encode::row_description(out, &columns));
    }

    pub(super) fn put_rows(&mut self, rows: &[Vec<Option<String>>]) {
        for row in rows {
            let row: Vec<_> = row
                .iter()
                .map(|value| value.as_deref().map(str::as_bytes))
                .collect();
            self.put(|out| encode::data_row(out, &row));
        }
    }

    /// Applies a setting from inside a DO block or function.
    pub(super) fn set_inside(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        self.set(&Setting {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            local: false,
            any: false,
        })
    }
}
