//! Failures of probes: their kinds, by what the operating system or the server says, and their words for the log.

use std::io::{self, ErrorKind};
use std::time::Duration;

use weir_session::login::LoginFault;
use weir_tls::session::TlsFault;
use weir_watch::{Failure, FailureKind};
use weir_wire::backend::ErrorFields;

/// Longest text of a server that is kept, in characters.
const TEXT_MAX: usize = 300;

fn failure(kind: FailureKind, text: &str) -> Failure {
    Failure {
        kind,
        text: text.into(),
    }
}

/// Returns the failure of an attempt to connect.
///
/// Only a refusal is an answer of the host. An unreachable network is as silent as a host that is off, and a shortage of
/// our own tells nothing about the host: both count like an answer that does not come.
pub(super) fn of_connect(error: &io::Error) -> Failure {
    let kind = match error.kind() {
        // A unix socket that is not there: no server has it open.
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => FailureKind::Refused,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => FailureKind::Reset,
        _ => FailureKind::Timeout,
    };
    failure(kind, &format!("connect failed: {error}"))
}

/// Returns the failure for a connection that the host has closed, or that broke.
pub(super) fn of_end(error: Option<&io::Error>) -> Failure {
    match error {
        None => failure(FailureKind::Reset, "the host closed the connection"),
        Some(error) => failure(FailureKind::Reset, &format!("connection lost: {error}")),
    }
}

/// Returns the failure for a host that does not finish a step in time.
pub(super) fn of_silence(step: &str, limit: Duration) -> Failure {
    let limit = limit.as_millis();
    failure(
        FailureKind::Timeout,
        &format!("no end of the {step} within {limit} ms"),
    )
}

/// Returns the failure for something that Weir itself lacks. The host gets the benefit of the doubt.
pub(super) fn of_shortage(text: &str) -> Failure {
    failure(FailureKind::Timeout, text)
}

/// Returns the failure of a handshake. Certificates and versions do not heal by themselves, as wrong passwords do not.
pub(super) fn of_handshake(fault: &TlsFault) -> Failure {
    failure(
        FailureKind::Login,
        &format!("TLS handshake failed: {fault}"),
    )
}

/// Returns the failure for protection that the settings demand and the connection cannot have.
pub(super) fn of_protection(text: &str) -> Failure {
    failure(FailureKind::Login, text)
}

/// Returns the failure for bytes that are not what PostgreSQL sends.
pub(super) fn of_nonsense(text: &str) -> Failure {
    failure(FailureKind::BadAnswer, text)
}

/// Returns the failure of a login.
pub(super) fn of_login(fault: &LoginFault) -> Failure {
    match fault {
        LoginFault::Refused(body) => {
            let (words, code) = words_of(body);
            failure(last_words(&code).unwrap_or(FailureKind::Login), &words)
        }
        LoginFault::Frame(_)
        | LoginFault::Malformed(_)
        | LoginFault::OutOfPlace(_)
        | LoginFault::TooManyReported(_)
        | LoginFault::Incomplete => of_nonsense(&format!("login failed: {fault}")),
        _ => failure(FailureKind::Login, &format!("login failed: {fault}")),
    }
}

/// Returns the failure for an error that the server sends after the login.
pub(super) fn of_error(body: &[u8]) -> Failure {
    let (words, code) = words_of(body);
    let is_last = ErrorFields::parse(body)
        .ok()
        .and_then(|fields| fields.severity())
        .is_some_and(|severity| matches!(severity, b"FATAL" | b"PANIC"));
    let kind = last_words(&code).filter(|_| is_last);
    failure(kind.unwrap_or(FailureKind::BadAnswer), &words)
}

/// Returns the kind of a FATAL error that says more about the host than about the session.
fn last_words(code: &[u8]) -> Option<FailureKind> {
    match code {
        // Cannot connect now: the host starts or stops.
        b"57P03" => Some(FailureKind::Busy),
        // Too many connections.
        b"53300" => Some(FailureKind::Full),
        // Shutdown by the administrator, shutdown after a crash: the session ends like one that is reset.
        b"57P01" | b"57P02" => Some(FailureKind::Reset),
        _ => None,
    }
}

/// Returns a server's error as `FATAL: text (57P03)`, on one line, and its code.
fn words_of(body: &[u8]) -> (String, Vec<u8>) {
    let Ok(fields) = ErrorFields::parse(body) else {
        return ("the server sent a malformed error".to_owned(), Vec::new());
    };
    let text = |bytes: Option<&[u8]>| {
        let text = String::from_utf8_lossy(bytes.unwrap_or_default());
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        plain.take(TEXT_MAX).collect::<String>()
    };
    let code = fields.get(b'C').unwrap_or_default();
    let words = format!(
        "{}: {} ({})",
        text(fields.severity()),
        text(fields.message()),
        text(Some(code))
    );
    (words, code.to_vec())
}

#[cfg(test)]
mod tests {
    use weir_wire::encode;

    use super::*;

    fn body(severity: &str, code: &str, message: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let fields = [
            (b'S', severity.as_bytes()),
            (b'V', severity.as_bytes()),
            (b'C', code.as_bytes()),
            (b'M', message.as_bytes()),
        ];
        encode::error_response(&mut out, &fields).unwrap();
        out.split_off(5)
    }

    #[test]
    fn only_a_refusal_or_a_reset_is_an_answer_of_the_host() {
        for (kind, expected) in [
            (ErrorKind::ConnectionRefused, FailureKind::Refused),
            (ErrorKind::NotFound, FailureKind::Refused),
            (ErrorKind::ConnectionReset, FailureKind::Reset),
            (ErrorKind::HostUnreachable, FailureKind::Timeout),
            (ErrorKind::NetworkUnreachable, FailureKind::Timeout),
            (ErrorKind::TimedOut, FailureKind::Timeout),
        ] {
            assert_eq!(of_connect(&kind.into()).kind, expected, "{kind:?}");
        }
        let no_descriptors = io::Error::from_raw_os_error(24);
        assert_eq!(of_connect(&no_descriptors).kind, FailureKind::Timeout);
    }

    #[test]
    fn a_refused_login_is_no_fault_of_the_login_only_if_the_host_says_so() {
        for (code, expected) in [
            ("57P03", FailureKind::Busy),
            ("53300", FailureKind::Full),
            ("57P01", FailureKind::Reset),
            ("57P02", FailureKind::Reset),
            ("28P01", FailureKind::Login),
            ("3D000", FailureKind::Login),
        ] {
            let refused = LoginFault::Refused(body("FATAL", code, "no").into());
            let failure = of_login(&refused);
            assert_eq!(failure.kind, expected, "{code}");
            assert_eq!(&*failure.text, format!("FATAL: no ({code})"));
        }
        assert_eq!(
            of_login(&LoginFault::OutOfPlace(b'Q')).kind,
            FailureKind::BadAnswer
        );
        assert_eq!(
            of_login(&LoginFault::NoSecret("x")).kind,
            FailureKind::Login
        );
    }

    #[test]
    fn an_error_of_the_probe_is_a_bad_answer_unless_the_session_ends_with_it() {
        for (severity, code, expected) in [
            ("ERROR", "42501", FailureKind::BadAnswer),
            ("ERROR", "57P03", FailureKind::BadAnswer),
            ("ERROR", "40001", FailureKind::BadAnswer),
            ("FATAL", "40001", FailureKind::BadAnswer),
            ("FATAL", "57P01", FailureKind::Reset),
            ("PANIC", "57P02", FailureKind::Reset),
            ("FATAL", "57P03", FailureKind::Busy),
        ] {
            let failure = of_error(&body(severity, code, "x"));
            assert_eq!(failure.kind, expected, "{severity} {code}");
        }
        assert_eq!(of_error(b"").kind, FailureKind::BadAnswer);
    }

    #[test]
    fn words_of_a_server_stay_on_one_line_and_within_limits() {
        let long = format!("a\nb\r{}", "x".repeat(10_000));
        let failure = of_error(&body("ERROR", "42501", &long));
        assert!(failure.text.starts_with("ERROR: a b x"), "{}", failure.text);
        assert!(failure.text.len() < 400 && !failure.text.contains('\n'));
    }
}
