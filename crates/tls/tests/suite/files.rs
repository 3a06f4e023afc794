//! Tests of files that are missing, broken, unsafe or of the wrong kind, and of their error messages.

use std::path::PathBuf;

use weir_tls::connector::{Connector, ConnectorOptions, Verify};
use weir_tls::error::Error;
use weir_tls::listener::{ClientCertificate, Listener, ListenerOptions};

use crate::handshake::{connecting, listening};
use crate::pki::{Authority, Directory, Pair, self_signed, server, set_mode, sign};

/// Returns the error of a listener with these options, without the path of the directory.
fn error(directory: &Directory, options: &ListenerOptions) -> String {
    let error = Listener::build(options).expect_err("refused");
    error
        .to_string()
        .replace(&format!("{}", directory.path("").display()), "")
}

fn fine() -> (Directory, ListenerOptions) {
    let directory = Directory::new();
    let options = listening(&directory, &self_signed(&server(&["db"])));
    (directory, options)
}

#[test]
fn a_key_that_others_may_read_or_write_is_refused() {
    let (directory, options) = fine();
    let key = directory.path("server.key");
    let as_root = std::fs::metadata(&key)
        .map(|m| std::os::unix::fs::MetadataExt::uid(&m))
        .unwrap()
        == 0;
    for mode in [0o600, 0o400, 0o700] {
        set_mode(&key, mode);
        assert!(Listener::build(&options).is_ok(), "{mode:o}");
    }
    set_mode(&key, 0o640);
    assert_eq!(Listener::build(&options).is_ok(), as_root);
    for mode in [0o644, 0o604, 0o602, 0o620, 0o601, 0o666] {
        set_mode(&key, mode);
        let expected = format!(
            "client_tls_key_file: \"server.key\": the private key may be read or written by others \
             (mode {mode:04o}); its mode must be 0600 or less, or 0640 or less if root owns it"
        );
        assert_eq!(error(&directory, &options), expected);
    }
    // A certificate may be readable by all users.
    set_mode(&key, 0o600);
    set_mode(&directory.path("server.crt"), 0o644);
    assert!(Listener::build(&options).is_ok());
}

#[test]
fn missing_options_and_files_are_named() {
    let (directory, options) = fine();
    let without = ListenerOptions {
        key_file: None,
        ..options.clone()
    };
    let expected = "client_tls_key_file must be set: clients are to be accepted with TLS";
    assert_eq!(error(&directory, &without), expected);
    let without = ListenerOptions {
        cert_file: None,
        ..options.clone()
    };
    let expected = "client_tls_cert_file must be set: clients are to be accepted with TLS";
    assert_eq!(error(&directory, &without), expected);
    for client_certificate in [ClientCertificate::Optional, ClientCertificate::Required] {
        let without = ListenerOptions {
            client_certificate,
            ..options.clone()
        };
        let expected = "client_tls_ca_file must be set: certificates of clients are to be verified";
        assert_eq!(error(&directory, &without), expected);
    }
    let nowhere = ListenerOptions {
        cert_file: Some(directory.path("no.crt")),
        ..options.clone()
    };
    let expected = "client_tls_cert_file: \"no.crt\": no such file";
    assert_eq!(error(&directory, &nowhere), expected);
    std::fs::create_dir(directory.path("dir")).unwrap();
    let dir = ListenerOptions {
        key_file: Some(directory.path("dir")),
        ..options
    };
    assert_eq!(
        error(&directory, &dir),
        "client_tls_key_file: \"dir\": is not a regular file"
    );
}

#[test]
fn keys_and_certificates_of_no_use_are_told_apart() {
    let (directory, options) = fine();
    let key = |content: &str| {
        let key_file = Some(directory.write("bad.key", content));
        error(
            &directory,
            &ListenerOptions {
                key_file,
                ..options.clone()
            },
        )
    };
    let certificate = std::fs::read_to_string(directory.path("server.crt")).unwrap();
    assert!(key(&certificate).contains("has no private key in PEM form"));
    assert!(key("").contains("has no private key in PEM form"));
    let broken = "-----BEGIN PRIVATE KEY-----\n?\n-----END PRIVATE KEY-----\n";
    assert!(key(broken).ends_with("is damaged: what stands between BEGIN and END is not base64"));
    let cut = "-----BEGIN PRIVATE KEY-----\nAAAA\n";
    assert!(key(cut).ends_with("is damaged: \"-----END PRIVATE KEY-----\" is missing"));
    let empty = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(
        key(empty).contains("the private key cannot be used"),
        "{}",
        key(empty)
    );
    let certificate = |content: &str| {
        let cert_file = Some(directory.write("bad.crt", content));
        error(
            &directory,
            &ListenerOptions {
                cert_file,
                ..options.clone()
            },
        )
    };
    assert!(certificate("hello").contains("has no certificate in PEM form"));
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(certificate(empty).contains("certificate 1 cannot be decoded"));
    let other = self_signed(&server(&["db"]));
    assert_eq!(
        certificate(&other.certificate),
        "the private key in \"server.key\" does not belong \
        to the certificate in \"bad.crt\": the first certificate of that file must be the one made \
        for this key"
    );
}

/// Converts the key by `openssl` and returns the result of a listener with it.
fn converted(key: &str, conversion: &str) -> Result<(), Error> {
    let directory = Directory::new();
    directory.openssl(&format!("genpkey {key} -out x.key"));
    directory.openssl("req -new -x509 -key x.key -subj /CN=x -days 30 -out server.crt");
    directory.openssl(&format!("{conversion} -in x.key -out server.key"));
    set_mode(&directory.path("server.key"), 0o600);
    let options = ListenerOptions {
        key_file: Some(directory.path("server.key")),
        cert_file: Some(directory.path("server.crt")),
        ..ListenerOptions::default()
    };
    Listener::build(&options).map(|_| ())
}

#[test]
fn keys_of_every_form_are_read() {
    let rsa = "-algorithm RSA -pkeyopt rsa_keygen_bits:2048";
    let ec = "-algorithm EC -pkeyopt ec_paramgen_curve:prime256v1";
    assert_eq!(converted(rsa, "pkey"), Ok(()));
    assert_eq!(converted(rsa, "rsa -traditional"), Ok(()));
    assert_eq!(converted(ec, "pkey"), Ok(()));
    assert_eq!(converted(ec, "ec"), Ok(()));
    let p384 = "-algorithm EC -pkeyopt ec_paramgen_curve:secp384r1";
    assert_eq!(converted(p384, "pkey"), Ok(()));
    let p521 = "-algorithm EC -pkeyopt ec_paramgen_curve:secp521r1";
    assert_eq!(converted(p521, "ec"), Ok(()));
    assert_eq!(converted("-algorithm ED25519", "pkey"), Ok(()));
}

#[test]
fn keys_with_a_passphrase_are_refused_with_the_way_out() {
    let ec = "-algorithm EC -pkeyopt ec_paramgen_curve:prime256v1";
    let conversions = ["pkey -aes256 -passout pass:x", "ec -aes256 -passout pass:x"];
    for conversion in conversions {
        let error = converted(ec, conversion).unwrap_err().to_string();
        assert!(error.contains("is protected by a passphrase"), "{error}");
        assert!(error.contains("openssl pkey -in OLD -out NEW"), "{error}");
    }
}

#[test]
fn key_and_certificate_may_stand_in_one_file() {
    let directory = Directory::new();
    let pair = self_signed(&server(&["db"]));
    let both = Some(directory.write("both.pem", pair.certificate + &pair.key));
    let options = ListenerOptions {
        key_file: both.clone(),
        cert_file: both,
        ..ListenerOptions::default()
    };
    assert!(Listener::build(&options).is_ok());
}

#[test]
fn ca_files_and_revocation_lists_are_checked_when_loaded() {
    let directory = Directory::new();
    let ca = Authority::new("ca");
    let build = |options: &ConnectorOptions| {
        let error = Connector::build(options).expect_err("refused").to_string();
        error.replace(&format!("{}", directory.path("").display()), "")
    };
    let options = connecting(&directory, Verify::Full, "");
    assert!(build(&options).starts_with("server_tls_ca_file: \"ca.crt\": has no certificate"));
    let options = connecting(
        &directory,
        Verify::Full,
        &ca.sign(&server(&["db"])).certificate,
    );
    let expected = "server_tls_ca_file: \"ca.crt\": certificate 1 cannot be decoded: it is neither \
        a CA nor self-signed, so it verifies no certificate";
    assert_eq!(build(&options), expected);
    let options = connecting(&directory, Verify::Full, &ca.pem());
    let list = |content: &str| {
        let crl_file = Some(directory.write("ca.crl", content));
        build(&ConnectorOptions {
            crl_file,
            ..options.clone()
        })
    };
    assert!(list(&ca.pem()).starts_with("server_tls_crl_file: \"ca.crl\": has no revocation list"));
    let empty = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    assert!(list(empty).contains("revocation list 1 cannot be decoded"));
}

#[test]
fn a_useless_certificate_among_cas_is_passed_over_with_a_warning() {
    let directory = Directory::new();
    let ca = Authority::new("ca");
    let leaf = ca.sign(&server(&["db"])).certificate;
    let connector =
        Connector::build(&connecting(&directory, Verify::Full, &(ca.pem() + &leaf))).unwrap();
    let warnings = connector
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    assert!(
        warnings[0].ends_with(
            "certificate 2 skipped: it is neither a CA nor self-signed, \
        so it verifies no certificate"
        ),
        "{warnings:?}"
    );
    assert_eq!(connector.certificates.len(), 1);
}

#[test]
fn a_client_certificate_needs_its_key_and_the_other_way_round() {
    let directory = Directory::new();
    let Pair { certificate, key } = self_signed(&server(&["db"]));
    let some =
        |name: &str, content: &str| -> Option<PathBuf> { Some(directory.write(name, content)) };
    let options = ConnectorOptions::new(Verify::None);
    let with = |key_file, cert_file| {
        let options = ConnectorOptions {
            key_file,
            cert_file,
            ..options.clone()
        };
        Connector::build(&options).map(|connector| connector.certificates.len())
    };
    assert_eq!(with(None, None), Ok(0));
    assert_eq!(
        with(some("x.key", &key), some("x.crt", &certificate)),
        Ok(1)
    );
    let error = with(some("x.key", &key), None).unwrap_err().to_string();
    assert!(
        error.starts_with("server_tls_cert_file must be set"),
        "{error}"
    );
    let error = with(None, some("x.crt", &certificate))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("server_tls_key_file must be set"),
        "{error}"
    );
}

#[test]
fn an_expired_certificate_of_ours_is_loaded_and_told() {
    let directory = Directory::new();
    let ca = Authority::new("ca");
    let mut params = server(&["db"]);
    params.not_after = rcgen::date_time_ymd(2026, 2, 1);
    let options = listening(&directory, &sign(&params, ca.issuer()));
    let listener = Listener::build(&options).unwrap();
    let now = i64::try_from(crate::pki::NOW).unwrap();
    assert_eq!(listener.certificates[0].days_left(now), -134);
}

#[test]
fn revocation_lists_are_told_with_their_end() {
    let directory = Directory::new();
    let ca = Authority::new("ca");
    let options = connecting(&directory, Verify::Full, &ca.pem());
    let crl_file = Some(directory.write("ca.crl", ca.revoke(&[1], 2027)));
    let connector = Connector::build(&ConnectorOptions {
        crl_file,
        ..options
    })
    .unwrap();
    let facts = &connector.revocation_lists[0];
    assert_eq!(
        (facts.issuer.as_str(), facts.next_update),
        ("CN=ca", Some(1_798_761_600))
    );
    assert_eq!(facts.file, directory.path("ca.crl"));
}
