//! A configuration in force: the settings, and everything that was read beside them.

use std::sync::Arc;

use weir_access::ldap::LdapOptions;
use weir_access::{Hba, IdentMap, Interface};
use weir_auth::mock::Population;
use weir_auth::userlist::UserList;
use weir_config::{ServerTls, Settings};
use weir_directory::LdapTls;

use crate::lookups;
use crate::transport::{NoSuchSettings, Outgoing, Transport};

/// Who may come in, besides what the settings say.
#[derive(Clone, Default)]
pub struct Access {
    /// `auth_hba_file`.
    pub hba: Option<Arc<Hba>>,
    /// `auth_ident_file`.
    pub ident: Arc<IdentMap>,
    /// `auth_ldap_options`.
    pub ldap: Option<Arc<LdapOptions>>,
}

/// All that a configuration consists of once its files were read.
pub struct Setup {
    /// The settings.
    pub settings: Arc<Settings>,
    /// The auth_file.
    pub users: Arc<UserList>,
    /// HBA and its kin.
    pub access: Access,
    /// TLS keys and certificates.
    pub transport: Arc<Transport>,
}

/// The same in force, with facts about this machine that belong to it.
pub(crate) struct Settled {
    pub(crate) settings: Arc<Settings>,
    pub(crate) users: Arc<UserList>,
    pub(crate) access: Access,
    pub(crate) transport: Arc<Transport>,
    /// The one before, for pools that have not heard of the new one yet.
    before: Option<Arc<Transport>>,
    /// What unknown users look like.
    pub(crate) population: Population,
    /// The addresses of this machine; none if they cannot be listed.
    pub(crate) interfaces: Option<Vec<Interface>>,
    /// How LDAP servers are verified.
    pub(crate) ldap_tls: LdapTls,
}

impl Settled {
    /// What follows `before`, if there was one. Blocks: it lists interfaces and reads the certificates for LDAP.
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
        // Where secrets come from a database, nobody knows what others look like.
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

    /// How connections with these settings are protected; `Ok(None)` only where the settings want no TLS.
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
