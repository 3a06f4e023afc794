//! Access of clients: the method that the rules require, the facts that it needs, and the start of the exchange.
//!
//! [`step`] decides everything, as a function of the facts known so far. Missing facts (a host name, roles, a user's
//! secret, the name behind a user id) are requested without blocking. When an answer has come, `step` is called again.
//! A fact that could not be found out never lets a client in.

use std::net::IpAddr;
use std::sync::Arc;

use weir_access::ldap::LdapOptions;
use weir_access::{
    Answer, ClientCertificate, ClientName, Decision, Fact, Facts, Mapping, Method, Origin, Rule,
    Transport as Protection, Visitor,
};
use weir_auth::login::{Account, LoginRandom, Method as Exchanged};
use weir_auth::secret::Secret;
use weir_auth::stored::StoredSecret;
use weir_config::{AuthLookup, AuthType};
use weir_directory::PAM_SERVICE;
use weir_session::fault::{Applicant, Credential, Fault};
use weir_session::hello::Replication;
use weir_tls::names::Identity as CertificateNames;

use super::ids::ClientId;
use super::inquiry::{Question, Row};
use super::slots::{Authenticating, Busy, Identity, Phase, Plan};
use super::{Missing, Worker};
use crate::driver::Driver;
use crate::global::random;
use crate::lookups;
use crate::mailbox::{Asker, Message};
use crate::settled::Settled;

/// Facts found out for one login.
#[derive(Default)]
pub(super) struct Learnt {
    host_name: Answer<Option<String>>,
    roles: Answer<Vec<String>>,
    /// Name behind the user id at the other end of a unix socket.
    os_user: Answer<Option<String>>,
    /// Account found by auth_query.
    account: Option<Account>,
}

impl Learnt {
    fn facts(&self) -> Facts<'_> {
        Facts {
            host_name: match &self.host_name {
                Answer::Failed => Answer::Failed,
                Answer::NotAsked => Answer::NotAsked,
                Answer::Known(name) => Answer::Known(name.as_deref()),
            },
            roles: match &self.roles {
                Answer::Failed => Answer::Failed,
                Answer::NotAsked => Answer::NotAsked,
                Answer::Known(roles) => Answer::Known(roles),
            },
        }
    }

    /// Returns the account that auth_query has found.
    pub(super) fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }
}

/// Answer to a request for a fact.
pub(crate) enum Answered {
    HostName(Answer<Option<String>>),
    OsUser(Option<String>),
    /// Roles of the user; none if no server could be asked.
    Roles(Option<Vec<String>>),
    Secret(Option<Vec<Row>>),
    /// True if LDAP or PAM accepts the password.
    Verdict(bool),
}

/// Place where a password is checked.
#[derive(Clone)]
pub(super) enum Directory {
    Ldap(Arc<LdapOptions>),
    Pam {
        service: String,
        /// Client's host as PAM is told; none for a unix socket.
        host: Option<String>,
    },
}

/// Way in which a client proves its identity.
enum Way {
    /// No proof is needed, if the database forces a user.
    Any,
    /// The certificate names the user.
    Certificate,
    /// A directory checks the password.
    Directory(Directory),
    Exchange(Exchanged),
    /// The operating system names the user.
    Peer,
}

/// Next step of a login.
enum Step {
    Begin(Exchanged, Account),
    BeginChecked(Directory),
    In,
    Inquire(AuthLookup, Question),
    LookUpHost(IpAddr),
    LookUpUser(u32),
    Refuse(Fault),
}

/// Terms that the rules set for a client: a method, and names that its proof must lead to.
struct Terms<'a> {
    way: Way,
    /// The HBA rule; none if `auth_type` decides.
    rule: Option<&'a Rule>,
}

/// Returns the next step of a login.
fn step(settled: &Settled, login: &Authenticating, identity: &Identity) -> Step {
    let terms = match terms(settled, login, identity) {
        Ok(terms) => terms,
        Err(step) => return step,
    };
    if let Some(rule) = terms.rule
        && let Err(step) = check_certificate(settled, login, identity, rule)
    {
        return step;
    }
    match terms.way {
        Way::Any => any(settled, login, identity),
        Way::Directory(directory) => Step::BeginChecked(directory),
        Way::Certificate => match certificate(settled, login, identity, terms.rule) {
            Ok(()) => known_only(settled, login, Credential::Certificate),
            Err(step) => step,
        },
        Way::Peer => match peer(settled, login, identity, terms.rule) {
            Ok(()) => known_only(settled, login, Credential::Peer),
            Err(step) => step,
        },
        Way::Exchange(method) => match account(settled, login) {
            Ok(account) => Step::Begin(method, account),
            Err(step) => step,
        },
    }
}

/// Returns the method that applies to a login.
fn terms<'a>(
    settled: &'a Settled,
    login: &Authenticating,
    identity: &Identity,
) -> Result<Terms<'a>, Step> {
    let global = &settled.settings.global;
    let way = match global.auth_type {
        AuthType::Hba => return by_rule(settled, login, identity),
        AuthType::Any => Way::Any,
        AuthType::Trust => Way::Exchange(Exchanged::Trust),
        AuthType::Plain => Way::Exchange(Exchanged::Plain),
        AuthType::Md5 => Way::Exchange(Exchanged::Md5),
        AuthType::ScramSha256 => Way::Exchange(Exchanged::Scram),
        AuthType::Cert => Way::Certificate,
        AuthType::Ldap => match &settled.access.ldap {
            Some(options) => Way::Directory(Directory::Ldap(Arc::clone(options))),
            None => {
                let text = "bouncer config error".to_owned();
                return Err(Step::Refuse(Fault::Misconfigured(text)));
            }
        },
        AuthType::Pam => Way::Directory(Directory::Pam {
            service: PAM_SERVICE.to_owned(),
            host: address_text(identity),
        }),
    };
    Ok(Terms { way, rule: None })
}

fn by_rule<'a>(
    settled: &'a Settled,
    login: &Authenticating,
    identity: &Identity,
) -> Result<Terms<'a>, Step> {
    let Some(hba) = &settled.access.hba else {
        return Err(no_rule(login, identity));
    };
    let address = identity.remote.address.parse::<IpAddr>();
    let origin = match address {
        Ok(address) => Origin::Ip {
            address,
            interfaces: settled.interfaces.as_deref(),
        },
        Err(_) => Origin::Unix,
    };
    let transport = match &identity.tls {
        None => Protection::Plain,
        Some(tls) if tls.certificate.is_some() => Protection::TlsVerified,
        Some(_) => Protection::Tls,
    };
    let visitor = Visitor {
        user: &login.hello.user,
        database: &login.hello.database,
        origin,
        transport,
        physical_replication: login.hello.replication == Replication::Physical,
    };
    match hba.decide(&visitor, &login.learnt.facts()) {
        Decision::Rule(rule) => way_of(rule, login, identity).map(|way| Terms {
            way,
            rule: Some(rule),
        }),
        Decision::NoRule => Err(no_rule(login, identity)),
        Decision::Needs(Fact::HostName) => Err(match address {
            Ok(address) => Step::LookUpHost(address),
            Err(_) => no_rule(login, identity),
        }),
        Decision::Needs(Fact::Roles) => Err(match lookup(settled, login) {
            Some(lookup) => Step::Inquire(lookup, Question::Roles),
            // No server can be asked about the users of this database.
            None => no_rule(login, identity),
        }),
    }
}

/// Refuses a client for whom no rule is.
fn no_rule(login: &Authenticating, identity: &Identity) -> Step {
    Step::Refuse(Fault::NoAuthenticationMethod(applicant(login, identity)))
}

fn applicant(login: &Authenticating, identity: &Identity) -> Box<Applicant> {
    Box::new(Applicant {
        host: address_text(identity),
        user: login.hello.user.clone(),
        database: login.hello.database.clone(),
        is_encrypted: identity.tls.is_some(),
        is_physical: login.hello.replication == Replication::Physical,
    })
}

/// Returns the client's address as text; none for a unix socket.
fn address_text(identity: &Identity) -> Option<String> {
    let address = &identity.remote.address;
    address.parse::<IpAddr>().is_ok().then(|| address.clone())
}

fn way_of(rule: &Rule, login: &Authenticating, identity: &Identity) -> Result<Way, Step> {
    Ok(match rule.method() {
        Method::Trust => Way::Exchange(Exchanged::Trust),
        Method::Reject => {
            let applicant = applicant(login, identity);
            // For the administrator only: a client learns no rules.
            tracing::info!("{}: {} rejects {applicant}", rule.place(), rule.text());
            return Err(Step::Refuse(Fault::LoginRejected(applicant)));
        }
        Method::Md5 => Way::Exchange(Exchanged::Md5),
        Method::Password => Way::Exchange(Exchanged::Plain),
        Method::ScramSha256 => Way::Exchange(Exchanged::Scram),
        Method::Cert => Way::Certificate,
        Method::Peer => Way::Peer,
        Method::Ldap(options) => {
            Way::Directory(Directory::Ldap(Arc::new(LdapOptions::clone(options))))
        }
        Method::Pam(options) => {
            let service = options.service.as_deref().unwrap_or(PAM_SERVICE).to_owned();
            let host = match (options.use_hostname, &login.learnt.host_name) {
                (true, Answer::NotAsked) => {
                    if let Ok(address) = identity.remote.address.parse() {
                        return Err(Step::LookUpHost(address));
                    }
                    None
                }
                (true, Answer::Known(Some(name))) => Some(name.clone()),
                _ => address_text(identity),
            };
            Way::Directory(Directory::Pam { service, host })
        }
    })
}

/// Checks `clientcert=` of a rule.
fn check_certificate(
    settled: &Settled,
    login: &Authenticating,
    identity: &Identity,
    rule: &Rule,
) -> Result<(), Step> {
    let refuse = || Step::Refuse(login.failed(Credential::Certificate));
    let is_verified = identity
        .tls
        .as_ref()
        .is_some_and(|tls| tls.certificate.is_some());
    match rule.client_certificate() {
        ClientCertificate::NotNeeded => Ok(()),
        ClientCertificate::VerifyCa if is_verified => Ok(()),
        ClientCertificate::VerifyCa => Err(refuse()),
        ClientCertificate::VerifyFull => certificate(settled, login, identity, Some(rule)),
    }
}

/// Succeeds if the client's certificate names its user: by its common name, or by its alternative names if there is no
/// common name. A rule may ask for the distinguished name instead, and its map may lead from one name to another.
fn certificate(
    settled: &Settled,
    login: &Authenticating,
    identity: &Identity,
    rule: Option<&Rule>,
) -> Result<(), Step> {
    let credential = Credential::Certificate;
    let shown = identity
        .tls
        .as_ref()
        .and_then(|tls| tls.certificate.as_ref());
    let names = shown.and_then(|der| CertificateNames::from_certificate(der).ok());
    let Some(names) = names else {
        return Err(Step::Refuse(login.failed(credential)));
    };
    let by_dn = rule.is_some_and(|rule| rule.client_name() == ClientName::DistinguishedName);
    let found = match (by_dn, names.common_name) {
        (true, _) => vec![names.distinguished_name],
        (false, Some(name)) => vec![name],
        (false, None) => [names.dns_names, names.emails, names.uris].concat(),
    };
    leads_to(settled, login, rule, &found, credential)
}

/// Succeeds if the operating system's user at the other end may log in as this user.
fn peer(
    settled: &Settled,
    login: &Authenticating,
    identity: &Identity,
    rule: Option<&Rule>,
) -> Result<(), Step> {
    let credential = Credential::Peer;
    let refuse = || Step::Refuse(login.failed(credential));
    let name = match (&login.learnt.os_user, identity.remote_uid) {
        (_, None) => return Err(refuse()),
        (Answer::NotAsked, Some(uid)) => return Err(Step::LookUpUser(uid)),
        (Answer::Known(Some(name)), _) => name,
        (Answer::Known(None) | Answer::Failed, _) => return Err(refuse()),
    };
    leads_to(settled, login, rule, std::slice::from_ref(name), credential)
}

/// Succeeds if one of the proved names is the user's, or leads to it by the rule's map.
fn leads_to(
    settled: &Settled,
    login: &Authenticating,
    rule: Option<&Rule>,
    names: &[String],
    credential: Credential,
) -> Result<(), Step> {
    let map = rule.and_then(Rule::map);
    let (user, facts) = (&login.hello.user, login.learnt.facts());
    let mut needs_roles = false;
    for name in names {
        let mapping = match map {
            None if name == user => Mapping::Allowed,
            None => Mapping::Refused,
            Some(map) => settled.access.ident.decide(map, name, user, &facts),
        };
        match mapping {
            Mapping::Allowed => return Ok(()),
            Mapping::Refused => {}
            Mapping::Needs(_) => needs_roles = true,
        }
    }
    match lookup(settled, login).filter(|_| needs_roles) {
        Some(lookup) => Err(Step::Inquire(lookup, Question::Roles)),
        None => Err(Step::Refuse(login.failed(credential))),
    }
}

/// Lets a client in without a further question if its user is known.
fn known_only(settled: &Settled, login: &Authenticating, credential: Credential) -> Step {
    match account(settled, login) {
        Ok(Account::Known(_)) => Step::In,
        Ok(Account::Unknown) => Step::Refuse(login.failed(credential)),
        Err(step) => step,
    }
}

/// Lets every client in under the user that the database forces. A database without a forced user is a configuration
/// error. For `trust_loopback` only clients from this machine are let in.
fn any(settled: &Settled, login: &Authenticating, identity: &Identity) -> Step {
    if settled.settings.trust_loopback {
        return if identity.is_loopback {
            Step::In
        } else {
            Step::Refuse(login.failed(Credential::Password))
        };
    }
    let forced = match &login.plan {
        Some(Plan::Pool(pool)) => pool.is_user_forced,
        _ => true,
    };
    if forced {
        Step::In
    } else {
        Step::Refuse(Fault::Misconfigured("bouncer config error".to_owned()))
    }
}

/// Returns the account of the user: from auth_file, else from auth_query. If auth_query has not been asked, the step
/// that asks it is the error.
fn account(settled: &Settled, login: &Authenticating) -> Result<Account, Step> {
    let in_file = settled.users.get(login.hello.user.as_bytes());
    let lookup = lookup(settled, login);
    match (in_file, &login.learnt.account, lookup) {
        (Some(StoredSecret::Empty) | None, None, Some(lookup)) => {
            Err(Step::Inquire(lookup, Question::Secret))
        }
        (Some(StoredSecret::Empty) | None, Some(account), _) => Ok(account.clone()),
        (Some(secret), _, _) => Ok(Account::Known(secret.clone())),
        (None, None, None) => Ok(Account::Unknown),
    }
}

/// Returns how users are looked up: by the database that the client names, else by the one that serves all names.
pub(super) fn lookup(settled: &Settled, login: &Authenticating) -> Option<AuthLookup> {
    match &login.plan {
        Some(Plan::Pool(pool)) => pool.auth.clone(),
        _ => settled.settings.auth_lookup(&login.hello.database),
    }
}

impl<D: Driver> Worker<D> {
    /// Takes the next step of a login.
    pub(super) fn authenticate(&mut self, id: ClientId) {
        let settled = self.global.settled();
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        let asker = Asker::Client(id);
        match step(&settled, login, &client.identity) {
            Step::In => self.authenticated(id),
            Step::Refuse(fault) => self.refuse_login(id, fault),
            Step::Begin(method, account) => self.begin_exchange(id, &settled, method, account),
            Step::BeginChecked(directory) => {
                login.directory = Some(directory);
                self.begin_exchange(id, &settled, Exchanged::External, Account::Unknown);
            }
            Step::Inquire(lookup, Question::Secret) => self.fetch_account(id, &lookup),
            Step::Inquire(lookup, question) => self.inquire(id, &lookup, question),
            Step::LookUpHost(address) => {
                self.look_up(id, asker, move || {
                    Answered::HostName(lookups::host_name(address))
                });
            }
            Step::LookUpUser(uid) => {
                self.look_up(id, asker, move || Answered::OsUser(lookups::user_name(uid)));
            }
        }
    }

    /// Makes a helper thread find a fact out.
    fn look_up(
        &mut self,
        id: ClientId,
        asker: Asker,
        find: impl FnOnce() -> Answered + Send + 'static,
    ) {
        if let Some(login) = self.login(id) {
            login.busy = Busy::Waiting;
        }
        let (global, worker) = (Arc::clone(&self.global), self.number);
        let job = move || {
            let answered = Box::new(find());
            if let Some(mailbox) = global.mailbox(worker) {
                mailbox.send_waiting(Message::Learnt { asker, answered });
            }
        };
        if self.global.helpers.resolvers.run(job).is_err() {
            self.fail_overloaded(id);
        }
    }

    pub(super) fn fail_overloaded(&mut self, id: ClientId) {
        self.fail_client(id, &Fault::TooManyLogins);
    }

    /// Takes the secret of the user from the cache, or asks auth_query.
    fn fetch_account(&mut self, id: ClientId, lookup: &AuthLookup) {
        // A known answer is no better than the database that it came from.
        if self.global.is_disabled(&lookup.dbname) {
            let name = lookup.dbname.clone();
            return self.fail_client(id, &Fault::AuthDatabaseDisabled(name));
        }
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        let Phase::Authenticating(login) = &client.phase else {
            return self.global.broken.report(Missing::State);
        };
        match self
            .global
            .cached_account(lookup, &login.hello.user, self.now)
        {
            Some(account) => self.learn_account(id, account),
            None => self.inquire(id, lookup, Question::Secret),
        }
    }

    fn learn_account(&mut self, id: ClientId, account: Account) {
        if let Some(login) = self.login(id) {
            login.busy = Busy::No;
            login.learnt.account = Some(account);
        }
        self.authenticate(id);
    }

    /// Handles a helper's message.
    pub(super) fn learnt(&mut self, asker: Asker, answered: Answered) {
        if let Asker::Client(id) = asker
            && self.tables.clients.contains(id)
        {
            self.learn(id, answered);
        }
    }

    /// Continues a login with a fact that was found out, or could not be.
    pub(super) fn learn(&mut self, id: ClientId, answered: Answered) {
        let settled = self.global.settled();
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        login.busy = Busy::No;
        match answered {
            Answered::Verdict(fits) => return self.verdict(id, fits),
            Answered::HostName(name) => login.learnt.host_name = name,
            Answered::OsUser(name) => login.learnt.os_user = Answer::Known(name),
            Answered::Roles(roles) => {
                login.learnt.roles = roles.map_or(Answer::Failed, Answer::Known);
            }
            Answered::Secret(rows) => {
                let account = lookup(&settled, login).zip(rows).map(|(lookup, rows)| {
                    let user = &login.hello.user;
                    self.global.account_of(&lookup, user, &rows, self.now)
                });
                return match account {
                    Some(Ok(account)) => self.learn_account(id, account),
                    Some(Err(error)) => {
                        tracing::warn!("{client} {error}");
                        self.fail_inquiry(id);
                    }
                    None => self.fail_inquiry(id),
                };
            }
        }
        self.authenticate(id);
    }

    pub(super) fn fail_inquiry(&mut self, id: ClientId) {
        self.fail_client(id, &Fault::LookupFailed);
    }

    /// Asks a directory about the password that a client has sent.
    pub(super) fn check_password(&mut self, id: ClientId, password: Secret) {
        let settled = self.global.settled();
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        let Some(directory) = login.directory.clone() else {
            return self.global.broken.report(Missing::State);
        };
        login.busy = Busy::Waiting;
        login.typed = Some(password.clone());
        let asker = Asker::Client(id);
        let user = login.hello.user.clone();
        let name = client.to_string();
        let deadline = settled.settings.global.client_login_timeout;
        let (global, worker) = (Arc::clone(&self.global), self.number);
        let job = move || {
            let tls = &settled.ldap_tls;
            let verdict = match &directory {
                Directory::Ldap(options) => weir_directory::check_ldap(
                    options,
                    &user,
                    &password,
                    deadline.unwrap_or(LDAP_MAX).min(LDAP_MAX),
                    tls,
                ),
                Directory::Pam { service, host } => {
                    weir_directory::check_pam(service, &user, &password, host.as_deref())
                }
            };
            let fits = match verdict {
                Ok(weir_directory::Verdict::Accepted) => true,
                Ok(weir_directory::Verdict::Refused(why)) => {
                    tracing::info!("{name} password refused: {why}");
                    false
                }
                Err(error) => {
                    tracing::warn!("{name} password could not be checked: {error}");
                    false
                }
            };
            if let Some(mailbox) = global.mailbox(worker) {
                let answered = Box::new(Answered::Verdict(fits));
                mailbox.send_waiting(Message::Learnt { asker, answered });
            }
        };
        if self.global.helpers.directories.run(job).is_err() {
            self.fail_overloaded(id);
        }
    }

    fn verdict(&mut self, id: ClientId, fits: bool) {
        if self.bar(id) {
            return;
        }
        let Some(login) = self.login(id) else {
            return;
        };
        let Some(exchange) = login.exchange.as_mut() else {
            return self.global.broken.report(Missing::State);
        };
        let progress = exchange.provide_verdict(fits);
        self.progress(id, progress);
    }

    pub(super) fn login_random() -> Option<LoginRandom> {
        Some(LoginRandom {
            md5_salt: random().ok()?,
            scram_nonce: random().ok()?,
        })
    }
}

/// Maximum time for an LDAP directory to answer, even if the login may take longer.
const LDAP_MAX: std::time::Duration = std::time::Duration::from_secs(15);
