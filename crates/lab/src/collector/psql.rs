//! A psql process as a connection: statements in, rows out. psql accepts everything that libpq does (TLS, password
//! files, services). Any server that psql can reach can therefore be watched.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::{Error, Result};
use crate::process::find_program;

/// Marks the end of a statement's rows. No text of PostgreSQL's views has this control character alone in a line.
const END: &str = "\u{1e}";
/// Separates columns.
const SEPARATOR: char = '\u{1f}';
/// `application_name` of the lab's own connections, which are excluded from samples.
pub const APPLICATION: &str = "weir tune";
/// Time limit for a login, in seconds: a server that does not answer is reported as an error.
const CONNECT_SECONDS: &str = "10";

/// Address of a database, and the login to use.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// Host name, IP address, or directory of a unix socket.
    pub host: String,
    /// Port.
    pub port: u16,
    /// User to log in as; without one, libpq's default.
    pub user: Option<String>,
    /// Password; without one, whatever libpq finds.
    pub password: Option<String>,
    /// Name of the database.
    pub database: String,
    /// More of libpq's variables, such as `PGSSLMODE`.
    pub more: Vec<(String, String)>,
}

impl std::fmt::Debug for Address {
    /// Formats the address without the password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.shown())
    }
}

impl Address {
    /// Parses `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=...`.
    ///
    /// # Errors
    /// The text is not such an address.
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

    /// Returns the address of another database on the same server.
    #[must_use]
    pub fn with_database(&self, database: &str) -> Self {
        Self {
            database: database.to_owned(),
            ..self.clone()
        }
    }

    /// True if the server may be on this machine, so that the kernel's figures about it can be read.
    #[must_use]
    pub fn is_near(&self) -> bool {
        let host = self.host.as_str();
        host.starts_with('/') || host == "localhost" || host == "::1" || host.starts_with("127.")
    }

    /// Returns the address for display, without the password.
    #[must_use]
    pub fn shown(&self) -> String {
        let user = self.user.as_deref().map(|user| format!("{user}@"));
        let (user, host) = (user.unwrap_or_default(), &self.host);
        format!("{user}{host}:{}/{}", self.port, self.database)
    }

    /// Sets libpq's variables (PostgreSQL manual, "Environment Variables" of libpq). A password in the command line
    /// would be visible to every user.
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

/// Session of psql, ended on drop.
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
    /// psql is not installed, or the server refuses; the error has the server's words.
    pub fn connect(address: &Address) -> Result<Self> {
        let mut psql = Self::open(address)?;
        // Numbers and times must look the same under any settings of the database.
        psql.execute("SET client_min_messages = warning; SET datestyle = 'ISO'")?;
        Ok(psql)
    }

    /// Logs in to a server that is not PostgreSQL but speaks its protocol, such as a pooler's console.
    ///
    /// # Errors
    /// As [`Psql::connect`], reported by the first statement.
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
        // Ctrl-C at the terminal must not reach psql: the clean-up needs this session.
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

    /// Runs statements and discards their rows.
    ///
    /// # Errors
    /// As [`Psql::rows`].
    pub fn execute(&mut self, sql: &str) -> Result<()> {
        self.rows(sql).map(drop)
    }

    /// Returns the first column of the first row, if there is a row.
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

    /// Runs statements and returns all rows; SQL's NULL becomes an empty text.
    ///
    /// # Errors
    /// The server refuses, or the connection is lost. The session is then over.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        let lines = self.lines(sql)?;
        let row = |line: &String| line.split(SEPARATOR).map(str::to_owned).collect();
        Ok(lines.iter().map(row).collect())
    }

    /// Runs statements and returns the lines that psql prints.
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

    /// Returns the process id, for a caller that has to end a statement that hangs.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the session and returns psql's error output as an error.
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
        // The end of its input ends psql, unless a statement still runs.
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the error for a row of unexpected form.
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
