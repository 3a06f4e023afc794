//! Tests of certificate facts and names, compared with the output of `openssl`.

use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString};
use rcgen::{CertificateParams, DnType, DnValue, SanType};
use weir_tls::certificate::{CertificateFacts, CertificateRole, KeyKind, Validity};
use weir_tls::listener::Listener;
use weir_tls::names::Identity;

use crate::handshake::{listener, listening};
use crate::pki::{Authority, Directory, Pair, named, params, self_signed, server};

fn der(pem: &str) -> Vec<u8> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    CertificateDer::from_pem_slice(pem.as_bytes())
        .unwrap()
        .to_vec()
}

fn identity(params: &CertificateParams) -> Identity {
    Identity::from_certificate(&der(&self_signed(params).certificate)).unwrap()
}

/// Compares Weir's form of the subject with OpenSSL's.
#[track_caller]
fn check_subject(params: &CertificateParams, expected: &str) {
    let directory = Directory::new();
    let pem = self_signed(params).certificate;
    directory.write("x.crt", &pem);
    let printed = directory.openssl("x509 -in x.crt -noout -subject -nameopt RFC2253");
    assert_eq!(
        printed.trim_end_matches('\n'),
        format!("subject={expected}")
    );
    let identity = Identity::from_certificate(&der(&pem)).unwrap();
    assert_eq!(identity.distinguished_name, expected);
}

#[test]
fn subjects_read_as_openssl_prints_them() {
    let subject = [
        (DnType::CountryName, "DE"),
        (DnType::OrganizationName, "Example, Inc."),
        (DnType::OrganizationalUnitName, "Sales+Marketing"),
        (DnType::CommonName, "alice"),
    ];
    check_subject(
        &params(&subject),
        "CN=alice,OU=Sales\\+Marketing,O=Example\\, Inc.,C=DE",
    );
    check_subject(
        &named(" #a;b<c>\"d\\e=f# "),
        "CN=\\ #a\\;b\\<c\\>\\\"d\\\\e=f#\\ ",
    );
    check_subject(&named("#alice"), "CN=\\#alice");
    check_subject(&named("M\u{fc}ller"), "CN=M\\C3\\BCller");
    check_subject(&named("a\tb\0c"), "CN=a\\09b\\00c");
    check_subject(&params(&[]), "");
    let mut odd = named("alice");
    let oid = |arcs: &[u64]| DnType::CustomDnType(arcs.to_vec());
    let ia5 = |text: &str| DnValue::Ia5String(Ia5String::try_from(text).unwrap());
    odd.distinguished_name.push(
        oid(&[1, 2, 840, 113_549, 1, 9, 1]),
        ia5("alice@example.com"),
    );
    odd.distinguished_name
        .push(oid(&[0, 9, 2342, 19_200_300, 100, 1, 1]), "uid1");
    odd.distinguished_name
        .push(oid(&[0, 9, 2342, 19_200_300, 100, 1, 25]), ia5("example"));
    odd.distinguished_name.push(oid(&[1, 2, 3, 4]), "own");
    let expected =
        "1.2.3.4=#0C036F776E,DC=example,UID=uid1,emailAddress=alice@example.com,CN=alice";
    check_subject(&odd, expected);
}

#[test]
fn kinds_of_strings_read_alike() {
    let strings = [
        DnValue::Utf8String("alice".to_owned()),
        DnValue::PrintableString(PrintableString::try_from("alice").unwrap()),
        DnValue::Ia5String(Ia5String::try_from("alice").unwrap()),
        DnValue::TeletexString(TeletexString::try_from("alice").unwrap()),
        DnValue::BmpString(BmpString::try_from("alice").unwrap()),
    ];
    for string in strings {
        let mut params = params(&[]);
        params.distinguished_name.push(DnType::CommonName, string);
        check_subject(&params, "CN=alice");
        assert_eq!(identity(&params).common_name.as_deref(), Some("alice"));
    }
}

#[test]
fn sec_10_names_with_an_embedded_nul_are_left_out() {
    let mut params = named("alice\0.evil.org");
    let evil = || Ia5String::try_from("db\0.evil.org").unwrap();
    params.subject_alt_names = vec![
        SanType::DnsName(evil()),
        SanType::Rfc822Name(evil()),
        SanType::URI(evil()),
        SanType::DnsName("db.example.com".try_into().unwrap()),
    ];
    let identity = identity(&params);
    assert_eq!(identity.common_name, None);
    assert_eq!(identity.distinguished_name, "CN=alice\\00.evil.org");
    assert_eq!(identity.dns_names, ["db.example.com"]);
    assert!(identity.emails.is_empty() && identity.uris.is_empty());
    assert_eq!(self::identity(&named("")).common_name, None);
    assert_eq!(self::identity(&crate::pki::params(&[])).common_name, None);
}

#[test]
fn alternative_names_are_told_apart() {
    let mut params = named("alice");
    params.subject_alt_names = vec![
        SanType::DnsName("*.example.com".try_into().unwrap()),
        SanType::Rfc822Name("alice@example.com".try_into().unwrap()),
        SanType::IpAddress("10.0.0.1".parse().unwrap()),
        SanType::IpAddress("2001:db8::1".parse().unwrap()),
        SanType::URI("spiffe://example.com/alice".try_into().unwrap()),
        SanType::OtherName((vec![1, 3, 6, 1, 4, 1, 311, 20, 2, 3], "alice".into())),
    ];
    let identity = identity(&params);
    assert_eq!(identity.dns_names, ["*.example.com"]);
    assert_eq!(identity.emails, ["alice@example.com"]);
    assert_eq!(identity.uris, ["spiffe://example.com/alice"]);
    let addresses = identity
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    assert_eq!(addresses, ["10.0.0.1", "2001:db8::1"]);
}

#[test]
fn bytes_that_are_no_certificate_have_no_identity() {
    let whole = der(&self_signed(&server(&["db"])).certificate);
    for end in 0..whole.len() {
        assert!(Identity::from_certificate(&whole[..end]).is_err(), "{end}");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(Identity::from_certificate(&longer).is_err());
    // A changed byte may leave a certificate, but must never panic.
    for at in 0..whole.len() {
        for flip in [1, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] ^= flip;
            let _ = Identity::from_certificate(&changed);
            let _ = weir_tls::end_point::end_point(&changed);
        }
    }
}

fn facts() -> (Listener, Directory) {
    let directory = Directory::new();
    let ca = Authority::new("ca");
    let leaf = ca.sign(&server(&["db"]));
    let pair = Pair {
        certificate: leaf.certificate + &ca.pem(),
        key: leaf.key,
    };
    (listener(&listening(&directory, &pair)), directory)
}

#[test]
fn facts_are_what_openssl_prints() {
    let (listener, directory) = facts();
    let [own, chain] = listener.certificates.as_slice() else {
        panic!()
    };
    assert_eq!(
        (own.role, chain.role),
        (CertificateRole::Own, CertificateRole::Chain)
    );
    assert_eq!(own.file, directory.path("server.crt"));
    assert_eq!(
        (own.subject.as_str(), own.issuer.as_str()),
        ("CN=no-such-name", "CN=ca")
    );
    assert_eq!(own.key, KeyKind::Other, "rcgen makes ECDSA keys");
    assert_eq!(chain.subject, "CN=ca");
    assert_eq!(own.serial, "07");
    assert_eq!(
        (own.not_before, own.not_after),
        (1_767_225_600, 1_798_761_600)
    );
    let printed = directory.openssl("x509 -in server.crt -noout -fingerprint -sha256");
    let printed = printed.trim().rsplit('=').next().unwrap().replace(':', "");
    assert_eq!(own.sha256, printed.to_lowercase());
}

#[test]
fn days_left_count_down_to_the_last_second() {
    const DAY: i64 = 86_400;
    let (listener, _directory) = facts();
    let own: &CertificateFacts = &listener.certificates[0];
    assert_eq!(own.days_left(own.not_after - 30 * DAY), 30);
    assert_eq!(own.days_left(own.not_after - 30 * DAY + 1), 29);
    assert_eq!(own.days_left(own.not_after), 0);
    assert_eq!(own.days_left(own.not_after + 1), -1);
    assert_eq!(own.validity(own.not_before - 1), Validity::NotYetValid);
    assert_eq!(own.validity(own.not_before), Validity::Valid);
    assert_eq!(own.validity(own.not_after), Validity::Valid);
    assert_eq!(own.validity(own.not_after + 1), Validity::Expired);
}
