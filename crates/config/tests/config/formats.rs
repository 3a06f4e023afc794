//! Tests of both formats and the environment.

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_config::{AuthType, HostAddr, ListenAddr, Origin, PoolMode, SslMode, Upstream, upstream};

use crate::{ini, lines, load_files, native, no_file, pairs, to};

/// The usual distribution file with its comments, including the published benchmark settings P4.
const DISTRIBUTION: &str = "\
;;;
;;; PgBouncer configuration file
;;;

;; database name = connect string
[databases]

;forcedb = host=localhost port=300 user=baz password=foo
shop = host=10.0.0.5,10.0.0.6 port=5433 dbname=shop_prod pool_size=40 reserve_pool=5
report = host=/var/run/postgresql user=reporter password='it''s = secret' connect_query='SELECT 1; SELECT ''x'''
'odd name' = host=[::1] server_lifetime=0 query_wait_timeout=0 timezone='Europe/Berlin'
* = host=db.example.org pool_mode=Session

[users]
alice = pool_mode=statement max_user_connections=10

[peers]
1 = host=/tmp/pgbouncer1
2 = host=10.1.1.1 port=6433

[pgbouncer]
logfile = /var/log/postgresql/pgbouncer.log
pidfile = /var/run/postgresql/pgbouncer.pid
listen_addr = localhost, 10.0.0.1 ,*
listen_port = 6432
unix_socket_dir = /var/run/postgresql
unix_socket_mode = 0770
auth_type = SCRAM-SHA-256
auth_file = /etc/pgbouncer/userlist.txt
admin_users = user2, someadmin, otheradmin
pool_mode=TRANSACTION
ignore_startup_parameters = extra_float_digits, options
default_pool_size = 10
server_idle_timeout = 0.5
server_check_query = select 1
tcp_user_timeout = 12500
service_name = bouncer
# another comment";

#[test]
fn a_distribution_ini_means_what_it_means_to_pgbouncer() {
    let loaded = ini(DISTRIBUTION).unwrap();
    let global = &loaded.settings.global;
    assert_eq!(global.pool_mode, PoolMode::Transaction);
    assert_eq!(global.auth_type, AuthType::ScramSha256);
    assert_eq!(
        global.listen_addr,
        [
            ListenAddr::Name("localhost".into()),
            ListenAddr::Ip(Ipv4Addr::new(10, 0, 0, 1).into()),
            ListenAddr::All
        ]
    );
    assert_eq!(global.unix_socket_mode, 0o770);
    assert_eq!(global.admin_users, ["user2", "someadmin", "otheradmin"]);
    assert_eq!(global.server_idle_timeout, Some(Duration::from_millis(500)));
    assert_eq!(global.tcp_user_timeout, Some(Duration::from_millis(12_500)));
    assert_eq!(global.query_timeout, None);
    assert_eq!(global.check_query(), Some("select 1"));
    assert_eq!(global.job_name, "bouncer");
    assert_eq!(global.conffile, "pgbouncer.ini");

    let shop = &loaded.settings.databases["shop"];
    assert_eq!(
        (shop.port, shop.pool_size, shop.reserve_pool_size),
        (5433, Some(weir_config::PoolSize::Fixed(40)), Some(5))
    );
    assert_eq!(shop.host.len(), 2);
    let report = &loaded.settings.databases["report"];
    assert_eq!(report.password.as_ref().unwrap().expose(), "it's = secret");
    assert_eq!(
        report.connect_query.as_deref(),
        Some("SELECT 1; SELECT 'x'")
    );
    assert_eq!(
        report.host,
        [HostAddr::UnixDir("/var/run/postgresql".into())]
    );
    let odd = loaded.settings.pool("odd name", "bob").unwrap();
    assert_eq!(odd.query_wait_timeout, None);
    assert_eq!(odd.server_lifetime, Duration::ZERO);
    assert_eq!(odd.startup, [("timezone", "Europe/Berlin".to_owned())]);
    assert_eq!(loaded.settings.peers[&2].port, 6433);
    assert_eq!(
        loaded.notes,
        ["[peers] without peer_id: cancel requests are not forwarded"]
    );
}

#[test]
fn published_settings_load_with_tls_and_without() {
    let settings = "[databases]\nbench = host=127.0.0.1\n[pgbouncer]\npool_mode=transaction\n\
        default_pool_size=50\nmax_client_conn=1000\nreserve_pool_size=0\nmin_pool_size=0\n\
        auth_type=plain\nauth_file=users\nlisten_port=6432\nserver_check_query=SELECT 1\n\
        max_prepared_statements=256\n";
    let loaded = ini(settings).unwrap();
    assert_eq!(loaded.settings.global.max_client_conn, 1000);
    assert_eq!(loaded.settings.global.server_tls_sslmode, SslMode::Prefer);
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
    let tls = format!(
        "{settings}client_tls_sslmode=require\nclient_tls_key_file=k\nclient_tls_cert_file=c\n\
         server_tls_sslmode=require\n"
    );
    let loaded = ini(&tls).unwrap();
    assert_eq!(loaded.settings.global.client_tls().cert_file, "c");
    assert_eq!(
        loaded.settings.global.server_tls().sslmode,
        SslMode::Require
    );
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
}

#[test]
fn both_formats_give_the_same_settings() {
    let toml = r#"
        auth_type = "md5"
        auth_file = "u"
        strict_files = false
        listen_addr = ["127.0.0.1", "::1"]
        query_wait_timeout = "1.5min"
        server_idle_timeout = 0
        tcp_socket_buffer = "16KiB"
        tcp_user_timeout = 250
        unix_socket_mode = 0o700
        server_round_robin = true
        conffile = "x"
        [databases."*"]
        host = "/tmp"
        [databases.app]
        host = ["a", "b"]
        query_wait_timeout = "500ms"
        [users.u]
        pool_size = 3
    "#;
    let file = "[users]\nu = pool_size=3\n[databases]\n* = host=/tmp\napp = host=a,b query_wait_timeout=0.5\n\
        [pgbouncer]\nauth_file = u\nlisten_addr = 127.0.0.1,::1\nquery_wait_timeout = 90\n\
        server_idle_timeout = 0\ntcp_socket_buffer = 0x4000\ntcp_user_timeout=250\nunix_socket_mode=0700\n\
        server_round_robin=1\nconffile=x\n";
    assert_eq!(native(toml).unwrap().settings, ini(file).unwrap().settings);
}

#[test]
fn native_files_ask_for_scram_by_default() {
    assert_eq!(
        native("auth_file = 'u'").unwrap().settings.global.auth_type,
        AuthType::ScramSha256
    );
    assert_eq!(
        ini("[pgbouncer]\nauth_file = u")
            .unwrap()
            .settings
            .global
            .auth_type,
        AuthType::Md5
    );
}

#[test]
fn the_environment_wins_over_the_file() {
    let file =
        "[pgbouncer]\nauth_file=u\nworkers=3\npool_mode=session\nclient_tls_sslmode=require\n";
    let env = [
        ("WEIR_WORKERS", "1"),
        ("WEIR_QUERY_TIMEOUT", "2min"),
        ("WEIR_LOG_STATS", "off"),
        ("WEIR_CLIENT_TLS_SSLMODE", "disable"),
        ("PATH", "/bin"),
    ];
    let loaded = load_files("a.ini", &[("a.ini", file)], &env).unwrap();
    assert_eq!(loaded.settings.global.workers, 1);
    assert_eq!(
        loaded.settings.global.query_timeout,
        Some(Duration::from_secs(120))
    );
    assert!(!loaded.settings.global.log_stats);
    assert_eq!(
        loaded.sources["workers"],
        Origin::Environment("WEIR_WORKERS".into())
    );
    assert_eq!(loaded.sources["pool_mode"], Origin::File("a.ini".into(), 4));
}

#[test]
fn variables_of_kubernetes_and_of_the_command_line_are_let_be() {
    let env = [
        ("WEIR_SERVICE_HOST", "10.0.0.1"),
        ("WEIR_SERVICE_PORT", "6432"),
        ("WEIR_SERVICE_PORT_PG", "6432"),
        ("WEIR_PORT", "tcp://10.0.0.1:6432"),
        ("WEIR_PORT_6432_TCP", "tcp://10.0.0.1:6432"),
        ("WEIR_PORT_6432_TCP_ADDR", "10.0.0.1"),
        ("WEIR_ADMIN_SERVICE_HOST", "10.0.0.1"),
        ("WEIR_CONFIG", "/etc/weir.toml"),
        ("WEIR_TEST_X", "1"),
    ];
    let result = load_files("a.ini", &[("a.ini", "[pgbouncer]\nauth_file=u\n")], &env);
    assert_eq!(lines(result), "no mistake");
}

#[test]
fn includes_go_on_in_the_section_they_stand_in() {
    let files = [
        (
            "main.ini",
            "[pgbouncer]\n%include common.ini\npool_mode = session\n%include db.ini\n",
        ),
        ("common.ini", "auth_file = u\ndefault_pool_size = 7"),
        ("db.ini", "[databases]\na = host=x\n"),
    ];
    let loaded = load_files("main.ini", &files, &[]).unwrap();
    assert_eq!(
        loaded.settings.global.default_pool_size,
        weir_config::PoolSize::Fixed(7)
    );
    assert!(loaded.settings.databases.contains_key("a"));
    assert_eq!(
        loaded.sources["default_pool_size"],
        Origin::File("common.ini".into(), 2)
    );
}

#[test]
fn a_section_that_begins_again_starts_from_the_defaults_but_says_so() {
    let text = "[pgbouncer]\nauth_file=u\npool_mode=statement\n[databases]\na=\n\
        [pgbouncer]\nauth_file=v\nauth_type=scram-sha-256\n[databases]\nb=\n";
    let loaded = ini(text).unwrap();
    assert_eq!(loaded.settings.global.pool_mode, PoolMode::Session);
    assert_eq!(loaded.settings.databases.len(), 2);
    assert_eq!(loaded.notes.len(), 1, "{:?}", loaded.notes);
}

#[test]
fn upstream_is_a_whole_configuration() {
    let loaded = upstream(
        &to("db.example.org:5433"),
        &mut no_file,
        pairs(&[("WEIR_DEFAULT_POOL_SIZE", "9")]),
    )
    .unwrap();
    let settings = &loaded.settings;
    assert!(settings.trust_loopback);
    assert!(
        settings
            .global
            .listen_addr
            .iter()
            .all(ListenAddr::is_loopback)
    );
    let pool = settings.pool("shop", "alice").unwrap();
    assert_eq!(pool.hosts, [HostAddr::Name("db.example.org".into())]);
    assert_eq!((pool.port, pool.pool_size), (5433, 9));
    assert_eq!(
        (pool.user.as_str(), pool.dbname.as_str()),
        ("alice", "shop")
    );
    assert_eq!(pool.pool_mode, PoolMode::Transaction);
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);

    for (text, port) in [
        ("[::1]:6000", 6000),
        ("[::1]", 5432),
        ("::1", 5432),
        ("/tmp", 5432),
    ] {
        let pool = upstream(&to(text), &mut no_file, pairs(&[]))
            .unwrap()
            .settings
            .pool("x", "y")
            .unwrap();
        assert_eq!(pool.port, port, "{text}");
    }
    let env = [
        ("WEIR_AUTH_TYPE", "md5"),
        ("WEIR_AUTH_FILE", "u"),
        ("WEIR_LISTEN_ADDR", "*"),
    ];
    assert!(
        !upstream(&to("db"), &mut no_file, pairs(&env))
            .unwrap()
            .settings
            .trust_loopback
    );
}

#[test]
fn a_user_of_the_upstream_logs_in_by_scram_and_is_the_administrator() {
    let ann = Upstream {
        user: Some("ann".to_owned()),
        sslmode: Some("require".to_owned()),
        ..to("db")
    };
    let loaded = upstream(&ann, &mut no_file, pairs(&[])).unwrap();
    let global = &loaded.settings.global;
    assert!(!loaded.settings.trust_loopback);
    assert_eq!(global.auth_type, AuthType::ScramSha256);
    assert_eq!(global.admin_users, ["ann"]);
    assert_eq!(global.server_tls_sslmode, SslMode::Require);
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
    let changed = loaded.set("pool_mode", "session").unwrap();
    assert_eq!(changed.settings.upstream_user.as_deref(), Some("ann"));
    // A password is asked for, so other machines may be let in.
    let far = pairs(&[("WEIR_LISTEN_ADDR", "0.0.0.0")]);
    assert!(upstream(&ann, &mut no_file, far).is_ok());
    let both = pairs(&[("WEIR_AUTH_FILE", "users")]);
    let told = lines(upstream(&ann, &mut no_file, both));
    assert!(told.contains("exclude each other"), "{told}");
}

#[test]
fn oddities_that_pgbouncer_accepts_are_accepted() {
    let text = "[databases] ; ours
a = host = 'x' port= 5 pool_size=-1 server_lifetime=-1 min_pool_size=010
[users]\t# theirs
u = max_user_connections=-1
[pgbouncer]
auth_file = u
log_stats = 2
default_pool_size = 010
max_user_connections = 7
";
    let settings = ini(text).unwrap().settings;
    assert!(settings.global.log_stats);
    assert_eq!(
        settings.global.default_pool_size,
        weir_config::PoolSize::Fixed(8)
    );
    let pool = settings.pool("a", "u").unwrap();
    assert_eq!(
        (pool.port, pool.pool_size, pool.max_user_connections),
        (5, 8, 7)
    );
    assert_eq!(
        (pool.min_pool_size, pool.server_lifetime.as_secs()),
        (10, 3600)
    );
}

#[test]
fn the_minimal_example_of_pgbouncer_loads_with_notes() {
    let loaded = ini(";;; almost minimal\n[databases]\n;* =\n\n[pgbouncer]\n;logfile =\n").unwrap();
    assert_eq!(
        loaded.notes,
        [
            "auth_type md5 needs auth_file or auth_user; without them no client can log in",
            "auth_type md5: an md5 secret is enough to log in, without the password; prefer scram-sha-256",
            "no databases are configured, so only the console can be reached"
        ]
    );
}
