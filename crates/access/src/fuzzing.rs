//! Bodies of the fuzz targets. Always compiled, so that a normal test can run the seeds. A panic or a violated
//! invariant is a finding. Not part of the public interface.

use crate::ldap::LdapOptions;
use crate::{Answer, Decision, Facts, Hba, IdentMap, Origin, Transport, Visitor};

/// Reads rules. A rule written out is read back as itself, and deciding always comes to an end.
pub fn hba(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(hba) = Hba::parse("fuzz", text) else {
        return;
    };
    for rule in hba.rules() {
        let written = rule.to_string();
        if written.ends_with("***") {
            continue;
        }
        let read = Hba::parse("again", &written);
        let read = read.as_ref().ok().and_then(|hba| hba.rules().first());
        assert_eq!(
            read.map(ToString::to_string).as_ref(),
            Some(&written),
            "a rule is not read back as itself"
        );
    }
    let visitor = Visitor {
        user: "ann",
        database: "shop",
        origin: Origin::Ip {
            address: [10, 1, 2, 3].into(),
            interfaces: None,
        },
        transport: Transport::Tls,
        physical_replication: false,
    };
    let failed = Facts {
        host_name: Answer::Failed,
        roles: Answer::Failed,
    };
    let end = hba.decide(&visitor, &failed);
    assert!(
        !matches!(end, Decision::Needs(_)),
        "asked for what could not be found out"
    );
}

/// Reads an ident map.
pub fn ident(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(map) = IdentMap::parse("fuzz", text) {
        let _ = map.decide("map", "ann@example.com", "ann", &Facts::default());
    }
}

/// Reads LDAP's options; accepted options are complete.
pub fn ldap(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(options) = LdapOptions::parse(text) {
        assert!(!options.servers.is_empty(), "no server to ask");
        assert_eq!(
            options.searches(),
            options.basedn.is_some(),
            "neither or both ways to find the user"
        );
    }
}
