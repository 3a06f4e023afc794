//! Reader of PgBouncer's auth_file: `"user" "secret" anything` per line.
//!
//! `""` inside quotes is one quote, a line that begins with `;` is a comment, blank lines are skipped. PgBouncer stops
//! at the first bad line and runs with the lines before it. Weir refuses the whole file, because a configuration
//! mistake must not lead to half a configuration.

use std::collections::BTreeMap;

use thiserror::Error;
use zeroize::Zeroizing;

use crate::stored::StoredSecret;

/// Maximum length of a user name in bytes, PgBouncer's limit.
pub const USER_LEN_MAX: usize = 127;

/// Maximum length of a secret in bytes, PgBouncer's limit.
pub const SECRET_LEN_MAX: usize = 65_530;

/// The users of an auth_file. Names are bytes, as on the wire.
pub struct UserList {
    users: BTreeMap<Vec<u8>, StoredSecret>,
    repeated_lines: Vec<usize>,
}

impl UserList {
    /// Parses the text of a file. If a user is listed twice, the later line wins, as in PgBouncer, where each line adds
    /// or updates; [`UserList::repeated_lines`] lists these lines.
    ///
    /// # Errors
    /// Returns the number of the first bad line and its mistake.
    pub fn parse(text: &[u8]) -> Result<Self, UserListError> {
        let mut list = Self {
            users: BTreeMap::new(),
            repeated_lines: Vec::new(),
        };
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let number = index + 1;
            let entry = entry(line).map_err(|fault| UserListError {
                line: number,
                fault,
            })?;
            let Some((user, secret)) = entry else {
                continue;
            };
            if list.users.insert(user, secret).is_some() {
                list.repeated_lines.push(number);
            }
        }
        Ok(list)
    }

    /// Returns the secret of a user; `None` if the file does not list the user.
    #[must_use]
    pub fn get(&self, user: &[u8]) -> Option<&StoredSecret> {
        self.users.get(user)
    }

    /// Iterates over all users, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &StoredSecret)> {
        self.users
            .iter()
            .map(|(user, secret)| (user.as_slice(), secret))
    }

    /// Number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// True if there is no user.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Numbers of the lines (from 1) that replaced an earlier line for the same user; worth a
    /// warning.
    #[must_use]
    pub fn repeated_lines(&self) -> &[usize] {
        &self.repeated_lines
    }
}

/// A malformed line. Holds nothing of the line itself, which may contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {fault}")]
pub struct UserListError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The mistake.
    pub fault: UserListFault,
}

/// Mistake in a line of an auth_file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UserListFault {
    /// The secret begins as a hash and is none. PgBouncer takes it as a password in clear text, which nobody has.
    #[error(
        "the secret looks cut off: it begins as {0} and is not a complete one; copy rolpassword of pg_authid once more"
    )]
    CutOffSecret(&'static str),
    /// The name is empty.
    #[error("the user name is empty")]
    EmptyUser,
    /// The line does not begin with a quote.
    #[error("expected a user name in double quotes, as in \"user\" \"secret\"")]
    MissingUser,
    /// No second quoted text follows.
    #[error("expected a secret in double quotes after the user name")]
    MissingSecret,
    /// A zero byte cannot be part of a name or a password.
    #[error("the line contains a zero byte")]
    Nul,
    /// More than [`SECRET_LEN_MAX`] bytes.
    #[error("the secret is longer than 65530 bytes")]
    SecretTooLong,
    /// A quote is open at the end of the line.
    #[error("a double quote is not closed; write a quote inside quotes twice")]
    UnclosedQuote,
    /// More than [`USER_LEN_MAX`] bytes.
    #[error("the user name is longer than 127 bytes")]
    UserTooLong,
}

/// Number of hexadecimal digits behind `md5` from which on a secret is taken for a part of a hash, which has 32.
const MD5_DIGITS_MIN: usize = 16;

/// Parses one line; `None` for a blank line or a comment.
fn entry(line: &[u8]) -> Result<Option<(Vec<u8>, StoredSecret)>, UserListFault> {
    let line = line.trim_ascii_start();
    if line.is_empty() || line.first() == Some(&b';') {
        return Ok(None);
    }
    let (user, rest) = quoted(line, UserListFault::MissingUser)?;
    let (secret, _) = quoted(rest.trim_ascii_start(), UserListFault::MissingSecret)?;
    if user.is_empty() {
        return Err(UserListFault::EmptyUser);
    }
    if user.len() > USER_LEN_MAX {
        return Err(UserListFault::UserTooLong);
    }
    if secret.len() > SECRET_LEN_MAX {
        return Err(UserListFault::SecretTooLong);
    }
    if user.contains(&0) || secret.contains(&0) {
        return Err(UserListFault::Nul);
    }
    let parsed = StoredSecret::parse(&secret);
    if matches!(parsed, StoredSecret::Plain(_))
        && let Some(kind) = begins_as(&secret)
    {
        return Err(UserListFault::CutOffSecret(kind));
    }
    Ok(Some((user.to_vec(), parsed)))
}

/// Returns the kind of hash that a password in clear text looks like, if it looks like one.
fn begins_as(secret: &[u8]) -> Option<&'static str> {
    if secret.starts_with(b"SCRAM-SHA-256$") {
        return Some("a SCRAM verifier");
    }
    let digits = secret.strip_prefix(b"md5")?;
    let is_hash = digits.len() >= MD5_DIGITS_MIN && digits.iter().all(u8::is_ascii_hexdigit);
    is_hash.then_some("an MD5 hash")
}

/// A text without its quotes, and the rest of the line.
type Unquoted<'a> = (Zeroizing<Vec<u8>>, &'a [u8]);

/// Reads a quoted text at the beginning of `input`.
fn quoted(input: &[u8], missing: UserListFault) -> Result<Unquoted<'_>, UserListFault> {
    let mut rest = input.strip_prefix(b"\"").ok_or(missing)?;
    // Sized at once, because a growing vector would leave unwiped copies behind.
    let mut text = Zeroizing::new(Vec::with_capacity(rest.len()));
    loop {
        match rest {
            [b'"', b'"', after @ ..] => {
                text.push(b'"');
                rest = after;
            }
            [b'"', after @ ..] => return Ok((text, after)),
            [byte, after @ ..] => {
                text.push(*byte);
                rest = after;
            }
            [] => return Err(UserListFault::UnclosedQuote),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::Expect;
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    /// Shows users and kinds, or the error.
    fn check(text: &[u8], expected: &Expect) {
        let shown = match UserList::parse(text) {
            Err(error) => error.to_string(),
            Ok(list) => list.iter().map(show).collect::<Vec<_>>().join("\n"),
        };
        expected.assert_eq(&shown);
    }

    fn show((user, secret): (&[u8], &StoredSecret)) -> String {
        let secret = match secret {
            StoredSecret::Empty => "empty".to_owned(),
            StoredSecret::Md5(_) => "md5".to_owned(),
            StoredSecret::Plain(secret) => {
                format!("{:?}", String::from_utf8_lossy(secret.expose()))
            }
            StoredSecret::Scram(_) => "scram".to_owned(),
        };
        format!("{} = {secret}", String::from_utf8_lossy(user))
    }

    #[test]
    fn a_secret_that_looks_cut_off_is_refused() {
        let verifier =
            "SCRAM-SHA-256$4096:00ZwZFQtFSz6QGVCVmRknA==$M1yQobhCeihmxyyOe00jQNM5Is0mO1qC9";
        let line = |secret: &str| format!("\"a\" \"b\"\n\"ann\" \"{secret}\"\n");
        check(
            line(verifier).as_bytes(),
            &expect![
                "line 2: the secret looks cut off: it begins as a SCRAM verifier and is not a complete one; copy rolpassword of pg_authid once more"
            ],
        );
        for digits in [16, 31, 33] {
            let secret = format!("md5{}", "7".repeat(digits));
            check(
                line(&secret).as_bytes(),
                &expect![
                    "line 2: the secret looks cut off: it begins as an MD5 hash and is not a complete one; copy rolpassword of pg_authid once more"
                ],
            );
        }
        // Passwords that merely begin alike.
        for secret in [
            "md5",
            "md5cafe",
            "md5 0123456789abcdef0",
            "SCRAM-SHA-256",
            "scram-sha-256$x",
        ] {
            assert!(UserList::parse(line(secret).as_bytes()).is_ok(), "{secret}");
        }
    }

    #[test]
    fn all_kinds_of_lines_are_read() {
        check(
            b"; comment with \" quote\n\n  \"plain\" \"pen cil\" ignored \"too\n\
              \"md5\"\t\"md53b2f113102c268d240ccb23200f7d571\"\r\n\
              \"none\" \"\"\n   ; another\n\"a\"\"b\" \"c\"\"\"\n\"tight\"  \"x\";y\n\
              \"s\" \"SCRAM-SHA-256$4096:00ZwZFQtFSz6QGVCVmRknA==$M1yQobhCeihmxyyOe00jQNM5Is0mO1qC9\
              tExporSKEQ=:lazRMVYAnmT+5oKcSiFBhmgMEWHktOjmTOyok2ERRso=\"",
            &expect![[r#"
                a"b = "c\""
                md5 = md5
                none = empty
                plain = "pen cil"
                s = scram
                tight = "x""#]],
        );
    }

    #[test]
    fn an_empty_file_has_no_users() {
        assert!(UserList::parse(b"").is_ok_and(|list| list.is_empty()));
        assert!(UserList::parse(b"\n \r\n;\n").is_ok_and(|list| list.is_empty()));
    }

    #[test]
    fn errors_name_the_line() {
        check(
            b"\"ok\" \"x\"\nbob \"x\"",
            &expect![[r#"line 2: expected a user name in double quotes, as in "user" "secret""#]],
        );
        check(
            b"\n\n\"bob\"",
            &expect!["line 3: expected a secret in double quotes after the user name"],
        );
        check(
            b"\"bob\" secret",
            &expect!["line 1: expected a secret in double quotes after the user name"],
        );
        check(
            b"\"bob \"x\"\n\"eve\" \"y\"",
            &expect!["line 1: expected a secret in double quotes after the user name"],
        );
        check(
            b"\"bob\" \"x\n\"eve\" \"y\"",
            &expect!["line 1: a double quote is not closed; write a quote inside quotes twice"],
        );
        check(b"\"\" \"x\"", &expect!["line 1: the user name is empty"]);
        check(
            b"\"bob\" \"x\0y\"",
            &expect!["line 1: the line contains a zero byte"],
        );
    }

    #[test]
    fn an_error_never_shows_the_secret() {
        let error = UserList::parse(b"\"bob\" \"hunter2")
            .map(|_| ())
            .unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn lengths_have_the_limits_of_pgbouncer() {
        let file = |user: usize, secret: usize| {
            let text = format!("\"{}\" \"{}\"", "u".repeat(user), "s".repeat(secret));
            UserList::parse(text.as_bytes())
                .map(|list| list.len())
                .map_err(|error| error.fault)
        };
        assert_eq!(file(127, 65_530), Ok(1));
        assert_eq!(file(128, 1), Err(UserListFault::UserTooLong));
        assert_eq!(file(1, 65_531), Err(UserListFault::SecretTooLong));
    }

    #[test]
    fn the_later_of_two_lines_for_a_user_wins_and_is_noted() {
        let Ok(list) = UserList::parse(b"\"a\" \"1\"\n\"b\" \"2\"\n\"a\" \"3\"\n") else {
            panic!("refused");
        };
        assert_eq!(list.repeated_lines(), [3]);
        assert!(matches!(list.get(b"a"), Some(StoredSecret::Plain(secret)) if secret.ct_eq(b"3")));
        assert_eq!(list.len(), 2);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_panic(
            bytes in prop::collection::vec(
                prop::sample::select(b"\"\"\"; \nab\0\r\\".to_vec()), 0..60)
        ) {
            let _ = UserList::parse(&bytes);
        }

        #[test]
        fn quoting_round_trips(user in "[^\n\0]{1,20}", secret in "[^\n\0]{1,20}") {
            let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            let line = format!("{} {}", quote(&user), quote(&secret));
            let list = UserList::parse(line.as_bytes());
            let Ok(list) = list else { panic!("refused {line}") };
            let found = list.get(user.as_bytes());
            let same =
                matches!(found, Some(StoredSecret::Plain(found)) if found.ct_eq(secret.as_bytes()));
            prop_assert!(same);
        }
    }
}
