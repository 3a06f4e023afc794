//! Builds a [`Chain`] from CA files and revocation lists.

use std::path::Path;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use webpki::OwnedCertRevocationList;
use x509_cert::crl::CertificateList;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage};
use x509_cert::{TbsCertificate, Version};

use crate::certificate::{
    self, CertificateFacts, CertificateRole, RevocationListFacts, unix_seconds,
};
use crate::chain::{Chain, RevocationList};
use crate::error::{Error, FileProblem};
use crate::material::{self, Source};
use crate::names::dn;
use crate::warning::Warning;

/// A [`Chain`], with its facts and warnings.
pub(crate) struct Trust {
    pub(crate) chain: Chain,
    pub(crate) facts: Vec<CertificateFacts>,
    pub(crate) lists: Vec<RevocationListFacts>,
    pub(crate) warnings: Vec<Warning>,
}

impl Trust {
    /// Trusts the CAs of a file, and the self-signed certificates in it.
    pub(crate) fn file(
        authorities: Source<'_>,
        revoked: Option<Source<'_>>,
        provider: &CryptoProvider,
    ) -> Result<Self, Error> {
        let mut trust = Self::nobody(provider);
        let mut first_problem = None;
        for (index, der) in material::certificates(authorities)?.into_iter().enumerate() {
            let place = index + 1;
            match trust.add(&der) {
                Ok(()) => {
                    let role = CertificateRole::Authority;
                    let facts = CertificateFacts::new(authorities.file, role, &der);
                    trust.facts.extend(facts.ok());
                }
                Err(reason) => {
                    first_problem.get_or_insert_with(|| (place, reason.clone()));
                    trust.warnings.push(Warning::AuthorityLeftOut {
                        option: authorities.option,
                        file: authorities.file.to_path_buf(),
                        place,
                        reason,
                    });
                }
            }
        }
        if let (true, Some((place, reason))) = (trust.chain.authorities.is_empty(), first_problem) {
            return Err(authorities.error(FileProblem::BrokenCertificate { place, reason }));
        }
        trust.revoke(revoked)?;
        Ok(trust)
    }

    /// Trusts the operating system's CAs, such as those of Debian's package ca-certificates, or of the file that the
    /// variable `SSL_CERT_FILE` names.
    pub(crate) fn system(
        option: &'static str,
        revoked: Option<Source<'_>>,
        provider: &CryptoProvider,
    ) -> Result<Self, Error> {
        let mut trust = Self::nobody(provider);
        for der in rustls_native_certs::load_native_certs().certs {
            // Some of the many may be broken, and the administrator of Weir cannot repair them.
            trust.add(&der).ok();
        }
        if trust.chain.anchors.is_empty() {
            return Err(Error::NoSystemRoots { option });
        }
        trust.revoke(revoked)?;
        Ok(trust)
    }

    fn nobody(provider: &CryptoProvider) -> Self {
        let chain = Chain {
            anchors: Vec::new(),
            authorities: Vec::new(),
            revoked: Vec::new(),
            algorithms: provider.signature_verification_algorithms,
        };
        Self {
            chain,
            facts: Vec::new(),
            lists: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn add(&mut self, der: &CertificateDer<'static>) -> Result<(), String> {
        let decoded = certificate::decode(der).map_err(|error| error.reason)?;
        let tbs = decoded.tbs_certificate();
        if may_sign(tbs) {
            let anchor = webpki::anchor_from_trusted_cert(der).map_err(|e| e.to_string())?;
            self.chain.anchors.push(anchor.to_owned());
        } else if tbs.subject() != tbs.issuer() {
            return Err(
                "it is neither a CA nor self-signed, so it verifies no certificate".to_owned(),
            );
        }
        self.chain.authorities.push(der.clone());
        Ok(())
    }

    fn revoke(&mut self, source: Option<Source<'_>>) -> Result<(), Error> {
        let Some(source) = source else { return Ok(()) };
        for (index, der) in material::revocation_lists(source)?.into_iter().enumerate() {
            let (list, issuer) = decode(&der).map_err(|reason| {
                source.error(FileProblem::BrokenCrl {
                    place: index + 1,
                    reason,
                })
            })?;
            self.lists.push(RevocationListFacts {
                file: source.file.to_path_buf(),
                issuer,
                next_update: list.next_update,
            });
            self.chain.revoked.push(list);
        }
        Ok(())
    }
}

/// True if the certificate is that of a CA, by the rule of OpenSSL's `X509_check_ca`.
///
/// webpki does not check this: every certificate that it is told to trust may sign. But a self-signed certificate of
/// one client in the CA file must not become a CA that makes certificates for other clients.
fn may_sign(tbs: &TbsCertificate) -> bool {
    // Version 1 has no extensions that could tell, and old CAs have version 1.
    if tbs.version() != Version::V3 {
        return tbs.subject() == tbs.issuer();
    }
    let Ok(usage) = tbs.get_extension::<KeyUsage>() else {
        return false;
    };
    let Ok(constraints) = tbs.get_extension::<BasicConstraints>() else {
        return false;
    };
    let signs = usage.map(|(_, usage)| usage.key_cert_sign());
    let authority = constraints.map(|(_, constraints)| constraints.ca);
    match (authority, signs) {
        (_, Some(false)) | (Some(false), _) | (None, None) => false,
        (Some(true), _) | (None, Some(true)) => true,
    }
}

/// Decodes a list. Returns it and its issuer.
fn decode(der: &CertificateRevocationListDer<'_>) -> Result<(RevocationList, String), String> {
    let list = OwnedCertRevocationList::from_der(der).map_err(|error| error.to_string())?;
    let decoded: CertificateList =
        CertificateList::from_der(der).map_err(|error| error.to_string())?;
    let issuer = dn::rfc2253(&decoded.tbs_cert_list.issuer);
    let list = RevocationList {
        list: list.into(),
        der: der.to_vec(),
        next_update: decoded.tbs_cert_list.next_update.map(unix_seconds),
    };
    Ok((list, issuer))
}

/// The option and its file, if it is set.
pub(crate) fn source<'a>(option: &'static str, file: Option<&'a Path>) -> Option<Source<'a>> {
    file.map(|file| Source { option, file })
}
