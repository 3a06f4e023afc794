//! `client_tls_protocols` and `server_tls_protocols`: the enabled versions of TLS.
//!
//! The words and the grammar are PgBouncer's: names joined by commas or colons, case ignored. A `!` in front removes a
//! version (from all versions, if it comes first).

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

/// Accepted words, for error texts.
const WORDS: &str = "secure, all, legacy, tlsv1.2, tlsv1.3";

/// Enabled versions of TLS; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    tls12: bool,
    tls13: bool,
    /// True if TLS 1.0 or 1.1 were asked for, too; they are not supported.
    pub(crate) asked_for_older: bool,
}

/// Reason for which a list of protocols is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// An unknown word.
    #[error("unknown protocol \"{0}\"; supported are {WORDS}")]
    Unknown(String),
    /// Only TLS 1.0 or 1.1 were asked for.
    #[error(
        "TLS 1.0 and 1.1 are broken and not supported; use tlsv1.2, tlsv1.3 or secure for both"
    )]
    OnlyOlder,
    /// The list removes all versions that it names.
    #[error("no protocol is left; supported are {WORDS}")]
    Nothing,
}

impl Protocols {
    /// TLS 1.2 and 1.3: the meaning of `secure`, and the default.
    pub const SECURE: Self = Self {
        tls12: true,
        tls13: true,
        asked_for_older: false,
    };

    /// Parses a list. An empty one means [`Protocols::SECURE`].
    ///
    /// # Errors
    /// A word is unknown, or no supported version is left.
    pub fn parse(list: &str) -> Result<Self, ProtocolError> {
        let mut set = Versions::NONE;
        let mut first = true;
        for word in list
            .split([',', ':'])
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            let (negated, name) = match word.strip_prefix('!') {
                Some(name) => (true, name.trim()),
                None => (false, word),
            };
            let named = Versions::named(name)?;
            if negated && first {
                set = Versions::ALL;
            }
            set = if negated {
                set.without(named)
            } else {
                set.with(named)
            };
            first = false;
        }
        if first {
            return Ok(Self::SECURE);
        }
        match set {
            Versions {
                older: true,
                tls12: false,
                tls13: false,
            } => Err(ProtocolError::OnlyOlder),
            Versions {
                tls12: false,
                tls13: false,
                ..
            } => Err(ProtocolError::Nothing),
            Versions {
                older,
                tls12,
                tls13,
            } => Ok(Self {
                tls12,
                tls13,
                asked_for_older: older,
            }),
        }
    }

    /// True if TLS 1.2 is enabled.
    pub fn has_tls12(self) -> bool {
        self.tls12
    }

    /// True if TLS 1.3 is enabled.
    pub fn has_tls13(self) -> bool {
        self.tls13
    }

    /// Describes the versions for messages.
    pub(crate) fn name(self) -> &'static str {
        match (self.tls12, self.tls13) {
            (true, true) => "TLS 1.2 and 1.3",
            (true, false) => "TLS 1.2",
            _ => "TLS 1.3",
        }
    }

    pub(crate) fn versions(self) -> Vec<&'static SupportedProtocolVersion> {
        let newer = self.tls13.then_some(&TLS13);
        newer
            .into_iter()
            .chain(self.tls12.then_some(&TLS12))
            .collect()
    }
}

#[derive(Clone, Copy)]
struct Versions {
    older: bool,
    tls12: bool,
    tls13: bool,
}

impl Versions {
    const NONE: Self = Self {
        older: false,
        tls12: false,
        tls13: false,
    };
    const ALL: Self = Self {
        older: true,
        tls12: true,
        tls13: true,
    };

    fn named(name: &str) -> Result<Self, ProtocolError> {
        Ok(match name.to_ascii_lowercase().as_str() {
            // PgBouncer reads a bare tlsv1 as all versions of TLS 1.
            "all" | "legacy" | "tlsv1" => Self::ALL,
            "secure" | "default" => Self {
                older: false,
                ..Self::ALL
            },
            "tlsv1.0" | "tlsv1.1" => Self {
                older: true,
                ..Self::NONE
            },
            "tlsv1.2" => Self {
                tls12: true,
                ..Self::NONE
            },
            "tlsv1.3" => Self {
                tls13: true,
                ..Self::NONE
            },
            _ => return Err(ProtocolError::Unknown(name.to_owned())),
        })
    }

    fn with(self, other: Self) -> Self {
        Self {
            older: self.older || other.older,
            tls12: self.tls12 || other.tls12,
            tls13: self.tls13 || other.tls13,
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            older: self.older && !other.older,
            tls12: self.tls12 && !other.tls12,
            tls13: self.tls13 && !other.tls13,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: &str) {
        let read = match Protocols::parse(list) {
            Ok(protocols) => {
                let older = if protocols.asked_for_older {
                    " (older)"
                } else {
                    ""
                };
                format!("{}{older}", protocols.name())
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(read, expected, "{list}");
    }

    #[test]
    fn words_and_lists_mean_what_they_mean_to_pgbouncer() {
        check("", "TLS 1.2 and 1.3");
        check("secure", "TLS 1.2 and 1.3");
        check("default", "TLS 1.2 and 1.3");
        check("SECURE", "TLS 1.2 and 1.3");
        check("tlsv1.2", "TLS 1.2");
        check("tlsv1.3", "TLS 1.3");
        check("tlsv1.2,tlsv1.3", "TLS 1.2 and 1.3");
        check("tlsv1.2 : tlsv1.3", "TLS 1.2 and 1.3");
        check("secure,!tlsv1.2", "TLS 1.3");
        check("!tlsv1.0,!tlsv1.1", "TLS 1.2 and 1.3");
        check("!tlsv1.3", "TLS 1.2 (older)");
    }

    #[test]
    fn old_versions_beside_new_ones_are_left_out_and_remembered() {
        check("all", "TLS 1.2 and 1.3 (older)");
        check("legacy", "TLS 1.2 and 1.3 (older)");
        check("tlsv1", "TLS 1.2 and 1.3 (older)");
        check("tlsv1.1,tlsv1.2", "TLS 1.2 (older)");
    }

    #[test]
    fn lists_that_leave_nothing_are_refused() {
        let older =
            "TLS 1.0 and 1.1 are broken and not supported; use tlsv1.2, tlsv1.3 or secure for both";
        check("tlsv1.0", older);
        check("tlsv1.0,tlsv1.1", older);
        check("all,!secure", older);
        let nothing = "no protocol is left; supported are secure, all, legacy, tlsv1.2, tlsv1.3";
        check("tlsv1.2,!tlsv1.2", nothing);
        check(
            "sslv3",
            "unknown protocol \"sslv3\"; supported are secure, all, legacy, tlsv1.2, tlsv1.3",
        );
    }
}
