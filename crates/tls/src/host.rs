//! Check that a server's certificate is for the configured host: `verify-full`.
//!
//! The rule is that of libpq and PgBouncer. Alternative names of type DNS and IP decide. Only if there are none, the
//! common name decides, because certificates made by hand often have nothing else. A wildcard stands for one whole
//! label on the left: `*.example.com` matches `db.example.com`, but neither `example.com` nor `a.db.example.com`;
//! `d*.example.com` matches nothing.

use std::net::IpAddr;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, Error};
use webpki::EndEntityCert;

use crate::certificate;
use crate::chain::failure::to_rustls;
use crate::names::Identity;

/// Verifies that the certificate is for `host`. Does not check the signature.
pub(crate) fn verify(leaf: &CertificateDer<'_>, host: &ServerName<'_>) -> Result<(), Error> {
    let decoded = certificate::decode(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let identity = Identity::from_decoded(&decoded).map_err(|_| CertificateError::BadEncoding)?;
    if identity.has_host_names {
        let leaf = EndEntityCert::try_from(leaf).map_err(to_rustls)?;
        return leaf
            .verify_is_valid_for_subject_name(host)
            .map_err(to_rustls);
    }
    match &identity.common_name {
        Some(name) if common_name_matches(name, host) => Ok(()),
        name => Err(CertificateError::NotValidForNameContext {
            expected: host.to_owned(),
            presented: name.iter().map(|name| format!("CN={name}")).collect(),
        }
        .into()),
    }
}

fn common_name_matches(name: &str, host: &ServerName<'_>) -> bool {
    match host {
        // An address matches only the same address, never a wildcard.
        ServerName::IpAddress(address) => name.parse() == Ok(IpAddr::from(*address)),
        ServerName::DnsName(host) => {
            let host = host.as_ref();
            dns_name_matches(name, host.strip_suffix('.').unwrap_or(host))
        }
        _ => false,
    }
}

fn dns_name_matches(pattern: &str, host: &str) -> bool {
    let Some(domain) = pattern.strip_prefix("*.") else {
        return !pattern.contains('*') && pattern.eq_ignore_ascii_case(host);
    };
    let Some((label, rest)) = host.split_once('.') else {
        return false;
    };
    // A name such as "*.com" would match a whole top-level domain.
    !label.is_empty()
        && domain.contains('.')
        && !domain.contains('*')
        && domain.eq_ignore_ascii_case(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, host: &str, expected: bool) {
        let server = ServerName::try_from(host.to_owned()).unwrap();
        assert_eq!(
            common_name_matches(name, &server),
            expected,
            "{name} for {host}"
        );
    }

    #[test]
    fn common_names_match_hosts_as_in_libpq() {
        check("db.example.com", "db.example.com", true);
        check("DB.example.com", "db.EXAMPLE.com", true);
        check("db.example.com", "db.example.com.", true);
        check("db.example.com", "xdb.example.com", false);
        check("db.example.com", "example.com", false);
        check("example.com", "db.example.com", false);
        check("10.0.0.1", "10.0.0.1", true);
        check("10.0.0.10", "10.0.0.1", false);
        check("2001:DB8::1", "2001:db8:0::1", true);
    }

    #[test]
    fn wildcards_stand_for_one_whole_label() {
        check("*.example.com", "db.example.com", true);
        check("*.EXAMPLE.com", "db.example.com", true);
        check("*.example.com", "a.db.example.com", false);
        check("*.example.com", "example.com", false);
        check("d*.example.com", "db.example.com", false);
        check("*b.example.com", "db.example.com", false);
        check("db.*.com", "db.example.com", false);
        check("*.*.com", "db.example.com", false);
        check("*.com", "example.com", false);
        check("*", "localhost", false);
        check("*.0.0.1", "10.0.0.1", false);
    }
}
