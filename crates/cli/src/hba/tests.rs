//! Golden answers of `weir hba explain`.

use clap::Parser;
use expect_test::{Expect, expect};

use super::*;
use crate::args::{Cli, Command};

const RULES: &str = "\
local     all    all                    peer
hostssl   shop   +admins  10.1.0.0/16   cert
hostssl   shop   all      .app.example  scram-sha-256
host      web    /^svc_   10.1.0.0/16   trust
host      all    all      all           reject
";

fn said(line: &str) -> Said {
    let words = ["weir", "hba", "explain"].into_iter();
    let cli = Cli::try_parse_from(words.chain(line.split(' '))).unwrap();
    let Command::Hba(args::Hba::Explain(args)) = cli.command else {
        panic!("another command");
    };
    answer(&Hba::parse("hba", RULES).unwrap(), &args)
}

fn check(line: &str, exit: Exit, expect: Expect) {
    let said = said(line);
    let hint = said.hint.map(|hint| format!("({hint})\n"));
    expect.assert_eq(&format!("{}{}", said.text, hint.unwrap_or_default()));
    assert_eq!(said.exit, exit, "{line}");
}

#[test]
fn the_unix_socket_is_local() {
    check(
        "ann shop local",
        Exit::Ok,
        expect![[r#"
        hba:1: local     all    all                    peer
            fits: every column fits: the user has to log in by peer
        may log in by peer, hba:1
    "#]],
    );
}

#[test]
fn a_refusal_names_every_line_before_it() {
    check(
        "ann shop 192.0.2.1",
        Exit::Config,
        expect![[r#"
        hba:1: local     all    all                    peer
            does not fit: the line is for Unix sockets, the connection came over TCP
        hba:2: hostssl   shop   +admins  10.1.0.0/16   cert
            does not fit: the line is for TCP with TLS, which the connection is not
        hba:3: hostssl   shop   all      .app.example  scram-sha-256
            does not fit: the line is for TCP with TLS, which the connection is not
        hba:4: host      web    /^svc_   10.1.0.0/16   trust
            does not fit: the client's address 192.0.2.1 is not in the address column
        hba:5: host      all    all      all           reject
            fits: every column fits: the connection is refused
        refused by hba:5
    "#]],
    );
}

#[test]
fn a_role_that_matters_is_asked_for() {
    check(
        "ann shop 10.1.2.3 --tls",
        Exit::Usage,
        expect![[r#"
        hba:1: local     all    all                    peer
            does not fit: the line is for Unix sockets, the connection came over TCP
        hba:2: hostssl   shop   +admins  10.1.0.0/16   cert
            open: it depends on the roles of the user
        undecided: it depends on the roles of the user
        (give each role that the user is a member of by --role NAME, or --role none)
    "#]],
    );
    check(
        "ann shop 10.1.2.3 --cert --role staff --role admins",
        Exit::Ok,
        expect![[r#"
            hba:1: local     all    all                    peer
                does not fit: the line is for Unix sockets, the connection came over TCP
            hba:2: hostssl   shop   +admins  10.1.0.0/16   cert
                fits: every column fits: the user has to log in by cert, with a verified client certificate whose name leads to the user
            may log in by cert, hba:2
        "#]],
    );
    check(
        "ann shop 10.1.2.3 --tls --role admins",
        Exit::Config,
        expect![[r#"
            hba:1: local     all    all                    peer
                does not fit: the line is for Unix sockets, the connection came over TCP
            hba:2: hostssl   shop   +admins  10.1.0.0/16   cert
                fits: every column fits: the user has to log in by cert, but a verified client certificate is needed and there is none, so the login fails
            refused by hba:2: it wants a verified client certificate
            (with --cert the client has shown one)
        "#]],
    );
}

#[test]
fn a_host_name_that_matters_is_asked_for() {
    check(
        "ann shop 10.1.2.3 --tls --role none",
        Exit::Usage,
        expect![[r#"
            hba:1: local     all    all                    peer
                does not fit: the line is for Unix sockets, the connection came over TCP
            hba:2: hostssl   shop   +admins  10.1.0.0/16   cert
                does not fit: the user "ann" is not in the user column
            hba:3: hostssl   shop   all      .app.example  scram-sha-256
                open: it depends on the name of the client's host
            undecided: it depends on the name of the client's host
            (give the name that its address leads to, and that leads back to it, by --host NAME, or --host none)
        "#]],
    );
    check(
        "ann shop 10.1.2.3 --tls --role none --host a.app.example",
        Exit::Ok,
        expect![[r#"
            hba:1: local     all    all                    peer
                does not fit: the line is for Unix sockets, the connection came over TCP
            hba:2: hostssl   shop   +admins  10.1.0.0/16   cert
                does not fit: the user "ann" is not in the user column
            hba:3: hostssl   shop   all      .app.example  scram-sha-256
                fits: every column fits: the user has to log in by scram-sha-256
            may log in by scram-sha-256, hba:3
        "#]],
    );
    check(
        "ann shop 10.1.2.3 --tls --role none --host none",
        Exit::Config,
        expect![[r#"
            hba:1: local     all    all                    peer
                does not fit: the line is for Unix sockets, the connection came over TCP
            hba:2: hostssl   shop   +admins  10.1.0.0/16   cert
                does not fit: the user "ann" is not in the user column
            hba:3: hostssl   shop   all      .app.example  scram-sha-256
                does not fit: the client's address 10.1.2.3, which has no confirmed name, is not in the address column
            hba:4: host      web    /^svc_   10.1.0.0/16   trust
                does not fit: the database "shop" of user "ann" is not in the database column
            hba:5: host      all    all      all           reject
                fits: every column fits: the connection is refused
            refused by hba:5
        "#]],
    );
}

#[test]
fn trust_is_called_by_its_name() {
    check(
        "svc_7 web 10.1.2.3",
        Exit::Ok,
        expect![[r#"
        hba:1: local     all    all                    peer
            does not fit: the line is for Unix sockets, the connection came over TCP
        hba:2: hostssl   shop   +admins  10.1.0.0/16   cert
            does not fit: the line is for TCP with TLS, which the connection is not
        hba:3: hostssl   shop   all      .app.example  scram-sha-256
            does not fit: the line is for TCP with TLS, which the connection is not
        hba:4: host      web    /^svc_   10.1.0.0/16   trust
            fits: every column fits: the user is let in without proof
        let in without proof by hba:4
    "#]],
    );
}

#[test]
fn everybody_is_a_member_of_their_own_role() {
    check(
        "admins shop 10.1.2.3 --cert --role none",
        Exit::Ok,
        expect![[r#"
            hba:1: local     all    all                    peer
                does not fit: the line is for Unix sockets, the connection came over TCP
            hba:2: hostssl   shop   +admins  10.1.0.0/16   cert
                fits: every column fits: the user has to log in by cert, with a verified client certificate whose name leads to the user
            may log in by cert, hba:2
        "#]],
    );
}

#[test]
fn an_address_is_no_name() {
    for address in ["localhost", "10.0.0.0/8", ""] {
        let words = ["weir", "hba", "explain", "u", "d", address];
        assert!(Cli::try_parse_from(words).is_err(), "{address}");
    }
}
