//! Tests that every mistake is reported with its place, and that no message has a password.

use expect_test::{Expect, expect};
use weir_config::upstream;

use crate::{ini, lines, load_files, native, no_file, pairs, to};

fn check_ini(text: &str, expect: Expect) {
    expect.assert_eq(&lines(ini(text)));
}

fn check_native(text: &str, expect: Expect) {
    expect.assert_eq(&lines(native(text)));
}

#[test]
fn all_mistakes_of_an_ini_are_listed() {
    check_ini(
        "[databases]
app = host=10.0.0.1 port=99999 pool_mod=session
'un ended = host=x
[pgbouncer]
pool_modes = transaction
pool_mode = transactoin
max_client_conn = many
server_lifetime = -1
log_stats = yes
query_timeout = 30s
colour = blue
listen_addr = a b
unix_socket_mode = 0999
what is this
[pgbouncer2]
ignored = 1
[users
",
        expect![[r#"
            pgbouncer.ini:2: bad value "99999" for "port": must be from 1 to 65535
            pgbouncer.ini:2: unknown key "pool_mod" in section [databases]; did you mean "pool_mode"?
            pgbouncer.ini:3: the single quote of the key does not end
            pgbouncer.ini:5: unknown key "pool_modes" in section [pgbouncer]; did you mean "pool_mode"?
            pgbouncer.ini:6: bad value "transactoin" for "pool_mode": must be one of session, transaction, statement; did you mean "transaction"?
            pgbouncer.ini:7: bad value "many" for "max_client_conn": must be a whole number
            pgbouncer.ini:8: bad value "-1" for "server_lifetime": must be a time in seconds
            pgbouncer.ini:9: bad value "yes" for "log_stats": must be 0 or 1
            pgbouncer.ini:10: bad value "30s" for "query_timeout": must be a time in seconds
            pgbouncer.ini:11: unknown key "colour" in section [pgbouncer]
            pgbouncer.ini:12: bad value "a b" for "listen_addr": a host name has no blanks, colons, commas, slashes, brackets or quotes
            pgbouncer.ini:13: bad value "0999" for "unix_socket_mode": must be permissions in octal, such as 0770
            pgbouncer.ini:14: expected key = value, a [section] or a comment
            pgbouncer.ini:15: unknown section "pgbouncer2"; did you mean "pgbouncer"?
            pgbouncer.ini:17: a section must be [name] with nothing behind it; did you mean "users"?
        "#]],
    );
}

#[test]
fn all_mistakes_of_a_native_file_are_listed() {
    check_native(
        "pool_modes = 'transaction'
default_pool_size = -1
query_timeout = '5 parsecs'
log_stats = 2
auth_type = 5
listen_addr = ['127.0.0.1', 7]
database = 1
[pgbouncer]
pool_mode = 'session'
[databases]
flat = 'host=x'
[databases.app]
prt = 5432
host = '/tmp'
[users.bob]
pool_mode = 'sesion'
[peers.0]
host = 'x'
",
        expect![[r#"
            weir.toml:1: unknown key "pool_modes" at the top level; did you mean "pool_mode"?
            weir.toml:2: bad value "-1" for "default_pool_size": must be from 0 to 2147483647
            weir.toml:3: bad value "5 parsecs" for "query_timeout": must be a time in seconds
            weir.toml:4: bad value "2" for "log_stats": must be 0 or 1
            weir.toml:5: bad value "5" for "auth_type": must be one of any, trust, plain, md5, cert, hba, ldap, pam, scram-sha-256
            weir.toml:6: bad value "[…]" for "listen_addr": must be a list of texts
            weir.toml:7: unknown key "database" at the top level
            weir.toml:8: unknown table "pgbouncer"; global options stand at the top level, the others in [databases.NAME], [users.NAME], [pools.DATABASE.USER], [listeners.NAME] and [peers.ID]
            weir.toml:11: databases."flat" must be a table
            weir.toml:13: unknown key "prt" in [databases."app"]; did you mean "port"?
            weir.toml:16: bad value "sesion" for "pool_mode": must be one of session, transaction, statement; did you mean "session"?
            weir.toml:17: a peer's id must be from 1 to 65535, not "0"
        "#]],
    );
}

#[test]
fn mistakes_about_session_state_are_told_with_what_would_be_right() {
    check_ini(
        "[databases]
app = host=h session_stat=pin session_state=pinn max_pinned=many session_state_functions='f()'
[pgbouncer]
session_state = transaction
session_state_check = sample(0%)
session_state_functions = f, g h
listen_queue_size = -1
prepare_unnamed_afterwards = 1
[users]
u = session_state_check=always
",
        expect![[r#"
            pgbouncer.ini:2: unknown key "session_stat" in section [databases]; did you mean "session_state"?
            pgbouncer.ini:2: bad value "pinn" for "session_state": must be one of track, pin, refuse, off; did you mean "pin"?
            pgbouncer.ini:2: bad value "many" for "max_pinned": must be a whole number or auto
            pgbouncer.ini:2: bad value "f()" for "session_state_functions": a function must be NAME or SCHEMA.NAME, without parentheses
            pgbouncer.ini:4: bad value "transaction" for "session_state": must be one of track, pin, refuse, off
            pgbouncer.ini:5: bad value "sample(0%)" for "session_state_check": must be off, always or sample(N%) with N from 0.0001 to 100; did you mean "sample(1%)"?
            pgbouncer.ini:6: bad value "f, g h" for "session_state_functions": a function must be NAME or SCHEMA.NAME, without parentheses
            pgbouncer.ini:7: bad value "-1" for "listen_queue_size": must be from 0 to 1000000
            pgbouncer.ini:8: unknown key "prepare_unnamed_afterwards" in section [pgbouncer]; did you mean "prepare_unnamed_after"?
            pgbouncer.ini:10: unknown key "session_state_check" in section [users]
        "#]],
    );
    check_native(
        "session_state = false
session_state_check = 0.01
session_state_functions = ['a', 'b.c.d', 7]
[databases.a]
session_state_check = 'alway'
session_state_functions = ['f()']
",
        expect![[r#"
            weir.toml:1: bad value "false" for "session_state": must be one of track, pin, refuse, off
            weir.toml:2: bad value "0.01" for "session_state_check": must be off, always or sample(N%) with N from 0.0001 to 100
            weir.toml:3: bad value "[…]" for "session_state_functions": must be a list of texts
            weir.toml:5: bad value "alway" for "session_state_check": must be off, always or sample(N%) with N from 0.0001 to 100; did you mean "always"?
            weir.toml:6: bad value "[…]" for "session_state_functions": a function must be NAME or SCHEMA.NAME, without parentheses
        "#]],
    );
}

#[test]
fn broken_toml_is_told_with_its_line() {
    check_native(
        "pool_mode = 'session'\npool_mode = 'session'\n",
        expect![[r#"
            weir.toml:2: duplicate key
        "#]],
    );
    check_native(
        "a = \n[x\n",
        expect![[r#"
        weir.toml:2: unclosed table, expected `]`
        weir.toml:1: string values must be quoted, expected literal string
    "#]],
    );
}

#[test]
fn the_format_follows_the_name() {
    check_ini(
        "pool_mode = \"session\"\nlisten_port = 5\n",
        expect![[r#"
            pgbouncer.ini:1: a key stands before the first section; a native configuration file must end in .toml
        "#]],
    );
    check_ini(
        "",
        expect![[r#"
        pgbouncer.ini: no section [pgbouncer]; a native configuration file must end in .toml
    "#]],
    );
    check_ini(
        "[databases]\na = host=x\n",
        expect![[r#"
        pgbouncer.ini: no section [pgbouncer]; a native configuration file must end in .toml
    "#]],
    );
    expect![[r#"
        gone.ini: cannot read "gone.ini": no such file
    "#]]
    .assert_eq(&lines(load_files("gone.ini", &[], &[])));
    expect![[r#"
        gone.toml: cannot read "gone.toml": no such file
    "#]]
    .assert_eq(&lines(load_files("gone.toml", &[], &[])));
}

#[test]
fn contradictions_are_refused() {
    check_ini(
        "[pgbouncer]\nunix_socket_dir =\n",
        expect![[r#"
            pgbouncer.ini: listen_addr and unix_socket_dir are both empty, so no client can connect
        "#]],
    );
    check_ini(
        "[databases]\npgbouncer = host=x\nlocal = \n[pgbouncer]\nauth_file=u\nlisten_addr=*\nunix_socket_dir=\n",
        expect![[r#"
            pgbouncer.ini:2: the database name "pgbouncer" is reserved for the console
            pgbouncer.ini:3: database "local" has no host, and unix_socket_dir is empty as well
        "#]],
    );
    let long = format!(
        "[pgbouncer]\nauth_file=u\nunix_socket_dir = /{}\n",
        "x".repeat(100)
    );
    check_ini(
        &long,
        expect![[r#"
        pgbouncer.ini:3: unix_socket_dir must give a name of at most 107 bytes
    "#]],
    );
}

#[test]
fn environment_mistakes_name_the_variable() {
    let env = [
        ("WEIR_WORKER", "1"),
        ("WEIR_POOL_MODE", "fast"),
        ("WEIR_workers", "1"),
    ];
    let file = "[pgbouncer]\nauth_file=u\n";
    let result = load_files("a.ini", &[("a.ini", file)], &env);
    expect![[r#"
        environment: WEIR_POOL_MODE: bad value "fast" for "pool_mode": must be one of session, transaction, statement
        environment: unknown variable "WEIR_WORKER"; did you mean "WEIR_WORKERS"?
        environment: unknown variable "WEIR_workers"; did you mean "WEIR_WORKERS"?
    "#]].assert_eq(&lines(result));
}

#[test]
fn upstream_without_a_password_stays_on_loopback() {
    let result = upstream(
        &to("db:5432"),
        &mut no_file,
        pairs(&[("WEIR_LISTEN_ADDR", "0.0.0.0")]),
    );
    expect![[r#"
        environment: WEIR_LISTEN_ADDR: listen_addr reaches beyond loopback, where clients need a password: set WEIR_AUTH_TYPE and WEIR_AUTH_FILE, or use a configuration file
    "#]].assert_eq(&lines(result));
    for bad in [
        "", ":5432", "db:", "db:0", "db:70000", "a b:1", "a,b:1", "1:2:3:x",
    ] {
        let errors = upstream(&to(bad), &mut no_file, pairs(&[])).unwrap_err();
        assert_eq!(errors[0].file, "--upstream", "{bad}");
    }
}

#[test]
fn no_message_holds_a_password() {
    for text in [
        "[databases]\na = host=x password=hunter2 hunter2=x more=hunter2\n",
        "[databases]\na = host=x password=ab hunter2\n",
        "[databases]\na = host=x password='hunter2\n",
        "[databases]\na = host=x password='hunter2'port=5\n",
        "[databases]\na = host='x password=hunter2'\n",
        "[databases]\na = passwrd=hunter2\n",
        "[pgbouncer]\npassword = hunter2\nauth_ldap_option = hunter2\n",
    ] {
        let told = lines(ini(text));
        assert!(!told.contains("hunter2") && told != "no mistake", "{told}");
    }
    for text in [
        "[databases.a]\npassword = hunter2\n",
        "[databases.a]\npassword = 'hunter2\n",
        "[databases.a]\npassword = 'hunter2' x\n",
        "[databases.a]\npassword = ['hunter2']\n",
        "[databases.a]\npasswort = 'hunter2'\n",
        "[databases.a]\npassword = \"hunter2\\q\"\n",
        "[databases.a]\npassword = {a='hunter2'}\n",
    ] {
        let told = lines(native(text));
        assert!(!told.contains("hunter2") && told != "no mistake", "{told}");
    }
}

#[test]
fn a_version_is_no_number() {
    check_native(
        "pgbouncer_compat = 1.20\n",
        expect![[r#"
            weir.toml:1: bad value "1.20" for "pgbouncer_compat": must stand in quotes
        "#]],
    );
}
