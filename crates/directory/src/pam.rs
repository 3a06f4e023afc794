//! PAM: one transaction with authentication and account management (PostgreSQL manual 21.13).
//!
//! PAM's calls cannot be interrupted, and many stacks wait about two seconds after a wrong password (`pam_unix`
//! unless it has `nodelay`). The number of threads that call this module therefore limits the logins that wait
//! at once.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use nonstick::AuthnFlags;
use nonstick::Conversation;
use nonstick::ErrorCode;
use nonstick::PamShared;
use nonstick::Transaction;
use nonstick::TransactionBuilder;
use nonstick::conv::Exchange;
use nonstick::items::ItemsMut;
use tracing::debug;
use weir_auth::secret::Secret;

use crate::DirectoryError;
use crate::Refusal;
use crate::Verdict;

/// Asks PAM if `password` belongs to `user` and if the account may be used now.
///
/// `service` names the file in `/etc/pam.d` ([`crate::PAM_SERVICE`] by default). `remote_host` is the client's
/// address, for modules that read `PAM_RHOST`; none for a Unix socket.
///
/// # Errors
/// [`DirectoryError::Pam`] if the service is set up wrongly or its back end is away.
pub fn check_pam(
    service: &str,
    user: &str,
    password: &Secret,
    remote_host: Option<&str>,
) -> Result<Verdict, DirectoryError> {
    if password.is_empty() {
        return Ok(Verdict::Refused(Refusal::EmptyPassword));
    }
    // Both become C strings; the binding would panic at a zero byte.
    if password.expose().contains(&0) {
        return Ok(Verdict::Refused(Refusal::Password));
    }
    if user.is_empty() || user.contains('\0') {
        return Ok(Verdict::Refused(Refusal::UserName));
    }
    if service.is_empty() || service.contains(['\0', '/']) {
        return Err(failed(service, "not a service name".to_owned()));
    }
    let conversation = Answers {
        password: password.clone(),
    };
    match transact(service, user, conversation, remote_host) {
        Ok(()) => Ok(Verdict::Accepted),
        Err((stage, code)) => judge(service, stage, code),
    }
}

/// Step of the PAM transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Is the password right?
    Authentication,
    /// May the account be used, now and from there?
    Account,
}

/// Makes the PAM calls, in their order.
fn transact(
    service: &str,
    user: &str,
    conversation: Answers,
    remote_host: Option<&str>,
) -> Result<(), (Stage, ErrorCode)> {
    let unproven = |code| (Stage::Authentication, code);
    let builder = TransactionBuilder::new_with_service(service).username(user);
    let mut transaction = builder.build(conversation).map_err(unproven)?;
    if let Some(host) = remote_host.filter(|host| !host.contains('\0')) {
        let host = Some(OsStr::new(host));
        transaction
            .items_mut()
            .set_remote_host(host)
            .map_err(unproven)?;
    }
    transaction
        .authenticate(AuthnFlags::empty())
        .map_err(unproven)?;
    let allowed = transaction.account_management(AuthnFlags::empty());
    allowed.map_err(|code| (Stage::Account, code))
}

/// Separates faults of the user from faults of the administrator.
fn judge(service: &str, stage: Stage, code: ErrorCode) -> Result<Verdict, DirectoryError> {
    let refusal = match code {
        ErrorCode::UserUnknown => Refusal::UnknownUser,
        // Modules return this for a wrong password, `pam_deny` for every request.
        ErrorCode::AuthenticationError | ErrorCode::MaxTries if stage == Stage::Authentication => {
            Refusal::WrongPassword
        }
        ErrorCode::AccountExpired
        | ErrorCode::AuthTokExpired
        | ErrorCode::AuthenticationError
        | ErrorCode::CredentialsExpired
        | ErrorCode::MaxTries
        | ErrorCode::NewAuthTokRequired
        | ErrorCode::PermissionDenied => Refusal::Account {
            reason: code.to_string(),
        },
        _ => return Err(failed(service, code.to_string())),
    };
    Ok(Verdict::Refused(refusal))
}

fn failed(service: &str, reason: String) -> DirectoryError {
    DirectoryError::Pam {
        service: service.to_owned(),
        reason,
    }
}

/// Answers a module's prompts: the password for every prompt without echo, as PostgreSQL does. Other prompts
/// get no answer, because no user is present.
struct Answers {
    password: Secret,
}

impl Conversation for Answers {
    fn communicate(&self, messages: &[Exchange<'_>]) {
        // Called from C: this code must not panic.
        for message in messages {
            match message {
                Exchange::MaskedPrompt(prompt) => {
                    let password: OsString = OsStr::from_bytes(self.password.expose()).to_owned();
                    prompt.set_answer(Ok(password));
                }
                Exchange::Info(info) => {
                    debug!(text = ?info.question(), "PAM message");
                    info.set_answer(Ok(()));
                }
                Exchange::Error(error) => {
                    debug!(text = ?error.question(), "PAM error message");
                    error.set_answer(Ok(()));
                }
                other => {
                    debug!("PAM asks for something other than a password");
                    other.set_error(ErrorCode::ConversationError);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_fit_a_c_string_is_never_sent() {
        let ask = |service, user, password: &[u8]| {
            check_pam(service, user, &Secret::new(password.to_vec()), None)
        };
        let refused = |refusal| Ok(Verdict::Refused(refusal));
        assert_eq!(ask("pgbouncer", "a", b""), refused(Refusal::EmptyPassword));
        assert_eq!(ask("pgbouncer", "a", b"x\0"), refused(Refusal::Password));
        assert_eq!(ask("pgbouncer", "", b"x"), refused(Refusal::UserName));
        assert_eq!(ask("pgbouncer", "a\0", b"x"), refused(Refusal::UserName));
        for service in ["", "a/b", "a\0"] {
            let told = ask(service, "a", b"x");
            assert!(matches!(told, Err(DirectoryError::Pam { .. })), "{told:?}");
        }
    }
}
