//! Tests of the precedence of user, database and global, and of reloads.

use std::time::Duration;

use expect_test::expect;
use weir_config::{
    Change, PoolMode, SequenceValues, SessionState, SizingMode, StateCheck, diff, fd_budget,
};

use crate::ini;

#[test]
fn user_wins_over_database_wins_over_global() {
    let loaded = ini("[users]
u = pool_mode=statement pool_size=3 reserve_pool_size=4 query_wait_timeout=5 query_timeout=6 max_user_client_connections=8
forced = pool_size=33
[databases]
plain = host=h
own = host=h pool_mode=transaction pool_size=30 reserve_pool_size=40 query_wait_timeout=50
forced = host=h user=forced password=p
* = host=auto dbname=real
[pgbouncer]
auth_file = u
query_wait_timeout = 500
")
    .unwrap();
    let row = |database, user| {
        let pool = loaded.settings.pool(database, user).unwrap();
        let wait = pool.query_wait_timeout.map(|time| time.as_secs());
        (pool.pool_mode, pool.pool_size, pool.reserve_pool_size, wait)
    };
    assert_eq!(row("plain", "x"), (PoolMode::Session, 20, 0, Some(500)));
    assert_eq!(row("own", "x"), (PoolMode::Transaction, 30, 40, Some(50)));
    assert_eq!(row("plain", "u"), (PoolMode::Statement, 3, 4, Some(5)));
    assert_eq!(row("own", "u"), (PoolMode::Statement, 3, 4, Some(5)));

    // With a forced user the pool is that user's; the client's limits stay the client's.
    let pool = loaded.settings.pool("forced", "u").unwrap();
    assert_eq!((pool.pool_size, pool.max_user_client_connections), (33, 8));
    assert_eq!(pool.query_timeout, Some(Duration::from_secs(6)));
    assert!(pool.is_user_forced && pool.user == "forced");
    assert_eq!(pool.password.unwrap().expose(), "p");

    let auto = loaded.settings.pool("anything", "x").unwrap();
    assert!(auto.is_auto && auto.dbname == "real" && auto.database == "anything");
    for name in ["", "pgbouncer", &"x".repeat(64)] {
        assert!(loaded.settings.pool(name, "x").is_none(), "{name}");
    }
}

#[test]
fn session_state_is_set_for_all_per_database_and_per_user() {
    let loaded = ini("[users]
u = session_state=Refuse sequence_values=Refuse max_pinned=3
[databases]
plain = host=h
own = host=h session_state=pin session_state_check=always session_state_functions='f, App.G' sequence_values=learn max_pinned=0 prepare_unnamed_after=2
[pgbouncer]
auth_file = u
session_state = off
session_state_check = sample(0.5%)
session_state_functions = Audit.Begin
sequence_values = pin
max_pinned = 7
prepare_unnamed_after = 5
listen_queue_size = 20
")
    .unwrap();
    let row = |database, user| {
        let pool = loaded.settings.pool(database, user).unwrap();
        let functions: Vec<_> = pool
            .session_state_functions
            .iter()
            .map(ToString::to_string)
            .collect();
        format!(
            "{} {} {} {} {} {}",
            pool.session_state,
            pool.session_state_check,
            functions.join(","),
            pool.sequence_values,
            pool.max_pinned,
            pool.prepare_unnamed_after
        )
    };
    assert_eq!(row("plain", "x"), "off sample(0.5%) audit.begin pin 7 5");
    assert_eq!(row("own", "x"), "pin always f,app.g learn 0 2");
    assert_eq!(
        row("plain", "u"),
        "refuse sample(0.5%) audit.begin refuse 3 5"
    );
    assert_eq!(row("own", "u"), "refuse always f,app.g refuse 3 2");
    assert_eq!(loaded.settings.global.listen_queue_size, 20);
}

#[test]
fn limits_of_a_pool_on_pinned_and_waiting_clients_go_by_its_own_size() {
    let loaded = ini("[users]
u = max_pinned=auto max_waiting=30
v = pool_size=4
[databases]
plain = host=h
small = host=h pool_size=1
all = host=h pool_size=0 max_waiting=20
own = host=h max_pinned=2
finds = host=h pool_size=auto
[pgbouncer]
auth_file = u
max_waiting = 10
pool_size_max = 50
")
    .unwrap();
    let row = |database, user| {
        let pool = loaded.settings.pool(database, user).unwrap();
        (pool.pool_size, pool.max_pinned, pool.max_waiting)
    };
    assert_eq!(row("plain", "x"), (20, 19, 10));
    assert_eq!(row("plain", "v"), (4, 3, 10));
    assert_eq!(row("small", "x"), (1, 1, 10));
    assert_eq!(row("all", "x"), (0, 0, 20));
    assert_eq!(row("own", "x"), (20, 2, 10));
    assert_eq!(row("own", "u"), (20, 19, 30));
    assert_eq!(row("finds", "x"), (20, 19, 10));
}

#[test]
fn options_about_session_state_that_nobody_heeds_are_noted() {
    let notes = |databases: &str, rest: &str| {
        let text = format!(
            "[databases]\n{databases}\n[pgbouncer]\nauth_type=scram-sha-256\nauth_file=u\n\
             session_state_check=always\nsession_state_functions=f\nsequence_values=pin\n{rest}"
        );
        ini(&text).unwrap().notes.join("\n")
    };
    let transaction = "pool_mode=transaction";
    expect![[r#"
        session_state_check is never used: it needs pool_mode transaction or statement, and session_state track or refuse
        session_state_functions is never used: it needs pool_mode transaction or statement, and session_state track, pin or refuse
        sequence_values is never used: it needs pool_mode transaction or statement, and session_state track"#]]
    .assert_eq(&notes("* = host=h", ""));
    expect![[r#"
        session_state_check is never used: it needs pool_mode transaction or statement, and session_state track or refuse
        sequence_values is never used: it needs pool_mode transaction or statement, and session_state track"#]]
    .assert_eq(&notes("* = host=h session_state=pin", transaction));
    assert_eq!(
        notes("a = host=h session_state=off\n* = host=h", transaction),
        ""
    );
    assert_eq!(
        notes("a = host=h\n[users]\nu = pool_mode=statement", ""),
        ""
    );
    assert_eq!(
        notes("", ""),
        "no databases are configured, so only the console can be reached"
    );
}

#[test]
fn session_state_follows_its_client_unless_told_otherwise() {
    let loaded = ini("[databases]\na = host=h\n[pgbouncer]\nauth_file = u\n").unwrap();
    let pool = loaded.settings.pool("a", "x").unwrap();
    assert_eq!(pool.session_state, SessionState::Track);
    assert_eq!(pool.sequence_values, SequenceValues::Learn);
    assert_eq!(pool.session_state_check, StateCheck::Off);
    assert!(pool.session_state_functions.is_empty());
    // All servers of the pool but one.
    assert_eq!((pool.max_pinned, pool.prepare_unnamed_after), (19, 0));
    assert_eq!(pool.max_waiting, 0);
    assert_eq!(loaded.settings.global.listen_queue_size, 0);
    assert_eq!(loaded.settings.global.listen_queue_bytes, 64 << 20);
}

#[test]
fn without_a_fallback_there_is_no_such_database() {
    let loaded = ini("[databases]\na = host=h\n[pgbouncer]\nauth_file = u\n").unwrap();
    assert!(loaded.settings.pool("b", "x").is_none());
    assert!(loaded.settings.pool("*", "x").is_none());
}

#[test]
fn no_host_means_the_unix_socket() {
    let loaded =
        ini("[databases]\na =\n[pgbouncer]\nauth_file = u\nunix_socket_dir=@abc\n").unwrap();
    let hosts = loaded.settings.pool("a", "x").unwrap().hosts;
    assert_eq!(hosts, [weir_config::HostAddr::Abstract("abc".into())]);
}

#[test]
fn diff_tells_what_a_reload_can_change() {
    let old = ini("[databases]\na = host=h password=old user=u\nb = host=h\n\
        [pgbouncer]\nauth_file = u\nlisten_port = 6432\npool_mode = session\n")
    .unwrap();
    let new = ini("[databases]\na = host=h password=new user=u\nc = host=h\n\
        [pgbouncer]\nauth_file = u\nlisten_port = 6433\npool_mode = transaction\n")
    .unwrap();
    let changes = diff(&old.settings, &new.settings);
    let text: String = changes.iter().map(|change| format!("{change}\n")).collect();
    expect![[r#"
        listen_port: "6432" to "6433" (needs a restart)
        pool_mode: "session" to "transaction"
        databases.a.password: "***" to "***"
        databases.b removed
        databases.c added
    "#]]
    .assert_eq(&text);
    assert_eq!(
        changes
            .iter()
            .filter(|change| !change.is_reloadable())
            .count(),
        1
    );
    assert!(matches!(&changes[0], Change::Changed { key, .. } if key == "listen_port"));
    assert!(diff(&old.settings, &old.settings).is_empty());
}

#[test]
fn the_descriptor_budget_counts_clients_and_full_pools() {
    let budget = |databases: &str, rest: &str| {
        let text = format!(
            "[databases]\n{databases}\n[pgbouncer]\nauth_file=u\nworkers=1\nmax_client_conn=100\n{rest}"
        );
        fd_budget(&ini(&text).unwrap().settings)
    };
    let none = budget("", "");
    assert!(none > 100);
    assert_eq!(
        budget("a = host=h pool_size=7 reserve_pool_size=2", "") - none,
        9
    );
    assert_eq!(
        budget("a = host=h pool_size=7 max_db_connections=5", "") - none,
        5
    );
    assert_eq!(budget("a = host=h pool_size=0", "") - none, 100);
    assert_eq!(
        budget("* = host=h\n[users]\nu=\nv=pool_size=1", "") - none,
        21
    );
}

#[test]
fn doubtful_sizes_and_open_doors_are_noted() {
    let loaded = ini(
        "[databases]\na = host=h min_pool_size=30\nb = host=h password=p\n\
        [pgbouncer]\nauth_type = any\nlisten_addr = *\nmin_pool_size = 50\n",
    )
    .unwrap();
    expect![[r#"
        auth_type any lets every client that reaches listen_addr log in without a password
        pgbouncer.ini:2: auth_type any needs a user in database "a"; its clients are refused
        pgbouncer.ini:3: database "b" has a password without a user; not used
        pgbouncer.ini:3: auth_type any needs a user in database "b"; its clients are refused
        min_pool_size is above default_pool_size; pools keep at most default_pool_size servers open
        database "a": min_pool_size is above its pool size; its pools keep at most that many servers open"#]]
    .assert_eq(&loaded.notes.join("\n"));
}

#[test]
fn set_changes_one_option_and_keeps_what_the_files_said() {
    let text =
        "[databases]\na = host=h pool_size=3\n[pgbouncer]\nauth_type = any\nquery_timeout = 7\n";
    let loaded = ini(text).unwrap();
    let set = loaded.set("default_pool_size", "5").unwrap();
    assert_eq!(
        set.settings.global.default_pool_size,
        weir_config::PoolSize::Fixed(5)
    );
    assert_eq!(set.settings.pool("a", "u").unwrap().pool_size, 3);
    assert_eq!(
        set.settings.global.query_timeout,
        loaded.settings.global.query_timeout
    );
    assert_eq!(
        set.settings.global.conffile,
        loaded.settings.global.conffile
    );
    let twice = set.set("query_timeout", "0").unwrap();
    assert_eq!(twice.settings.global.query_timeout, None);
    assert_eq!(
        twice.settings.global.default_pool_size,
        weir_config::PoolSize::Fixed(5)
    );
}

#[test]
fn set_refuses_what_a_file_could_not_say_and_what_needs_a_restart() {
    let loaded = ini("[databases]\na = host=h\n[pgbouncer]\nauth_type = any\n").unwrap();
    let why = |key, value| {
        let errors = loaded.set(key, value).unwrap_err();
        errors[0].to_string()
    };
    expect![[r#"SET: unknown key "default_pool_sice" in section [pgbouncer]; did you mean "default_pool_size"?"#]]
        .assert_eq(&why("default_pool_sice", "5"));
    expect![[r#"SET: bad value "many" for "default_pool_size": must be a whole number or auto"#]]
        .assert_eq(&why("default_pool_size", "many"));
    expect![[r#"SET: "listen_port" changes only by a restart"#]]
        .assert_eq(&why("listen_port", "7000"));
    expect!["SET: client_tls_sslmode require needs client_tls_key_file and client_tls_cert_file"]
        .assert_eq(&why("client_tls_sslmode", "require"));
}

#[test]
fn a_pool_of_automatic_size_has_bounds_and_session_pools_none() {
    let pool = |lines: &str, user: &str| {
        let text = format!(
            "[databases]\na = host=h\nb = host=h pool_size=auto\n[users]\nu = pool_size=auto\n[pgbouncer]\nauth_file=u\n{lines}"
        );
        let loaded = crate::load_files("a.ini", &[("a.ini", text.as_str())], &[]).unwrap();
        let of = |name: &str| {
            let pool = loaded.settings.pool(name, user).unwrap();
            (
                pool.pool_size,
                pool.sizing.mode,
                pool.sizing.start,
                pool.reserve_pool_size,
            )
        };
        let notes: Vec<_> = loaded
            .notes
            .iter()
            .filter(|note| note.contains("auto"))
            .collect();
        (of("a"), of("b"), notes.len())
    };
    let transaction =
        "pool_mode = transaction\npool_size_max = 60\npool_size_start = 7\nreserve_pool_size = 5\n";
    let (a, b, notes) = pool(transaction, "x");
    assert_eq!(a, (20, SizingMode::Off, 7, 5));
    assert_eq!((b, notes), ((60, SizingMode::On, 7, 0), 0));
    assert_eq!(pool(transaction, "u").0, (60, SizingMode::On, 7, 0));
    let (_, b, notes) = pool("pool_mode = session\n", "x");
    assert_eq!((b, notes), ((20, SizingMode::Off, 20, 0), 1));
}
