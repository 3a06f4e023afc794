//! Orders that commands give to the engine, and the roles that may give them.

use super::{COMMANDS, Engine, Order, Refusal, Role, Shutdown, ask, example, expect};

/// Each row: the command, the order to the engine, the tag of the answer.
#[test]
fn commands_become_orders() {
    let shop = || "shop".to_owned();
    let set = |value: &str| Order::Set {
        key: "Verbose".to_owned(),
        value: value.to_owned(),
    };
    let cases = [
        ("PAUSE", Order::Pause(None), "PAUSE"),
        ("pause shop;", Order::Pause(Some(shop())), "PAUSE"),
        (
            "PAUSE WRITES shop",
            Order::PauseWrites(shop()),
            "PAUSE WRITES",
        ),
        (
            "pause writes",
            Order::Pause(Some("writes".to_owned())),
            "PAUSE",
        ),
        (
            "pause \"a \"\"b\"",
            Order::Pause(Some("a \"b".to_owned())),
            "PAUSE",
        ),
        ("Resume", Order::Resume(None), "RESUME"),
        ("RESUME shop", Order::Resume(Some(shop())), "RESUME"),
        ("DISABLE shop", Order::Disable(shop()), "DISABLE"),
        ("ENABLE \"shop\"", Order::Enable(shop()), "ENABLE"),
        ("KILL", Order::Kill(None), "KILL"),
        ("KILL shop", Order::Kill(Some(shop())), "KILL"),
        ("KILL_CLIENT 12", Order::KillClient(12), "KILL_CLIENT"),
        ("KILL_CLIENT 0xc", Order::KillClient(12), "KILL_CLIENT"),
        ("RECONNECT", Order::Reconnect(None), "RECONNECT"),
        (
            "RECONNECT shop",
            Order::Reconnect(Some(shop())),
            "RECONNECT",
        ),
        ("WAIT_CLOSE", Order::WaitClose(None), "WAIT_CLOSE"),
        (
            "WAIT_CLOSE shop",
            Order::WaitClose(Some(shop())),
            "WAIT_CLOSE",
        ),
        ("SUSPEND", Order::Suspend, "SUSPEND"),
        ("RELOAD", Order::Reload, "RELOAD"),
        ("SET Verbose=2", set("2"), "SET Verbose=2"),
        ("SET Verbose = '2  3'", set("2  3"), "SET Verbose=2  3"),
        ("set Verbose TO 2", set("2"), "SET Verbose=2"),
        ("set Verbose to ''", set(""), "SET Verbose="),
    ];
    for (sql, order, tag) in cases {
        let mut engine = Engine::new(Role::Admin);
        assert_eq!(engine.ask(sql), format!("C {tag}\nZ I\n"), "{sql}");
        assert_eq!(engine.orders, [order], "{sql}");
    }
}

#[test]
fn shutdowns_stop() {
    let cases = [
        ("shutdown;", Shutdown::Now),
        ("SHUTDOWN wait_for_servers", Shutdown::WaitForServers),
        ("SHUTDOWN WAIT_FOR_CLIENTS", Shutdown::WaitForClients),
    ];
    for (sql, how) in cases {
        let mut engine = Engine::new(Role::Admin);
        assert_eq!(engine.ask(sql), "C SHUTDOWN\nZ I\n", "{sql}");
        assert_eq!(engine.stopped, Some(how), "{sql}");
    }
}

#[test]
fn what_the_engine_refuses_is_told_in_its_words() {
    let shop = || "shop".to_owned();
    let cases = [
        (Refusal::AlreadyPaused, "08P01", "already suspended/paused"),
        (
            Refusal::AdminDatabase("pause", "pgbouncer".to_owned()),
            "08P01",
            "cannot pause admin db: pgbouncer",
        ),
        (
            Refusal::NoDatabase(shop()),
            "08P01",
            "no such database: shop",
        ),
        (
            Refusal::NotPaused(shop()),
            "08P01",
            "database shop is not paused",
        ),
        (
            Refusal::NothingPaused,
            "08P01",
            "pooler is not paused/suspended",
        ),
        (
            Refusal::PausedDatabases,
            "08P01",
            "cannot suspend with paused databases",
        ),
        (Refusal::ShuttingDown, "08P01", "pooler is shutting down"),
        (Refusal::ClientNotFound, "08P01", "client not found"),
        (
            Refusal::ReloadFailed,
            "F0000",
            "RELOAD failed, see logs for additional details",
        ),
        (
            Refusal::Cancelled,
            "57014",
            "canceling statement due to user request",
        ),
    ];
    for (refusal, code, text) in cases {
        let mut engine = Engine::new(Role::Admin);
        engine.outcome = Err(refusal);
        let wanted = format!("E SERROR VERROR C{code} M{text}\nZ I\n");
        assert_eq!(engine.ask("PAUSE"), wanted);
        engine.outcome = Ok(());
        assert_eq!(engine.ask("PAUSE"), "C PAUSE\nZ I\n", "and goes on");
    }
}

#[test]
fn what_pgbouncer_dropped_is_refused_by_name() {
    expect![[r#"
        E SERROR VERROR C0A000 MSHOW FDS is not supported: a restart that hands over connections is `weir upgrade`
        Z I
    "#]]
    .assert_eq(&ask(Role::Admin, "SHOW FDS"));
}

#[test]
fn every_command_obeys_its_role() {
    for entry in COMMANDS {
        for role in [Role::Stats, Role::Admin] {
            let sql = example(entry);
            let answer = ask(role, &sql);
            let refused = answer.contains("admin access needed");
            assert_eq!(refused, role < entry.role, "{sql} as {role:?}: {answer}");
            assert!(!answer.contains("invalid command"), "{sql}: {answer}");
            assert!(answer.ends_with("Z I\n"), "{sql}");
        }
    }
}

#[test]
fn what_is_refused_does_nothing() {
    for entry in COMMANDS {
        let mut engine = Engine::new(Role::Stats);
        engine.ask(example(entry));
        assert_eq!(engine.orders, [], "{}", entry.name);
        assert_eq!(engine.stopped, None, "{}", entry.name);
    }
}
