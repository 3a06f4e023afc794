//! `[listeners]`: further ports and sockets.

use weir_config::{ListenerRole, PoolMode};

use crate::{ini, lines, native, said};

const INI: &str = "\
[databases]
shop = host=h
[listeners]
sessions = listen_port=7001 pool_mode=session
local = listen_port=7002 listen_addr='' unix_socket_dir=/run/weir
reads = listen_port=7003 listen_addr=10.0.0.5 unix_socket_dir='' role=Replica
[pgbouncer]
auth_file = u
listen_addr = 127.0.0.1
unix_socket_dir = /tmp
pool_mode = transaction
";

#[test]
fn a_listener_inherits_its_addresses_and_may_have_its_own() {
    let settings = ini(INI).unwrap().settings;
    let opened: Vec<_> = settings
        .listening()
        .iter()
        .map(|own| {
            let addresses: Vec<_> = own.listen_addr.iter().map(ToString::to_string).collect();
            format!(
                "{} {} {}",
                addresses.join(","),
                own.listen_port,
                own.unix_socket_dir
            )
        })
        .collect();
    assert_eq!(
        opened,
        [
            "127.0.0.1 6432 /tmp",
            " 7002 /run/weir",
            "10.0.0.5 7003 ",
            "127.0.0.1 7001 /tmp"
        ]
    );
    assert_eq!(settings.listener(6432), None);
    let reads = settings.listener(7003).unwrap();
    assert_eq!(
        (reads.role, reads.pool_mode),
        (Some(ListenerRole::Replica), None)
    );
    let mode = settings.listener(7001).and_then(|own| own.pool_mode);
    assert_eq!(mode, Some(PoolMode::Session));
    let pool = settings.pool_in("shop", "app", mode).unwrap();
    assert_eq!(pool.pool_mode, PoolMode::Session);
    assert_eq!(
        settings.pool("shop", "app").unwrap().pool_mode,
        PoolMode::Transaction
    );
}

#[test]
fn a_role_without_several_hosts_is_noted() {
    assert!(said(INI).contains(
        "pgbouncer.ini:6: listener \"reads\" has a role, but no database has several hosts; it changes nothing"
    ));
}

#[test]
fn listeners_that_cannot_be_told_apart_or_reached_are_refused() {
    let wrong = r#"auth_file = "u"
        listen_addr = "127.0.0.1"
        [listeners.a]
        listen_port = 6432
        [listeners.b]
        listen_port = 7001
        listen_addr = ""
        unix_socket_dir = ""
        [listeners.c]
        listen_port = 7001
        [listeners.d]
        role = "standby"
    "#;
    assert_eq!(
        lines(native(wrong)),
        "weir.toml:12: bad value \"standby\" for \"role\": must be one of auto, primary, replica\n"
    );
    let wrong = wrong.replace("standby", "primary");
    assert_eq!(
        lines(native(&wrong)),
        "\
weir.toml:4: listener \"a\" has port 6432, which the global listen_port has as well; Weir tells listeners apart by their ports
weir.toml:7: listener \"b\" has neither listen_addr nor unix_socket_dir, so no client can connect to it
weir.toml:10: listener \"c\" has port 7001, which listener \"b\" has as well; Weir tells listeners apart by their ports
weir.toml:11: listener \"d\" has port 6432, which listener \"a\" has as well; Weir tells listeners apart by their ports
"
    );
}
