//! Stories of clusters.

use super::*;
use crate::backend::{Backend, Database};
use crate::reading::outline;
use crate::say::say;

const READ: &str = "SELECT a FROM public.sink WHERE a <> 'x'";

fn session(cluster: &Cluster, host: usize) -> Backend {
    Backend::open_at(&Database::default(), &cluster.site(host), "ann", &[])
}

fn ask(session: &mut Backend, sql: &str) -> String {
    outline(&session.converse(&say().query(sql)))
}

#[test]
fn a_standby_shows_commits_when_it_has_replayed_them() {
    let cluster = Cluster::new(2);
    let (mut primary, mut standby) = (session(&cluster, 0), session(&cluster, 1));
    ask(&mut primary, "INSERT INTO public.sink VALUES ('c1-0-0')");
    assert_eq!(ask(&mut standby, READ), "T C(SELECT 0) Z(I)");
    cluster.catch_up();
    assert_eq!(ask(&mut standby, READ), "T D(c1-0-0) C(SELECT 1) Z(I)");
}

#[test]
fn an_open_transaction_shows_its_rows_to_its_session_only() {
    let cluster = Cluster::new(1);
    let (mut own, mut other) = (session(&cluster, 0), session(&cluster, 0));
    ask(&mut own, "BEGIN; INSERT INTO public.sink VALUES ('c1-0-0')");
    assert_eq!(ask(&mut own, READ), "T D(c1-0-0) C(SELECT 1) Z(T)");
    assert_eq!(ask(&mut other, READ), "T C(SELECT 0) Z(I)");
    ask(&mut own, "ROLLBACK");
    assert_eq!(ask(&mut own, READ), "T C(SELECT 0) Z(I)");
}

#[test]
fn a_standby_refuses_what_writes() {
    let cluster = Cluster::new(2);
    let mut standby = session(&cluster, 1);
    for (sql, what) in [
        ("INSERT INTO public.sink VALUES ('c')", "INSERT"),
        ("CREATE TEMP TABLE t (a text)", "CREATE TABLE"),
        ("SELECT nextval('public.s')", "nextval()"),
        ("SELECT note('c')", "INSERT"),
    ] {
        let heard = ask(&mut standby, sql);
        let expect = format!("25006 cannot execute {what} in a read-only transaction");
        assert!(heard.contains(&expect), "{heard}");
    }
    let heard = ask(&mut standby, "LISTEN a");
    assert!(heard.contains("25006 cannot execute LISTEN during recovery"));
    assert!(cluster.take_deeds().is_empty());
}

#[test]
fn a_read_only_block_refuses_writes_on_a_primary_too() {
    let cluster = Cluster::new(1);
    let mut primary = session(&cluster, 0);
    ask(&mut primary, "BEGIN READ ONLY");
    let heard = ask(&mut primary, "INSERT INTO public.sink VALUES ('c')");
    assert!(heard.contains("25006"), "{heard}");
    ask(&mut primary, "ROLLBACK");
    let heard = ask(&mut primary, "INSERT INTO public.sink VALUES ('c')");
    assert_eq!(heard, "C(INSERT 0 1) Z(I)");
}

#[test]
fn a_promotion_loses_what_was_not_received() {
    let cluster = Cluster::new(3);
    let mut old = session(&cluster, 0);
    ask(&mut old, "INSERT INTO public.sink VALUES ('kept')");
    cluster.catch_up();
    ask(&mut old, "INSERT INTO public.sink VALUES ('gone')");
    cluster.crash(0);
    cluster.promote(1);
    assert_eq!((cluster.leader(), cluster.has("kept")), (1, true));
    assert!(cluster.is_lost("gone") && !cluster.has("gone"));
    cluster.follow(0, true);
    cluster.start(0, false);
    assert!(cluster.is_standby(0) && cluster.facts(0).timeline == 2);
}

#[test]
fn a_commit_that_does_not_wait_is_lost_with_its_host() {
    let cluster = Cluster::new(1);
    let mut session = session(&cluster, 0);
    ask(&mut session, "SET synchronous_commit TO off");
    ask(&mut session, "INSERT INTO public.sink VALUES ('late')");
    assert!(cluster.has("late"));
    cluster.crash(0);
    cluster.start(0, false);
    assert!(cluster.is_lost("late") && !cluster.has("late"));
}
