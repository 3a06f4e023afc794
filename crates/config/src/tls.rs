//! TLS options of each side, combined for a listener or a connector. Nothing here reads a file or knows a cipher; the
//! texts are those of the options.

use crate::options::{Database, Global};
use crate::types::{ChannelBinding, SslMode, SslNegotiation};

/// Word in place of a file for the certificates that this machine trusts, as in libpq's `sslrootcert`.
pub const SYSTEM_ROOTS: &str = "system";

/// TLS settings of connections from clients. Empty texts mean "not given". Equal values can share one listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientTls {
    /// `allow` equals `prefer`, and `verify-ca` equals `verify-full`, as in PgBouncer.
    pub sslmode: SslMode,
    /// Path of the private key.
    pub key_file: String,
    /// Path of the certificate.
    pub cert_file: String,
    /// Path of the CA certificates for clients' certificates.
    pub ca_file: String,
    /// Path of the revoked certificates.
    pub crl_file: String,
    /// Names of TLS versions.
    pub protocols: String,
    /// Names of TLS 1.2 ciphers.
    pub ciphers: String,
    /// Names of TLS 1.3 ciphers.
    pub tls13_ciphers: String,
    /// Name of a curve, or `auto`.
    pub ecdhcurve: String,
}

/// TLS settings of connections to servers. Empty texts mean "not given". Equal values can share one connector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerTls {
    /// Level of protection, as libpq's `sslmode`.
    pub sslmode: SslMode,
    /// Path of the private key.
    pub key_file: String,
    /// Path of the certificate.
    pub cert_file: String,
    /// Path of the CA certificates for the server's certificate, or [`SYSTEM_ROOTS`].
    pub ca_file: String,
    /// Path of the revoked certificates.
    pub crl_file: String,
    /// Names of TLS versions.
    pub protocols: String,
    /// Names of TLS 1.2 ciphers.
    pub ciphers: String,
    /// Names of TLS 1.3 ciphers.
    pub tls13_ciphers: String,
    /// Start of TLS: after an SSLRequest, or at once.
    pub sslnegotiation: SslNegotiation,
    /// Binding of SCRAM to the connection.
    pub channel_binding: ChannelBinding,
}

impl Global {
    /// TLS settings of connections from clients.
    #[must_use]
    pub fn client_tls(&self) -> ClientTls {
        ClientTls {
            sslmode: self.client_tls_sslmode,
            key_file: self.client_tls_key_file.clone(),
            cert_file: self.client_tls_cert_file.clone(),
            ca_file: self.client_tls_ca_file.clone(),
            crl_file: self.client_tls_crl_file.clone(),
            protocols: self.client_tls_protocols.clone(),
            ciphers: self.client_tls_ciphers.clone(),
            tls13_ciphers: self.client_tls13_ciphers.clone(),
            ecdhcurve: self.client_tls_ecdhcurve.clone(),
        }
    }

    /// TLS settings of connections to servers whose database overrides nothing.
    #[must_use]
    pub fn server_tls(&self) -> ServerTls {
        self.written_server_tls().resolved()
    }

    /// TLS settings of connections to a database's servers.
    pub(crate) fn server_tls_of(&self, entry: &Database) -> ServerTls {
        self.written_server_tls().with(entry).resolved()
    }

    fn written_server_tls(&self) -> ServerTls {
        ServerTls {
            sslmode: self.server_tls_sslmode,
            key_file: self.server_tls_key_file.clone(),
            cert_file: self.server_tls_cert_file.clone(),
            ca_file: self.server_tls_ca_file.clone(),
            crl_file: self.server_tls_crl_file.clone(),
            protocols: self.server_tls_protocols.clone(),
            ciphers: self.server_tls_ciphers.clone(),
            tls13_ciphers: self.server_tls13_ciphers.clone(),
            sslnegotiation: self.server_tls_sslnegotiation,
            channel_binding: self.server_channel_binding,
        }
    }
}

impl ServerTls {
    /// Applies the overrides of a database. An override may be empty, for example to use no CA file.
    fn with(mut self, entry: &Database) -> Self {
        let texts = [
            (&mut self.key_file, &entry.server_tls_key_file),
            (&mut self.cert_file, &entry.server_tls_cert_file),
            (&mut self.ca_file, &entry.server_tls_ca_file),
            (&mut self.crl_file, &entry.server_tls_crl_file),
            (&mut self.protocols, &entry.server_tls_protocols),
            (&mut self.ciphers, &entry.server_tls_ciphers),
            (&mut self.tls13_ciphers, &entry.server_tls13_ciphers),
        ];
        for (text, own) in texts {
            if let Some(own) = own {
                text.clone_from(own);
            }
        }
        self.sslmode = entry.server_tls_sslmode.unwrap_or(self.sslmode);
        self.sslnegotiation = entry
            .server_tls_sslnegotiation
            .unwrap_or(self.sslnegotiation);
        self.channel_binding = entry.server_channel_binding.unwrap_or(self.channel_binding);
        self
    }

    /// Uses the machine's certificates for `verify-full` without a file, as in PgBouncer. With `verify-ca` any owner of
    /// a public certificate could pose as the server, so there the file stays empty and is refused.
    fn resolved(mut self) -> Self {
        if self.sslmode == SslMode::VerifyFull && self.ca_file.is_empty() {
            SYSTEM_ROOTS.clone_into(&mut self.ca_file);
        }
        self
    }

    /// True if the server's certificate is checked against the CAs that this machine trusts.
    #[must_use]
    pub fn uses_system_roots(&self) -> bool {
        self.ca_file == SYSTEM_ROOTS
    }
}
