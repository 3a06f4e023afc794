//! A first look at both steps.

use weir_sql::{Asks, Effects, Functions, Reason, Resets, is_harmless, judge};

fn effects(text: &str) -> Effects {
    judge(text.as_bytes(), &Functions::default())
}

#[test]
fn pgbench_is_proven_harmless() {
    for text in [
        "BEGIN;",
        "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7;",
        "SELECT abalance FROM pgbench_accounts WHERE aid = 7;",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 2, 3, 4, CURRENT_TIMESTAMP);",
        "END;",
    ] {
        assert!(
            is_harmless(text.as_bytes(), &Functions::default()),
            "{text}"
        );
    }
}

#[test]
fn what_the_tree_says() {
    let names = |names: &[&str]| Asks::Settings(names.iter().map(|name| (*name).into()).collect());
    assert_eq!(
        effects("SET Search_Path = a, b").asks,
        names(&["search_path"])
    );
    assert_eq!(
        effects("set time zone 'UTC'; set names 'utf8'").asks,
        names(&["timezone", "client_encoding"])
    );
    assert_eq!(
        effects("RESET role").resets,
        Resets::Names(["role".into()].into())
    );
    assert_eq!(
        effects("select set_config('a.b', 'x', true)").asks,
        Asks::Nothing
    );
    assert_eq!(
        effects("select set_config('A.b', 'x', false)").asks,
        names(&["a.b"])
    );
    assert_eq!(effects("select set_config($1, $2, $3)").asks, Asks::All);
    assert!(
        effects("select 1 into temp t")
            .reasons
            .contains(Reason::TemporaryObject)
    );
    assert!(
        effects("create table pg_temp.t ()")
            .reasons
            .contains(Reason::TemporaryObject)
    );
    assert!(
        effects("select (select pg_try_advisory_lock(1))")
            .reasons
            .contains(Reason::AdvisoryLock)
    );
    assert!(
        effects("declare c cursor with hold for select 1")
            .reasons
            .contains(Reason::Cursor)
    );
    assert!(
        effects("prepare p as select 1")
            .reasons
            .contains(Reason::Prepared)
    );
    assert!(effects("load 'x'").certain.contains(Reason::Library));
    assert_eq!(effects("select 1; select 2").statements, 2);
}
