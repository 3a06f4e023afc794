//! Target of a load, resolved once for all clients: address, TLS and login.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use weir_auth::kdf::{ITERATIONS_MAX, KdfRequest, ScramKeys, derive};
use weir_auth::scram::Nonce;
use weir_auth::secret::Secret;
use weir_auth::stored::StoredSecret;
use weir_session::login::{BindingPolicy, Credentials, LoginPlan, Transport};
use weir_tls::connector::{Connector, ConnectorOptions, Verify};
use weir_wire::startup::Version;

use crate::load::LoadError;
use crate::load::failure::Failure;
use crate::load::plan::{Plan, Tls};

/// The target of a plan.
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    user: String,
    database: String,
    parameters: Vec<(String, String)>,
    password: Option<Secret>,
}

impl Target {
    /// Looks up the address and reads the CA's file; blocks.
    ///
    /// # Errors
    /// The host or the file does not exist.
    pub(super) fn new(plan: &Plan) -> Result<Self, LoadError> {
        let address = plan.address.to_socket_addrs();
        let mut found = address.map_err(|error| LoadError::Address {
            address: plan.address.clone(),
            error,
        })?;
        let address = found
            .next()
            .ok_or_else(|| LoadError::NoAddress(plan.address.clone()))?;
        let options = match &plan.tls {
            Tls::Off => None,
            Tls::Require => Some(ConnectorOptions::new(Verify::None)),
            Tls::VerifyFull { ca_file } => Some(ConnectorOptions {
                ca_file: Some(ca_file.clone()),
                ..ConnectorOptions::new(Verify::Full)
            }),
        };
        let host = plan
            .address
            .rsplit_once(':')
            .map_or(plan.address.as_str(), |(host, _)| host);
        let tls = match options {
            None => None,
            Some(options) => {
                let connector = Connector::build(&options)?;
                let name = connector.server_name(host)?;
                Some((connector.config, name))
            }
        };
        Ok(Self {
            address,
            tls,
            user: plan.user.clone(),
            database: plan.database.clone(),
            parameters: plan.parameters.clone(),
            password: plan.password.as_ref().map(|p| Secret::from(p.0.as_str())),
        })
    }

    /// Returns the parameters of one login.
    pub(super) fn login(&self) -> Result<LoginPlan, Failure> {
        let mut nonce = [0; 18];
        getrandom::fill(&mut nonce).map_err(|error| Failure::login(error.to_string()))?;
        let transport = match self.tls {
            None => Transport::Plain,
            Some(_) => Transport::Tls { end_point: None },
        };
        Ok(LoginPlan {
            user: self.user.clone(),
            database: self.database.clone(),
            parameters: self.parameters.clone(),
            version: Version::V3_0,
            credentials: Credentials {
                secret: self.password.clone().map(StoredSecret::Plain),
                pass_through: None,
            },
            nonce: Nonce::from_random(nonce),
            // Channel binding would only add the cost of hashing the certificate.
            channel_binding: BindingPolicy::Disable,
            transport,
            iterations_max: ITERATIONS_MAX,
        })
    }
}

/// Cache of SCRAM keys by salt and rounds. With a key derivation per login, a storm of logins would measure the
/// generator.
#[derive(Default)]
pub(super) struct Keys {
    known: Vec<(Vec<u8>, u32, ScramKeys)>,
}

impl Keys {
    /// Size of the cache. A plan has one user, but some poolers answer with a new salt each time.
    const MAX: usize = 8;

    /// Returns cached keys, or derives them, which takes milliseconds.
    pub(super) fn of(&mut self, request: &KdfRequest) -> ScramKeys {
        let (salt, rounds) = (request.salt(), request.iterations());
        let mut known = self.known.iter();
        if let Some((_, _, keys)) = known.find(|(s, r, _)| s == salt && *r == rounds) {
            return keys.clone();
        }
        let keys = ScramKeys::from_salted(&derive(request));
        if self.known.len() == Self::MAX {
            self.known.remove(0);
        }
        self.known.push((salt.to_vec(), rounds, keys.clone()));
        keys
    }
}
