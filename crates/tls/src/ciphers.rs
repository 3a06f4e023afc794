//! `*_tls_ciphers` and `*_tls13_ciphers`: the cipher suites on offer, in order of preference.
//!
//! The first option takes OpenSSL's cipher lists and applies to TLS 1.2 only, the second lists suites of TLS 1.3; both
//! as in PgBouncer. Weir has the six suites of TLS 1.2 with forward secrecy and authenticated encryption, and the three
//! common ones of TLS 1.3.
//!
//! An unknown name is a mistake and refused. A name that OpenSSL has and Weir has not is left out with a warning if
//! others remain, because a list made for OpenSSL has many such names.
//!
//! The default order, also within words such as `HIGH`, is AES-128-GCM, AES-256-GCM, ChaCha20-Poly1305, whatever
//! OpenSSL's is. 128 bits cannot be searched, and four rounds less cost less for each byte on both connections.
//! Processors that run databases have instructions for AES; ChaCha20 is for those without. To get another order, name
//! the suites.

use rustls::SupportedCipherSuite;

use crate::ciphers::table::Suite;

mod list;
mod table;

/// Cipher suites for one version of TLS.
#[derive(Debug, Clone)]
pub struct Suites {
    suites: Vec<SupportedCipherSuite>,
    /// Names asked for that OpenSSL has and Weir has not.
    pub(crate) left_out: Vec<String>,
}

/// Reason for which a list of cipher suites is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CipherError {
    /// An unknown name.
    #[error("unknown cipher \"{name}\"; supported are {supported}", supported = table::names(*tls13))]
    Unknown {
        /// The name as written.
        name: String,
        /// True if the list is one for TLS 1.3.
        tls13: bool,
    },
    /// Only names that OpenSSL has and Weir has not.
    #[error(
        "cipher \"{name}\" is known, but not supported because {reason}; supported are {supported}",
        supported = table::names(*tls13)
    )]
    Unsupported {
        /// The first such name as written.
        name: String,
        /// The feature that it lacks.
        reason: &'static str,
        /// True if the list is one for TLS 1.3.
        tls13: bool,
    },
    /// A suite of TLS 1.3 in a list for TLS 1.2, or the reverse.
    #[error("cipher \"{name}\" belongs to {right}")]
    WrongVersion {
        /// The name as written.
        name: String,
        /// The option and version where it belongs.
        right: &'static str,
    },
    /// The list removes all suites that it names.
    #[error("\"{list}\" leaves no cipher; supported are {supported}", supported = table::names(*tls13))]
    Nothing {
        /// The list as written.
        list: String,
        /// True if the list is one for TLS 1.3.
        tls13: bool,
    },
}

impl Suites {
    /// Parses an OpenSSL cipher list for TLS 1.2: names and words joined by colons, commas or spaces; `!`, `-` and `+`
    /// in front, `+` between words, `@STRENGTH`. PgBouncer's words `default`, `secure`, `fast`, `normal`, `compat`,
    /// `legacy`, `insecure` and `all` mean all suites that Weir has, and so does an empty list.
    ///
    /// # Errors
    /// A name is unknown, or no suite that Weir has is left.
    pub fn parse_tls12(list: &str) -> Result<Self, CipherError> {
        list::parse(list)
    }

    /// Parses a list of suites of TLS 1.3, joined by colons, commas or spaces. An empty list means all suites that Weir
    /// has.
    ///
    /// # Errors
    /// A name is unknown, or no suite that Weir has is named.
    pub fn parse_tls13(list: &str) -> Result<Self, CipherError> {
        let mut chosen = Vec::<&Suite>::new();
        let mut left_out = Vec::new();
        for name in words(list) {
            if let Some(suite) = table::suite(name, true) {
                if !chosen.iter().any(|there| there.name == suite.name) {
                    chosen.push(suite);
                }
            } else if table::unsupported(name).is_some() && name.starts_with("TLS_") {
                left_out.push(name.to_owned());
            } else if table::suite(name, false).is_some() || table::unsupported(name).is_some() {
                let right = "TLS 1.2, whose option is the one without 13";
                return Err(CipherError::WrongVersion {
                    name: name.to_owned(),
                    right,
                });
            } else {
                return Err(CipherError::Unknown {
                    name: name.to_owned(),
                    tls13: true,
                });
            }
        }
        Self::finish(list, chosen, left_out, true)
    }

    /// The suites, the most preferred one first.
    pub fn suites(&self) -> &[SupportedCipherSuite] {
        &self.suites
    }

    fn finish(
        list: &str,
        chosen: Vec<&'static Suite>,
        left_out: Vec<String>,
        tls13: bool,
    ) -> Result<Self, CipherError> {
        if words(list).next().is_none() {
            let suites = table::all(tls13).map(|suite| suite.suite).collect();
            return Ok(Self { suites, left_out });
        }
        if !chosen.is_empty() {
            let suites = chosen.iter().map(|suite| suite.suite).collect();
            return Ok(Self { suites, left_out });
        }
        Err(match left_out.into_iter().next() {
            Some(name) => {
                let reason = table::unsupported(&name).unwrap_or("rustls does not implement it");
                CipherError::Unsupported {
                    name,
                    reason,
                    tls13,
                }
            }
            None => CipherError::Nothing {
                list: list.to_owned(),
                tls13,
            },
        })
    }
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',', ' ', ';'])
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests;
