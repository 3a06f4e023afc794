//! TLS material of a configuration: certificates shown to clients, and verification of servers. Made once per load of
//! the configuration. Connections keep the material they were made with, so that a reload touches none of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_config::{
    ClientTls, HintSource, Hints, SYSTEM_ROOTS, ServerTls, Settings, SslMode, SslNegotiation,
};
use weir_stats::TlsRow;
use weir_tls::certificate::{CertificateFacts, CertificateRole, KeyKind, RevocationListFacts};
use weir_tls::connector::{Connector, ConnectorOptions, Verify};
use weir_tls::listener::{ClientCertificate, Listener, ListenerOptions};
use weir_tls::material::OpenKeys;
use weir_tls::session::{ServerConfig, TlsFault};
use weir_tls::web;

use crate::socket::Target;
use crate::tls::Handshake;

#[cfg(test)]
mod stand_in;

/// Number of days before the end of a certificate within which it causes a warning.
const DAYS_MIN: i64 = 30;

/// Reason for which TLS settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// Error in the settings of the listeners.
    #[error("{0}")]
    Clients(weir_tls::error::Error),
    /// Error in the settings of all servers, or of those of one database.
    #[error("{}{error}", Scope(.database))]
    Servers {
        /// Name as in `[databases]`; empty for all servers.
        database: String,
        /// Error in the settings.
        error: weir_tls::error::Error,
    },
}

impl TransportError {
    /// Returns the key under which [`weir_config::Loaded::sources`] has the option with the mistake, if it is about one.
    #[must_use]
    pub fn source(&self) -> Option<String> {
        let (Self::Clients(error) | Self::Servers { error, .. }) = self;
        let option = error.option()?;
        Some(match self {
            Self::Servers { database, .. } if !database.is_empty() => {
                format!("databases.{database}.{option}")
            }
            _ => option.to_owned(),
        })
    }

    /// True if a file cannot be used.
    #[must_use]
    pub const fn is_of_a_file(&self) -> bool {
        let (Self::Clients(error) | Self::Servers { error, .. }) = self;
        matches!(error, weir_tls::error::Error::File { .. })
    }

    /// True if the private key and the certificate do not belong together: another of the two may mend that.
    #[must_use]
    pub const fn is_key_mismatch(&self) -> bool {
        let (Self::Clients(error) | Self::Servers { error, .. }) = self;
        matches!(error, weir_tls::error::Error::KeyMismatch { .. })
    }
}

/// See [`Transport::outgoing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoSuchSettings;

struct Scope<'a>(&'a str);

impl std::fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            "" => Ok(()),
            name => write!(f, "database \"{name}\": "),
        }
    }
}

/// CA certificates in DER.
pub(crate) type HintRoots = Arc<Vec<Vec<u8>>>;

/// See the module's page.
#[derive(Default)]
pub struct Transport {
    listener: Option<Arc<Incoming>>,
    requires_tls: bool,
    outgoing: HashMap<ServerTls, Arc<Outgoing>>,
    /// CA certificates for hints of failovers in DER, by `failover_hints_ca_file`.
    hint_roots: HashMap<String, HintRoots>,
    rows: Vec<TlsRow>,
    warnings: Vec<String>,
    hints: Vec<String>,
}

impl Transport {
    /// Reads all files that the settings name. Blocks on the file system.
    ///
    /// # Errors
    /// All errors that were found.
    pub fn load(settings: &Settings) -> Result<Self, Vec<TransportError>> {
        let mut made = Self::default();
        let mut errors = Vec::new();
        let client = settings.global.client_tls();
        let open_keys = match settings.global.strict_files {
            true => OpenKeys::Refuse,
            false => OpenKeys::DangerAccept,
        };
        if client.sslmode != SslMode::Disable {
            match Listener::build(&listener_options(&client, open_keys)) {
                Ok(listener) => made.listen(&client, &listener),
                Err(error) => errors.push(TransportError::Clients(error)),
            }
        }
        for (database, tls) in settings.server_tls() {
            if tls.sslmode == SslMode::Disable {
                continue;
            }
            match Connector::build(&connector_options(&tls, open_keys)) {
                Ok(connector) => made.connect(&database, tls, connector),
                Err(error) => errors.push(TransportError::Servers { database, error }),
            }
        }
        for database in settings.databases.keys() {
            if let Err(error) = made.trust_hints(settings, database) {
                let database = database.clone();
                errors.push(TransportError::Servers { database, error });
            }
        }
        if errors.is_empty() {
            Ok(made)
        } else {
            Err(errors)
        }
    }

    /// Reads the CA certificates for a database's hints, if they come by `https`.
    fn trust_hints(
        &mut self,
        settings: &Settings,
        database: &str,
    ) -> Result<(), weir_tls::error::Error> {
        const OPTION: &str = "failover_hints_ca_file";
        let cluster = settings.pool(database, "").and_then(|pool| pool.cluster);
        let Some(hints) = cluster.map(|cluster| cluster.hints.clone()) else {
            return Ok(());
        };
        let mut sources = hints.sources.iter();
        if !sources.any(HintSource::is_secure) || self.hint_roots.contains_key(&hints.ca_file) {
            return Ok(());
        }
        let roots = match &*hints.ca_file {
            SYSTEM_ROOTS => web::system_authorities(OPTION)?,
            file => web::authorities(OPTION, file.as_ref())?,
        };
        self.hint_roots.insert(hints.ca_file, Arc::new(roots));
        Ok(())
    }

    /// Returns the CA certificates for a database's hints; none if they do not come by `https`.
    pub(crate) fn hint_roots(&self, hints: &Hints) -> HintRoots {
        self.hint_roots
            .get(&hints.ca_file)
            .cloned()
            .unwrap_or_default()
    }

    fn listen(&mut self, tls: &ClientTls, listener: &Listener) {
        self.requires_tls = is_required(tls.sslmode);
        self.warn("", &listener.warnings);
        self.describe_lists("client", "", tls.sslmode, &listener.revocation_lists);
        self.describe(
            "client",
            "",
            tls.sslmode,
            &tls.protocols,
            &listener.certificates,
        );
        self.hint_keys(&listener.certificates);
        self.listener = Some(Arc::new(Incoming {
            config: Arc::clone(&listener.config),
            end_point: listener.end_point.as_deref().map(Into::into),
            #[cfg(test)]
            is_stub: false,
        }));
    }

    /// Adds a hint if clients are shown an RSA certificate.
    fn hint_keys(&mut self, certificates: &[CertificateFacts]) {
        let own = |facts: &&CertificateFacts| facts.role == CertificateRole::Own;
        for facts in certificates.iter().filter(own) {
            if facts.key == KeyKind::Rsa {
                let file = facts.file.display();
                self.hints.push(format!(
                    "{file}: the certificate shown to clients has an RSA key; with an ECDSA key (P-256) a login with TLS \
                     costs less processor time"
                ));
            }
        }
    }

    fn connect(&mut self, database: &str, tls: ServerTls, connector: Connector) {
        self.warn(database, &connector.warnings);
        self.describe_lists("server", database, tls.sslmode, &connector.revocation_lists);
        let certificates = &connector.certificates;
        self.describe(
            "server",
            database,
            tls.sslmode,
            &tls.protocols,
            certificates,
        );
        let outgoing = Outgoing {
            is_required: is_required(tls.sslmode),
            is_direct: tls.sslnegotiation == SslNegotiation::Direct,
            connector,
            #[cfg(test)]
            is_stub: false,
        };
        self.outgoing.insert(tls, Arc::new(outgoing));
    }

    fn warn(&mut self, database: &str, warnings: &[weir_tls::warning::Warning]) {
        let texts = warnings
            .iter()
            .map(|warning| format!("{}{warning}", Scope(database)));
        self.warnings.extend(texts);
    }

    fn describe(
        &mut self,
        side: &str,
        database: &str,
        sslmode: SslMode,
        protocols: &str,
        certificates: &[CertificateFacts],
    ) {
        let now = unix_now();
        for facts in certificates {
            let days_left = facts.days_left(now);
            if days_left < DAYS_MIN {
                let file = facts.file.display();
                let subject = &facts.subject;
                self.warnings.push(match days_left {
                    ..0 => format!("{file}: certificate \"{subject}\" has expired"),
                    _ => format!("{file}: certificate \"{subject}\" expires in {days_left} days"),
                });
            }
            self.rows.push(TlsRow {
                side: side.to_owned(),
                database: database.to_owned(),
                sslmode: sslmode.as_str().to_owned(),
                file: facts.file.display().to_string(),
                subject: facts.subject.clone(),
                issuer: facts.issuer.clone(),
                not_before: facts.not_before,
                not_after: facts.not_after,
                days_left,
                protocols: protocols.to_owned(),
            });
        }
    }

    /// Adds rows and warnings for revocation lists. After its end, a list makes every certificate invalid.
    fn describe_lists(
        &mut self,
        side: &str,
        database: &str,
        sslmode: SslMode,
        lists: &[RevocationListFacts],
    ) {
        let now = unix_now();
        for list in lists {
            let Some(next_update) = list.next_update else {
                continue;
            };
            let file = list.file.display().to_string();
            if next_update <= now {
                self.warnings.push(format!(
                    "{file}: the revocation list is out of date, so every certificate is refused"
                ));
            }
            self.rows.push(TlsRow {
                side: side.to_owned(),
                database: database.to_owned(),
                sslmode: sslmode.as_str().to_owned(),
                file,
                subject: "revocation list".to_owned(),
                issuer: list.issuer.clone(),
                not_after: next_update,
                ..TlsRow::default()
            });
        }
    }

    /// Returns the warnings to be logged: weak settings, certificates that end soon.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns hints for `weir check`: files that work, and that cost more than others would.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns the TLS that clients are offered, if any.
    pub(crate) fn listener(&self) -> Option<&Arc<Incoming>> {
        self.listener.as_ref()
    }

    /// True if clients have to use TLS.
    pub(crate) fn requires_tls(&self) -> bool {
        self.requires_tls
    }

    /// Returns the TLS for connections with these settings; `Ok(None)` only if the settings want no TLS.
    ///
    /// # Errors
    /// The configuration does not have these settings; that is never a reason to go without TLS (hazard SEC-04).
    pub(crate) fn outgoing(
        &self,
        tls: &ServerTls,
    ) -> Result<Option<Arc<Outgoing>>, NoSuchSettings> {
        if tls.sslmode == SslMode::Disable {
            return Ok(None);
        }
        let known = self.outgoing.get(tls);
        known.cloned().map(Some).ok_or(NoSuchSettings)
    }

    /// Returns the rows of `SHOW TLS`, by today's date.
    pub(crate) fn rows(&self) -> Vec<TlsRow> {
        let now = unix_now();
        let mut rows = self.rows.clone();
        for row in &mut rows {
            row.days_left = (row.not_after - now).div_euclid(24 * 60 * 60);
        }
        rows
    }
}

/// TLS that clients are offered.
pub(crate) struct Incoming {
    config: Arc<ServerConfig>,
    /// Channel binding data of our certificate for SCRAM (RFC 5929, tls-server-end-point).
    pub(crate) end_point: Option<Arc<[u8]>>,
    /// True if handshakes use the record layer without cryptography.
    #[cfg(test)]
    is_stub: bool,
}

impl Incoming {
    /// Returns a copy of the configuration for another protocol.
    pub(crate) fn config(&self) -> ServerConfig {
        ServerConfig::clone(&self.config)
    }

    /// Begins the server's side of a handshake.
    pub(crate) fn handshake(&self, is_direct: bool) -> Result<Handshake, TlsFault> {
        #[cfg(test)]
        if self.is_stub {
            return Ok(Handshake::stub_server());
        }
        Handshake::accept(Arc::clone(&self.config), is_direct)
    }
}

/// TLS of connections to servers.
#[derive(Debug)]
pub(crate) struct Outgoing {
    connector: Connector,
    is_required: bool,
    is_direct: bool,
    /// True if handshakes use the record layer without cryptography.
    #[cfg(test)]
    is_stub: bool,
}

impl Outgoing {
    /// True if a connection without TLS is not allowed.
    pub(crate) fn is_required(&self) -> bool {
        // After direct TLS, a server cannot answer that it has no TLS.
        self.is_required || self.is_direct
    }

    /// True if TLS begins without an SSLRequest.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Begins the client's side of a handshake.
    pub(crate) fn handshake(&self, target: &Target) -> Result<Handshake, TlsFault> {
        #[cfg(test)]
        if self.is_stub {
            return Ok(Handshake::stub_client());
        }
        let host = match target {
            Target::Tcp(_, Some(name)) => name.to_string(),
            Target::Tcp(address, None) => address.ip().to_string(),
            Target::Unix(..) | Target::Abstract(..) => String::new(),
        };
        let name = self.connector.server_name(&host);
        let name = name.map_err(|error| TlsFault::Name(error.to_string()))?;
        Handshake::connect(Arc::clone(&self.connector.config), name, self.is_direct)
    }
}

fn is_required(sslmode: SslMode) -> bool {
    match sslmode {
        SslMode::Disable | SslMode::Allow | SslMode::Prefer => false,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => true,
    }
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

fn listener_options(tls: &ClientTls, open_keys: OpenKeys) -> ListenerOptions {
    let client_certificate = match tls.sslmode {
        SslMode::VerifyCa | SslMode::VerifyFull => ClientCertificate::Required,
        // As in PostgreSQL with ssl_ca_file: requested, so that HBA lines can check it.
        _ if !tls.ca_file.is_empty() => ClientCertificate::Optional,
        _ => ClientCertificate::None,
    };
    ListenerOptions {
        key_file: path(&tls.key_file),
        cert_file: path(&tls.cert_file),
        ca_file: path(&tls.ca_file),
        crl_file: path(&tls.crl_file),
        client_certificate,
        open_keys,
        protocols: tls.protocols.clone(),
        ciphers: tls.ciphers.clone(),
        tls13_ciphers: tls.tls13_ciphers.clone(),
        curve: tls.ecdhcurve.clone(),
    }
}

fn connector_options(tls: &ServerTls, open_keys: OpenKeys) -> ConnectorOptions {
    let verify = match tls.sslmode {
        SslMode::VerifyCa => Verify::Ca,
        SslMode::VerifyFull => Verify::Full,
        // Unlike libpq, a CA file alone does not turn `require` into `verify-ca`: as in PgBouncer, the mode decides.
        _ => Verify::None,
    };
    ConnectorOptions {
        ca_file: path(&tls.ca_file),
        crl_file: path(&tls.crl_file),
        key_file: path(&tls.key_file),
        cert_file: path(&tls.cert_file),
        open_keys,
        protocols: tls.protocols.clone(),
        ciphers: tls.ciphers.clone(),
        tls13_ciphers: tls.tls13_ciphers.clone(),
        ..ConnectorOptions::new(verify)
    }
}

fn unix_now() -> i64 {
    let now = crate::clock::wall().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(lines: &str) -> Settings {
        let text = format!("[databases]\nshop = host=h {lines}\n[pgbouncer]\nauth_type = any\n");
        let mut read = |_: &std::path::Path| Ok(text.clone());
        let loaded = weir_config::load("weir.ini".as_ref(), &mut read, std::iter::empty());
        loaded.unwrap().settings
    }

    #[test]
    fn sec_04_settings_that_are_not_in_force_are_no_reason_to_go_without_tls() {
        let transport = Transport::load(&settings("")).unwrap();
        let tls = |lines: &str| settings(lines).pool("shop", "ann").unwrap().tls;
        assert!(matches!(transport.outgoing(&tls("")), Ok(Some(_))));
        let elsewhere = tls("server_tls_sslmode=require");
        assert!(matches!(
            transport.outgoing(&elsewhere),
            Err(NoSuchSettings)
        ));
        let without = tls("server_tls_sslmode=disable");
        assert!(matches!(transport.outgoing(&without), Ok(None)));
    }

    #[test]
    fn a_servers_certificate_is_verified_as_far_as_the_mode_says() {
        for (mode, verify) in [
            ("prefer", Verify::None),
            ("require", Verify::None),
            ("verify-ca", Verify::Ca),
            ("verify-full", Verify::Full),
        ] {
            let settings = settings(&format!(
                "server_tls_sslmode={mode} server_tls_ca_file=/ca.crt"
            ));
            let tls = settings.pool("shop", "ann").unwrap().tls;
            assert_eq!(
                connector_options(&tls, OpenKeys::Refuse).verify,
                verify,
                "{mode}"
            );
            assert_eq!(is_required(tls.sslmode), mode != "prefer", "{mode}");
        }
    }

    #[test]
    fn every_mistake_in_tls_settings_is_told_with_its_database() {
        let settings = settings("server_tls_sslmode=verify-ca server_tls_ca_file=/nowhere/ca.crt");
        let errors = Transport::load(&settings).err().unwrap();
        let text = errors.iter().map(ToString::to_string).collect::<String>();
        assert!(text.starts_with("database \"shop\": "), "{text}");
        assert!(text.contains("/nowhere/ca.crt"), "{text}");
    }

    #[test]
    fn authorities_of_hints_are_read_for_https_only() {
        let load = |entry: &str| {
            let entry = format!(
                "replicas=r watch_user=w failover_hints_ca_file=/nowhere/ca.crt failover_hints={entry}"
            );
            let errors = Transport::load(&settings(&entry)).err().unwrap_or_default();
            errors.iter().map(ToString::to_string).collect::<String>()
        };
        assert_eq!(load("patroni:http://p:8008"), "");
        let text = load("patroni:http://p:8008,https://q:8008");
        assert!(text.starts_with("database \"shop\": "), "{text}");
        assert!(text.contains("failover_hints_ca_file"), "{text}");
        assert!(text.contains("/nowhere/ca.crt"), "{text}");
    }
}
