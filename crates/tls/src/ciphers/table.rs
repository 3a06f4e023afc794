//! Table of cipher suites: their names, their properties, and the names that OpenSSL has and Weir has not.

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite;

/// A suite that Weir has.
#[derive(Debug)]
pub(super) struct Suite {
    /// OpenSSL's name.
    pub(super) name: &'static str,
    /// IANA's name, which OpenSSL accepts, too.
    pub(super) standard_name: &'static str,
    /// Words of OpenSSL's cipher lists that select it, besides those that select all.
    pub(super) words: &'static [&'static str],
    /// Strength in bits, by which `@STRENGTH` sorts.
    pub(super) bits: u16,
    /// True for TLS 1.3, false for TLS 1.2.
    pub(super) tls13: bool,
    pub(super) suite: SupportedCipherSuite,
}

/// The suites, the most preferred one first: see the head of [`ciphers`](crate::ciphers).
static SUITES: &[Suite] = &[
    Suite {
        name: "TLS_AES_128_GCM_SHA256",
        standard_name: "TLS_AES_128_GCM_SHA256",
        words: &[],
        bits: 128,
        tls13: true,
        suite: cipher_suite::TLS13_AES_128_GCM_SHA256,
    },
    Suite {
        name: "TLS_AES_256_GCM_SHA384",
        standard_name: "TLS_AES_256_GCM_SHA384",
        words: &[],
        bits: 256,
        tls13: true,
        suite: cipher_suite::TLS13_AES_256_GCM_SHA384,
    },
    Suite {
        name: "TLS_CHACHA20_POLY1305_SHA256",
        standard_name: "TLS_CHACHA20_POLY1305_SHA256",
        words: &[],
        bits: 256,
        tls13: true,
        suite: cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    },
    Suite {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        standard_name: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        words: &["AES128", "AES", "AESGCM", "aECDSA", "ECDSA"],
        bits: 128,
        tls13: false,
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    },
    Suite {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        standard_name: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        words: &["AES128", "AES", "AESGCM", "aRSA"],
        bits: 128,
        tls13: false,
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    },
    Suite {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        standard_name: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        words: &["AES256", "AES", "AESGCM", "aECDSA", "ECDSA"],
        bits: 256,
        tls13: false,
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    },
    Suite {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        standard_name: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        words: &["AES256", "AES", "AESGCM", "aRSA"],
        bits: 256,
        tls13: false,
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    },
    Suite {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        standard_name: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        words: &["CHACHA20", "aECDSA", "ECDSA"],
        bits: 256,
        tls13: false,
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    },
    Suite {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        standard_name: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        words: &["CHACHA20", "aRSA"],
        bits: 256,
        tls13: false,
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    },
];

/// Names of suites that OpenSSL or LibreSSL have or had, and the reasons for which Weir has not.
static UNSUPPORTED: &[(&str, &[&str])] = &[
    (
        "it has no forward secrecy",
        &[
            "AES256-GCM-SHA384",
            "AES256-CCM8",
            "AES256-CCM",
            "ARIA256-GCM-SHA384",
            "AES128-GCM-SHA256",
            "AES128-CCM8",
            "AES128-CCM",
            "ARIA128-GCM-SHA256",
            "AES256-SHA256",
            "CAMELLIA256-SHA256",
            "AES128-SHA256",
            "CAMELLIA128-SHA256",
            "AES256-SHA",
            "CAMELLIA256-SHA",
            "AES128-SHA",
            "CAMELLIA128-SHA",
            "DES-CBC3-SHA",
            "DES-CBC-SHA",
            "RC4-SHA",
            "RC4-MD5",
            "SEED-SHA",
            "IDEA-CBC-SHA",
            "ECDH-RSA-AES128-GCM-SHA256",
            "ECDH-RSA-AES256-GCM-SHA384",
            "ECDH-ECDSA-AES128-GCM-SHA256",
            "ECDH-ECDSA-AES256-GCM-SHA384",
            "ECDH-RSA-AES128-SHA",
            "ECDH-RSA-AES256-SHA",
            "ECDH-ECDSA-AES128-SHA",
            "ECDH-ECDSA-AES256-SHA",
            "ECDH-RSA-AES128-SHA256",
            "ECDH-RSA-AES256-SHA384",
            "ECDH-ECDSA-AES128-SHA256",
            "ECDH-ECDSA-AES256-SHA384",
        ],
    ),
    (
        "its encryption is not authenticated",
        &[
            "ECDHE-ECDSA-AES256-SHA384",
            "ECDHE-RSA-AES256-SHA384",
            "ECDHE-ECDSA-CAMELLIA256-SHA384",
            "ECDHE-RSA-CAMELLIA256-SHA384",
            "ECDHE-ECDSA-AES128-SHA256",
            "ECDHE-RSA-AES128-SHA256",
            "ECDHE-ECDSA-CAMELLIA128-SHA256",
            "ECDHE-RSA-CAMELLIA128-SHA256",
            "ECDHE-ECDSA-AES256-SHA",
            "ECDHE-RSA-AES256-SHA",
            "ECDHE-ECDSA-AES128-SHA",
            "ECDHE-RSA-AES128-SHA",
            "ECDHE-RSA-DES-CBC3-SHA",
            "ECDHE-ECDSA-DES-CBC3-SHA",
            "ECDHE-RSA-RC4-SHA",
            "ECDHE-ECDSA-RC4-SHA",
        ],
    ),
    (
        "its key exchange is not on an elliptic curve",
        &[
            "DHE-DSS-AES256-GCM-SHA384",
            "DHE-RSA-AES256-GCM-SHA384",
            "DHE-RSA-CHACHA20-POLY1305",
            "DHE-RSA-AES256-CCM8",
            "DHE-RSA-AES256-CCM",
            "DHE-DSS-ARIA256-GCM-SHA384",
            "DHE-RSA-ARIA256-GCM-SHA384",
            "DHE-DSS-AES128-GCM-SHA256",
            "DHE-RSA-AES128-GCM-SHA256",
            "DHE-RSA-AES128-CCM8",
            "DHE-RSA-AES128-CCM",
            "DHE-DSS-ARIA128-GCM-SHA256",
            "DHE-RSA-ARIA128-GCM-SHA256",
            "DHE-RSA-AES256-SHA256",
            "DHE-DSS-AES256-SHA256",
            "DHE-RSA-CAMELLIA256-SHA256",
            "DHE-DSS-CAMELLIA256-SHA256",
            "DHE-RSA-AES128-SHA256",
            "DHE-DSS-AES128-SHA256",
            "DHE-RSA-CAMELLIA128-SHA256",
            "DHE-DSS-CAMELLIA128-SHA256",
            "DHE-RSA-AES256-SHA",
            "DHE-DSS-AES256-SHA",
            "DHE-RSA-CAMELLIA256-SHA",
            "DHE-DSS-CAMELLIA256-SHA",
            "DHE-RSA-AES128-SHA",
            "DHE-DSS-AES128-SHA",
            "DHE-RSA-CAMELLIA128-SHA",
            "DHE-DSS-CAMELLIA128-SHA",
            "EDH-RSA-DES-CBC3-SHA",
            "EDH-DSS-DES-CBC3-SHA",
            "DHE-RSA-DES-CBC3-SHA",
            "DHE-DSS-DES-CBC3-SHA",
            "EDH-RSA-DES-CBC-SHA",
            "EDH-DSS-DES-CBC-SHA",
            "DHE-RSA-SEED-SHA",
            "DHE-DSS-SEED-SHA",
        ],
    ),
    (
        "it is hardly used",
        &[
            "ECDHE-ECDSA-AES256-CCM8",
            "ECDHE-ECDSA-AES256-CCM",
            "ECDHE-ECDSA-ARIA256-GCM-SHA384",
            "ECDHE-ARIA256-GCM-SHA384",
            "ECDHE-ECDSA-AES128-CCM8",
            "ECDHE-ECDSA-AES128-CCM",
            "ECDHE-ECDSA-ARIA128-GCM-SHA256",
            "ECDHE-ARIA128-GCM-SHA256",
            "TLS_AES_128_CCM_SHA256",
            "TLS_AES_128_CCM_8_SHA256",
            "TLS_SHA256_SHA256",
            "TLS_SHA384_SHA384",
        ],
    ),
    (
        "it does not authenticate the server",
        &[
            "ADH-AES256-GCM-SHA384",
            "ADH-AES128-GCM-SHA256",
            "ADH-AES256-SHA256",
            "ADH-CAMELLIA256-SHA256",
            "ADH-AES128-SHA256",
            "ADH-CAMELLIA128-SHA256",
            "AECDH-AES256-SHA",
            "ADH-AES256-SHA",
            "ADH-CAMELLIA256-SHA",
            "AECDH-AES128-SHA",
            "ADH-AES128-SHA",
            "ADH-CAMELLIA128-SHA",
            "ADH-DES-CBC3-SHA",
            "AECDH-DES-CBC3-SHA",
            "ADH-RC4-MD5",
            "AECDH-RC4-SHA",
            "ADH-SEED-SHA",
        ],
    ),
    (
        "PostgreSQL has no shared secrets for TLS",
        &[
            "RSA-PSK-AES256-GCM-SHA384",
            "DHE-PSK-AES256-GCM-SHA384",
            "RSA-PSK-CHACHA20-POLY1305",
            "DHE-PSK-CHACHA20-POLY1305",
            "ECDHE-PSK-CHACHA20-POLY1305",
            "DHE-PSK-AES256-CCM8",
            "DHE-PSK-AES256-CCM",
            "RSA-PSK-ARIA256-GCM-SHA384",
            "DHE-PSK-ARIA256-GCM-SHA384",
            "PSK-AES256-GCM-SHA384",
            "PSK-CHACHA20-POLY1305",
            "PSK-AES256-CCM8",
            "PSK-AES256-CCM",
            "PSK-ARIA256-GCM-SHA384",
            "RSA-PSK-AES128-GCM-SHA256",
            "DHE-PSK-AES128-GCM-SHA256",
            "DHE-PSK-AES128-CCM8",
            "DHE-PSK-AES128-CCM",
            "RSA-PSK-ARIA128-GCM-SHA256",
            "DHE-PSK-ARIA128-GCM-SHA256",
            "PSK-AES128-GCM-SHA256",
            "PSK-AES128-CCM8",
            "PSK-AES128-CCM",
            "PSK-ARIA128-GCM-SHA256",
            "ECDHE-PSK-AES256-CBC-SHA384",
            "ECDHE-PSK-AES256-CBC-SHA",
            "SRP-DSS-AES-256-CBC-SHA",
            "SRP-RSA-AES-256-CBC-SHA",
            "SRP-AES-256-CBC-SHA",
            "RSA-PSK-AES256-CBC-SHA384",
            "DHE-PSK-AES256-CBC-SHA384",
            "RSA-PSK-AES256-CBC-SHA",
            "DHE-PSK-AES256-CBC-SHA",
            "ECDHE-PSK-CAMELLIA256-SHA384",
            "RSA-PSK-CAMELLIA256-SHA384",
            "DHE-PSK-CAMELLIA256-SHA384",
            "PSK-AES256-CBC-SHA384",
            "PSK-AES256-CBC-SHA",
            "PSK-CAMELLIA256-SHA384",
            "ECDHE-PSK-AES128-CBC-SHA256",
            "ECDHE-PSK-AES128-CBC-SHA",
            "SRP-DSS-AES-128-CBC-SHA",
            "SRP-RSA-AES-128-CBC-SHA",
            "SRP-AES-128-CBC-SHA",
            "RSA-PSK-AES128-CBC-SHA256",
            "DHE-PSK-AES128-CBC-SHA256",
            "RSA-PSK-AES128-CBC-SHA",
            "DHE-PSK-AES128-CBC-SHA",
            "ECDHE-PSK-CAMELLIA128-SHA256",
            "RSA-PSK-CAMELLIA128-SHA256",
            "DHE-PSK-CAMELLIA128-SHA256",
            "PSK-AES128-CBC-SHA256",
            "PSK-AES128-CBC-SHA",
            "PSK-CAMELLIA128-SHA256",
            "PSK-3DES-EDE-CBC-SHA",
            "PSK-RC4-SHA",
        ],
    ),
    (
        "it does not encrypt",
        &[
            "ECDHE-ECDSA-NULL-SHA",
            "ECDHE-RSA-NULL-SHA",
            "AECDH-NULL-SHA",
            "NULL-SHA256",
            "ECDHE-PSK-NULL-SHA384",
            "ECDHE-PSK-NULL-SHA256",
            "ECDHE-PSK-NULL-SHA",
            "RSA-PSK-NULL-SHA384",
            "RSA-PSK-NULL-SHA256",
            "DHE-PSK-NULL-SHA384",
            "DHE-PSK-NULL-SHA256",
            "RSA-PSK-NULL-SHA",
            "DHE-PSK-NULL-SHA",
            "NULL-SHA",
            "NULL-MD5",
            "PSK-NULL-SHA384",
            "PSK-NULL-SHA256",
            "PSK-NULL-SHA",
        ],
    ),
];

/// Words of OpenSSL's cipher lists, and of PgBouncer's, that select all suites of TLS 1.2 here.
static WORDS_FOR_ALL: &[&str] = &[
    "default", "secure", "fast", "normal", "compat", "legacy", "insecure", "all", "DEFAULT", "ALL",
    "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2", "AEAD", "FIPS",
];

/// Words of OpenSSL's cipher lists that select suites, but none that Weir has. `RSA` is among them, because it means
/// the key exchange. `SHA256` and `SHA384` are, too: they mean the integrity check, which authenticated encryption does
/// by itself.
static WORDS_FOR_NONE: &[&str] = &[
    "MEDIUM",
    "LOW",
    "EXP",
    "EXPORT",
    "EXPORT40",
    "EXPORT56",
    "EXPORT1024",
    "COMPLEMENTOFALL",
    "COMPLEMENTOFDEFAULT",
    "eNULL",
    "NULL",
    "aNULL",
    "kRSA",
    "RSA",
    "kDHr",
    "kDHd",
    "kDH",
    "kDHE",
    "kEDH",
    "DHE",
    "EDH",
    "DH",
    "ADH",
    "AECDH",
    "ECDH",
    "kECDH",
    "kECDHr",
    "kECDHe",
    "aDSS",
    "DSS",
    "aDH",
    "aECDH",
    "TLSv1",
    "TLSv1.0",
    "TLSv1.1",
    "SSLv2",
    "SSLv3",
    "AESCCM",
    "AESCCM8",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "CBC",
    "3DES",
    "DES",
    "RC4",
    "RC2",
    "IDEA",
    "SEED",
    "MD5",
    "SHA1",
    "SHA",
    "SHA256",
    "SHA384",
    "aGOST",
    "aGOST01",
    "aGOST12",
    "kGOST",
    "kGOST18",
    "GOST94",
    "GOST89MAC",
    "GOST",
    "PSK",
    "kPSK",
    "aPSK",
    "kECDHEPSK",
    "kDHEPSK",
    "kRSAPSK",
    "SRP",
    "kSRP",
    "aSRP",
    "aKRB5",
    "kKRB5",
    "KRB5",
    "SUITEB128",
    "SUITEB128ONLY",
    "SUITEB192",
    "STREEBOG256",
    "STREEBOG512",
];

/// Returns the suites of one version.
pub(super) fn all(tls13: bool) -> impl Iterator<Item = &'static Suite> {
    SUITES.iter().filter(move |suite| suite.tls13 == tls13)
}

/// Returns the names of the suites of one version, for error texts.
pub(super) fn names(tls13: bool) -> String {
    all(tls13)
        .map(|suite| suite.name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the suite of this name, in upper case as OpenSSL requires.
pub(super) fn suite(name: &str, tls13: bool) -> Option<&'static Suite> {
    all(tls13).find(|suite| suite.name == name || suite.standard_name == name)
}

/// Returns the reason for which a suite of OpenSSL is not supported; `None` if it is supported or unknown.
pub(super) fn unsupported(name: &str) -> Option<&'static str> {
    UNSUPPORTED
        .iter()
        .find(|(_, names)| names.contains(&name))
        .map(|(reason, _)| *reason)
}

/// True if the word or name selects this suite of TLS 1.2; `None` if the word is unknown.
pub(super) fn selects(word: &str, suite: &Suite) -> Option<bool> {
    if suite.name == word || suite.standard_name == word || suite.words.contains(&word) {
        return Some(true);
    }
    if WORDS_FOR_ALL.contains(&word) {
        return Some(true);
    }
    let known = WORDS_FOR_NONE.contains(&word)
        || unsupported(word).is_some()
        || all(false).any(|other| {
            other.name == word || other.standard_name == word || other.words.contains(&word)
        });
    known.then_some(false)
}

/// Returns all unsupported names, for tests.
#[cfg(test)]
pub(super) fn unsupported_names() -> impl Iterator<Item = &'static str> {
    UNSUPPORTED
        .iter()
        .flat_map(|(_, names)| names.iter().copied())
}
