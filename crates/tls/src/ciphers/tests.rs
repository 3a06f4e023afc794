//! Tests of cipher lists as PgBouncer users write them.

use super::*;

fn read(list: Result<Suites, CipherError>) -> String {
    match list {
        Ok(chosen) => {
            let names = chosen.suites.iter().map(|suite| {
                let found = table::all(true)
                    .chain(table::all(false))
                    .find(|s| s.suite == *suite);
                found.unwrap().name
            });
            names.collect::<Vec<_>>().join(" ")
        }
        Err(error) => error.to_string(),
    }
}

fn check12(list: &str, expected: &str) {
    assert_eq!(read(Suites::parse_tls12(list)), expected, "{list}");
}

fn check13(list: &str, expected: &str) {
    assert_eq!(read(Suites::parse_tls13(list)), expected, "{list}");
}

const ALL: &str = "ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-RSA-AES128-GCM-SHA256 \
    ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-RSA-AES256-GCM-SHA384 \
    ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-RSA-CHACHA20-POLY1305";

#[test]
fn words_of_pgbouncer_and_openssl_mean_all_that_we_have() {
    for list in [
        "",
        "default",
        "secure",
        "fast",
        "normal",
        "compat",
        "legacy",
        "insecure",
        "all",
        "HIGH",
        "DEFAULT",
        "HIGH:!aNULL:!MD5",
        "HIGH:MEDIUM:+3DES:!aNULL",
        "DEFAULT:@SECLEVEL=2",
        "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:!aNULL:!MD5:!DSS",
        "EECDH:!RC4:!SHA1:!SHA256:!SHA384",
        "TLSv1.2+HIGH",
        "!aNULL:HIGH",
    ] {
        check12(list, ALL);
    }
}

#[test]
fn names_are_taken_in_the_order_in_which_they_stand() {
    check12(
        "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-AES128-GCM-SHA256",
    );
    check12(
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
    );
    check12("AES256+aRSA", "ECDHE-RSA-AES256-GCM-SHA384");
    check12(
        "aRSA:-AES128:!CHACHA20:ALL",
        "ECDHE-RSA-AES256-GCM-SHA384 \
        ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-RSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384",
    );
    check12(
        "aRSA:+AES128",
        "ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-CHACHA20-POLY1305 \
        ECDHE-RSA-AES128-GCM-SHA256",
    );
    check12(
        "aRSA:@STRENGTH",
        "ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-CHACHA20-POLY1305 \
        ECDHE-RSA-AES128-GCM-SHA256",
    );
}

#[test]
fn names_that_only_openssl_has_are_left_out_if_others_remain() {
    let chosen = Suites::parse_tls12("ECDHE-RSA-AES256-SHA:AES128-SHA:ECDHE-RSA-AES128-GCM-SHA256");
    let chosen = chosen.unwrap();
    assert_eq!(chosen.left_out, ["ECDHE-RSA-AES256-SHA", "AES128-SHA"]);
    assert_eq!(read(Ok(chosen)), "ECDHE-RSA-AES128-GCM-SHA256");
}

#[test]
fn names_that_leave_nothing_are_refused() {
    let supported = ALL.replace(' ', ", ");
    check12(
        "AES256-SHA",
        &format!(
            "cipher \"AES256-SHA\" is known, but not supported because it has no forward secrecy; \
         supported are {supported}"
        ),
    );
    check12(
        "HIGH:!ECDHE",
        &format!("\"HIGH:!ECDHE\" leaves no cipher; supported are {supported}"),
    );
    check12(
        "SHA256",
        &format!("\"SHA256\" leaves no cipher; supported are {supported}"),
    );
    check12(
        "HIHG",
        &format!("unknown cipher \"HIHG\"; supported are {supported}"),
    );
    check12(
        "HIGH:@LENGTH",
        &format!("unknown cipher \"@LENGTH\"; supported are {supported}"),
    );
    check12(
        "TLS_AES_256_GCM_SHA384",
        "cipher \"TLS_AES_256_GCM_SHA384\" belongs to TLS 1.3, whose \
        option is the one with 13",
    );
}

#[test]
fn suites_of_tls_1_3_are_a_plain_list() {
    let all = "TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256";
    check13("", all);
    check13(
        "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384",
        "TLS_AES_256_GCM_SHA384 TLS_AES_128_GCM_SHA256",
    );
    let supported = all.replace(' ', ", ");
    check13(
        "TLS_AES_128_CCM_SHA256",
        &format!(
            "cipher \"TLS_AES_128_CCM_SHA256\" is known, but not supported because it is hardly used; \
         supported are {supported}"
        ),
    );
    check13(
        "HIGH",
        &format!("unknown cipher \"HIGH\"; supported are {supported}"),
    );
    check13(
        "AES128-SHA",
        "cipher \"AES128-SHA\" belongs to TLS 1.2, whose option is the one \
        without 13",
    );
}

#[test]
fn every_name_in_the_table_maps_to_its_suite_or_its_reason() {
    for suite in table::all(false) {
        check12(suite.name, suite.name);
        check12(suite.standard_name, suite.name);
    }
    for suite in table::all(true) {
        check13(suite.name, suite.name);
        assert_eq!(
            format!("{:?}", suite.suite.suite()),
            suite.name.replacen("TLS", "TLS13", 1)
        );
    }
    assert_eq!(
        table::all(false).count() + table::all(true).count(),
        rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES.len()
    );
    for name in table::unsupported_names() {
        let refused = if name.starts_with("TLS_") {
            Suites::parse_tls13(name)
        } else {
            Suites::parse_tls12(name)
        };
        assert!(
            matches!(refused, Err(CipherError::Unsupported { .. })),
            "{name}"
        );
        assert!(table::suite(name, false).is_none() && table::suite(name, true).is_none());
    }
}

#[test]
fn the_standard_names_are_those_of_the_suites() {
    for suite in table::all(false) {
        assert_eq!(format!("{:?}", suite.suite.suite()), suite.standard_name);
    }
}
