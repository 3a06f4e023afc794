//! Values of options: parsed from text or number, checked, and written in either format.

use std::fmt::Write as _;
use std::time::Duration;

use crate::hint::HintPoint;
use crate::network::Network;
use crate::options::{Kind, Opt, Unit, nearest};
use crate::pattern::FunctionPattern;
use crate::point::HostPoint;
use crate::state::{FunctionName, StateCheck};
use crate::types::{AUTO, HostAddr, ListenAddr, ListenPoint, Secret};

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// No value given and no default.
    Unset,
    Bool(bool),
    Int(i64),
    Duration(Duration),
    Text(String),
    List(Vec<String>),
    Secret(Secret),
}

/// Spelling rules of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `[pgbouncer]`: integers by strtol with base 0, plain seconds, 0 and 1.
    Ini,
    /// Connection strings of the other sections: as `Ini`, but with decimal integers (PgBouncer uses atoi there).
    Entry,
    /// Strings in weir.toml and the environment: all of the above, and units and words.
    Native,
}

/// Reason for which a value was refused. The message never holds a secret.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BadValue {
    pub(crate) message: String,
    pub(crate) suggestion: Option<&'static str>,
}

impl BadValue {
    /// A refusal without a suggestion.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            suggestion: None,
        }
    }
}

impl Opt {
    /// Parses and checks a text.
    pub(crate) fn parse(&self, text: &str, dialect: Dialect) -> Result<Value, BadValue> {
        if text.contains('\0') {
            return Err(BadValue::plain("a NUL byte is not allowed"));
        }
        match self.kind {
            Kind::Bool => self.parse_bool(text, dialect),
            Kind::Int => self.int(parse_int(text, dialect).ok_or_else(|| self.expected())?),
            Kind::PoolSize if text.eq_ignore_ascii_case(AUTO) => Ok(Value::Text(AUTO.to_owned())),
            Kind::PoolSize => self.int(parse_int(text, dialect).ok_or_else(|| self.expected())?),
            Kind::Mode => self.int(parse_mode(text, dialect).ok_or_else(|| self.expected())?),
            Kind::Size => self.int(parse_size(text, dialect).ok_or_else(|| self.expected())?),
            Kind::Duration(unit) => {
                self.duration(parse_duration(text, unit, dialect).ok_or_else(|| self.expected())?)
            }
            Kind::Enum(words) => match words.iter().find(|w| w.eq_ignore_ascii_case(text)) {
                Some(word) => Ok(Value::Text((*word).to_owned())),
                None => Err(BadValue {
                    suggestion: nearest(text, words.iter().copied()),
                    ..self.expected()
                }),
            },
            Kind::Text | Kind::Secret => self.text(text),
            Kind::StateCheck => match StateCheck::parse(text) {
                Some(check) => Ok(Value::Text(check.to_string())),
                None => Err(BadValue {
                    suggestion: nearest(text, ["off", "always", "sample(1%)"].into_iter()),
                    ..self.expected()
                }),
            },
            Kind::Functions
            | Kind::Hints
            | Kind::HostPoints
            | Kind::Hosts
            | Kind::List
            | Kind::Listen
            | Kind::ListenPoints
            | Kind::Networks
            | Kind::Patterns => self.list(text.split(',')),
        }
    }

    /// Takes a whole number that the file gave as a number.
    pub(crate) fn number(&self, number: i64) -> Result<Value, BadValue> {
        match self.kind {
            Kind::Bool => self.bool_of(number),
            Kind::Int | Kind::Mode | Kind::PoolSize | Kind::Size => self.int(number),
            Kind::Duration(unit) => {
                let micros = i128::from(number) * i128::from(unit.micros());
                self.duration(u64::try_from(micros).map_err(|_| self.range())?)
            }
            _ => Err(self.expected()),
        }
    }

    /// Takes a number with a fraction that the file gave as a number.
    pub(crate) fn fraction(&self, number: f64) -> Result<Value, BadValue> {
        match self.kind {
            Kind::Duration(unit) => {
                self.duration(scaled(number, unit.micros()).ok_or_else(|| self.range())?)
            }
            _ => Err(self.expected()),
        }
    }

    /// Takes `true` or `false`.
    pub(crate) fn truth(&self, truth: bool) -> Result<Value, BadValue> {
        match self.kind {
            Kind::Bool => Ok(Value::Bool(truth)),
            _ => Err(self.expected()),
        }
    }

    /// Takes the elements of a list. Drops blanks around them, and empty elements.
    pub(crate) fn list<'a>(&self, items: impl Iterator<Item = &'a str>) -> Result<Value, BadValue> {
        if !self.kind.is_list() {
            return Err(self.expected());
        }
        let mut list = Vec::new();
        for item in items.map(str::trim).filter(|item| !item.is_empty()) {
            if item.contains(['\0', ',']) {
                return Err(BadValue::plain("an element has no comma and no NUL byte"));
            }
            list.push(self.element(item)?);
        }
        Ok(Value::List(list))
    }

    /// Checks one element and returns its canonical spelling.
    fn element(&self, item: &str) -> Result<String, BadValue> {
        match self.kind {
            Kind::Hosts => HostAddr::parse(item)
                .map(|host| host.to_string())
                .map_err(BadValue::plain),
            Kind::Hints => HintPoint::parse(item)
                .map(|point| point.to_string())
                .map_err(BadValue::plain),
            Kind::HostPoints => HostPoint::parse(item)
                .map(|point| point.to_string())
                .map_err(BadValue::plain),
            Kind::Listen => ListenAddr::parse(item)
                .map(|addr| addr.to_string())
                .map_err(BadValue::plain),
            Kind::ListenPoints => ListenPoint::parse(item)
                .map(|point| point.to_string())
                .map_err(BadValue::plain),
            Kind::Networks => Network::parse(item)
                .map(|network| network.to_string())
                .map_err(BadValue::plain),
            Kind::Functions => FunctionName::parse(item)
                .map(|name| name.to_string())
                .map_err(BadValue::plain),
            Kind::Patterns => FunctionPattern::parse(item)
                .map(|pattern| pattern.to_string())
                .map_err(BadValue::plain),
            _ => Ok(item.to_owned()),
        }
    }

    fn parse_bool(&self, text: &str, dialect: Dialect) -> Result<Value, BadValue> {
        if let Some(number) = parse_int(text, dialect) {
            // PgBouncer accepts any number here, as C does.
            let truth = if dialect == Dialect::Native {
                number
            } else {
                i64::from(number != 0)
            };
            return self.bool_of(truth);
        }
        match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" if dialect == Dialect::Native => Ok(Value::Bool(true)),
            "false" | "off" | "no" if dialect == Dialect::Native => Ok(Value::Bool(false)),
            _ => Err(self.expected()),
        }
    }

    fn bool_of(&self, number: i64) -> Result<Value, BadValue> {
        match number {
            0 => Ok(Value::Bool(false)),
            1 => Ok(Value::Bool(true)),
            _ => Err(self.expected()),
        }
    }

    fn int(&self, number: i64) -> Result<Value, BadValue> {
        if (self.min..=self.max).contains(&number) {
            Ok(Value::Int(number))
        } else {
            Err(self.range())
        }
    }

    fn duration(&self, micros: u64) -> Result<Value, BadValue> {
        let Kind::Duration(unit) = self.kind else {
            return Err(self.expected());
        };
        let limit = |bound: i64| {
            u64::try_from(bound)
                .unwrap_or(0)
                .saturating_mul(unit.micros())
        };
        if !(limit(self.min)..=limit(self.max)).contains(&micros) {
            return Err(self.range());
        }
        if self.zero_off && micros == 0 {
            return Ok(Value::Unset);
        }
        Ok(Value::Duration(Duration::from_micros(micros)))
    }

    fn text(&self, text: &str) -> Result<Value, BadValue> {
        if i64::try_from(text.len()).map_or(true, |len| len > self.max) {
            return Err(BadValue::plain(format!("longer than {} bytes", self.max)));
        }
        Ok(match self.kind {
            Kind::Secret => Value::Secret(Secret::new(text)),
            _ => Value::Text(text.to_owned()),
        })
    }

    fn expected(&self) -> BadValue {
        let message = match self.kind {
            Kind::Bool => "must be 0 or 1".to_owned(),
            Kind::Int => "must be a whole number".to_owned(),
            Kind::PoolSize => "must be a whole number or auto".to_owned(),
            Kind::Mode => "must be permissions in octal, such as 0770".to_owned(),
            Kind::Size => "must be a number of bytes".to_owned(),
            Kind::Duration(Unit::Seconds) => "must be a time in seconds".to_owned(),
            Kind::Duration(Unit::Milliseconds) => "must be a time in milliseconds".to_owned(),
            Kind::Duration(Unit::Microseconds) => "must be a time in microseconds".to_owned(),
            Kind::Enum(words) => format!("must be one of {}", words.join(", ")),
            Kind::Text | Kind::Secret => "must be a text".to_owned(),
            Kind::StateCheck => {
                "must be off, always or sample(N%) with N from 0.0001 to 100".to_owned()
            }
            Kind::Functions
            | Kind::Hints
            | Kind::HostPoints
            | Kind::Hosts
            | Kind::List
            | Kind::Listen
            | Kind::ListenPoints
            | Kind::Networks
            | Kind::Patterns => "must be a list of texts".to_owned(),
        };
        BadValue::plain(message)
    }

    fn range(&self) -> BadValue {
        let unit = match self.kind {
            Kind::Duration(Unit::Seconds) => " seconds",
            Kind::Duration(Unit::Milliseconds) => " milliseconds",
            Kind::Duration(Unit::Microseconds) => " microseconds",
            Kind::Size => " bytes",
            _ => "",
        };
        match self.kind {
            Kind::Mode => BadValue::plain(format!("must be from 0 to {:#o}", self.max)),
            _ => BadValue::plain(format!("must be from {} to {}{unit}", self.min, self.max)),
        }
    }
}

impl Unit {
    /// Number of microseconds in the unit.
    fn micros(self) -> u64 {
        match self {
            Self::Seconds => 1_000_000,
            Self::Milliseconds => 1_000,
            Self::Microseconds => 1,
        }
    }
}

/// Parses as strtol does, with base 0 or (in entries) 10, and with nothing left over.
fn parse_int(text: &str, dialect: Dialect) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = match hex {
        _ if dialect == Dialect::Entry => (digits, 10),
        Some(hex) => (hex, 16),
        None if digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    // from_str_radix accepts a sign itself, so a second sign is excluded here.
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(if negative { -number } else { number })
}

/// Parses permissions. Native files may also use TOML's `0o770`.
fn parse_mode(text: &str, dialect: Dialect) -> Option<i64> {
    match text.strip_prefix("0o") {
        Some(digits) if dialect == Dialect::Native => parse_int(&format!("0{digits}"), dialect),
        _ => parse_int(text, dialect),
    }
}

/// Parses bytes, natively also with B, KiB, MiB or GiB. "kB" is not accepted, because it often means 1000 bytes.
fn parse_size(text: &str, dialect: Dialect) -> Option<i64> {
    if dialect != Dialect::Native {
        return parse_int(text, dialect);
    }
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "" => return parse_int(text, dialect),
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(factor)
}

/// Parses a duration into microseconds. Plain numbers are in the option's unit.
fn parse_duration(text: &str, unit: Unit, dialect: Dialect) -> Option<u64> {
    let (number, suffix) = split_unit(text);
    let micros = match suffix {
        "" => unit.micros(),
        _ if dialect != Dialect::Native => return None,
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    if !number.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '+') {
        return None;
    }
    scaled(number.parse().ok()?, micros)
}

/// Reads a time as weir.toml does: `500ms`, `5s`, or `5` for seconds. None for anything else.
#[must_use]
pub fn parse_seconds(text: &str) -> Option<Duration> {
    parse_duration(text, Unit::Seconds, Dialect::Native).map(Duration::from_micros)
}

/// Returns `number * micros`, rounded; `None` if negative, not finite or too large to be exact.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the range check keeps the value within the integers that f64 holds exactly"
)]
fn scaled(number: f64, micros: u64) -> Option<u64> {
    let product = (number * micros as f64).round();
    (0.0..9.0e15).contains(&product).then_some(product as u64)
}

/// Splits off an alphabetic suffix: "30 s" gives ("30", "s").
fn split_unit(text: &str) -> (&str, &str) {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(number.len()..).unwrap_or_default();
    (number.trim_end(), unit)
}

impl Value {
    /// Formats as PgBouncer's console does; secrets as `***`.
    pub(crate) fn to_ini(&self, kind: Kind) -> String {
        match self {
            Self::Unset => if matches!(kind, Kind::Duration(_)) {
                "0"
            } else {
                ""
            }
            .to_owned(),
            Self::Bool(truth) => u8::from(*truth).to_string(),
            Self::Int(number) if kind == Kind::Mode => format!("0{number:o}"),
            Self::Int(number) => number.to_string(),
            Self::Duration(time) => match kind {
                Kind::Duration(Unit::Milliseconds) => decimal(*time, 1_000),
                Kind::Duration(Unit::Microseconds) => decimal(*time, 1),
                _ => decimal(*time, 1_000_000),
            },
            Self::Text(text) => text.clone(),
            Self::List(items) => items.join(", "),
            Self::Secret(secret) => if secret.is_empty() { "" } else { "***" }.to_owned(),
        }
    }

    /// Formats as weir.toml does; secrets as `"***"`.
    pub(crate) fn to_toml(&self, kind: Kind) -> String {
        match self {
            Self::Unset if matches!(kind, Kind::Duration(_)) => "0".to_owned(),
            Self::Bool(truth) => truth.to_string(),
            Self::Int(number) if kind == Kind::Mode => format!("0o{number:o}"),
            Self::Int(number) => number.to_string(),
            Self::Duration(time) => toml_duration(*time),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(|item| toml_text(item)).collect();
                format!("[{}]", items.join(", "))
            }
            _ => toml_text(&self.to_ini(kind)),
        }
    }
}

/// Formats a decimal number of units, each `micros` long, without needless zeros.
fn decimal(time: Duration, micros: u128) -> String {
    let total = time.as_micros();
    let (whole, rest) = (total / micros, total % micros);
    if rest == 0 {
        return whole.to_string();
    }
    let width = if micros == 1_000 { 3 } else { 6 };
    let text = format!("{whole}.{rest:0width$}");
    text.trim_end_matches('0').to_owned()
}

/// Formats a time for weir.toml.
pub(crate) fn toml_duration(time: Duration) -> String {
    match time.as_micros() {
        0 => "0".to_owned(),
        us if us % 1_000_000 == 0 => format!("\"{}s\"", us / 1_000_000),
        us if us % 1_000 == 0 => format!("\"{}ms\"", us / 1_000),
        us => format!("\"{us}us\""),
    }
}

/// Formats an option's text for weir.toml, where `${NAME}` would be an environment variable.
pub(crate) fn toml_text(text: &str) -> String {
    toml_string(&crate::expand::escape(text))
}

/// Formats a basic TOML string (toml.io, v1.0.0, "String").
pub(crate) fn toml_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
