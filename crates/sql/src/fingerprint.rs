//! Fingerprints of statements, as PostgreSQL's own grammar reads them.

use std::fmt;
use std::str::FromStr;

use pg_query::{FingerprintOptions, ParserOptions};

/// Maximum length in bytes of a statement that is parsed for its fingerprint: the time that a hostile text takes in the
/// grammar is quadratic, 3 ms for this many bytes.
pub(crate) const STATEMENT_MAX: usize = 2 * 1024;

/// Fingerprint of a statement: a number that does not depend on literals, parameters, comments, white space or the length of
/// lists.
///
/// ```
/// use weir_sql::Fingerprint;
///
/// let one = Fingerprint::of("SELECT * FROM t WHERE a IN (1, 2)").unwrap();
/// assert_eq!(Some(one), Fingerprint::of("select * from t where a in ($1)"));
/// assert_eq!(one.to_string().parse(), Ok(one));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u64);

/// Text that is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint has 16 hexadecimal digits")]
pub struct BadFingerprint;

impl Fingerprint {
    /// Returns the fingerprint for statistics, which counts the partitions of a table as one: it ignores schemas, and
    /// numbers in the names of tables; an alias stands for its table. `None` if PostgreSQL's grammar (version 18) rejects the
    /// text, or if it is longer than 2 KiB.
    #[must_use]
    pub fn of(statement: &str) -> Option<Self> {
        read(statement, FingerprintOptions::DEFAULT)
    }

    /// Returns the fingerprint for rules: schemas and whole names count, aliases do not. `None` as with
    /// [`Fingerprint::of`].
    #[must_use]
    pub fn exact(statement: &str) -> Option<Self> {
        let options = FingerprintOptions::RANGEVAR_PG17_COMPAT | FingerprintOptions::FULL_RELNAME;
        read(statement, options)
    }
}

fn read(statement: &str, options: FingerprintOptions) -> Option<Fingerprint> {
    if statement.len() > STATEMENT_MAX {
        return None;
    }
    let found = pg_query::fingerprint(statement, ParserOptions::default(), options).ok()?;
    Some(Fingerprint(found.value))
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = BadFingerprint;

    fn from_str(text: &str) -> Result<Self, BadFingerprint> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number.map(Self).ok_or(BadFingerprint)
    }
}

/// Returns the statement with `$1`, `$2`, ... for its literals, as pg_stat_statements shows it. `None` if PostgreSQL's grammar
/// rejects the text, or if it is longer than 2 KiB.
///
/// ```
/// let text = weir_sql::normalized("SELECT a FROM t WHERE b = 1").unwrap();
/// assert_eq!(text, "SELECT a FROM t WHERE b = $1");
/// ```
#[must_use]
pub fn normalized(statement: &str) -> Option<String> {
    if statement.len() > STATEMENT_MAX {
        return None;
    }
    pg_query::normalize(statement).ok()
}
