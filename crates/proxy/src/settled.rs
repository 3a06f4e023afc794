//! Configuration in force: the settings, and the contents of the files they name.

use std::sync::Arc;

use weir_access::ldap::LdapOptions;
use weir_access::{Hba, IdentMap, Interface};
use weir_auth::mock::Population;
use weir_auth::userlist::UserList;
use weir_config::{ServerTls, Settings};
use weir_directory::LdapTls;

use crate::lookups;
use crate::transport::{NoSuchSettings, Outgoing, Transport};

/// Rules of access that are not in the settings file.
#[derive(Clone, Default)]
pub struct Access {
    /// `auth_hba_file`.
    pub hba: Option<Arc<Hba>>,
    /// `auth_ident_file`.
    pub ident: Arc<IdentMap>,
    /// `auth_ldap_options`.
    pub ldap: Option<Arc<LdapOptions>>,
}

/// Complete configuration, with the contents of its files.
pub struct Setup {
    /// Options.
    pub settings: Arc<Settings>,
    /// Contents of the auth_file.
    pub users: Arc<UserList>,
    /// HBA rules, ident maps and LDAP options.
    pub access: Access,
    /// TLS keys and certificates.
    pub transport: Arc<Transport>,
}

/// Configuration in force, with facts about this machine that belong to it.
pub(crate) struct Settled {
    pub(crate) settings: Arc<Settings>,
    pub(crate) users: Arc<UserList>,
    pub(crate) access: Access,
    pub(crate) transport: Arc<Transport>,
    /// TLS of the previous configuration, for pools that have not learnt of the new one yet.
    before: Option<Arc<Transport>>,
    /// Kinds of secrets that the users have; logins of unknown users imitate them.
    pub(crate) population: Population,
    /// Addresses of this machine; `None` if they cannot be listed.
    pub(crate) interfaces: Option<Vec<Interface>>,
    /// TLS verification of LDAP servers.
    pub(crate) ldap_tls: LdapTls,
}

impl Settled {
    /// Makes the successor of `before`, if there was one. Blocks: it lists interfaces and reads the certificates for
    /// LDAP.
    pub(crate) fn new(setup: Setup, before: Option<&Self>) -> Self {
        let Setup {
            settings,
            users,
            access,
            transport,
        } = setup;
        let databases = settings.databases.values();
        let asks = !settings.global.auth_user.is_empty()
            || databases
                .into_iter()
                .any(|database| database.auth_user.is_some());
        // If secrets come from a database, the secrets of other users are unknown.
        let population = if asks {
            Population::default()
        } else {
            Population::of(&users)
        };
        Self {
            population,
            interfaces: lookups::interfaces(),
            ldap_tls: LdapTls::system(),
            settings,
            users,
            access,
            transport,
            before: before.map(|before| Arc::clone(&before.transport)),
        }
    }

    /// Returns the TLS for connections with these settings; `Ok(None)` only if the settings want no TLS.
    ///
    /// # Errors
    /// As [`Transport::outgoing`].
    pub(crate) fn outgoing(
        &self,
        tls: &ServerTls,
    ) -> Result<Option<Arc<Outgoing>>, NoSuchSettings> {
        let found = self.transport.outgoing(tls);
        found.or_else(|error| self.before.as_ref().ok_or(error)?.outgoing(tls))
    }
}
