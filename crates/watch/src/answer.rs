//! Answer of a host to a probe. Parsing allocates nothing and trusts nothing.

use std::fmt;
use std::str;

use thiserror::Error;

use crate::query::COLUMNS;

/// Position in the WAL of one timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Returns the number of bytes from `earlier` to this position; 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Parses PostgreSQL's form, `16/B374D848`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (high, low) = text.split_once('/')?;
        let (high, low) = (hexadecimal(high)?, hexadecimal(low)?);
        Some(Self(u64::from(high) << 32 | u64::from(low)))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

/// Facts that a host told about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Role, and positions in the WAL.
    pub position: Position,
    /// Start time of the postmaster, in microseconds. Differs after each start.
    pub started: i64,
    /// System identifier of the cluster; none if the statement did not ask or the function was denied.
    pub system: Option<u64>,
    /// Timeline of the last checkpoint: the host has replayed WAL of this timeline or a later one. None as for `system`.
    pub checkpoint_timeline: Option<u32>,
    /// True if transactions are READ ONLY by default (`default_transaction_read_only`).
    pub is_read_only: bool,
}

/// Role of a host and its positions in the WAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// The host is not in recovery.
    Primary {
        /// End of the WAL that is flushed: every commit that was acknowledged is below, unless its session had
        /// `synchronous_commit = off`.
        flushed: Lsn,
        /// End of the WAL that is written to buffers: every commit that was acknowledged is below.
        inserted: Lsn,
        /// Timeline.
        timeline: u32,
    },
    /// The host is in recovery.
    Replica {
        /// End of the WAL that is replayed: what queries see.
        replayed: Lsn,
        /// End of the WAL that was received by streaming; none before it began.
        received: Option<Lsn>,
        /// State of the WAL receiver.
        receiver: Receiver,
        /// True if replay is paused.
        is_paused: bool,
    },
}

/// State of a standby's WAL receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receiver {
    /// A receiver runs, but the user of the probe may not see more: it is no member of `pg_monitor`.
    Hidden,
    /// No receiver runs.
    #[default]
    None,
    /// A receiver runs and does not stream: it starts, waits or stops.
    Other {
        /// Timeline of the WAL that it received last.
        timeline: u32,
    },
    /// The receiver streams.
    Streaming {
        /// Timeline that it receives.
        timeline: u32,
    },
}

/// Reason for which an answer cannot be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadAnswer {
    /// The row has another number of columns.
    #[error("the answer to a probe has {0} columns instead of {COLUMNS}")]
    Columns(usize),
    /// A column has no value or a malformed one.
    #[error("the answer to a probe has no valid {0}")]
    Value(&'static str),
}

impl Answer {
    /// Parses the row that [`probe_query`](crate::probe_query) or [`sample_query`](crate::sample_query) returns; `None`
    /// stands for NULL.
    ///
    /// # Errors
    /// If a column is missing or malformed.
    pub fn parse(row: &[Option<&[u8]>]) -> Result<Self, BadAnswer> {
        let &[
            recovering,
            flushed,
            inserted,
            file,
            replayed,
            received,
            paused,
            timeline,
            status,
            started,
            control,
            read_only,
        ] = row
        else {
            return Err(BadAnswer::Columns(row.len()));
        };
        let position = if boolean(recovering, "recovery flag")? {
            Position::Replica {
                // No position: nothing was replayed yet.
                replayed: optional(replayed, "replay LSN", Lsn::parse)?.unwrap_or_default(),
                received: optional(received, "receive LSN", Lsn::parse)?,
                receiver: receiver(timeline, status)?,
                is_paused: boolean(paused, "state of replay")?,
            }
        } else {
            Position::Primary {
                flushed: required(flushed, "flush LSN", Lsn::parse)?,
                inserted: required(inserted, "insert LSN", Lsn::parse)?,
                timeline: required(file, "name of a WAL file", timeline_of)?,
            }
        };
        let control = optional(control, "system identifier", |text| {
            let (system, timeline) = text.split_once('/')?;
            Some((system.parse().ok()?, timeline.parse().ok()?))
        })?;
        Ok(Self {
            position,
            started: required(started, "start time", |text| text.parse().ok())?,
            system: control.map(|(system, _)| system),
            checkpoint_timeline: control.map(|(_, timeline)| timeline),
            is_read_only: required(read_only, "default_transaction_read_only", on_or_off)?,
        })
    }
}

fn receiver(timeline: Option<&[u8]>, status: Option<&[u8]>) -> Result<Receiver, BadAnswer> {
    let known = |text: &str| text.parse().ok();
    let timeline = || required(timeline, "timeline of the WAL receiver", known);
    match status {
        None => Ok(Receiver::None),
        Some(b"hidden") => Ok(Receiver::Hidden),
        Some(b"streaming") => Ok(Receiver::Streaming {
            timeline: timeline()?,
        }),
        Some(_) => Ok(Receiver::Other {
            timeline: timeline()?,
        }),
    }
}

fn required<T>(
    column: Option<&[u8]>,
    name: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, BadAnswer> {
    optional(column, name, parse)?.ok_or(BadAnswer::Value(name))
}

fn optional<T>(
    column: Option<&[u8]>,
    name: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, BadAnswer> {
    let Some(bytes) = column else {
        return Ok(None);
    };
    let value = str::from_utf8(bytes).ok().and_then(parse);
    value.map(Some).ok_or(BadAnswer::Value(name))
}

fn boolean(column: Option<&[u8]>, name: &'static str) -> Result<bool, BadAnswer> {
    match column {
        Some(b"t") => Ok(true),
        Some(b"f") => Ok(false),
        _ => Err(BadAnswer::Value(name)),
    }
}

fn on_or_off(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// Returns the timeline in the name of a WAL file: its first 8 of 24 hexadecimal digits.
fn timeline_of(file: &str) -> Option<u32> {
    let digits = file.get(..8).filter(|_| file.len() == 24)?;
    hexadecimal(digits).filter(|&timeline| timeline > 0)
}

/// Parses 1 to 8 hexadecimal digits. (The standard library would accept a sign as well.)
fn hexadecimal(digits: &str) -> Option<u32> {
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a line as psql prints it without alignment. An empty field is NULL.
    fn parse(line: &str) -> Result<Answer, BadAnswer> {
        let field = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        let fields: Vec<_> = line.split('|').map(field).collect();
        let row: Vec<_> = fields
            .iter()
            .map(|field| field.as_ref().map(String::as_bytes))
            .collect();
        Answer::parse(&row)
    }

    // Lines that PostgreSQL 15.18 has answered.
    const PRIMARY: &str = "f|0/3293438|0/32934A0|000000020000000000000003||||||1795533152748808|7711756156364204209/1|off";
    const STANDBY: &str =
        "t||||0/3293390|0/3293390|f|1|streaming|1795533152748808|7711756156364204209/1|off";
    const DIVERGED: &str =
        "t||||0/32935D0|0/3000000|f|1|waiting|1795533930248332|7711756156364204209/1|off";
    const PLAIN: &str = "t||||0/32909D0|0/32909D0|f||hidden|1795533152748808||off";

    #[test]
    fn a_primary_tells_its_positions_and_the_timeline_of_its_wal_file() {
        let answer = parse(PRIMARY).unwrap();
        let expected = Position::Primary {
            flushed: Lsn(0x0329_3438),
            inserted: Lsn(0x0329_34a0),
            timeline: 2,
        };
        assert_eq!(answer.position, expected);
        assert_eq!(answer.system, Some(7_711_756_156_364_204_209));
        assert_eq!(answer.checkpoint_timeline, Some(1));
        assert_eq!(answer.started, 1_795_533_152_748_808);
        assert!(!answer.is_read_only);
    }

    #[test]
    fn a_standby_tells_its_receiver() {
        let receiver_of = |line| match parse(line).unwrap().position {
            Position::Replica { receiver, .. } => receiver,
            Position::Primary { .. } => panic!("{line}"),
        };
        assert_eq!(receiver_of(STANDBY), Receiver::Streaming { timeline: 1 });
        assert_eq!(receiver_of(DIVERGED), Receiver::Other { timeline: 1 });
        assert_eq!(receiver_of(PLAIN), Receiver::Hidden);
        let without = STANDBY.replace("1|streaming", "|");
        assert_eq!(receiver_of(&without), Receiver::None);
    }

    #[test]
    fn a_plain_user_learns_less() {
        let answer = parse(PLAIN).unwrap();
        assert_eq!((answer.system, answer.checkpoint_timeline), (None, None));
    }

    #[test]
    fn malformed_answers_are_errors() {
        let bad = |name| Err(BadAnswer::Value(name));
        assert_eq!(parse("t|1"), Err(BadAnswer::Columns(2)));
        assert_eq!(parse(&PRIMARY.replacen('f', "x", 1)), bad("recovery flag"));
        for lsn in ["", "0", "/", "+1/1", "123456789/1", "0/g", "-1/0"] {
            let line = PRIMARY.replace("0/3293438", lsn);
            assert_eq!(parse(&line), bad("flush LSN"), "{lsn}");
        }
        for file in [
            "",
            "00000002",
            "000000000000000000000003",
            "0000000200000000000000ü3",
        ] {
            let line = PRIMARY.replace("000000020000000000000003", file);
            assert_eq!(parse(&line), bad("name of a WAL file"), "{file}");
        }
        let line = STANDBY.replace("|1|streaming", "||streaming");
        assert_eq!(parse(&line), bad("timeline of the WAL receiver"));
        let line = STANDBY.replace("f|1", "|1");
        assert_eq!(parse(&line), bad("state of replay"));
        assert_eq!(
            parse(&STANDBY.replace("off", "maybe")),
            bad("default_transaction_read_only")
        );
        assert_eq!(
            parse(&PRIMARY.replace("7711756156364204209/1", "7711756156364204209")),
            bad("system identifier")
        );
        let row = [Some(&b"\xff"[..]); COLUMNS];
        assert_eq!(Answer::parse(&row), bad("recovery flag"));
    }

    #[test]
    fn positions_are_printed_as_postgresql_does() {
        for text in ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"] {
            assert_eq!(Lsn::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Lsn(7).since(Lsn(3)), 4);
        assert_eq!(Lsn(3).since(Lsn(7)), 0);
    }
}
