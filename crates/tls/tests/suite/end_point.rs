//! Tests of channel binding data for every kind of certificate, compared with hashes by `openssl`.

use weir_tls::end_point::end_point;

use crate::handshake::{listener, listening};
use crate::pki::{Directory, Pair, self_signed, server};

/// Makes a self-signed certificate and compares its binding data; `None` if it has none.
#[track_caller]
fn check(key: &str, signing: &str, expected: Option<&str>) {
    let directory = Directory::new();
    // OpenSSL turns old hashes off by default.
    directory.write("x.cnf", "[req]\ndistinguished_name=d\n[d]\n");
    directory.openssl(&format!("genpkey {key} -out x.key"));
    directory.openssl(&format!(
        "req -config x.cnf -new -x509 -key x.key -subj /CN=x -days 30 -outform der -out x.der {signing}"
    ));
    let der = std::fs::read(directory.path("x.der")).unwrap();
    let data = end_point(&der).map(|data| {
        data.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    });
    let wanted = expected.map(|hash| {
        let printed = directory.openssl(&format!("dgst -{hash} x.der"));
        printed.trim().rsplit(' ').next().unwrap().to_owned()
    });
    assert_eq!(data, wanted, "{key} {signing}");
}

const RSA: &str = "-algorithm RSA -pkeyopt rsa_keygen_bits:2048";
const EC: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:prime256v1";

#[test]
fn sec_62_rsa_certificates_bind_by_their_hash() {
    check(RSA, "-sha256", Some("sha256"));
    check(RSA, "-sha384", Some("sha384"));
    check(RSA, "-sha512", Some("sha512"));
    check(RSA, "-sha224", Some("sha224"));
}

#[test]
fn sec_62_md5_and_sha1_are_raised_to_sha256() {
    check(RSA, "-md5", Some("sha256"));
    check(RSA, "-sha1", Some("sha256"));
    check(EC, "-sha1", Some("sha256"));
    check(RSA, "-sha1 -sigopt rsa_padding_mode:pss", Some("sha256"));
}

#[test]
fn sec_62_rsa_pss_certificates_bind_by_their_parameters() {
    check(RSA, "-sha256 -sigopt rsa_padding_mode:pss", Some("sha256"));
    check(RSA, "-sha384 -sigopt rsa_padding_mode:pss", Some("sha384"));
    check(RSA, "-sha512 -sigopt rsa_padding_mode:pss", Some("sha512"));
    // The hash of the mask differs and does not count.
    let mixed = "-sha512 -sigopt rsa_padding_mode:pss -sigopt rsa_mgf1_md:sha256";
    check(RSA, mixed, Some("sha512"));
}

#[test]
fn sec_62_ecdsa_certificates_bind_by_their_hash() {
    check(EC, "-sha256", Some("sha256"));
    check(EC, "-sha384", Some("sha384"));
    check(
        "-algorithm EC -pkeyopt ec_paramgen_curve:secp384r1",
        "-sha512",
        Some("sha512"),
    );
}

#[test]
fn sec_62_ed25519_certificates_have_no_binding_data() {
    check("-algorithm ED25519", "", None);
    check("-algorithm ED448", "", None);
    assert_eq!(end_point(b""), None);
    assert_eq!(end_point(b"no certificate"), None);
}

#[test]
fn a_listener_knows_its_own_binding_data() {
    let directory = Directory::new();
    let listener = listener(&listening(&directory, &self_signed(&server(&["db"]))));
    directory.openssl("x509 -in server.crt -outform der -out x.der");
    let der = std::fs::read(directory.path("x.der")).unwrap();
    assert_eq!(listener.end_point, end_point(&der));
    assert_eq!(listener.end_point.map(|data| data.len()), Some(32));
    directory.openssl("genpkey -algorithm ED25519 -out ed.key");
    directory.openssl("req -new -x509 -key ed.key -subj /CN=x -days 30 -out ed.crt");
    let read = |name: &str| std::fs::read_to_string(directory.path(name)).unwrap();
    let pair = Pair {
        certificate: read("ed.crt"),
        key: read("ed.key"),
    };
    assert_eq!(
        crate::handshake::listener(&listening(&directory, &pair)).end_point,
        None
    );
}
