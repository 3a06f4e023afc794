//! Tests of the server certificates that `require`, `verify-ca` and `verify-full` accept.

use rcgen::string::Ia5String;
use rcgen::{
    DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, KeyPair, NameConstraints, SanType,
    date_time_ymd,
};
use weir_tls::connector::{Connector, ConnectorOptions, Verify};

use crate::handshake::{connecting, connector, listener, listening, meet};
use crate::pki::{Authority, Directory, Pair, at, named, self_signed, server, sign, with};

/// Asserts the verdicts of verify-none, verify-ca and verify-full on a certificate, for `host`.
#[track_caller]
fn check(authority: &str, pair: &Pair, host: &str, expected: [&str; 3]) {
    check_with(authority, pair, host, expected, |_, options| options);
}

#[track_caller]
fn check_with(
    authority: &str,
    pair: &Pair,
    host: &str,
    expected: [&str; 3],
    change: impl Fn(&Directory, ConnectorOptions) -> ConnectorOptions,
) {
    let directory = Directory::new();
    let listener = listener(&listening(&directory, pair));
    for protocol in ["tlsv1.2", "tlsv1.3"] {
        let verdicts = [Verify::None, Verify::Ca, Verify::Full].map(|verify| {
            let mut options = connecting(&directory, verify, authority);
            options.protocols = protocol.to_owned();
            let connector = connector(&change(&directory, options));
            meet(&connector, &listener, host).verdict()
        });
        assert_eq!(verdicts, expected, "{host}, {protocol}");
    }
}

const FINE: [&str; 3] = ["fine", "fine", "fine"];
const WRONG_NAME: [&str; 3] = ["fine", "fine", "NotValidForNameContext"];

/// Verdicts if neither verify-ca nor verify-full accepts the certificate.
fn untrusted(why: &'static str) -> [&'static str; 3] {
    ["fine", why, why]
}

#[test]
fn sec_10_alternative_names_decide() {
    let ca = Authority::new("ca");
    let pair = ca.sign(&server(&[
        "db.example.com",
        "*.east.example.com",
        "10.0.0.1",
        "2001:db8::1",
    ]));
    let check = |host, expected| check(&ca.pem(), &pair, host, expected);
    check("db.example.com", FINE);
    check("DB.Example.com", FINE);
    check("a.east.example.com", FINE);
    check("10.0.0.1", FINE);
    check("2001:db8::1", FINE);
    check("[2001:DB8:0::1]", FINE);
    check("example.com", WRONG_NAME);
    check("other.example.com", WRONG_NAME);
    check("a.db.example.com", WRONG_NAME);
    check("east.example.com", WRONG_NAME);
    check("a.b.east.example.com", WRONG_NAME);
    check("db.example.com.evil.org", WRONG_NAME);
    check("10.0.0.2", WRONG_NAME);
    check("2001:db8::2", WRONG_NAME);
}

#[test]
fn sec_10_the_common_name_counts_only_without_alternative_names_of_hosts() {
    let ca = Authority::new("ca");
    check(
        &ca.pem(),
        &ca.sign(&named("db.example.com")),
        "db.example.com",
        FINE,
    );
    check(
        &ca.pem(),
        &ca.sign(&named("db.example.com")),
        "example.com",
        WRONG_NAME,
    );
    check(
        &ca.pem(),
        &ca.sign(&named("*.example.com")),
        "db.example.com",
        FINE,
    );
    check(
        &ca.pem(),
        &ca.sign(&named("*.example.com")),
        "a.db.example.com",
        WRONG_NAME,
    );
    check(
        &ca.pem(),
        &ca.sign(&named("d*.example.com")),
        "db.example.com",
        WRONG_NAME,
    );
    check(&ca.pem(), &ca.sign(&named("10.0.0.1")), "10.0.0.1", FINE);
    check(
        &ca.pem(),
        &ca.sign(&named("*.0.0.1")),
        "10.0.0.1",
        WRONG_NAME,
    );
    let also = |name: SanType| {
        let mut params = named("db.example.com");
        params.subject_alt_names = vec![name];
        ca.sign(&params)
    };
    let dns = also(SanType::DnsName("other.example.com".try_into().unwrap()));
    check(&ca.pem(), &dns, "db.example.com", WRONG_NAME);
    let address = also(SanType::IpAddress("10.0.0.1".parse().unwrap()));
    check(&ca.pem(), &address, "db.example.com", WRONG_NAME);
    let email = also(SanType::Rfc822Name("dba@example.com".try_into().unwrap()));
    check(&ca.pem(), &email, "db.example.com", FINE);
}

#[test]
fn sec_10_a_name_with_an_embedded_nul_is_no_name() {
    let ca = Authority::new("ca");
    let evil = "db.example.com\0.evil.org";
    check(
        &ca.pem(),
        &ca.sign(&named(evil)),
        "db.example.com",
        WRONG_NAME,
    );
    let mut params = named("db.example.com");
    params.subject_alt_names = vec![SanType::DnsName(Ia5String::try_from(evil).unwrap())];
    let expected = ["fine", "fine", "NotValidForNameContext"];
    check(&ca.pem(), &ca.sign(&params), "db.example.com", expected);
}

#[test]
fn sec_10_the_first_of_several_common_names_counts() {
    let ca = Authority::new("ca");
    let mut params = named("db.example.com");
    params.distinguished_name.push(
        DnType::CustomDnType(vec![2, 5, 4, 3]),
        DnValue::Utf8String("other.example.com".to_owned()),
    );
    check(&ca.pem(), &ca.sign(&params), "db.example.com", FINE);
    check(
        &ca.pem(),
        &ca.sign(&params),
        "other.example.com",
        WRONG_NAME,
    );
}

#[test]
fn sec_10_time_purpose_and_issuer_count_even_with_a_wrong_name() {
    let ca = Authority::new("ca");
    let other = Authority::new("other");
    let leaf = || server(&["db.example.com"]);
    for host in ["db.example.com", "wrong.example.com"] {
        let expired = with(leaf(), |params| {
            params.not_after = date_time_ymd(2026, 6, 14)
        });
        check(
            &ca.pem(),
            &ca.sign(&expired),
            host,
            untrusted("ExpiredContext"),
        );
        let early = with(leaf(), |params| {
            params.not_before = date_time_ymd(2026, 6, 16)
        });
        check(
            &ca.pem(),
            &ca.sign(&early),
            host,
            untrusted("NotValidYetContext"),
        );
        let client = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let purpose = with(leaf(), |params| params.extended_key_usages = client);
        check(
            &ca.pem(),
            &ca.sign(&purpose),
            host,
            untrusted("InvalidPurpose"),
        );
        check(
            &ca.pem(),
            &other.sign(&leaf()),
            host,
            untrusted("UnknownIssuer"),
        );
    }
    // The same name with another key.
    let impostor = Authority::new("ca");
    check(
        &ca.pem(),
        &impostor.sign(&leaf()),
        "db.example.com",
        untrusted("BadSignature"),
    );
    let free = with(leaf(), |params| params.extended_key_usages = Vec::new());
    check(&ca.pem(), &ca.sign(&free), "db.example.com", FINE);
}

#[test]
fn sec_10_names_outside_the_constraints_of_the_ca_are_refused() {
    let mut params = named("constrained");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![rcgen::GeneralSubtree::DnsName("example.com".to_owned())],
        excluded_subtrees: Vec::new(),
    });
    let ca = rcgen::CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    check(
        &ca.pem(),
        &sign(&server(&["db.example.com"]), &ca),
        "db.example.com",
        FINE,
    );
    let outside = sign(&server(&["db.example.org"]), &ca);
    let refused = ["fine", "Other", "Other"];
    check(&ca.pem(), &outside, "db.example.org", refused);
}

#[test]
fn sec_10_revoked_unknown_and_outdated_are_refused_once_there_is_a_list() {
    let ca = Authority::new("ca");
    let other = Authority::new("other");
    let pair = ca.sign(&server(&["db.example.com"]));
    let check = |list: String, expected| {
        check_with(
            &ca.pem(),
            &pair,
            "db.example.com",
            expected,
            |directory, options| {
                let crl_file = Some(directory.write("ca.crl", &list));
                ConnectorOptions {
                    crl_file,
                    ..options
                }
            },
        );
    };
    check(ca.revoke(&[7], 2027), untrusted("Revoked"));
    check(ca.revoke(&[6], 2027), FINE);
    check(ca.revoke(&[], 2027), FINE);
    check(
        other.revoke(&[7], 2027),
        untrusted("UnknownRevocationStatus"),
    );
    check(
        ca.revoke(&[6], 2026),
        untrusted("ExpiredRevocationListContext"),
    );
    check(
        other.revoke(&[], 2027) + &ca.revoke(&[7], 2027),
        untrusted("Revoked"),
    );
}

#[test]
fn intermediate_cas_are_followed() {
    let root = Authority::new("root");
    let mut params = named("middle");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let middle =
        rcgen::CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), root.issuer())
            .unwrap();
    let leaf = sign(&server(&["db.example.com"]), &middle);
    let chain = Pair {
        certificate: leaf.certificate.clone() + &middle.pem(),
        key: leaf.key.clone(),
    };
    check(&root.pem(), &chain, "db.example.com", FINE);
    check(
        &root.pem(),
        &leaf,
        "db.example.com",
        untrusted("UnknownIssuer"),
    );
    // OpenSSL requires the root, too; here the nearest CA alone is enough.
    check(&middle.pem(), &leaf, "db.example.com", FINE);
}

#[test]
fn a_self_signed_certificate_may_be_its_own_ca_file() {
    for is_ca in [
        IsCa::NoCa,
        IsCa::ExplicitNoCa,
        IsCa::Ca(rcgen::BasicConstraints::Unconstrained),
    ] {
        let params = with(server(&["db.example.com"]), |params| params.is_ca = is_ca);
        let pair = self_signed(&params);
        check(&pair.certificate, &pair, "db.example.com", FINE);
        check(&pair.certificate, &pair, "other.example.com", WRONG_NAME);
        let another = self_signed(&params);
        let refused = untrusted(if is_ca == IsCa::NoCa || is_ca == IsCa::ExplicitNoCa {
            "UnknownIssuer"
        } else {
            "Other"
        });
        check(&pair.certificate, &another, "db.example.com", refused);
        let expired = with(params.clone(), |params| {
            params.not_after = date_time_ymd(2026, 6, 14)
        });
        let expired = self_signed(&expired);
        check(
            &expired.certificate,
            &expired,
            "db.example.com",
            untrusted("ExpiredContext"),
        );
        let client = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client = self_signed(&with(params, |params| params.extended_key_usages = client));
        check(
            &client.certificate,
            &client,
            "db.example.com",
            untrusted("InvalidPurpose"),
        );
    }
}

#[test]
fn a_self_signed_leaf_in_the_ca_file_signs_nobody() {
    let key = KeyPair::generate().unwrap();
    let params = server(&["db.example.com"]);
    let trusted = params.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(params, key);
    let forged = sign(&server(&["other.example.com"]), &issuer);
    check(
        &trusted,
        &forged,
        "other.example.com",
        untrusted("UnknownIssuer"),
    );
}

/// Uses the commands of PostgreSQL's manual, section "Creating Certificates".
#[test]
fn certificates_of_version_1_as_in_the_manual_of_postgresql_are_fine() {
    let directory = Directory::new();
    let run = |arguments: &str| directory.openssl(arguments);
    run(
        "req -new -x509 -days 36500 -nodes -subj /CN=root -newkey ec -pkeyopt \
        ec_paramgen_curve:prime256v1 -keyout root.key -out root.crt",
    );
    run("req -new -nodes -subj /CN=db.example.com -newkey rsa:2048 -keyout v1.key -out v1.csr");
    run("x509 -req -in v1.csr -days 36500 -CA root.crt -CAkey root.key -set_serial 7 -out v1.crt");
    let text = run("x509 -in v1.crt -noout -text");
    if !text.contains("Version: 1 ") {
        return; // OpenSSL 3.2 and later make version 3 here, which other tests cover.
    }
    let read = |name: &str| std::fs::read_to_string(directory.path(name)).unwrap();
    let pair = Pair {
        certificate: read("v1.crt"),
        key: read("v1.key"),
    };
    v1_verdicts(&read("root.crt"), &pair, None, FINE);
    // The year 2000 is too early, 2200 too late.
    for (now, expected) in [
        (946_684_800, "NotValidYetContext"),
        (7_258_118_400, "ExpiredContext"),
    ] {
        let directory = Directory::new();
        let listener = listener(&listening(&directory, &pair));
        let options = connecting(&directory, Verify::Full, &read("root.crt"));
        let connector = Connector::build_with_time(&options, at(now)).unwrap();
        assert_eq!(
            meet(&connector, &listener, "db.example.com").verdict(),
            expected
        );
    }
    let stranger = Authority::new("root");
    v1_verdicts(&stranger.pem(), &pair, None, untrusted("UnknownIssuer"));
    run(
        "req -new -x509 -days 36500 -nodes -subj /CN=root -newkey ec -pkeyopt \
        ec_paramgen_curve:prime256v1 -keyout other.key -out other.crt",
    );
    v1_verdicts(&read("other.crt"), &pair, None, untrusted("UnknownIssuer"));
    for (serial, expected) in [(7, untrusted("Revoked")), (8, FINE)] {
        let list = v1_revocation_list(&directory, serial);
        v1_verdicts(&read("root.crt"), &pair, Some(&list), expected);
    }
    let other = stranger.revoke(&[], 2099);
    let expected = untrusted("UnknownRevocationStatus");
    v1_verdicts(&read("root.crt"), &pair, Some(&other), expected);
}

/// Makes a list by `openssl ca`, which needs its small database.
fn v1_revocation_list(directory: &Directory, serial: u8) -> String {
    directory.write(
        "index.txt",
        format!("R\t991231235959Z\t200101000000Z\t{serial:02}\tunknown\t/CN=x\n"),
    );
    directory.write(
        "ca.cnf",
        "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncrlnumber=crlnumber\n\
        default_md=sha256\ndefault_crl_days=36500\n",
    );
    directory.write("crlnumber", "01\n");
    directory.openssl("ca -config ca.cnf -gencrl -keyfile root.key -cert root.crt -out v1.crl");
    std::fs::read_to_string(directory.path("v1.crl")).unwrap()
}

/// Uses the machine's clock for the handshake, because `openssl` takes the begin of validity from it.
#[track_caller]
fn v1_verdicts(authority: &str, pair: &Pair, list: Option<&str>, expected: [&str; 3]) {
    let directory = Directory::new();
    let options = listening(&directory, pair);
    let listener = weir_tls::listener::Listener::build(&options).unwrap();
    for protocol in ["tlsv1.2", "tlsv1.3"] {
        let verdicts = [Verify::None, Verify::Ca, Verify::Full].map(|verify| {
            let mut options = connecting(&directory, verify, authority);
            options.protocols = protocol.to_owned();
            options.crl_file = list.map(|list| directory.write("v1.crl", list));
            let connector = Connector::build(&options).unwrap();
            meet(&connector, &listener, "db.example.com").verdict()
        });
        assert_eq!(verdicts, expected, "{protocol}");
    }
}
