//! `client_tls_ecdhcurve`: the groups for the key exchange, in order of preference.
//!
//! The default is X25519, then P-256, then P-384: the fastest first, all of them safe, and the same as PostgreSQL's own
//! `ssl_groups`. The hybrid with ML-KEM-768 comes last, so it is used only with a peer that has nothing else, or if the
//! option names it first. By default it costs without protecting: it adds 2.3 kB and a second key exchange to each
//! handshake, and no PostgreSQL server offers it, so the same bytes cross the other connection without it.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;

/// Supported names, for error texts.
const SUPPORTED: &str = "auto, prime256v1, secp384r1, X25519, X25519MLKEM768, SecP256r1MLKEM768";

/// Names of groups that OpenSSL knows and Weir has not.
const KNOWN: &[&str] = &[
    "secp521r1",
    "P-521",
    "X448",
    "secp256k1",
    "secp224r1",
    "P-224",
    "brainpoolP256r1",
    "brainpoolP384r1",
    "brainpoolP512r1",
    "brainpoolP256r1tls13",
    "brainpoolP384r1tls13",
    "brainpoolP512r1tls13",
    "ffdhe2048",
    "ffdhe3072",
    "ffdhe4096",
    "ffdhe6144",
    "ffdhe8192",
    "SecP384r1MLKEM1024",
];

/// Groups for the key exchange, at least one.
#[derive(Debug, Clone)]
pub struct Curves {
    groups: Vec<&'static dyn SupportedKxGroup>,
    pub(crate) left_out: Vec<String>,
}

/// Reason for which a list of groups is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CurveError {
    /// An unknown name.
    #[error("unknown curve \"{0}\"; supported are {SUPPORTED}")]
    Unknown(String),
    /// Only groups that OpenSSL has and Weir has not.
    #[error("curve \"{0}\" is not supported; supported are {SUPPORTED}")]
    Unsupported(String),
    /// `none`.
    #[error("\"none\" would leave no key exchange with forward secrecy; supported are {SUPPORTED}")]
    None,
}

impl Curves {
    /// The default of a listener.
    pub fn listener_default() -> Self {
        Self::of(&[
            kx_group::X25519,
            kx_group::SECP256R1,
            kx_group::SECP384R1,
            kx_group::X25519MLKEM768,
        ])
    }

    /// The default towards servers: without the hybrid. Offering it costs 1.2 kB in each handshake if its key is sent
    /// along, or else a round trip with a server that prefers it.
    pub fn connector_default() -> Self {
        Self::of(&[kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1])
    }

    /// Parses a list, joined by commas or colons; `auto`, or an empty list, is `default`.
    ///
    /// # Errors
    /// A name is unknown, or the list has no supported one.
    pub fn parse(list: &str, default: Self) -> Result<Self, CurveError> {
        let mut curves = Self::of(&[]);
        for name in list
            .split([',', ':'])
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            if name.eq_ignore_ascii_case("auto") {
                default.groups.iter().for_each(|group| curves.add(*group));
            } else if name.eq_ignore_ascii_case("none") {
                return Err(CurveError::None);
            } else if let Some(group) = supported(name) {
                curves.add(group);
            } else if KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                curves.left_out.push(name.to_owned());
            } else {
                return Err(CurveError::Unknown(name.to_owned()));
            }
        }
        match curves.left_out.first() {
            _ if !curves.groups.is_empty() => Ok(curves),
            Some(name) => Err(CurveError::Unsupported(name.clone())),
            None => Ok(default),
        }
    }

    /// The groups, the most preferred one first.
    pub fn groups(&self) -> &[&'static dyn SupportedKxGroup] {
        &self.groups
    }

    fn of(groups: &[&'static dyn SupportedKxGroup]) -> Self {
        Self {
            groups: groups.to_vec(),
            left_out: Vec::new(),
        }
    }

    fn add(&mut self, group: &'static dyn SupportedKxGroup) {
        if !self.groups.iter().any(|there| there.name() == group.name()) {
            self.groups.push(group);
        }
    }
}

fn supported(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    Some(match name.to_ascii_lowercase().as_str() {
        "x25519" => kx_group::X25519,
        "prime256v1" | "secp256r1" | "p-256" => kx_group::SECP256R1,
        "secp384r1" | "p-384" => kx_group::SECP384R1,
        "x25519mlkem768" => kx_group::X25519MLKEM768,
        "secp256r1mlkem768" => kx_group::SECP256R1MLKEM768,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: &str) {
        let read = match Curves::parse(list, Curves::listener_default()) {
            Ok(curves) => {
                let names = curves
                    .groups
                    .iter()
                    .map(|group| format!("{:?}", group.name()));
                names.collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(read, expected, "{list}");
    }

    #[test]
    fn names_of_openssl_and_of_nist_are_known() {
        check("auto", "X25519 secp256r1 secp384r1 X25519MLKEM768");
        check("", "X25519 secp256r1 secp384r1 X25519MLKEM768");
        check("prime256v1", "secp256r1");
        check("P-256:secp256r1", "secp256r1");
        check("secp384r1, x25519", "secp384r1 X25519");
        check(
            "X25519MLKEM768:auto",
            "X25519MLKEM768 X25519 secp256r1 secp384r1",
        );
        check("SecP256r1MLKEM768", "secp256r1MLKEM768");
        check("secp521r1:prime256v1", "secp256r1");
    }

    #[test]
    fn names_that_leave_nothing_are_refused() {
        check(
            "secp521r1",
            &format!("curve \"secp521r1\" is not supported; supported are {SUPPORTED}"),
        );
        check(
            "p256",
            &format!("unknown curve \"p256\"; supported are {SUPPORTED}"),
        );
        check(
            "none",
            &format!(
                "\"none\" would leave no key exchange with forward secrecy; supported are {SUPPORTED}"
            ),
        );
    }

    #[test]
    fn the_hybrid_is_not_offered_to_servers_by_default() {
        let names = Curves::connector_default();
        assert!(
            names
                .groups()
                .iter()
                .all(|g| g.name() != kx_group::X25519MLKEM768.name())
        );
    }
}
