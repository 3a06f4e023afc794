//! Whether a client may come in: which method the rules give it, what has to be found out for that, and the exchange.
//!
//! Everything is decided by [`step`], a function of what is known so far. What it lacks (a host name, roles, the secret
//! of a user, the name behind a user id) is asked for without waiting; when the answer has come, it is asked again.
//! A fact that could not be found out never lets anybody in.

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
use weir_session::fault::{Credential, Fault};
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

/// What has been found out for one login.
#[derive(Default)]
pub(super) struct Learnt {
    host_name: Answer<Option<String>>,
    roles: Answer<Vec<String>>,
    /// The name behind the user id at the other end of a unix socket.
    os_user: Answer<Option<String>>,
    /// By auth_query.
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

    /// What auth_query said.
    pub(super) fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }
}

/// A fact that has been asked for.
pub(crate) enum Answered {
    HostName(Answer<Option<String>>),
    OsUser(Option<String>),
    /// None: nobody could be asked.
    Roles(Option<Vec<String>>),
    Secret(Option<Vec<Row>>),
    /// What LDAP or PAM says of a password.
    Verdict(bool),
}

/// Where a password is checked.
#[derive(Clone)]
pub(super) enum Directory {
    Ldap(Arc<LdapOptions>),
    Pam {
        service: String,
        /// What PAM is told of where the client is; none for a unix socket.
        host: Option<String>,
    },
}

/// How a client proves who it is.
enum Way {
    /// It need not, if its database forces a user.
    Any,
    /// Its certificate names it.
    Certificate,
    /// Somebody else knows its password.
    Directory(Directory),
    Exchange(Exchanged),
    /// The operating system names it.
    Peer,
}

/// What to do next.
enum Step {
    Begin(Exchanged, Account),
    BeginChecked(Directory),
    In,
    Inquire(AuthLookup, Question),
    LookUpHost(IpAddr),
    LookUpUser(u32),
    Refuse(Fault),
}

/// What the rules say of a client: a method, and names that its proof must lead to.
struct Terms<'a> {
    way: Way,
    /// The rule, unless it is `auth_type` that decides.
    rule: Option<&'a Rule>,
}

/// The next step of a login.
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

/// Which method applies.
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
        return Err(Step::Refuse(Fault::NoAuthenticationMethod));
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
        physical_replication: false,
    };
    match hba.decide(&visitor, &login.learnt.facts()) {
        Decision::Rule(rule) => way_of(rule, login, identity).map(|way| Terms {
            way,
            rule: Some(rule),
        }),
        Decision::NoRule => Err(Step::Refuse(Fault::NoAuthenticationMethod)),
        Decision::Needs(Fact::HostName) => Err(match address {
            Ok(address) => Step::LookUpHost(address),
            Err(_) => Step::Refuse(Fault::NoAuthenticationMethod),
        }),
        Decision::Needs(Fact::Roles) => Err(match lookup(settled, login) {
            Some(lookup) => Step::Inquire(lookup, Question::Roles),
            // Nobody can be asked about the users of this database.
            None => Step::Refuse(Fault::NoAuthenticationMethod),
        }),
    }
}

/// The client's address in words; none for a unix socket.
fn address_text(identity: &Identity) -> Option<String> {
    let address = &identity.remote.address;
    address.parse::<IpAddr>().is_ok().then(|| address.clone())
}

fn way_of(rule: &Rule, login: &Authenticating, identity: &Identity) -> Result<Way, Step> {
    Ok(match rule.method() {
        Method::Trust => Way::Exchange(Exchanged::Trust),
        Method::Reject => return Err(Step::Refuse(Fault::LoginRejected)),
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

/// `clientcert=` of a rule.
fn check_certificate(
    settled: &Settled,
    login: &Authenticating,
    identity: &Identity,
    rule: &Rule,
) -> Result<(), Step> {
    let refuse = || Step::Refuse(Fault::AuthenticationFailed(Credential::Certificate));
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

/// Whether the client's certificate names its user. By its common name; a certificate without one by its alternative
/// names. A map of the rule may lead from one name to another.
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
        return Err(Step::Refuse(Fault::AuthenticationFailed(credential)));
    };
    let by_dn = rule.is_some_and(|rule| rule.client_name() == ClientName::DistinguishedName);
    let found = match (by_dn, names.common_name) {
        (true, _) => vec![names.distinguished_name],
        (false, Some(name)) => vec![name],
        (false, None) => [names.dns_names, names.emails, names.uris].concat(),
    };
    leads_to(settled, login, rule, &found, credential)
}

/// Whether the operating system's user may be this one.
fn peer(
    settled: &Settled,
    login: &Authenticating,
    identity: &Identity,
    rule: Option<&Rule>,
) -> Result<(), Step> {
    let credential = Credential::Peer;
    let refuse = || Step::Refuse(Fault::AuthenticationFailed(credential));
    let name = match (&login.learnt.os_user, identity.remote_uid) {
        (_, None) => return Err(refuse()),
        (Answer::NotAsked, Some(uid)) => return Err(Step::LookUpUser(uid)),
        (Answer::Known(Some(name)), _) => name,
        (Answer::Known(None) | Answer::Failed, _) => return Err(refuse()),
    };
    leads_to(settled, login, rule, std::slice::from_ref(name), credential)
}

/// Whether one of the proved names is the user's, or leads to it by the rule's map.
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
        None => Err(Step::Refuse(Fault::AuthenticationFailed(credential))),
    }
}

/// Without a question, but only for users that there are.
fn known_only(settled: &Settled, login: &Authenticating, credential: Credential) -> Step {
    match account(settled, login) {
        Ok(Account::Known(_)) => Step::In,
        Ok(Account::Unknown) => Step::Refuse(Fault::AuthenticationFailed(credential)),
        Err(step) => step,
    }
}

/// Everybody comes in, under the user that the database forces.
fn any(settled: &Settled, login: &Authenticating, identity: &Identity) -> Step {
    if settled.settings.trust_loopback {
        return if identity.is_loopback {
            Step::In
        } else {
            Step::Refuse(Fault::AuthenticationFailed(Credential::Password))
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

/// What is known of the user: by auth_file, else by auth_query, which is asked if it has not been.
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

/// Who is asked about users: the database that the client names, else the one that all names lead to.
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
        let Some(client) = self.clients.must_get_mut(id) else {
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

    /// Has a helper find something out.
    fn look_up(
        &mut self,
        id: ClientId,
        asker: Asker,
        find: impl FnOnce() -> Answered + Send + 'static,
    ) {
        if let Some(login) = self.login(id) {
            login.busy = Busy::Waiting;
        }
        let (global, lane) = (Arc::clone(&self.global), self.lane);
        let job = move || {
            let answered = Box::new(find());
            if let Some(mailbox) = global.mailbox(lane) {
                mailbox.send_waiting(Message::Learnt { asker, answered });
            }
        };
        if self.global.resolvers.run(job).is_err() {
            self.fail_overloaded(id);
        }
    }

    pub(super) fn fail_overloaded(&mut self, id: ClientId) {
        self.fail_client(id, &Fault::TooManyLogins);
    }

    /// The secret of the user, by auth_query or out of its cache.
    fn fetch_account(&mut self, id: ClientId, lookup: &AuthLookup) {
        let Some(client) = self.clients.must_get(id) else {
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

    /// A letter of a helper.
    pub(super) fn learnt(&mut self, asker: Asker, answered: Answered) {
        if let Asker::Client(id) = asker
            && self.clients.contains(id)
        {
            self.learn(id, answered);
        }
    }

    /// Something that a login asked for has been found out, or could not be.
    pub(super) fn learn(&mut self, id: ClientId, answered: Answered) {
        let settled = self.global.settled();
        let Some(client) = self.clients.must_get_mut(id) else {
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
        self.fail_client(id, &Fault::Misconfigured("auth_query failed".to_owned()));
    }

    /// Asks a directory about the password that a client has sent.
    pub(super) fn check_password(&mut self, id: ClientId, password: Secret) {
        let settled = self.global.settled();
        let Some(client) = self.clients.must_get_mut(id) else {
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
        let (global, lane) = (Arc::clone(&self.global), self.lane);
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
            if let Some(mailbox) = global.mailbox(lane) {
                let answered = Box::new(Answered::Verdict(fits));
                mailbox.send_waiting(Message::Learnt { asker, answered });
            }
        };
        if self.global.directories.run(job).is_err() {
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

/// The longest time for an LDAP directory, whatever the login may take.
const LDAP_MAX: std::time::Duration = std::time::Duration::from_secs(15);
