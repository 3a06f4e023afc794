//! `weir run --upstream`: a server as HOST:PORT or as a URL, and the password of the user that the URL names.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use url::{Host, Url};
use weir_config::Upstream;

/// Permission bits that libpq does not accept on a password file.
const OTHERS: u32 = 0o077;

/// User of the URL with the password found for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    user: String,
    password: String,
}

impl Login {
    /// Returns the user as the only line of an `auth_file`.
    pub(crate) fn user_list(&self) -> Vec<u8> {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        format!("{} {}\n", quoted(&self.user), quoted(&self.password)).into_bytes()
    }
}

/// Reason why the argument is of no use. No message holds a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("--upstream: not a URL: {0}")]
    NotUrl(#[from] url::ParseError),
    #[error(
        "--upstream: a URL has the form postgresql://USER:PASSWORD@HOST:PORT, with ?sslmode=MODE behind it if need be"
    )]
    Form,
    #[error("--upstream: parameter \"{0}\" of the URL is not supported; sslmode is the only one")]
    Parameter(String),
    #[error("--upstream: {0} of the URL is not UTF-8")]
    Encoding(&'static str),
    #[error(
        "--upstream: no password for user \"{0}\": put it into the URL, into the environment variable PGPASSWORD, or into {1}"
    )]
    NoPassword(String, String),
    #[error("--upstream: {file}: {error}")]
    Unreadable { file: String, error: String },
}

/// Splits the argument, and finds the password of its user: in the URL, in PGPASSWORD, or in the password file of libpq.
///
/// # Errors
/// The argument is wrong, or there is no password for the user that it names.
pub(crate) fn read(argument: &str) -> Result<(Upstream, Option<Login>), UpstreamError> {
    let is_url = ["postgresql://", "postgres://"].map(|scheme| argument.starts_with(scheme));
    if is_url == [false; 2] {
        let upstream = Upstream {
            server: argument.to_owned(),
            ..Upstream::default()
        };
        return Ok((upstream, None));
    }
    let url = Url::parse(argument)?;
    let host = match url.host().ok_or(UpstreamError::Form)? {
        Host::Domain(name) => decoded(name, "the host")?,
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => format!("[{address}]"),
    };
    let port = url.port().unwrap_or(5432);
    let mut upstream = Upstream {
        server: format!("{host}:{port}"),
        ..Upstream::default()
    };
    for (name, value) in url.query_pairs() {
        match &*name {
            "sslmode" => upstream.sslmode = Some(value.into_owned()),
            _ => return Err(UpstreamError::Parameter(name.into_owned())),
        }
    }
    if url.username().is_empty() {
        return match url.password() {
            Some(_) => Err(UpstreamError::Form),
            None => Ok((upstream, None)),
        };
    }
    let user = decoded(url.username(), "the user")?;
    let database = decoded(url.path().trim_start_matches('/'), "the database")?;
    let wanted = Wanted {
        host: host.trim_matches(['[', ']']),
        port,
        database: if database.is_empty() {
            &user
        } else {
            &database
        },
        user: &user,
    };
    let password = match url.password() {
        Some(password) => decoded(password, "the password")?,
        None => found(&wanted)?,
    };
    upstream.user = Some(user.clone());
    Ok((upstream, Some(Login { user, password })))
}

fn decoded(text: &str, what: &'static str) -> Result<String, UpstreamError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(|text| text.into_owned())
        .map_err(|_| UpstreamError::Encoding(what))
}

/// Connection for which a password is looked up.
struct Wanted<'a> {
    host: &'a str,
    port: u16,
    database: &'a str,
    user: &'a str,
}

/// Returns the password from the environment or from the password file, as libpq does.
fn found(wanted: &Wanted<'_>) -> Result<String, UpstreamError> {
    if let Ok(password) = env::var("PGPASSWORD")
        && !password.is_empty()
    {
        return Ok(password);
    }
    let given = env::var_os("PGPASSFILE").filter(|path| !path.is_empty());
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".pgpass"));
    let file = given.map(PathBuf::from).or(home);
    let name = file
        .as_ref()
        .map_or_else(|| "~/.pgpass".to_owned(), |file| file.display().to_string());
    let text = match &file {
        Some(file) => read_private(file).map_err(|error| UpstreamError::Unreadable {
            file: name.clone(),
            error: error.to_string(),
        })?,
        None => String::new(),
    };
    password_in(&text, wanted)
        .ok_or_else(|| UpstreamError::NoPassword(wanted.user.to_owned(), name))
}

/// Reads a password file; one that does not exist is empty, and one that others may read is refused.
fn read_private(file: &Path) -> io::Result<String> {
    let about = match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        about => about?,
    };
    if about.permissions().mode() & OTHERS != 0 {
        return Err(io::Error::other(
            "others may read this password file; chmod 0600 would do",
        ));
    }
    fs::read_to_string(file)
}

/// Returns the password of the first line that is for this connection. A line is `host:port:database:user:password`, where `*` stands
/// for anything and `\` precedes a colon or a backslash that is meant.
fn password_in(text: &str, wanted: &Wanted<'_>) -> Option<String> {
    let port = wanted.port.to_string();
    let wanted = [wanted.host, &port, wanted.database, wanted.user];
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let fields = fields(line);
            let (password, names) = fields.split_last()?;
            let fits = names.len() == wanted.len()
                && names
                    .iter()
                    .zip(wanted)
                    .all(|(name, wanted)| name == "*" || name == wanted);
            fits.then(|| password.clone())
        })
}

/// Splits a line at the colons that no backslash precedes.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            ':' => {
                fields.push(String::new());
                continue;
            }
            '\\' => letters.next().unwrap_or('\\'),
            letter => letter,
        };
        if let Some(field) = fields.last_mut() {
            field.push(letter);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_port_pass_unchanged() {
        let (upstream, login) = read("db.example:5433").unwrap();
        assert_eq!(upstream.server, "db.example:5433");
        assert!(upstream.user.is_none() && login.is_none());
    }

    #[test]
    fn a_url_gives_server_user_password_and_mode() {
        let (upstream, login) =
            read("postgresql://ann%40x:p%3Aw%22@[::1]:6000/shop?sslmode=require").unwrap();
        assert_eq!(upstream.server, "[::1]:6000");
        assert_eq!(upstream.user.as_deref(), Some("ann@x"));
        assert_eq!(upstream.sslmode.as_deref(), Some("require"));
        assert_eq!(login.unwrap().user_list(), b"\"ann@x\" \"p:w\"\"\"\n");
        let (upstream, login) = read("postgres://db").unwrap();
        assert_eq!(
            (upstream.server.as_str(), login.is_none()),
            ("db:5432", true)
        );
    }

    #[test]
    fn a_wrong_url_is_told_without_its_password() {
        for text in [
            "postgresql://ann:hunter2@",
            "postgresql://:hunter2@db",
            "postgresql://ann:hunter2@db/x?host=y",
            "postgresql://ann:hunter2@db:70000",
            "postgresql://ann:hunter2%ff@db",
        ] {
            let told = read(text).err().unwrap().to_string();
            assert!(
                told.starts_with("--upstream: ") && !told.contains("hunter2"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_line_of_the_password_file_fits_or_does_not() {
        let wanted = Wanted {
            host: "::1",
            port: 5432,
            database: "shop",
            user: "ann",
        };
        let find = |text| password_in(text, &wanted);
        assert_eq!(
            find("# *:*:*:*:no\ndb:5432:*:ann:no\n\\:\\:1:5432:*:ann:yes\n"),
            Some("yes".to_owned())
        );
        assert_eq!(find("*:*:*:*:a\\:b\\\\c"), Some("a:b\\c".to_owned()));
        assert_eq!(find("*:*:other:ann:no\n*:1:*:*:no\n*:*:*:no\n"), None);
    }
}
