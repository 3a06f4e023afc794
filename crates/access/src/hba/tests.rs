//! Tests of matching: the line that fits, the facts needed, and the explanation.

use proptest::prelude::*;

use super::*;
use crate::visitor::{Answer, Transport};

fn hba(text: &str) -> Hba {
    Hba::parse("hba", text).unwrap_or_else(|error| panic!("{error}"))
}

fn tcp(user: &'static str, database: &'static str, ip: &str) -> Visitor<'static> {
    Visitor {
        user,
        database,
        origin: Origin::Ip {
            address: ip.parse().expect("an address"),
            interfaces: None,
        },
        transport: Transport::Plain,
        physical_replication: false,
    }
}

fn unix(user: &'static str, database: &'static str) -> Visitor<'static> {
    Visitor {
        origin: Origin::Unix,
        ..tcp(user, database, "::")
    }
}

fn tls(user: &'static str, database: &'static str, ip: &str) -> Visitor<'static> {
    Visitor {
        transport: Transport::Tls,
        ..tcp(user, database, ip)
    }
}

fn physical(user: &'static str) -> Visitor<'static> {
    Visitor {
        physical_replication: true,
        ..tcp(user, "replication", "10.0.0.1")
    }
}

fn roles(roles: &[String]) -> Facts<'_> {
    Facts {
        roles: Answer::Known(roles),
        ..Facts::default()
    }
}

fn named(name: &str) -> Facts<'_> {
    Facts {
        host_name: Answer::Known(Some(name)),
        ..Facts::default()
    }
}

/// Method and line of the decision.
fn outcome(hba: &Hba, visitor: &Visitor<'_>, facts: &Facts<'_>) -> String {
    match hba.decide(visitor, facts) {
        Decision::Needs(fact) => format!("{fact:?}"),
        Decision::NoRule => "none".to_owned(),
        Decision::Rule(rule) => format!("{} {}", rule.method().name(), rule.place().line),
    }
}

fn check(text: &str, cases: &[(Visitor<'_>, &str)]) {
    let hba = hba(text);
    for (visitor, expect) in cases {
        let found = outcome(&hba, visitor, &Facts::default());
        assert_eq!(found, *expect, "{visitor:?}");
    }
}

#[test]
fn without_a_line_nobody_comes_in() {
    check(
        "",
        &[
            (unix("ann", "shop"), "none"),
            (tls("a", "b", "::1"), "none"),
        ],
    );
    check(
        "host shop all all trust",
        &[(tcp("ann", "web", "::1"), "none")],
    );
}

#[test]
fn the_type_is_compared_with_the_connection() {
    for (kind, over_unix, over_tcp, over_tls) in [
        ("local", true, false, false),
        ("host", false, true, true),
        ("hostssl", false, false, true),
        ("hostnossl", false, true, false),
        ("hostgssenc", false, false, false),
        ("hostnogssenc", false, true, true),
    ] {
        let address = if kind == "local" { "" } else { "all" };
        let expect = |fits| if fits { "trust 1" } else { "none" };
        check(
            &format!("{kind} all all {address} trust"),
            &[
                (unix("ann", "shop"), expect(over_unix)),
                (tcp("ann", "shop", "10.0.0.1"), expect(over_tcp)),
                (tls("ann", "shop", "10.0.0.1"), expect(over_tls)),
            ],
        );
    }
}

#[test]
fn the_database_column_is_compared_with_the_database() {
    for (column, shop, ann, replication) in [
        ("all", true, true, false),
        ("shop", true, false, false),
        ("web,shop", true, false, false),
        ("\"shop\"", true, false, false),
        ("\"all\"", false, false, false),
        ("Shop", false, false, false),
        ("sameuser", false, true, false),
        ("\"sameuser\"", false, false, false),
        ("replication", false, false, true),
        ("replication,shop", true, false, true),
        ("\"replication\"", false, false, false),
        ("/^s.*p$", true, false, false),
        ("\"/^(shop|ann)$\"", true, true, false),
        ("/o", true, false, false),
    ] {
        let expect = |fits| if fits { "trust 1" } else { "none" };
        check(
            &format!("host {column} all all trust"),
            &[
                (tcp("ann", "shop", "10.0.0.1"), expect(shop)),
                (tcp("ann", "ann", "10.0.0.1"), expect(ann)),
                (physical("ann"), expect(replication)),
            ],
        );
    }
    // A database of this name is not replication.
    check(
        "host replication all all trust\nhost \"replication\" all all md5",
        &[(tcp("ann", "replication", "10.0.0.1"), "md5 2")],
    );
}

#[test]
fn the_user_column_is_compared_with_the_user() {
    for (column, ann, bob) in [
        ("all", true, true),
        ("ann", true, false),
        ("ann,bob", true, true),
        ("ANN", false, false),
        ("\"all\"", false, false),
        ("\"+ann\"", false, false),
        ("/^[a-b]", true, true),
        ("/n$", true, false),
    ] {
        let expect = |fits| if fits { "trust 1" } else { "none" };
        check(
            &format!("local all {column} trust"),
            &[
                (unix("ann", "shop"), expect(ann)),
                (unix("bob", "shop"), expect(bob)),
            ],
        );
    }
}

#[test]
fn roles_are_asked_for_only_when_the_outcome_depends_on_them() {
    let hba = hba("host all bob all trust\n\
         host web +staff all md5\n\
         host samerole all 10.0.0.0/8 reject\n\
         host all all all scram-sha-256\n");
    let ask = |visitor: Visitor<'_>, facts: &Facts<'_>| outcome(&hba, &visitor, facts);
    let nothing = Facts::default();
    // An earlier line decides, or the other columns do.
    assert_eq!(ask(tcp("bob", "web", "::1"), &nothing), "trust 1");
    assert_eq!(ask(tcp("ann", "shop", "::1"), &nothing), "scram-sha-256 4");
    assert_eq!(ask(tcp("ann", "web", "::1"), &nothing), "Roles");
    assert_eq!(ask(tcp("ann", "shop", "10.0.0.1"), &nothing), "Roles");

    let list: Vec<String> = ["ann", "staff", "shop"].map(str::to_owned).into();
    assert_eq!(ask(tcp("ann", "web", "::1"), &roles(&list)), "md5 2");
    assert_eq!(
        ask(tcp("ann", "shop", "10.0.0.1"), &roles(&list)),
        "reject 3"
    );
    // Every existing user is a member of the role of the same name, as in PostgreSQL.
    assert_eq!(
        ask(tcp("ann", "ann", "10.0.0.1"), &roles(&list)),
        "reject 3"
    );
    assert_eq!(
        ask(tcp("ann", "web", "::1"), &roles(&list[..1])),
        "scram-sha-256 4"
    );
}

#[test]
fn a_name_beside_a_role_needs_no_roles() {
    let hba = hba("host all +staff,ann all trust");
    let found = outcome(&hba, &tcp("ann", "shop", "::1"), &Facts::default());
    assert_eq!(found, "trust 1");
}

#[test]
fn host_names_are_asked_for_before_roles_and_decide_without_them() {
    let hba = hba("host all +staff .example trust");
    let visitor = tcp("ann", "shop", "10.0.0.1");
    assert_eq!(outcome(&hba, &visitor, &Facts::default()), "HostName");
    assert_eq!(outcome(&hba, &visitor, &named("db.other")), "none");
    assert_eq!(outcome(&hba, &visitor, &named("db.example")), "Roles");
    // A Unix socket has no name to look up.
    assert_eq!(
        outcome(&hba, &unix("ann", "shop"), &Facts::default()),
        "none"
    );
}

#[test]
fn a_fact_that_could_not_be_found_out_never_lets_in() {
    let failed = Facts {
        host_name: Answer::Failed,
        roles: Answer::Failed,
    };
    let visitor = tcp("ann", "shop", "10.0.0.1");
    for (line, expect) in [
        ("host all +staff all reject", "reject 1"),
        ("host all +staff all trust", "md5 2"),
        ("host samerole all all reject", "reject 1"),
        ("host samerole all all cert", "md5 2"),
        ("host all all bad.example reject", "reject 1"),
        ("host all all good.example trust", "md5 2"),
        ("host all all samenet reject", "reject 1"),
        ("host all all samenet trust", "md5 2"),
        // Known columns still decide.
        ("host web +staff all reject", "md5 2"),
        ("host all bob samehost reject", "md5 2"),
        // One fitting alternative is enough.
        ("host all +staff,ann all trust", "trust 1"),
    ] {
        let hba = hba(&format!("{line}\nhost all all all md5"));
        assert_eq!(outcome(&hba, &visitor, &failed), expect, "{line}");
    }
}

#[test]
fn of_two_facts_a_failed_one_spares_the_other() {
    let hba = hba("host all +staff .example trust\nhost all +staff .example reject");
    let visitor = tcp("ann", "shop", "10.0.0.1");
    let facts = Facts {
        host_name: Answer::Failed,
        roles: Answer::NotAsked,
    };
    // The first line can no longer admit the client; the second still depends on the roles.
    assert_eq!(outcome(&hba, &visitor, &facts), "Roles");
    let list = ["ann".to_owned()];
    let facts = Facts {
        host_name: Answer::Failed,
        ..roles(&list)
    };
    assert_eq!(outcome(&hba, &visitor, &facts), "none");
}

#[test]
fn a_mapped_address_cannot_slip_past_a_reject() {
    check(
        "host all all 10.0.0.0/8 reject\nhost all all all trust",
        &[
            (tcp("ann", "shop", "::ffff:10.0.0.1"), "reject 1"),
            (tcp("ann", "shop", "::ffff:11.0.0.1"), "trust 2"),
        ],
    );
}

/// After the example of the PostgreSQL manual, section 21.1, in our own words, without GSS and ident.
const MANUAL: &str = r#"# Anybody on this machine may be anybody.
local   all             all                                     trust
host    all             all             127.0.0.1/32            trust
host    all             all             ::1/128                 trust
# The same with a mask in its own column, for one more machine.
host    all             all             127.0.0.2 255.255.255.255  trust
# Databases whose names begin with "db" and have two to four digits, by name of host.
host    "/^db\d{2,4}$"  all             localhost               trust
# From one network, the database postgres with a password.
host    postgres        all             192.168.93.0/24         md5
host    postgres        all             192.168.12.10/32        scram-sha-256
# The hosts of a domain.
host    all             mike            .example.com            md5
host    all             all             .example.com            scram-sha-256
# One bad machine, then the rest of the world over TLS.
host    all             all             192.168.54.1/32         reject
hostssl all             /^.*helpdesk$   192.168.0.0/16          scram-sha-256
# Users have databases of their own; administrators and members of support have all.
host    sameuser        all             172.16.0.0/12           md5
host    all             "/^adm\d+$",+support 172.16.0.0/12      md5
host    db1,db2,"/^db3$" all            172.16.0.0/12           scram-sha-256
"#;

#[test]
fn the_example_of_the_manual_works() {
    let hba = hba(MANUAL);
    let list: Vec<String> = ["eve", "support"].map(str::to_owned).into();
    for (visitor, facts, expect) in [
        (unix("ann", "shop"), Facts::default(), "trust 2"),
        (tcp("ann", "shop", "127.0.0.1"), Facts::default(), "trust 3"),
        (tcp("ann", "shop", "::1"), Facts::default(), "trust 4"),
        (tcp("ann", "shop", "127.0.0.2"), Facts::default(), "trust 6"),
        (
            tcp("ann", "db1234", "127.0.0.3"),
            named("localhost"),
            "trust 8",
        ),
        (
            tcp("ann", "db12345", "127.0.0.3"),
            named("localhost"),
            "none",
        ),
        (
            tcp("ann", "postgres", "192.168.93.7"),
            Facts::default(),
            "md5 10",
        ),
        (
            tcp("ann", "postgres", "192.168.12.10"),
            Facts::default(),
            "scram-sha-256 11",
        ),
        (
            tcp("mike", "shop", "8.8.8.8"),
            named("a.example.com"),
            "md5 13",
        ),
        (
            tcp("ann", "shop", "8.8.8.8"),
            named("a.example.com"),
            "scram-sha-256 14",
        ),
        (tcp("ann", "shop", "8.8.8.8"), named("example.com"), "none"),
        (tcp("ann", "shop", "192.168.54.1"), named("x"), "reject 16"),
        (
            tls("a-helpdesk", "shop", "192.168.1.1"),
            named("x"),
            "scram-sha-256 17",
        ),
        (tcp("a-helpdesk", "shop", "192.168.1.1"), named("x"), "none"),
        (tcp("ann", "ann", "172.17.0.1"), named("x"), "md5 19"),
        (tcp("adm7", "shop", "172.17.0.1"), named("x"), "md5 20"),
        (
            tcp("eve", "shop", "172.17.0.1"),
            Facts {
                host_name: Answer::Known(None),
                ..roles(&list)
            },
            "md5 20",
        ),
        (
            tcp("ann", "db3", "172.17.0.1"),
            Facts {
                host_name: Answer::Known(None),
                ..roles(&list[..1])
            },
            "scram-sha-256 21",
        ),
    ] {
        assert_eq!(outcome(&hba, &visitor, &facts), expect, "{visitor:?}");
    }
}

#[test]
fn a_file_of_pgbouncer_works_unchanged() {
    check(
        "# ws\n \t \n\t\t\t# z\n\
         local\t\tdbp\tall\t\t\tpeer\n\
         local\tall\tall\tmd5\n\
         hostssl\tall\tall\t10.0.0.0/8\tcert\n\
         host\t\tall\tall\t127.0.0.0  255.255.255.0\tpassword\n\
         host\ttmp1,all\tuser1,user2 , user3\t16.0.0.0/8\tmd5\n\
         host\t\"all\"\t\"all\"\t19.0.0.0/8\tcert\n\
         host\t\"q1\"\"q2\"\t\"a , b\"\t19.0.0.0/8\tcert # comment\n\
         host\tmdb2\tmuser\t128.0.0.0/7\tscram-sha-256\n\
         host\tmdb4\tmuser\tall\treject\n\
         host\tall\tall\t20.0.0.0/8\tldap ldapurl=\"ldap://127.0.0.1:1389/dc=x,dc=y?uid?sub\"\n",
        &[
            (unix("ann", "dbp"), "peer 4"),
            (unix("ann", "shop"), "md5 5"),
            (tls("ann", "shop", "10.0.0.1"), "cert 6"),
            (tcp("ann", "shop", "10.0.0.1"), "none"),
            (tcp("ann", "shop", "127.0.0.9"), "password 7"),
            (tcp("user3", "shop", "16.0.0.1"), "md5 8"),
            (tcp("user4", "shop", "16.0.0.1"), "none"),
            (tcp("all", "all", "19.0.0.1"), "cert 9"),
            (tcp("ann", "shop", "19.0.0.1"), "none"),
            (tcp("a , b", "q1\"q2", "19.0.0.1"), "cert 10"),
            (tcp("muser", "mdb2", "129.0.0.1"), "scram-sha-256 11"),
            (tcp("muser", "mdb4", "::1"), "reject 12"),
            (tcp("ann", "shop", "20.0.0.1"), "ldap 13"),
        ],
    );
}

#[test]
fn every_line_is_explained_up_to_the_one_that_decides() {
    let hba = hba("local  all  all  peer\n\
         host   all  all  10.0.0.0/8  md5  # offices\n\
         host   web  all  all  md5\n\
         host   all  bob  all  md5\n\
         hostssl all all all md5\n\
         host   all  +staff .example trust\n\
         host   all  all  all  reject\n\
         host   all  all  all  trust\n");
    let visitor = tcp("ann", "shop", "192.168.0.1");
    let failed = Facts {
        host_name: Answer::Failed,
        roles: Answer::Failed,
    };
    let expect = "\
hba:1: local  all  all  peer
    does not fit: the line is for Unix sockets, the connection came over TCP
hba:2: host   all  all  10.0.0.0/8  md5
    does not fit: the client's address 192.168.0.1 is not in the address column
hba:3: host   web  all  all  md5
    does not fit: the database \"shop\" of user \"ann\" is not in the database column
hba:4: host   all  bob  all  md5
    does not fit: the user \"ann\" is not in the user column
hba:5: hostssl all all all md5
    does not fit: the line is for TCP with TLS, which the connection is not
hba:6: host   all  +staff .example trust
    does not fit: the name of the client's host could not be found out; the line counts as not fitting then
hba:7: host   all  all  all  reject
    fits: every column fits: the connection is refused
refused by hba:7";
    assert_eq!(hba.explain(&visitor, &failed).to_string(), expect);
    assert_eq!(hba.explain_all(&visitor, &failed).lines.len(), 8);

    let open = hba.explain(&visitor, &Facts::default()).to_string();
    let end = "    open: it depends on the name of the client's host\n\
               undecided: the name of the client's host must be looked up";
    assert!(open.ends_with(end), "{open}");
}

#[test]
fn certificates_are_explained() {
    let hba = hba("hostssl all all all scram-sha-256 clientcert=verify-full");
    let why = |transport| {
        let visitor = Visitor {
            transport,
            ..tcp("ann", "shop", "::1")
        };
        hba.explain(&visitor, &Facts::default()).lines[0]
            .why
            .clone()
    };
    assert!(why(Transport::Tls).ends_with("there is none, so the login fails"));
    assert!(why(Transport::TlsVerified).ends_with("whose name leads to the user"));
}

// Small worlds make lines fit often and facts matter often.

fn some_line() -> impl Strategy<Value = String> {
    let pick = |words: &'static [&'static str]| proptest::sample::select(words);
    (
        pick(&["local", "host", "hostssl", "hostnossl"]),
        pick(&[
            "all",
            "shop",
            "web",
            "sameuser",
            "samerole",
            "samerole,web",
            "/^s",
        ]),
        pick(&["all", "ann", "bob", "+staff", "+staff,bob", "/n"]),
        pick(&[
            "all",
            "10.0.0.0/8",
            "::/0",
            ".example",
            "db.example",
            "samenet",
        ]),
        pick(&["trust", "reject", "md5", "reject"]),
    )
        .prop_map(|(kind, database, user, address, method)| {
            let address = if kind == "local" { "" } else { address };
            format!("{kind} {database} {user} {address} {method}\n")
        })
}

fn some_visitor() -> impl Strategy<Value = Visitor<'static>> {
    let pick = |words: &'static [&'static str]| proptest::sample::select(words);
    (
        pick(&["ann", "bob"]),
        pick(&["shop", "web", "ann", "staff"]),
        pick(&["10.0.0.1", "11.0.0.1", "::1", "unix"]),
        any::<bool>(),
    )
        .prop_map(|(user, database, ip, encrypted)| match (ip, encrypted) {
            ("unix", _) => unix(user, database),
            (ip, true) => tls(user, database, ip),
            (ip, false) => tcp(user, database, ip),
        })
}

/// All possible answers to the facts.
fn worlds() -> Vec<(Option<&'static str>, Vec<String>)> {
    let names = [None, Some("db.example"), Some("x.example"), Some("other")];
    let roles: [&[&str]; 4] = [&[], &["staff"], &["shop", "ann"], &["web", "staff", "bob"]];
    let owned = |list: &[&str]| list.iter().map(|role| (*role).to_owned()).collect();
    names
        .into_iter()
        .flat_map(|name| roles.map(|list| (name, owned(list))))
        .collect()
}

fn lets_in(decision: &Decision<'_>) -> bool {
    matches!(decision, Decision::Rule(rule) if !matches!(rule.method(), Method::Reject))
}

proptest! {
    #[test]
    fn the_first_line_that_fits_wins_whatever_follows(
        first in some_line(),
        rest in proptest::collection::vec(some_line(), 0..6),
        visitor in some_visitor(),
    ) {
        let alone = outcome(&hba(&first), &visitor, &Facts::default());
        let all = outcome(&hba(&format!("{first}{}", rest.concat())), &visitor, &Facts::default());
        if alone == "none" {
            let behind = outcome(&hba(&format!("\n{}", rest.concat())), &visitor, &Facts::default());
            prop_assert_eq!(all, behind);
        } else {
            prop_assert_eq!(all, alone);
        }
    }

    #[test]
    fn asking_step_by_step_ends_where_knowing_all_does(
        lines in proptest::collection::vec(some_line(), 0..6),
        visitor in some_visitor(),
    ) {
        let hba = hba(&lines.concat());
        for (name, list) in worlds() {
            let known = Facts { host_name: Answer::Known(name), roles: Answer::Known(&list) };
            let mut facts = Facts::default();
            for _ in 0..2 {
                match hba.decide(&visitor, &facts) {
                    Decision::Needs(Fact::HostName) => facts.host_name = known.host_name,
                    Decision::Needs(Fact::Roles) => facts.roles = known.roles,
                    _ => break,
                }
            }
            prop_assert_eq!(outcome(&hba, &visitor, &facts), outcome(&hba, &visitor, &known));
        }
    }

    #[test]
    fn ignorance_lets_nobody_in_whom_some_answer_would_refuse(
        lines in proptest::collection::vec(some_line(), 0..6),
        visitor in some_visitor(),
    ) {
        let hba = hba(&lines.concat());
        let failed = Facts { host_name: Answer::Failed, roles: Answer::Failed };
        if lets_in(&hba.decide(&visitor, &failed)) {
            for (name, list) in worlds() {
                let known = Facts { host_name: Answer::Known(name), roles: Answer::Known(&list) };
                prop_assert!(lets_in(&hba.decide(&visitor, &known)));
            }
        }
    }

    #[test]
    fn explaining_and_deciding_agree(
        lines in proptest::collection::vec(some_line(), 0..6),
        visitor in some_visitor(),
    ) {
        let hba = hba(&lines.concat());
        let facts = Facts { host_name: Answer::Failed, ..Facts::default() };
        let told = hba.explain(&visitor, &facts);
        let last = told.lines.last().map(|line| (line.outcome, line.place.line));
        match hba.decide(&visitor, &facts) {
            Decision::NoRule => prop_assert!(told.lines.iter().all(|line| line.outcome == Outcome::Misses)),
            Decision::Needs(_) => prop_assert_eq!(last.map(|pair| pair.0), Some(Outcome::Open)),
            Decision::Rule(rule) => prop_assert_eq!(last, Some((Outcome::Fits, rule.place().line))),
        }
    }
}
