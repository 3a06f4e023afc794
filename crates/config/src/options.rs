//! Table of options, with one row per option. Parsers, defaults, `SHOW CONFIG` and the reference page derive from it
//! and have no knowledge of single options.

use std::time::Duration;

use crate::value::Value;

mod database;
mod global;
mod host;
mod listener;
mod pool;
mod user;

pub use self::database::Database;
pub use self::global::{AUTH_QUERY, Global};
pub use self::host::Host;
pub use self::listener::Listener;
pub use self::pool::PoolOptions;
pub use self::user::{Peer, UserSettings};

pub(crate) use self::database::DATABASE;
pub(crate) use self::global::GLOBAL;
pub(crate) use self::host::HOST;
pub(crate) use self::listener::LISTENER;
pub(crate) use self::pool::POOL;
pub(crate) use self::user::{PEER, USER};

/// Unit of a plain number without a unit in the file (PgBouncer's unit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, optionally with a fraction.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

/// Type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `0` or `1`; natively `true` or `false` too.
    Bool,
    /// A whole number.
    Int,
    /// File permissions, octal.
    Mode,
    /// A length of time.
    Duration(Unit),
    /// A number of bytes.
    Size,
    /// A word of a fixed list, in any case.
    Enum(&'static [&'static str]),
    /// Any text without a NUL byte; `max` is its length in bytes.
    Text,
    /// Words separated by commas; natively an array too.
    List,
    /// Server hosts separated by commas.
    Hosts,
    /// Places that tell of failovers, separated by commas.
    Hints,
    /// Server hosts, each with a port or without, separated by commas.
    HostPoints,
    /// Addresses to listen on, separated by commas.
    Listen,
    /// Addresses with ports to listen on, separated by commas.
    ListenPoints,
    /// Networks of addresses separated by commas.
    Networks,
    /// Names of functions separated by commas.
    Functions,
    /// Patterns of names of functions separated by commas.
    Patterns,
    /// A whole number, or `auto`.
    PoolSize,
    /// `off`, `always` or `sample(N%)`.
    StateCheck,
    /// A text that is never shown.
    Secret,
}

/// Section in which an option may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `[pgbouncer]`, or the top level of weir.toml.
    Global,
    /// An entry of `[databases]`.
    Database,
    /// A table `[databases.NAME.hosts.ADDRESS]`, or a line of `[hosts]`.
    Host,
    /// An entry of `[listeners]`.
    Listener,
    /// An entry of `[pools]`, or a table `[pools.DATABASE.USER]`.
    Pool,
    /// An entry of `[users]`.
    User,
    /// An entry of `[peers]`.
    Peer,
}

impl Kind {
    /// True for counts and measures.
    pub(crate) fn is_number(self) -> bool {
        matches!(
            self,
            Self::Int | Self::Mode | Self::PoolSize | Self::Size | Self::Duration(_)
        )
    }

    /// True for lists.
    pub(crate) fn is_list(self) -> bool {
        matches!(
            self,
            Self::Functions
                | Self::Hints
                | Self::HostPoints
                | Self::Hosts
                | Self::List
                | Self::Listen
                | Self::ListenPoints
                | Self::Networks
                | Self::Patterns
        )
    }
}

impl Scope {
    /// Returns the rows of this section.
    #[must_use]
    pub fn options(self) -> &'static [Opt] {
        match self {
            Self::Global => GLOBAL,
            Self::Database => DATABASE,
            Self::Host => HOST,
            Self::Listener => LISTENER,
            Self::Pool => POOL,
            Self::User => USER,
            Self::Peer => PEER,
        }
    }

    /// Returns the row of this name or alias.
    #[must_use]
    pub fn find(self, name: &str) -> Option<&'static Opt> {
        self.options()
            .iter()
            .find(|opt| opt.name == name || opt.aliases.contains(&name))
    }

    /// Returns the known key most like `name`, if one is near.
    #[must_use]
    pub fn nearest(self, name: &str) -> Option<&'static str> {
        let names = self.options().iter();
        nearest(
            name,
            names.flat_map(|opt| opt.aliases.iter().copied().chain([opt.name])),
        )
    }
}

/// Effect of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The option works as described.
    Full,
    /// The option has no effect: it is accepted for compatibility with PgBouncer. The text gives the reason.
    None(&'static str),
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Opt {
    /// The key in files; `WEIR_` and its upper case in the environment.
    pub name: &'static str,
    /// Other accepted spellings of the key.
    pub aliases: &'static [&'static str],
    /// Type of the value.
    pub kind: Kind,
    /// The default as PgBouncer's ini would spell it; `None` = inherited or unset.
    pub default: Option<&'static str>,
    /// The default in weir.toml if it differs.
    pub default_native: Option<&'static str>,
    /// Smallest value: a number, bytes, or the option's own unit of time.
    pub min: i64,
    /// Largest value, likewise; for texts the longest length in bytes.
    pub max: i64,
    /// True if zero switches the function off.
    pub zero_off: bool,
    /// True if a reload applies a change; otherwise it needs a restart.
    pub reloadable: bool,
    /// Effect of the option.
    pub effect: Effect,
    /// Sentence for the reference page.
    pub doc: &'static str,
}

/// PgBouncer's integers are C `int`s.
const INT_MAX: i64 = 0x7fff_ffff;
/// Largest lag that may be allowed to a replica: 1 TiB.
const LAG_MAX: i64 = 1 << 40;
/// Longest text value; PgBouncer's own lines are shorter.
const TEXT_MAX: i64 = 65_536;

impl Opt {
    const fn new(kind: Kind, default: &'static str, min: i64, max: i64) -> Self {
        Self {
            name: "",
            aliases: &[],
            kind,
            default: Some(default),
            default_native: None,
            min,
            max,
            zero_off: false,
            reloadable: true,
            effect: Effect::Full,
            doc: "",
        }
    }

    /// Marks the option as not reloadable.
    const fn fixed(mut self) -> Self {
        self.reloadable = false;
        self
    }

    /// Marks the option as accepted without effect, with the reason.
    const fn without_effect(mut self, why: &'static str) -> Self {
        self.effect = Effect::None(why);
        self
    }

    const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn native(mut self, default: &'static str) -> Self {
        self.default_native = Some(default);
        self
    }

    /// Removes the default: the option overrides another one, or is unset.
    const fn unset(mut self) -> Self {
        self.default = None;
        self
    }

    const fn longest(mut self, bytes: i64) -> Self {
        self.max = bytes;
        self
    }

    const fn named(mut self, name: &'static str, doc: &'static str) -> Self {
        self.name = name;
        self.doc = doc;
        self
    }
}

const fn flag(default: &'static str) -> Opt {
    Opt::new(Kind::Bool, default, 0, 1)
}
const fn int(default: &'static str) -> Opt {
    Opt::new(Kind::Int, default, 0, INT_MAX)
}
const fn ranged(default: &'static str, min: i64, max: i64) -> Opt {
    Opt::new(Kind::Int, default, min, max)
}
const fn seconds(default: &'static str) -> Opt {
    Opt::new(Kind::Duration(Unit::Seconds), default, 0, INT_MAX)
}
/// Seconds, where zero means "off".
const fn timeout(default: &'static str) -> Opt {
    let mut opt = seconds(default);
    opt.zero_off = true;
    opt
}
const fn size(default: &'static str, min: i64, max: i64) -> Opt {
    Opt::new(Kind::Size, default, min, max)
}
const fn word(names: &'static [&'static str], default: &'static str) -> Opt {
    Opt::new(Kind::Enum(names), default, 0, 0)
}
const fn text(default: &'static str) -> Opt {
    Opt::new(Kind::Text, default, 0, TEXT_MAX)
}
const fn pool_size(default: &'static str) -> Opt {
    Opt::new(Kind::PoolSize, default, 0, INT_MAX)
}
const fn list(default: &'static str) -> Opt {
    Opt::new(Kind::List, default, 0, TEXT_MAX)
}
const fn of_kind(kind: Kind, default: &'static str) -> Opt {
    Opt::new(kind, default, 0, TEXT_MAX)
}

/// Type of a field that holds an option's value. Values are checked before; a wrong kind gives the type's default.
pub(crate) trait Field: Sized {
    fn from_value(value: &Value) -> Self;
    fn to_value(&self) -> Value;
}

/// Declares one section: the plain struct and its rows of the table, from one text.
macro_rules! section {
    ($(#[$meta:meta])* $name:ident, $table:ident {
        $( $(#[doc = $doc:literal])+ $field:ident : $ty:ty = $row:expr; )+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $( $(#[doc = $doc])+ pub $field: $ty, )+ }

        pub(crate) static $table: &[Opt] =
            &[$( $row.named(stringify!($field), concat!($($doc),+)), )+];

        impl $name {
            /// Builds the struct from one checked value per row.
            pub(crate) fn from_values(get: &dyn Fn(&str) -> Value) -> Self {
                Self { $( $field: <$ty as Field>::from_value(&get(stringify!($field))), )+ }
            }

            /// The values in the order of the rows.
            pub(crate) fn values(&self) -> Vec<(&'static Opt, Value)> {
                let values = [$( Field::to_value(&self.$field), )+];
                $table.iter().zip(values).collect()
            }
        }
    };
}
use section;

impl Field for bool {
    fn from_value(value: &Value) -> Self {
        matches!(value, Value::Bool(true))
    }
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

/// Integers fit their field because the row's range lies within the type; a test checks this for the table.
macro_rules! integer_field {
    ($($ty:ty),+) => { $(
        impl Field for $ty {
            fn from_value(value: &Value) -> Self {
                match value {
                    Value::Int(number) => Self::try_from(*number).unwrap_or_default(),
                    _ => 0,
                }
            }
            fn to_value(&self) -> Value {
                Value::Int(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }
    )+ };
}
integer_field!(u16, u32, u64);

impl Field for Duration {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Duration(duration) => *duration,
            _ => Self::ZERO,
        }
    }
    fn to_value(&self) -> Value {
        Value::Duration(*self)
    }
}

impl Field for String {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Text(text) => text.clone(),
            _ => Self::new(),
        }
    }
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Field for Vec<String> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => items.clone(),
            _ => Self::new(),
        }
    }
    fn to_value(&self) -> Value {
        Value::List(self.clone())
    }
}

impl<T: Field> Field for Option<T> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Unset => None,
            value => Some(T::from_value(value)),
        }
    }
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Unset, Field::to_value)
    }
}

/// Returns the candidate with the smallest edit distance, if it is near enough to be a typing error.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    // A long word is no typing error; the bound also keeps the quadratic distance cheap on hostile input.
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    let near = candidates
        .map(|name| (distance(&lower, name), name))
        .min_by_key(|pair| pair.0);
    near.filter(|(steps, name)| *steps <= 1 + name.len().min(word.len()) / 4)
        .map(|(_, name)| name)
}

/// Returns the number of edits from `a` to `b`, by bytes: insert, delete, replace; a swap of neighbours counts as two.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = Vec::with_capacity(row.len());
        next.push(left);
        for (y, above) in b.bytes().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(x != y))
                .min(above + 1)
                .min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
