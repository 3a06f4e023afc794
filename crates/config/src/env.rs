//! Options from the environment: `WEIR_` and the option's name in upper case.

use crate::error::ErrorKind;
use crate::expand::Variables;
use crate::options::{Scope, nearest};
use crate::raw::{Origin, Raw, error_at, quoted};
use crate::value::Dialect;

const PREFIX: &str = "WEIR_";
/// Names that belong to the command line, the bench and the tests, not to the configuration.
pub(crate) const RESERVED: &[&str] = &[
    "WEIR_BENCH_BIN_DIR",
    "WEIR_BIN",
    "WEIR_CONFIG",
    "WEIR_KEEP",
    "WEIR_LOG",
    "WEIR_UPSTREAM",
];
/// Prefix of names that the project's tests use for themselves.
const RESERVED_PREFIX: &str = "WEIR_TEST_";

/// Applies every option that the environment names. The environment wins over the file.
pub(crate) fn apply(raw: &mut Raw, variables: &Variables) {
    let ours = variables
        .iter()
        .filter(|(name, _)| name.starts_with(PREFIX));
    for (name, text) in ours {
        let rest = name.strip_prefix(PREFIX).unwrap_or_default();
        let key = rest.to_ascii_lowercase();
        let at = Origin::Environment(name.clone());
        match Scope::Global.find(&key) {
            Some(opt) if key.to_ascii_uppercase() == rest => {
                let mut global = std::mem::take(&mut raw.global);
                raw.parse_into(&mut global, opt, text.trim(), Dialect::Native, &at);
                raw.global = global;
            }
            _ if raw.used_variables.contains(name) => {}
            _ if is_reserved(name) || is_service_link(rest, text) => {}
            _ => unknown(raw, name, &key, &at),
        }
    }
}

fn unknown(raw: &mut Raw, name: &str, key: &str, at: &Origin) {
    let mut error = error_at(at, ErrorKind::UnknownKey, String::new());
    error.message = format!("unknown variable {}", quoted(name));
    error.key = Some(name.to_owned());
    error.suggestion = Scope::Global
        .nearest(key)
        .map(|near| format!("{PREFIX}{}", near.to_ascii_uppercase()))
        .or_else(|| nearest(name, RESERVED.iter().copied()).map(str::to_owned));
    raw.fail(error);
}

fn is_reserved(name: &str) -> bool {
    const OF_TEST_BUILDS: [&str; 2] = ["WEIR_DEBUG_SPIN_US", "WEIR_DEBUG_RING_TROUBLE"];
    let is_of_test_build = cfg!(feature = "debug-spin") && OF_TEST_BUILDS.contains(&name);
    is_of_test_build || RESERVED.contains(&name) || name.starts_with(RESERVED_PREFIX)
}

/// True for variables that Kubernetes sets in every pod for each service of its name space. A service for this program
/// is likely to be called "weir" or "weir-something" (Kubernetes manual, "Discovering services").
fn is_service_link(rest: &str, value: &str) -> bool {
    let padded = format!("_{rest}");
    let is_url = value.starts_with("tcp://") || value.starts_with("udp://");
    padded.ends_with("_SERVICE_HOST")
        || padded.ends_with("_SERVICE_PORT")
        || padded.contains("_SERVICE_PORT_")
        || (padded.ends_with("_PORT") && is_url)
        || padded.split_once("_PORT_").is_some_and(|(_, port)| {
            let digits = port.trim_start_matches(|c: char| c.is_ascii_digit());
            digits.len() < port.len() && (digits.starts_with("_TCP") || digits.starts_with("_UDP"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_test_build_takes_the_variable_that_slows_it() {
        let is_taken = is_reserved("WEIR_DEBUG_SPIN_US");
        assert_eq!(is_taken, cfg!(feature = "debug-spin"));
        assert!(is_reserved("WEIR_BIN"));
    }
}
