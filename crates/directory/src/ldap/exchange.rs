//! A check at one server: connect, bind, search, bind as the user.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use ldap3::Ldap;
use ldap3::LdapConnAsync;
use ldap3::LdapConnSettings;
use ldap3::LdapError;
use ldap3::LdapResult;
use ldap3::Scope;
use ldap3::SearchEntry;
use ldap3::SearchOptions;
use tokio::time;
use weir_access::ldap::LdapOptions;
use weir_access::ldap::LdapScheme;
use weir_access::ldap::LdapScope;

use super::LdapTls;
use super::names::Plan;
use super::names::Server;
use crate::Failure;
use crate::Refusal;
use crate::Step;
use crate::Verdict;

/// Result codes of RFC 4511 section 4.1.9 that this module tells apart.
mod code {
    pub(super) const SUCCESS: u32 = 0;
    pub(super) const SIZE_LIMIT_EXCEEDED: u32 = 4;
    pub(super) const CONSTRAINT_VIOLATION: u32 = 19;
    pub(super) const NO_SUCH_OBJECT: u32 = 32;
    pub(super) const INAPPROPRIATE_AUTHENTICATION: u32 = 48;
    pub(super) const INVALID_CREDENTIALS: u32 = 49;
    pub(super) const INSUFFICIENT_ACCESS_RIGHTS: u32 = 50;
    pub(super) const BUSY: u32 = 51;
    pub(super) const UNAVAILABLE: u32 = 52;
    pub(super) const UNWILLING_TO_PERFORM: u32 = 53;
}

/// Requests no attributes (RFC 4511 section 4.5.1.8): only the name of the entry is needed.
const NO_ATTRIBUTES: [&str; 1] = ["1.1"];

/// Size limit of a search: two entries show that the user name is ambiguous.
const ENTRIES_MAX: i32 = 2;

/// Maximum of characters of a server's message that reach the log.
const TEXT_MAX: usize = 200;

/// Time limit for sending the unbind request.
const GOODBYE: Duration = Duration::from_millis(50);

/// Reason why there is no verdict.
pub(super) enum Stop {
    /// The filter is not valid; another server would not help.
    Filter(String),
    /// The server answered, and another server would answer the same.
    Final(Failure),
    /// The server could not be asked; another may be.
    Next(Failure),
}

/// Asks one server. `step` always holds the current step, so that a caller that cancels the check can
/// report it.
pub(super) async fn check(
    options: &LdapOptions,
    server: &Server<'_>,
    plan: &Plan,
    password: &str,
    tls: &LdapTls,
    step: &Cell<Step>,
) -> Result<Verdict, Stop> {
    let mut ldap = connect(options, server, tls).await?;
    let verdict = ask(options, &mut ldap, plan, password, step).await;
    // A failed unbind does not change the verdict.
    let _ = time::timeout(GOODBYE, ldap.unbind()).await;
    verdict
}

async fn connect(options: &LdapOptions, server: &Server<'_>, tls: &LdapTls) -> Result<Ldap, Stop> {
    let url = server.url().ok_or(Stop::Final(Failure::Address))?;
    let mut settings = LdapConnSettings::new();
    if options.scheme == LdapScheme::Ldaps || options.tls {
        let config = tls
            .config()
            .map_err(|error| Stop::Final(Failure::TlsSetup(error)))?;
        settings = settings.set_config(config).set_starttls(options.tls);
    }
    let (connection, ldap) = LdapConnAsync::with_settings(settings, &url)
        .await
        .map_err(unreachable)?;
    // `ldap` receives the same error that ends this task.
    tokio::spawn(connection.drive());
    Ok(ldap)
}

async fn ask(
    options: &LdapOptions,
    ldap: &mut Ldap,
    plan: &Plan,
    password: &str,
    step: &Cell<Step>,
) -> Result<Verdict, Stop> {
    match plan {
        Plan::Direct { name } => {
            step.set(Step::UserBind);
            bind_user(ldap, name, password).await
        }
        Plan::Search { base, filter } => {
            step.set(Step::SearchBind);
            bind_for_search(options, ldap).await?;
            step.set(Step::Search);
            match search(options.scope, ldap, base, filter).await? {
                Ok(name) => {
                    // PostgreSQL opens a second connection for this; RFC 4511 section 4.2.1 needs none.
                    step.set(Step::UserBind);
                    bind_user(ldap, &name, password).await
                }
                Err(refusal) => Ok(Verdict::Refused(refusal)),
            }
        }
    }
}

async fn bind_for_search(options: &LdapOptions, ldap: &mut Ldap) -> Result<(), Stop> {
    let name = options.binddn.as_deref().unwrap_or_default();
    let password = options.bindpasswd.as_ref();
    let password = password.map_or("", |secret| secret.expose());
    let result = ldap
        .simple_bind(name, password)
        .await
        .map_err(unreachable)?;
    if result.rc == code::SUCCESS {
        Ok(())
    } else {
        Err(refused(&result))
    }
}

/// Name of the only entry that matches.
async fn search(
    scope: LdapScope,
    ldap: &mut Ldap,
    base: &str,
    filter: &str,
) -> Result<Result<String, Refusal>, Stop> {
    let scope = match scope {
        LdapScope::Base => Scope::Base,
        LdapScope::One => Scope::OneLevel,
        LdapScope::Subtree => Scope::Subtree,
    };
    let answer = ldap
        .with_search_options(SearchOptions::new().sizelimit(ENTRIES_MAX))
        .search(base, scope, filter, NO_ATTRIBUTES)
        .await;
    let (entries, result) = match answer {
        Ok(answer) => (answer.0, answer.1),
        Err(LdapError::FilterParsing) => return Err(Stop::Filter(filter.to_owned())),
        Err(error) => return Err(unreachable(error)),
    };
    match result.rc {
        code::SUCCESS => {}
        code::SIZE_LIMIT_EXCEEDED => return Ok(Err(Refusal::AmbiguousUser)),
        _ => return Err(refused(&result)),
    }
    let mut names = entries
        .into_iter()
        .map(|entry| SearchEntry::construct(entry).dn);
    match (names.next(), names.next()) {
        (None, _) => Ok(Err(Refusal::UnknownUser)),
        (Some(_), Some(_)) => Ok(Err(Refusal::AmbiguousUser)),
        // A bind without a name would be anonymous, and succeed.
        (Some(name), None) if name.is_empty() => Err(Stop::Final(Failure::Protocol {
            text: "an entry without a name".to_owned(),
        })),
        (Some(name), None) => Ok(Ok(name)),
    }
}

/// Binds as the user; the result decides the login. Neither `name` nor `password` may be empty.
async fn bind_user(ldap: &mut Ldap, name: &str, password: &str) -> Result<Verdict, Stop> {
    let result = ldap
        .simple_bind(name, password)
        .await
        .map_err(unreachable)?;
    let refusal = match result.rc {
        code::SUCCESS => return Ok(Verdict::Accepted),
        code::INVALID_CREDENTIALS | code::INAPPROPRIATE_AUTHENTICATION | code::NO_SUCH_OBJECT => {
            Refusal::WrongPassword
        }
        code::CONSTRAINT_VIOLATION
        | code::INSUFFICIENT_ACCESS_RIGHTS
        | code::UNWILLING_TO_PERFORM => Refusal::Account {
            reason: shortened(&result.text),
        },
        _ => return Err(refused(&result)),
    };
    Ok(Verdict::Refused(refusal))
}

/// Converts a result that neither accepts nor refuses the password.
fn refused(result: &LdapResult) -> Stop {
    let failure = Failure::Code {
        code: result.rc,
        text: shortened(&result.text),
    };
    match result.rc {
        code::BUSY | code::UNAVAILABLE => Stop::Next(failure),
        _ => Stop::Final(failure),
    }
}

/// Converts an error of the connection or the library.
fn unreachable(error: LdapError) -> Stop {
    Stop::Next(match error {
        LdapError::Io { source } => Failure::Connection {
            kind: source.kind(),
            text: source.to_string(),
        },
        LdapError::LdapResult { result } => return refused(&result),
        LdapError::ResultRecv { .. } | LdapError::OpSend { .. } | LdapError::EndOfStream => {
            Failure::Connection {
                kind: io::ErrorKind::UnexpectedEof,
                text: "the server closed the connection".to_owned(),
            }
        }
        other => Failure::Protocol {
            text: other.to_string(),
        },
    })
}

fn shortened(text: &str) -> String {
    // Active Directory ends its messages with a zero byte.
    text.trim_end_matches('\0').chars().take(TEXT_MAX).collect()
}
