//! Creates a throw-away authority and one server certificate for loopback with the `openssl`
//! program. The keys are RSA-2048, as in the published comparisons: most of a handshake's cost is
//! the signature.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::postgres::private_directory;
use crate::process::{Account, find_program, run_to_end};

const DAYS: &str = "2";
const NAMES: &str = "subjectAltName=DNS:localhost,IP:127.0.0.1\n";

/// Certificate files, deleted on drop. The account that runs PostgreSQL owns them, because
/// PostgreSQL checks who owns its key.
#[derive(Debug)]
pub struct Certificates {
    directory: TempDir,
}

impl Certificates {
    /// Makes keys and certificates; takes about a second.
    ///
    /// # Errors
    /// The `openssl` program is missing or fails.
    pub fn make() -> Result<Self> {
        let account = Account::for_servers()?;
        let directory = private_directory(account)?;
        let path = directory.path();
        let names = path.join("names");
        fs::write(&names, NAMES).map_err(Error::file("write", &names))?;
        let subject = "/CN=Weir bench authority";
        openssl(path, &["req", "-x509", "-newkey", "rsa:2048", "-nodes"])
            .args(["-keyout", "authority.key", "-out", "authority.crt"])
            .args(["-days", DAYS, "-subj", subject])
            .run()?;
        openssl(path, &["req", "-newkey", "rsa:2048", "-nodes"])
            .args(["-keyout", "server.key", "-out", "server.csr"])
            .args(["-subj", "/CN=localhost"])
            .run()?;
        openssl(path, &["x509", "-req", "-in", "server.csr", "-sha256"])
            .args(["-CA", "authority.crt", "-CAkey", "authority.key"])
            .args(["-CAcreateserial", "-days", DAYS, "-extfile", "names"])
            .args(["-out", "server.crt"])
            .run()?;
        for file in ["authority.crt", "server.crt", "server.key"] {
            account.own(&path.join(file))?;
        }
        Ok(Self { directory })
    }

    /// Returns the path of the authority's certificate, which signs the server's.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("authority.crt")
    }

    /// Returns the path of the server's certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("server.crt")
    }

    /// Returns the path of the server's key, which only the account of the servers may read.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.directory.path().join("server.key")
    }
}

struct OpenSsl {
    directory: PathBuf,
    arguments: Vec<String>,
}

fn openssl(directory: &Path, arguments: &[&str]) -> OpenSsl {
    let new = OpenSsl {
        directory: directory.to_owned(),
        arguments: Vec::new(),
    };
    new.args(arguments.iter().copied())
}

impl OpenSsl {
    fn args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    fn run(self) -> Result<()> {
        let program = find_program("openssl", &[])?;
        let mut command = Command::new(program);
        command.current_dir(&self.directory).args(&self.arguments);
        run_to_end(&mut command).map(drop)
    }
}
