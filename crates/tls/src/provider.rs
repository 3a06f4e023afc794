//! Cryptography of a configuration: always aws-lc-rs, always named explicitly. rustls' process-wide default is never
//! used, because any dependency could set it.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

use crate::ciphers::Suites;
use crate::curves::Curves;
use crate::error::Error;
use crate::protocols::Protocols;
use crate::warning::Warning;

/// Names of the options of one side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionNames {
    pub(crate) protocols: &'static str,
    pub(crate) ciphers: &'static str,
    pub(crate) tls13_ciphers: &'static str,
    pub(crate) curves: &'static str,
}

/// The texts of the options that choose the cryptography.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) protocols: &'a str,
    pub(crate) ciphers: &'a str,
    pub(crate) tls13_ciphers: &'a str,
    pub(crate) curves: &'a str,
}

pub(crate) fn provider(
    names: OptionNames,
    choice: Choice<'_>,
    default_curves: Curves,
    warnings: &mut Vec<Warning>,
) -> Result<(Arc<CryptoProvider>, Protocols), Error> {
    let protocols = Protocols::parse(choice.protocols).map_err(|problem| Error::Protocols {
        option: names.protocols,
        problem,
    })?;
    let tls12 = Suites::parse_tls12(choice.ciphers).map_err(|problem| Error::Ciphers {
        option: names.ciphers,
        problem,
    })?;
    let tls13 = Suites::parse_tls13(choice.tls13_ciphers).map_err(|problem| Error::Ciphers {
        option: names.tls13_ciphers,
        problem,
    })?;
    let curves = Curves::parse(choice.curves, default_curves).map_err(|problem| Error::Curves {
        option: names.curves,
        problem,
    })?;
    if protocols.asked_for_older {
        let used = protocols.name();
        warnings.push(Warning::OldProtocols {
            option: names.protocols,
            used,
        });
    }
    for (option, suites) in [(names.ciphers, &tls12), (names.tls13_ciphers, &tls13)] {
        if !suites.left_out.is_empty() {
            let names = suites.left_out.clone();
            warnings.push(Warning::CiphersLeftOut { option, names });
        }
    }
    if !curves.left_out.is_empty() {
        let left_out = curves.left_out.clone();
        warnings.push(Warning::CurvesLeftOut {
            option: names.curves,
            names: left_out,
        });
    }
    let mut cipher_suites = Vec::new();
    if protocols.has_tls13() {
        cipher_suites.extend_from_slice(tls13.suites());
    }
    if protocols.has_tls12() {
        cipher_suites.extend_from_slice(tls12.suites());
    }
    let provider = CryptoProvider {
        cipher_suites,
        kx_groups: curves.groups().to_vec(),
        ..aws_lc_rs::default_provider()
    };
    Ok((Arc::new(provider), protocols))
}
