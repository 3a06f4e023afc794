//! Certificates and keys as files, with the owners and modes that PostgreSQL and libpq require.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use anyhow::Context;
use anyhow::Result;

use super::Authority;
use super::Identity;
use super::Spec;
use crate::TempDir;
use crate::child::Runner;
use crate::tools;

/// A certificate and its key on disk.
#[derive(Clone, Debug)]
pub struct Files {
    /// File in PEM, readable by all.
    pub certificate: PathBuf,
    /// File in PEM, readable by its owner only.
    pub key: PathBuf,
}

/// A trusted authority, a foreign one, and a directory for their certificates.
#[derive(Debug)]
pub struct Pki {
    /// Authority that both sides trust.
    pub authority: Authority,
    /// Authority that no side trusts.
    pub stranger: Authority,
    directory: TempDir,
    /// Number of client sides configured so far.
    files: AtomicU32,
}

impl Pki {
    /// Creates both authorities.
    ///
    /// # Errors
    /// When the cryptography or the file system fails.
    pub fn new() -> Result<Self> {
        let pki = Self {
            authority: Authority::new("Suite authority")?,
            stranger: Authority::new("Stranger")?,
            directory: TempDir::new()?,
            files: AtomicU32::new(0),
        };
        pki.directory.write("ca.crt", pki.authority.pem())?;
        pki.directory.write("stranger.crt", pki.stranger.pem())?;
        Ok(pki)
    }

    /// File of the trusted authority's certificate.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// File of the foreign authority's certificate.
    #[must_use]
    pub fn stranger_file(&self) -> PathBuf {
        self.directory.path().join("stranger.crt")
    }

    /// Directory of the files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Issues a certificate and writes it to `NAME.crt` and `NAME.key`, for Weir and for clients.
    ///
    /// # Errors
    /// When the cryptography or the file system fails.
    pub fn issue(&self, name: &str, spec: &Spec) -> Result<Files> {
        self.write(name, &self.authority.issue(spec)?, Runner::Ourselves)
    }

    /// Writes a certificate and its key over `NAME.crt` and `NAME.key`; the key belongs to the user that `reader`
    /// runs as.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, name: &str, identity: &Identity, reader: Runner) -> Result<Files> {
        let certificate = format!("{name}.crt");
        let certificate = self.directory.write(&certificate, &identity.certificate)?;
        let key = self.secret(&format!("{name}.key"), identity.key.as_bytes())?;
        if reader == Runner::Postgres && tools::is_root() {
            tools::run(Command::new("chown").arg("postgres:").arg(&key))?;
        }
        Ok(Files { certificate, key })
    }

    /// Writes a file that only its owner may read.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn secret(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.directory.path().join(name);
        // At no moment may another user be able to read it.
        fs::write(&path, "")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Settings of the client side with a new server certificate, as lines of `[pgbouncer]`.
    ///
    /// # Errors
    /// As [`Pki::issue`].
    pub fn client_side(&self, mode: &str) -> Result<Vec<(&'static str, String)>> {
        let identity = self.authority.issue(&Spec::server())?;
        // Tests that run at the same time share the directory and must not overwrite files that another pooler will
        // read.
        let name = format!("pooler-{}", self.files.fetch_add(1, Ordering::Relaxed));
        // PgBouncer runs as that user; Weir, running as root, can read the file, too.
        let files = self.write(&name, &identity, Runner::Postgres)?;
        Ok(vec![
            ("client_tls_sslmode", mode.to_owned()),
            ("client_tls_cert_file", text(&files.certificate)),
            ("client_tls_key_file", text(&files.key)),
            ("client_tls_ca_file", text(&self.ca_file())),
        ])
    }

    /// Settings of the server side, as lines of `[pgbouncer]`.
    #[must_use]
    pub fn server_side(&self, mode: &str) -> Vec<(&'static str, String)> {
        vec![
            ("server_tls_sslmode", mode.to_owned()),
            ("server_tls_ca_file", text(&self.ca_file())),
        ]
    }

    /// Lines of `postgresql.conf` that enable TLS with a new certificate of this kind.
    ///
    /// # Errors
    /// As [`Pki::issue`].
    pub fn postgres(&self, spec: &Spec) -> Result<Vec<String>> {
        let identity = self.authority.issue(spec)?;
        let files = self.write("postgres", &identity, Runner::Postgres)?;
        Ok(vec![
            "ssl = on".to_owned(),
            format!("ssl_cert_file = '{}'", files.certificate.display()),
            format!("ssl_key_file = '{}'", files.key.display()),
            format!("ssl_ca_file = '{}'", self.ca_file().display()),
        ])
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_side_writes_over_the_files_of_another() {
        let pki = Pki::new().unwrap();
        let [one, other] = [(); 2].map(|()| pki.client_side("require").unwrap());
        for name in ["client_tls_cert_file", "client_tls_key_file"] {
            let file = |side: &[(&str, String)]| {
                let found = side.iter().find(|(setting, _)| *setting == name);
                fs::read(&found.unwrap().1).unwrap()
            };
            assert_ne!(file(&one), file(&other), "{name}");
        }
    }
}
