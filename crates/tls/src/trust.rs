//! From CA files and revocation lists to a [`Chain`].

use std::path::Path;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use webpki::OwnedCertRevocationList;
use x509_cert::crl::CertificateList;
use x509_cert::der::Decode;

use crate::certificate::{CertificateFacts, CertificateRole, unix_seconds};
use crate::chain::{Chain, RevocationList};
use crate::error::{Error, FileProblem};
use crate::material::{self, Source};
use crate::warning::Warning;

/// A [`Chain`] and what is to be told about it.
pub(crate) struct Trust {
    pub(crate) chain: Chain,
    pub(crate) facts: Vec<CertificateFacts>,
    pub(crate) warnings: Vec<Warning>,
}

impl Trust {
    /// Trusts the CAs of a file.
    pub(crate) fn file(
        authorities: Source<'_>,
        revoked: Option<Source<'_>>,
        provider: &CryptoProvider,
    ) -> Result<Self, Error> {
        let mut trust = Self::nobody(provider);
        for (index, der) in material::certificates(authorities)?.into_iter().enumerate() {
            let place = index + 1;
            if let Err(reason) = trust.add(&der) {
                trust.warnings.push(Warning::AuthorityLeftOut {
                    option: authorities.option,
                    file: authorities.file.to_path_buf(),
                    place,
                    reason,
                });
                continue;
            }
            // What webpki can use and the other decoder cannot show is still good to trust.
            let facts = CertificateFacts::new(authorities.file, CertificateRole::Authority, &der);
            trust.facts.extend(facts.ok());
        }
        if let (true, Some(Warning::AuthorityLeftOut { place, reason, .. })) =
            (trust.chain.anchors.is_empty(), trust.warnings.first())
        {
            let (place, reason) = (*place, reason.clone());
            return Err(authorities.error(FileProblem::BrokenCertificate { place, reason }));
        }
        trust.revoke(revoked)?;
        Ok(trust)
    }

    /// Trusts the CAs that the operating system trusts, such as those of Debian's package
    /// ca-certificates, or of the file that the variable `SSL_CERT_FILE` names.
    pub(crate) fn system(
        option: &'static str,
        revoked: Option<Source<'_>>,
        provider: &CryptoProvider,
    ) -> Result<Self, Error> {
        let mut trust = Self::nobody(provider);
        for der in rustls_native_certs::load_native_certs().certs {
            // Some of a hundred may be broken; nobody here could repair them.
            let _ = trust.add(&der);
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
            warnings: Vec::new(),
        }
    }

    fn add(&mut self, der: &CertificateDer<'static>) -> Result<(), String> {
        let anchor = webpki::anchor_from_trusted_cert(der)
            .map_err(|error| error.to_string())?
            .to_owned();
        self.chain.anchors.push(anchor);
        self.chain.authorities.push(der.clone());
        Ok(())
    }

    fn revoke(&mut self, source: Option<Source<'_>>) -> Result<(), Error> {
        let Some(source) = source else { return Ok(()) };
        for (index, der) in material::revocation_lists(source)?.into_iter().enumerate() {
            let list = decode(&der).map_err(|reason| {
                source.error(FileProblem::BrokenCrl {
                    place: index + 1,
                    reason,
                })
            })?;
            self.chain.revoked.push(list);
        }
        Ok(())
    }
}

fn decode(der: &CertificateRevocationListDer<'_>) -> Result<RevocationList, String> {
    let list = OwnedCertRevocationList::from_der(der).map_err(|error| error.to_string())?;
    let decoded = CertificateList::from_der(der).map_err(|error| error.to_string())?;
    // A fact of type: the decoder has no profile of its own for lists.
    let decoded: CertificateList = decoded;
    Ok(RevocationList {
        list: list.into(),
        der: der.to_vec(),
        next_update: decoded.tbs_cert_list.next_update.map(unix_seconds),
    })
}

/// The option and its file, if it is set.
pub(crate) fn source<'a>(option: &'static str, file: Option<&'a Path>) -> Option<Source<'a>> {
    file.map(|file| Source { option, file })
}
