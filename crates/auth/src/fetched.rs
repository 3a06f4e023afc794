//! Result of `auth_query` for a user, and its validity.
//!
//! The query gets the user's name as `$1` and returns no row or one: the name, the secret, and optionally the end of
//! the secret's validity, as in `pg_authid.rolvaliduntil`. A row about another user is refused: a query that matches
//! loosely must not turn one user into another.

use std::time::Duration;
use std::time::SystemTime;

use jiff::Timestamp;
use thiserror::Error;

use crate::login::Account;
use crate::stored::StoredSecret;
use crate::userlist::SECRET_LEN_MAX;

/// A column of a row; `None` is NULL.
pub type Column<'a> = Option<&'a [u8]>;

/// An account as returned by a query.
#[derive(Clone)]
pub struct Fetched {
    /// The account. No row is [`Account::Unknown`]. A NULL or expired secret is [`StoredSecret::Empty`], which no
    /// password fits.
    pub account: Account,
    /// Validity of this result.
    pub valid: Validity,
}

/// End of a secret's validity, by the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// No end: NULL or `infinity`.
    Endless,
    /// End at this time. `-infinity` is the beginning of 1970.
    Until(SystemTime),
}

impl Validity {
    /// True if the validity has ended. As in PostgreSQL, it ends at the very moment.
    #[must_use]
    pub fn has_ended(self, wall: SystemTime) -> bool {
        match self {
            Self::Endless => false,
            Self::Until(end) => end <= wall,
        }
    }

    /// Returns the time left from `wall` on; `None` if there is no end.
    #[must_use]
    pub fn left(self, wall: SystemTime) -> Option<Duration> {
        match self {
            Self::Endless => None,
            Self::Until(end) => Some(end.duration_since(wall).unwrap_or_default()),
        }
    }

    /// Parses PostgreSQL's output of a `timestamptz` in ISO style, or seconds since 1970 as from `extract(epoch from
    /// …)`.
    fn parse(text: &[u8]) -> Result<Self, FetchError> {
        let text = std::str::from_utf8(text).map_err(|_| FetchError::Validity)?;
        match text.to_ascii_lowercase().as_str() {
            "infinity" => return Ok(Self::Endless),
            "-infinity" => return Ok(Self::Until(SystemTime::UNIX_EPOCH)),
            _ => {}
        }
        // Years that these types cannot hold are far in the past or the future.
        let year_len = text.bytes().take_while(u8::is_ascii_digit).count();
        let is_date = year_len >= 4 && text.as_bytes().get(year_len) == Some(&b'-');
        if is_date && text.ends_with(" BC") {
            return Ok(Self::Until(SystemTime::UNIX_EPOCH));
        }
        if is_date && year_len > 4 {
            return Ok(Self::Endless);
        }
        if is_date {
            let moment: Timestamp = text.parse().map_err(|_| FetchError::Validity)?;
            return Ok(Self::Until(moment.into()));
        }
        let seconds: f64 = text.parse().map_err(|_| FetchError::Validity)?;
        if seconds.is_nan() {
            return Err(FetchError::Validity);
        }
        let Ok(since_1970) = Duration::try_from_secs_f64(seconds.max(0.0)) else {
            return Ok(Self::Endless);
        };
        Ok(SystemTime::UNIX_EPOCH
            .checked_add(since_1970)
            .map_or(Self::Endless, Self::Until))
    }
}

/// Mistake in the answer to an `auth_query`. Holds nothing of the answer itself.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The row has neither two nor three columns.
    #[error("auth_query returned {count} columns, expected user name and secret")]
    Columns {
        /// Columns found.
        count: usize,
    },
    /// More than one row: the right one is not known.
    #[error("auth_query returned more than one row")]
    Rows,
    /// Longer than [`SECRET_LEN_MAX`].
    #[error("auth_query returned a secret that is too long")]
    SecretTooLong,
    /// The name is NULL or that of another user.
    #[error("auth_query returned a row for another user")]
    User,
    /// The third column is not a time.
    #[error("auth_query returned an invalid expiry time in its third column")]
    Validity,
}

/// Interprets the rows that an `auth_query` for `user` returned; `wall` is the time now.
///
/// # Errors
/// The answer is not one clear statement about this user; the login must fail.
pub fn account<'a>(
    user: &[u8],
    rows: impl IntoIterator<Item = &'a [Column<'a>]>,
    wall: SystemTime,
) -> Result<Fetched, FetchError> {
    let mut rows = rows.into_iter();
    let Some(row) = rows.next() else {
        return Ok(Fetched {
            account: Account::Unknown,
            valid: Validity::Endless,
        });
    };
    if rows.next().is_some() {
        return Err(FetchError::Rows);
    }
    let (name, secret, valid) = match row {
        [name, secret] => (name, secret, None),
        [name, secret, valid] => (name, secret, *valid),
        _ => return Err(FetchError::Columns { count: row.len() }),
    };
    if *name != Some(user) {
        return Err(FetchError::User);
    }
    let secret = secret.unwrap_or_default();
    if secret.len() > SECRET_LEN_MAX {
        return Err(FetchError::SecretTooLong);
    }
    let valid = valid.map_or(Ok(Validity::Endless), Validity::parse)?;
    // The time of the end no longer matters, and a later query may find a new secret.
    if valid.has_ended(wall) {
        return Ok(Fetched {
            account: Account::Known(StoredSecret::Empty),
            valid: Validity::Endless,
        });
    }
    Ok(Fetched {
        account: Account::Known(StoredSecret::parse(secret)),
        valid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20 12:00:00 UTC.
    const NOON: u64 = 1_795_176_000;

    fn wall(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn fetch(rows: &[&[Column<'_>]]) -> Result<(&'static str, Validity), FetchError> {
        let fetched = account(b"alice", rows.iter().copied(), wall(NOON))?;
        let kind = match fetched.account {
            Account::Unknown => "unknown",
            Account::Known(StoredSecret::Empty) => "empty",
            Account::Known(StoredSecret::Plain(secret)) if secret.ct_eq(b"pencil") => "plain",
            Account::Known(_) => "other",
        };
        Ok((kind, fetched.valid))
    }

    const ALICE: Column<'_> = Some(b"alice");
    const PENCIL: Column<'_> = Some(b"pencil");

    #[test]
    fn no_row_is_an_unknown_user_and_null_is_a_secret_that_nothing_fits() {
        let endless = Validity::Endless;
        assert_eq!(fetch(&[]), Ok(("unknown", endless)));
        assert_eq!(fetch(&[&[ALICE, PENCIL]]), Ok(("plain", endless)));
        assert_eq!(fetch(&[&[ALICE, PENCIL, None]]), Ok(("plain", endless)));
        assert_eq!(fetch(&[&[ALICE, None]]), Ok(("empty", endless)));
        assert_eq!(fetch(&[&[ALICE, Some(b"")]]), Ok(("empty", endless)));
    }

    #[test]
    fn sec_41_a_row_about_somebody_else_is_refused() {
        for name in [
            None,
            Some(&b"bob"[..]),
            Some(b"Alice"),
            Some(b"alice "),
            Some(b""),
        ] {
            assert_eq!(fetch(&[&[name, PENCIL]]), Err(FetchError::User));
        }
    }

    #[test]
    fn an_answer_of_another_shape_is_refused() {
        let row: &[Column<'_>] = &[ALICE, PENCIL];
        assert_eq!(fetch(&[row, row]), Err(FetchError::Rows));
        for count in [0, 1, 4] {
            let row = vec![ALICE; count];
            assert_eq!(fetch(&[&row]), Err(FetchError::Columns { count }));
        }
        let long = vec![b'x'; SECRET_LEN_MAX + 1];
        assert_eq!(
            fetch(&[&[ALICE, Some(&long)]]),
            Err(FetchError::SecretTooLong)
        );
    }

    #[test]
    fn sec_42_a_secret_that_is_not_valid_any_more_is_none() {
        let until = |seconds| Validity::Until(wall(seconds));
        let table = [
            ("infinity", Ok(("plain", Validity::Endless))),
            ("Infinity", Ok(("plain", Validity::Endless))),
            ("-infinity", Ok(("empty", Validity::Endless))),
            ("2026-11-20 12:00:00+00", Ok(("empty", Validity::Endless))),
            ("2026-11-20 13:00:00+01", Ok(("empty", Validity::Endless))),
            ("2026-11-20 13:00:01+01", Ok(("plain", until(NOON + 1)))),
            ("2026-11-20 17:30:01+05:30", Ok(("plain", until(NOON + 1)))),
            ("2026-11-20 08:00:01-04", Ok(("plain", until(NOON + 1)))),
            (
                "2026-11-20 11:59:59.999999+00",
                Ok(("empty", Validity::Endless)),
            ),
            (
                "0044-03-15 12:00:00+00 BC",
                Ok(("empty", Validity::Endless)),
            ),
            ("99999-01-01 00:00:00+00", Ok(("plain", Validity::Endless))),
            ("1795176000", Ok(("empty", Validity::Endless))),
            ("1795176001.000000", Ok(("plain", until(NOON + 1)))),
            ("-1", Ok(("empty", Validity::Endless))),
            ("1e300", Ok(("plain", Validity::Endless))),
            ("", Err(FetchError::Validity)),
            ("NaN", Err(FetchError::Validity)),
            ("tomorrow", Err(FetchError::Validity)),
            ("2026-11-20 12:00:01", Err(FetchError::Validity)),
            ("20.11.2026 12:00:01+00", Err(FetchError::Validity)),
        ];
        for (text, expected) in table {
            assert_eq!(
                fetch(&[&[ALICE, PENCIL, Some(text.as_bytes())]]),
                expected,
                "{text}"
            );
        }
        let bytes = Some(&b"\xff"[..]);
        assert_eq!(fetch(&[&[ALICE, PENCIL, bytes]]), Err(FetchError::Validity));
    }
}
