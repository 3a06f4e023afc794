//! Names and types that PostgreSQL resolves when it parses a statement, from objects that all sessions share: the
//! type of a parameter, and which of two views a name refers to.
//!
//! A table `kind_*` in `public` has a column `v` of a number type, an integer at first, which `ALTER TABLE` changes
//! at once. `INSERT INTO kind_0 VALUES ($1)` has a parameter of the type that the column had at the Parse, for the
//! lifetime of the statement. `SELECT name FROM spot` refers to the view `ann.spot` if it exists, else to
//! `public.spot`; transactions create and drop `ann.spot`. The reference stays as resolved at the Parse, unless that
//! view is gone.

use super::extended::Prepared;
use super::sql::{Name, Select, Sql};
use super::{Backend, Failure};

/// Type of a column or parameter: number types, which PostgreSQL converts to each other on assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// `bigint`
    Big,
    /// `double precision`
    Double,
    /// `integer`
    Integer,
    /// `numeric`
    Numeric,
}

/// All number types.
pub const NUMBERS: [Number; 4] = [
    Number::Big,
    Number::Double,
    Number::Integer,
    Number::Numeric,
];

impl Number {
    /// PostgreSQL's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Big => "bigint",
            Self::Double => "double precision",
            Self::Integer => "integer",
            Self::Numeric => "numeric",
        }
    }

    /// OID of the type.
    pub fn oid(self) -> u32 {
        match self {
            Self::Big => 20,
            Self::Double => 701,
            Self::Integer => 23,
            Self::Numeric => 1700,
        }
    }

    /// Type with this OID.
    pub fn of_oid(oid: u32) -> Option<Self> {
        NUMBERS.into_iter().find(|number| number.oid() == oid)
    }
}

/// State of the view `ann.spot` in a transaction that has not committed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    Dropped,
    /// Created, with the number of the view.
    Made(u64),
}

/// Value of the view's row.
fn row(view: Option<u64>) -> &'static str {
    if view.is_some() { "ann" } else { "public" }
}

/// True for the only statement whose table a transaction can change.
fn finds_spot(sql: &Sql) -> bool {
    let spot = |name: &Name| name.schema.is_none() && name.table == "spot";
    matches!(sql, Sql::Select(Select::Table(name, _)) if spot(name))
}

impl Prepared {
    /// Replaces the statement by its use of the object it was resolved to.
    pub(super) fn resolved(&self, sql: &Sql) -> Sql {
        match sql {
            Sql::InsertParameter { table, returns, .. } => Sql::InsertParameter {
                table: table.clone(),
                returns: *returns,
                number: self.parameter,
            },
            sql if finds_spot(sql) => Sql::Select(Select::Literal(row(self.view).to_owned())),
            sql => sql.clone(),
        }
    }
}

impl Backend {
    /// Type of a statement's parameter, if it has one: the type that the client gave, else the column's type.
    pub(super) fn parameter(&self, sql: &Sql, given: &[u8]) -> Option<Number> {
        let Sql::InsertParameter { table, .. } = sql else {
            return None;
        };
        // The number of types comes first.
        let oid = given.get(2..).and_then(<[u8]>::first_chunk);
        let given = oid.and_then(|oid| Number::of_oid(u32::from_be_bytes(*oid)));
        Some(given.unwrap_or_else(|| self.database.shared().number_of(&table.table)))
    }

    /// Number of the view `ann.spot` as this session sees it; none if there is no view.
    pub(super) fn view(&self) -> Option<u64> {
        match self.session.state.view {
            Some(Pending::Dropped) => None,
            Some(Pending::Made(number)) => Some(number),
            None => self.database.shared().view(),
        }
    }

    /// Analyses a statement again if the view it refers to is gone. A view created since then changes nothing.
    pub(super) fn find_again(&mut self, name: &[u8]) {
        let now = self.view();
        if let Some(prepared) = self.statements.get_mut(name)
            && prepared.view.is_some()
        {
            prepared.view = now;
        }
    }

    /// Content of the view `spot` in this schema; none if the schema has none.
    pub(super) fn spot(&self, schema: &str) -> Option<&'static str> {
        let values = &self.session.state.values;
        match schema {
            "$user" if self.defaults.current_user(values) == "ann" => {
                self.view().map(|view| row(Some(view)))
            }
            "public" => Some(row(None)),
            _ => None,
        }
    }

    /// Checks the value that a Bind supplies for a statement's parameter.
    pub(super) fn read_parameter(
        &self,
        name: &str,
        number: Option<Number>,
        rest: &[u8],
    ) -> Result<(), Failure> {
        let Some(number) = number else {
            return Ok(());
        };
        let value = || {
            // No format codes (so text), one parameter, then the length of its value.
            let rest = rest.strip_prefix(&[0, 0, 0, 1])?;
            let (len, rest) = rest.split_first_chunk()?;
            rest.get(..usize::try_from(i32::from_be_bytes(*len)).ok()?)
        };
        let Some(value) = value() else {
            let text = format!(
                "bind message supplies 0 parameters, but prepared statement \"{name}\" requires 1"
            );
            return Err(Failure::new("08P01", text));
        };
        let value = String::from_utf8_lossy(value);
        if value.parse::<u32>().is_err() {
            let kind = number.name();
            let text = format!("invalid input syntax for type {kind}: \"{value}\"");
            return Err(Failure::new("22P02", text));
        }
        Ok(())
    }

    /// Runs `ALTER TABLE kind_0 ALTER COLUMN v TYPE numeric`; the model never undoes it.
    pub(super) fn retype(&mut self, table: &str, number: Number) -> Result<(), Failure> {
        if self.status != weir_wire::backend::TransactionStatus::Idle {
            return Err(Failure::new("25001", "the model alters no table here"));
        }
        self.database.shared().retype(table, number);
        self.complete("ALTER TABLE");
        Ok(())
    }

    /// Runs `CREATE VIEW ann.spot` or `DROP VIEW ann.spot`.
    pub(super) fn change_view(&mut self, makes: bool) -> Result<(), Failure> {
        let now = self.view();
        let mut shared = self.database.shared();
        let Some(number) = shared.lock_view(self.session.number) else {
            // PostgreSQL would wait.
            return Err(Failure::new("55P03", "somebody else changes this view"));
        };
        drop(shared);
        if makes && now.is_some() {
            return Err(Failure::new("42P07", "relation \"spot\" already exists"));
        }
        if !makes && now.is_none() {
            return Err(Failure::new("42P01", "view \"spot\" does not exist"));
        }
        let pending = if makes {
            Pending::Made(number)
        } else {
            Pending::Dropped
        };
        self.session.change().view = Some(pending);
        self.complete(if makes { "CREATE VIEW" } else { "DROP VIEW" });
        Ok(())
    }
}
