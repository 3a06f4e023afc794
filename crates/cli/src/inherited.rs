//! Listening sockets that a service manager opened for this process (socket activation, sd_listen_fds(3)).

use std::io;

use listenfd::ListenFd;
use weir_proxy::Passed;

/// Reason why a passed descriptor cannot be used for listening.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InheritedError {
    #[error("descriptor {index} of the service manager{name} is neither a TCP nor a unix socket")]
    Kind { index: usize, name: String },
    #[error("descriptor {index} of the service manager{name} is not listening")]
    NotListening { index: usize, name: String },
    #[error("descriptor {index} of the service manager{name} cannot be used: {error}")]
    Io {
        index: usize,
        name: String,
        error: io::Error,
    },
}

/// Takes the sockets that the environment announces; empty for most processes. Call this once, before the first
/// thread: it removes the variables, so that no child process uses them.
///
/// # Errors
/// If a passed descriptor cannot be used for listening.
pub(crate) fn take() -> Result<Vec<Passed>, InheritedError> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<&str> = names.split(':').collect();
    let mut passed = ListenFd::from_env();
    (0..passed.len())
        .map(|index| {
            let name = names.get(index).filter(|name| !name.is_empty());
            let name = name.map_or_else(String::new, |name| format!(" ({name})"));
            one(&mut passed, index, name)
        })
        .collect()
}

fn one(passed: &mut ListenFd, index: usize, name: String) -> Result<Passed, InheritedError> {
    let found = match passed.take_tcp_listener(index) {
        Ok(Some(listener)) => Passed::from(listener),
        Ok(None) | Err(_) => match passed.take_unix_listener(index) {
            Ok(Some(listener)) => Passed::from(listener),
            Ok(None) | Err(_) => return Err(InheritedError::Kind { index, name }),
        },
    };
    match found.is_listening() {
        Ok(true) => Ok(found),
        Ok(false) => Err(InheritedError::NotListening { index, name }),
        Err(error) => Err(InheritedError::Io { index, name, error }),
    }
}
