//! Tests of ident maps.

use super::*;

fn map(text: &str) -> IdentMap {
    IdentMap::parse("ident", text).unwrap_or_else(|error| panic!("{error}"))
}

fn mistake(text: &str) -> String {
    IdentMap::parse("ident", text).unwrap_err().to_string()
}

#[test]
fn the_example_of_the_manual_works() {
    // After the example of the PostgreSQL manual, section 21.2.
    let map = map("# MAPNAME SYSTEM-USERNAME PG-USERNAME\n\
         omicron  bryanh  bryanh\n\
         omicron  ann     ann\n\
         omicron  robert  bob  # bob is called robert there\n\
         omicron  bryanh  guest1\n");
    assert!(map.allows("omicron", "bryanh", "bryanh"));
    assert!(map.allows("omicron", "bryanh", "guest1"));
    assert!(map.allows("omicron", "robert", "bob"));
    assert!(!map.allows("omicron", "robert", "robert"));
    assert!(!map.allows("omicron", "ann", "bob"));
    assert!(!map.allows("omicron", "Ann", "ann"));
    assert!(!map.allows("other", "ann", "ann"));
    assert!(map.contains("omicron") && !map.contains("other"));
}

#[test]
fn a_capture_stands_for_the_user() {
    let map = map("m  /^(.*)@mydomain\\.com$       \\1\n\
         m  /^(.*)@otherdomain\\.com$    guest\n\
         n  /^([a-z]+)@                  app_\\1_ro\n\
         q  \"/^(a, b)$\"                \"x\\1\"\n");
    assert!(map.allows("m", "ann@mydomain.com", "ann"));
    assert!(!map.allows("m", "ann@mydomain.com", "bob"));
    assert!(!map.allows("m", "ann@mydomain.com.evil", "ann"));
    assert!(map.allows("m", "ann@otherdomain.com", "guest"));
    assert!(map.allows("n", "ann@anything", "app_ann_ro"));
    assert!(!map.allows("n", "ann@anything", "app__ro"));
    assert!(map.allows("q", "a, b", "xa, b"));
}

#[test]
fn a_capture_is_only_a_name_whatever_it_says() {
    let map = map("m /^(.*)$ \\1\n");
    assert!(map.allows("m", "all", "all"));
    assert!(!map.allows("m", "all", "postgres"));
    assert!(!map.allows("m", "+admins", "postgres"));
    assert!(!map.allows("m", "/.*", "postgres"));
}

#[test]
fn a_group_that_took_no_part_lets_nobody_in() {
    let map = map("m /^x|(y)$ u\\1\n");
    assert!(map.allows("m", "y", "uy"));
    assert!(!map.allows("m", "x", "u"));
}

#[test]
fn expressions_have_no_anchors_of_their_own() {
    let map = map("m /dba /^u[0-9]$\n");
    assert!(map.allows("m", "the-dba-team", "u1"));
    assert!(!map.allows("m", "the-dba-team", "u12"));
}

#[test]
fn all_and_quoted_all_differ() {
    let map = map("a bouncer all\nb bouncer \"all\"\n");
    assert!(map.allows("a", "bouncer", "anybody"));
    assert!(!map.allows("b", "bouncer", "anybody"));
    assert!(map.allows("b", "bouncer", "all"));
}

#[test]
fn roles_are_asked_for_only_if_no_other_line_lets_in() {
    let map = map("m ann +staff\nm ann guest\n");
    let ask = |user: &str, facts: &Facts<'_>| map.decide("m", "ann", user, facts);
    let nothing = Facts::default();
    assert_eq!(ask("guest", &nothing), Mapping::Allowed);
    assert_eq!(ask("bob", &nothing), Mapping::Needs(Fact::Roles));
    assert_eq!(map.decide("m", "eve", "bob", &nothing), Mapping::Refused);
    let roles = ["bob".to_owned(), "staff".to_owned()];
    for (roles, expect) in [
        (Answer::Known(&roles[..]), Mapping::Allowed),
        (Answer::Known(&roles[..1]), Mapping::Refused),
        (Answer::Failed, Mapping::Refused),
    ] {
        let facts = Facts {
            roles,
            ..Facts::default()
        };
        assert_eq!(ask("bob", &facts), expect);
    }
    assert!(!map.allows("m", "ann", "bob"));
}

#[test]
fn mistakes_are_refused() {
    for (text, error) in [
        ("m a", "ident:1: the database user is missing"),
        ("m", "ident:1: the system user is missing"),
        ("m a b c", "ident:1: an ident line has three fields"),
        ("m a,b c", "ident:1: several values for the system user"),
        ("\"\" a b", "ident:1: empty map name"),
        ("m \"\" b", "ident:1: empty system user"),
        ("m a \\1", "ident:1: the database user has \\1, but"),
        ("m /^a \\1", "ident:1: the database user has \\1, but"),
        (
            "m /( x",
            "ident:1: bad regular expression \"(\": unclosed group",
        ),
        ("m / x", "ident:1: empty regular expression"),
        ("ok a b\nm a @none", "ident:2: cannot read \"none\""),
    ] {
        let found = mistake(text);
        assert!(found.starts_with(error), "{found}");
    }
}
