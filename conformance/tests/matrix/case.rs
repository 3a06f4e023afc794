//! Axes of the matrix, and all their combinations that differ.

macro_rules! axis {
    ($(#[$doc:meta])* $name:ident { $($variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($variant),+ }

        impl $name {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];
        }
    };
}

axis! {
    /// Line of the file for this user.
    Method {
        Trust, TrustInClear, Reject, Password, Md5, Scram, ScramInTls, Cert, CertMap, Peer, PeerSelf, PeerMap,
    }
}

axis! {
    /// Secret stored for the user. `Expired` and `Null` exist in the table only.
    Secret { Plain, Md5, Scram, Empty, Null, Expired, Unknown }
}

axis! {
    /// Place of the secret.
    Source { File, Query }
}

axis! {
    /// Database that the client asks for. The console accepts `admin_users` only.
    Database { Real, Console, ConsoleOfOthers, Missing }
}

axis! {
    /// `client_tls_sslmode`.
    Listener { Prefer, VerifyFull }
}

axis! {
    /// Transport of the client.
    Transport { Unix, Tcp, Tls, OwnCertificate, OtherCertificate }
}

axis! {
    /// Client's answer to a request for a password.
    Credential { Right, Wrong, Empty }
}

/// A login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) method: Method,
    pub(crate) secret: Secret,
    pub(crate) source: Source,
    pub(crate) database: Database,
    pub(crate) listener: Listener,
    pub(crate) transport: Transport,
    pub(crate) credential: Credential,
}

impl Case {
    /// All cases that differ.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for &method in Method::ALL {
            for &secret in Secret::ALL {
                for &source in Source::ALL {
                    for &database in Database::ALL {
                        for &listener in Listener::ALL {
                            for &transport in Transport::ALL {
                                for &credential in Credential::ALL {
                                    all.push(Self {
                                        method,
                                        secret,
                                        source,
                                        database,
                                        listener,
                                        transport,
                                        credential,
                                    });
                                }
                            }
                        }
                    }
                }
            }
        }
        all.retain(Self::is_of_interest);
        all
    }

    fn is_of_interest(&self) -> bool {
        let in_table_only = matches!(self.secret, Secret::Null | Secret::Expired);
        let asks = matches!(
            self.method,
            Method::Password | Method::Md5 | Method::Scram | Method::ScramInTls
        );
        let certificate = matches!(
            self.transport,
            Transport::OwnCertificate | Transport::OtherCertificate
        );
        // Only one user has the name of the user that runs this test, with a plain secret in the
        // file.
        let is_self = self.secret == Secret::Plain && self.source == Source::File;
        (self.source == Source::Query || !in_table_only)
            && (asks || self.credential == Credential::Right)
            && (!certificate || self.listener == Listener::VerifyFull)
            && (self.transport != Transport::Unix || self.listener == Listener::Prefer)
            && (self.method != Method::PeerSelf || is_self && self.database == Database::Real)
    }

    /// Name of the user, which encodes everything that is stored for it.
    pub(crate) fn user(&self, myself: &str) -> String {
        if self.method == Method::PeerSelf {
            return myself.to_owned();
        }
        let others = match self.database {
            Database::ConsoleOfOthers => "_other",
            _ => "",
        };
        format!("{:?}_{:?}{others}", self.method, self.secret).to_lowercase()
    }
}
