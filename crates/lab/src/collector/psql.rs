//! psql as a connection: statements in, rows out. It takes whatever libpq takes (TLS, password files, services), so that
//! a server that people can reach by psql can be watched.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::{Error, Result};
use crate::process::find_program;

/// Ends the rows of a statement. No text of PostgreSQL's views has this control character alone in a line.
const END: &str = "\u{1e}";
/// Between columns.
const SEPARATOR: char = '\u{1f}';
/// How connections of ours call themselves; they are never counted.
pub const APPLICATION: &str = "weir tune";
/// What a reader sees when a server does not answer: an error, not silence.
const CONNECT_SECONDS: &str = "10";

/// Where a database is, and as whom to log in.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// Name, IP address, or directory of a unix socket.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Who logs in; without one whom libpq takes.
    pub user: Option<String>,
    /// With which password; without one what libpq finds.
    pub password: Option<String>,
    /// Which database.
    pub database: String,
    /// More of libpq's variables, such as `PGSSLMODE`.
    pub more: Vec<(String, String)>,
}

impl std::fmt::Debug for Address {
    /// Without the password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.shown())
    }
}

impl Address {
    /// Out of `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=...`.
    ///
    /// # Errors
    /// It is no such address.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |reason: &str| Error::Unexpected {
            what: "the address of the server".to_owned(),
            text: format!("{reason}; it is written postgresql://USER@HOST:PORT/DATABASE"),
        };
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !["postgres", "postgresql"].contains(&url.scheme()) {
            return Err(wrong("it does not begin with postgresql://"));
        }
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let given = |text: &str| Some(decoded(text)).filter(|text| !text.is_empty());
        let mut address = Self {
            host: url.host_str().map(decoded).unwrap_or_default(),
            port: url.port().unwrap_or(5432),
            user: given(url.username()),
            password: url.password().and_then(given),
            database: decoded(url.path().trim_start_matches('/')),
            more: Vec::new(),
        };
        for (name, value) in url.query_pairs() {
            match name.as_ref() {
                "host" => address.host = value.into_owned(),
                "port" => {
                    address.port = value.parse().map_err(|_| wrong("the port is no number"))?
                }
                "sslmode" | "sslrootcert" | "sslcert" | "sslkey" | "passfile"
                | "channel_binding" => {
                    let name = match name.as_ref() {
                        "channel_binding" => "PGCHANNELBINDING".to_owned(),
                        name => format!("PG{}", name.to_uppercase()),
                    };
                    address.more.push((name, value.into_owned()));
                }
                other => return Err(wrong(&format!("`{other}` is not known in it"))),
            }
        }
        if address.host.is_empty() {
            address.host = "127.0.0.1".to_owned();
        }
        if address.database.is_empty() {
            address.database = "postgres".to_owned();
        }
        Ok(address)
    }

    /// The same server, another database.
    #[must_use]
    pub fn with_database(&self, database: &str) -> Self {
        Self {
            database: database.to_owned(),
            ..self.clone()
        }
    }

    /// Whether the server may be on this machine: then the kernel's books can be asked.
    #[must_use]
    pub fn is_near(&self) -> bool {
        let host = self.host.as_str();
        host.starts_with('/') || host == "localhost" || host == "::1" || host.starts_with("127.")
    }

    /// For people, without the password.
    #[must_use]
    pub fn shown(&self) -> String {
        let user = self.user.as_deref().map(|user| format!("{user}@"));
        let (user, host) = (user.unwrap_or_default(), &self.host);
        format!("{user}{host}:{}/{}", self.port, self.database)
    }

    /// Sets libpq's variables (PostgreSQL manual, "Environment Variables" of libpq): a password in the command line could
    /// be read by everybody.
    pub fn apply(&self, command: &mut Command) {
        command.env("PGHOST", &self.host);
        command.env("PGPORT", self.port.to_string());
        command.env("PGDATABASE", &self.database);
        if let Some(user) = &self.user {
            command.env("PGUSER", user);
        }
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password);
        }
        command.envs(self.more.iter().map(|(name, value)| (name, value)));
    }
}

/// A session of psql. Dropping it ends it.
#[derive(Debug)]
pub struct Psql {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    complaints: File,
}

impl Psql {
    /// Logs in.
    ///
    /// # Errors
    /// psql is not here, or the server refuses; with its words.
    pub fn connect(address: &Address) -> Result<Self> {
        let mut psql = Self::open(address)?;
        // Numbers and times look the same whatever the database's settings are.
        psql.execute("SET client_min_messages = warning; SET datestyle = 'ISO'")?;
        Ok(psql)
    }

    /// Logs in where there is no PostgreSQL but something that speaks its protocol: the console of a pooler.
    ///
    /// # Errors
    /// As [`Psql::connect`], by the first statement.
    pub fn open(address: &Address) -> Result<Self> {
        let program = find_program("psql", &[])?;
        let complaints = tempfile::tempfile().map_err(Error::system("make a file"))?;
        let errors = complaints
            .try_clone()
            .map_err(Error::system("make a file"))?;
        let mut command = Command::new(program);
        command.args(["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", "-F"]);
        command.arg(SEPARATOR.to_string());
        address.apply(&mut command);
        command.env("PGAPPNAME", APPLICATION);
        command.env("PGCONNECT_TIMEOUT", CONNECT_SECONDS);
        // A Ctrl-C at the terminal must not reach it: what is to be put away is put away through it.
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(|source| Error::Start {
                program: "psql".to_owned(),
                source,
            })?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| Error::Unexpected {
            what: "psql".to_owned(),
            text: "it has no output".to_owned(),
        })?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
            complaints,
        })
    }

    /// Runs statements whose rows nobody wants.
    ///
    /// # Errors
    /// As [`Psql::rows`].
    pub fn execute(&mut self, sql: &str) -> Result<()> {
        self.rows(sql).map(drop)
    }

    /// The first column of the first row; nothing if there is none.
    ///
    /// # Errors
    /// As [`Psql::rows`].
    pub fn value(&mut self, sql: &str) -> Result<Option<String>> {
        let rows = self.rows(sql)?;
        Ok(rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next()))
    }

    /// Runs statements and returns all rows; SQL's NULL is an empty text.
    ///
    /// # Errors
    /// The server refuses, or is gone. The session is then over.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        let lines = self.lines(sql)?;
        let row = |line: &String| line.split(SEPARATOR).map(str::to_owned).collect();
        Ok(lines.iter().map(row).collect())
    }

    /// The lines that psql prints for it.
    ///
    /// # Errors
    /// As [`Psql::rows`].
    pub fn lines(&mut self, sql: &str) -> Result<Vec<String>> {
        let Some(input) = self.input.as_mut() else {
            return Err(self.failure());
        };
        let text = format!("{sql}\n;\n\\echo {END}\n");
        if input
            .write_all(text.as_bytes())
            .and_then(|()| input.flush())
            .is_err()
        {
            return Err(self.failure());
        }
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match self.output.read_line(&mut line) {
                Ok(0) | Err(_) => return Err(self.failure()),
                Ok(_) if line.trim_end() == END => return Ok(lines),
                Ok(_) => lines.push(line.trim_end_matches('\n').to_owned()),
            }
        }
    }

    /// The process, for whoever must end a statement that does not end.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said before it ended.
    fn failure(&mut self) -> Error {
        self.input = None;
        let _ = self.child.wait();
        let mut text = String::new();
        let _ = self.complaints.rewind();
        let _ = self.complaints.read_to_string(&mut text);
        let lines = text
            .lines()
            .map(|line| line.strip_prefix("psql: ").unwrap_or(line));
        let text = lines.collect::<Vec<_>>().join("; ");
        Error::Load {
            name: "psql".to_owned(),
            reason: if text.is_empty() {
                "it ended".to_owned()
            } else {
                text
            },
        }
    }
}

impl Drop for Psql {
    fn drop(&mut self) {
        // The end of its input ends it; a statement that still runs would keep it.
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A row that is not what was asked for.
pub(crate) fn unexpected(what: &str, row: &[String]) -> Error {
    Error::Unexpected {
        what: what.to_owned(),
        text: row.join(" | "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_its_password_never_shown() {
        let text = "postgresql://ann:s%20ecret@db.example:6432/shop?sslmode=require";
        let address = Address::parse(text).unwrap();
        assert_eq!(address.password.as_deref(), Some("s ecret"));
        assert_eq!(address.shown(), "ann@db.example:6432/shop");
        assert_eq!(format!("{address:?}"), "ann@db.example:6432/shop");
        let expected = ("PGSSLMODE".to_owned(), "require".to_owned());
        assert_eq!(address.more, [expected]);
        assert!(!address.is_near());
    }

    #[test]
    fn what_is_left_out_is_what_libpq_takes() {
        let address = Address::parse("postgres:///").unwrap();
        assert_eq!(address.shown(), "127.0.0.1:5432/postgres");
        let address = Address::parse("postgresql:///shop?host=/run/postgresql").unwrap();
        assert_eq!(address.host, "/run/postgresql");
        assert!(address.is_near());
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_form() {
        for text in ["db:5432", "mysql://a/b", "postgresql://a/b?colour=red"] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains("postgresql://USER"), "{error}");
        }
    }
}
